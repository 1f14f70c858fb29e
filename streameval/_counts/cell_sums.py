"""The sum of many states in a table of cells, cut to the cap on cells where it stands.

Each state adds its cells to the row of its class, from packed bytes without opening them, or
from open counts. The table is then halved, a bit at a time, until its cells fit the cap, and
only then becomes scores. The table also knows how the classes interleave, so the sum has the
ranks of its positives without a search.

Cost: O(S + W) for S cells in all and tables of W rows; some 5 ns a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, cast

import numpy as np

from streameval._counts.cell_layout import NumberLayout, Span, cell_edges, cell_keys
from streameval._counts.keys import blocks
from streameval._counts.multiset import ScoreCounts
from streameval._counts.resolution import MAX_BITS
from streameval._counts.run import Run
from streameval._counts.steps import batches, counts_of, numbers_of, span_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, IntArray
    from streameval._counts.resolution import Scale
    from streameval._counts.steps import StepRun
    from streameval._counts.stored_counts import StoredCounts
    from streameval._counts.unsorted_cases import UnsortedCases

_LABELS = (False, True)


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """How many cases of each class each cell has, in a table over the cells' numbers.

    Attributes
    ----------
    layout : NumberLayout
        The rows of the table.
    bits : int
        The resolution of the cells, at least 1.
    sums : int64[2, width]
        Of negatives, then of positives.

    Examples
    --------
    >>> counts = ScoreCounts(Run.of(np.array([0.5, 0.75])), Run.of(np.array([0.5, 2.0])))
    >>> sums = CellSums.of([counts, counts], 2, "plain")
    >>> sums.num_cells, sums.fitted(2).bits
    (3, 1)
    >>> sums.counts("plain").positives.scores, sums.counts("plain").positives.counts
    (array([0.5 , 0.75]), array([2, 2]))
    """

    layout: NumberLayout
    bits: int
    sums: IntArray

    @classmethod
    def of(
        cls,
        parts: Sequence[StoredCounts | ScoreCounts],
        bits: int,
        scale: Scale,
        cases: Sequence[UnsortedCases] = (),
    ) -> CellSums | None:
        """Return the sum of counts with cells of one resolution; None if it would be sparse.

        Parameters
        ----------
        parts : sequence of StoredCounts or ScoreCounts
            Each score at its cell's lower edge.
        bits : int
            The resolution, at least 1.
        scale : {"plain", "probability"}
        cases : sequence of UnsortedCases
            More cases, all of weight 1; there must be a score in these or in the parts.
        """
        packed = {
            label: [part.run(label) for part in parts if not isinstance(part, ScoreCounts)]
            for label in _LABELS
        }
        opened = {
            label: [
                _numbers(part.positives if label else part.negatives, bits, scale)
                for part in parts
                if isinstance(part, ScoreCounts)
            ]
            for label in _LABELS
        }
        filled = [run for runs in packed.values() for run in runs if run.size]
        spans = [span_of(filled)] if filled else []
        spans += [
            _span_of(numbers) for rows in opened.values() for numbers, _ in rows if numbers.size
        ]
        spans += [each.keys(scale)[1].shifted(MAX_BITS - bits) for each in cases]
        layout = NumberLayout(reduce(Span.union, spans))
        if layout.is_sparse(sum(map(_num_scores, parts)) + sum(map(len, cases))):
            return None
        sums = np.zeros((2, layout.width), dtype=np.int64)
        for label in _LABELS:
            row = sums[int(label)]
            _add_packed(row, packed[label], layout)
            for numbers, counts in opened[label]:
                # The cells of a run are distinct, so no place occurs twice.
                row[layout.places_of_numbers(numbers)] += counts
        for each in cases:
            _add_cases(sums.reshape(-1), each, layout, each.keys(scale)[0] >> (MAX_BITS - bits))
        return cls(layout, bits, sums)

    @property
    def num_cells(self) -> int:
        """How many cells have cases. O(width)."""
        return int(np.count_nonzero(self._is_used()))

    def _is_used(self) -> BoolArray:
        return cast("BoolArray", (self.sums[0] | self.sums[1]) != 0)

    def fitted(self, max_cells: int) -> CellSums | None:
        """Return the sums at the most bits at which their cells fit; None if not at one bit."""
        sums = self
        while sums.num_cells > max_cells:
            if sums.bits == 1:
                return None
            sums = sums.at(sums.bits - 1)
        return sums

    def at(self, bits: int) -> CellSums:
        """Return the sums at fewer bits, at least 1. O(width)."""
        sums = self
        while sums.bits > bits:
            sums = sums._halved()
        return sums

    def _halved(self) -> CellSums:
        """Return the sums at one bit less: of two cells whose numbers differ in the last bit."""
        layout = NumberLayout(self.layout.span.shifted(1))
        halved = np.zeros((2, layout.width), dtype=np.int64)
        fine, coarse = self.layout.num_below, layout.num_below
        sides = (
            (self.layout.span.below, self.sums[:, :fine], halved[:, :coarse]),
            (self.layout.span.above, self.sums[:, fine:], halved[:, coarse:]),
        )
        for ends, cells, pairs in sides:
            if ends:
                odd_first = ends[0] & 1
                even, odd = cells[:, odd_first::2], cells[:, 1 - odd_first :: 2]
                pairs[:, odd_first : odd_first + even.shape[1]] += even
                pairs[:, : odd.shape[1]] += odd
        return CellSums(layout, self.bits - 1, halved)

    def __add__(self, other: CellSums) -> CellSums | None:
        """Return the sum of both, of the same resolution; None if it would be sparse. O(width)."""
        layout = NumberLayout(self.layout.span.union(other.layout.span))
        # The cells are counted for tables only that are not cheap for any number of them.
        if layout.is_sparse(0) and layout.is_sparse(self.num_cells + other.num_cells):
            return None
        sums = np.zeros((2, layout.width), dtype=np.int64)
        for each in (self, other):
            for rows, own in layout.slices_of(each.layout):
                sums[:, rows] += each.sums[:, own]
        return CellSums(layout, self.bits, sums)

    def counts(self, scale: Scale) -> ScoreCounts:
        """Return the counts, with the ranks of their positives. O(width)."""
        negatives, positives = self.sums
        # flatnonzero is five times as fast on booleans as on integers.
        used = np.flatnonzero(positives != 0)
        counts = ScoreCounts(self._run(used, positives, scale), self._run(None, negatives, scale))
        if used.size:
            best_first = used[::-1]
            tied = negatives[best_first]
            above = counts.negatives.total - np.cumsum(negatives)[best_first]
            counts.keep_ranks((above, tied if tied.any() else None))
        return counts

    def _run(self, used: IntArray | None, sums: IntArray, scale: Scale) -> Run:
        places = np.flatnonzero(sums != 0) if used is None else used
        if not places.size:
            return Run.EMPTY
        edges = cell_edges(self.layout.numbers(places), self.bits, scale)
        return Run.of_distinct(edges, sums[places])


def sum_cells(
    parts: Sequence[tuple[StoredCounts | ScoreCounts, int]], bits: int, scale: Scale
) -> CellSums | None:
    """Return the sum of counts at a resolution; None if a table would be sparse. O(S + W).

    Parameters
    ----------
    parts : sequence of (StoredCounts or ScoreCounts, int)
        Counts, not all empty, and the resolution of their cells, at least `bits`.
    bits : int
        Significant bits of the result, at least 1.
    scale : {"plain", "probability"}
    """
    by_bits: dict[int, list[StoredCounts | ScoreCounts]] = {}
    for part, own_bits in parts:
        if _num_scores(part):
            by_bits.setdefault(own_bits, []).append(part)
    whole: CellSums | None = None
    for own_bits, same in by_bits.items():
        table = CellSums.of(same, own_bits, scale)
        if table is None:
            return None
        sums = table.at(bits)
        whole = sums if whole is None else whole + sums
        if whole is None:
            return None
    return whole


def _num_scores(part: StoredCounts | ScoreCounts) -> int:
    """Return how many distinct scores there are, by class. O(1)."""
    return len(part) if isinstance(part, ScoreCounts) else part.num_scores


def _add_packed(row: IntArray, runs: Sequence[StepRun], layout: NumberLayout) -> None:
    """Add the cells of packed runs to the row of their class. O(S + W)."""
    for batch in batches(runs):
        some = [runs[index] for index in batch]
        places, counts = numbers_of(some, layout), counts_of(some)
        if len(some) == 1:
            row[places] += 1 if counts is None else counts
        elif counts is None:
            row += np.bincount(places, minlength=row.size)
        else:
            np.add.at(row, places, counts)


def _add_cases(
    sums: IntArray, cases: UnsortedCases, layout: NumberLayout, numbers: IntArray
) -> None:
    """Add cases, given with the numbers of their cells, to the rows of both classes. O(n)."""
    for rows in blocks(len(cases)):
        places = layout.places_of_numbers(numbers[rows])
        places += np.multiply(cases.labels[rows], layout.width, dtype=np.int64)
        np.add.at(sums, places, np.int64(1) if cases.counts is None else cases.counts[rows])


def _numbers(run: Run, bits: int, scale: Scale) -> tuple[IntArray, IntArray | int]:
    """Return the numbers of a run's cells, ascending, and their multiplicities. O(n)."""
    numbers = cell_keys(run.scores, scale) >> np.int64(MAX_BITS - bits)
    return numbers, 1 if run.counts is None else run.counts


def _span_of(numbers: IntArray) -> Span:
    """Return the span of ascending numbers, at least one. O(log n)."""
    split = int(np.searchsorted(numbers, 0))
    below, above = numbers[:split], numbers[split:]
    return Span(
        (int(below[0]), int(below[-1])) if below.size else None,
        (int(above[0]), int(above[-1])) if above.size else None,
    )
