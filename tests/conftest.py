"""Fixtures and hooks for all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import random
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import settings

# The same examples in every run; timings are for bench/, not for tests.
settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


LONG_FILES = (
    *("simulation", "fuzz", "crash", "browser", "newcomers", "bench", "deploy"),
    *("examples", "docs", "kafka"),
)
"""The folders whose files take longest, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files: one that came last would leave the other processes idle."""

    def rank(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return LONG_FILES.index(folder) if folder in LONG_FILES else len(LONG_FILES)

    items.sort(key=rank)


def pytest_collection() -> None:
    """Look for no garbage among what is imported and collected: it is a third of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Take what was imported and collected, a million objects, out of garbage collections."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Fail on skipped tests when STREAMEVAL_TEST_REQUIRE=all promises that all tools are there."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("STREAMEVAL_TEST_REQUIRE") == "all":
        terminalreporter.write_line("STREAMEVAL_TEST_REQUIRE=all, but tests were skipped", red=True)
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED


def refuse(reason: str) -> NoReturn:
    """Skip a test that cannot run here; with STREAMEVAL_TEST_REQUIRE=all it fails instead."""
    if os.environ.get("STREAMEVAL_TEST_REQUIRE") == "all":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def require() -> Callable[[str], ModuleType]:
    """Return a function that imports a library, or skips and names what is missing."""

    def library(name: str) -> ModuleType:
        root = name.partition(".")[0]
        if importlib.util.find_spec(root) is None:
            refuse(f"{root} is not installed")
        return importlib.import_module(name)

    return library


@pytest.fixture(scope="session")
def require_command() -> Callable[[str], str]:
    """Return a function that finds a command, or skips and names what is missing."""

    def command(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            refuse(f"the command {name} is not installed")
        return path

    return command


@pytest.fixture(scope="session")
def chromium(require_command: Callable[[str], str]) -> str:
    """Return the path of a Chromium; the one without windows takes 40 % less of the processor."""
    return shutil.which("chromium-headless-shell") or require_command("chromium")


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Return a function that finds a free port.

    It is below the ports that systems give to sockets without one of their own (from 32768 on
    Linux), so no server or connection of another test takes it before it is used.
    """

    def port() -> int:
        while True:
            number = random.SystemRandom().randrange(20_000, 32_768)
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind(("127.0.0.1", number))
                return number

    return port


@pytest.fixture
def free_address(free_port: Callable[[], int]) -> str:
    """Return an address without a listener."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def memory() -> Iterator[Path]:
    """Return a folder for many files, in memory if possible: there no sync waits for a disk."""
    shared = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for PATH with the command `streameval`, whether it is installed or not."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "streameval"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nfrom streameval.cli import main\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    return folder
