"""What tests of every kind need."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

# The same examples in every run; timings are for bench/, not for tests.
settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Let nothing be skipped where STREAMEVAL_TEST_REQUIRE=all says that all tools are there."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("STREAMEVAL_TEST_REQUIRE") == "all":
        terminalreporter.write_line("STREAMEVAL_TEST_REQUIRE=all, but tests were skipped", red=True)
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def require() -> Callable[[str], ModuleType]:
    """Return a function that imports a library, or skips the test and names what is absent.

    With STREAMEVAL_TEST_REQUIRE=all the test fails instead.
    """

    def library(name: str) -> ModuleType:
        root = name.partition(".")[0]
        if importlib.util.find_spec(root) is None:
            if os.environ.get("STREAMEVAL_TEST_REQUIRE") == "all":
                pytest.fail(f"{root} is not installed")
            pytest.skip(f"{root} is not installed")
        return importlib.import_module(name)

    return library


@pytest.fixture(scope="session")
def require_command() -> Callable[[str], str]:
    """Return a function that finds a command, or skips the test and names what is absent.

    With STREAMEVAL_TEST_REQUIRE=all the test fails instead.
    """

    def command(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            if os.environ.get("STREAMEVAL_TEST_REQUIRE") == "all":
                pytest.fail(f"the command {name} is not installed")
            pytest.skip(f"the command {name} is not installed")
        return path

    return command
