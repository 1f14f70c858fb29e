"""Arguments and options that several commands share, and their parsers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from streameval._common.errors import StreamEvalError
from streameval._common.spans import parse_segment, parse_span

_SPANS = frozenset({"pane", "retention", "label_ttl", "relabel_ttl"})
"""The settings that are durations."""


class LineFormat(StrEnum):
    """The content of the lines of a file for ``streameval auc``."""

    LIST = "list"
    ROC = "roc"
    PR = "pr"


class DecimalSign(StrEnum):
    """What stands before the decimals of a number."""

    POINT = "."
    COMMA = ","


class TimeUnit(StrEnum):
    """The units of times that are numbers."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


StreamName = Annotated[str, typer.Argument(help="Stream, for instance fraud/v3.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Window = Annotated[
    str | None, typer.Option(help="The last 90s, 15m, 1h, 7d... [default: all time]")
]
SegmentOption = Annotated[
    str | None,
    typer.Option(
        help="One slice: country=US; country= for rows without a value. [default: the whole stream]"
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="One row for each value of a segment key instead, or of two that are crossed "
        "(country*channel): the worst first, and since when it is lower.",
    ),
]
Pane = Annotated[
    str | None,
    typer.Option(help="Shortest time slice with counts of its own: 10s, 1m... [default: 1m]"),
]
Retention = Annotated[
    str | None, typer.Option(help="How long panes are kept: 90d, 10y... [default: 30d]")
]
StreamResolution = Annotated[
    int | None,
    typer.Option("--resolution", min=1, help="Bits of a score that a pane keeps. [default: 12]"),
]
MaxPending = Annotated[
    int | None, typer.Option(min=1, help="The most ids that are kept. [default: 2000000]")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Data = Annotated[
    Path | None,
    typer.Option(help="The server's data directory. [default: as for 'streameval serve']"),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The server's settings: its data directory and limits."),
]
NewFile = Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")]
Export = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An export.")]
Rejects = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        dir_okay=False,
        help="NDJSON file for the rows that cannot be counted, with file, row and reason; all "
        "others are pushed. Each push replaces the file. [default: the first such row is an "
        "error, and none is pushed]",
    ),
]

Delimiter = Annotated[
    str,
    typer.Option(
        "--delimiter",
        metavar="CHARACTER",
        help="What separates the values of a CSV file: ',', ';', '|' or '\\t'.",
    ),
]
Decimal = Annotated[
    DecimalSign,
    typer.Option("--decimal", help="What stands before the decimals of numbers in a text file."),
]
TimeUnitOption = Annotated[
    TimeUnit | None,
    typer.Option(
        "--time-unit",
        help="Unit of times that are numbers since 1970. [default: s, and what is no likely time "
        "in it is refused]",
    ),
]

Size = Annotated[int, typer.Option(min=1, help="How many predictions to label.")]
SampleMetric = Annotated[
    str, typer.Option("--metric", help="What the labels are to narrow most, for instance auc_roc.")
]
Threshold = Annotated[
    float | None, typer.Option(help="Of figures at a threshold: precision, recall, ...")
]
Prevalence = Annotated[
    float | None, typer.Option(help="To rescale figures of precision and recall to.")
]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Seed of the draw. [default: random, and printed]")
]
SampleFile = Annotated[
    Path | None,
    typer.Option("--csv", help="Draw ids, and write them to this new file with an empty label."),
]
DrawIds = Annotated[bool, typer.Option("--ids", help="Draw ids for --json, too.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="A span in place of --window: ISO 8601."),
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Its end.")]


def _orders() -> list[str]:
    from streameval.cli import _list_reading  # noqa: PLC0415 - slow to import

    return list(_list_reading.ORDERS)


ListWindow = Annotated[
    str | None,
    typer.Option("--window", help="The last 90s, 15m, 1h, 7d..., or all. [default: 1d]"),
]
Order = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What comes first: alarms, change, projected, volume, coverage, newest, name, or a "
        "figure, for instance auc_roc, the worst first. [default: alarms]",
        autocompletion=_orders,
    ),
]
Reverse = Annotated[bool, typer.Option("--reverse", help="The other way round.")]
Search = Annotated[str, typer.Option(help="Only streams whose names contain this, in any case.")]
Prefix = Annotated[str, typer.Option(help="Only streams whose names begin with this.")]
Limit = Annotated[int | None, typer.Option(min=1, help="The most streams. [default: all]")]


def parse_delimiter(text: str) -> str:
    r"""Read the delimiter of a CSV file: one character, or ``\t`` for a tab."""
    delimiter = "\t" if text in ("\\t", "tab") else text
    if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        raise StreamEvalError(f"--delimiter must be one character, such as ';', got {text!r}")
    return delimiter


def parse_settings(**options: Any) -> dict[str, Any]:
    """Return the options that were given as settings of the client."""
    settings: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or value == []:
            continue
        option = "--" + name.replace("_", "-")
        settings[name] = parse_span(value, option) if name in _SPANS else value
    return settings


def parse_time(text: str, option: str) -> datetime:
    """Read a time as files and mappings have it."""
    from streameval._common.times import read_time_us  # noqa: PLC0415 - imports numpy

    try:
        time_us = read_time_us(text, "", option, option="a number of {}")
    except ValueError as error:
        raise StreamEvalError(str(error)) from None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


def parse_part(
    window: str | None, segment: str | None, start: str | None = None, end: str | None = None
) -> dict[str, Any]:
    """Return a window, or a span in its place, and a segment as arguments of the client."""
    if (start is None) != (end is None):
        raise StreamEvalError("give both --from and --to")
    covered: Any = None if window is None else parse_span(window)
    if start is not None and end is not None:
        if window is not None:
            raise StreamEvalError("give --window, or --from and --to")
        covered = parse_time(start, "--from"), parse_time(end, "--to")
    return {"window": covered, "segment": None if segment is None else parse_segment(segment)}
