"""Adds the methods of a service to a server, and finds them by their full names for HTTP.

Services are added to `Methods` as to a server. Handlers raise RequestError. They do
not check the caller's token: `_web.call_runner` does so before it calls one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from google.protobuf import descriptor_pool, message_factory

from streameval_server._grpc.interceptor import HANDLERS, behaviour_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
    from google.protobuf.message import Message

    Handler = grpc.RpcMethodHandler[Any, Any]


class _Details(NamedTuple):
    """The part of grpc.HandlerCallDetails that a generic handler reads."""

    method: str
    invocation_metadata: tuple[()] = ()


class Method:
    """One method with a single request.

    Attributes
    ----------
    name : str
        Its full name, for instance ``streameval.v1.QueryService/GetSnapshot``.
    request : type of message
    """

    def __init__(self, name: str, handler: Handler) -> None:
        assert not handler.request_streaming
        found: MethodDescriptor = descriptor_pool.Default().FindMethodByName(name.replace("/", "."))
        self.name = name
        self.request: type[Message] = message_factory.GetMessageClass(found.input_type)
        self._behaviour = behaviour_of(handler)
        self._takes_bytes = handler.request_deserializer is None

    async def answer(self, request: Message) -> Message:
        """Return the one answer. Raises RequestError."""
        answer: Message = await self._behaviour(self._argument(request), None)
        return answer

    def answers(self, request: Message) -> AsyncGenerator[Message, None]:
        """Yield the answers. Raises RequestError, also after the first one."""
        answers: AsyncGenerator[Message, None] = self._behaviour(self._argument(request), None)
        return answers

    def _argument(self, request: Message) -> Message | bytes:
        return request.SerializeToString() if self._takes_bytes else request


def add_methods(
    server: grpc.aio.Server,
    service: ServiceDescriptor,
    behaviours: Mapping[str, Callable[..., Any]],
    *,
    encoded: frozenset[str],
) -> None:
    """Add methods of a service by their names; those in `encoded` take their requests' bytes."""
    handlers = {}
    for name, behaviour in behaviours.items():
        method = service.methods_by_name[name]
        decode: Any = message_factory.GetMessageClass(method.input_type).FromString
        handlers[name] = HANDLERS[method.client_streaming, method.server_streaming](
            behaviour,
            None if name in encoded else decode,
            message_factory.GetMessageClass(method.output_type).SerializeToString,
        )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service.full_name, handlers),)
    )


class Methods:
    """Collects services; has the methods of a grpc.Server that add them."""

    def __init__(self) -> None:
        self._handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Add a service's handlers."""
        self._handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Do nothing: the generic handlers have the same methods, as in grpc.aio."""

    def find(self, name: str) -> Method:
        """Return a method by its full name. Raises LookupError when no service has it."""
        details: Any = _Details(f"/{name}")
        for handlers in self._handlers:
            handler = handlers.service(details)
            if handler is not None:
                return Method(name, handler)
        raise LookupError(f"no service has {name}")
