"""The counts of an open pane's slices, as a dense table of slices by cells: no merge.

Cells are numbered in order of arrival, so a row is one addition for each key, and the counts
are sorted once, when they are read or the pane is closed. A table suits few slices and many
rows; it refuses rows that would make it too large.

Cost: 20 ns a row, and 5 ns for each key. Memory: at most `_MAX_BYTES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval.kernel import Run, ScoreCounts, State, UnsortedCases, cell_edges
from streameval_server._state.segments import slice_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from streameval.kernel import Scale
    from streameval_server._model.arrays import CodeArray, FloatArray, IntArray

    Numbers = npt.NDArray[np.int32]

_MAX_BYTES = 16 << 20
"""Memory of a table: fifty slices of 64,000 cells, less than half of their size once merged."""
_MAX_SLOTS = 1 << 20
"""Slots of numbers of a table, which take 4 MiB."""
_ENTRY_BYTES = 4

MIN_TABLE_ROWS = 16_384
"""Fewer rows at a time are sorted instead."""

_MAX_ROWS = 1 << 30
"""Maximum number of rows in a table: each count fits int32."""

_RADIX_BITS = 16
"""numpy sorts numbers of this many bits by radix sort."""

_PAGE_BITS = 14
"""Leading bits of a key: a page of cells is a quarter of the scores between two powers of 2."""
_KEY_BITS = 64


class _Slots(NamedTuple):
    """The numbers of cells: pages of slots, a page for each quarter octave and class that has rows.

    So a range of scores takes no room that has none, such as that between 0 and the next one.

    Attributes
    ----------
    starts : int32[2 << _PAGE_BITS]
        The first slot of each page of negatives, then of positives; -1 for one without slots.
    numbers : int32[slots]
        The number of the cell of each slot; -1 for one without rows.
    """

    starts: Numbers
    numbers: Numbers

    @classmethod
    def empty(cls) -> _Slots:
        """Return no slots."""
        return cls(np.full(2 << _PAGE_BITS, -1, dtype=np.int32), np.empty(0, dtype=np.int32))

    def with_pages(self, pages: IntArray, page_size: int) -> _Slots:
        """Return slots that have these pages too. O(pages + slots)."""
        starts = self.starts.copy()
        fresh = pages[starts[pages] < 0]
        ends = np.arange(fresh.size, dtype=np.int32) * np.int32(page_size)
        starts[fresh] = ends + np.int32(self.numbers.size)
        added = np.full(fresh.size * page_size, -1, dtype=np.int32)
        return _Slots(starts, np.concatenate((self.numbers, added)))


class SliceTable:
    """Counts of all slices, by cell.

    Parameters
    ----------
    bits, scale
        The cells' resolution and scale.
    """

    def __init__(self, bits: int, scale: Scale) -> None:
        self._bits, self._scale = bits, scale
        # Bits of a cell's number that are its place in its page.
        self._low_bits = bits - (State.MAX_BITS - (_KEY_BITS - _PAGE_BITS))
        self._slots = _Slots.empty()
        self._size = 0
        self._rows = 0
        self._keys: list[npt.NDArray[np.int32]] = []

    @property
    def nbytes(self) -> int:
        """Memory of the counts, and of the cells' numbers."""
        slots = self._slots.starts.nbytes + self._slots.numbers.nbytes
        return slots + sum(table.nbytes for table in self._keys)

    def add(self, cases: UnsortedCases, codes: CodeArray) -> bool:
        """Add rows; or return False and change nothing where a table does not suit. O(rows).

        Parameters
        ----------
        cases : UnsortedCases
            Without weights.
        codes : uint16[keys, n]
        """
        size = len(cases)
        is_countable = cases.counts is None and self._low_bits >= 0
        if not is_countable or size < MIN_TABLE_ROWS or self._rows + size > _MAX_ROWS:
            return False
        slots, places = self._places(cases)
        columns = slots.numbers.take(places)
        fresh = _distinct(places[columns < 0], slots.numbers.size)
        width = self._size + fresh.size
        heights = (codes.max(axis=1).astype(np.int64) + 1).tolist()
        shapes = [self._shape(key, height, width) for key, height in enumerate(heights)]
        num_slots = slots.numbers.size
        entries = slots.starts.size + num_slots + sum(high * wide for high, wide in shapes)
        if num_slots > _MAX_SLOTS or entries * _ENTRY_BYTES > _MAX_BYTES:
            return False
        if fresh.size:
            slots.numbers[fresh] = np.arange(self._size, width, dtype=np.int32)
            columns = slots.numbers.take(places)
        self._slots, self._size = slots, width
        self._count(columns, codes, shapes)
        self._rows += size
        return True

    def _places(self, cases: UnsortedCases) -> tuple[_Slots, IntArray]:
        """Return slots that have one for each row's cell, and which it is. O(rows)."""
        keys, _ = cases.keys(self._scale)
        pages = keys >> np.int64(_KEY_BITS - _PAGE_BITS)
        # Negative keys come last, as unsigned numbers do.
        pages &= np.int64((1 << _PAGE_BITS) - 1)
        pages += np.multiply(cases.labels, 1 << _PAGE_BITS, dtype=np.int64)
        slots = self._slots
        starts = slots.starts.take(pages)
        if starts.min() < 0:
            slots = slots.with_pages(_distinct(pages, slots.starts.size), 1 << self._low_bits)
            starts = slots.starts.take(pages)
        places = keys >> np.int64(State.MAX_BITS - self._bits)
        places &= np.int64((1 << self._low_bits) - 1)
        places += starts
        return slots, places

    def _count(self, columns: Numbers, codes: CodeArray, shapes: list[tuple[int, int]]) -> None:
        """Count rows by the numbers of their cells, in tables of these shapes."""
        # In the order of the columns, or nearly so: additions in any order miss the cache.
        shift = max(self._size.bit_length() - _RADIX_BITS, 0)
        order = np.argsort((columns >> np.int32(shift)).astype(np.uint16), kind="stable")
        columns, codes = columns.take(order), codes.take(order, axis=1)
        for key, (own, shape) in enumerate(zip(codes, shapes, strict=True)):
            table = self._table(key, shape)
            # Before numpy 2 a product with a scalar would keep the type of the codes, uint16.
            entries = own.astype(np.int64)
            entries *= table.shape[1]
            entries += columns
            np.add.at(table.reshape(-1), entries, np.int32(1))

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
        cells = [self._cells(starts) for starts in self._slots.starts.reshape(2, -1)]
        for key, table in enumerate(self._keys):
            for code in np.flatnonzero(table.any(axis=1)).tolist():
                negatives, positives = (_run(*each, table[code]) for each in cells)
                yield slice_id(key, code), ScoreCounts(positives, negatives)

    def _cells(self, starts: Numbers) -> tuple[FloatArray, Numbers]:
        """Return the edges of a class's cells, ascending, and their numbers."""
        pages = np.flatnonzero(starts >= 0)
        # Those of negative keys come first.
        signed = np.sort(np.where(pages >> (_PAGE_BITS - 1), pages - (1 << _PAGE_BITS), pages))
        low = np.arange(1 << self._low_bits)
        places = starts[signed].astype(np.int64)[:, None] + low
        cells = (signed[:, None] << self._low_bits) + low
        numbers = self._slots.numbers[places.ravel()]
        used = np.flatnonzero(numbers >= 0)
        return cell_edges(cells.ravel()[used], self._bits, self._scale), numbers[used]


def _distinct(places: IntArray, num_places: int) -> IntArray:
    """Return the distinct ones of some places, ascending. O(places)."""
    if not places.size:
        return places
    is_used = np.zeros(num_places, dtype=np.bool_)
    is_used[places] = True
    return np.flatnonzero(is_used)


def _run(edges: FloatArray, numbers: Numbers, counts: Numbers) -> Run:
    """Return a slice's counts, given by cell number, as a run. O(cells)."""
    here = counts[numbers]
    used = np.flatnonzero(here)
    if not used.size:
        return Run.EMPTY
    return Run.of_distinct(edges[used], here[used].astype(np.int64))
