"""The counts of an open pane's slices, as a dense table of slices by cells: no sort, no merge.

Cells are numbered in order of arrival, so a row is one addition for each key, and the counts
are sorted once, when they are read or the pane is closed. A table suits few slices and many
rows; it refuses rows that would make it too large.

Cost: 5 ns for a row and key. Memory: at most `_MAX_BYTES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts import EMPTY_RUN, Run, ScoreCounts, locate
from streameval_server._state.segments import slice_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from streameval._common import BoolArray, FloatArray, IntArray
    from streameval_server._state.slice_sort import RowsByCell

_MAX_BYTES = 16 << 20
"""Memory of a table: fifty slices of 64,000 cells, less than half of their size once merged."""
_ENTRY_BYTES = 4

MIN_TABLE_ROWS = 16_384
"""Fewer rows at a time are sorted instead."""

_MAX_ROWS = 1 << 30
"""Maximum number of rows in a table: each count fits int32."""


class _CellNumbers:
    """The numbers of one class's cells, in order of arrival."""

    def __init__(self) -> None:
        self._edges: FloatArray = np.empty(0)
        self._numbers: IntArray = np.empty(0, dtype=np.int64)

    def find(self, edges: FloatArray) -> tuple[IntArray, BoolArray]:
        """Return the position of each of some ascending edges, and whether it has a number."""
        return locate(self._edges, edges)

    def number(self, edges: FloatArray, at: IntArray, known: BoolArray, first: int) -> IntArray:
        """Return the number of each edge located by `find`; new ones count up from `first`."""
        new = ~known
        fresh = np.arange(first, first + np.count_nonzero(new))
        numbers = np.empty(edges.size, dtype=np.int64)
        numbers[known] = self._numbers[at[known]]
        numbers[new] = fresh
        self._edges = np.insert(self._edges, at[new], edges[new])
        self._numbers = np.insert(self._numbers, at[new], fresh)
        return numbers

    def run(self, counts: npt.NDArray[np.int32]) -> Run:
        """Return a slice's counts, given by cell number, as a run. O(cells)."""
        here = counts[self._numbers]
        used = np.flatnonzero(here)
        if not used.size:
            return EMPTY_RUN
        return Run.of_distinct(self._edges[used], here[used].astype(np.int64))


class SliceTable:
    """Counts of all slices, by cell."""

    def __init__(self) -> None:
        self._classes = (_CellNumbers(), _CellNumbers())
        self._size = 0
        self._rows = 0
        self._keys: list[npt.NDArray[np.int32]] = []

    @property
    def nbytes(self) -> int:
        """Memory of the counts."""
        return sum(table.nbytes for table in self._keys)

    def add(self, rows: RowsByCell) -> bool:
        """Add rows; or return False and change nothing where a table does not suit. O(rows)."""
        size = rows.cells.size
        if rows.counts is not None or size < MIN_TABLE_ROWS or self._rows + size > _MAX_ROWS:
            return False
        halves = rows.edges[: rows.num_negative_cells], rows.edges[rows.num_negative_cells :]
        places = [cells.find(half) for cells, half in zip(self._classes, halves, strict=True)]
        width = self._size + sum(int(np.count_nonzero(~known)) for _, known in places)
        heights = (rows.codes.max(axis=1).astype(np.int64) + 1).tolist()
        shapes = [self._shape(key, height, width) for key, height in enumerate(heights)]
        if sum(height * width for height, width in shapes) * _ENTRY_BYTES > _MAX_BYTES:
            return False
        numbers = []
        for cells, half, (at, known) in zip(self._classes, halves, places, strict=True):
            numbers.append(cells.number(half, at, known, self._size))
            self._size += int(np.count_nonzero(numbers[-1] >= self._size))
        columns = np.concatenate(numbers)[rows.cells]
        for key, (codes, shape) in enumerate(zip(rows.codes, shapes, strict=True)):
            table = self._table(key, shape)
            # Before numpy 2 a product with a scalar would keep the type of the codes, uint16.
            entries = codes.astype(np.int64)
            entries *= table.shape[1]
            entries += columns
            np.add.at(table.reshape(-1), entries, np.int32(1))
        self._rows += size
        return True

    def _shape(self, key: int, height: int, width: int) -> tuple[int, int]:
        """Return the shape that a key's table needs to have this height and width."""
        high, wide = self._keys[key].shape if key < len(self._keys) else (0, 0)
        if high < height or wide < width:
            # Wider than needed, for the cells that will be added.
            high, wide = max(high, height), max(wide, width * 5 // 4)
        return high, wide

    def _table(self, key: int, shape: tuple[int, int]) -> npt.NDArray[np.int32]:
        """Return a key's table, after growing it to this shape."""
        if key == len(self._keys):
            self._keys.append(np.zeros((0, 0), dtype=np.int32))
        table = self._keys[key]
        if table.shape != shape:
            grown = np.zeros(shape, dtype=np.int32)
            grown[: table.shape[0], : table.shape[1]] = table
            self._keys[key] = table = grown
        return table

    def slices(self) -> Iterator[tuple[int, ScoreCounts]]:
        """Yield the number and the counts of each slice. O(size of the table)."""
        for key, table in enumerate(self._keys):
            for code in np.flatnonzero(table.any(axis=1)).tolist():
                negatives, positives = (cells.run(table[code]) for cells in self._classes)
                yield slice_id(key, code), ScoreCounts(positives, negatives)
