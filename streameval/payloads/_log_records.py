"""Log records of OpenTelemetry (OTLP) as events.

A record's body, which may be a map, is the event's body. The event has the record's attributes
and the attributes of its resource (the process that sent it) under their own names. What the
protocol itself says of a record becomes headers: ``type`` (the name of the event), ``scope`` (of
the logger), ``time``, ``traceid`` and ``spanid``.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval.payloads._body import TooLongError, load_json
from streameval.payloads._event import Event, UnreadableEvent
from streameval.payloads._tensors import nest_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

P = ParamSpec("P")
T = TypeVar("T")

MAX_LOG_RECORDS = 100_000
"""Records of one message, and the resources and scopes that hold them: an empty one has two
bytes, and takes as long to read as a row."""

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


def too_many_log_records() -> TooLongError:
    """Return the error of a message that has more than `MAX_LOG_RECORDS`."""
    message = f"more than {MAX_LOG_RECORDS} log records and groups of them: send fewer at once"
    return TooLongError(message, field="body")


def readable(read: Callable[P, T], *args: P.args, **keys: P.kwargs) -> T | UnreadableEvent:
    """Return what is read of a record, or why it cannot be; the other records are read."""
    try:
        return read(*args, **keys)
    except InvalidInputError as error:
        return UnreadableEvent(str(error))
    except RecursionError:
        return UnreadableEvent("the record is nested too deeply")


def read_log_records(body: bytes) -> Iterator[Event | UnreadableEvent]:
    """Yield the records of an ``ExportLogsServiceRequest`` in JSON. O(body).

    Files of the OpenTelemetry Collector have one such request a line. The JSON is protobuf's:
    null is absent, a field may have its name in the proto, an integer may be a text or 7.0.
    A record is let go when the next one is asked for, as in `iter_events`.

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
    left = MAX_LOG_RECORDS
    try:
        for sender in _list(_table(load_json(body), "the request"), "resourceLogs"):
            # Once, however many scopes it has.
            resource = readable(_resource_of, sender)
            scopes = readable(_parts_of, sender, "resourceLogs", "scopeLogs")
            if isinstance(scopes, UnreadableEvent):
                yield scopes
                scopes = []
            left -= 1 + len(scopes)
            for each in scopes:
                scope = readable(_scope_of, each)
                records = readable(_parts_of, each, "scopeLogs", "logRecords")
                if isinstance(records, UnreadableEvent):
                    yield records
                    records = []
                left -= len(records)
                if left < 0:
                    raise too_many_log_records()
                yield from _records(records, resource, scope)
            if left < 0:
                raise too_many_log_records()
    except _WrongError as error:
        message = f"the body is no ExportLogsServiceRequest: {error}"
        raise InvalidInputError(message, field="body") from None


class _WrongError(InvalidInputError):
    """A part of a request is not what the protocol says."""

    def __init__(self, name: str, wanted: str, value: Any) -> None:
        super().__init__(f"{name} must be {wanted}, got {shown(value)}", field="body")


def _records(
    records: list[Any],
    resource: dict[str, Any] | UnreadableEvent,
    scope: str | UnreadableEvent,
) -> Iterator[Event | UnreadableEvent]:
    """Yield the records of a scope; each is refused if the resource or the scope is bad."""
    for place, record in enumerate(records):
        records[place] = None
        if isinstance(resource, UnreadableEvent):
            yield resource
        elif isinstance(scope, UnreadableEvent):
            yield scope
        else:
            yield readable(_event, record, resource, scope)


def _parts_of(holder: Any, name: str, parts: str) -> list[Any]:
    return _list(_table(holder, name), parts)


def _resource_of(sender: Any) -> dict[str, Any]:
    return _attributes(_table(_get(_table(sender, "resourceLogs"), "resource"), "resource"))


def _scope_of(logger: Any) -> str:
    return _text(_table(_get(_table(logger, "scopeLogs"), "scope"), "scope"), "name")


def _event(given: Any, resource: Mapping[str, Any], scope: str) -> Event:
    record = _table(given, "logRecords")
    return log_record_event(
        _value(_get(record, "body")),
        _attributes(record),
        resource,
        name=_text(record, "eventName"),
        scope=scope,
        time_ns=_nanoseconds(record, "timeUnixNano")
        or _nanoseconds(record, "observedTimeUnixNano"),
        # In either case: as an id, one span is one text in both encodings.
        trace_id=_text(record, "traceId").lower(),
        span_id=_text(record, "spanId").lower(),
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
        if _may_be_number(value):
            number = Decimal(value)
            if abs(number) < 1 << 64 and number == int(number):
                return int(number)
    except (ArithmeticError, ValueError):
        pass
    raise _WrongError(name, "an integer", value)


def _may_be_number(value: Any) -> bool:
    """Return whether Python reads a value as the number that its sender meant: "1_0" is not 10."""
    if isinstance(value, str):
        return value.isascii() and "_" not in value and value == value.strip()
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(name: str, value: Any) -> float:
    try:
        if _may_be_number(value):
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
