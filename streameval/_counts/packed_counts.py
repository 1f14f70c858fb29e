"""Sorted counts of cells as bytes: a tenth to a third of their memory while nothing reads them.

The cells of one resolution are numbered in order (`cell_layout`), so a class is its first
number, the steps from each number to the next, and the multiplicities, each column in the
least width that holds it. The greatest step, which is that across the numbers around zero if
scores have both signs, is kept apart. A thousand scattered cells take some 2 to 3 B each
instead of 8 or 16 B and the arrays' heads. Packing is exact: counts that would not open to the
same scores and multiplicities are not packed.

Cost: O(n), some 5 ns a cell to pack and 2 ns to open.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streameval._counts.cell_layout import cell_edges, cell_keys
from streameval._counts.multiset import ScoreCounts
from streameval._counts.resolution import MAX_BITS
from streameval._counts.run import EMPTY_RUN, Run

if TYPE_CHECKING:
    from streameval._common.arrays import IntArray
    from streameval._counts.resolution import Scale

_HEADER = struct.Struct("<qqqIIBB")
"""The first number, the greatest step, the total; the number of cells and the place of the
greatest step; the widths of both columns in bytes, 0 of counts that are all 1."""

_WIDTHS = (1, 2, 4)
_UNSIGNED: dict[int, npt.DTypeLike] = {1: "u1", 2: "<u2", 4: "<u4", 8: "<i8"}
"""Columns by width. Steps and counts stay below 2^63, so the widest may be signed."""

_OBJECT_BYTES = 192
"""Memory of packed counts besides their bytes: the object, and the heads of two byte strings."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedRun:
    """One class's cells, read without building a `Run`.

    Attributes
    ----------
    numbers : int64[n]
        Of the cells, strictly ascending.
    counts : unsigned integers[n] or None
        How many cases each cell has; None if all have one.
    """

    numbers: IntArray
    counts: IntArray | None


@dataclass(frozen=True, slots=True, eq=False)
class PackedCounts:
    """All scored cases at one resolution, as bytes. Immutable.

    Attributes
    ----------
    bits, scale
        The resolution and scale of the cells.

    Examples
    --------
    >>> counts = ScoreCounts(Run.of(np.array([0.5, 0.75, 0.75])), Run.of(np.array([0.25])))
    >>> packed = PackedCounts.of(counts, 2, "plain")
    >>> len(packed), packed.open().positives.counts
    (3, array([1, 2]))
    """

    bits: int
    scale: Scale
    _positives: bytes
    _negatives: bytes

    @classmethod
    def of(cls, counts: ScoreCounts, bits: int, scale: Scale) -> PackedCounts | None:
        """Return the counts as bytes; None if they would not open to the same. O(n).

        Parameters
        ----------
        counts : ScoreCounts
            Each score at its cell's lower edge.
        bits : int
            At least 1: cells below one bit have no numbers.
        scale : {"plain", "probability"}
        """
        packed = cls(bits, scale, *(_packed(run, bits, scale) for run in _runs(counts)))
        same = zip(_runs(packed.open()), _runs(counts), strict=True)
        return packed if all(_is_same(opened, run) for opened, run in same) else None

    def __len__(self) -> int:
        """Return how many distinct scores there are, by class. O(1)."""
        return sum(_HEADER.unpack_from(data)[3] for data in (self._positives, self._negatives))

    def total(self, label: bool) -> int:
        """Return how many cases of a class there are. O(1)."""
        total: int = _HEADER.unpack_from(self._positives if label else self._negatives)[2]
        return total

    @property
    def memory_bytes(self) -> int:
        """Memory. O(1)."""
        return _OBJECT_BYTES + len(self._positives) + len(self._negatives)

    def run(self, label: bool) -> PackedRun:
        """Return one class's cells. O(n)."""
        data = self._positives if label else self._negatives
        first, jump, _, size, jump_at, step_width, count_width = _HEADER.unpack_from(data)
        numbers = np.empty(size, dtype=np.int64)
        if not size:
            return PackedRun(numbers, None)
        steps = np.frombuffer(data, _UNSIGNED[step_width], size - 1, _HEADER.size)
        numbers[0] = 0
        np.cumsum(steps, dtype=np.int64, out=numbers[1:])
        numbers += first
        numbers[jump_at + 1 :] += jump
        counts = None
        if count_width:
            at = _HEADER.size + step_width * (size - 1)
            counts = np.frombuffer(data, _UNSIGNED[count_width], size, at)
        return PackedRun(numbers, counts)

    def open(self) -> ScoreCounts:
        """Return the counts. O(n)."""
        return ScoreCounts(self._opened(True), self._opened(False))

    def _opened(self, label: bool) -> Run:
        cells = self.run(label)
        if not cells.numbers.size:
            return EMPTY_RUN
        counts = None if cells.counts is None else cells.counts.astype(np.int64)
        return Run.of_totalled(
            cell_edges(cells.numbers, self.bits, self.scale), counts, self.total(label)
        )


def _runs(counts: ScoreCounts) -> tuple[Run, Run]:
    return counts.positives, counts.negatives


def _is_same(one: Run, other: Run) -> bool:
    if one.total != other.total or (one.counts is None) != (other.counts is None):
        return False
    return np.array_equal(one.scores, other.scores) and (
        one.counts is None or other.counts is None or np.array_equal(one.counts, other.counts)
    )


def _packed(run: Run, bits: int, scale: Scale) -> bytes:
    """Return the bytes of one class."""
    if not run.scores.size:
        return _HEADER.pack(0, 0, 0, 0, 0, 1, 0)
    numbers = cell_keys(run.scores, scale) >> np.int64(MAX_BITS - bits)
    moves = np.diff(numbers)
    jump_at = int(moves.argmax()) if moves.size else 0
    jump = int(moves[jump_at]) if moves.size else 0
    moves[jump_at : jump_at + 1] = 0
    steps, step_width = _narrowed(moves)
    counts, count_width = b"", 0
    if run.counts is not None:
        counts, count_width = _narrowed(run.counts)
    header = _HEADER.pack(
        *(int(numbers[0]), jump, run.total, numbers.size, jump_at), step_width, count_width
    )
    return header + steps + counts


def _narrowed(column: IntArray) -> tuple[bytes, int]:
    """Return a column in the least width that holds it, and the width."""
    greatest = int(column.max(initial=0))
    width = next((each for each in _WIDTHS if greatest < 1 << 8 * each), 8)
    return column.astype(np.dtype(_UNSIGNED[width])).tobytes(), width
