"""An endpoint that takes payloads in one format, from senders with or without tokens."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from streameval_server._model.errors import BODY_TOO_LONG, Code, RequestError
from streameval_server._security.access import current_access
from streameval_server._security.rules import Rule
from streameval_server._security.tokens import Scope
from streameval_server._web.error_responses import error_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from streameval_server._payloads.intake import PayloadIntake
    from streameval_server._web.call_runner import AuthorisedRequest, CallRunner
    from streameval_server._web.request_bodies import BodyReader


class Permission(NamedTuple):
    """What one request may do.

    Attributes
    ----------
    forbids : callable
        Returns why the sender may not write a stream; None when it may.
    spend : callable
        Called with the number of rows and ignored events before rows are stored; it may raise
        RequestError.
    spend_time : callable
        Called with the seconds of processor time in which the body was read or refused.
    """

    forbids: Callable[[str], str | None]
    spend: Callable[[int], None]
    spend_time: Callable[[float], None]


class Senders(NamedTuple):
    """Who may send.

    Attributes
    ----------
    rule : Rule
        What the calls require.
    admit : callable
        Called once for each request, before its body is read; it may raise RequestError.
    """

    rule: Rule
    admit: Callable[[], Permission]


def _admit_token() -> Permission:
    return Permission(current_access().forbids, do_nothing_with, do_nothing_with)


def do_nothing_with(_amount: float) -> None:
    """Spend nothing: a token's rate is not limited."""


WITH_TOKENS = Senders(Rule(Scope.INGEST), _admit_token)
"""Senders whose token says which streams they may write."""


class PayloadFormat(NamedTuple):
    """A format of payloads over HTTP.

    Attributes
    ----------
    path : str
    method : str
        The name of its calls in the log and the metrics.
    take : callable
        Stores the rows of a request and returns the response. Raises RequestError when the
        body cannot be read, a stream is forbidden, or rows cannot be stored now.
    respond_to_error : callable
        Returns the response to a failed request.
    """

    path: str
    method: str
    take: Callable[[PayloadIntake, BodyReader, Request, Permission], Awaitable[Response]]
    respond_to_error: Callable[[Request, RequestError], Response] = lambda _, error: error_response(
        error
    )


class PayloadEndpoint:
    """Answers requests with payloads of one format.

    Parameters
    ----------
    payloads
        The format.
    intake
        Stores the rows.
    runner, bodies
        What runs the call, and what reads the body.
    """

    def __init__(
        self,
        payloads: PayloadFormat,
        intake: PayloadIntake,
        runner: CallRunner,
        bodies: BodyReader,
        senders: Senders = WITH_TOKENS,
    ) -> None:
        self._payloads = payloads
        self._intake = intake
        self._runner = runner
        self._bodies = bodies
        self._senders = senders

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        on_error = partial(self._payloads.respond_to_error, request)
        return await self._runner.run(
            request, self._payloads.method, self._senders.rule, self._answer, on_error
        )

    async def _answer(self, authorised: AuthorisedRequest) -> Response:
        permission = self._senders.admit()
        try:
            return await self._payloads.take(
                self._intake, self._bodies, authorised.request, permission
            )
        except RequestError as error:
            if error.code is Code.INVALID_ARGUMENT or error.reason == BODY_TOO_LONG:
                self._intake.refuse_request(error)
            raise
