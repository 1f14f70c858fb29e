"""Formats the table of ``streameval top`` for any width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from streameval._metric_registry import BY_NAME, COST_NAMES, POINT_NAMES, title_of
from streameval.cli._errors import one_line
from streameval.cli._output import REASONS
from streameval.cli._status import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from rich.console import RenderableType

    from streameval.cli._top_reading import Board, Line, Reading, TopQuery

SORTS: dict[str, Callable[[Line], object]] = {
    "worst first": lambda line: _last_if_nan(line.row.value),
    "fallen most first": lambda line: line.moved,
    "stalest first": lambda line: 0.0 if line.row.newest is None else line.row.newest.timestamp(),
    "fewest labels first": lambda line: (
        2.0 if line.row.labelled_share is None else line.row.labelled_share
    ),
    "busiest first": lambda line: _last_if_nan(-line.rate),
    "by name": lambda line: line.row.name,
}
"""Sort keys by the names of the orders; ties are sorted by stream name."""

_MIN_NAME_COLUMNS = 12
_MAX_NAME_COLUMNS = 40
_GAP_COLUMNS = 2

_RATES = {name: (BY_NAME[name].short, 7) for name in POINT_NAMES}
"""Heads and widths of the columns of rates at the declared threshold."""

_COSTS = {name: (BY_NAME[name].short, 8) for name in COST_NAMES}
"""The same of what errors cost."""


@dataclass(frozen=True, slots=True)
class FrameState:
    """The state of the screen besides the streams.

    Attributes
    ----------
    address : str
    query : TopQuery
        The query of the next reading.
    sort : str
        One of `SORTS`.
    problem : str
        The error of the last attempt to read; empty after a success.
    outage_s : float
        Seconds since the last answer.
    keys : str
        The help line for the keys; empty without a keyboard.
    """

    address: str
    query: TopQuery
    sort: str = "worst first"
    problem: str = ""
    outage_s: float = 0.0
    keys: str = ""


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    width: int
    cell: Callable[[Line, datetime], Text]


def frame(board: Board, state: FrameState, width: int, height: int) -> RenderableType:
    """Return a screen of at most `height` lines of `width` columns. O(streams log streams)."""
    parts: list[RenderableType] = [_header(board, state)]
    if state.problem:
        notice = f"no answer for {format_duration(state.outage_s)}: {one_line(state.problem)}"
        parts.append(Text(notice, style="bold red", no_wrap=True, overflow="ellipsis"))
    reading = board.reading
    room = height - 1 - len(parts) - bool(state.keys)
    if reading is None:
        if not state.problem:
            parts.append(Text("reading..."))
    elif not board.lines:
        parts.append(_no_streams(state))
    else:
        lines = ordered(board.lines, state.sort)
        shown = lines if len(lines) <= room else lines[: max(room - 1, 1)]
        old = bool(state.problem) or reading.query != state.query
        parts.append(_table(shown, reading, width, dim=old))
        if len(shown) < len(lines):
            parts.append(Text(f"and {len(lines) - len(shown)} more", style="dim"))
    if state.keys:
        parts.append(Text(state.keys, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def table(board: Board, state: FrameState, width: int) -> RenderableType:
    """Return all streams, for a single output."""
    return frame(board, state, width, len(board.lines) + 9)


def ordered(lines: list[Line], sort: str) -> list[Line]:
    """Return the lines, sorted."""
    key = SORTS[sort]
    return sorted(sorted(lines, key=lambda line: line.row.name), key=key)  # type: ignore[arg-type]  # of one type each


def _last_if_nan(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _header(board: Board, state: FrameState) -> Text:
    query = state.query
    window = (
        "all time"
        if query.window is None
        else f"last {format_duration(query.window.total_seconds())}"
    )
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(_title(query), style="bold")
    text.append(f"  {window}  {state.address}")
    if board.reading is not None:
        count = len(board.lines)
        text.append(f"  {count:,} stream{'' if count == 1 else 's'}, {state.sort}", style="dim")
        text.append(f"  {board.reading.at:%H:%M:%S} UTC", style="dim")
    return text


def _title(query: TopQuery) -> str:
    return title_of(query.metric)


def _no_streams(state: FrameState) -> Text:
    prefix = state.query.prefix
    if prefix:
        return Text(f"no stream's name begins with {one_line(prefix)}")
    return Text(
        "no streams yet. Send a first file of scores and labels:\n"
        f"  streameval push scores.csv --to {state.address} --stream fraud/v3"
    )


def _table(lines: list[Line], reading: Reading, width: int, *, dim: bool) -> Table:
    columns = _fitting(lines, _title(reading.query), width)
    table = Table(box=None, pad_edge=False, header_style="dim", style="dim" if dim else "")
    used = sum(column.width + _GAP_COLUMNS for column in columns)
    longest = max(len(line.row.name) for line in lines)
    max_columns = min(
        longest, max(width - used, _MIN_NAME_COLUMNS), max(width // 2, _MAX_NAME_COLUMNS)
    )
    table.add_column("stream", width=max(max_columns, len("stream")), no_wrap=True)
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True, width=column.width)
    for line in lines:
        name = Text(_shortened(line.row.name, max_columns))
        table.add_row(name, *(column.cell(line, reading.at) for column in columns))
    return table


def _fitting(lines: list[Line], title: str, width: int) -> list[_Column]:
    """Return the columns that fit a width, the most important ones, in their usual order."""
    by_id = any(line.row.labelled_share is not None for line in lines)
    has_point = any(line.row.rates for line in lines)
    has_rates = any(not math.isnan(line.rate) for line in lines)
    wanted = [
        (0, True, _Column(title, max(len(title), 6), _figure)),
        (2, True, _Column("95 % interval", 14, _interval)),
        (1, has_rates, _Column("moved", 7, _movement)),
        (3, by_id, _Column("labelled", 8, _labelled)),
        (5, True, _Column("positive", 8, _positive)),
        (6, True, _Column("cases", 7, _cases)),
        (4, True, _Column("latest", 9, _freshness)),
        (7, has_rates, _Column("new/s", 6, _rate)),
        *((4.5, has_point, _Column(*each, _at_threshold(name))) for name, each in _RATES.items()),
        *(
            (4.5, _has_any(lines, name), _Column(*each, _cost(name)))
            for name, each in _COSTS.items()
        ),
    ]
    chosen: list[int] = []
    longest = max(len(line.row.name) for line in lines)
    left = width - max(len("stream"), min(longest, _MIN_NAME_COLUMNS))
    for _, shown, column in sorted(wanted, key=lambda each: each[0]):
        if shown and (left >= column.width + _GAP_COLUMNS or not chosen):
            chosen.append(id(column))
            left -= column.width + _GAP_COLUMNS
        elif shown:
            break
    return [column for _, _, column in wanted if id(column) in chosen]


def _figure(line: Line, _now: datetime) -> Text:
    value = line.row.value
    return Text("-", style="dim") if math.isnan(value) else Text(f"{value:.3f}", style="bold")


def _interval(line: Line, _now: datetime) -> Text:
    row = line.row
    if row.reason:
        return Text(REASONS.get(row.reason, row.reason.lower())[:14], style="dim")
    if math.isnan(row.lower):
        return Text("too few", style="dim")
    return Text(f"{row.lower:.3f} to {row.upper:.3f}"[:14])


def _at_threshold(name: str) -> Callable[[Line, datetime], Text]:
    """Return the cell of a rate at the declared threshold."""

    def cell(line: Line, _now: datetime) -> Text:
        rate = line.row.rates.get(name, math.nan)
        return Text("-", style="dim") if math.isnan(rate) else Text(f"{rate:.1%}")

    return cell


def _has_any(lines: list[Line], name: str) -> bool:
    """Return whether a line has a metric at the declared threshold."""
    return any(not math.isnan(line.row.rates.get(name, math.nan)) for line in lines)


def _cost(name: str) -> Callable[[Line, datetime], Text]:
    """Return the cell of what errors cost."""

    def cell(line: Line, _now: datetime) -> Text:
        cost = line.row.rates.get(name, math.nan)
        return Text("-", style="dim") if math.isnan(cost) else Text(f"{cost:.3g}")

    return cell


def _movement(line: Line, _now: datetime) -> Text:
    if not line.moved:
        return Text("")
    arrow, style = ("▲", "green") if line.moved > 0 else ("▼", "red")
    style = f"bold {style}" if line.just_now else "dim"
    return Text(f"{arrow} {abs(line.moved):.3f}", style=style)


def _labelled(line: Line, _now: datetime) -> Text:
    return Text("" if line.row.labelled_share is None else f"{line.row.labelled_share:.0%}")


def _positive(line: Line, _now: datetime) -> Text:
    row = line.row
    return Text(f"{row.positives / row.references:.1%}" if row.references else "")


def _cases(line: Line, _now: datetime) -> Text:
    return Text(short(line.row.references))


def _freshness(line: Line, now: datetime) -> Text:
    newest = line.row.newest
    if newest is None:
        return Text("-", style="dim")
    age_s = (now - newest).total_seconds()
    largest = " ".join(format_duration(age_s).split()[:2])
    return Text("now" if age_s <= 0 else largest)


def _rate(line: Line, _now: datetime) -> Text:
    return Text("" if math.isnan(line.rate) else short(line.rate))


def short(count: float) -> str:
    """Return a number in at most six characters.

    Examples
    --------
    >>> [short(n) for n in (0, 0.25, 12, 4_321, 1_234_567, 9_876_543_210)]
    ['0', '0.2', '12', '4,321', '1.23M', '9.88G']
    """
    if 0 < count < 10 and count != int(count):
        return f"{count:.1f}"
    if count < 10_000:
        return f"{count:,.0f}"
    for unit in ("k", "M", "G", "T"):  # noqa: B007 - used after the loop
        count /= 1000
        if count < 1000:
            break
    return f"{count:.3g}{unit}"


def _shortened(name: str, max_columns: int) -> str:
    """Return a name cut in the middle: its end distinguishes versions."""
    if len(name) <= max_columns:
        return name
    kept = max_columns - 1
    return f"{name[: kept // 2]}…{name[len(name) - (kept - kept // 2) :]}"
