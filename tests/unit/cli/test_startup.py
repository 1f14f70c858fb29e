"""What a command imports, the module as a program, and completion in shells."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval import __version__
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLOW = {"numpy", "pyarrow", "matplotlib", "streameval.client", "streameval_server"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a running server."""
    with running_server() as address:
        yield address


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
    )


@pytest.mark.parametrize("command", ["--version", "health"])
def test_quick_commands_import_nothing_slow(command: str, address: str) -> None:
    """Probes run `health` every few seconds: it imports gRPC and no metrics, no tables."""
    arguments = [command] if command == "--version" else [command, address]
    script = f"""
import sys
sys.argv = ["streameval", *{arguments!r}]
from streameval.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print(*sorted(sys.modules))
"""
    done = run("-c", script)
    assert done.returncode == 0, done.stderr
    said, modules = done.stdout.splitlines()
    assert said == (__version__ if command == "--version" else "SERVING")
    slow = SLOW | ({"grpc"} if command == "--version" else set())
    assert not slow & set(modules.split())


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("grpc", ["health", "127.0.0.1:1"], "cli"),
        ("grpc", ["query", "127.0.0.1:1", "fraud/v3"], "client"),
        ("rich", ["query", "127.0.0.1:1", "fraud/v3"], "cli"),
        ("starlette", ["serve"], "server"),
        ("platformdirs", ["admin", "verify", "--data", "."], "server"),
        ("pyarrow", ["evaluate", __file__], "files"),
        ("pyarrow", ["push", __file__, "--to", "127.0.0.1:1", "--stream", "a"], "files"),
    ],
)
def test_a_missing_extra_is_one_line(missing: str, arguments: list[str], extra: str) -> None:
    """A command whose libraries are not installed says which extra has them."""
    done = run(
        "-c",
        f"""
import sys
sys.modules[{missing!r}] = None
sys.argv = ["streameval", *{arguments!r}]
from streameval.cli import main
main()
""",
    )
    assert done.returncode
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"{missing} is missing; pip install 'streameval[{extra}]'" in done.stderr


def test_commands_without_files_need_no_pyarrow(tmp_path: Path, address: str) -> None:
    """Without the extra `files`, lists of scores and streams of a server are printed."""
    scores = tmp_path / "scores.txt"
    scores.write_text("0.9 1\n0.8 1\n0.7 0\n0.3 0\n")
    for arguments in (
        ["auc", str(scores)],
        ["query", address, "none"],
        ["streams", "list", address],
    ):
        done = run(
            "-c",
            f"""
import sys
sys.modules["pyarrow"] = None
sys.argv = ["streameval", *{arguments!r}]
from streameval.cli import main
main()
""",
        )
        assert "pyarrow" not in done.stderr + done.stdout
        assert done.returncode == 0 or "there is no stream none" in done.stderr


def test_the_package_is_a_program() -> None:
    """`python -m streameval` is the command."""
    done = run("-m", "streameval", "--version")
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")


def test_completion_prints_a_script() -> None:
    """`--show-completion` prints the script for a shell; it completes the commands' names."""
    done = run(
        *("-m", "streameval", "--show-completion", "bash"),
        _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
    )
    assert done.returncode == 0, done.stderr
    assert "_STREAMEVAL_COMPLETE=complete_bash" in done.stdout
    done = run(
        *("-m", "streameval"),
        _STREAMEVAL_COMPLETE="complete_bash",
        COMP_WORDS="streameval he",
        COMP_CWORD="1",
    )
    assert done.stdout.split() == ["health"]


def test_metrics_are_completed() -> None:
    """The names for `top --metric` come from the registry."""
    done = run(
        *("-m", "streameval"),
        _STREAMEVAL_COMPLETE="complete_bash",
        COMP_WORDS="streameval top host:1 --metric auc_r",
        COMP_CWORD="4",
    )
    assert "auc_roc" in done.stdout.split()
