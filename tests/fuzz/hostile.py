"""Hostile values, messages and bytes, generated from seeds."""

from __future__ import annotations

import base64
import functools
import random
import struct
import time
import zlib
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

TEXTS = (
    "",
    "s",
    "fraud/v3",
    "a" * 128,
    "a" * 129,
    "a//b",
    "../../etc/passwd",
    "s\n",
    "s\0t",
    "\0",
    " ",
    "a b",
    "__other__",
    "é",
    "e\N{COMBINING ACUTE ACCENT}",
    "\N{ANGSTROM SIGN}",
    "\N{RIGHT-TO-LEFT OVERRIDE}abc\N{POP DIRECTIONAL FORMATTING}",
    "\N{ZERO WIDTH JOINER}",
    "\N{ZERO WIDTH NO-BREAK SPACE}s",
    "\N{REPLACEMENT CHARACTER}",
    "\N{LINE SEPARATOR}",
    "\N{FULLWIDTH LATIN SMALL LETTER S}",
    "\N{PILE OF POO}" * 32,
    "\N{PILE OF POO}" * 33,
    "Z" + "\N{COMBINING GRAVE ACCENT}" * 100,
    "\U0010ffff\ufdd0",
    "%n%s{0}{x!r}",
    "'; DROP TABLE log; --",
    "\x1b[31mred\x1b[0m\r",
    "\N{LATIN SMALL LETTER DOTLESS I}\N{LATIN SMALL LETTER SHARP S}",
    "\N{MATHEMATICAL DOUBLE-STRUCK DIGIT ZERO}",
    "9" * 400,
)
"""Names, ids and values at the edges of the rules."""

LONG_TEXTS = ("x" * (1 << 20), "\N{RIGHT-TO-LEFT OVERRIDE}" * 40_000, "/" * 70_000)

FLOATS = (
    0.0,
    -0.0,
    0.5,
    0.25,
    1.0,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1e308,
    -1.7976931348623157e308,
    1.7976931348623157e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    2.0**63,
    2.0**53 + 1,
    0.1 + 0.2,
)


NOW = int(time.time())
SOUND_TIMES = {
    "google.protobuf.Duration": (0, 1, 60, 61, 3600, 86_400, 30 * 86_400, 10**9),
    "google.protobuf.Timestamp": (0, NOW, NOW - 60, NOW - 3600, NOW + 60, NOW - 10**7, NOW + 10**7),
}


def _integers(bits: int, *, signed: bool) -> tuple[int, ...]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    values = {0, 1, 2, 3, 100, -1, low, low + 1, high, high - 1}
    values |= {1 << power for power in (31, 32, 53, 61, 62, 63)}
    values |= {(1 << power) - 1 for power in (31, 32, 53, 61, 62, 63)}
    values |= {NOW * 1_000_000, NOW * 1_000_000 - 90_000_000}
    values |= {1_800_000_000_000_000, -62_135_596_800, 253_402_300_800}  # ends of datetime
    return tuple(sorted(value for value in values if low <= value <= high))


_Type = FieldDescriptor
INTEGERS = {
    _Type.TYPE_INT32: _integers(32, signed=True),
    _Type.TYPE_SFIXED32: _integers(32, signed=True),
    _Type.TYPE_UINT32: _integers(32, signed=False),
    _Type.TYPE_FIXED32: _integers(32, signed=False),
    _Type.TYPE_INT64: _integers(64, signed=True),
    _Type.TYPE_SFIXED64: _integers(64, signed=True),
    _Type.TYPE_UINT64: _integers(64, signed=False),
    _Type.TYPE_FIXED64: _integers(64, signed=False),
}


MAGICS = (b"SVEE", b"SVEW", b"SVET", b"SVEJ", b"SVEC", b"SVES", b"SVEX")
"""The first bytes of the library's and the server's formats."""


def resealed(data: bytes) -> bytes:
    """Return the data with correct checksums for it and for all nested states."""
    out = bytearray(data)
    starts = [at for magic in MAGICS for at in find_all(data, magic) if at >= 8]
    for at in sorted(starts, reverse=True):  # the innermost first
        (size,) = struct.unpack_from("<q", out, at - 8)
        if 10 <= size <= len(out) - at:
            seal(out, at, at + size)
    if len(out) >= 4:
        seal(out, 0, len(out))
    return bytes(out)


@functools.lru_cache(maxsize=1024)
def forms_in(data: bytes) -> tuple[tuple[int, int], ...]:
    """Return start and end of nested states with correct checksums, the inner ones first."""
    found = []
    for start in sorted((at for magic in MAGICS for at in find_all(data, magic)), reverse=True):
        crc = zlib.crc32(data[start : start + 4])
        for end in range(start + 8, len(data) + 1):
            if crc.to_bytes(4, "little") == data[end - 4 : end]:
                found.append((start, end))
                break
            crc = zlib.crc32(data[end - 4 : end - 3], crc)
    return tuple(found)


def find_all(data: bytes, what: bytes) -> list[int]:
    found, at = [], data.find(what)
    while at >= 0:
        found.append(at)
        at = data.find(what, at + 1)
    return found


def seal(out: bytearray, start: int, end: int) -> None:
    struct.pack_into("<I", out, end - 4, zlib.crc32(out[start : end - 4]))


def resealed_in_place(sound: bytes, altered: bytes) -> bytes:
    """Return altered bytes with correct checksums wherever the valid bytes had them."""
    out = bytearray(altered)
    for start, end in forms_in(sound):
        seal(out, start, end)
    return bytes(out)


class Hostile:
    """Generates messages and bytes, from nearly valid to random.

    Parameters
    ----------
    seed
        The same seed makes the same input.
    """

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(str(seed))

    def message(self, descriptor: Descriptor, depth: int = 0) -> Message:
        """Return a message with about half of its fields set to hostile values."""
        message = GetMessageClass(descriptor)()
        if descriptor.full_name in SOUND_TIMES and self.rng.random() < 0.7:
            message.seconds = self.rng.choice(SOUND_TIMES[descriptor.full_name])
            return message
        for each in descriptor.fields:
            if depth > 6 or self.rng.random() < 0.45:
                continue
            if not each.is_repeated:
                self._set(message, each, depth)
                continue
            column = getattr(message, each.name)
            count = self.rng.choice((0, 1, 1, 2, 2, 3, 3, 5, 40))
            if each.type == _Type.TYPE_MESSAGE:
                made = [self.message(each.message_type, depth + 1) for _ in range(min(count, 5))]
                column.extend(made)
            else:
                column.extend(self.value(each) for _ in range(count))
        return message

    def _set(self, message: Message, each: FieldDescriptor, depth: int) -> None:
        if each.type == _Type.TYPE_MESSAGE:
            getattr(message, each.name).MergeFrom(self.message(each.message_type, depth + 1))
        else:
            setattr(message, each.name, self.value(each))

    def value(self, each: FieldDescriptor) -> object:
        """Return a value for a scalar field."""
        rng = self.rng
        if each.type in INTEGERS:
            return rng.choice(INTEGERS[each.type])
        if each.type in {_Type.TYPE_DOUBLE, _Type.TYPE_FLOAT}:
            return rng.choice(FLOATS)
        if each.type == _Type.TYPE_BOOL:
            return rng.random() < 0.5
        if each.type == _Type.TYPE_ENUM:
            return rng.choice((0, 1, 2, 3, 99, -1, 2**31 - 1))
        if each.type == _Type.TYPE_STRING:
            return self.text(each.name)
        return rng.choice((b"", b"\0", b"\xff" * 9, rng.randbytes(16), bytes(64)))

    def text(self, name: str) -> str:
        """Return a text; for a stream or a metric mostly a valid name."""
        rng = self.rng
        if rng.random() < 0.01:
            return rng.choice(LONG_TEXTS)
        if name in {"stream", "name"} and rng.random() < 0.6:
            return rng.choice(("s", "t/1", "t/2"))
        if name == "page_token" and rng.random() < 0.8:
            return base64.urlsafe_b64encode(rng.choice(TEXTS[:24]).encode()).decode()
        if name in {"metric", "metrics"} and rng.random() < 0.6:
            return rng.choice(("auc_pr", "auc_roc", "brier_score", "maximum_f_measure"))
        if name in {"key", "segment_keys"} and rng.random() < 0.6:
            return rng.choice(("country", "k"))
        return rng.choice(TEXTS)

    def mutated(self, frame: bytes) -> bytes:
        """Return bytes with one to four changes."""
        data = bytearray(frame)
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2, 4))):
            at, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
            change = rng.randrange(8)
            if change == 0 and data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            elif change == 1 and data:
                data[at % len(data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif change == 2:
                del data[at:end]
            elif change == 3:
                data[at:at] = rng.randbytes(rng.choice((1, 4, 10)))
            elif change == 4:
                data[at:at] = data[at:end]
            elif change == 5:  # a huge varint or length
                data[at:at] = rng.choice((b"\xff" * 9 + b"\x01", b"\xff" * 11, b"\xff\xff\xff\x7f"))
            elif change == 6:  # nested groups, and the end of a group that did not begin
                data[at:at] = rng.choice((b"\x0b" * 200, b"\x0c", b"\x0b\x0c" * 9))
            else:
                del data[at:]
        return bytes(data)

    def overwritten(self, data: bytes) -> bytes:
        """Return bytes of the same length with another digit or another number in them."""
        out = bytearray(data)
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(len(out))
            if out[at : at + 1].isdigit():
                out[at] = ord("0") + rng.randrange(10)
                continue
            layout = rng.choice(("<q", "<i", "<h", "<b"))
            size = struct.calcsize(layout)
            at = min(at, len(out) - size)
            (number,) = struct.unpack_from(layout, out, at)
            ends = (0, 1, -1, 127, number + 1, number - 1, -number, (1 << (8 * size - 1)) - 1)
            low, high = -(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1
            struct.pack_into(layout, out, at, min(max(rng.choice(ends), low), high))
        return bytes(out)

    def bent(self, message: Message) -> Message:
        """Return a copy with none to three of its fields changed, at any depth."""
        copy = type(message)()
        copy.CopyFrom(message)
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3))):
            self._bend(copy)
        return copy

    def _bend(self, message: Message) -> None:
        """Change one field, preferably of a nested message that is set."""
        rng = self.rng
        fields = [each for each, _ in message.ListFields()]
        if not fields or rng.random() < 0.25:
            fields = message.DESCRIPTOR.fields
        if not fields:
            return
        each = rng.choice(fields)
        if each.is_repeated:
            self._bend_column(getattr(message, each.name), each)
        elif each.type == _Type.TYPE_MESSAGE:
            part = getattr(message, each.name)
            if message.HasField(each.name) and rng.random() < 0.8:
                self._bend(part)
            else:
                part.CopyFrom(self.message(each.message_type, 3))
        elif rng.random() < 0.15:
            message.ClearField(each.name)
        else:
            setattr(message, each.name, self.value(each))

    def _bend_column(self, column: Any, each: FieldDescriptor) -> None:
        rng = self.rng
        is_message = each.type == _Type.TYPE_MESSAGE
        change = rng.randrange(5)
        if change == 0 and column:
            del column[rng.randrange(len(column))]
        elif change == 1:
            made = self.message(each.message_type, 3) if is_message else self.value(each)
            column.append(made)
        elif change == 2 and column:
            column.append(column[0])
        elif change == 3 and rng.random() < 0.2:
            column.extend(list(column) * 40)
        elif column and is_message:
            self._bend(rng.choice(column))
        elif column:
            column[rng.randrange(len(column))] = self.value(each)

    def resealed(self, data: bytes) -> bytes:
        """Return the data with correct checksums, nested ones included."""
        return resealed(data)

    def resealed_in_place(self, data: bytes) -> bytes:
        """Return bytes with a few numbers overwritten and all checksums corrected."""
        return resealed_in_place(data, self.overwritten(data))

    def frame(self, sound: Message) -> bytes:
        """Return an encoded request: a changed or mutated valid one, a random one, or noise."""
        kind = self.rng.random()
        if kind < 0.05:
            return self.rng.randbytes(self.rng.choice((0, 1, 5, 60)))
        if kind < 0.15:
            return self.message(sound.DESCRIPTOR).SerializeToString()
        if kind < 0.25:
            return self.mutated(sound.SerializeToString())
        return self.bent(sound).SerializeToString()
