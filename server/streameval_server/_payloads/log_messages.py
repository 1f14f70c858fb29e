"""OpenTelemetry's logs over HTTP (OTLP): requests and responses in both encodings.

The messages are those of `opentelemetry-proto`. JSON is read by hand: OTLP writes the ids of
traces in hexadecimal, which protobuf's own JSON does not read.
"""

from __future__ import annotations

import base64
import enum
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from streameval import InvalidInputError
from streameval.payloads import MAX_LOG_RECORDS, log_record_event, read_log_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

    from streameval.payloads import Event, UnreadableEvent


class Encoding(enum.Enum):
    """The encodings of OTLP over HTTP; values are content types."""

    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


_PLAIN_KINDS = frozenset({"string_value", "bool_value", "int_value", "double_value"})


def read_logs(encoding: Encoding, body: bytes) -> list[Event | UnreadableEvent]:
    """Return the log records of a request, which is unpacked. O(body).

    Raises
    ------
    InvalidInputError
        When the body is no request in this encoding, or has too many records.
    """
    if encoding is Encoding.JSON:
        return read_log_records(body)
    try:
        request = ExportLogsServiceRequest.FromString(body)
    except DecodeError as error:
        message = f"the body is no ExportLogsServiceRequest: {error}"
        raise InvalidInputError(message, field="body") from None
    events: list[Event | UnreadableEvent] = []
    for sender in request.resource_logs:
        resource = _pairs(sender.resource.attributes)
        for logger in sender.scope_logs:
            if len(events) + len(logger.log_records) > MAX_LOG_RECORDS:
                message = f"more than {MAX_LOG_RECORDS} log records: send fewer at once"
                raise InvalidInputError(message, field="body")
            scope = logger.scope.name
            events += [_event(each, resource, scope) for each in logger.log_records]
    return events


def response_bytes(encoding: Encoding, rejected: int, message: str) -> bytes:
    """Return an ``ExportLogsServiceResponse``.

    Parameters
    ----------
    encoding : Encoding
        Of the request.
    rejected : int
        Log records that are not counted; 0 is complete success.
    message : str
        Why.
    """
    response = ExportLogsServiceResponse()
    if rejected:
        response.partial_success.CopyFrom(
            ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
        )
    if encoding is Encoding.JSON:
        return MessageToJson(response, indent=None).encode()
    return response.SerializeToString()


def _event(record: LogRecord, resource: dict[str, Any], scope: str) -> Event:
    return log_record_event(
        _value(record.body),
        _pairs(record.attributes),
        resource,
        name=record.event_name,
        scope=scope,
        time_ns=record.time_unix_nano or record.observed_time_unix_nano,
        trace_id=record.trace_id.hex(),
        span_id=record.span_id.hex(),
    )


def _pairs(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    """Return a value as JSON has it; bytes in base64."""
    kind = value.WhichOneof("value")
    if kind == "kvlist_value":
        return _pairs(value.kvlist_value.values)
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    # Kinds that are newer than this are no values.
    return getattr(value, kind) if kind in _PLAIN_KINDS else None
