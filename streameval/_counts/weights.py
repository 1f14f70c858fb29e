"""Weighted counts: for each distinct score the cases, the sum of their weights and of the squares.

A weight is an integer multiple of 2**-16, its *unit*. So sums are integers: exact, the
same in any order of the cases, and mergeable to the last bit. A sum of squares needs up to
110 bits and is kept as two integers, ``high * 2**48 + low``.

A state whose weights are all 1 is an unweighted one; by Cauchy and Schwarz, the three sums
of a cell tell.

A run keeps them as four integer columns, which the common merge sums (`run`): the units, the
numbers of cases, and the two parts of the squares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray

WEIGHT_BITS = 16
WEIGHT_UNITS = 1 << WEIGHT_BITS
"""The units of a weight of 1."""

MAX_WEIGHT = 2.0**31
"""A greater weight is refused, so that sums of squares fit two integers."""

MAX_WEIGHTED_CASES = 1 << 38
"""Cases of one evaluator with weights: sums of their 24-bit parts stay below 2**62."""

_LOW_BITS = 48
_LOW_MASK = (1 << _LOW_BITS) - 1
_HALF_BITS = 24
_HALF_MASK = (1 << _HALF_BITS) - 1


class WeightSums(NamedTuple):
    """The three sums of one score: its cases, their units and the squares of these."""

    cases: int
    units: int
    squares: int

    @classmethod
    def of(cls, column: IntArray) -> WeightSums:
        """Read a column of `columns_of`."""
        units, cases, high, low = column.tolist()
        return cls(cases, units, (high << _LOW_BITS) + low)

    def without(self, count: int, units: int) -> WeightSums:
        """Return the sums after `count` cases of a weight are removed."""
        return WeightSums(
            self.cases - count, self.units - count * units, self.squares - count * units**2
        )

    def is_possible(self) -> bool:
        """Return whether there are cases with these sums, as far as the sums can tell.

        n cases with the units u_i, each at least 1, have sum u >= n, sum u^2 >= sum u and
        (sum u)^2 <= n sum u^2. Sums cannot tell 1 and 4 from other weights of equal sums.
        """
        cases, units, squares = self
        if cases == 0:
            return units == squares == 0
        return 1 <= cases <= units <= squares and units * units <= cases * squares


def weighed(cases: IntArray) -> IntArray:
    """Return the columns of cases that weigh 1 each: units, cases, squares high and low. O(n)."""
    # The square of a unit weight is 2**32.
    return np.stack(
        (
            cases << WEIGHT_BITS,
            cases,
            cases >> WEIGHT_BITS,
            (cases & (WEIGHT_UNITS - 1)) << (2 * WEIGHT_BITS),
        )
    )


def columns_of(units: IntArray, counts: IntArray | None) -> IntArray:
    """Return the columns of rows: units, cases, and high and low parts of squares. O(n).

    Parameters
    ----------
    units : int64[n]
        The weight of each row, at least 1.
    counts : int64[n] or None
        The number of cases of each row; None means 1 each.
    """
    high, low = _squared(units)
    if counts is None:
        return np.stack((units, np.ones_like(units), high, low))
    # A square times a count may exceed an integer: its parts of 24 bits do not.
    middle = counts * (low >> _HALF_BITS)
    last = counts * (low & _HALF_MASK)
    middle += last >> _HALF_BITS
    low = ((middle & _HALF_MASK) << _HALF_BITS) + (last & _HALF_MASK)
    return np.stack((counts * units, counts, counts * high + (middle >> _HALF_BITS), low))


def reduced(columns: IntArray, firsts: IntArray) -> IntArray:
    """Return sums over the rows from each of `firsts` to the next. O(n).

    Parameters
    ----------
    columns : int64[n] or int64[4, n]
        Multiplicities, or what `columns_of` returns.
    """
    if columns.ndim == 1:
        return np.add.reduceat(columns, firsts)
    sums = np.empty((columns.shape[0], firsts.size), dtype=np.int64)
    np.add.reduceat(columns[:2], firsts, axis=1, out=sums[:2])
    sums[2:] = _summed_squares(columns[2], columns[3], firsts)
    return sums


def carried(columns: IntArray) -> IntArray:
    """Return columns with 0 <= low < 2**48; multiplicities as they are. O(n)."""
    if columns.ndim > 1:
        columns[2:] = _carried(columns[2], columns[3])
    return columns


def unless_one(units: IntArray | None) -> IntArray | None:
    """Return a column of weights in units, or None where each is 1. O(n)."""
    return None if units is None or (units == WEIGHT_UNITS).all() else units


def every_unit(units: IntArray | None, size: int) -> IntArray:
    """Return a column of weights in units, also where it is left out because each is 1. O(n)."""
    return np.full(size, WEIGHT_UNITS, dtype=np.int64) if units is None else units


def too_many_weighted() -> InvalidInputError:
    """Return the error for more cases with weights than can be summed exactly."""
    return InvalidInputError(
        "cases of an evaluator with weights must stay below 2**38, and their weights together "
        "below 2**46",
        field="weights",
    )


def _summed_squares(high: IntArray, low: IntArray, firsts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sums of squares over the rows from each of `firsts` to the next. O(n)."""
    middle = np.add.reduceat(low >> _HALF_BITS, firsts)
    last = np.add.reduceat(low & _HALF_MASK, firsts)
    middle += last >> _HALF_BITS
    high = np.add.reduceat(high, firsts) + (middle >> _HALF_BITS)
    return high, ((middle & _HALF_MASK) << _HALF_BITS) + (last & _HALF_MASK)


def squared_units(high: IntArray, low: IntArray) -> FloatArray:
    """Return sums of squared units as floats, each rounded once or twice. O(n)."""
    return high.astype(np.float64) * float(1 << _LOW_BITS) + low


def _squared(units: IntArray) -> tuple[IntArray, IntArray]:
    """Return the squares of units, as high and low parts. O(n)."""
    if int(units.max(initial=0)) <= _HALF_MASK:
        return np.zeros(units.size, dtype=np.int64), units * units
    whole, part = units >> _HALF_BITS, units & _HALF_MASK
    mixed = 2 * whole * part
    high = whole * whole + (mixed >> _HALF_BITS)
    return _carried(high, ((mixed & _HALF_MASK) << _HALF_BITS) + part * part)


def _carried(high: IntArray, low: IntArray) -> tuple[IntArray, IntArray]:
    """Return the same sums of squares with 0 <= low < 2**48."""
    return high + (low >> _LOW_BITS), low & _LOW_MASK
