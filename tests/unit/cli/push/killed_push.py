"""Runs ``streameval push`` with small pieces in processes that are killed at chosen moments.

Arguments: those of the command. Each line of the input names a moment, and how often it is to be
reached; the answer is the exit code. What the command imports takes longer than the command, so
all these processes are forks of one that has imported it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streameval.cli import _pieces
from streameval.cli._app import app
from streameval.cli._load import Load
from streameval.client._delivery.numbered_upload import NumberedUpload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE_ROWS = 50

MOMENTS: dict[str, tuple[type, str]] = {
    "create": (Load, "_send"),
    "begin": (Load, "_begin"),
    "put": (NumberedUpload, "put"),
    "settle": (NumberedUpload, "_settle"),
    "finish": (NumberedUpload, "finish"),
    "close": (NumberedUpload, "close"),
}
"""The method at whose beginning the process dies."""


def die_at(moment: str, times: int) -> None:
    """Replace a method by one that kills the process when it is called so often."""
    kind, name = MOMENTS[moment]
    method: Callable[..., Any] = getattr(kind, name)
    calls = 0

    def dying(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == times:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*arguments, **options)

    setattr(kind, name, dying)


def run_and_die(moment: str, times: int) -> int:
    """Run the command in a fork; return its exit code."""
    child = os.fork()
    if not child:
        try:
            die_at(moment, times)
            app(sys.argv[1:])
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def killed_push(*command: object) -> Iterator[Callable[[str, int], int]]:
    """Yield a function that runs the command until it is killed, and returns its exit code."""
    with subprocess.Popen(
        [sys.executable, __file__, *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(moment: str, times: int) -> int:
            stdin.write(f"{moment} {times}\n")
            stdin.flush()
            return int(stdout.readline())

        yield run
        stdin.close()


if __name__ == "__main__":
    _pieces.PIECE_ROWS = PIECE_ROWS
    for line in sys.stdin:
        name, number = line.split()
        print(run_and_die(name, int(number)), flush=True)
