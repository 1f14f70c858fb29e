"""A stream's segment values, numbered in the order of the log.

Each declared key numbers its own values, from `FIRST` on. Once a key has its maximum number
of values, further values share one slice. A row without a value for a key has the code
`NONE`, so the slices of a key always add up to the whole since the key was declared. A crossed
key's values are computed from its two keys' values.

Cost: O(rows) for each key, a few nanoseconds a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from streameval.checks import OTHER_VALUE
from streameval.kernel import groups_of
from streameval_server._model.crossed_keys import crossed_column, parents_of, with_crossed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval.wire import SegmentCodes
    from streameval_server._model.arrays import CodeArray, IntArray, WideCodes
    from streameval_server._model.row_kinds import CaseRows, PredictionRows

NONE = 0
"""The code of no value."""
_OTHER = 1
FIRST = 2
"""The lowest code of a value that has its own slice."""
ABSENT = 0xFFFF
"""The code of a prediction from before its key was declared: it is in no slice of the key."""

WHOLE = 0
"""The slice number of the whole stream."""


_VALUE_BYTES = 480
"""Memory of a value besides its text: its places in the lists and dicts of stream and views."""


def slice_id(key: int, code: int) -> int:
    """Return the number of a slice."""
    return (key + 1) << 16 | code


def key_of(number: int) -> int:
    """Return the key of a slice."""
    return (number >> 16) - 1


def code_of(number: int) -> int:
    """Return the code of a slice's value."""
    return number & 0xFFFF


CodeColumn: TypeAlias = "tuple[CodeArray, CodeArray | WideCodes]"
"""The stream's code of each value of a batch, and the index of each row's value."""


class SegmentColumns(NamedTuple):
    """The segment columns of a batch, with the batch's own numbering of values.

    Attributes
    ----------
    size : int
        Number of rows.
    columns : tuple of (CodeColumn or None)
        By key; None where the batch has no column for the key.
    """

    size: int
    columns: tuple[CodeColumn | None, ...]


def segment_codes(batches: Sequence[SegmentColumns]) -> CodeArray:
    """Return the stream's code of each row of each key, uint16[keys, n]. O(n) for each key.

    Takes many batches at once, because numpy releases the interpreter lock in each step and
    then waits for it when other threads are busy.

    Parameters
    ----------
    batches
        At least one, all read while the same keys were declared.
    """
    sizes = [batch.size for batch in batches]
    codes = np.full((len(batches[0].columns), sum(sizes)), NONE, dtype=np.uint16)
    for key, row in enumerate(codes):
        columns = [batch.columns[key] for batch in batches]
        given = [column for column in columns if column is not None]
        # Codes were checked when the batch was decoded, so "clip" never clips.
        if len(given) == len(columns) and len({id(table) for table, _ in given}) == 1:
            given[0][0].take(np.concatenate([own for _, own in given]), out=row, mode="clip")
            continue
        for part, column in zip(np.split(row, np.cumsum(sizes[:-1])), columns, strict=True):
            if column is not None:
                table, own = column
                table.take(own, out=part, mode="clip")
    return codes


def cluster_groups(rows: CaseRows | PredictionRows, num_groups: int) -> CodeArray | None:
    """Return the group of each row's cluster; None where no groups are declared. O(n)."""
    if rows.clusters is None or not num_groups:
        return None
    return groups_of(rows.clusters, num_groups).astype(np.uint16)


def prediction_codes(
    rows: PredictionRows, columns: SegmentColumns | None, num_groups: int
) -> CodeArray:
    """Return the codes of segments, behind the group of the cluster if there are groups. O(n)."""
    codes = np.empty((rows.size, 0), dtype=np.uint16)
    if columns is not None:
        codes = segment_codes([columns]).T
    groups = cluster_groups(rows, num_groups)
    return codes if groups is None else np.column_stack((groups, codes))


class Segments:
    """The values of each declared key.

    Parameters
    ----------
    keys : sequence of str
        The declared keys.
    max_values : int
        Maximum number of values of a key.

    Attributes
    ----------
    values : list of list of str
        The values, by key and code.
    overflowed : int
        Number of rows whose value went to the shared slice.
    """

    __slots__ = (
        "_codes",
        "_crossed",
        "_max_codes",
        "_places",
        "_tables",
        "_text_bytes",
        "keys",
        "overflowed",
        "values",
    )

    def __init__(self, keys: Sequence[str], max_values: int) -> None:
        self.keys: list[str] = []
        self.values: list[list[str]] = []
        self.overflowed = 0
        self._text_bytes = 0
        self._codes: list[dict[str, int]] = []
        self._tables: list[tuple[tuple[str, ...], CodeArray]] = []
        self._places: dict[str, int] = {}
        # The places of crossed keys.
        self._crossed: list[int] = []
        self._max_codes = FIRST + max_values
        self.declare(keys)

    def declare(self, keys: Sequence[str]) -> None:
        """Add the keys that are not declared yet; `keys` begins with the declared ones."""
        for key in keys[len(self.keys) :]:
            self._places[key] = len(self.keys)
            if parents_of(key) is not None:
                self._crossed.append(len(self.keys))
            self.keys.append(key)
            self.values.append(["", OTHER_VALUE])
            self._codes.append({"": NONE})
            self._tables.append(((), np.empty(0, dtype=np.uint16)))

    @property
    def num_values(self) -> int:
        """Number of values of all keys: as many slices as there may be. O(keys)."""
        return sum(map(len, self.values))

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(keys)."""
        return _VALUE_BYTES * self.num_values + self._text_bytes

    def restore(self, values: list[list[str]]) -> None:
        """Restore the values from a checkpoint."""
        self.values = values
        self._text_bytes = sum(len(value.encode()) for each in values for value in each)
        self._codes = [
            {value: code for code, value in enumerate(each) if code != _OTHER} for each in values
        ]

    def read(self, columns: Sequence[SegmentCodes], size: int) -> SegmentColumns | None:
        """Return the segment columns of a batch; None without declared keys. O(values)."""
        if not self.keys:
            return None
        found: dict[int, CodeColumn] = {}
        for column in columns:
            key = self._places.get(column.key, -1)
            if key >= 0:
                found[key] = self._table(key, column), column.codes
        for key in self._crossed:
            crossed = crossed_column(self.keys[key], columns)
            if crossed is not None:
                found[key] = self._table(key, crossed), crossed.codes
        return SegmentColumns(size, tuple(map(found.get, range(len(self.keys)))))

    def _table(self, key: int, column: SegmentCodes) -> CodeArray:
        """Return the stream's code of each value of a column; number new values."""
        values, table = self._tables[key]
        if values == column.values:
            return table
        known = self._codes[key]
        numbers = [known.get(value, -1) for value in column.values]
        if -1 in numbers:
            # A value without rows gets no code.
            used = np.bincount(column.codes, minlength=len(numbers)).tolist()
            for place, value in enumerate(column.values):
                if numbers[place] < 0:
                    numbers[place] = self._new(key, value) if used[place] else _OTHER
                    if numbers[place] == _OTHER:
                        self.overflowed += used[place]
        table = np.array(numbers, dtype=np.uint16)
        # Cached, because most batches list the values of the batch before; codes never change.
        # A column may repeat values: an overlong one is not cached.
        if _OTHER not in numbers and len(numbers) <= 2 * self._max_codes:
            self._tables[key] = column.values, table
        return table

    def _new(self, key: int, value: str) -> int:
        # A column may list a value twice.
        code = self._codes[key].get(value)
        if code is None:
            code = len(self.values[key])
            if code >= self._max_codes:
                return _OTHER
            self.values[key].append(value)
            self._text_bytes += len(value.encode())
            self._codes[key][value] = code
        return code

    def row_codes(self, segments: Sequence[tuple[str, str]]) -> list[int]:
        """Return one row's code for each key."""
        codes = [NONE] * len(self.keys)
        for name, value in with_crossed(dict(segments), self.keys).items():
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


def slices_by_key(codes: CodeArray) -> Iterator[tuple[IntArray, IntArray | None]]:
    """Yield the slice number of each row, for each key.

    Each with the rows that are in a slice of that key; None when all rows are.

    Parameters
    ----------
    codes : uint16[n, keys]
    """
    for key in range(codes.shape[1]):
        column = codes[:, key]
        numbers = column.astype(np.int64) | slice_id(key, 0)
        rows = None
        if (column == ABSENT).any():
            rows = np.flatnonzero(column != ABSENT)
            numbers = numbers[rows]
            if not rows.size:
                continue
        yield numbers, rows
