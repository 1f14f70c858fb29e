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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from streameval._common.errors import InvalidInputError
from streameval._common.values import quoted
from streameval.payloads._body import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"

_PREFIX = "ce-"
_REQUIRED = ("id", "source", "specversion", "type")


@dataclass(frozen=True, slots=True)
class Event:
    """A payload and what is said about it.

    Attributes
    ----------
    body : object
        The payload, parsed: a JSON value.
    headers : dict of str to str
        Attributes of the event by name, without ``ce-``: ``id``, ``type``, ``source``, ``time``,
        extensions; of a payload without an envelope its headers, in lower case.
    """

    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


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
    return events[0]


def read_events(headers: Mapping[str, str], body: bytes) -> list[Event]:
    """Return the events of a message, in any mode of CloudEvents. O(body).

    Raises
    ------
    InvalidInputError
        When it is no JSON, or an event lacks a required attribute; its ``index`` is the
        event's place in a batch. One bad event refuses the message: it is not known which
        of the others its sender meant.
    """
    kind = _content_type(headers)
    if kind == BATCHED:
        value = parse_json(body)
        if not isinstance(value, list):
            raise InvalidInputError("a batch must be a JSON array of events", field="body")
        return [_structured(each, index) for index, each in enumerate(value)]
    if kind == STRUCTURED:
        return [_structured(parse_json(body), None)]
    attributes = {
        name.removeprefix(_PREFIX): unquote(value)
        for name, value in headers.items()
        if name.startswith(_PREFIX)
    }
    if attributes:
        _check(attributes, None)
        return [Event(parse_json(body), attributes)]
    return [Event(parse_json(body), dict(headers))]


def is_cloud_event(headers: Mapping[str, str]) -> bool:
    """Return whether a message's headers say that it is a CloudEvent, or a batch of them."""
    kind = _content_type(headers)
    return kind in (STRUCTURED, BATCHED) or any(name.startswith(_PREFIX) for name in headers)


def _content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _structured(value: Any, index: int | None) -> Event:
    if not isinstance(value, dict):
        raise InvalidInputError("an event must be a JSON object", field="body", index=index)
    attributes = {
        name: _text(each) for name, each in value.items() if name not in ("data", "data_base64")
    }
    _check(attributes, index)
    if "data_base64" in value:
        try:
            raw = base64.b64decode(value["data_base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            message = f"data_base64 is not base64: {error}"
            raise InvalidInputError(message, field="data_base64", index=index) from None
        return Event(parse_json(raw), attributes)
    data = value.get("data")
    # JSON that was put into a text, as some senders do.
    return Event(parse_json(data) if isinstance(data, str) else data, attributes)


def _text(value: Any) -> str:
    """Return an attribute as headers have it: CloudEvents allow booleans and integers too."""
    return value if isinstance(value, str) else json.dumps(value)


def _check(attributes: Mapping[str, str], index: int | None) -> None:
    """Refuse an event that lacks a required attribute, or has another version."""
    for name in _REQUIRED:
        if not attributes.get(name):
            message = f"the event has no {name}: CloudEvents 1.0 require it"
            raise InvalidInputError(message, field=name, index=index)
    if not attributes["specversion"].startswith("1."):
        message = f"specversion must be 1.x, got {quoted(attributes['specversion'])}"
        raise InvalidInputError(message, field="specversion", index=index)
