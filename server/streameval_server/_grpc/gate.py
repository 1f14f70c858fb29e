"""The gate that every gRPC call passes: let in or refused, given an id, logged at its end.

Nothing of a request is decoded before its token is known to be for the method.
What a handler did not expect ends here too: the caller gets INTERNAL and the
call's id, the log gets the traceback without the values in it.

Cost: 1 us to authorise; a call of half a millisecond takes no longer than without
the gate, as far as its noise lets one see. A batch of an Ingest stream: 1 us.
"""

from __future__ import annotations

import inspect
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NoReturn

import grpc

from streameval_server._grpc.handlers import behaviour_of, like
from streameval_server._grpc.status import abort
from streameval_server._model.errors import Code, RequestError
from streameval_server._security.access import bearer
from streameval_server._security.call_context import REQUEST_ID_HEADER, Call, current, request_id
from streameval_server._security.rules import rule_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from streameval_server._grpc.call_log import CallLog
    from streameval_server._security.access import Guard
    from streameval_server._security.rules import Rule

    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]
    Behaviour = Callable[[Any, Context], Awaitable[Any]]

TOKEN_HEADER = "authorization"  # noqa: S105 - its name


class Gate(grpc.aio.ServerInterceptor):
    """Passes calls on to their handlers, or does not.

    Parameters
    ----------
    guard
        Decides.
    log
        Of all calls.
    """

    def __init__(self, guard: Guard, log: CallLog) -> None:
        self._guard = guard
        self._log = log
        # Of methods that exist: what clients make up has no handler.
        self._handlers: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return what serves the call: the method's handler, or a refusal."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method.lstrip("/")
        headers = _headers(handler_call_details)
        current.set(Call(method, request_id(headers.get(REQUEST_ID_HEADER))))
        rule = rule_of(method)
        if not rule.open:
            try:
                let_in(self._guard, headers.get(TOKEN_HEADER), rule)
            except RequestError as error:
                return like(handler, self._refusing(error), None)
        if method not in self._handlers:
            behaviour = self._passing(rule, handler)
            self._handlers[method] = like(handler, behaviour, handler.request_deserializer)
        return self._handlers[method]

    def _refusing(self, error: RequestError) -> Behaviour:
        async def refuse(_request: Any, context: Context) -> NoReturn:
            with self._log.call(context):
                await abort(context, error)

        return refuse

    def _passing(self, rule: Rule, handler: Handler) -> Behaviour:
        inner = behaviour_of(handler)
        prepare = _checked_each if handler.request_streaming else _checked
        answer = _written if handler.response_streaming else _returned

        async def behave(request: Any, context: Context) -> Any:
            with self._log.call(context):
                try:
                    return await answer(rule, inner(prepare(rule, request), context), context)
                except RequestError as error:
                    await abort(context, error)
                except grpc.aio.BaseError:
                    raise  # aborted, or the caller is gone
                except Exception as error:  # noqa: BLE001 - the boundary: it is logged and answered
                    self._log.unexpected(error)
                    await abort(context, internal_error())

        return behave


def _headers(details: grpc.HandlerCallDetails) -> dict[str, str]:
    """Return a call's headers; one that was sent twice counts as not sent."""
    headers: dict[str, str] = {}
    twice = set()
    for key, value in details.invocation_metadata or ():
        if key in headers:
            twice.add(key)
        elif isinstance(value, str):
            headers[key] = value
    for key in twice:
        del headers[key]
    return headers


def let_in(guard: Guard, header: str | None, rule: Rule) -> None:
    """Note what the call of this task may do, by its token.

    Raises
    ------
    RequestError
        When that is less than the rule asks for.
    """
    access = current.get().access = guard.authorise(bearer(header), rule.scope)
    if rule.everything:
        access.need_everything()


def check_named(rule: Rule, request: Any) -> None:
    """Refuse a request that names a stream which is not the token's."""
    access = current.get().access
    if access is not None:
        for stream in rule.named(request):
            access.need(rule.scope, stream)


def _checked(rule: Rule, request: Any) -> Any:
    check_named(rule, request)
    return request


async def _checked_each(rule: Rule, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        check_named(rule, request)
        yield request


async def _returned(_rule: Rule, answer: Awaitable[Any], _context: Context) -> Any:
    return await answer


async def _written(rule: Rule, answers: Any, context: Context) -> None:
    """Write what a handler yields, for as long as the token is for it."""
    if not inspect.isasyncgen(answers):
        await answers  # it writes by itself
        return
    access = current.get().access
    async with aclosing(answers):
        async for answer in answers:
            if access is not None:
                access.need(rule.scope)
            await context.write(answer)


def internal_error() -> RequestError:
    """Return what the caller is told of an error that is ours."""
    return RequestError(
        Code.INTERNAL,
        f"the server made a mistake; its log has more about request {current.get().request_id}",
        reason="INTERNAL",
    )
