"""System calls of a running process that fail, or end it, through strace."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

DEADLINE_S = 20.0


class Fault:
    """Injects something into a system call of a process and all its threads, until `end`.

    Parameters
    ----------
    pid
        The process, which runs already.
    call : str
        For instance ``fdatasync``.
    what : str
        ``error=EIO``, ``signal=KILL``; empty to look only.
    log : Path
        What strace writes; a call that was tampered with says INJECTED.
    when : str
        Which of the calls from now on: ``3``, ``3+``, ``3..5``.
    """

    def __init__(self, pid: int, call: str, what: str, log: Path, when: str = "1+") -> None:
        inject = ["-e", f"inject={call}:{what}:when={when}"] if what else []
        self._log = log
        self._popen = subprocess.Popen(
            ["strace", "-f", "-p", str(pid), "-o", str(log), "-e", f"trace={call}", *inject],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + DEADLINE_S
        while not traced(pid):
            if self._popen.poll() is not None:
                assert self._popen.stderr is not None
                raise PermissionError(self._popen.stderr.read())
            assert time.monotonic() < deadline, "strace does not attach"
            time.sleep(0.002)

    def end(self) -> None:
        """Let the process go on without faults; harmless when it has ended."""
        self._popen.terminate()
        self._popen.communicate(timeout=DEADLINE_S)

    @property
    def hits(self) -> int:
        """How many calls were tampered with; to be asked after `end`."""
        return self._log.read_text().count("(INJECTED)")

    @property
    def calls(self) -> int:
        """How many calls there were in all."""
        return len(re.findall(r"^\d+ +\w+\(", self._log.read_text(), re.MULTILINE))


def traced(pid: int) -> bool:
    """Whether somebody traces all threads of a process."""
    statuses = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/status")]
    return bool(statuses) and not any("\nTracerPid:\t0\n" in each for each in statuses)
