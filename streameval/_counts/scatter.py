"""Counting cells without sorting: a scatter into a table over the cells' numbers.

Cells of one resolution are numbered in order (the leading bits of a double's key
are such numbers), and scores that are measured with one model fill a narrow range
of them. So the sum of sixty runs, or of scores as they came, needs no sort: all add
their counts to a table.

Cost: O(S + W) for S scores in all and W numbers between the least and the
greatest; 5 ns a score. Where W is out of proportion to S, sorting is left to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.keys import HALF_KEY, from_key, to_key
from streameval._counts.resolution import MAX_BITS, quantise
from streameval._counts.run import Run, merge_runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    import numpy.typing as npt

    from streameval._counts.groups import FloatArray, IntArray
    from streameval._counts.resolution import Scale

    class Part(Protocol):
        """One class's cases: a `Run`, or scores as they came."""

        @property
        def scores(self) -> FloatArray: ...
        @property
        def counts(self) -> IntArray | None: ...


_FEW = 3
"""Fewer runs than this are merged one into the other."""

_WIDE = 1 << 17
"""A table up to this long is cheap whatever goes into it."""

_SPARSE = 4
"""Longer tables may have this many entries for each score."""


def merge_cells(runs: Sequence[Run], bits: int, scale: Scale) -> Run:
    """Return the sum of many runs of lower edges at one resolution.

    Parameters
    ----------
    runs : sequence of Run
        Counts may be signed as long as no sum is negative.
    bits : int
        Significant bits that all of them keep.
    scale : {"plain", "probability"}
        What the bits are counted of.

    Examples
    --------
    >>> panes = [Run.of(np.array([0.5, 0.75])), Run.of(np.array([0.5])), Run.of(np.array([-1.0]))]
    >>> merged = merge_cells(panes, 2, "plain")
    >>> merged.scores, merged.counts
    (array([-1.  ,  0.5 ,  0.75]), array([1, 2, 1]))
    """
    runs = [run for run in runs if len(run)]
    if len(runs) < _FEW:
        return merge_runs(runs)
    cells = count_cells(*joined(runs), bits, scale)
    return merge_runs(runs) if cells is None else cells


def joined(parts: Sequence[Part]) -> tuple[FloatArray, IntArray | None]:
    """Return the scores of all parts, and the counts of those that have some, which come last."""
    ones = [part.scores for part in parts if part.counts is None]
    more = [part for part in parts if part.counts is not None]
    scores = np.concatenate([*ones, *(part.scores for part in more)])
    return scores, np.concatenate([part.counts for part in more]) if more else None


def count_cells(scores: FloatArray, counts: IntArray | None, bits: int, scale: Scale) -> Run | None:
    """Return how many cases each cell has; None where a table would be sparse.

    Parameters
    ----------
    scores : float64[n]
        In any order, repeated or not, at least one; on the probability scale
        between 0 and 1.
    counts : int64[m] or None
        Multiplicities of the last m scores, as in `merge_cells`; all others stand
        for one case.
    bits, scale
        Of the cells.

    Examples
    --------
    >>> cells = count_cells(np.array([0.75, 0.5, 0.8]), np.array([7]), 2, "plain")
    >>> cells.scores, cells.counts
    (array([0.5 , 0.75]), array([1, 8]))
    """
    table = _Table.of(scores, bits, scale)
    if table is None:
        return None
    ones = scores.size if counts is None else scores.size - counts.size
    sums = np.bincount(table.places[:ones], minlength=table.width)
    if counts is not None:
        np.add.at(sums, table.places[ones:], counts)
    # Of bytes it is five times as quick as of integers.
    used = np.flatnonzero(sums != 0)
    return Run.of_distinct(table.edges(used), sums[used])


def rank_cells(
    scores: FloatArray, bits: int, scale: Scale
) -> tuple[FloatArray, npt.NDArray[np.int32]]:
    """Return the cells that scores are in, ascending, and which of them each score is in.

    O(n), and O(n log n) where a table would be sparse.

    Returns
    -------
    edges : float64[m]
        Lower edges, distinct.
    ranks : int32[n]
        Index into edges for each score.

    Examples
    --------
    >>> rank_cells(np.array([0.75, 0.5, 0.8]), 2, "plain")
    (array([0.5 , 0.75]), array([1, 0, 1], dtype=int32))
    """
    table = _Table.of(scores, bits, scale) if scores.size else None
    if table is None:
        edges, ranks = np.unique(quantise(scores, bits, scale), return_inverse=True)
        return edges, ranks.astype(np.int32)
    is_used = np.zeros(table.width, dtype=np.bool_)
    is_used[table.places] = True
    numbered = np.cumsum(is_used, dtype=np.int32)
    numbered -= np.int32(1)
    return table.edges(np.flatnonzero(is_used)), numbered[table.places]


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Where scores are in a table over the cells' numbers.

    Scores of both signs leave the cells of all magnitudes below theirs unused: the
    table leaves that gap out.

    Attributes
    ----------
    places : int64[n]
        Of each score; places ascend with scores.
    width : int
        Places that there are.
    first : int
        The number of the cell at place 0.
    gap_at, gap : int
        The place that follows the gap, and how many numbers it leaves out.
    bits, scale
        Of the cells.
    """

    places: IntArray
    width: int
    first: int
    gap_at: int
    gap: int
    bits: int
    scale: Scale

    @classmethod
    def of(cls, scores: FloatArray, bits: int, scale: Scale) -> _Table | None:
        """Lay out the table of some scores; None where it would be sparse. O(n)."""
        # Below one bit the exponent's bits are dropped too, and few cells are left to sort.
        if bits < 1:
            return None
        places = _numbers(scores, MAX_BITS - bits, scale)
        first, last = int(places.min()), int(places.max())
        gap_at = gap = 0
        if first < 0 <= last:
            # As unsigned numbers those below zero come last, in their order.
            unsigned = places.view(np.uint64)
            lower, upper = int(unsigned.max()) - (1 << 64), int(unsigned.min())
            gap_at, gap = lower + 1 - first, upper - lower - 1
        width = last - first + 1 - gap
        # At full precision the gap alone may be more than an int64 holds.
        if width > max(_WIDE, _SPARSE * scores.size) or gap >= 1 << 63:
            return None
        if gap:
            # What is below the gap moves up to what is above it.
            below = places >> np.int64(63)
            below &= np.int64(gap)
            places += below
        places -= np.int64(first + gap)
        return cls(places, width, first, gap_at, gap, bits, scale)

    def edges(self, places: IntArray) -> FloatArray:
        """Return the lower edges of the cells at ascending places. O(n)."""
        numbers = places + np.int64(self.first)
        numbers[np.searchsorted(places, self.gap_at) :] += self.gap
        return _edges(numbers, MAX_BITS - self.bits, self.scale)


def _numbers(scores: FloatArray, dropped: int, scale: Scale) -> IntArray:
    """Return the number of the cell that holds each score; numbers ascend with scores.

    On the probability scale those from 1/2 on are numbered by the distance from 1,
    and the halves meet.
    """
    shift = np.int64(dropped)
    if scale == "plain":
        return to_key(scores) >> shift
    is_lower = scores < 0.5
    keys = to_key(np.where(is_lower, scores, 1.0 - scores))
    # Negative where the distance counts: its number is a ceiling.
    numbers = np.where(is_lower, keys, -keys)
    numbers >>= shift
    numbers += np.where(is_lower, 0, 2 * (HALF_KEY >> shift))
    return numbers


def _edges(numbers: IntArray, dropped: int, scale: Scale) -> FloatArray:
    """Return the lower edges of cells."""
    shift = np.int64(dropped)
    if scale == "plain":
        return from_key(numbers << shift)
    half = HALF_KEY >> shift
    lower = from_key(np.minimum(numbers, half) << shift)
    upper = 1.0 - from_key((2 * half - np.maximum(numbers, half)) << shift)
    return np.where(numbers < half, lower, upper)
