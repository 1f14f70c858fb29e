"""gRPC for the asyncio client: a channel on one event loop, opened on first use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from streameval.client._errors import ClosedError
from streameval.client._wire.transport import BaseTransport, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from google.protobuf.message import Message

    from streameval.client._wire.calls import Call
    from streameval.client._wire.credentials import Credentials
    from streameval.v1 import ingest_pb2

A = TypeVar("A")
R = TypeVar("R")


class AsyncTransport(BaseTransport[grpc.aio.Channel]):
    """Makes calls to one server, on one event loop."""

    _grpc = grpc.aio

    def __init__(self, address: str, credentials: Credentials | None = None) -> None:
        super().__init__(address, credentials)
        # `close` cancels these streams. A channel of grpcio 1.81 finds its calls in the frames of
        # tasks, and misses calls that a generator awaits.
        self._streams: set[grpc.aio.Call] = set()

    def blocking(self) -> Transport:
        """Return a transport to the same server for calls that block."""
        return Transport(self.address, self._credentials)

    def ingest(self) -> Any:
        """Open an Ingest stream; return its call."""
        return self.ingest_stub.Ingest(metadata=self.metadata)

    async def ask(self, call: Call[A], timeout_s: float | None) -> A:
        """Make a call; return its result, or raise the server's error."""
        method = self._method(call.method)
        if call.method.server_streaming:
            responses = self._streamed(method, call.request, timeout_s)
            return call.read([response async for response in responses])
        return call.read(await self._unary(method, call.request, timeout_s))

    async def watch(self, call: Call[A]) -> AsyncIterator[A]:
        """Make a call; yield a result for each response until the server or the caller ends it."""
        method = self._method(call.method)
        async for response in self._streamed(method, call.request, None):
            if response.ByteSize():  # not a heartbeat
                yield call.read(response)

    async def merge(
        self, requests: Iterator[ingest_pb2.MergeRequest], timeout_s: float | None
    ) -> ingest_pb2.MergeResponse:
        """Send a merge; return the response, or raise the server's error."""
        return await self._unary(self.ingest_stub.Merge, requests, timeout_s)

    def end_stream(self, call: Any) -> None:
        """End a stream, if it has not ended."""
        self._streams.discard(call)
        call.cancel()

    async def _unary(
        self, method: Callable[..., Awaitable[R]], request: Any, timeout_s: float | None
    ) -> R:
        try:
            response = await method(request, **self._options(timeout_s))
        except grpc.RpcError as error:
            raise self.failure(error) from None
        except asyncio.CancelledError:
            raise self.cancelled() from None
        self._has_answered = True
        return response

    async def _streamed(
        self, method: Any, request: Message, timeout_s: float | None
    ) -> AsyncIterator[Any]:
        responses = method(request, **self._options(timeout_s))
        self._streams.add(responses)
        try:
            async for response in responses:
                self._has_answered = True
                yield response
        except grpc.RpcError as error:
            raise self.failure(error) from None
        except asyncio.CancelledError:
            raise self.cancelled() from None
        finally:
            self.end_stream(responses)

    def cancelled(self) -> BaseException:
        """Return the error of a cancelled call. Closing a channel cancels its calls."""
        if self._closed and not is_cancelling():
            return ClosedError("the client is closed")
        return asyncio.CancelledError()

    async def close(self) -> None:
        """Close the channel; further calls raise ClosedError."""
        self._closed = True
        for responses in self._streams:
            responses.cancel()
        for channel in self._take_channels():
            await channel.close()


def is_cancelling() -> bool:
    """Whether the current task itself is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
