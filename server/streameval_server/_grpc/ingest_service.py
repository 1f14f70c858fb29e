"""IngestService over gRPC: frames to sessions, replies from sessions, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from streameval.v1 import ingest_pb2
from streameval_server._grpc.answered_stream import AnsweredStream
from streameval_server._grpc.merge_calls import MergeCalls
from streameval_server._ingest.session import IngestSession
from streameval_server._security.access import current_access
from streameval_server._security.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streameval_server._model.limits import Limits
    from streameval_server._runtime.runtime import Runtime

_FULL_NAME = ingest_pb2.DESCRIPTOR.services_by_name["IngestService"].full_name

Context = grpc.aio.ServicerContext[Any, Any]


class IngestService:
    """Takes encoded batches, because the log stores the frames that clients sent."""

    def __init__(self, runtime: Runtime, limits: Limits) -> None:
        self._runtime = runtime
        self._limits = limits
        self._merges = MergeCalls(runtime, limits)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service's methods."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Ingest": grpc.stream_stream_rpc_method_handler(
                self.ingest, response_serializer=ingest_pb2.IngestResponse.SerializeToString
            ),
            "IngestBatch": grpc.unary_unary_rpc_method_handler(
                self.ingest_batch,
                response_serializer=ingest_pb2.IngestBatchResponse.SerializeToString,
            ),
            "Merge": grpc.stream_unary_rpc_method_handler(
                self._merges.merge,
                request_deserializer=ingest_pb2.MergeRequest.FromString,
                response_serializer=ingest_pb2.MergeResponse.SerializeToString,
            ),
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_FULL_NAME, handlers),)
        )

    async def ingest(
        self, requests: AsyncIterator[bytes], _context: Context
    ) -> AsyncIterator[ingest_pb2.IngestResponse]:
        """Serve one stream of batches until its end, its error or the server's stop."""
        runtime, access = self._runtime, current_access()
        stream: AnsweredStream[bytes] = AnsweredStream(runtime)
        session = IngestSession(
            runtime.core.committer, self._limits, stream.wake, forbids=access.forbids
        )

        def feed(frame: bytes) -> None:
            access.need(Scope.INGEST)  # the token may have been revoked
            session.feed(frame, runtime.now_us())

        async with stream.serving(session, requests, feed) as replies:
            async for reply in replies:
                yield reply

    async def ingest_batch(self, frame: bytes, _context: Context) -> ingest_pb2.IngestBatchResponse:
        """Answer once the batch is durable."""
        access = current_access()
        response = await self._runtime.settled(
            lambda call: call.ingest_batch(frame, self._runtime.now_us(), forbids=access.forbids)
        )
        assert isinstance(response, ingest_pb2.IngestBatchResponse)
        return response
