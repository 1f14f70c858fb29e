"""Log records of OpenTelemetry (OTLP) as events.

A record's body, which may be a map, is the event's body. Its attributes and those of its
resource, the process that sent it, stand beside the body under their own names. What the
protocol itself says of a record becomes headers: ``type`` (the name of the event), ``scope`` (of
the logger), ``time``, ``traceid`` and ``spanid``.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval.payloads._body import load_json, nest_tensors
from streameval.payloads._event import Event

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


def read_log_records(body: bytes) -> list[Event]:
    """Return the records of an ``ExportLogsServiceRequest`` in JSON. O(body).

    Files of the OpenTelemetry Collector have one such request a line.

    Parameters
    ----------
    body : bytes
        Unpacked (`unpack`).

    Raises
    ------
    InvalidInputError
        When it is no JSON, or no such request: one bad value refuses the whole message, as
        in the binary encoding.

    Examples
    --------
    >>> body = b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"intValue": "7"}}]}]}]}'
    >>> [event.body for event in read_log_records(body)]
    [7]
    """
    events: list[Event] = []
    try:
        for sender in _tables(_table(load_json(body), "the request"), "resourceLogs"):
            resource = _attributes(_table(sender.get("resource"), "resource"))
            for logger in _tables(sender, "scopeLogs"):
                scope = _text(_table(logger.get("scope"), "scope"), "name")
                records = _tables(logger, "logRecords")
                if len(events) + len(records) > MAX_LOG_RECORDS:
                    message = f"more than {MAX_LOG_RECORDS} log records: send fewer at once"
                    raise InvalidInputError(message, field="body")
                events += [_event(each, resource, scope) for each in records]
    except RecursionError:
        raise InvalidInputError("the body is nested too deeply", field="body") from None
    return events


def _event(record: dict[str, Any], resource: Mapping[str, Any], scope: str) -> Event:
    return log_record_event(
        _value(record.get("body")),
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
    """Return an ``AnyValue`` as a JSON value; integers may be texts, as in protobuf's JSON."""
    if value is None or value == {}:
        return None
    table = _table(value, "a value")
    for kind, read in _READERS.items():
        if kind in table:
            return read(table[kind])
    return None  # of a kind that is newer than this


def _integer(value: Any) -> int:
    try:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return int(value)
    except ValueError:
        pass
    raise _wrong("intValue", "an integer", value)


def _number(value: Any) -> float:
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return float(value)  # "NaN" and "Infinity" too, as protobuf's JSON has them
    except (ValueError, OverflowError):
        pass
    raise _wrong("doubleValue", "a number", value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong("boolValue", "true or false", value)
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong("stringValue", "a text", value)
    return value


def _bytes(value: Any) -> str:
    """Return bytes as base64, which they are in JSON already."""
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise _wrong("bytesValue", "base64", value) from None
    return str(value)


def _array(value: Any) -> list[Any]:
    values = _table(value, "arrayValue").get("values") or []
    if not isinstance(values, list):
        raise _wrong("arrayValue.values", "an array", values)
    return [_value(each) for each in values]


def _map(value: Any) -> dict[str, Any]:
    return _pairs(_table(value, "kvlistValue"), "values")


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
    return {_text(each, "key"): _value(each.get("value")) for each in _tables(holder, name)}


def _tables(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a field that repeats messages; absent is none."""
    found = holder.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _wrong(name, "an array", found)
    return [_table(each, name) for each in found]


def _table(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(name, "an object", value)
    return value


def _text(holder: dict[str, Any], name: str) -> str:
    value = holder.get(name, "")
    if not isinstance(value, str):
        raise _wrong(name, "a text", value)
    return value


def _nanoseconds(holder: dict[str, Any], name: str) -> int:
    value = holder.get(name, 0)
    try:
        if isinstance(value, str | int) and not isinstance(value, bool) and int(value) >= 0:
            return int(value)
    except ValueError:
        pass
    raise _wrong(name, "nanoseconds since 1970", value)


def _wrong(name: str, wanted: str, value: Any) -> InvalidInputError:
    message = f"the body is no ExportLogsServiceRequest: {name} must be {wanted}, got "
    return InvalidInputError(message + shown(value), field="body")
