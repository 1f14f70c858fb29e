"""Counts of one class of a paired evaluator, by pair of scores.

A case is a pair of scores, one of each model. Once the evaluator has cut its scores,
every score stands for a cell (`pair_cuts`), and there is one entry for each pair of
cells. Counts are signed, so that removal is addition, and the same cases give the same
entries in any order. 24 B an entry, 48 B where cases have weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.weights import carried, columns_of, reduced, squared_units, weighed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PairCells:
    """The counted pairs of scores of one class.

    Attributes
    ----------
    a, b : float64[n]
        The scores under each model, or the middles of their cells.
    columns : int64[n] or int64[4, n]
        Cases of each entry, at least 1. Signed in a change; negative too where a case is
        removed that was counted in another cell, before the cells were cut again. Where
        cases have weights, the four columns of `weights.columns_of`.
    """

    a: FloatArray = field(default_factory=lambda: np.empty(0))
    b: FloatArray = field(default_factory=lambda: np.empty(0))
    columns: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def of_rows(cls, a: FloatArray, b: FloatArray, signs: IntArray, units: IntArray | None) -> Self:
        """Return rows of one case each, added (1) or removed (-1). O(n).

        Parameters
        ----------
        a, b : float64[n]
        signs : int64[n]
        units : int64[n] or None
            The weights in units of 2**-16; None where each weighs 1.
        """
        return cls(a, b, signs if units is None else carried(columns_of(units, None) * signs))

    def __len__(self) -> int:
        return self.a.size

    @property
    def has_weights(self) -> bool:
        """Whether cases have weights. O(1)."""
        return self.columns.ndim > 1

    @property
    def counts(self) -> IntArray:
        """The number of cases of each entry."""
        return self.columns[1] if self.has_weights else self.columns

    @property
    def only_adds(self) -> bool:
        """Whether it adds cases that weigh 1, and removes none. O(n)."""
        return not (self.has_weights or (self.columns < 1).any())

    @property
    def total(self) -> int:
        """The number of cases."""
        return int(self.counts.sum())

    @property
    def units(self) -> IntArray:
        """What metrics count: the weights in units, or the cases where each weighs 1."""
        return self.columns[0] if self.has_weights else self.columns

    @property
    def squares(self) -> FloatArray:
        """The sum of the squares of what metrics count: the cases where each weighs 1."""
        if self.has_weights:
            return squared_units(self.columns[2], self.columns[3])
        return self.columns.astype(np.float64)

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        return self.a.nbytes + self.b.nbytes + self.columns.nbytes

    def rows(self, index: IntArray) -> PairCells:
        """Return some of the entries. O(rows)."""
        return PairCells(self.a[index], self.b[index], self.columns.take(index, axis=-1))

    def counted(self) -> PairCells:
        """Return the entries without negative ones. O(n)."""
        possible = (self.counts > 0) & (self.units > 0) & (self.squares > 0)
        return self if possible.all() else self.rows(np.flatnonzero(possible))

    def weighted(self) -> PairCells:
        """Return the same cases with weights, of 1 where they have none. O(n)."""
        return self if self.has_weights else PairCells(self.a, self.b, weighed(self.columns))

    def are_left(self) -> BoolArray:
        """Which entries have a sum that is not 0. O(n)."""
        left: BoolArray = np.any(np.atleast_2d(self.columns), axis=0)
        return left

    def _check(self, max_cells: int | None, *, is_signed: bool = False) -> None:
        """Assert all invariants."""
        assert self.a.shape == self.b.shape == self.counts.shape
        assert max_cells is None or len(self) <= max_cells, (len(self), max_cells)
        possible = self.are_left() if is_signed else (self.counts > 0) & (self.units > 0)
        assert possible.all()
        rows = list(zip(self.a.tolist(), self.b.tolist()))
        assert rows == sorted(set(rows))


def summed(parts: Sequence[PairCells], *, is_signed: bool = False) -> PairCells:
    """Return the sum of signed counts. O(n log n) for n entries in all.

    Raises
    ------
    InvalidInputError
        When it removes a case that was not added, unless `is_signed` keeps the entry.
    """
    a, b = (np.concatenate([getattr(part, name) for part in parts]) for name in "ab")
    order = np.lexsort((b, a))
    a, b = a[order], b[order]
    if any(part.has_weights for part in parts):
        parts = [part.weighted() for part in parts]
    columns = np.concatenate([part.columns for part in parts], axis=-1).take(order, axis=-1)
    first = np.ones(len(a), dtype=np.bool_)
    first[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    starts = np.flatnonzero(first)
    if len(starts):
        columns = reduced(columns, starts)
    cells = PairCells(a[starts], b[starts], unless_weighed(columns))
    kept = cells.are_left() if is_signed else cells.counts > 0
    if not is_signed and ((cells.counts < 0).any() or ((cells.units > 0) != kept).any()):
        raise InvalidInputError("cannot remove a pair that was not added", field="scores_a")
    return cells.rows(np.flatnonzero(kept))


def unless_weighed(columns: IntArray) -> IntArray:
    """Return the columns of entries; the numbers of cases alone where each weighs 1. O(n)."""
    if columns.ndim > 1 and (columns == weighed(columns[1])).all():
        columns = columns[1].copy()
    return columns
