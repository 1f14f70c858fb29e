"""Handlers that refuse bytes that are no message of theirs, and methods that nobody wrote.

grpc.aio puts a traceback into the log for whoever sends such bytes, and answers
UNKNOWN. Services are added to `Decoding` instead of the server, those of other
packages too. A handler that takes encoded requests decodes them itself.
"""

from __future__ import annotations

import inspect
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from streameval_server._grpc.status import abort
from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]

_MALFORMED = object()
"""Stands for a request that could not be decoded."""


def behaviour_of(handler: Handler) -> Any:
    """Return the one behaviour that a handler has."""
    return (
        handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    )


def like(
    handler: Handler, behaviour: Any, request_deserializer: Callable[[bytes], Any] | None
) -> Handler:
    """Return a handler of the same kind that behaves otherwise."""
    make: Any = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    made: Handler = make(behaviour, request_deserializer, handler.response_serializer)
    return made


class Decoding:
    """A server, as far as services are added to it."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Add handlers that look their methods up."""
        self._server.add_generic_rpc_handlers(tuple(map(_Checked, handlers)))

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Do nothing: the generic handlers have the same methods, as in grpc.aio."""


class _Checked(grpc.GenericRpcHandler):
    def __init__(self, inner: grpc.GenericRpcHandler) -> None:
        self._inner = inner
        # Only of methods that exist: clients may ask for any.
        self._made: dict[str, Handler] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """Return the method's handler; None when it is not one of these."""
        method = handler_call_details.method
        if method not in self._made:
            handler = self._inner.service(handler_call_details)
            if handler is None or handler.request_deserializer is None:
                return handler
            self._made[method] = _Method(method, handler).handler()
        return self._made[method]


class _Method:
    """One method, which refuses what it cannot decode and otherwise does the same."""

    def __init__(self, name: str, inner: Handler) -> None:
        self._name = name
        self._inner = inner
        self._behaviour = behaviour_of(inner)

    def handler(self) -> Handler:
        """Return the handler to register."""
        answer = self._many if self._inner.response_streaming else self._one
        return like(self._inner, answer, self._decoded)

    def _decoded(self, frame: bytes) -> Any:
        assert self._inner.request_deserializer is not None
        try:
            return self._inner.request_deserializer(frame)
        except DecodeError:
            return _MALFORMED

    async def _one(self, request: Any, context: Context) -> Any:
        try:
            return await self._behaviour(await self._sound(request, context), context)
        except NotImplementedError:  # what generated services do
            message = f"{self._name} is not served"
            await abort(context, RequestError(Code.UNIMPLEMENTED, message, reason="NOT_SERVED"))

    async def _many(self, request: Any, context: Context) -> None:
        replies = self._behaviour(await self._sound(request, context), context)
        if not inspect.isasyncgen(replies):
            await replies  # it writes by itself
            return
        async with aclosing(replies):
            async for reply in replies:
                await context.write(reply)

    async def _sound(self, request: Any, context: Context) -> Any:
        if self._inner.request_streaming:
            return self._each_sound(request, context)
        if request is _MALFORMED:
            await self._refuse(context)
        return request

    async def _each_sound(
        self, requests: AsyncIterator[Any], context: Context
    ) -> AsyncIterator[Any]:
        async for request in requests:
            if request is _MALFORMED:
                await self._refuse(context)
            yield request

    async def _refuse(self, context: Context) -> NoReturn:
        message = f"the request is not one that {self._name} takes: it cannot be decoded"
        await abort(
            context, RequestError(Code.INVALID_ARGUMENT, message, reason="MALFORMED_MESSAGE")
        )
