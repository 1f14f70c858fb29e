"""The interceptor around every gRPC call: authorise, check, log, and answer errors.

For each call, in this order:

1. `intercept_service` gives it an id and authorises its token, before anything of
   the request is decoded.
2. `_check` refuses each request that cannot be decoded or that names a stream which
   the token does not cover. IngestService takes encoded frames; its session checks
   each batch.
3. `_write_answers` sends what a streaming handler yields. The token is checked before
   each answer, and once a second while none comes (`_security.answer_streams`). Every
   answer of a streaming call passes it: a handler that writes answers itself is
   refused, unless its method needs no token. `_answer` checks the token again before
   the answer of a call that only reads, which may have waited.
4. The call's line is written to the log. An exception that is not a RequestError is
   answered with INTERNAL and the call's id; the log has its traceback, without the
   values in it.

Undecodable bytes are refused here because grpc.aio would log a traceback for each
and answer UNKNOWN: the handlers get a deserializer that returns a marker instead.

Cost: 1 us to authorise; a call of half a millisecond takes no longer than without
the interceptor, as far as its noise shows.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from streameval_server._grpc.open_requests import OpenRequests, address_of
from streameval_server._grpc.status import abort, internal_error
from streameval_server._model.errors import Code, RequestError
from streameval_server._runtime.open_calls import call_deadline
from streameval_server._security.access import (
    REQUEST_ID_HEADER,
    TOKEN_HEADER,
    CallCheck,
    CallInProgress,
    authorise_call,
    current_call,
    request_id,
)
from streameval_server._security.rules import rule_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from streameval_server._grpc.call_log import CallLog
    from streameval_server._security.access import Guard
    from streameval_server._security.rules import Rule

    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]
    Behaviour = Callable[[Any, Context], Awaitable[Any]]

_MAX_WAITING_SHARE = 0.9
"""Share of a call's time for which it waits for a revision: the rest is for the answer."""

HANDLERS: Mapping[tuple[bool, bool], Callable[..., Handler]] = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}
"""What makes a handler of gRPC, by whether it takes a stream and whether it answers with one."""

_MALFORMED = object()
"""Stands for a request that could not be decoded."""


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps the handler of every method that the server has.

    Parameters
    ----------
    guard
        Authorises calls.
    log
        Records all calls.
    """

    def __init__(self, guard: Guard, log: CallLog) -> None:
        self._guard = guard
        self._log = log
        # Bounded: only methods that exist have a handler.
        self._handlers: dict[str, Handler] = {}
        self._open_requests = OpenRequests()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return what serves the call: the method's wrapped handler, or a refusal."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        path = handler_call_details.method
        method = path.lstrip("/")
        headers = _headers(handler_call_details)
        current_call.set(CallInProgress(method, request_id(headers.get(REQUEST_ID_HEADER))))
        rule = rule_of(method)
        if not rule.open:
            try:
                authorise_call(self._guard, headers.get(TOKEN_HEADER), rule)
            except RequestError as error:
                return self._refusing(error)
        wrapped = self._handlers.get(path)
        if wrapped is None:
            wrapped = self._handlers[path] = self._wrapped(path, rule, handler)
        return wrapped

    def _refusing(self, error: RequestError) -> Handler:
        """Return a handler that refuses a call of any kind.

        It takes a stream of requests, of which it reads none: gRPC receives the one request
        of other handlers, up to the transport's limit, before it calls them.
        """

        async def refuse(_requests: Any, context: Context) -> NoReturn:
            with self._log.call(context):
                await abort(context, error)

        return grpc.stream_unary_rpc_method_handler(refuse)

    def _wrapped(self, path: str, rule: Rule, handler: Handler) -> Handler:
        inner = behaviour_of(handler)
        decode = handler.request_deserializer
        # gRPC would receive any number of unfinished requests (see `_refusing`).
        is_read_here = rule.open and not handler.request_streaming
        open_requests = self._open_requests
        check_requests: Any = _check_each if handler.request_streaming else _check
        if handler.request_streaming and decode is None and rule.request is None:
            check_requests = _unchecked  # encoded frames that the handler checks
        answer: Any = _answer
        if handler.response_streaming:
            answer = self._write_open_answers if rule.open else self._write_answers

        async def behave(request: Any, context: Context) -> Any:
            left_s = context.time_remaining()
            if left_s is not None:
                loop_s = asyncio.get_running_loop().time()
                call_deadline.set(loop_s + _MAX_WAITING_SHARE * left_s)
            with self._log.call(context):
                try:
                    if is_read_here:
                        request = await open_requests.read(request, address_of(context.peer()))
                    check = CallCheck(rule)
                    checked = check_requests(path, check, request)
                    return await answer(inner, checked, context, rule, check)
                except RequestError as error:
                    await abort(context, error)
                except grpc.aio.BaseError:
                    raise  # aborted, or the client disconnected
                except NotImplementedError:  # raised by generated services
                    message = f"{path} is not served"
                    await abort(
                        context, RequestError(Code.UNIMPLEMENTED, message, reason="NOT_SERVED")
                    )
                except Exception as error:  # noqa: BLE001 - the boundary: it is logged and answered
                    self._log.unexpected(error)
                    await abort(context, internal_error())

        decode = None if decode is None else _tolerant(decode)
        return _with_behaviour(handler, behave, decode, reads_stream=is_read_here)

    async def _write_open_answers(
        self, inner: Any, request: Any, context: Context, rule: Rule, check: CallCheck
    ) -> None:
        """As `_write_answers`, for callers without a token."""
        with self._open_requests.stream(address_of(context.peer())):
            await self._write_answers(inner, request, context, rule, check)

    async def _write_answers(
        self, inner: Any, request: Any, context: Context, rule: Rule, check: CallCheck
    ) -> None:
        """Send what a streaming handler yields, as long as the token covers the call."""
        answers = inner(request, context)
        is_generator = inspect.isasyncgen(answers)
        if not is_generator:
            if not rule.open:
                answers.close()
                raise TypeError("the handler of a method that needs a token must yield its answers")
            await answers  # health.Watch of grpcio, which writes its answers itself
            return
        if check.is_limited:
            answers = self._guard.streams.checked(answers, check.check_answer)
        async with aclosing(answers):
            async for answer in answers:
                await context.write(answer)


def behaviour_of(handler: Handler) -> Any:
    """Return the one behaviour that a handler has."""
    return (
        handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    )


def _with_behaviour(
    handler: Handler,
    behaviour: Any,
    request_deserializer: Callable[[bytes], Any] | None,
    *,
    reads_stream: bool,
) -> Handler:
    """Return a handler of the same kind with another behaviour.

    With `reads_stream` it gets the one request of a call as a stream.
    """
    make = HANDLERS[handler.request_streaming or reads_stream, handler.response_streaming]
    made: Handler = make(behaviour, request_deserializer, handler.response_serializer)
    return made


def _headers(details: grpc.HandlerCallDetails) -> dict[str, str]:
    """Return a call's headers; one that was sent twice counts as not sent."""
    headers: dict[str, str] = {}
    repeated = set()
    for key, value in details.invocation_metadata or ():
        if key in headers:
            repeated.add(key)
        elif isinstance(value, str):
            headers[key] = value
    for key in repeated:
        del headers[key]
    return headers


def _tolerant(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a deserializer that returns `_MALFORMED` where `decode` would raise."""

    def decode_or_mark(frame: bytes) -> Any:
        try:
            return decode(frame)
        except DecodeError:
            return _MALFORMED

    return decode_or_mark


def _check(path: str, check: CallCheck, request: Any) -> Any:
    """Return a request that was decoded and names only streams of the token."""
    if request is _MALFORMED:
        raise RequestError(
            Code.INVALID_ARGUMENT,
            f"the request is not one that {path} takes: it cannot be decoded",
            reason="MALFORMED_MESSAGE",
        )
    check.check_request(request)
    return request


async def _check_each(
    path: str, check: CallCheck, requests: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    async for request in requests:
        yield _check(path, check, request)


def _unchecked(_path: str, _check: CallCheck, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    return requests


async def _answer(
    inner: Behaviour, request: Any, context: Context, rule: Rule, check: CallCheck
) -> Any:
    """Return the one answer of a handler."""
    answer = await inner(request, context)
    if rule.reads:
        check.check_answer()
    return answer
