"""Weighted cases that an accumulator has taken and not merged yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.weights import WeightedCounts, WeightedRun, merge_weighted_runs

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray


class PendingWeights:
    """Weighted cases in the order in which they came.

    Attributes
    ----------
    units : int
        The sum of their weights, in units of 2**-16.
    cases : int
        How many there are.
    """

    __slots__ = ("_columns", "_rows", "cases", "units")

    def __init__(self) -> None:
        self.units = 0
        self.cases = 0
        self._columns: list[WeightedCounts] = []
        self._rows: list[tuple[bool, float, int]] = []

    def __bool__(self) -> bool:
        return self.cases > 0

    def add_case(self, label: bool, score: float, units: int) -> None:
        """Add one case. O(1)."""
        self._rows.append((label, score, units))
        self.units, self.cases = self.units + units, self.cases + 1

    def add_columns(self, change: WeightedCounts, *, cases: int, units: int) -> None:
        """Add the sums of columns. O(1)."""
        self._columns.append(change)
        self.units, self.cases = self.units + units, self.cases + cases

    def merged(self) -> WeightedCounts:
        """Return the sums of all. O(n log n)."""
        columns = list(self._columns)
        if self._rows:
            labels, scores, units = (np.array(each) for each in zip(*self._rows, strict=True))
            columns.append(weighted_counts(labels, scores.astype(np.float64), units))
        return WeightedCounts(
            merge_weighted_runs([each.positives for each in columns]),
            merge_weighted_runs([each.negatives for each in columns]),
        )


def weighted_counts(
    labels: BoolArray, scores: FloatArray, units: IntArray, counts: IntArray | None = None
) -> WeightedCounts:
    """Return the sums of checked columns. O(n log n)."""

    def run(rows: IntArray) -> WeightedRun:
        return WeightedRun.of(scores[rows], units[rows], None if counts is None else counts[rows])

    return WeightedCounts(run(np.flatnonzero(labels)), run(np.flatnonzero(~labels)))
