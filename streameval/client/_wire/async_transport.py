"""gRPC as the asyncio client uses it: a channel on one event loop, opened on first use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from streameval.client._errors import ClosedError
from streameval.client._wire.transport import STUBS, channel_options, from_rpc_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from streameval.client._wire.calls import Call, Service
    from streameval.client._wire.credentials import Credentials
    from streameval.v1 import ingest_pb2

A = TypeVar("A")
R = TypeVar("R")


class AsyncTransport:
    """The way to one server, from one event loop.

    Parameters
    ----------
    address : str
        ``host:port``.
    credentials : Credentials
        TLS and token.
    """

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.address = address
        self._credentials = credentials
        self._channel: grpc.aio.Channel | None = None
        # Open as long as calls may use them.
        self._replaced: list[grpc.aio.Channel] = []
        self._closed = False

    def _opened(self) -> grpc.aio.Channel:
        """Return the channel; another one when the certificates have changed."""
        if self._closed:
            raise ClosedError("the client is closed")
        if self._channel is None or self._credentials.changed:
            if self._channel is not None:
                self._replaced.append(self._channel)
            options = channel_options(self._credentials)
            shown = self._credentials.channel()
            self._channel = (
                grpc.aio.insecure_channel(self.address, options)
                if shown is None
                else grpc.aio.secure_channel(self.address, shown, options)
            )
        return self._channel

    def _method(self, service: Service, method: str) -> Any:
        # One stub serves both kinds of channels.
        stub: Callable[[Any], Any] = STUBS[service]
        return getattr(stub(self._opened()), method)

    def ingest(self) -> Any:
        """Begin an Ingest stream; return its call."""
        return self._method("IngestService", "Ingest")(metadata=self._credentials.metadata())

    async def ask(self, question: Call[A], timeout_s: float | None) -> A:
        """Ask and return the answer, or raise what the server answered."""
        if question.is_streamed:
            responses = self._streamed(question, timeout_s)
            return question.read([response async for response in responses])
        method = self._method(question.service, question.method)
        return question.read(await self._unary(method, question.request, timeout_s))

    async def watch(self, question: Call[A]) -> AsyncIterator[A]:
        """Ask, and yield each answer until the server, or who reads, ends it."""
        async for response in self._streamed(question, None):
            yield question.read(response)

    async def merge(
        self, requests: Iterator[ingest_pb2.MergeRequest], timeout_s: float | None
    ) -> ingest_pb2.MergeResponse:
        """Send a merge and return the answer, or raise what the server answered."""
        return await self._unary(self._method("IngestService", "Merge"), requests, timeout_s)

    async def _unary(
        self, method: Callable[..., Awaitable[R]], request: Any, timeout_s: float | None
    ) -> R:
        metadata = self._credentials.metadata()
        try:
            return await method(request, timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None
        except asyncio.CancelledError:
            raise self._cancelled() from None

    async def _streamed(self, question: Call[Any], timeout_s: float | None) -> AsyncIterator[Any]:
        method = self._method(question.service, question.method)
        metadata = self._credentials.metadata()
        call = method(question.request, timeout=timeout_s, metadata=metadata)
        try:
            async for response in call:
                yield response
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None
        except asyncio.CancelledError:
            raise self._cancelled() from None
        finally:
            call.cancel()

    def _cancelled(self) -> BaseException:
        """Return what a call that was cancelled raises: a closed channel cancels its calls."""
        if self._closed and not is_cancelling():
            return ClosedError("the client is closed")
        return asyncio.CancelledError()

    async def close(self) -> None:
        """Close the channel; further calls raise ClosedError."""
        self._closed = True
        channels, self._channel = [self._channel, *self._replaced], None
        self._replaced = []
        for channel in channels:
            if channel is not None:
                await channel.close()


def is_cancelling() -> bool:
    """Whether the current task itself is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
