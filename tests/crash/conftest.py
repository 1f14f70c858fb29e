"""Server processes that tests can kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from .forks import ForkedProcess, Forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Process:
    """A server process."""

    def __init__(self, popen: subprocess.Popen[str] | ForkedProcess) -> None:
        self.popen = popen
        assert popen.stdout is not None
        line = popen.stdout.readline()
        self.address = line.split()[-1] if line else ""

    def kill(self) -> None:
        """Kill it with SIGKILL, as abruptly as a power cut."""
        self.popen.kill()
        self.popen.communicate()

    def terminate(self) -> tuple[int, str]:
        """Stop it with a signal; return its exit code and its stderr."""
        self.popen.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and its stderr."""
        _, errors = self.popen.communicate()
        assert self.popen.returncode is not None
        return self.popen.returncode, errors


def environment() -> dict[str, str]:
    """Return the variables of a server; it logs warnings and errors only, unless a flag differs."""
    return {"STREAMEVAL_LOG_LEVEL": "warning", **os.environ}


def killed_at_the_end(
    popen: Callable[..., subprocess.Popen[str] | ForkedProcess],
) -> Iterator[Callable[..., Process]]:
    """Yield a function that starts a command; kill the processes that still run."""
    processes: list[Process] = []

    def started(*command: str) -> Process:
        processes.append(Process(popen(*command)))
        return processes[-1]

    yield started
    for process in processes:
        if process.popen.poll() is None:
            process.kill()


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Return the process whose forks are the servers of most tests."""
    with closing(Forks()) as forks:
        yield forks


@pytest.fixture
def start(forks: Forks) -> Iterator[Callable[..., Process]]:
    """Return a function that starts a server as a fork."""
    yield from killed_at_the_end(lambda *command: forks.start(*command, environment=environment()))


@pytest.fixture
def start_python() -> Iterator[Callable[..., Process]]:
    """Return a function that starts ``python``."""
    yield from killed_at_the_end(
        lambda *command: subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
    )


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return the path of a data directory that does not exist yet."""
    return tmp_path / "data"
