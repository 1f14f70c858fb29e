"""Runs the commands inside the test's process."""

from __future__ import annotations

import inspect
import io
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from streameval.cli._app import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result


class CommandRunner(CliRunner):
    """A runner whose results have stdout and stderr apart, with any version of click.

    Before version 8.2 click mixes the two unless it is told not to, and then reads stderr
    without flushing it; later versions always keep them apart.
    """

    def __init__(self, **options: Any) -> None:
        if "mix_stderr" in inspect.signature(CliRunner).parameters:
            options["mix_stderr"] = False
        super().__init__(**options)

    @contextmanager
    def isolation(self, *args: Any, **options: Any) -> Iterator[Any]:
        """Replace the streams, so that nothing stays in a buffer."""
        with super().isolation(*args, **options) as streams:
            assert isinstance(sys.stderr, io.TextIOWrapper)
            sys.stderr.reconfigure(write_through=True)
            yield streams


def run(*arguments: object) -> Result:
    """Return the result of a command."""
    return CommandRunner().invoke(app, [str(argument) for argument in arguments])


def outcome(*arguments: object, answer: str | None = None) -> tuple[int, str, str]:
    """Return the exit code of a command and what it printed; `answer` is its standard input."""
    result = CommandRunner().invoke(app, [str(argument) for argument in arguments], input=answer)
    return result.exit_code, result.stdout, result.stderr


def refusal(result: Result) -> str:
    """Return the one line of a command that refused something."""
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.strip()


def report_of(address: str, stream: str, directory: Path, *options: str) -> str:
    """Return the report of a stream, which the command writes into `directory`."""
    file = directory / "report.html"
    made = CommandRunner().invoke(
        app, ["report", "--server", address, stream, "-o", str(file), *options]
    )
    assert made.exit_code == 0, made.output
    assert made.stdout.strip() == str(file)
    return file.read_text(encoding="utf-8")
