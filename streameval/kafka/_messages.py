"""Events of Kafka messages, in each form that model servers write.

CloudEvents come *structured* (``content-type: application/cloudevents+json``) or *binary*
(attributes in headers ``ce_...``); Seldon Core 1 writes attributes as plain headers, Seldon Core
2 the Open Inference Protocol in protobuf. Anything else is JSON, with the headers as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval.kafka._v2_response import read_v2_response
from streameval.payloads import Event, UnreadableEvent, read_events, unpack
from streameval.payloads._tensors import nest_tensors

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    Headers = Sequence[tuple[str, bytes | str | None]] | None
    """The headers of a Kafka message."""

_KAFKA_PREFIX, _HTTP_PREFIX = "ce_", "ce-"
_REQUEST_ID = "x-request-id"


def read_message(
    topic: str,
    key: bytes | None,
    headers: Headers,
    value: bytes,
    types: Collection[str] | None = None,
) -> list[Event | UnreadableEvent]:
    """Return the events of a message. O(value).

    Each has the header ``topic``, and ``key`` where the message has one that is text, unless
    its sender gave headers of these names. With `types`, the payloads of events of other types
    are not read.

    Raises
    ------
    TooLongError
        When it unpacks to more than a message may.
    InvalidInputError
        When the message is neither JSON nor a known form.

    Examples
    --------
    >>> headers = [("ce_id", b"7"), ("ce_type", b"t"), ("ce_source", b"s"),
    ...            ("ce_specversion", b"1.0"), ("content-type", b"application/json")]
    >>> (event,) = read_message("scores", None, headers, b'{"score": 0.5}')
    >>> event.headers["id"], event.headers["topic"], event.body
    ('7', 'scores', {'score': 0.5})
    """
    names = _text_headers(headers) if headers else {}
    events = _events(names, value, types)
    for event in events:
        if isinstance(event, UnreadableEvent):
            continue
        # Both are dictionaries that were made for this event.
        attributes: dict[str, str] = event.headers  # type: ignore[assignment]
        attributes.setdefault("topic", topic)
        if key is not None and "key" not in attributes:
            try:
                attributes["key"] = key.decode()
            except UnicodeDecodeError:
                continue
    return events


def _events(
    headers: dict[str, str], value: bytes, types: Collection[str] | None
) -> list[Event | UnreadableEvent]:
    encoding = headers.get("content-encoding", "")
    body = unpack(value, encoding) if encoding else value
    if _is_protobuf(headers, body):
        response: Any = read_v2_response(body)
        nest_tensors(response)
        attributes = {name.removeprefix(_HTTP_PREFIX): each for name, each in headers.items()}
        return [Event(response, attributes)]
    return read_events(headers, body, types)


def _is_protobuf(headers: dict[str, str], body: bytes) -> bool:
    """Whether a body is protobuf; Seldon Core 2 does not say so.

    A response begins with the model's name, field 1, whose tag is a line feed. JSON may begin
    with one too, but is then followed by JSON; a length that looks like it is a name of 91 or
    123 bytes.
    """
    if "protobuf" in headers.get("content-type", ""):
        return True
    if _REQUEST_ID not in headers or not body.startswith(b"\n"):
        return False
    if body.lstrip()[:1] not in (b"[", b"{"):
        return True
    try:
        read_events(headers, body)
    except InvalidInputError:
        return True
    return False


def _text_headers(headers: Sequence[tuple[str, bytes | str | None]]) -> dict[str, str]:
    """Return headers as text with names in lower case, attributes named as over HTTP."""
    names = {}
    for given, value in headers:
        name = given.lower()
        if name.startswith(_KAFKA_PREFIX):
            name = _HTTP_PREFIX + name.removeprefix(_KAFKA_PREFIX)
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        names[name] = text or ""
    return names
