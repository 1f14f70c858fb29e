"""Counts of one class of a paired evaluator, by pair of scores.

A case is a pair of scores, one of each model. Once the evaluator has cut its scores,
every score stands for a cell (`pair_cuts`), and there is one entry for each pair of
cells. Counts are signed, so that removal is addition, and the same cases give the same
entries in any order. 24 B an entry, 48 B where cases have weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.weights import (
    WEIGHT_BITS,
    WEIGHT_UNITS,
    signed_squares,
    squared_units,
    summed_squares,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray


class PairWeights(NamedTuple):
    """The weights of each entry, as in `Run.sums`.

    Attributes
    ----------
    units : int64[n]
        The sum of the weights, in units of 2**-16.
    high, low : int64[n]
        The sum of their squares, ``high * 2**48 + low``.
    """

    units: IntArray
    high: IntArray
    low: IntArray

    @classmethod
    def of_counts(cls, counts: IntArray) -> Self:
        """Return the weights of as many cases that weigh 1. O(n)."""
        low = (counts & (WEIGHT_UNITS - 1)) << (2 * WEIGHT_BITS)
        return cls(counts << WEIGHT_BITS, counts >> WEIGHT_BITS, low)

    @classmethod
    def of_units(cls, units: IntArray, sign: int | IntArray) -> Self:
        """Return the signed sums of one case each; a sign for all or for each. O(n)."""
        return cls(units * sign, *signed_squares(units, sign))

    def rows(self, index: IntArray) -> Self:
        """Return some rows."""
        return type(self)(*(column[index] for column in self))

    def summed(self, firsts: IntArray) -> Self:
        """Return the sums over the rows from each of `firsts` to the next. O(n)."""
        high, low = summed_squares(self.high, self.low, firsts)
        return type(self)(np.add.reduceat(self.units, firsts), high, low)

    def are_left(self) -> BoolArray:
        """Which rows have a sum that is not 0. O(n)."""
        left: BoolArray = (self.units != 0) | (self.high != 0) | (self.low != 0)
        return left

    def same(self, other: PairWeights) -> bool:
        """Whether all sums are equal. O(n)."""
        return all(np.array_equal(x, y) for x, y in zip(self, other))


@dataclass(frozen=True, slots=True, eq=False)
class PairCells:
    """The counted pairs of scores of one class.

    Attributes
    ----------
    a, b : float64[n]
        The scores under each model, or the middles of their cells.
    counts : int64[n]
        Cases of each entry, at least 1. Signed in a change; negative too where a case is
        removed that was counted in another cell, before the cells were cut again.
    weights : PairWeights or None
        What they weigh; None where each weighs 1.
    """

    a: FloatArray = field(default_factory=lambda: np.empty(0))
    b: FloatArray = field(default_factory=lambda: np.empty(0))
    counts: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    weights: PairWeights | None = None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def only_adds(self) -> bool:
        """Whether it adds cases that weigh 1, and removes none. O(n)."""
        return self.weights is None and not (self.counts < 1).any()

    @property
    def total(self) -> int:
        """The number of cases."""
        return int(self.counts.sum())

    @property
    def units(self) -> IntArray:
        """What metrics count: the weights in units, or the cases where each weighs 1."""
        return self.counts if self.weights is None else self.weights.units

    @property
    def squares(self) -> FloatArray:
        """The sum of the squares of what metrics count: the cases where each weighs 1."""
        if self.weights is None:
            return self.counts.astype(np.float64)
        return squared_units(self.weights.high, self.weights.low)

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        weights = 0 if self.weights is None else sum(each.nbytes for each in self.weights)
        return self.a.nbytes + self.b.nbytes + self.counts.nbytes + weights

    def counted(self) -> PairCells:
        """Return the entries without negative ones. O(n)."""
        possible = self.counts > 0
        if self.weights is not None:
            possible = possible & (self.weights.units > 0) & (self.squares > 0)
        if possible.all():
            return self
        kept = np.flatnonzero(possible)
        weights = None if self.weights is None else self.weights.rows(kept)
        return PairCells(self.a[kept], self.b[kept], self.counts[kept], weights)

    def weighted(self) -> PairCells:
        """Return the same cases with weights, of 1 where they have none. O(n)."""
        if self.weights is not None:
            return self
        return PairCells(self.a, self.b, self.counts, PairWeights.of_counts(self.counts))

    def _check(self, max_cells: int | None, *, is_signed: bool = False) -> None:
        """Assert all invariants."""
        assert len(self.a) == len(self.b) == len(self.counts)
        assert max_cells is None or len(self) <= max_cells, (len(self), max_cells)
        if is_signed:
            left = self.counts != 0
            assert (left if self.weights is None else left | self.weights.are_left()).all()
        else:
            assert (self.counts > 0).all()
        if self.weights is not None and not is_signed:
            assert (self.weights.units > 0).all()
        rows = list(zip(self.a.tolist(), self.b.tolist()))
        assert rows == sorted(set(rows))


def summed(parts: Sequence[PairCells], *, is_signed: bool = False) -> PairCells:
    """Return the sum of signed counts. O(n log n) for n entries in all.

    Raises
    ------
    InvalidInputError
        When it removes a case that was not added, unless `is_signed` keeps the entry.
    """
    a, b, counts = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("a", "b", "counts")
    )
    order = np.lexsort((b, a))
    a, b, counts = a[order], b[order], counts[order]
    first = np.ones(len(a), dtype=np.bool_)
    first[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    starts = np.flatnonzero(first)
    if len(starts):
        counts = np.add.reduceat(counts, starts)
    weights = _summed_weights(parts, order, starts, counts)
    if is_signed:
        kept = counts != 0 if weights is None else (counts != 0) | weights.are_left()
    else:
        kept = counts > 0
        units = counts if weights is None else weights.units
        if (counts < 0).any() or ((units > 0) != kept).any():
            raise InvalidInputError("cannot remove a pair that was not added", field="scores_a")
    starts = starts[kept]
    if weights is not None:
        weights = weights.rows(np.flatnonzero(kept))
    return PairCells(a[starts], b[starts], counts[kept], weights)


def _summed_weights(
    parts: Sequence[PairCells], order: IntArray, starts: IntArray, counts: IntArray
) -> PairWeights | None:
    """Return the sums of weights; None where all cases of the `counts` weigh 1. O(n)."""
    if all(part.weights is None for part in parts):
        return None
    each = (part.weighted().weights for part in parts)
    columns = zip(*(weights for weights in each if weights is not None))
    sums = PairWeights(*(np.concatenate(column)[order] for column in columns))
    if len(starts):
        sums = sums.summed(starts)
    return None if sums.same(PairWeights.of_counts(counts)) else sums
