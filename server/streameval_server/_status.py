"""A RequestError as a gRPC status with google.rpc details.

ErrorInfo is always there: its reason is stable, its domain is ours. BadRequest
lists the fields at fault with their rows, RetryInfo says when a retry may help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc
    from google.protobuf.message import Message

    from streameval_server._errors import RequestError

DOMAIN = "streameval"
"""The domain of every ErrorInfo."""

_NANOS = 1_000_000_000


def status_message(error: RequestError) -> status_pb2.Status:
    """Return what goes over the wire for `error`."""
    packed = []
    for detail in _details(error):
        box = any_pb2.Any()
        box.Pack(detail)
        packed.append(box)
    return status_pb2.Status(code=error.code, message=error.message, details=packed)


def _details(error: RequestError) -> Iterator[Message]:
    if error.violations:
        yield error_details_pb2.BadRequest(
            field_violations=[
                error_details_pb2.BadRequest.FieldViolation(field=path, description=text)
                for path, text in error.violations
            ]
        )
    yield error_details_pb2.ErrorInfo(
        reason=error.reason, domain=DOMAIN, metadata=dict(error.metadata)
    )
    if error.retry_after_s is not None:
        nanos = round(error.retry_after_s * _NANOS)
        delay = duration_pb2.Duration(seconds=nanos // _NANOS, nanos=nanos % _NANOS)
        yield error_details_pb2.RetryInfo(retry_delay=delay)


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: RequestError) -> NoReturn:
    """End the call with `error`."""
    status = rpc_status.to_status(status_message(error))
    await context.abort(status.code, status.details, status.trailing_metadata)
    raise AssertionError("abort returned")  # it raises; the types do not say so
