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
from streameval.payloads import TooLongError, is_cloud_event, iter_events, unpack
from streameval_server._model.errors import Code, invalid, too_long
from streameval_server._web.endpoints import NO_STORE
from streameval_server._web.error_responses import JSON, HttpError
from streameval_server._web.payload_endpoint import PayloadFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from streameval_server._payloads.intake import IntakeResult, PayloadIntake, ReadEvents
    from streameval_server._web.payload_endpoint import Permission
    from streameval_server._web.request_bodies import BodyReader

_MAX_SHOWN_REFUSALS = 100


async def _take(
    intake: PayloadIntake, bodies: BodyReader, request: Request, permission: Permission
) -> Response:
    headers = {name.lower(): value for name, value in request.headers.items()}
    if not is_cloud_event(headers):
        raise HttpError(
            415,
            Code.INVALID_ARGUMENT,
            "the request is no CloudEvent: send the headers ce-id, ce-type, ce-source and "
            "ce-specversion, or 'content-type: application/cloudevents+json'",
            reason="CONTENT_TYPE",
        )
    read = await bodies.parsed(
        request,
        partial(_read, intake, headers, bodies.max_body_bytes),
        permission.spend_time,
    )
    permission.spend(len(read.found) + read.ignored)
    result = await intake.take(read, permission.forbids)
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
        return intake.read(iter_events(headers, plain, intake.types))
    except TooLongError as error:
        raise too_long(str(error)) from None
    except InvalidInputError as error:
        raise invalid(error.field, str(error)) from None


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


CLOUD_EVENTS = PayloadFormat("/v1/cloudevents", "cloudevents", _take)
