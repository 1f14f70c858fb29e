"""IngestService over gRPC: frames to sessions, replies from sessions, nothing else.

Each Ingest stream has two tasks. The reader feeds the session, and pauses while the
session has too many bytes without an ack. The writer sends the session's replies as
fast as the client reads them; acks are cumulative, so unread acks merge into one.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import grpc

from streameval.v1 import ingest_pb2
from streameval_server._batch.merge import MergeInbox
from streameval_server._grpc.merge_pieces import MergePieces
from streameval_server._ingest.session import IngestSession
from streameval_server._runtime.open_calls import stopping_error
from streameval_server._security.access import current_access
from streameval_server._security.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from streameval_server._model.limits import Limits
    from streameval_server._runtime.runtime import Runtime
    from streameval_server._security.access import Access

_FULL_NAME = ingest_pb2.DESCRIPTOR.services_by_name["IngestService"].full_name

_MAX_UNREAD_BATCHES = 1024
"""Batches that are read while the client leaves an answer unread. Each batch may be
refused, and refusals, unlike acks, do not merge into one."""

Context = grpc.aio.ServicerContext[Any, Any]


class IngestService:
    """Takes encoded requests, because the log stores the frames that clients sent."""

    def __init__(self, runtime: Runtime, limits: Limits) -> None:
        self._runtime = runtime
        self._limits = limits
        self._pieces = MergePieces(limits)

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
                self.merge,
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
        stream = _Stream(self._runtime, self._limits, current_access())
        reading = asyncio.create_task(stream.read(requests))
        try:
            with self._runtime.calls.call(stream.wake):
                async with aclosing(stream.replies()) as replies:
                    async for reply in replies:
                        yield reply
            await reading
        finally:
            reading.cancel()

    async def ingest_batch(self, frame: bytes, _context: Context) -> ingest_pb2.IngestBatchResponse:
        """Answer once the batch is durable."""
        access = current_access()
        response = await self._runtime.settled(
            lambda call: call.ingest_batch(frame, self._runtime.now_us(), forbids=access.forbids)
        )
        assert isinstance(response, ingest_pb2.IngestBatchResponse)
        return response

    async def merge(
        self, requests: AsyncIterator[ingest_pb2.MergeRequest], _context: Context
    ) -> ingest_pb2.MergeResponse:
        """Answer once the merge is durable and visible."""
        runtime, inbox = self._runtime, MergeInbox(self._limits)
        with runtime.calls.call():
            await self._pieces.collect(inbox, requests, current_access().token_id)
            if inbox.is_duplicate(runtime.core.committer.catalog):
                return ingest_pb2.MergeResponse(revision=runtime.durable_revision(), duplicate=True)
            settings = inbox.settings_in(runtime.core.committer.catalog)
            now_us, disputed_us = runtime.now()
            if inbox.is_small():
                prepared = inbox.finish(now_us, settings, disputed_us=disputed_us)
            else:
                # Off the event loop: checking takes O(bytes of the states).
                prepared = await asyncio.to_thread(
                    inbox.finish, now_us, settings, disputed_us=disputed_us
                )
        response = await runtime.settled(lambda call: call.merge(inbox, prepared))
        assert isinstance(response, ingest_pb2.MergeResponse)
        await runtime.visible(response.revision)
        return response


class _Stream:
    """One Ingest stream: its reader, its writer, and the events between them."""

    def __init__(self, runtime: Runtime, limits: Limits, access: Access) -> None:
        self._runtime = runtime
        self._access = access
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._session = IngestSession(
            runtime.core.committer, limits, self.wake, forbids=access.forbids
        )
        self._ended = False
        # The client has an answer to read; before the first one, which waits for the disk, it
        # may not send without end either.
        self._writing = True
        self._batches_since_write = 0

    def wake(self) -> None:
        """Wake both tasks."""
        self._changed.set()
        self._room.set()

    async def read(self, requests: AsyncIterator[bytes]) -> None:
        """Feed the session until the client has sent everything, or the server stops.

        Raises
        ------
        RequestError
            When the client breaks a rule; batches before that still count.
        """
        session, runtime = self._session, self._runtime
        try:
            async for frame in requests:
                if runtime.calls.stopping:
                    return
                self._access.need(Scope.INGEST)  # the token may have been revoked
                session.feed(frame, runtime.now_us())
                runtime.submitted()
                self._batches_since_write += 1
                while session.full or self._client_stalls():
                    self._room.clear()
                    await self._room.wait()
        finally:
            self._ended = True
            self._changed.set()

    def _client_stalls(self) -> bool:
        """Whether the client sends many batches without reading its answers."""
        return self._writing and self._batches_since_write >= _MAX_UNREAD_BATCHES

    async def replies(self) -> AsyncGenerator[ingest_pb2.IngestResponse, None]:
        """Yield replies until every batch is settled and the client has sent its last.

        Raises
        ------
        RequestError
            When the server must end the stream before the client does.
        """
        session, runtime = self._session, self._runtime
        while True:
            self._changed.clear()
            replies = session.replies()
            if replies:
                self._writing = True
                self._batches_since_write = 0
                for reply in replies:
                    yield reply  # continues when it is written
                self._writing = False
                self._room.set()
            if session.error is not None:
                raise session.error
            if runtime.failed:
                raise stopping_error()
            if not replies:
                if session.idle and runtime.calls.stopping:
                    raise stopping_error()
                if session.idle and self._ended:
                    return
                await self._changed.wait()
