"""BatchGetSnapshots and WatchSnapshots: the metrics and the series of many streams.

One request serves a whole list. A stream that was deleted since it was listed is named as
missing, so that it does not fail the request.

Cost: as GetSnapshot for each stream, and for each step of its series one answer that is not
cached yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streameval.checks import stream_name_problem
from streameval.v1 import query_pb2
from streameval_server._model.errors import Code, RequestError, invalid
from streameval_server._queries.metrics import MetricSelection, select_metrics
from streameval_server._queries.query_engine import newest_pane
from streameval_server._queries.selection import AllTime, Last, Selection, micros
from streameval_server._queries.series import part_of, spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.v1 import types_pb2
    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.resolved_selection import ResolvedSelection

MAX_STREAMS = 100
MAX_STEPS = 100


@dataclass(frozen=True, slots=True)
class OverviewRequest:
    """A checked request for the metrics of many streams. Equal requests have one answer.

    Attributes
    ----------
    streams : tuple of str
        Their names, in the order of the answer.
    span : AllTime or Last
        The window of each.
    metrics : MetricSelection
    steps : int
        Number of steps of each series; 0 means no series.
    """

    streams: tuple[str, ...]
    span: AllTime | Last
    metrics: MetricSelection
    steps: int


def parse_overview_request(
    request: query_pb2.BatchGetSnapshotsRequest | query_pb2.WatchSnapshotsRequest,
) -> OverviewRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    streams = tuple(dict.fromkeys(request.streams))
    if len(streams) > MAX_STREAMS:
        raise invalid("streams", f"ask for at most {MAX_STREAMS} streams, got {len(streams)}")
    for name in streams:
        problem = stream_name_problem(name)
        if problem is not None:
            raise invalid(f"streams[{list(request.streams).index(name)}]", problem)
    span: AllTime | Last = AllTime()
    if request.HasField("last"):
        span_us = micros(request.last, "last")
        if span_us <= 0:
            raise invalid("last", f"last must be positive, got {span_us / 1e6:g} s")
        span = Last(span_us)
    if request.steps > MAX_STEPS:
        raise invalid("steps", f"steps must be at most {MAX_STEPS}, got {request.steps}")
    if request.steps and isinstance(span, AllTime):
        raise invalid("steps", "a series consists of panes, and all time does not: set last")
    return OverviewRequest(
        streams, span, select_metrics(request.metrics, level=request.level), request.steps
    )


def overview(engine: QueryEngine, request: OverviewRequest) -> query_pb2.BatchGetSnapshotsResponse:
    """Return the snapshots of the streams that exist, and the names of missing streams."""
    response = query_pb2.BatchGetSnapshotsResponse(server_warnings=engine.server_warnings())
    for name in request.streams:
        resolved = resolve_if_present(engine, name, request)
        if resolved is None:
            response.missing.append(name)
        else:
            response.snapshots.append(stream_snapshot(engine, resolved, request))
    return response


def resolve_if_present(
    engine: QueryEngine, name: str, request: OverviewRequest
) -> ResolvedSelection | None:
    """Return the selection of one of the streams; None when it does not exist."""
    try:
        return engine.resolve(Selection(name, request.span))
    except RequestError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return None


def stream_snapshot(
    engine: QueryEngine, resolved: ResolvedSelection, request: OverviewRequest
) -> query_pb2.StreamSnapshot:
    """Return one stream's metrics and its series."""
    return query_pb2.StreamSnapshot(
        snapshot=engine.snapshot(resolved, request.metrics, hull=False),
        series=_series(engine, resolved, request),
        newest_pane=newest_pane(resolved.view),
    )


def _series(
    engine: QueryEngine, resolved: ResolvedSelection, request: OverviewRequest
) -> Iterator[types_pb2.Metric]:
    if not request.steps:
        return
    assert resolved.span_us is not None
    start_us, end_us = resolved.span_us
    starts = [pane.start_us for pane in resolved.panes]
    first = replace(request.metrics, names=request.metrics.names[:1], is_default=False)
    for span_us in spans(resolved, -((start_us - end_us) // request.steps)):
        row = engine.snapshot(part_of(resolved, starts, span_us), first, hull=False)
        (metric,) = row.metrics
        metric.ClearField("interval")
        yield metric
