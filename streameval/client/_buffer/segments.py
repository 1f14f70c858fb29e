"""Segments of rows on their way: one column for each key, dictionary-encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    CodeArray = npt.NDArray[np.uint32]
    Segments = tuple["SegmentCodes", ...]

_PACKED = 1 << 16
"""So many values can have codes of 16 bits."""

# The key, tags and lengths of a column, and those of a value.
_COLUMN_BYTES = 80
_VALUE_BYTES = 3


@dataclass(frozen=True, slots=True, eq=False)
class SegmentCodes:
    """One key's values. Immutable.

    Attributes
    ----------
    key : str
    values : tuple of str
        Distinct; "" is no value.
    codes : uint32[n]
        Index into values for each row.
    """

    key: str
    values: tuple[str, ...]
    codes: CodeArray

    def __getitem__(self, rows: slice | npt.NDArray[np.intp]) -> SegmentCodes:
        """Return some of the rows, with the values that they use. O(rows + values)."""
        codes = self.codes[rows]
        used = np.flatnonzero(np.bincount(codes, minlength=len(self.values)))
        if used.size == len(self.values):
            return SegmentCodes(self.key, self.values, codes)
        places = np.zeros(len(self.values), dtype=np.uint32)
        places[used] = np.arange(used.size, dtype=np.uint32)
        return SegmentCodes(self.key, tuple(self.values[i] for i in used), places[codes])

    @property
    def wire_bytes(self) -> int:
        """At most how many bytes it takes in a batch."""
        code_bytes = 2 if len(self.values) <= _PACKED else 3
        text = sum(4 * len(value) + _VALUE_BYTES for value in self.values)
        return _COLUMN_BYTES + text + code_bytes * self.codes.size

    def column(self) -> ingest_pb2.SegmentColumn:
        """Return it as a message. O(rows)."""
        column = ingest_pb2.SegmentColumn(key=self.key, values=self.values)
        if len(self.values) == 1:
            column.codes.append(0)  # for all rows
        elif len(self.values) <= _PACKED:
            column.codes_u16le = self.codes.astype("<u2").tobytes()
        else:
            column.codes.extend(self.codes.tolist())
        return column


def joined(pieces: Sequence[Segments], sizes: Sequence[int]) -> Segments:
    """Return the segments of pieces as those of one; a key that a piece lacks has no value.

    O(rows) for each key.
    """
    keys = dict.fromkeys(column.key for segments in pieces for column in segments)
    return tuple(
        _joined_key(key, [next((c for c in each if c.key == key), None) for each in pieces], sizes)
        for key in keys
    )


def _joined_key(
    key: str, columns: Sequence[SegmentCodes | None], sizes: Sequence[int]
) -> SegmentCodes:
    places: dict[str, int] = {}
    parts = []
    for column, size in zip(columns, sizes, strict=True):
        values = ("",) if column is None else column.values
        here = np.array(
            [places.setdefault(value, len(places)) for value in values], dtype=np.uint32
        )
        parts.append(np.full(size, here[0]) if column is None else here[column.codes])
    return SegmentCodes(key, tuple(places), np.concatenate(parts))


def of_marks(
    marks: Sequence[tuple[tuple[str, str], ...]], counts: npt.NDArray[np.int64]
) -> Segments:
    """Return the segments of rows that come in runs with the same ones.

    Parameters
    ----------
    marks
        The pairs of each run.
    counts : int64[runs]
        How many rows each run has.
    """
    numbers: dict[tuple[tuple[str, str], ...], int] = {}
    number = [numbers.setdefault(mark, len(numbers)) for mark in marks]
    which = np.repeat(np.array(number, dtype=np.uint32), counts)
    distinct = [dict(mark) for mark in numbers]
    found = []
    for key in dict.fromkeys(key for mark in numbers for key, _ in mark):
        places: dict[str, int] = {}
        codes = [places.setdefault(row.get(key, ""), len(places)) for row in distinct]
        found.append(SegmentCodes(key, tuple(places), np.array(codes, dtype=np.uint32)[which]))
    return tuple(found)
