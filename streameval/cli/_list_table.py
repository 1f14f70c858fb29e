"""Formats ranked streams as the table of the page, for any width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from streameval._metric_registry import BY_NAME, HEADLINE, Place, title_of
from streameval.cli._connection import command
from streameval.cli._errors import one_line
from streameval.cli._output import REASONS
from streameval.cli._status import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rich.console import JustifyMethod, RenderableType

    from streameval import Interval
    from streameval.cli._list_reading import ListQuery, Reading
    from streameval.client import StreamSummary
    from streameval.client._wire.summaries import RankedStreams

_MIN_NAME_COLUMNS = 12
_MAX_NAME_COLUMNS = 40
_GAP_COLUMNS = 2
_MAX_ALARM_COLUMNS = 28
_MAX_HAPPENED_COLUMNS = 48
_BASE_TITLE = "against its base"
_MAX_PROBLEMS = 3
"""Reasons below the table why streams have no figures."""
_MIN_NAMED_OUTDATED = 100
"""Fewer streams that are being updated are not worth a word: under load there are always some."""

_QUALITY_WORDS = {"immature": "too early"}
_FLOW_WORDS = {"silent": "silent", "no_labels": "no labels", "late": "labels late"}
_QUALITY_STYLES = {"worse": "bold red", "better": "bold green"}
_RATES = Place.POINT.names(["threshold"])[:2]
"""Precision and recall, as on the page."""
_COSTS = [name for name in Place.POINT.names() if BY_NAME[name].is_cost]


@dataclass(frozen=True, slots=True)
class FrameState:
    """The state of the screen besides the streams.

    Attributes
    ----------
    address : str
    query : ListQuery
        The query of the next reading.
    problem : str
        The error of the last attempt to read; empty after a success.
    outage_s : float
        Seconds since the last answer.
    keys : str
        The help line for the keys; empty without a keyboard.
    """

    address: str
    query: ListQuery
    problem: str = ""
    outage_s: float = 0.0
    keys: str = ""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column; if not all fit, the columns with the highest `rank` are left out."""

    rank: float
    title: str
    width: int
    cell: Callable[[StreamSummary, datetime], Text]
    justify: JustifyMethod = "right"


def frame(
    reading: Reading | None, state: FrameState, width: int, height: int | None = None
) -> RenderableType:
    """Return a screen of at most `height` lines of `width` columns; None shows all. O(streams)."""
    parts: list[RenderableType] = [_header(reading, state)]
    if state.problem:
        notice = f"no answer for {format_duration(state.outage_s)}: {one_line(state.problem)}"
        parts.append(_line(notice, "bold red"))
    if reading is None:
        if not state.problem:
            parts.append(Text("reading..."))
    elif not reading.ranked.summaries:
        parts.append(_no_streams(reading))
    else:
        summaries: Sequence[StreamSummary] = reading.ranked.summaries
        problems = [
            _line(f"{each.stream} could not be computed: {one_line(each.problem)}", "yellow")
            for each in summaries
            if each.problem
        ][:_MAX_PROBLEMS]
        if height is not None:
            used = len(parts) + 1 + 1 + len(problems) + bool(state.keys)
            summaries = summaries[: max(height - used, 1)]
        words = count_words(reading.ranked, len(summaries))
        parts.append(_line(f"{words}. {_sentence(reading.query.order_words)}", "dim"))
        old = bool(state.problem) or reading.query != state.query
        parts.append(_table(summaries, reading, width, dim=old))
        parts += problems
    if state.keys:
        parts.append(_line(state.keys, "dim"))
    return Group(*parts)


def count_words(ranked: RankedStreams, num_shown: int) -> str:
    """Return how many streams there are and what is to be known of them, as the page says it.

    Examples
    --------
    >>> from streameval.client._wire.summaries import RankedStreams
    >>> counts = dict.fromkeys(["num_silent", "num_failed", "num_outdated"], 0)
    >>> ranked = RankedStreams(
    ...     summaries=[], num_streams=1_200, num_alarms=2, num_fallen=1, num_short_of_labels=0,
    ...     num_pending=3, num_covered=1_200, **counts,
    ... )
    >>> count_words(ranked, 50)
    '50 of 1,200 streams shown, 2 with open alarms, 1 worse, 3 still to be read'
    """
    total = ranked.num_streams
    streams = f"{total:,} stream{'' if total == 1 else 's'}"
    parts = [streams if num_shown >= total else f"{num_shown:,} of {streams} shown"]
    for count, words in (
        (ranked.num_alarms, "with open alarms"),
        (ranked.num_fallen, "worse"),
        (ranked.num_silent, "silent"),
        (ranked.num_short_of_labels, "short of labels"),
        (ranked.num_failed, "could not be computed"),
        (ranked.num_pending, "still to be read"),
        (ranked.num_outdated * (ranked.num_outdated > _MIN_NAMED_OUTDATED), "being updated"),
    ):
        if count:
            parts.append(f"{count:,} {words}")
    return ", ".join(parts)


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _header(reading: Reading | None, state: FrameState) -> Text:
    query = state.query
    window = "all time"
    if query.window is not None:
        window = f"last {format_duration(query.window.total_seconds())}"
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("Streams", style="bold")
    text.append(f"  {window}  {state.address}")
    if query.search:
        text.append(f"  containing {one_line(query.search)}")
    if reading is not None:
        text.append(f"  {reading.at:%H:%M:%S} UTC", style="dim")
    return text


def _no_streams(reading: Reading) -> Text:
    query = reading.query
    if query.search:
        return Text(f"no stream's name contains {one_line(query.search)}")
    if query.prefix:
        return Text(f"no stream's name begins with {one_line(query.prefix)}")
    return Text(
        "no streams yet. Send a first file of scores and labels:\n"
        f"  {command('push', 'fraud/v3', 'scores.csv')}"
    )


def _table(summaries: Sequence[StreamSummary], reading: Reading, width: int, *, dim: bool) -> Table:
    longest = max(len(each.stream) for each in summaries)
    columns = _fitting(
        _columns(summaries, reading.query),
        width - max(len("stream"), min(longest, _MIN_NAME_COLUMNS)),
    )
    table = Table(box=None, pad_edge=False, header_style="dim", style="dim" if dim else "")
    used = sum(column.width + _GAP_COLUMNS for column in columns)
    name_columns = min(
        longest, max(width - used, _MIN_NAME_COLUMNS), max(width // 2, _MAX_NAME_COLUMNS)
    )
    table.add_column("stream", width=max(name_columns, len("stream")), no_wrap=True)
    for column in columns:
        table.add_column(column.title, justify=column.justify, no_wrap=True, width=column.width)
    for each in summaries:
        name = Text(_shortened(each.stream, name_columns))
        table.add_row(name, *(column.cell(each, reading.at) for column in columns))
    return table


def _columns(summaries: Sequence[StreamSummary], query: ListQuery) -> list[_Column]:
    """Return the columns that have something to show, in their order. O(streams)."""
    alarms = max(len(_alarms(each).plain) for each in summaries)
    intervals = max(14, *(len(_interval(each).plain) for each in summaries))
    title = title_of(HEADLINE)
    columns = []
    if any(each.alarm_state for each in summaries):
        width = min(max(alarms, len("alarms")), _MAX_ALARM_COLUMNS)
        columns.append(_Column(1.5, "alarms", width, lambda each, _: _alarms(each)))
    lines = max(len(_happened(each).plain) for each in summaries)
    if lines > 1:
        width = min(max(lines, len(_BASE_TITLE)), _MAX_HAPPENED_COLUMNS)
        columns.append(_Column(1.2, _BASE_TITLE, width, lambda each, _: _happened(each), "left"))
    if any(_difference(each) is not None for each in summaries):
        columns += [
            _Column(1, "from base", 9, lambda each, _: _change(each)),
            _Column(3, "95 % interval", 16, lambda each, _: _change_interval(each)),
        ]
    columns += [
        _Column(0, title, max(len(title), 6), lambda each, _: _figure(each, HEADLINE)),
        _Column(2, "95 % interval", intervals, lambda each, _: _interval(each)),
    ]
    if query.order in BY_NAME and query.order not in (HEADLINE, "prevalence", *_RATES):
        columns.append(_figure_column(0.5, query.order))
    if any(each.snapshot.operating_point is not None for each in summaries):
        columns += [_figure_column(5, name) for name in _RATES]
    columns += [
        _figure_column(5, name)
        for name in _COSTS
        if name != query.order and any(name in each.snapshot.figures for each in summaries)
    ]
    if any(_projection(each) is not None for each in summaries):
        columns += [
            _Column(4.5, "projected", 9, lambda each, _: _projected(each)),
            _Column(8, "95 % interval", 14, lambda each, _: _projected_interval(each)),
        ]
    columns.append(_Column(6, "prevalence", 10, lambda each, _: _figure(each, "prevalence")))
    if any(each.snapshot.coverage is not None for each in summaries):
        columns.append(_Column(4, "labelled", 8, lambda each, _: _labelled(each)))
    columns.append(_Column(7, "newest", 9, _newest))
    return columns


def _figure_column(rank: float, name: str) -> _Column:
    title = BY_NAME[name].short or title_of(name)
    return _Column(rank, title, max(len(title), 7), lambda each, _: _figure(each, name))


def _fitting(columns: list[_Column], room: int) -> list[_Column]:
    """Return the most important columns that fit, at least one, in their order."""
    chosen: list[_Column] = []
    for column in sorted(columns, key=lambda each: each.rank):
        if chosen and room < column.width + _GAP_COLUMNS:
            break
        chosen.append(column)
        room -= column.width + _GAP_COLUMNS
    return [column for column in columns if column in chosen]


_NONE = Text("-", style="dim")


def _between(lower: float, upper: float, form: str = ".3f") -> Text:
    return Text("" if math.isnan(lower) else f"{lower:{form}} to {upper:{form}}")


def _alarms(each: StreamSummary) -> Text:
    if each.alarm_state is None:
        return _NONE
    if each.open_alarms:
        return Text(f"{each.open_alarms} open: {', '.join(each.open_watches)}", style="bold red")
    return Text("waiting" if each.alarm_state == "waiting" else "none open", style="dim")


def _happened(each: StreamSummary) -> Text:
    """Return the verdict's states and what happened."""
    verdict = each.verdict
    if verdict is None:
        return _NONE
    states = [_QUALITY_WORDS.get(verdict.quality, verdict.quality)]
    if verdict.flow != "ok":
        states.append(_FLOW_WORDS[verdict.flow])
    text = Text(", ".join(states), style=_QUALITY_STYLES.get(verdict.quality, ""))
    return text.append(f": {verdict.happened}", style="not bold") if verdict.happened else text


def _difference(each: StreamSummary) -> Interval | None:
    """Return now minus base of the headline; None where the verdict has none."""
    figures = each.verdict.figures if each.verdict is not None else ()
    known = [figure.difference for figure in figures if figure.metric == HEADLINE]
    return known[0] if known and not math.isnan(known[0].estimate) else None


def _change(each: StreamSummary) -> Text:
    found = _difference(each)
    if found is None or each.verdict is None:
        return _NONE
    return Text(f"{found.estimate:+.3f}", style=_QUALITY_STYLES.get(each.verdict.quality, ""))


def _change_interval(each: StreamSummary) -> Text:
    found = _difference(each)
    return Text("") if found is None else _between(found.lower, found.upper, "+.3f")


def _figure(each: StreamSummary, name: str) -> Text:
    value = each.snapshot.figures.get(name, math.nan)
    if math.isnan(value):
        return _NONE
    metric = BY_NAME[name]
    text = (
        f"{value:.1%}"
        if metric.unit == "share"
        else f"{value:.3g}"
        if metric.is_cost
        else f"{value:.3f}"
    )
    return Text(text, style="bold" if name == HEADLINE else "")


def _interval(each: StreamSummary) -> Text:
    if each.problem:
        return Text("not computed", style="yellow")
    if not each.snapshot.revision:
        return Text("reading...", style="dim")
    reason = each.snapshot.reasons.get(HEADLINE, "")
    if reason:
        return Text(REASONS.get(reason, reason.lower()), style="dim")
    interval = each.snapshot.intervals.get(HEADLINE)
    if interval is None or math.isnan(interval.lower):
        return Text("too few", style="dim")
    return _between(interval.lower, interval.upper)


def _projected(each: StreamSummary) -> Text:
    found = _projection(each)
    return _NONE if found is None else Text(f"{found[0]:.3f}")


def _projected_interval(each: StreamSummary) -> Text:
    found = _projection(each)
    return Text("") if found is None else _between(found[1], found[2])


def _projection(each: StreamSummary) -> tuple[float, float, float] | None:
    """Return the projected headline and its limits; None where there is none."""
    projection = each.snapshot.projection
    for figure in () if projection is None else projection.figures:
        if figure.metric == HEADLINE and figure.interval is not None:
            return figure.projected, figure.interval.lower, figure.interval.upper
    return None


def _labelled(each: StreamSummary) -> Text:
    coverage = each.snapshot.coverage
    if coverage is None or math.isnan(coverage.labelled_share):
        return _NONE
    return Text(f"{coverage.labelled_share:.0%}")


def _newest(each: StreamSummary, now: datetime) -> Text:
    if each.newest is None:
        return _NONE
    age_s = (now - each.newest).total_seconds()
    return Text("< 1 min" if age_s < 60 else " ".join(format_duration(age_s).split()[:2]))


def _shortened(name: str, max_columns: int) -> str:
    """Return a name cut in the middle: its end distinguishes versions."""
    if len(name) <= max_columns:
        return name
    kept = max_columns - 1
    return f"{name[: kept // 2]}…{name[len(name) - (kept - kept // 2) :]}"
