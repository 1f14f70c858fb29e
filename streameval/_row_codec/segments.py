"""Segment columns as messages and back: for each key its values, and codes of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streameval._common.errors import InvalidInputError
from streameval._common.values import quoted
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BatchCodes = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Segments = tuple["SegmentCodes", ...]
SegmentPairs = tuple[tuple[str, str], ...]
"""Key and value of each segment that one row has."""

_MAX_UINT16_VALUES = 1 << 16
# The key, tags and lengths of a segment column; the tag and length of a value.
_MAX_COLUMN_OVERHEAD_BYTES = 80
_MAX_VALUE_OVERHEAD_BYTES = 3

_UINT16LE = np.dtype("<u2")


@dataclass(slots=True, eq=False)
class SegmentCodes:
    """The values of one segment key, dictionary-encoded. Never mutated.

    Attributes
    ----------
    key : str
    values : tuple of str
        "" means no value.
    codes : uint16[n] or uint32[n]
        Index into `values` for each row.
    """

    key: str
    values: tuple[str, ...]
    codes: BatchCodes

    @classmethod
    def of(cls, key: str, values: Iterable[str]) -> SegmentCodes:
        """Return the column of a key, given each row's value. O(rows).

        Examples
        --------
        >>> column = SegmentCodes.of("country", ["US", "", "US"])
        >>> column.values, column.codes.tolist()
        (('US', ''), [0, 1, 0])
        """
        places: dict[str, int] = {}
        codes = [places.setdefault(value, len(places)) for value in values]
        return cls(key, tuple(places), np.array(codes, dtype=np.uint32))

    def to_message(self) -> ingest_pb2.SegmentColumn:
        """Return it as a message. O(rows)."""
        message = ingest_pb2.SegmentColumn(key=self.key, values=self.values)
        if len(self.values) == 1:
            message.codes.append(0)  # for all rows
        elif len(self.values) <= _MAX_UINT16_VALUES:
            message.codes_u16le = self.codes.astype(_UINT16LE).tobytes()
        else:
            message.codes.extend(self.codes.tolist())
        return message


def segment_bytes(column: SegmentCodes) -> int:
    """Return an upper bound of a segment column's encoded size. O(values)."""
    code_bytes = 2 if len(column.values) <= _MAX_UINT16_VALUES else 3
    text = sum(4 * len(value) + _MAX_VALUE_OVERHEAD_BYTES for value in column.values)
    return _MAX_COLUMN_OVERHEAD_BYTES + text + code_bytes * column.codes.size


def decode_segments(
    columns: Sequence[ingest_pb2.SegmentColumn], size: int, *, like: str
) -> Segments:
    """Return segment columns (at least one), each with a code for every row.

    O(rows) for each key. Raises InvalidInputError.
    """
    # Each reading of a repeated message makes new objects for its elements: read it once.
    messages = list(columns)
    check_distinct([column.key for column in messages])
    given = [_decode_codes(column, size, place, like) for place, column in enumerate(messages)]
    codes = _stack_codes(given, size)
    found = tuple(
        [
            SegmentCodes(column.key, tuple(column.values), own)
            for column, own in zip(messages, codes, strict=True)
        ]
    )
    largest = codes.max(axis=1, initial=0).tolist()
    for place, (highest, each) in enumerate(zip(largest, found, strict=True)):
        if size and highest >= len(each.values):
            index = int(np.argmax(each.codes >= len(each.values)))
            raise InvalidInputError(
                f"code must be below {len(each.values)}, the number of values, "
                f"got {each.codes[index]} at index {index}",
                field=f"segments[{place}].codes",
                index=index,
            )
    return found


def _stack_codes(given: Sequence[BatchCodes], size: int) -> BatchCodes:
    """Return the codes of all columns, expanded to all rows: uint[keys, n]."""
    if all(codes.dtype == _UINT16LE and codes.size == size for codes in given):
        # numpy releases the interpreter's lock in each operation; joining bytes does not.
        packed = b"".join([codes.data for codes in given])
        return np.frombuffer(packed, _UINT16LE).reshape(len(given), size)
    stacked = np.empty((len(given), size), dtype=np.uint32)
    for own, codes in zip(stacked, given, strict=True):
        own[:] = codes
    return stacked


def _decode_codes(column: ingest_pb2.SegmentColumn, size: int, place: int, like: str) -> BatchCodes:
    """Return the codes of the column at a place: one for each row, or one for all."""
    packed, name = column.codes_u16le, "codes"
    codes: BatchCodes
    if packed:
        name = "codes_u16le"
        if column.codes:
            raise InvalidInputError(
                "codes and codes_u16le must not both be given",
                field=f"segments[{place}].codes_u16le",
            )
        if len(packed) % 2:
            raise InvalidInputError(
                f"codes_u16le must have 2 bytes for each code, got {len(packed)} bytes",
                field=f"segments[{place}].codes_u16le",
            )
        codes = np.frombuffer(packed, _UINT16LE)
    else:
        codes = np.array(column.codes, dtype=np.uint32)
    if len(codes) not in ((1, size) if size else (0,)):
        raise InvalidInputError(
            f"{name} must have one row, or one for each of {like}, "
            f"got {len(codes)} rows and {size}",
            field=f"segments[{place}].{name}",
        )
    return codes


def check_distinct(keys: list[str]) -> None:
    """Refuse a segment key that is given twice. O(keys)."""
    found: set[str] = set()
    for place, key in enumerate(keys):
        if key in found:
            raise InvalidInputError(
                f"segment key {quoted(key)} must be given once", field=f"segments[{place}].key"
            )
        found.add(key)
