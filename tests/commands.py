"""Runs the commands inside the test's process."""

from __future__ import annotations

import inspect
import io
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

if TYPE_CHECKING:
    from collections.abc import Iterator


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
