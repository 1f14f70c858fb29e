"""BatchGetSnapshots and WatchSnapshots: many streams at a glance, with their figures and series.

One question instead of two for each row of a list. Streams that were deleted
since they were listed are left out: a list is never refused for one of them.

Cost: as GetSnapshot for each stream, and an answer for each step of its series
that was not asked for before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streameval.v1 import query_pb2
from streameval_server._model.errors import Code, RequestError, invalid
from streameval_server._model.names import MAX_STREAM_NAME, stream_name_problem
from streameval_server._queries.metrics import MetricSelection, select_metrics
from streameval_server._queries.selection import AllTime, Last, Selected, micros
from streameval_server._queries.series import part_of, spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.v1 import types_pb2
    from streameval_server._queries.query_engine import Answers
    from streameval_server._queries.resolved_selection import ResolvedSelection

MOST_STREAMS = 100
MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class OverviewAsked:
    """A request for the figures of many streams that was checked. Equal ones ask for the same.

    Attributes
    ----------
    streams : tuple of str
        Their names, in the order of the answer.
    span : AllTime or Last
        The window of each.
    figures : MetricSelection
    steps : int
        Into how many a series is cut; 0 is none.
    """

    streams: tuple[str, ...]
    span: AllTime | Last
    figures: MetricSelection
    steps: int


def overview_asked(
    request: query_pb2.BatchGetSnapshotsRequest | query_pb2.WatchSnapshotsRequest,
) -> OverviewAsked:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    streams = tuple(dict.fromkeys(request.streams))
    if len(streams) > MOST_STREAMS:
        raise invalid("streams", f"ask for at most {MOST_STREAMS} streams, got {len(streams)}")
    for name in streams:
        problem = stream_name_problem(name, MAX_STREAM_NAME)
        if problem is not None:
            raise invalid(f"streams[{list(request.streams).index(name)}]", problem)
    span: AllTime | Last = AllTime()
    if request.HasField("last"):
        span_us = micros(request.last, "last")
        if span_us <= 0:
            raise invalid("last", f"last must be positive, got {span_us / 1e6:g} s")
        span = Last(span_us)
    if request.steps > MOST_STEPS:
        raise invalid("steps", f"steps must be at most {MOST_STEPS}, got {request.steps}")
    if request.steps and isinstance(span, AllTime):
        raise invalid("steps", "all time is not made of panes, and a series is: set last")
    return OverviewAsked(
        streams, span, select_metrics(request.metrics, level=request.level), request.steps
    )


def overview(answers: Answers, asked: OverviewAsked) -> query_pb2.BatchGetSnapshotsResponse:
    """Return the streams that exist."""
    applied = (applied_if_there(answers, name, asked) for name in asked.streams)
    return query_pb2.BatchGetSnapshotsResponse(
        snapshots=[stream_snapshot(answers, of, asked) for of in applied if of is not None]
    )


def applied_if_there(answers: Answers, name: str, asked: OverviewAsked) -> ResolvedSelection | None:
    """Return what is covered of one of the streams; None when there is no such stream."""
    try:
        return answers.applied(Selected(name, asked.span))
    except RequestError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return None


def stream_snapshot(
    answers: Answers, of: ResolvedSelection, asked: OverviewAsked
) -> query_pb2.StreamSnapshot:
    """Return one stream's figures and its series."""
    found = query_pb2.StreamSnapshot(
        snapshot=answers.snapshot(of, asked.figures, hull=False),
        series=_series(answers, of, asked),
    )
    if of.view.whole.panes:
        newest = of.view.whole.panes[-1]
        found.newest_pane.start_time.FromMicroseconds(newest.start_us)
        found.newest_pane.end_time.FromMicroseconds(newest.end_us)
    return found


def _series(
    answers: Answers, of: ResolvedSelection, asked: OverviewAsked
) -> Iterator[types_pb2.Metric]:
    if not asked.steps:
        return
    assert of.span_us is not None
    start_us, end_us = of.span_us
    starts = [pane.start_us for pane in of.panes]
    first = replace(asked.figures, names=asked.figures.names[:1])
    for span_us in spans(of, -((start_us - end_us) // asked.steps)):
        row = answers.snapshot(part_of(of, starts, span_us), first, hull=False)
        (metric,) = row.metrics
        metric.ClearField("interval")
        yield metric
