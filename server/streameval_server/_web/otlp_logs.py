"""``POST /v1/logs``: log records of OpenTelemetry (OTLP over HTTP), in protobuf and in JSON.

The answer is 200 only when every row of the request is durable, or was before. Records that are
refused make it a partial success, which senders do not repeat, with the reasons; the others
count. What passes is 429 or 503 with ``retry-after``, the only statuses that senders repeat.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response

from streameval import InvalidInputError
from streameval.payloads import TooLongError, UnknownEncodingError, unpack
from streameval_server._model.errors import RETRY_AFTER_S, Code, RequestError, invalid, too_long
from streameval_server._payloads.log_messages import Encoding, read_logs, response_bytes
from streameval_server._web.endpoints import NO_STORE
from streameval_server._web.error_responses import HttpError, error_response, status_of
from streameval_server._web.payload_endpoint import PayloadFormat

if TYPE_CHECKING:
    from starlette.requests import Request

    from streameval_server._payloads.intake import IntakeResult, PayloadIntake, ReadEvents
    from streameval_server._web.payload_endpoint import Permission
    from streameval_server._web.request_bodies import BodyReader

_MAX_SHOWN_REFUSALS = 10
_PASSING_STATUSES = frozenset({408, 409, 500})
"""Statuses of errors that pass, which senders of OTLP do not repeat: they get 503."""


async def _take(
    intake: PayloadIntake, bodies: BodyReader, request: Request, permission: Permission
) -> Response:
    encoding = _encoding(request)
    if encoding is None:
        raise HttpError(
            415,
            Code.INVALID_ARGUMENT,
            "the body must be an ExportLogsServiceRequest and say so: send 'content-type: "
            f"{Encoding.PROTOBUF.value}' or 'content-type: {Encoding.JSON.value}'",
            reason="CONTENT_TYPE",
        )
    packing = request.headers.get("content-encoding", "")
    read = await bodies.parsed(
        request,
        partial(_read, intake, encoding, packing, bodies.max_body_bytes),
        permission.spend_time,
    )
    permission.spend(len(read.found) + read.ignored)
    result = await intake.take(read, permission.forbids)
    rejected = len({each.event for each in result.refused})
    body = response_bytes(encoding, rejected, _reasons(result, rejected))
    return Response(body, 200, NO_STORE, encoding.value)


def _error_response(request: Request, error: RequestError) -> Response:
    """Return the response to a failed request, in its encoding, with a status of OTLP."""
    response = error_response(error)
    if _encoding(request) is Encoding.PROTOBUF:
        body = status_of(error).SerializeToString()
        headers = {k: v for k, v in response.headers.items() if not k.startswith("content-")}
        response = Response(body, response.status_code, headers, Encoding.PROTOBUF.value)
    if response.status_code in _PASSING_STATUSES:
        response.status_code = 503
    if response.status_code in (429, 503):
        response.headers.setdefault("retry-after", f"{RETRY_AFTER_S:.0f}")
    return response


def _encoding(request: Request) -> Encoding | None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return next((each for each in Encoding if each.value == kind), None)


def _read(
    intake: PayloadIntake, encoding: Encoding, packing: str, max_bytes: int, body: bytes
) -> ReadEvents:
    try:
        return intake.read(read_logs(encoding, unpack(body, packing, max_bytes)))
    except TooLongError as error:
        raise too_long(str(error)) from None
    except UnknownEncodingError as error:
        # Senders drop what gets 415, and keep what gets 503: an operator changes their setting.
        message = f"{error}: set the exporter's compression to gzip; it keeps the logs until then"
        raise HttpError(503, Code.INVALID_ARGUMENT, message, reason="CONTENT_ENCODING") from None
    except InvalidInputError as error:
        raise invalid(error.field, str(error)) from None


def _reasons(result: IntakeResult, rejected: int) -> str:
    """Return why records are rejected: the first ones, with their places from 0."""
    if not rejected:
        return ""
    shown = [
        f"record {each.event}{'' if each.row is None else f', row {each.row}'}: {each.message}"
        f" ({each.reason})"
        for each in result.refused[:_MAX_SHOWN_REFUSALS]
    ]
    more = len(result.refused) - len(shown)
    rest = f"; and {more} more" if more else ""
    return f"{rejected} log records are not counted: {'; '.join(shown)}{rest}"


OTLP_LOGS = PayloadFormat("/v1/logs", "otlp_logs", _take, _error_response)
