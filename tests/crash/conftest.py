"""Server processes that tests can kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Process:
    """A server process; it logs warnings and errors only, unless a flag says otherwise."""

    def __init__(self, *command: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"STREAMEVAL_LOG_LEVEL": "warning", **os.environ},
        )
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        self.address = line.split()[-1] if line else ""

    def kill(self) -> None:
        """Kill it with SIGKILL, as abruptly as a power cut."""
        self.popen.kill()
        self.popen.communicate(timeout=30)

    def terminate(self) -> tuple[int, str]:
        """Stop it with a signal; return its exit code and its stderr."""
        self.popen.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and its stderr."""
        _, errors = self.popen.communicate(timeout=30)
        return self.popen.returncode, errors


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Return a function that starts ``python``; processes that still run are killed."""
    processes: list[Process] = []

    def started(*command: str) -> Process:
        processes.append(Process(*command))
        return processes[-1]

    yield started
    for process in processes:
        if process.popen.poll() is None:
            process.kill()


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return the path of a data directory that does not exist yet."""
    return tmp_path / "data"
