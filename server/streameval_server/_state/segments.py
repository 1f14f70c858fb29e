"""A stream's segment values, numbered in the order in which the log brought them.

Each declared key numbers its own values, from `FIRST` on; once a key has its
most, later ones share one slice. A row that says nothing of a key has the code
`NONE`, so the slices of a key always add up to the whole since it was declared.
Cost: O(rows) for each key, a few nanoseconds a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from streameval._common import OTHER_VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._row_codec import BatchCodes, SegmentCodes
    from streameval._time import CodeArray

NONE = 0
"""The code of no value."""
_OTHER = 1
FIRST = 2
"""The first code of a value of its own."""
ABSENT = 0xFFFF
"""The code of a prediction that was made before its key was declared: it is in no slice."""

WHOLE = 0
"""The number of the slice that is everything."""


def slice_id(key: int, code: int) -> int:
    """Return the number of a slice."""
    return (key + 1) << 16 | code


def key_of(number: int) -> int:
    """Return the key of a slice."""
    return (number >> 16) - 1


CodeColumn: TypeAlias = "tuple[CodeArray, BatchCodes]"
"""The stream's code of each of a batch's values, and which of them each row has."""


class Coded(NamedTuple):
    """What the rows of a batch say of each key, as the batch numbered its values.

    Attributes
    ----------
    size : int
        Rows.
    columns : tuple of (CodeColumn or None)
        By key; None where the batch says nothing of it.
    """

    size: int
    columns: tuple[CodeColumn | None, ...]


def codes_of(batches: Sequence[Coded]) -> CodeArray:
    """Return the stream's code of each row of each key, uint16[keys, n]. O(n) for each key.

    Of many batches at once: each step over a batch alone would let go of the interpreter,
    and where other threads are busy wait to have it again.

    Parameters
    ----------
    batches
        At least one, all read with the same keys declared.
    """
    sizes = [batch.size for batch in batches]
    codes = np.full((len(batches[0].columns), sum(sizes)), NONE, dtype=np.uint16)
    for key, row in enumerate(codes):
        columns = [batch.columns[key] for batch in batches]
        given = [column for column in columns if column is not None]
        # Codes were checked when the batch was decoded: "clip" has nothing to clip.
        if len(given) == len(columns) and len({id(table) for table, _ in given}) == 1:
            given[0][0].take(np.concatenate([own for _, own in given]), out=row, mode="clip")
            continue
        for part, column in zip(np.split(row, np.cumsum(sizes[:-1])), columns, strict=True):
            if column is not None:
                table, own = column
                table.take(own, out=part, mode="clip")
    return codes


class Segments:
    """The values of each declared key.

    Parameters
    ----------
    keys : sequence of str
        The declared keys.
    max_values : int
        How many values a key may have.

    Attributes
    ----------
    values : list of list of str
        Values by key and code.
    overflowed : int
        How many rows' values shared the slice of the others.
    """

    def __init__(self, keys: Sequence[str], max_values: int) -> None:
        self.keys: list[str] = []
        self.values: list[list[str]] = []
        self.overflowed = 0
        self._codes: list[dict[str, int]] = []
        self._tables: list[tuple[tuple[str, ...], CodeArray]] = []
        self._most = FIRST + max_values
        self.declare(keys)

    def declare(self, keys: Sequence[str]) -> None:
        """Take keys that were added to those that there are."""
        for key in keys[len(self.keys) :]:
            self.keys.append(key)
            self.values.append(["", OTHER_VALUE])
            self._codes.append({"": NONE})
            self._tables.append(((), np.empty(0, dtype=np.uint16)))

    def restore(self, values: list[list[str]]) -> None:
        """Take the values that a checkpoint has."""
        self.values = values
        self._codes = [
            {value: code for code, value in enumerate(each) if code != _OTHER} for each in values
        ]

    def read(self, columns: Sequence[SegmentCodes], size: int) -> Coded | None:
        """Return what the rows of a batch say of each key; None without keys. O(values)."""
        if not self.keys:
            return None
        found: dict[int, CodeColumn] = {}
        for column in columns:
            if column.key in self.keys:
                key = self.keys.index(column.key)
                found[key] = self._table(key, column), column.codes
        return Coded(size, tuple(map(found.get, range(len(self.keys)))))

    def _table(self, key: int, column: SegmentCodes) -> CodeArray:
        """Return the stream's code of each of a column's values; number what is new."""
        values, table = self._tables[key]
        if values == column.values:
            return table
        known = self._codes[key]
        numbers = [known.get(value, -1) for value in column.values]
        if -1 in numbers:
            # A value that no row has takes no place.
            used = np.bincount(column.codes, minlength=len(numbers)).tolist()
            for place, value in enumerate(column.values):
                if numbers[place] < 0:
                    numbers[place] = self._new(key, value) if used[place] else _OTHER
                    if numbers[place] == _OTHER:
                        self.overflowed += used[place]
        table = np.array(numbers, dtype=np.uint16)
        # Most batches have the values of the last one; a place, once taken, is kept. A
        # column may say values twice: one of any length is not kept.
        if _OTHER not in numbers and len(numbers) <= 2 * self._most:
            self._tables[key] = column.values, table
        return table

    def _new(self, key: int, value: str) -> int:
        # The same value may stand twice in one column.
        code = self._codes[key].get(value)
        if code is None:
            code = len(self.values[key])
            if code >= self._most:
                return _OTHER
            self.values[key].append(value)
            self._codes[key][value] = code
        return code

    def row(self, segments: Sequence[tuple[str, str]]) -> list[int]:
        """Return one row's code of each key."""
        codes = [NONE] * len(self.keys)
        for name, value in segments:
            if name in self.keys:
                key = self.keys.index(name)
                codes[key] = self._new(key, value)
                self.overflowed += codes[key] == _OTHER
        return codes

    def names(self) -> dict[tuple[str, str], int]:
        """Return the number of each (key, value) that may have a slice. O(values)."""
        return {
            (name, value): slice_id(key, code)
            for key, name in enumerate(self.keys)
            for code, value in enumerate(self.values[key])
        }
