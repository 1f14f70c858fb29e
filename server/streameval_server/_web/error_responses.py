"""A RequestError as an HTTP response: the google.rpc.Status of gRPC, in JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from starlette.responses import Response

from streameval_server._grpc.status import status_message
from streameval_server._model.errors import Code, RequestError
from streameval_server._security.access import REQUEST_ID_HEADER, current_call
from streameval_server._web.transcoding import to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.rpc.status_pb2 import Status

JSON = "application/json"

HTTP_STATUS = {
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.UNAUTHENTICATED: 401,
}
"""The HTTP status of each code, as the comments of google.rpc.Code say."""


class HttpError(RequestError):
    """A RequestError with an HTTP status of its own.

    Attributes
    ----------
    status : int
        The HTTP status.
    headers : mapping of str to str
        Further headers of the response.
    """

    def __init__(
        self,
        status: int,
        code: Code,
        message: str,
        *,
        reason: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, message, reason=reason)
        self.status = status
        self.headers: Mapping[str, str] = headers or {}


def status_of(error: RequestError) -> Status:
    """Return an error as google.rpc.Status; record its reason in the call."""
    call = current_call.get(None)
    if call is None:
        return status_message(error)
    call.reason = error.reason
    return status_message(error, call.request_id)


def status_json(error: RequestError) -> bytes:
    """Return an error as google.rpc.Status in JSON; record its reason in the call."""
    return to_json(status_of(error))


def error_response(error: RequestError) -> Response:
    """Return the response to a failed request."""
    headers = {"cache-control": "no-store"}
    status = HTTP_STATUS[error.code]
    if isinstance(error, HttpError):
        status = error.status
        headers |= error.headers
    if error.code == Code.UNAUTHENTICATED:
        headers["www-authenticate"] = "Bearer"
    if error.retry_after_s is not None:
        headers["retry-after"] = str(math.ceil(error.retry_after_s))
    call = current_call.get(None)
    if call is not None:
        headers[REQUEST_ID_HEADER] = call.request_id
    return Response(status_json(error), status, headers, JSON)
