"""A RequestError as a gRPC status with google.rpc details.

ErrorInfo is always present: its reason is stable, its domain is `DOMAIN`. BadRequest
lists the fields at fault with their rows, RetryInfo when to retry, RequestInfo the
call's id in the server's log. All of it is sent in headers, whose size is limited,
so long texts are cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from streameval_server._model.errors import Code, RequestError
from streameval_server._security.access import current_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc
    from google.protobuf.message import Message

DOMAIN = "streameval"
"""The domain of every ErrorInfo."""

_NANOS = 1_000_000_000

_MAX_TEXT_BYTES = 400
_MAX_VIOLATIONS = 3
"""BadRequest's fields that are sent. A client that gets more than 8 KiB of headers
loses the status. They contain the message twice, once with up to 3 bytes for a byte,
and the details in base64, 4/3 of their bytes."""


def status_message(error: RequestError, request_id: str = "") -> status_pb2.Status:
    """Return an error as google.rpc.Status."""
    packed = []
    for detail in _details(error, request_id):
        box = any_pb2.Any()
        box.Pack(detail)
        packed.append(box)
    return status_pb2.Status(code=error.code, message=_cut(error.message), details=packed)


def _cut(text: str) -> str:
    """Return a text, without its middle if it is too long."""
    data = text.encode()
    if len(data) <= _MAX_TEXT_BYTES:
        return text
    half = _MAX_TEXT_BYTES // 2
    start, end = (part.decode(errors="ignore") for part in (data[:half], data[-half:]))
    return f"{start} [...] {end}"


def _details(error: RequestError, request_id: str) -> Iterator[Message]:
    if error.violations:
        yield error_details_pb2.BadRequest(
            field_violations=[
                error_details_pb2.BadRequest.FieldViolation(
                    field=_cut(path), description=_cut(text)
                )
                for path, text in error.violations[:_MAX_VIOLATIONS]
            ]
        )
    yield error_details_pb2.ErrorInfo(
        reason=error.reason, domain=DOMAIN, metadata=dict(error.metadata)
    )
    if error.retry_after_s is not None:
        nanos = round(error.retry_after_s * _NANOS)
        delay = duration_pb2.Duration(seconds=nanos // _NANOS, nanos=nanos % _NANOS)
        yield error_details_pb2.RetryInfo(retry_delay=delay)
    if request_id:
        yield error_details_pb2.RequestInfo(request_id=request_id)


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: RequestError) -> NoReturn:
    """End the call with `error`."""
    call = current_call.get(None)
    if call is not None:
        call.reason = error.reason
    request_id = "" if call is None else call.request_id
    status = rpc_status.to_status(status_message(error, request_id))
    await context.abort(status.code, status.details, status.trailing_metadata)
    raise AssertionError("abort returned")  # context.abort always raises; its types do not say so


def internal_error() -> RequestError:
    """Return the error that answers an unexpected exception."""
    return RequestError(
        Code.INTERNAL,
        "the server failed unexpectedly; its log has more about request "
        f"{current_call.get().request_id}",
        reason="INTERNAL",
    )
