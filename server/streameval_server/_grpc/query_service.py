"""QueryService over gRPC: requests are checked on the event loop, answered in query threads.

Each method only connects a request to its answer; the module of the answer defines
what the request means.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from streameval.v1 import overview_pb2, query_pb2, query_pb2_grpc, verdict_pb2
from streameval_server._model.errors import invalid
from streameval_server._queries.comparison import comparison, parse_comparison_request
from streameval_server._queries.curves import curve, parse_curve_request, state
from streameval_server._queries.decision import decision, parse_decision_request
from streameval_server._queries.histogram import histogram, parse_histogram_request
from streameval_server._queries.label_sample import label_sample, parse_label_sample_request
from streameval_server._queries.overview import overview, parse_overview_request
from streameval_server._queries.query_engine import parse_snapshot_request, snapshot
from streameval_server._queries.ranking import parse_ranking_request, ranking
from streameval_server._queries.reliability import parse_reliability_request, reliability
from streameval_server._queries.selection import parse_selection
from streameval_server._queries.series import parse_series_request, series
from streameval_server._queries.stream_list import stream_list
from streameval_server._queries.stream_list_request import parse_list_request
from streameval_server._queries.verdicts import parse_verdict_request, verdict
from streameval_server._runtime.watch import Heartbeat, interval_s, watch_snapshot, watch_snapshots
from streameval_server._runtime.watch_summaries import watch_summaries
from streameval_server._security.access import current_access
from streameval_server._security.tokens import covers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable
    from typing import Any

    import grpc

    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.stream_list_request import ListRequest
    from streameval_server._runtime.runtime import Runtime

    Context = grpc.aio.ServicerContext[Any, Any]

_log = logging.getLogger(__name__)

Q = TypeVar("Q", bound="Hashable")
T = TypeVar("T")

_LONG: frozenset[object] = frozenset({overview, series, ranking, label_sample})
"""Computations over many windows, or over all ids: they may take long."""


class QueryService(query_pb2_grpc.QueryServiceServicer):
    """Answers from the counts at one revision."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service's methods."""
        query_pb2_grpc.add_QueryServiceServicer_to_server(self, server)

    async def GetSnapshot(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetSnapshotRequest, _context: Context
    ) -> query_pb2.GetSnapshotResponse:
        """Return the figures of a selection."""
        found = await self._answer(
            request.selection.min_revision, lambda: parse_snapshot_request(request), snapshot
        )
        return query_pb2.GetSnapshotResponse(snapshot=found)

    async def GetVerdict(  # noqa: N802 - the contract's name
        self, request: verdict_pb2.GetVerdictRequest, _context: Context
    ) -> verdict_pb2.GetVerdictResponse:
        """Return the verdict on a stream."""
        return await self._answer(
            request.min_revision, lambda: parse_verdict_request(request), verdict
        )

    async def BatchGetSnapshots(  # noqa: N802 - the contract's name
        self, request: query_pb2.BatchGetSnapshotsRequest, _context: Context
    ) -> query_pb2.BatchGetSnapshotsResponse:
        """Return the figures of many streams, with everything that is durable now."""
        durable = self._runtime.durable_revision()
        return await self._answer(durable, lambda: parse_overview_request(request), overview)

    async def ListStreamSummaries(  # noqa: N802 - the contract's name
        self, request: overview_pb2.ListStreamSummariesRequest, _context: Context
    ) -> overview_pb2.ListStreamSummariesResponse:
        """Return a page of streams in an order, with everything that is durable now."""
        runtime, asked = self._runtime, parse_list_request(request)
        with runtime.calls.call(), runtime.quota.query(current_access().token_id):
            await runtime.visible(runtime.durable_revision())
            return await self._list(asked)

    async def _list(
        self, asked: ListRequest, *, is_known_only: bool = False
    ) -> overview_pb2.ListStreamSummariesResponse:
        """Return a page of the streams that the token of this task's call covers."""
        runtime = self._runtime
        while True:
            streams = current_access().streams
            query = asked.covering(streams)
            found = await runtime.queries.run(
                ("summaries", query, is_known_only),
                partial(
                    stream_list,
                    runtime.summaries,
                    partial(covers, streams),
                    query,
                    is_known_only=is_known_only,
                ),
            )
            # The token may have been narrowed meanwhile: list what it covers now.
            if current_access().streams == streams:
                return found

    async def GetCurve(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetCurveRequest, _context: Context
    ) -> query_pb2.GetCurveResponse:
        """Return a curve's points, thinned."""
        return await self._answer(
            request.selection.min_revision, lambda: parse_curve_request(request), curve
        )

    async def GetHistogram(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetHistogramRequest, _context: Context
    ) -> query_pb2.GetHistogramResponse:
        """Return the distribution of scores."""
        return await self._answer(
            request.selection.min_revision, lambda: parse_histogram_request(request), histogram
        )

    async def GetReliability(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetReliabilityRequest, _context: Context
    ) -> query_pb2.GetReliabilityResponse:
        """Return whether scores are probabilities."""
        return await self._answer(
            request.selection.min_revision,
            lambda: parse_reliability_request(request),
            reliability,
        )

    async def GetDecision(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetDecisionRequest, _context: Context
    ) -> query_pb2.GetDecisionResponse:
        """Return the figures at a threshold."""
        return await self._answer(
            request.selection.min_revision, lambda: parse_decision_request(request), decision
        )

    async def GetState(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetStateRequest, _context: Context
    ) -> AsyncIterator[query_pb2.GetStateResponse]:
        """Yield the state, in pieces."""
        found = await self._answer(
            request.selection.min_revision, lambda: parse_selection(request.selection), state
        )
        for piece in found.pieces():
            yield piece

    async def ListWindows(  # noqa: N802 - the contract's name
        self, request: query_pb2.ListWindowsRequest, _context: Context
    ) -> query_pb2.ListWindowsResponse:
        """Return a page of a time series."""
        return await self._answer(
            request.selection.min_revision, lambda: parse_series_request(request), series
        )

    async def CompareStreams(  # noqa: N802 - the contract's name
        self, request: query_pb2.CompareStreamsRequest, _context: Context
    ) -> query_pb2.CompareStreamsResponse:
        """Return the difference between two selections."""
        min_revision = max(request.a.min_revision, request.b.min_revision)
        found = await self._answer(
            min_revision, lambda: parse_comparison_request(request), comparison
        )
        return query_pb2.CompareStreamsResponse(comparison=found)

    async def RankSegments(  # noqa: N802 - the contract's name
        self, request: query_pb2.RankSegmentsRequest, _context: Context
    ) -> query_pb2.RankSegmentsResponse:
        """Return the slices of a key, the worst first."""
        return await self._answer(
            request.selection.min_revision, lambda: parse_ranking_request(request), ranking
        )

    async def SampleForLabels(  # noqa: N802 - the contract's name
        self, request: query_pb2.SampleForLabelsRequest, _context: Context
    ) -> query_pb2.SampleForLabelsResponse:
        """Return which predictions to label next; the server's log has the draw, without ids."""
        # Checked once: a request without a seed gets one, and the log says which.
        asked = parse_label_sample_request(request)
        found = await self._answer(request.selection.min_revision, lambda: asked, label_sample)
        if asked.draw_ids:
            _log.info(
                "token %r drew %d ids of %s to label for %s, at revision %d with seed %d: %s",
                current_access().token_id,
                asked.size,
                asked.selection.stream,
                asked.metric,
                found.revision,
                found.seed,
                ", ".join(
                    f"{band.to_label}/{band.waiting} from {band.lower:g}" for band in found.bands
                ),
            )
        return found

    async def WatchSnapshot(  # noqa: N802 - the contract's name
        self, request: query_pb2.WatchSnapshotRequest, _context: Context
    ) -> AsyncIterator[query_pb2.WatchSnapshotResponse]:
        """Yield the newest figures whenever they change."""
        async for response in watch_snapshot(
            self._runtime,
            parse_snapshot_request(request),
            pause_s=interval_s(request),
            heartbeat=Heartbeat(request),
            min_revision=request.selection.min_revision,
        ):
            yield response

    async def WatchSnapshots(  # noqa: N802 - the contract's name
        self, request: query_pb2.WatchSnapshotsRequest, _context: Context
    ) -> AsyncIterator[query_pb2.WatchSnapshotsResponse]:
        """Yield the newest figures of the streams that changed."""
        async for found in watch_snapshots(
            self._runtime,
            parse_overview_request(request),
            pause_s=interval_s(request),
            heartbeat=Heartbeat(request),
        ):
            yield found

    async def WatchStreamSummaries(  # noqa: N802 - the contract's name
        self, request: overview_pb2.WatchStreamSummariesRequest, _context: Context
    ) -> AsyncIterator[overview_pb2.WatchStreamSummariesResponse]:
        """Yield the first streams in an order whenever they change."""
        if request.list.page_token:
            raise invalid("list.page_token", "a watch begins with the first stream: leave it empty")
        asked = parse_list_request(request.list, "list.")
        async for found in watch_summaries(
            self._runtime,
            partial(self._list, asked),
            partial(self._list, asked, is_known_only=True),
            pause_s=interval_s(request),
            heartbeat=Heartbeat(request),
        ):
            yield found

    async def _answer(
        self, min_revision: int, check: Callable[[], Q], compute: Callable[[QueryEngine, Q], T]
    ) -> T:
        """Check the request, wait until the revision is applied, answer from a query thread."""
        runtime, query = self._runtime, check()
        with runtime.calls.call(), runtime.quota.query(current_access().token_id):
            await runtime.visible(min_revision)
            return await runtime.answer(
                (compute.__name__, query),
                partial(_computed, runtime.engine, compute, query),
                is_long=compute in _LONG,
            )


def _computed(engine: QueryEngine, compute: Callable[[QueryEngine, Q], T], query: Q) -> T:
    try:
        return compute(engine, query)
    finally:
        engine.end()
