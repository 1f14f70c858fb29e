"""One reader for all answers: a message becomes a dataclass, whose fields have its names.

What a nested message becomes is registered once: `reads`. A field of a dataclass that its
message does not have, or has in another form, is given by the caller, or has its default.
An absent field is None where the dataclass allows it; else nan if it is a number, and
empty if it is a message.
"""

from __future__ import annotations

import math
from dataclasses import fields
from datetime import UTC, timedelta
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
    from google.protobuf.message import Message

A = TypeVar("A")
R = TypeVar("R", bound="Callable[[Any], Any]")

_MICROSECOND: Final = timedelta(microseconds=1)
_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "google.protobuf.Timestamp": lambda time: time.ToDatetime(UTC),
    "google.protobuf.Duration": lambda span: span.ToMicroseconds() * _MICROSECOND,
}
"""What a message becomes inside of another one, by its full name."""


def reads(message: type[Message]) -> Callable[[R], R]:
    """Register what a message becomes inside of another one."""

    def register(convert: R) -> R:
        _CONVERTERS[message.DESCRIPTOR.full_name] = convert
        return convert

    return register


def becomes(message: type[Message], kind: type[Any]) -> None:
    """Register that a message becomes a dataclass, whose fields all have its names."""
    reads(message)(partial(read, kind=kind))


def read(message: Message, kind: Callable[..., A], **given: Any) -> A:
    """Return a message as a dataclass; `given` are fields that the message has not so.

    O(fields); how each is read is worked out once.
    """
    names, get_all, getters = _plan(message.DESCRIPTOR, kind, tuple(given))
    given.update(zip(names, get_all(message), strict=True))
    for name, get in getters.items():
        given[name] = get(message)
    return kind(**given)


@cache
def label(enum: EnumDescriptor, number: int) -> str:
    """Return the name of a value without the enumeration's prefix; "UNKNOWN" of a newer server."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    value = enum.values_by_number.get(number)
    return "UNKNOWN" if value is None else value.name.removeprefix(prefix)


@cache
def _plan(
    descriptor: Descriptor, kind: Any, given: tuple[str, ...]
) -> tuple[list[str], Callable[[Message], Iterable[Any]], dict[str, Callable[[Message], Any]]]:
    """Return the fields that are read as they are, together, and how each other one is read."""
    known = descriptor.fields_by_name
    getters = {
        each.name: _getter(known[each.name], may_lack="None" in str(each.type))
        for each in fields(kind)
        if each.name in known and each.name not in given
    }
    names = [name for name, get in getters.items() if isinstance(get, attrgetter)]
    if len(names) < 2:  # attrgetter returns no tuple of one
        return [], lambda _: (), getters
    return names, attrgetter(*names), {n: get for n, get in getters.items() if n not in names}


def _getter(field: FieldDescriptor, *, may_lack: bool) -> Callable[[Message], Any]:
    name, get, convert = field.name, attrgetter(field.name), _converter(field, may_lack=may_lack)
    if field.is_repeated:
        return lambda message: tuple(map(convert, get(message)))
    if not field.has_presence or (field.message_type is not None and not may_lack):
        return get if convert is _same else lambda message: convert(get(message))
    absent = None if may_lack else math.nan
    return lambda message: convert(get(message)) if message.HasField(name) else absent


def _converter(field: FieldDescriptor, *, may_lack: bool) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _CONVERTERS[field.message_type.full_name]
    if field.enum_type is None:
        return _same
    enum = field.enum_type
    return lambda number: None if may_lack and not number else label(enum, number).lower()


def _same(value: Any) -> Any:
    return value
