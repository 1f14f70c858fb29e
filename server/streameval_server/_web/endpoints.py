"""Turns each route into a function from request to response, by the method that gRPC calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from streameval.checks import dot_segment_problem
from streameval_server._model.errors import Code, invalid
from streameval_server._security.access import CallCheck
from streameval_server._security.rules import rule_of
from streameval_server._web.error_responses import JSON, HttpError
from streameval_server._web.events import events
from streameval_server._web.routes import Answer
from streameval_server._web.transcoding import bind, from_query, to_json

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from starlette.requests import Request

    from streameval_server._grpc.methods import Method
    from streameval_server._web.call_runner import AuthorisedRequest, CallRunner
    from streameval_server._web.request_bodies import BodyReader
    from streameval_server._web.routes import Route

NO_STORE = {"cache-control": "no-store"}
"""Answers are of one moment, and may be for one caller only."""

_WITH_BODY = frozenset({"POST", "PATCH"})
_MIN_EVENT_INTERVAL_NS = 200_000_000
"""A reader gets at most five events a second."""


class Endpoint:
    """One route.

    Parameters
    ----------
    route, method
        The route, and the method that it calls.
    runner, bodies
        What runs the call, and what reads the body.
    """

    def __init__(
        self, route: Route, method: Method, runner: CallRunner, bodies: BodyReader
    ) -> None:
        self._route = route
        self._method = method
        self._runner = runner
        self._bodies = bodies

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        method = self._method.name
        return await self._runner.run(request, method, rule_of(method), self._answer)

    async def _answer(self, authorised: AuthorisedRequest) -> Response:
        message = await self._message(authorised.request)
        check = CallCheck(authorised.rule)
        check.check_request(message)
        match self._route.answer:
            case Answer.JSON:
                answer = await self._method.answer(message)
                if authorised.rule.reads:
                    check.check_answer()  # the token may have been revoked
                # Off the event loop: a long answer takes milliseconds.
                text = await asyncio.to_thread(to_json, answer)
                return Response(text, headers=NO_STORE, media_type=JSON)
            case Answer.BYTES:
                return await self._bytes(message, check)
            case Answer.EVENTS:
                answers = self._method.answers(_for_events(message))
                return await events(
                    self._route.event,
                    answers,
                    check=check,
                    authorised=authorised,
                    runner=self._runner,
                )

    async def _message(self, request: Request) -> Message:
        kind, route = self._method.request, self._route
        if route.verb in _WITH_BODY:
            if request.url.query:
                raise HttpError(
                    400,
                    Code.INVALID_ARGUMENT,
                    f"a {route.verb} takes its request in the body, not in parameters",
                    reason="MALFORMED_MESSAGE",
                )
            message = await self._bodies.message(kind, request)
        else:
            message = from_query(kind, request.query_params.multi_items())
        if route.name:
            name = request.path_params["name"]
            is_pair = route.path.startswith("/v1/pairs/")
            problem = dot_segment_problem(name, "pair name" if is_pair else "stream name")
            if problem is not None:
                raise invalid(route.name, problem)
            bind(message, route.name, name)
        return message

    async def _bytes(self, message: Message, check: CallCheck) -> Response:
        """Answer with the pieces joined: they were cut from one value for gRPC."""
        pieces: list[Any] = [piece async for piece in self._method.answers(message)]
        check.check_answer()  # the token may have been revoked
        headers = NO_STORE | {"x-streameval-revision": str(pieces[0].revision)}
        body = b"".join(piece.data for piece in pieces)
        return Response(body, headers=headers, media_type="application/octet-stream")


def _for_events(message: Any) -> Any:
    """Return a watch request whose interval is long enough; an invalid one unchanged.

    Without answers that are heartbeats: the events' own are comments.
    """
    message.ClearField("heartbeat")
    interval = message.min_interval
    if 0 <= interval.seconds * 1_000_000_000 + interval.nanos < _MIN_EVENT_INTERVAL_NS:
        interval.FromNanoseconds(_MIN_EVENT_INTERVAL_NS)
    return message
