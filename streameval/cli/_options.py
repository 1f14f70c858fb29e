"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Window = Annotated[
    str | None, typer.Option(help="The last 90s, 15m, 1h, 7d... [default: all time]")
]
SegmentOption = Annotated[
    str | None, typer.Option(help="One slice, for instance country=US. [default: the whole]")
]
Address = Annotated[str, typer.Argument(metavar="HOST:PORT", help="Address of the server.")]
AddressOrData = Annotated[
    str | None,
    typer.Argument(
        metavar="[HOST:PORT]",
        help="Address of a server. [default: none, read the data directory itself]",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(help="The server's data directory. [default: as 'streameval serve' has it]"),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The server's settings: its directory, and its limits."),
]
