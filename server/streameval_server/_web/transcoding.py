"""Converts URLs and JSON to requests, and answers to JSON, by protobuf's JSON mapping.

A query parameter is the path of a field, ``selection.segment.key=country``; a repeated
parameter is a list. Names are in lowerCamelCase or as in the proto. Answers contain
every field without presence (lists, numbers, texts, booleans), and those with presence
that are set.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from streameval.payloads import check_parts
from streameval_server._model.errors import Code, RequestError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.message import Message

M = TypeVar("M", bound="Message")

_MESSAGES_AS_TEXT = {
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "google.protobuf.FieldMask",
}
"""Messages that JSON represents as a string."""

_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
    FieldDescriptor.CPPTYPE_DOUBLE,
    FieldDescriptor.CPPTYPE_FLOAT,
}
"""Types of numbers, in C++, where enumerations are none."""

_BOOLEANS = {"true": True, "false": False}
_MAX_SHOWN_CHARACTERS = 200


def to_json(message: Message) -> bytes:
    """Return a message as JSON in UTF-8. O(message): large ones not on the event loop."""
    return json_format.MessageToJson(
        message, indent=None, always_print_fields_with_no_presence=True
    ).encode()


def from_json(kind: type[M], text: bytes) -> M:
    """Read a message from JSON. O(text).

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when the text is not a JSON object, a field is unknown or
        repeated, or a value has the wrong type.
    """
    message = kind()
    try:
        check_parts(text)
        values = json.loads(text, object_pairs_hook=_object)
        if not isinstance(values, dict):
            raise _malformed(kind, "the body", "it must be an object, {...}")
        _check_texts(values, kind.DESCRIPTOR)
        json_format.ParseDict(values, message)
    except (json_format.ParseError, ValueError, RecursionError) as error:
        raise _malformed(kind, "the body", str(error)) from error
    return message


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; refuse a repeated key. O(pairs)."""
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"{_short(name)!r} is there twice")
            seen.add(name)
    return values


def _check_texts(values: dict[str, Any], descriptor: Any) -> None:
    """Refuse texts that protobuf would read as other bytes or another number than they say.

    It skips what is not base64, and reads "1_0" as 10. O(values).
    """
    for field in descriptor.fields:
        for name in {field.name, field.json_name} & values.keys():
            found = values[name]
            for value in found if isinstance(found, list) else (found,):
                if isinstance(value, str):
                    _check_text(field, value)
                elif field.message_type is not None and isinstance(value, dict):
                    _check_texts(value, field.message_type)


def _check_text(field: Any, text: str) -> None:
    if field.type == FieldDescriptor.TYPE_BYTES:
        plain = text.replace("-", "+").replace("_", "/")
        base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    elif field.cpp_type in _NUMBERS and not (
        text.isascii() and "_" not in text and text == text.strip()
    ):
        raise ValueError(f"{field.json_name}: {_short(text)!r} is no number in JSON")


def from_query(kind: type[M], parameters: Iterable[tuple[str, str]]) -> M:
    """Read a message from query parameters.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when a field is unknown, one that is not a list is given
        twice, or a value has the wrong type.
    """
    values: dict[str, Any] = {}
    for path, text in parameters:
        _set_value(values, kind.DESCRIPTOR, path, text)
    message = kind()
    try:
        _check_texts(values, kind.DESCRIPTOR)
        json_format.ParseDict(values, message)
    except (json_format.ParseError, ValueError) as error:
        raise _malformed(kind, "the query", str(error)) from error
    return message


def bind(message: Message, path: str, value: str) -> None:
    """Set the field whose value is part of the URL's path.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when the request has another value there.
    """
    *parts, last = path.split(".")
    parent: Any = message
    for part in parts:
        parent = getattr(parent, part)
    current = getattr(parent, last)
    if current and current != value:
        raise invalid(path, f"{path} is {_short(current)!r}, but the URL's path says {value!r}")
    setattr(parent, last, value)


def _set_value(values: dict[str, Any], descriptor: Any, path: str, text: str) -> None:
    """Set a parameter's value at the place that JSON would have it."""
    *parts, last = path.split(".")
    for part in parts:
        field = _field(descriptor, part, path)
        if not _is_group(field) or field.is_repeated:
            raise invalid(path, f"{field.name} has no fields of its own")
        values = values.setdefault(field.json_name, {})
        descriptor = field.message_type
    field = _field(descriptor, last, path)
    if _is_group(field):
        raise invalid(path, f"{path} is not one value: name one of its fields")
    value: Any = text
    if field.type == FieldDescriptor.TYPE_BOOL:
        if text not in _BOOLEANS:
            raise invalid(path, f"{path} must be true or false, got {_short(text)!r}")
        value = _BOOLEANS[text]
    if field.is_repeated:
        values.setdefault(field.json_name, []).append(value)
    elif field.json_name in values:
        raise invalid(path, f"{path} is given twice")
    else:
        values[field.json_name] = value


def _field(descriptor: Any, name: str, path: str) -> FieldDescriptor:
    field: FieldDescriptor | None = descriptor.fields_by_name.get(name)
    field = field or descriptor.fields_by_camelcase_name.get(name)
    if field is None:
        known = ", ".join(each.json_name for each in descriptor.fields)
        raise invalid(
            _short(path), f"there is no parameter {_short(path)!r}: {descriptor.name} has {known}"
        )
    return field


def _is_group(field: FieldDescriptor) -> bool:
    """Whether a field is a message whose fields are parameters."""
    return field.message_type is not None and field.message_type.full_name not in _MESSAGES_AS_TEXT


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."


def _malformed(kind: type[Message], what: str, problem: str) -> RequestError:
    return RequestError(
        Code.INVALID_ARGUMENT,
        f"{what} is not a {kind.DESCRIPTOR.name} in JSON: {_short(problem)}",
        reason="MALFORMED_MESSAGE",
    )
