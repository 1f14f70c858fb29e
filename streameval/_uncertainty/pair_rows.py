"""Cases that are added to the counts of a pair, or removed, as columns.

Rows are counted several times, in all time and in a pane, and sorted once: the rows are in
order of a's scores, and `by_b` lists them in order of b's. A selection by ascending index
keeps both orders. The order changes what counting costs, and no count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray

    GroupCodes = npt.NDArray[np.uint16]

_MIN_ORDERED_SHARE = 16
"""A selection of at least 1/16 of the rows takes its order by b from the sorted whole; a smaller
one is sorted."""


class PairRows(NamedTuple):
    """Cases that are added or removed.

    Attributes
    ----------
    positive : bool[n]
    a, b : float64[n]
        Finite, without -0.0.
    signs : int64[n]
        1 to add the case, -1 to remove it.
    groups : uint16[n] or None
        The groups of their clusters, where the pair has any.
    units : int64[n] or None
        The weight of each, in units of 2**-16 and above 0; None where each weighs 1. A pair
        with groups has no weights.
    by_b : int64[n] or None
        The rows in order of b's scores; None where they have to be sorted.
    """

    positive: BoolArray
    a: FloatArray
    b: FloatArray
    signs: IntArray
    groups: GroupCodes | None
    units: IntArray | None = None
    by_b: IntArray | None = None

    def at(self, rows: IntArray) -> PairRows:
        """Return some of the rows, by ascending index. O(n), O(rows) where they are few."""
        if rows.size == self.signs.size:
            return self
        groups = None if self.groups is None else self.groups[rows]
        units = None if self.units is None else self.units[rows]
        by_b: IntArray | None = None
        if self.by_b is not None and rows.size * _MIN_ORDERED_SHARE >= self.signs.size:
            place = np.full(self.signs.size, -1, dtype=np.int64)
            place[rows] = np.arange(rows.size)
            by_b = place[self.by_b]
            by_b = by_b[by_b >= 0]
        return PairRows(
            self.positive[rows], self.a[rows], self.b[rows], self.signs[rows], groups, units, by_b
        )

    def side(self, name: str) -> SideRows:
        """Return one model's scores, in ascending order where that is known. O(n)."""
        scores: FloatArray = getattr(self, name)
        columns = self.positive, self.signs, self.units
        if name == "b" and self.by_b is not None:
            scores = scores[self.by_b]
            columns = (
                self.positive[self.by_b],
                self.signs[self.by_b],
                None if self.units is None else self.units[self.by_b],
            )
        return SideRows(scores, *columns)


class SideRows(NamedTuple):
    """The rows as one model scores them.

    Attributes
    ----------
    scores : float64[n]
    positive, signs, units
        As of `PairRows`.
    """

    scores: FloatArray
    positive: BoolArray
    signs: IntArray
    units: IntArray | None
