"""The calls to a server: requests, and how their responses are read. No I/O.

A function here returns one `Call`, or a `PagedCall`: a generator that yields calls,
is sent their results, and returns the result of all pages. A connection makes the
calls, blocking or on an event loop.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._counts.columns import check_count
from streameval._evaluator import Evaluator
from streameval.client._wire import decode
from streameval.client._wire.selection import Selection, check_names, duration, time_range
from streameval.client._wire.stream_series import read_series
from streameval.client._wire.stream_settings import settings_message
from streameval.v1 import query_pb2, stream_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime, timedelta

    from google.protobuf.message import Message

    from streameval._metrics.curves import RocHull
    from streameval._metrics.operating_points import OperatingPoints
    from streameval._snapshot import Snapshot
    from streameval.client._wire.answers import (
        SegmentRanking,
        StreamComparison,
        StreamInfo,
        StreamLabelSample,
        StreamReliability,
    )
    from streameval.client._wire.stream_series import StreamSeries

A = TypeVar("A")
Service = Literal["QueryService", "StreamService", "IngestService", "AdminService", "PairService"]

PagedCall = Generator["Call[Any]", Any, A]
"""A generator of the calls for all pages; returns an A."""

_PAGE_SIZE = 1000
_HEARTBEAT_MS = 10_000
"""A watch is not silent for longer: proxies end calls that are, most of them after a minute."""
_MAX_BINS = 2**32 - 1
"""A larger number is no field of a message; the server refuses it as it is."""

_STRATEGIES = {
    "width": query_pb2.RELIABILITY_BINS_WIDTH,
    "mass": query_pb2.RELIABILITY_BINS_MASS,
}


@dataclass(frozen=True, slots=True)
class Call(Generic[A]):
    """One call of a method of the server.

    Attributes
    ----------
    service, method : str
    request : Message
    read : callable
        Returns the result, given the response, or the list of responses if they
        are streamed.
    is_streamed : bool
        Whether the server streams its responses.
    """

    service: Service
    method: str
    request: Message
    read: Callable[[Any], A]
    is_streamed: bool = False


# --- Queries of one stream ----------------------------------------------------------------------


def snapshot(
    selection: Selection,
    revision: int,
    metrics: Iterable[str] | None,
    *,
    level: float,
    anytime: bool,
    projection: bool,
) -> Call[Snapshot]:
    """Return the call for figures."""
    request = query_pb2.GetSnapshotRequest(
        selection=selection.to_message(revision),
        metrics=check_names(metrics),
        level=level,
        anytime=anytime,
        projection=projection,
    )
    return Call(
        "QueryService",
        "GetSnapshot",
        request,
        lambda response: decode.read_snapshot(response.snapshot),
    )


def evaluator(selection: Selection, revision: int) -> Call[Evaluator]:
    """Return the call for the state."""
    request = query_pb2.GetStateRequest(selection=selection.to_message(revision))
    return Call(
        "QueryService",
        "GetState",
        request,
        lambda pieces: Evaluator.from_bytes(b"".join(piece.data for piece in pieces)),
        is_streamed=True,
    )


def operating_points(selection: Selection, revision: int, max_points: int) -> Call[OperatingPoints]:
    """Return the call for thinned operating points."""
    if max_points < 1:
        message = f"max_points must be 1 or more, got {max_points}"
        raise InvalidInputError(message, field="max_points")
    request = query_pb2.GetCurveRequest(
        selection=selection.to_message(revision),
        kind=query_pb2.CURVE_KIND_OPERATING_POINTS,
        max_points=max_points,
    )
    return Call("QueryService", "GetCurve", request, decode.read_points)


def roc_hull(selection: Selection, revision: int) -> Call[RocHull]:
    """Return the call for the hull."""
    request = query_pb2.GetCurveRequest(
        selection=selection.to_message(revision), kind=query_pb2.CURVE_KIND_HULL
    )
    return Call("QueryService", "GetCurve", request, decode.read_hull)


def report(selection: Selection, revision: int, *, level: float) -> Call[str]:
    """Return the call for a printable report."""
    request = query_pb2.GetReportRequest(selection=selection.to_message(revision), level=level)
    return Call("QueryService", "GetReport", request, lambda response: str(response.html))


def reliability(
    selection: Selection,
    revision: int,
    bins: int,
    *,
    strategy: Literal["width", "mass"],
    level: float,
) -> Call[StreamReliability]:
    """Return the call for a reliability table."""
    if strategy not in _STRATEGIES:
        message = f"strategy must be 'width' or 'mass', got {strategy!r:.60}"
        raise InvalidInputError(message, field="strategy")
    if check_count(bins, field="bins") < 1:
        raise InvalidInputError("bins must be at least 1, got 0", field="bins")
    request = query_pb2.GetReliabilityRequest(
        selection=selection.to_message(revision),
        bins=min(bins, _MAX_BINS),
        strategy=_STRATEGIES[strategy],
        level=level,
    )
    return Call(
        "QueryService",
        "GetReliability",
        request,
        lambda response: decode.read_reliability(response, level),
    )


def series(
    selection: Selection,
    revision: int,
    step: timedelta,
    metrics: Iterable[str] | None,
    *,
    level: float,
    projection: bool,
    min_positives: int,
) -> PagedCall[StreamSeries]:
    """Return the calls for a time series, page by page."""
    request = query_pb2.ListWindowsRequest(
        selection=selection.to_message(revision),
        step=duration(step, field="step"),
        metrics=check_names(metrics),
        page_size=_PAGE_SIZE,
        level=level,
        projection=projection,
        min_positives=check_count(min_positives, field="min_positives"),
    )
    pages: list[query_pb2.ListWindowsResponse] = []
    while True:
        response: query_pb2.ListWindowsResponse = yield Call(
            "QueryService", "ListWindows", request, _identity
        )
        pages.append(response)
        if not response.next_page_token:
            return read_series(pages, request.metrics, level)
        request.page_token = response.next_page_token


def watch(
    selection: Selection,
    revision: int,
    metrics: Iterable[str] | None,
    *,
    min_interval: timedelta | None,
    level: float,
    anytime: bool,
) -> Call[Snapshot]:
    """Return the call that watches; `read` takes one response at a time."""
    request = query_pb2.WatchSnapshotRequest(
        selection=selection.to_message(revision),
        metrics=check_names(metrics),
        level=level,
        anytime=anytime,
    )
    if min_interval is not None:
        request.min_interval.CopyFrom(duration(min_interval, field="min_interval"))
    request.heartbeat.FromMilliseconds(_HEARTBEAT_MS)
    return Call(
        "QueryService",
        "WatchSnapshot",
        request,
        lambda response: decode.read_snapshot(response.snapshot),
        is_streamed=True,
    )


def rank_segments(
    selection: Selection,
    revision: int,
    key: str,
    *,
    metric: str,
    level: float,
    min_references: int,
) -> Call[SegmentRanking]:
    """Return the call for slices by how much worse each is than the rest."""
    request = query_pb2.RankSegmentsRequest(
        selection=selection.to_message(revision),
        key=key,
        metric=metric,
        level=level,
        min_references=check_count(min_references, field="min_references"),
    )
    return Call("QueryService", "RankSegments", request, decode.read_ranking)


def sample_for_labels(
    selection: Selection,
    revision: int,
    size: int,
    *,
    metric: str,
    threshold: float | None,
    prevalence: float | None,
    seed: int | None,
    draw_ids: bool,
) -> Call[StreamLabelSample]:
    """Return the call for what to label next."""
    request = sample_request(
        selection,
        revision,
        size,
        metric=metric,
        threshold=threshold,
        prevalence=prevalence,
        seed=seed,
        draw_ids=draw_ids,
    )
    return Call("QueryService", "SampleForLabels", request, decode.read_label_sample)


def sample_request(
    selection: Selection,
    revision: int,
    size: int,
    *,
    metric: str,
    threshold: float | None,
    prevalence: float | None,
    seed: int | None,
    draw_ids: bool,
) -> query_pb2.SampleForLabelsRequest:
    """Return the request for what to label next; None leaves a field out."""
    return query_pb2.SampleForLabelsRequest(
        selection=selection.to_message(revision),
        size=_checked_integer(size, "size", least=1, bits=32),
        metric=metric,
        threshold=threshold,
        prevalence=prevalence,
        seed=None if seed is None else _checked_integer(seed, "seed", least=0, bits=64),
        draw_ids=draw_ids,
    )


def _checked_integer(value: int, field: str, *, least: int, bits: int) -> int:
    """Return an integer that a field of the request holds, or refuse it."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or not least <= value < 1 << bits:
        message = f"{field} must be an integer from {least} to 2^{bits} - 1, got {shown(value)}"
        raise InvalidInputError(message, field=field)
    return value


def series_selection(
    stream: str,
    start: datetime,
    end: datetime,
    segment: tuple[str, str] | None,
    mature_after: timedelta | None,
) -> Selection:
    """Return the selection of a time series."""
    time_range(start, end)
    return Selection(stream=stream, window=(start, end), segment=segment, mature_after=mature_after)


# --- Comparison, and the management of streams --------------------------------------------------


def compare(
    a: Selection,
    b: Selection,
    revision: int,
    *,
    metric: str,
    prevalence: float | Literal["common", "own"],
    level: float,
) -> Call[StreamComparison]:
    """Return the call that compares two sides."""
    request = query_pb2.CompareStreamsRequest(
        a=a.to_message(revision), b=b.to_message(revision), metric=metric, level=level
    )
    if prevalence == "own":
        request.own_prevalence = True
    elif prevalence != "common":
        if isinstance(prevalence, str) or not 0 < prevalence < 1:
            raise InvalidInputError(
                f"prevalence must be 'common', 'own' or between 0 and 1, got {prevalence!r:.60}",
                field="prevalence",
            )
        request.prevalence = prevalence
    return Call("QueryService", "CompareStreams", request, decode.read_comparison)


def create_stream(
    name: str, settings: Mapping[str, Any], *, request_id: str = ""
) -> Call[stream_pb2.CreateStreamResponse]:
    """Return the call that creates a stream; the same `request_id` creates it once."""
    stream = stream_pb2.Stream(name=name, settings=settings_message(settings))
    request = stream_pb2.CreateStreamRequest(stream=stream, request_id=request_id or _request_id())
    return Call("StreamService", "CreateStream", request, _identity)


def update_stream(name: str, settings: Mapping[str, Any]) -> Call[stream_pb2.UpdateStreamResponse]:
    """Return the call that changes the given settings."""
    if not settings:
        raise InvalidInputError("give at least one setting to change", field="settings")
    request = stream_pb2.UpdateStreamRequest(
        stream=stream_pb2.Stream(name=name, settings=settings_message(settings)),
        request_id=_request_id(),
    )
    request.update_mask.paths.extend(f"settings.{key}" for key in settings)
    return Call("StreamService", "UpdateStream", request, _identity)


def get_stream(name: str) -> Call[StreamInfo]:
    """Return the call for a stream's description."""
    request = stream_pb2.GetStreamRequest(name=name)
    return Call(
        "StreamService",
        "GetStream",
        request,
        lambda response: decode.read_info(response.stream),
    )


def list_streams(prefix: str) -> PagedCall[list[StreamInfo]]:
    """Return the calls for the list of streams, page by page."""
    request = stream_pb2.ListStreamsRequest(page_size=_PAGE_SIZE, prefix=prefix)
    found: list[StreamInfo] = []
    while True:
        response: stream_pb2.ListStreamsResponse = yield Call(
            "StreamService", "ListStreams", request, _identity
        )
        found += map(decode.read_info, response.streams)
        if not response.next_page_token:
            return found
        request.page_token = response.next_page_token


def delete_stream(name: str) -> Call[stream_pb2.DeleteStreamResponse]:
    """Return the call that deletes a stream."""
    request = stream_pb2.DeleteStreamRequest(name=name, request_id=_request_id())
    return Call("StreamService", "DeleteStream", request, _identity)


def _request_id() -> str:
    """Return the id of a change, with which gRPC may send it again."""
    return str(uuid.uuid4())


def _identity(response: A) -> A:
    return response
