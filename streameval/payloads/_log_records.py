"""Log records of OpenTelemetry (OTLP) as events.

A record's body, which may be a map, is the event's body. Its attributes and those of its
resource, the process that sent it, stand beside the body under their own names. What the
protocol itself says of a record becomes headers: ``type`` (the name of the event), ``scope`` (of
the logger), ``time``, ``traceid`` and ``spanid``.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval.payloads._body import load_json, nest_tensors
from streameval.payloads._event import Event, UnreadableEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LOG_RECORDS = 100_000
"""Records of one message: an empty one has two bytes, and its event some hundred."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVENT_NAME = "event.name"
"""The attribute that had an event's name before records had a field for it."""


def log_record_event(
    body: Any,
    attributes: Mapping[str, Any],
    resource: Mapping[str, Any],
    *,
    name: str = "",
    scope: str = "",
    time_ns: int = 0,
    trace_id: str = "",
    span_id: str = "",
) -> Event:
    """Return a record as an event. O(body): flat tensors in it are nested by their shape.

    Parameters
    ----------
    body : object
        A JSON value.
    attributes, resource : dict
        The record's attributes and its resource's, JSON values by name.
    name : str
        The event's name; else the attribute ``event.name``.
    scope : str
        The name of the logger.
    time_ns : int
        When it happened, in nanoseconds since 1970; 0 is not known.
    trace_id, span_id : str
        In hexadecimal; empty for none.

    Examples
    --------
    >>> event = log_record_event({"proba": 0.9}, {"shop": "eu"}, {}, time_ns=1_500_000_000)
    >>> event.body, event.attributes, event.headers
    ({'proba': 0.9}, {'shop': 'eu'}, {'time': '1970-01-01T00:00:01.500000+00:00'})
    """
    nest_tensors(body)
    given = attributes.get(_EVENT_NAME)
    headers = {
        "type": name or (given if isinstance(given, str) else ""),
        "scope": scope,
        "time": _time_text(time_ns) if time_ns else "",
        "traceid": trace_id,
        "spanid": span_id,
    }
    return Event(body, {key: text for key, text in headers.items() if text}, attributes, resource)


def _time_text(time_ns: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=time_ns // 1_000)).isoformat()
    except OverflowError:
        return str(time_ns)  # after the year 9999: refused where a mapping reads it


def read_log_records(body: bytes) -> list[Event | UnreadableEvent]:
    """Return the records of an ``ExportLogsServiceRequest`` in JSON. O(body).

    Files of the OpenTelemetry Collector have one such request a line. The JSON is protobuf's:
    null is absent, a field may have its name in the proto, an integer may be a text or 7.0.

    Parameters
    ----------
    body : bytes
        Unpacked (`unpack`).

    Raises
    ------
    InvalidInputError
        When it is no JSON, or no such request, or has too many records. A bad record, and each
        record of a resource or a logger that is bad, is an `UnreadableEvent`.

    Examples
    --------
    >>> body = b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"intValue": "7"}}]}]}]}'
    >>> [event.body for event in read_log_records(body)]
    [7]
    """
    events: list[Event | UnreadableEvent] = []
    try:
        for sender in _list(_table(load_json(body), "the request"), "resourceLogs"):
            try:
                _add_sender(_table(sender, "resourceLogs"), events)
            except _WrongError as error:
                events.append(UnreadableEvent(str(error)))
    except _WrongError as error:
        message = f"the body is no ExportLogsServiceRequest: {error}"
        raise InvalidInputError(message, field="body") from None
    return events


class _WrongError(Exception):
    """A part of a request is not what the protocol says."""

    def __init__(self, name: str, wanted: str, value: Any) -> None:
        super().__init__(f"{name} must be {wanted}, got {shown(value)}")


def _add_sender(sender: dict[str, Any], events: list[Event | UnreadableEvent]) -> None:
    """Add the records of a resource; each is refused if the resource or its logger is bad."""
    for each in _list(sender, "scopeLogs"):
        logger = _table(each, "scopeLogs")
        records = _list(logger, "logRecords")
        if len(events) + len(records) > MAX_LOG_RECORDS:
            message = f"more than {MAX_LOG_RECORDS} log records: send fewer at once"
            raise InvalidInputError(message, field="body")
        try:
            resource = _attributes(_table(_get(sender, "resource"), "resource"))
            scope = _text(_table(_get(logger, "scope"), "scope"), "name")
        except (_WrongError, RecursionError) as error:
            events += [UnreadableEvent(_said(error))] * len(records)
            continue
        for record in records:
            try:
                events.append(_event(_table(record, "logRecords"), resource, scope))
            except (_WrongError, RecursionError) as error:
                events.append(UnreadableEvent(_said(error)))


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, _WrongError) else "the record is nested too deeply"


def _event(record: dict[str, Any], resource: Mapping[str, Any], scope: str) -> Event:
    return log_record_event(
        _value(_get(record, "body")),
        _attributes(record),
        resource,
        name=_text(record, "eventName"),
        scope=scope,
        time_ns=_nanoseconds(record, "timeUnixNano")
        or _nanoseconds(record, "observedTimeUnixNano"),
        trace_id=_text(record, "traceId"),
        span_id=_text(record, "spanId"),
    )


def _value(value: Any) -> Any:
    """Return an ``AnyValue`` as a JSON value; one without a kind is null."""
    table = _table(value, "a value")
    for kind, read in _READERS.items():
        found = _get(table, kind)
        if found is not None:
            return read(kind, found)
    return None  # of a kind that is newer than this


def _integer(name: str, value: Any) -> int:
    """Return an integer of 64 bits, which may be a text, and may be written as 7.0 or 7e0."""
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            number = Decimal(value)
            if abs(number) < 1 << 64 and number == int(number):
                return int(number)
    except (ArithmeticError, ValueError):
        pass
    raise _WrongError(name, "an integer", value)


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return float(value)  # "NaN" and "Infinity" too
    except (ValueError, OverflowError):
        pass
    raise _WrongError(name, "a number", value)


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongError(name, "true or false", value)
    return value


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongError(name, "a text", value)
    return value


def _bytes(name: str, value: Any) -> str:
    """Return bytes as base64: they may be base64url, and lack their padding."""
    text = _string(name, value).rstrip("=").replace("-", "+").replace("_", "/")
    text += "=" * (-len(text) % 4)
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _WrongError(name, "base64", value) from None
    return text


def _array(name: str, value: Any) -> list[Any]:
    return [_value(each) for each in _list(_table(value, name), "values")]


def _map(name: str, value: Any) -> dict[str, Any]:
    return _pairs(_table(value, name), "values")


_READERS = {
    "stringValue": _string,
    "doubleValue": _number,
    "intValue": _integer,
    "boolValue": _boolean,
    "kvlistValue": _map,
    "arrayValue": _array,
    "bytesValue": _bytes,
}
"""What reads each kind of an ``AnyValue``."""


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    return _pairs(holder, "attributes")


def _pairs(holder: dict[str, Any], name: str) -> dict[str, Any]:
    tables = [_table(each, name) for each in _list(holder, name)]
    return {_text(each, "key"): _value(_get(each, "value")) for each in tables}


def _get(holder: dict[str, Any], name: str) -> Any:
    """Return a field by its name in JSON, else by its name in the proto; null is absent."""
    found = holder.get(name)
    return holder.get(_PROTO_NAMES[name]) if found is None and name in _PROTO_NAMES else found


_PROTO_NAMES = {
    name: re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
    for name in (
        *("resourceLogs", "scopeLogs", "logRecords", "eventName", "traceId", "spanId"),
        *("timeUnixNano", "observedTimeUnixNano", *_READERS),
    )
}


def _list(holder: dict[str, Any], name: str) -> list[Any]:
    """Return a field that is repeated; absent is none."""
    found = _get(holder, name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _WrongError(name, "an array", found)
    return found


def _table(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _WrongError(name, "an object", value)
    return value


def _text(holder: dict[str, Any], name: str) -> str:
    value = _get(holder, name)
    return "" if value is None else _string(name, value)


def _nanoseconds(holder: dict[str, Any], name: str) -> int:
    value = _get(holder, name)
    found = 0 if value is None else _integer(name, value)
    if found < 0:
        raise _WrongError(name, "nanoseconds since 1970", value)
    return found
