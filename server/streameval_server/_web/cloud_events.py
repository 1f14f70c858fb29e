"""``POST /v1/cloudevents``: payloads of model servers as CloudEvents, in every HTTP mode.

The answer is 200 only when every row of the request is durable, or was before. Rows that are
refused make it 422, which senders do not repeat, with the reasons; the other rows count. What
passes, a full queue or disk, is 429 or 503: send the request again.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response

from streameval import InvalidInputError
from streameval.payloads import is_cloud_event, iter_events, unpack
from streameval_server._model.errors import Code, invalid
from streameval_server._security.access import current_access
from streameval_server._security.rules import Rule
from streameval_server._security.tokens import Scope
from streameval_server._web.endpoints import NO_STORE
from streameval_server._web.error_responses import JSON, HttpError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from streameval_server._payloads.intake import IntakeResult, PayloadIntake, ReadEvents
    from streameval_server._web.call_runner import AuthorisedRequest, CallRunner
    from streameval_server._web.request_bodies import BodyReader

PATH = "/v1/cloudevents"
METHOD = "cloudevents"
"""The name of these calls in the log and the metrics."""

_RULE = Rule(Scope.INGEST)
_MAX_SHOWN_REFUSALS = 100


class CloudEventsEndpoint:
    """Answers requests with events.

    Parameters
    ----------
    intake
        Reads and stores them.
    runner, bodies
        What runs the call, and what reads the body.
    """

    def __init__(self, intake: PayloadIntake, runner: CallRunner, bodies: BodyReader) -> None:
        self._intake = intake
        self._runner = runner
        self._bodies = bodies

    async def respond(self, request: Request) -> Response:
        """Answer a request with a token."""
        return await self._runner.run(request, METHOD, _RULE, self._answer)

    async def _answer(self, authorised: AuthorisedRequest) -> Response:
        return await take_events(
            self._intake, self._bodies, authorised.request, current_access().forbids
        )


async def take_events(
    intake: PayloadIntake,
    bodies: BodyReader,
    request: Request,
    forbids: Callable[[str], str | None],
    spend: Callable[[int], None] = lambda _rows: None,
) -> Response:
    """Store the events of a request, and return the response.

    Parameters
    ----------
    forbids
        Returns why the sender may not write a stream; None when it may.
    spend
        Called with the number of rows before they are stored; it may raise RequestError.

    Raises
    ------
    RequestError
        When the request is no CloudEvent, a stream is forbidden, or rows cannot be stored now.
    """
    headers = {name.lower(): value for name, value in request.headers.items()}
    if not is_cloud_event(headers):
        raise HttpError(
            415,
            Code.INVALID_ARGUMENT,
            "the request is no CloudEvent: send the headers ce-id, ce-type, ce-source and "
            "ce-specversion, or 'content-type: application/cloudevents+json'",
            reason="CONTENT_TYPE",
        )
    read = await bodies.parsed(request, partial(_read, intake, headers, bodies.max_body_bytes))
    spend(len(read.found))
    result = await intake.take(read, forbids)
    return Response(
        _result_json(result),
        422 if result.refused else 200,
        NO_STORE,
        JSON,
    )


def _read(
    intake: PayloadIntake, headers: Mapping[str, str], max_bytes: int, body: bytes
) -> ReadEvents:
    try:
        plain = unpack(body, headers.get("content-encoding", ""), max_bytes)
        return intake.read(iter_events(headers, plain))
    except InvalidInputError as error:
        place = "" if error.index is None else f"event {error.index}: "
        raise invalid(error.field, f"{place}{error}") from None


def _result_json(result: IntakeResult) -> str:
    return json.dumps(
        {
            "rows": result.rows,
            "revision": result.revision,
            "ignored": result.ignored,
            "refused": len(result.refused),
            "refusals": [asdict(each) for each in result.refused[:_MAX_SHOWN_REFUSALS]],
        }
    )
