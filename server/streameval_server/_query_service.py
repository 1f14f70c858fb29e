"""QueryService over gRPC: which counts, which answer, as messages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streameval.v1 import query_pb2, query_pb2_grpc, types_pb2
from streameval_server._convert import curve_message, points_message, snapshot_message
from streameval_server._errors import Code, RequestError
from streameval_server._status import abort

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable
    from typing import Any, TypeVar

    import grpc
    from google.protobuf.message import Message

    from streameval_server._runtime import Runtime

    T = TypeVar("T")
    Context = grpc.aio.ServicerContext[Any, Any]

STATE_PIECE_BYTES = 1 << 20
"""Longest piece of a state."""

_Kind = query_pb2.CurveKind

_NOT_SELECTED_BY = ("last", "between", "last_cases", "half_life", "segment", "mature_after")
"""Fields of a Selection that this version does not serve."""


class QueryService(query_pb2_grpc.QueryServiceServicer):
    """Answers from the counts at one revision."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service's methods."""
        query_pb2_grpc.add_QueryServiceServicer_to_server(self, server)

    async def GetSnapshot(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetSnapshotRequest, context: Context
    ) -> query_pb2.GetSnapshotResponse:
        """Return the figures of a stream."""
        stream = request.selection.stream
        await _refuse_set(context, request, "metrics", "level", "anytime")
        return await self._answer(
            context, request.selection, ("snapshot", stream), partial(self._snapshot, stream)
        )

    async def GetCurve(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetCurveRequest, context: Context
    ) -> query_pb2.GetCurveResponse:
        """Return a curve's points, thinned."""
        stream, kind, most = request.selection.stream, request.kind, request.max_points
        if kind not in {_Kind.CURVE_KIND_OPERATING_POINTS, _Kind.CURVE_KIND_HULL}:
            await abort(context, _unknown_kind(kind))
        return await self._answer(
            context,
            request.selection,
            ("curve", stream, kind, most),
            partial(self._curve, stream, kind, most),
        )

    async def GetState(  # noqa: N802 - the contract's name
        self, request: query_pb2.GetStateRequest, context: Context
    ) -> AsyncIterator[query_pb2.GetStateResponse]:
        """Yield the state in pieces."""
        stream = request.selection.stream
        revision, data = await self._answer(
            context, request.selection, ("state", stream), partial(self._state, stream)
        )
        for start in range(0, len(data), STATE_PIECE_BYTES):
            yield query_pb2.GetStateResponse(
                revision=revision,
                total_bytes=len(data),
                data=data[start : start + STATE_PIECE_BYTES],
            )

    async def ListWindows(  # noqa: N802 - the contract's name
        self, request: query_pb2.ListWindowsRequest, context: Context
    ) -> query_pb2.ListWindowsResponse:
        """Refuse: not served yet."""
        await abort(context, _not_served(request.DESCRIPTOR.name.removesuffix("Request")))

    async def CompareStreams(  # noqa: N802 - the contract's name
        self, request: query_pb2.CompareStreamsRequest, context: Context
    ) -> query_pb2.CompareStreamsResponse:
        """Refuse: not served yet."""
        await abort(context, _not_served(request.DESCRIPTOR.name.removesuffix("Request")))

    async def RankSegments(  # noqa: N802 - the contract's name
        self, request: query_pb2.RankSegmentsRequest, context: Context
    ) -> query_pb2.RankSegmentsResponse:
        """Refuse: not served yet."""
        await abort(context, _not_served(request.DESCRIPTOR.name.removesuffix("Request")))

    async def Watch(  # noqa: N802 - the contract's name
        self, request: query_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[query_pb2.WatchResponse]:
        """Refuse: not served yet."""
        await abort(context, _not_served(request.DESCRIPTOR.name.removesuffix("Request")))
        yield query_pb2.WatchResponse()

    async def _answer(
        self,
        context: Context,
        selection: types_pb2.Selection,
        question: Hashable,
        compute: Callable[[], T],
    ) -> T:
        """Wait for the revision, then for a query thread's answer."""
        runtime = self._runtime
        await _refuse_set(context, selection, *_NOT_SELECTED_BY, prefix="selection.")
        try:
            with runtime.calls.call():
                await runtime.visible(selection.min_revision)
                return await runtime.queries.run(question, compute)
        except RequestError as error:
            await abort(context, error)

    # --- In query threads ---------------------------------------------------------------------

    def _snapshot(self, stream: str) -> query_pb2.GetSnapshotResponse:
        view = self._runtime.view(stream)
        return query_pb2.GetSnapshotResponse(
            snapshot=snapshot_message(
                view.evaluator.snapshot(), stream=stream, revision=view.revision
            )
        )

    def _curve(
        self, stream: str, kind: query_pb2.CurveKind.ValueType, most: int
    ) -> query_pb2.GetCurveResponse:
        view = self._runtime.view(stream)
        evaluator = view.evaluator
        if kind == _Kind.CURVE_KIND_HULL:
            curve = curve_message(evaluator.roc_hull())
        else:
            curve = points_message(evaluator, most)
        return query_pb2.GetCurveResponse(
            revision=view.revision,
            num_positive_ref=evaluator.num_positive_ref,
            num_negative_ref=evaluator.num_negative_ref,
            curve=curve,
        )

    def _state(self, stream: str) -> tuple[int, bytes]:
        view = self._runtime.view(stream)
        return view.revision, view.evaluator.to_bytes()


async def _refuse_set(context: Context, message: Message, *names: str, prefix: str = "") -> None:
    """End the call if a field is set that this version does not serve."""
    for field, _ in message.ListFields():
        if field.name in names:
            await abort(context, _not_served(prefix + field.name))


def _not_served(what: str) -> RequestError:
    return RequestError(Code.UNIMPLEMENTED, f"{what} is not served yet", reason="NOT_SERVED")


def _unknown_kind(kind: int) -> RequestError:
    message = f"kind must be CURVE_KIND_OPERATING_POINTS or CURVE_KIND_HULL, got {kind}"
    return RequestError(
        Code.INVALID_ARGUMENT, message, reason="UNKNOWN_CURVE", violations=(("kind", message),)
    )
