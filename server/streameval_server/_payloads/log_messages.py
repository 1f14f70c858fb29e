"""OpenTelemetry's logs over HTTP (OTLP): requests and responses in both encodings.

`opentelemetry-proto` defines the messages. JSON is read by hand: OTLP writes trace ids in
hexadecimal, which protobuf's own JSON reader does not accept.
"""

from __future__ import annotations

import base64
import enum
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from streameval import InvalidInputError
from streameval.payloads import (
    MAX_LOG_RECORDS,
    UnreadableEvent,
    check_fields,
    fields_of,
    log_record_event,
    read_log_records,
    readable,
    too_many_log_records,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    from streameval.payloads import Event


class Encoding(enum.Enum):
    """The encodings of OTLP over HTTP; values are content types."""

    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


_PLAIN_KINDS = frozenset({"string_value", "bool_value", "int_value", "double_value"})

_RESOURCE_LOGS, _HEAD, _PARTS = 1, 1, 2
"""Numbers of fields: of a request; of a resource's logs and of a scope's, in which the first is
the resource or scope, and the others are what is of it."""

_VALUE: dict[int, Any] = {}
_PAIR = {2: _VALUE}
_VALUE |= {5: {1: _VALUE}, 6: {1: _PAIR}}
_HOLDERS: dict[type[Message], Mapping[int, Any]] = {
    LogRecord: {5: _VALUE, 6: _PAIR},
    Resource: {1: _PAIR, 3: {}},
    InstrumentationScope: {3: _PAIR},
}
"""The fields of messages that hold messages, for `check_fields`."""

M = TypeVar("M", bound=Message)


def read_logs(encoding: Encoding, body: bytes) -> Iterator[Event | UnreadableEvent]:
    """Yield the log records of a request, which is unpacked. O(body).

    A record is decoded when it is asked for, so that one at a time takes memory.

    Raises
    ------
    InvalidInputError
        When the body is no request in this encoding, or has too many records. A record that
        cannot be read is yielded as an `UnreadableEvent`.
    """
    if encoding is Encoding.JSON:
        return read_log_records(body)
    return _read_records(body)


def _read_records(body: bytes) -> Iterator[Event | UnreadableEvent]:
    split = _Splitter(body).split
    _, senders = split(0, len(body), _RESOURCE_LOGS)
    for sender in senders:
        head, scopes = split(*sender)
        resource = readable(_resource, head)
        for each in scopes:
            head, records = split(*each)
            scope = readable(_scope, head)
            for start, stop in records:
                if isinstance(resource, UnreadableEvent):
                    yield resource
                elif isinstance(scope, UnreadableEvent):
                    yield scope
                else:
                    yield readable(_event, body[start:stop], resource, scope)


class _Splitter:
    """Splits a request down to its records, of which it finds `MAX_LOG_RECORDS`."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._left = MAX_LOG_RECORDS

    def split(
        self, start: int, stop: int, number: int = _PARTS
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """Return the head of a message, and where its fields of a number are. O(message)."""
        heads, parts = [], []
        for each, at, end in fields_of(self._body, start, stop):
            self._left -= 1
            if self._left < 0:
                raise too_many_log_records()
            if each == number:
                parts.append((at, end))
            elif each == _HEAD:
                heads.append(self._body[at:end])
        # Protobuf merges what comes several times.
        return b"".join(heads), parts


def _resource(data: bytes) -> dict[str, Any]:
    return _pairs(_decoded(Resource, data).attributes)


def _scope(data: bytes) -> str:
    return _decoded(InstrumentationScope, data).name


def _decoded(kind: type[M], data: bytes) -> M:
    check_fields(data, _HOLDERS[kind])
    try:
        return kind.FromString(data)
    except DecodeError as error:
        message = f"the body has no {kind.DESCRIPTOR.name}: {error}"
        raise InvalidInputError(message, field="body") from None


def response_bytes(encoding: Encoding, rejected: int, message: str) -> bytes:
    """Return an ``ExportLogsServiceResponse``.

    Parameters
    ----------
    encoding : Encoding
        The request's.
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


def _event(data: bytes, resource: dict[str, Any], scope: str) -> Event:
    record = _decoded(LogRecord, data)
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
