"""IngestService over gRPC: frames to sessions, replies from sessions, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from streameval.v1 import ingest_pb2
from streameval_server._grpc.answered_stream import AnsweredStream
from streameval_server._grpc.merge_calls import MergeCalls
from streameval_server._grpc.methods import add_methods
from streameval_server._ingest.session import IngestSession
from streameval_server._security.access import current_access
from streameval_server._security.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streameval_server._model.limits import Limits
    from streameval_server._runtime.runtime import Runtime

_SERVICE = ingest_pb2.DESCRIPTOR.services_by_name["IngestService"]

Context = grpc.aio.ServicerContext[Any, Any]


class IngestService:
    """Takes encoded batches, because the log stores the frames that clients sent."""

    def __init__(self, runtime: Runtime, limits: Limits) -> None:
        self._runtime = runtime
        self._limits = limits
        self._merges = MergeCalls(runtime, limits)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service's methods."""
        add_methods(
            server,
            _SERVICE,
            {
                "Ingest": self.ingest,
                "IngestBatch": self.ingest_batch,
                "Merge": self._merges.merge,
            },
            encoded=frozenset({"Ingest", "IngestBatch"}),
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
