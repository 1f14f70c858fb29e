"""Arguments and options that several commands share, and their parsers."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streameval._common.errors import StreamEvalError


class Format(StrEnum):
    """The content of the lines of a file for ``streameval auc``."""

    LIST = "list"
    ROC = "roc"
    PR = "pr"


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Window = Annotated[
    str | None, typer.Option(help="The last 90s, 15m, 1h, 7d... [default: all time]")
]
SegmentOption = Annotated[
    str | None, typer.Option(help="One slice, for instance country=US. [default: the whole stream]")
]
Address = Annotated[str, typer.Argument(metavar="HOST:PORT", help="Address of the server.")]
AddressOrData = Annotated[
    str | None,
    typer.Argument(
        metavar="[HOST:PORT]",
        help="Address of a server. [default: none, read the data directory]",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(help="The server's data directory. [default: that of 'streameval serve']"),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The server's settings: its data directory and limits."),
]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_span(text: str) -> timedelta:
    """Read a span such as ``90s``, ``15m``, ``1h``, ``7d``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if match is None or not float(match[1]):
        raise StreamEvalError(f"--window {text!r}: use a span such as 90s, 15m, 1h or 7d")
    return timedelta(**{_UNITS[match[2]]: float(match[1])})


def parse_segment(text: str | None) -> tuple[str, str] | None:
    """Read ``key=value``."""
    if text is None:
        return None
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise StreamEvalError(f"--segment {text!r}: use key=value, for instance country=US")
    return key, value
