"""QueryService over gRPC: requests are checked on the event loop, answered in query threads.

Each method translates, no more: what a request means stands in the module of
its answer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from streameval.v1 import query_pb2, query_pb2_grpc
from streameval_server._queries.comparison import comparison, comparison_query
from streameval_server._queries.curves import curve, curve_asked, state
from streameval_server._queries.decision import decision, decision_asked
from streameval_server._queries.histogram import histogram, histogram_asked
from streameval_server._queries.overview import overview, overview_asked
from streameval_server._queries.query_engine import Answers
from streameval_server._queries.ranking import ranking, ranking_query
from streameval_server._queries.selection import selected
from streameval_server._queries.series import series, series_asked
from streameval_server._queries.snapshots import snapshot, snapshot_asked
from streameval_server._runtime.runtime import now_us
from streameval_server._runtime.watch import interval_s, watched, watched_many

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable
    from typing import Any

    import grpc

    from streameval_server._runtime.runtime import Runtime

    Context = grpc.aio.ServicerContext[Any, Any]

Q = TypeVar("Q", bound="Hashable")
T = TypeVar("T")

_LONG: frozenset[object] = frozenset({overview, series, ranking})
"""Answers of many windows."""


class QueryService(query_pb2_grpc.QueryServiceServicer):
    """Answers from the counts at one revision."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._answers = Answers(runtime.view, now_us, runtime.queries.check)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service's methods."""
        query_pb2_grpc.add_QueryServiceServicer_to_server(self, server)

    async def GetSnapshot(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetSnapshotRequest, _context: Context
    ) -> query_pb2.GetSnapshotResponse:
        """Return the figures of a selection."""
        found = await self._answer(
            request.selection.min_revision, lambda: snapshot_asked(request), snapshot
        )
        return query_pb2.GetSnapshotResponse(snapshot=found)

    async def BatchGetSnapshots(  # noqa: N802 - the contract's name
        self, request: query_pb2.BatchGetSnapshotsRequest, _context: Context
    ) -> query_pb2.BatchGetSnapshotsResponse:
        """Return the figures of many streams, of all that are durable by now."""
        durable = self._runtime.durable_revision()
        return await self._answer(durable, lambda: overview_asked(request), overview)

    async def GetCurve(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetCurveRequest, _context: Context
    ) -> query_pb2.GetCurveResponse:
        """Return a curve's points, thinned."""
        return await self._answer(
            request.selection.min_revision, lambda: curve_asked(request), curve
        )

    async def GetHistogram(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetHistogramRequest, _context: Context
    ) -> query_pb2.GetHistogramResponse:
        """Return how scores are distributed."""
        return await self._answer(
            request.selection.min_revision, lambda: histogram_asked(request), histogram
        )

    async def GetDecision(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetDecisionRequest, _context: Context
    ) -> query_pb2.GetDecisionResponse:
        """Return what a threshold does."""
        return await self._answer(
            request.selection.min_revision, lambda: decision_asked(request), decision
        )

    async def GetState(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetStateRequest, _context: Context
    ) -> AsyncIterator[query_pb2.GetStateResponse]:
        """Yield the state in pieces."""
        found = await self._answer(
            request.selection.min_revision, lambda: selected(request.selection), state
        )
        for piece in found.pieces():
            yield piece

    async def ListWindows(  # noqa: N802 - the contract's name
        self, request: query_pb2.ListWindowsRequest, _context: Context
    ) -> query_pb2.ListWindowsResponse:
        """Return a page of a time series."""
        return await self._answer(
            request.selection.min_revision, lambda: series_asked(request), series
        )

    async def CompareStreams(  # noqa: N802 - the contract's name
        self, request: query_pb2.CompareStreamsRequest, _context: Context
    ) -> query_pb2.CompareStreamsResponse:
        """Return how much two selections differ."""
        min_revision = max(request.a.min_revision, request.b.min_revision)
        return await self._answer(min_revision, lambda: comparison_query(request), comparison)

    async def RankSegments(  # noqa: N802 - the contract's name
        self, request: query_pb2.RankSegmentsRequest, _context: Context
    ) -> query_pb2.RankSegmentsResponse:
        """Return the slices of a key, the worst first."""
        return await self._answer(
            request.selection.min_revision, lambda: ranking_query(request), ranking
        )

    async def Watch(  # noqa: N802 - the contract's name
        self, request: query_pb2.WatchRequest, _context: Context
    ) -> AsyncIterator[query_pb2.WatchResponse]:
        """Yield the newest figures whenever they move."""
        async for found in watched(
            self._runtime,
            self._answers,
            snapshot_asked(request),
            pause_s=interval_s(request),
            min_revision=request.selection.min_revision,
        ):
            yield query_pb2.WatchResponse(snapshot=found)

    async def WatchSnapshots(  # noqa: N802 - the contract's name
        self, request: query_pb2.WatchSnapshotsRequest, _context: Context
    ) -> AsyncIterator[query_pb2.WatchSnapshotsResponse]:
        """Yield the newest figures of those that moved."""
        async for found in watched_many(
            self._runtime, self._answers, overview_asked(request), pause_s=interval_s(request)
        ):
            yield found

    async def _answer(
        self, min_revision: int, check: Callable[[], Q], compute: Callable[[Answers, Q], T]
    ) -> T:
        """Check the request, wait for the revision, then for a query thread's answer."""
        runtime, asked = self._runtime, check()
        with runtime.calls.call():
            await runtime.visible(min_revision)
            return await runtime.answer(
                (compute.__name__, asked),
                partial(compute, self._answers, asked),
                is_long=compute in _LONG,
            )
