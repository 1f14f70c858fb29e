"""Fields of encoded messages, found and counted before protobuf decodes them.

An empty message has two bytes on the wire and takes fifty and more when it is decoded, so what
a body can become is known by its fields, not by its length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval.payloads._body import TooLongError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_FIELDS = 1_000_000
"""Fields of a message that are decoded at once; fields of the messages in it count too."""

_MAX_UNCOUNTED_BYTES = 1 << 16
"""A message as short as this is decoded without counting its fields."""

_MAX_DEPTH = 100
"""Levels of messages in messages; protobuf reads no more."""

_VARINT, _PACKED = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}
"""Kinds of fields whose length is fixed. Groups, the other kinds, are as old as proto2."""

_MAX_VARINT_BITS = 64


def fields_of(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    r"""Yield each field of a message: its number, and where its content is. O(message).

    The number is 0 of a field without a length, which holds no messages.

    Parameters
    ----------
    data : bytes
    start, stop : int
        Where in `data` the message is.

    Raises
    ------
    InvalidInputError
        When it is no message.

    Examples
    --------
    >>> list(fields_of(b"\x08\x01\x12\x02ab", 0, 6))
    [(0, 2, 2), (2, 4, 6)]
    """
    at = start
    while at < stop:
        tag, at = _varint(data, at, stop)
        kind = tag & 7
        if kind == _PACKED:
            size, at = _varint(data, at, stop)
            if at + size > stop:
                raise _wrong("it ends within a field")
            yield tag >> 3, at, at + size
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at, stop)
            yield 0, at, at
        elif kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
            yield 0, at, at
        else:
            raise _wrong(f"a field has the kind {kind}")
    if at > stop:
        raise _wrong("it ends within a field")


def check_fields(data: bytes, holders: Mapping[int, Any]) -> None:
    """Refuse a message of more than `MAX_FIELDS` fields, before it is decoded. O(data).

    Parameters
    ----------
    data : bytes
    holders : dict
        The numbers of the fields that hold messages, each with the same for these messages.

    Raises
    ------
    TooLongError
    InvalidInputError
        When it is no message.
    """
    if len(data) <= _MAX_UNCOUNTED_BYTES:
        return
    count = 0
    # The messages that contain the next field, outermost first: walked so, they take no memory.
    within = [(holders, fields_of(data, 0, len(data)))]
    while within:
        known, fields = within[-1]
        number, at, end = next(fields, (None, 0, 0))
        if number is None:
            within.pop()
            continue
        count += 1
        if count > MAX_FIELDS:
            message = f"a record has more than {MAX_FIELDS} fields: send it in several"
            raise TooLongError(message, field="body")
        if number in known and at < end:
            if len(within) > _MAX_DEPTH:
                raise _wrong("it is nested too deeply")
            within.append((known[number], fields_of(data, at, end)))


def _wrong(problem: str) -> InvalidInputError:
    return InvalidInputError(f"the body is no message of protobuf: {problem}", field="body")


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    value = shift = 0
    while at < stop and shift < _MAX_VARINT_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise _wrong("it ends within a number")
