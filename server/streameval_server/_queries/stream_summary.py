"""The summary of one stream in a list: its figures, its verdict, its alarms.

GetSnapshot and GetVerdict say the same for the same cases.

Cost: a merge of the window's panes, and a pass for each metric: 1 to 2 ms for a stream of a few
thousand cells; a verdict only where the evidence has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import Coverage
from streameval.statistics import HEADLINE, Place
from streameval.v1 import alarm_pb2, overview_pb2, types_pb2
from streameval_server._model.errors import RequestError
from streameval_server._queries.coverage_answers import counts_message
from streameval_server._queries.metrics import DEFAULT_LEVEL, MetricSelection
from streameval_server._queries.query_engine import newest_pane
from streameval_server._queries.selection import AllTime, Last, Selection
from streameval_server._state.counting.coverage import EMPTY_COVERAGE

if TYPE_CHECKING:
    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.resolved_selection import ResolvedSelection
    from streameval_server._state.views import AlarmsView, StreamView

_ORDERS = (*(name for name in Place.MONITOR.names() if name != HEADLINE), "prevalence")
"""What streams are ordered by: intervals would take half of a summary's time."""
_NEVER_US = 1 << 62
_METRICS = MetricSelection((HEADLINE, *_ORDERS), is_default=True, bare=_ORDERS)
"""With the rates at it where a threshold is declared, and the cost where costs are."""


@dataclass(frozen=True, slots=True)
class ComputedSummary:
    """A summary, and how long it holds while the stream does not change.

    Attributes
    ----------
    message : StreamSummary
        Without a projection.
    valid_until_us : int
        When time alone changes it.
    """

    message: overview_pb2.StreamSummary
    valid_until_us: int


def group_of(stream: str) -> str:
    """Return the group of a stream: the first part of its name.

    Examples
    --------
    >>> group_of("fraud/v3"), group_of("fraud"), group_of("fraud/eu/v3")
    ('fraud', 'fraud', 'fraud')
    """
    return stream.partition("/")[0]


def summary(engine: QueryEngine, view: StreamView, span: AllTime | Last) -> ComputedSummary:
    """Return the summary of a stream at one revision. O(panes + cells log cells)."""
    try:
        return _summary(engine, view, span)
    finally:
        engine.end()


def _summary(engine: QueryEngine, view: StreamView, span: AllTime | Last) -> ComputedSummary:
    info = view.info
    resolved = engine.resolve(Selection(info.name, span), view=view)
    figures = engine.figures(resolved, _METRICS.at(info.settings), _coverage(resolved))
    message = overview_pb2.StreamSummary(
        stream=info.name,
        group=group_of(info.name),
        snapshot=figures,
        newest_pane=newest_pane(view),
    )
    _add_alarms(message, view.alarms)
    known = engine.verdicts.of(view, projects=False)
    message.verdict.ParseFromString(known.encoded)
    return ComputedSummary(message, min(_valid_until_us(resolved), known.holds_until_us))


def _valid_until_us(resolved: ResolvedSelection) -> int:
    """Return until when time alone moves no pane into a window or out of it. O(panes)."""
    span = resolved.selection.span
    if not isinstance(span, Last) or resolved.span_us is None:
        return _NEVER_US
    # A pane leaves the window when the window begins after it.
    leave_us = [pane.end_us + span.span_us for pane in resolved.panes[:1]]
    # Rows that are dated ahead of the clock enter it later.
    end_us = resolved.span_us[1]
    leave_us += [pane.start_us for pane in resolved.slice.panes if pane.start_us >= end_us]
    return min(leave_us, default=_NEVER_US)


def failed_summary(
    name: str, revision: int, view: StreamView | None, problem: str
) -> overview_pb2.StreamSummary:
    """Return the summary of a stream whose figures cannot be computed. O(alarms).

    It has the alarms, which are observed and not computed here, so the stream keeps its place
    among those with open alarms. `view` is None where not even that can be taken.
    """
    message = overview_pb2.StreamSummary(stream=name, group=group_of(name), problem=problem)
    message.snapshot.stream, message.snapshot.revision = name, revision
    _add_alarms(message, None if view is None else view.alarms)
    return message


def projection(
    engine: QueryEngine, view: StreamView, span: AllTime | Last
) -> types_pb2.Projection | None:
    """Return `HEADLINE` once the labels of the window are in; None where it is not projected.

    O(panes cells) for each window of its backtest: 0.3 to 2 s where labels come over many panes.
    """
    if isinstance(span, AllTime):
        return None
    try:
        resolved = engine.resolve(Selection(view.info.name, span), view=view)
        found = engine.projection(engine.labels(resolved), resolved, DEFAULT_LEVEL, (HEADLINE,))
    except RequestError:  # no predictions by id
        return None
    finally:
        engine.end()
    own = [each for each in found.metrics if not each.HasField("prevalence")]
    del found.metrics[:]
    found.metrics.extend(own)
    for metric in found.metrics:
        metric.ClearField("backtest")
    return found


def _coverage(resolved: ResolvedSelection) -> types_pb2.Coverage | None:
    """Return the numbers of predictions and labels; None without any. O(panes)."""
    empty = EMPTY_COVERAGE[resolved.view.info.settings.scale]
    if resolved.span_us is None:
        counts = resolved.slice.coverage.counts
    else:
        parts = [pane.coverage.counts for pane in resolved.panes if pane.coverage is not empty]
        counts = Coverage(
            predictions=sum(each.predictions for each in parts),
            labelled=sum(each.labelled for each in parts),
            expired=sum(each.expired for each in parts),
            retracted=sum(each.retracted for each in parts),
            orphans=sum(each.orphans for each in parts),
        )
    return counts_message(counts)


def _add_alarms(message: overview_pb2.StreamSummary, view: AlarmsView | None) -> None:
    """Add a detector's state, if there is one. O(alarms)."""
    if view is None:
        return
    state = alarm_pb2.ALARM_STATE_WATCHING
    if view.waits_for:
        state = alarm_pb2.ALARM_STATE_WAITING
    elif view.num_open:
        state = alarm_pb2.ALARM_STATE_FIRING
    message.snapshot.open_alarms = view.num_open
    message.alarm.state, message.alarm.waits_for = state, view.waits_for
    message.alarm.watches.extend(dict.fromkeys(each.watch for each in view.alarms if each.is_open))
