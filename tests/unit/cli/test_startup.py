"""What a command imports, the module as a program, and completion in shells."""

from __future__ import annotations

import os
import subprocess
import sys
from contextvars import copy_context
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval import __version__
from streameval.cli import _health
from streameval.cli._connection import ConnectionOptions, current_connection
from streameval.cli._probe import run_probe
from streameval_server.testing import running_server

from ...commands import CommandRunner, app

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
    arguments = [command] if command == "--version" else [command, "--server", address]
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
    slow = SLOW | ({"grpc"} if command == "--version" else {"typer", "pydantic", "rich"})
    assert not slow & {each for name in modules.split() for each in (name, name.split(".")[0])}


PROBES = [
    "health",
    "health --server host:1 --timeout-s 2.5",
    "health --timeout-s=0.1 --server=host:1 --tls",
    "--root-certificates ca.pem health --profile p.toml",
    "--tls --root-certificates no.pem health --server host:1 --root-certificates ca.pem",
    "health --client-certificate c.pem --client-key c.key --token-file token",
    "--client-key c.key --client-certificate c.pem --server host:1 health",
]


@pytest.mark.parametrize("line", PROBES)
def test_the_quick_way_reads_a_command_line_as_the_complete_one(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same seconds and connection; the health of the server is the exit code."""
    calls: list[tuple[float, ConnectionOptions]] = []

    def health(timeout_s: float) -> bool:
        calls.append((timeout_s, current_connection.get()))
        return len(calls) == 1

    monkeypatch.setattr(_health, "health", health)
    with pytest.raises(SystemExit) as stop:
        copy_context().run(run_probe, line.split())
    assert stop.value.code == 0
    assert copy_context().run(CommandRunner().invoke, app, line.split()).exit_code == 1
    assert calls[0] == calls[1]


@pytest.mark.parametrize(
    "line",
    [
        "health --help",
        "health host:1",
        "health --timeout-s 0",
        "health --timeout-s inf",
        "health --timeout-s soon",
        "health --time 1",
        "--timeout-s 1 health",
        "health --client-key",
        "query health health",
        "streams list health",
    ],
)
def test_the_quick_way_leaves_the_rest_to_the_complete_one(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Help, mistakes and other commands are its business: nothing is printed before."""
    run_probe(line.split())
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("grpc", ["health", "--server", "127.0.0.1:1"], "cli"),
        ("grpc", ["query", "--server", "127.0.0.1:1", "fraud/v3"], "client"),
        ("rich", ["query", "--server", "127.0.0.1:1", "fraud/v3"], "cli"),
        ("starlette", ["serve"], "server"),
        ("platformdirs", ["admin", "verify", "--data", "."], "server"),
        ("streameval_server", ["serve"], "server"),
        ("streameval_server", ["admin", "compact", "--data", "."], "server"),
        (
            "streameval_server",
            ["admin", "token", "a", "--tokens", "t", "--scope", "query"],
            "server",
        ),
        ("matplotlib", ["report", "--server", "127.0.0.1:1", "a", "--output", "a.html"], "plot"),
        ("pyarrow", ["evaluate", __file__], "files"),
        ("pyarrow", ["push", "a", __file__, "--server", "127.0.0.1:1"], "files"),
    ],
)
@pytest.mark.slow
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


@pytest.mark.slow
def test_commands_without_files_need_no_pyarrow(tmp_path: Path, address: str) -> None:
    """Without the extra `files`, lists of scores and streams of a server are printed."""
    scores = tmp_path / "scores.txt"
    scores.write_text("0.9 1\n0.8 1\n0.7 0\n0.3 0\n")
    for arguments in (
        ["auc", str(scores)],
        ["query", "--server", address, "none"],
        ["streams", "list", "--server", address],
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


def test_orders_are_completed() -> None:
    """The names for `top --order`, with those of the registry."""
    done = run(
        *("-m", "streameval"),
        _STREAMEVAL_COMPLETE="complete_bash",
        COMP_WORDS="streameval top host:1 --order auc_r",
        COMP_CWORD="4",
    )
    assert "auc_roc" in done.stdout.split()
