"""Faults in the system calls of a running process, injected by strace."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

DEADLINE_S = 20.0


class Fault:
    """Injects faults into a system call of a process and all its threads, until `end`.

    Parameters
    ----------
    pid
        The running process.
    call : str
        For instance ``fdatasync``.
    what : str
        ``error=EIO``, ``signal=KILL``; empty to count the calls only.
    log : Path
        Strace's output; it marks a faulty call with INJECTED.
    when : str
        Which calls, counted from now on: ``3``, ``3+``, ``3..5``.
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
        """Stop injecting faults; has no effect when the process has ended."""
        self._popen.terminate()
        self._popen.communicate(timeout=DEADLINE_S)

    @property
    def hits(self) -> int:
        """The number of faulty calls; valid after `end`."""
        return self._log.read_text().count("(INJECTED)")

    @property
    def calls(self) -> int:
        """The number of all calls."""
        return len(re.findall(r"^\d+ +\w+\(", self._log.read_text(), re.MULTILINE))


def traced(pid: int) -> bool:
    """Whether all threads of a process are traced."""
    statuses = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/status")]
    return bool(statuses) and not any("\nTracerPid:\t0\n" in each for each in statuses)
