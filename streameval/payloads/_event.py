"""Events: a payload with the attributes that its transport carried.

CloudEvents 1.0 over HTTP come in three modes: *binary* (attributes in headers ``ce-...``, the
body is the payload), *structured* (one JSON object has both) and *batched* (an array of such
objects); https://github.com/cloudevents/spec. A payload without any envelope is an event
without attributes.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from streameval._common.errors import InvalidInputError
from streameval._common.values import quoted
from streameval.payloads._body import load_json, parse_json
from streameval.payloads._tensors import may_have_flat_tensors, nest_tensors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"

_PREFIX = "ce-"
_DATA = ("data", "data_base64")
_REQUIRED = ("id", "source", "specversion", "type")
_TEXT = frozenset({str})
"""The type of attributes, as a rule: CloudEvents allow booleans and integers too."""

_NOTHING: Mapping[str, Any] = {}


class Event(NamedTuple):
    """A payload and what is said about it.

    Parameters
    ----------
    body : object
        The payload, parsed: a JSON value.
    headers : dict of str to str
        Attributes of the event by name, without ``ce-``: ``id``, ``type``, ``source``, ``time``,
        extensions; of a payload without an envelope its headers, in lower case.
    attributes, resource : dict of str to object
        Of a log record: its attributes, and its resource's attributes, JSON values by name.
    """

    body: Any
    headers: Mapping[str, str] = _NOTHING
    attributes: Mapping[str, Any] = _NOTHING
    resource: Mapping[str, Any] = _NOTHING

    def named(self, name: str) -> Any:
        """Return a header, else an attribute, else one of the resource; None for none."""
        for found in (self.headers, self.attributes, self.resource):
            if name in found:
                return found[name]
        return None


class UnreadableEvent(NamedTuple):
    """An event of a batch that is none; the others of its batch are read.

    Parameters
    ----------
    message : str
        What is wrong with it.
    """

    message: str


def read_event(headers: Mapping[str, str], body: bytes) -> Event:
    """Return the event of a message that is one event or one payload. O(body).

    Parameters
    ----------
    headers : dict of str to str
        Names in lower case.
    body : bytes
        Unpacked (`unpack`).

    Raises
    ------
    InvalidInputError
        When it is no JSON, an event without a required attribute, or a batch.

    Examples
    --------
    >>> headers = {"ce-id": "7", "ce-type": "t", "ce-source": "s", "ce-specversion": "1.0"}
    >>> event = read_event(headers, b'{"predictions": [0.2]}')
    >>> event.headers["id"], event.body
    ('7', {'predictions': [0.2]})
    """
    events = read_events(headers, body)
    if len(events) != 1:
        raise InvalidInputError("a batch of events, where one is expected", field="body")
    (event,) = events
    if isinstance(event, UnreadableEvent):
        raise InvalidInputError(event.message, field="body")
    return event


def read_events(
    headers: Mapping[str, str], body: bytes, types: Collection[str] | None = None
) -> list[Event | UnreadableEvent]:
    """Return the events of a message, in any mode of CloudEvents. O(body).

    Parameters and errors are as for `iter_events`.
    """
    return list(iter_events(headers, body, types))


def iter_events(
    headers: Mapping[str, str], body: bytes, types: Collection[str] | None = None
) -> Iterator[Event | UnreadableEvent]:
    """Yield the events of a message, in any mode of CloudEvents. O(body).

    An event of a batch is released when the next one is asked for: to read each event's rows as
    it comes takes less memory and time than to read them from a list of events.

    Parameters
    ----------
    headers : dict of str to str
        Names in lower case.
    body : bytes
        Unpacked (`unpack`).
    types : collection of str, optional
        Types of events that are wanted (`wanted_types`). The payload of any other need not be
        JSON and is not read: its event has the body None. Default: all.

    Raises
    ------
    InvalidInputError
        When the message is no JSON, or is one event that lacks a required attribute. A bad
        event of a batch is yielded as an `UnreadableEvent`.
    """
    kind = _content_type(headers)
    if kind == BATCHED:
        value = load_json(body)
        if not isinstance(value, list):
            raise InvalidInputError("a batch must be a JSON array of events", field="body")
        is_nested = not may_have_flat_tensors(body)
        for place, each in enumerate(value):
            value[place] = None
            try:
                event: Event | UnreadableEvent = _structured(each, types, is_nested)
            except InvalidInputError as error:
                event = UnreadableEvent(str(error))
            yield event
        return
    if kind == STRUCTURED:
        yield _structured(load_json(body), types, not may_have_flat_tensors(body))
        return
    if not kind and b'"specversion"' in body and not is_cloud_event(headers):
        # Kafka's producers may leave out the content type, by which the event would be known.
        value = load_json(body)
        if isinstance(value, dict) and all(isinstance(value.get(name), str) for name in _REQUIRED):
            yield _structured(value, types, not may_have_flat_tensors(body))
            return
    attributes = {
        name.removeprefix(_PREFIX): unquote(value)
        for name, value in headers.items()
        if name.startswith(_PREFIX)
    }
    if attributes:
        _check(attributes)
    else:
        attributes = dict(headers)
    is_wanted = types is None or attributes.get("type", "") in types
    yield Event(parse_json(body) if is_wanted else None, attributes)


def is_cloud_event(headers: Mapping[str, str]) -> bool:
    """Return whether a message's headers say that it is a CloudEvent, or a batch of them."""
    kind = _content_type(headers)
    return kind in (STRUCTURED, BATCHED) or any(name.startswith(_PREFIX) for name in headers)


def _content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _structured(value: Any, types: Collection[str] | None, is_nested: bool) -> Event:
    """Return the event of an object; `is_nested` when it has no tensors that are flat."""
    if not isinstance(value, dict):
        raise InvalidInputError("an event must be a JSON object", field="body")
    attributes: dict[str, str] = {**value}
    for name in _DATA:
        attributes.pop(name, None)
    if not _TEXT.issuperset(map(type, attributes.values())):
        try:
            attributes = {
                name: each if type(each) is str else json.dumps(each)
                for name, each in attributes.items()
            }
        except RecursionError:
            message = "an attribute of the event is nested too deeply"
            raise InvalidInputError(message, field="body") from None
    _check(attributes)
    if types is not None and attributes["type"] not in types:
        return Event(None, attributes)
    if "data_base64" in value:
        try:
            raw = base64.b64decode(value["data_base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            message = f"data_base64 is not base64: {error}"
            raise InvalidInputError(message, field="data_base64") from None
        return Event(parse_json(raw), attributes)
    data = value.get("data")
    if isinstance(data, str):
        # JSON that was put into a text, as some senders do.
        return Event(parse_json(data), attributes)
    if not is_nested:
        nest_tensors(data)
    return Event(data, attributes)


def _check(attributes: Mapping[str, str]) -> None:
    """Refuse an event that lacks a required attribute, or has another version."""
    if attributes.get("specversion") == "1.0" and all(map(attributes.get, _REQUIRED)):
        return  # as a rule
    for name in _REQUIRED:
        if not attributes.get(name):
            message = f"the event has no {name}: CloudEvents 1.0 require it"
            raise InvalidInputError(message, field=name)
    if not attributes["specversion"].startswith("1."):
        message = f"specversion must be 1.x, got {quoted(attributes['specversion'])}"
        raise InvalidInputError(message, field="specversion")
