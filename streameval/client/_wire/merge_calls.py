"""MergeMany calls of both kinds of clients, with the same methods.

Those of a `BlockingMergeCall` block the calling thread and never suspend. Sending does not
raise when the call has ended: `read` then raises its error.
"""

from __future__ import annotations

import asyncio
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

import grpc

from streameval.client._wire.async_transport import is_cancelling
from streameval.client._wire.rpc_errors import from_rpc_error

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from streameval.client._wire.async_transport import AsyncTransport
    from streameval.client._wire.transport import Transport
    from streameval.v1 import ingest_pb2


class MergeCall(Protocol):
    """One MergeMany call."""

    @property
    def has_ended(self) -> bool:
        """Whether it has failed, so that `read` will raise."""

    async def send(self, request: ingest_pb2.MergeManyRequest) -> None:
        """Send a request. Where that fails, `read` says why."""

    async def read(self) -> ingest_pb2.MergeManyResponse | None:
        """Return the next answer; None at the end. Raises ClientError."""

    async def finish(self) -> None:
        """Say that there is no more to send, so that the server ends the call."""

    async def close(self) -> None:
        """End the call, if it has not ended."""


class BlockingMergeCall:
    """A call of a `Client`; gRPC's thread takes the requests from a queue.

    Parameters
    ----------
    transport : Transport
    timeout_s : float or None
        After this the call ends with DEADLINE_EXCEEDED.
    """

    def __init__(self, transport: Transport, timeout_s: float | None) -> None:
        # Bounded by what the caller sends before it reads.
        self._requests: SimpleQueue[ingest_pb2.MergeManyRequest | None] = SimpleQueue()
        self._transport = transport
        self._call = transport.merge_many(iter(self._requests.get, None), timeout_s)

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended."""
        return not self._call.is_active()

    async def send(self, request: ingest_pb2.MergeManyRequest) -> None:
        """Send a request."""
        self._requests.put(request)

    async def read(self) -> ingest_pb2.MergeManyResponse | None:
        """Return the next answer; None at the end. Raises ClientError."""
        try:
            answer: ingest_pb2.MergeManyResponse | None = next(self._call, None)
        except grpc.RpcError as error:
            raise self._transport.failure(error) from None
        self._transport.record_answer()
        return answer

    async def finish(self) -> None:
        """Say that there is no more to send."""
        self._requests.put(None)

    async def close(self) -> None:
        """End the call, and gRPC's thread, which waits for a request."""
        self._requests.put(None)
        self._call.cancel()


class AsyncMergeCall:
    """A call of an `AsyncClient`.

    Parameters
    ----------
    transport, timeout_s
        As of `BlockingMergeCall`.
    """

    def __init__(self, transport: AsyncTransport, timeout_s: float | None) -> None:
        self._transport = transport
        self._call = transport.merge_many(timeout_s)

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended."""
        return bool(self._call.done())

    async def send(self, request: ingest_pb2.MergeManyRequest) -> None:
        """Send a request."""
        await self._write(self._call.write(request))

    async def _write(self, writing: Awaitable[None]) -> None:
        try:
            await writing
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass
        except asyncio.CancelledError:
            if is_cancelling():
                raise

    async def read(self) -> ingest_pb2.MergeManyResponse | None:
        """Return the next answer; None at the end. Raises ClientError."""
        try:
            answer = await self._call.read()
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None
        except asyncio.CancelledError:
            raise self._transport.cancelled() from None
        self._transport.record_answer()
        return None if answer is grpc.aio.EOF else answer

    async def finish(self) -> None:
        """Say that there is no more to send."""
        await self._write(self._call.done_writing())

    async def close(self) -> None:
        """End the call."""
        self._transport.end_stream(self._call)
