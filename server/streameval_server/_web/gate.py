"""The gate that every request for data passes: let in or refused, given an id, logged at its end.

The same decisions, by the same tokens and rules, and the same lines in the log as
over gRPC; nothing of a request is read before its token is known to be for it.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from streameval_server._grpc.gate import TOKEN_HEADER, internal_error, let_in
from streameval_server._model.errors import Code, RequestError
from streameval_server._security.call_context import REQUEST_ID_HEADER, Call, current, request_id
from streameval_server._web.error_responses import refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from streameval_server._grpc.call_log import CallLog
    from streameval_server._security.access import Guard
    from streameval_server._security.rules import Rule


class Ending:
    """How a request ended, as its line in the log says it."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._code: grpc.StatusCode | None = None

    def failed(self, code: Code) -> None:
        """Say that it ended with an error."""
        self._code = grpc.StatusCode[code.name]

    def given_up(self) -> None:
        """Say that the caller went away."""
        self._code = grpc.StatusCode.CANCELLED

    def code(self) -> grpc.StatusCode | None:
        """Return its status; None when it did what was asked."""
        return self._code

    def peer(self) -> str:
        """Return who asked."""
        client = self._request.client
        return "" if client is None else f"http:{client.host}:{client.port}"


@dataclass(frozen=True, slots=True)
class Passing:
    """A request that was let in.

    Attributes
    ----------
    request : Request
    rule : Rule
        What it needs.
    ending : Ending
    stack : AsyncExitStack
        Left when the answer is made; whoever goes on answering takes it along.
    """

    request: Request
    rule: Rule
    ending: Ending
    stack: AsyncExitStack


class Gate:
    """Passes requests on, or does not.

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

    async def serve(
        self,
        request: Request,
        method: str,
        rule: Rule,
        work: Callable[[Passing], Awaitable[Response]],
    ) -> Response:
        """Return what `work` answers to a request that is let in, else the refusal."""
        call = Call(method, request_id(_once(request, REQUEST_ID_HEADER)))
        current.set(call)
        ending = Ending(request)
        async with AsyncExitStack() as stack:
            stack.enter_context(self._log.call(ending))
            try:
                let_in(self._guard, _once(request, TOKEN_HEADER), rule)
                response = await work(Passing(request, rule, ending, stack))
            except Exception as error:  # noqa: BLE001 - the boundary: it is answered, and logged if it is ours
                return refusal(self.caught(error, ending))
            response.headers[REQUEST_ID_HEADER] = call.request_id
            return response

    def caught(self, error: Exception, ending: Ending) -> RequestError:
        """Return what the caller is told of an error."""
        if not isinstance(error, RequestError):
            self._log.unexpected(error)
            error = internal_error()
        ending.failed(error.code)
        return error


def _once(request: Request, header: str) -> str | None:
    """Return a header; one that was sent twice counts as not sent."""
    values = request.headers.getlist(header)
    return values[0] if len(values) == 1 else None
