"""Runs every request for data as an authorised, logged call.

The same tokens, rules and log lines as over gRPC. Nothing of a request is read
before its token is authorised for the method. Requests for the page's files,
``/healthz`` and ``/readyz`` need no token and do not come here.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from streameval_server._grpc.status import internal_error
from streameval_server._model.errors import Code, RequestError
from streameval_server._runtime.open_calls import stopping_error
from streameval_server._security.access import (
    REQUEST_ID_HEADER,
    TOKEN_HEADER,
    CallInProgress,
    authorise_call,
    current_call,
    request_id,
)
from streameval_server._web.error_responses import error_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from streameval_server._grpc.call_log import CallLog
    from streameval_server._security.access import Guard
    from streameval_server._security.rules import Rule


class RequestOutcome:
    """How a request ended, for its line in the log."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._code: grpc.StatusCode | None = None

    def fail(self, code: Code) -> None:
        """Record that the request ended with an error."""
        self._code = grpc.StatusCode[code.name]

    def cancel(self) -> None:
        """Record that the client disconnected."""
        self._code = grpc.StatusCode.CANCELLED

    def code(self) -> grpc.StatusCode | None:
        """Return the status; None for success."""
        return self._code

    def peer(self) -> str:
        """Return the client's address."""
        client = self._request.client
        return "" if client is None else f"http:{client.host}:{client.port}"


@dataclass(frozen=True, slots=True)
class AuthorisedRequest:
    """A request whose token was authorised for its method.

    Attributes
    ----------
    request : Request
    rule : Rule
        What the method requires.
    outcome : RequestOutcome
    stack : AsyncExitStack
        Closed when the response is made; closing it writes the log line. A response
        that goes on, as events do, takes the stack over and closes it at its end.
    """

    request: Request
    rule: Rule
    outcome: RequestOutcome
    stack: AsyncExitStack


class CallRunner:
    """Runs requests.

    Parameters
    ----------
    guard
        Authorises them.
    log
        Records all calls.

    Attributes
    ----------
    streams : AnswerStreams
        The guard's.
    """

    def __init__(self, guard: Guard, log: CallLog) -> None:
        self.streams = guard.streams
        self._guard = guard
        self._log = log

    async def run(
        self,
        request: Request,
        method: str,
        rule: Rule,
        handle: Callable[[AuthorisedRequest], Awaitable[Response]],
        respond_to_error: Callable[[RequestError], Response] = error_response,
    ) -> Response:
        """Return the response of `handle` to an authorised request, or an error's."""
        call = CallInProgress(method, request_id(_single_header(request, REQUEST_ID_HEADER)))
        current_call.set(call)
        outcome = RequestOutcome(request)
        async with AsyncExitStack() as stack:
            stack.enter_context(self._log.call(outcome, "http"))
            try:
                if not rule.open:
                    authorise_call(self._guard, _single_header(request, TOKEN_HEADER), rule)
                response = await handle(AuthorisedRequest(request, rule, outcome, stack))
            except asyncio.CancelledError:
                # By uvicorn alone, which would log it as an error: the grace of a stop is over.
                return respond_to_error(self.request_error(stopping_error(), outcome))
            except Exception as error:  # noqa: BLE001 - the boundary: it is answered, and logged if unexpected
                return respond_to_error(self.request_error(error, outcome))
            response.headers[REQUEST_ID_HEADER] = call.request_id
            return response

    def request_error(self, error: Exception, outcome: RequestOutcome) -> RequestError:
        """Return the error that the client gets, and record it; log an unexpected one."""
        if not isinstance(error, RequestError):
            self._log.unexpected(error)
            error = internal_error()
        outcome.fail(error.code)
        return error


def _single_header(request: Request, header: str) -> str | None:
    """Return a header; one that was sent twice counts as not sent."""
    values = request.headers.getlist(header)
    return values[0] if len(values) == 1 else None
