"""Where the scores of a pair are cut into cells: at the pair's own quantiles.

Bits of a score are a bad measure of a cell: of `1000 + x` the leading seven are the same
for every case. So the axis of each model is cut where its cases are. A cell has an equal
share of the mean of three distributions: the positives, the negatives, and the logarithm
of the negatives' rank. An area depends on the precision, which the best negatives decide
at every prevalence; the third distribution separates those. A declared threshold is a cut
of its own, so that cells tell what it flags.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray
from streameval._common.errors import InvalidInputError
from streameval._counts.run import Run
from streameval._uncertainty.pair_cells import PairCells, summed


@dataclass(frozen=True, slots=True, eq=False)
class AxisCuts:
    """The cells of one model's scores.

    Attributes
    ----------
    edges : float64[K - 1]
        The least score of each cell but the lowest, strictly ascending.
    middles : float64[K]
        The score that stands for each cell, and is in it.
    """

    edges: FloatArray
    middles: FloatArray

    def cell_of(self, scores: FloatArray) -> IntArray:
        """Return the number of each score's cell, the lowest first. O(n log K)."""
        return np.searchsorted(self.edges, scores, side="right")

    def cut(self, scores: FloatArray) -> FloatArray:
        """Return the middle of each score's cell; middles are their own. O(n log K)."""
        return self.middles[self.cell_of(scores)]

    def separates(self, threshold: float) -> bool:
        """Whether no cell has scores on both sides of a threshold. O(log K)."""
        at = int(np.searchsorted(self.edges, threshold))
        return at < len(self.edges) and bool(self.edges[at] == threshold)

    def same(self, other: AxisCuts) -> bool:
        """Whether the cells and their middles are the same. O(K)."""
        return np.array_equal(self.edges, other.edges) and np.array_equal(
            self.middles, other.middles
        )


@dataclass(frozen=True, slots=True)
class PairCuts:
    """The cells of both models' scores."""

    a: AxisCuts
    b: AxisCuts

    def cut(self, cells: PairCells) -> PairCells:
        """Return the entries with the middles of their cells, not summed. O(n log K)."""
        return replace(cells, a=self.a.cut(cells.a), b=self.b.cut(cells.b))

    def summed(self, parts: Sequence[PairCells], *, is_signed: bool = False) -> PairCells:
        """Return the sum of signed counts, in cells. O(n log K + K^2), O(n log n) of weights.

        As `pair_cells.summed` of the cut parts; without weights they are counted by cell
        instead of sorted.

        Raises
        ------
        InvalidInputError
            When it removes a case that was not added, unless `is_signed` keeps the entry.
        """
        if any(part.has_weights for part in parts):
            return summed([self.cut(part) for part in parts], is_signed=is_signed)
        columns = self.b.middles.size
        table = np.zeros(self.a.middles.size * columns)
        for part in parts:
            cells = self.a.cell_of(part.a) * columns + self.b.cell_of(part.b)
            # Counts are far below 2^53, so these sums are exact.
            table += np.bincount(cells, weights=part.counts, minlength=table.size)
        if not is_signed and (table < 0).any():
            raise InvalidInputError("cannot remove a pair that was not added", field="scores_a")
        filled = np.flatnonzero(table)
        rows, places = np.divmod(filled, columns)
        return PairCells(
            self.a.middles[rows], self.b.middles[places], table[filled].astype(np.int64)
        )

    def same(self, other: PairCuts) -> bool:
        """Whether the cells of both models are the same. O(K)."""
        return self.a.same(other.a) and self.b.same(other.b)


Thresholds: TypeAlias = "tuple[float | None, float | None]"
"""The thresholds of a and of b; None where none is declared."""

NO_THRESHOLDS: Thresholds = (None, None)


def cuts_of(
    negatives: Sequence[PairCells],
    positives: Sequence[PairCells],
    cells: int,
    thresholds: Thresholds = NO_THRESHOLDS,
) -> PairCuts:
    """Return cuts of each model into at most `cells` cells; there are cases. O(n log n)."""
    a, b = (
        _axis_cuts(_counts_by_score(negatives, name), _counts_by_score(positives, name), cells, cut)
        for name, cut in zip("ab", thresholds)
    )
    return PairCuts(a, b)


_Counts: TypeAlias = "tuple[FloatArray, IntArray]"
"""Distinct scores, ascending, and how many cases have each."""


def _axis_cuts(
    negatives: _Counts, positives: _Counts, cells: int, threshold: float | None
) -> AxisCuts:
    distinct = np.union1d(negatives[0], positives[0])
    n, p = np.zeros((2, len(distinct)))
    for table, (scores, counts) in ((n, negatives), (p, positives)):
        table[np.searchsorted(distinct, scores)] = counts
    # Halfway through the cases of each score, from the best one down.
    above_p, above_n = (each[::-1].cumsum()[::-1] - each / 2 for each in (p, n))
    position = (
        above_p / max(p.sum(), 1.0)
        + above_n / max(n.sum(), 1.0)
        + np.log1p(above_n) / np.log1p(max(n.sum(), 1.0))
    ) / 3
    least = 0 if threshold is None else int(np.searchsorted(distinct, threshold))
    is_between = 0 < least < len(distinct)
    cells = max(1, cells - is_between)
    # After an earlier cut a count may be negative, so that positions are not in order.
    cell = np.clip((position * cells).astype(np.int64), 0, cells - 1)
    cell = np.minimum.accumulate(cell)
    starts = np.flatnonzero(np.diff(cell, prepend=cells))
    if is_between:
        starts = np.union1d(starts, least)
    ends = np.append(starts[1:], len(distinct))
    edges = distinct[starts[1:]]
    if is_between:
        edges[np.searchsorted(starts[1:], least)] = threshold
    return AxisCuts(edges, distinct[(starts + ends) // 2])


def _counts_by_score(parts: Sequence[PairCells], name: str) -> _Counts:
    """Return the counts of one model's scores, whatever repeats. O(n log n)."""
    scores = np.concatenate([getattr(part, name) for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    if (counts == 1).all():
        run = Run.of(scores)
        return run.scores, run.multiplicities()
    distinct, codes = np.unique(scores, return_inverse=True)
    # Sums below 2^53 are exact. One of 0 has its place: a cell may begin there.
    return distinct, np.bincount(codes, weights=counts).astype(np.int64)
