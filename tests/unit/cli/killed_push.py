"""Runs ``streameval push`` with small pieces, and kills the process at a moment of its choice.

Arguments: a moment, how often it is to be reached, and the arguments of the command.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from streameval.cli import _pieces
from streameval.cli._app import app
from streameval.cli._load import Load
from streameval.client._delivery.numbered_upload import NumberedUpload

if TYPE_CHECKING:
    from collections.abc import Callable

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


if __name__ == "__main__":
    _pieces.PIECE_ROWS = PIECE_ROWS
    die_at(sys.argv[1], int(sys.argv[2]))
    app(sys.argv[3:])
