"""Weighted counts: for each distinct score the cases, the sum of their weights and of the squares.

A weight is an integer multiple of 2**-16, its *unit*. So sums are integers: exact, the
same in any order of the cases, and mergeable to the last bit. A sum of squares needs up to
110 bits and is kept as two integers, ``high * 2**48 + low``.

A state whose weights are all 1 is an unweighted one; by Cauchy and Schwarz, the three sums
of a cell tell.

Cost: 40 B for each distinct score and class, where unweighted counts take 8 or 16 B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.resolution import quantise
from streameval._counts.run import NegativeCountError, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.multiset import ScoreCounts
    from streameval._counts.resolution import Scale

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


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRun:
    """One class's distinct scores, ascending, with the sums of each.

    Attributes
    ----------
    scores : float64[n]
        As in `Run`.
    cases : int64[n]
        How many cases have each score, at least 1; negative in a change that removes.
    units : int64[n]
        The sum of their weights, in units of 2**-16.
    high, low : int64[n]
        The sum of the squares of their units, ``high * 2**48 + low``, 0 <= low < 2**48.

    Examples
    --------
    >>> run = WeightedRun.of(np.array([0.5, 0.25, 0.5]), np.array([65536, 65536, 131072]))
    >>> run.scores, run.cases, run.units / 65536, run.squares() / 65536**2
    (array([0.25, 0.5 ]), array([1, 2]), array([1., 3.]), array([1., 5.]))
    """

    scores: FloatArray
    cases: IntArray
    units: IntArray
    high: IntArray
    low: IntArray

    @classmethod
    def of(cls, scores: FloatArray, units: IntArray, counts: IntArray | None = None) -> WeightedRun:
        """Build a run from scores in any order. O(n log n).

        Parameters
        ----------
        scores : float64[n]
            Finite; -0.0 is taken as 0.0.
        units : int64[n]
            The weight of each row in units; 0 leaves the row out.
        counts : int64[n] or None
            The number of cases of each row; None means 1 each.
        """
        kept = (units if counts is None else units * (counts > 0)) > 0
        if not kept.all():
            scores, units = scores[kept], units[kept]
            counts = None if counts is None else counts[kept]
        order = np.argsort(scores)
        ordered, units = scores[order], units[order]
        ordered += 0.0  # -0.0 becomes 0.0
        high, low = _squared(units)
        if counts is None:
            return _summed(ordered, np.ones(units.size, dtype=np.int64), units, high, low)
        counts = counts[order]
        # A square times a count may exceed an integer: its parts of 24 bits do not.
        middle = counts * (low >> _HALF_BITS)
        last = counts * (low & _HALF_MASK)
        middle += last >> _HALF_BITS
        low = ((middle & _HALF_MASK) << _HALF_BITS) + (last & _HALF_MASK)
        high = counts * high + (middle >> _HALF_BITS)
        return _summed(ordered, counts, counts * units, high, low)

    @classmethod
    def of_run(cls, run: Run) -> WeightedRun:
        """Return a class's unweighted cases, each of weight 1. O(n)."""
        cases = run.multiplicities()
        # The square of a unit weight is 2**32.
        return cls(
            run.scores,
            cases,
            cases << WEIGHT_BITS,
            cases >> WEIGHT_BITS,
            (cases & (WEIGHT_UNITS - 1)) << (2 * WEIGHT_BITS),
        )

    def __len__(self) -> int:
        return self.scores.size

    @property
    def columns(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """The four sums of each score."""
        return self.cases, self.units, self.high, self.low

    def squares(self) -> FloatArray:
        """Return the sums of squared units as floats, each rounded once or twice. O(n)."""
        return squared_units(self.high, self.low)

    def sums_of(self, score: float) -> WeightSums:
        """Return the sums of one score, exactly. O(log n)."""
        at = int(np.searchsorted(self.scores, score))
        if at == self.scores.size or self.scores[at] != score:
            return WeightSums(0, 0, 0)
        squares = (int(self.high[at]) << _LOW_BITS) + int(self.low[at])
        return WeightSums(int(self.cases[at]), int(self.units[at]), squares)

    def unit_run(self) -> Run:
        """Return the scores with their units as counts: what metrics read. O(n)."""
        return Run.of_distinct(self.scores, self.units)

    def plain_run(self) -> Run | None:
        """Return the unweighted run if every case weighs 1; else None. O(n), O(1) as a rule."""
        for part in (slice(1), slice(None)):
            cases = self.cases[part]
            if not (
                (self.units[part] == cases << WEIGHT_BITS).all()
                and (self.high[part] == cases >> WEIGHT_BITS).all()
                and (self.low[part] == (cases & (WEIGHT_UNITS - 1)) << (2 * WEIGHT_BITS)).all()
            ):
                return None
        return Run.of_distinct(self.scores, self.cases)

    def negated(self) -> WeightedRun:
        """Return the change that removes all these cases. O(n)."""
        high, low = _carried(-self.high, -self.low)
        return WeightedRun(self.scores, -self.cases, -self.units, high, low)

    def at_resolution(self, bits: int | None, scale: Scale) -> WeightedRun:
        """Return the run with `bits` significant bits of each score; None keeps all. O(n)."""
        if bits is None or not self.scores.size:
            return self
        return _summed(quantise(self.scores, bits, scale), *self.columns)

    def same_as(self, other: WeightedRun) -> bool:
        """Return whether both have the same scores and sums. O(n)."""
        return np.array_equal(self.scores, other.scores) and all(
            map(np.array_equal, self.columns, other.columns)
        )


def merge_weighted_runs(runs: Sequence[WeightedRun]) -> WeightedRun:
    """Return the sum of runs, without scores whose sums are all 0. O(S log S)."""
    runs = [run for run in runs if run.scores.size] or [*runs[:1]]
    if len(runs) == 1:
        return runs[0]
    scores = np.concatenate([run.scores for run in runs])
    order = np.argsort(scores, kind="stable")
    columns = (np.concatenate(each)[order] for each in zip(*(run.columns for run in runs)))
    return _summed(scores[order], *columns)


def require_possible(run: WeightedRun, change: WeightedRun) -> None:
    """Refuse the sums that a removal left if no cases have them. O(d log n).

    Raises
    ------
    NegativeCountError
        With the first score at fault.
    """
    for score in change.scores.tolist():
        if not run.sums_of(score).is_possible():
            raise NegativeCountError(score)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedCounts:
    """The scored cases of both classes, with weights."""

    positives: WeightedRun
    negatives: WeightedRun

    @classmethod
    def of_counts(cls, counts: ScoreCounts) -> WeightedCounts:
        """Return unweighted counts, each case with weight 1. O(n)."""
        return cls(WeightedRun.of_run(counts.positives), WeightedRun.of_run(counts.negatives))

    def __len__(self) -> int:
        return len(self.positives) + len(self.negatives)

    def num_cases(self, label: bool) -> int:
        """Return how many cases of a class there are. O(n)."""
        return int(self.run(label).cases.sum())

    def run(self, label: bool) -> WeightedRun:
        """Return the sums of one class."""
        return self.positives if label else self.negatives

    def merged(self, *changes: WeightedCounts) -> WeightedCounts:
        """Return these with the signed sums of `changes` added. O(S log S).

        Raises
        ------
        NegativeCountError
            When a score would be left with sums that no cases have.
        """
        runs = []
        for label in (True, False):
            parts = [each.run(label) for each in changes]
            run = merge_weighted_runs([self.run(label), *parts])
            for part in parts:
                if part.cases.size and part.cases.min() < 0:
                    require_possible(run, part)
            runs.append(run)
        return WeightedCounts(*runs)

    def negated(self) -> WeightedCounts:
        """Return the change that removes all these cases. O(n)."""
        return WeightedCounts(self.positives.negated(), self.negatives.negated())

    def at_resolution(self, bits: int | None, scale: Scale) -> WeightedCounts:
        """Return these with `bits` significant bits of each score; None keeps all. O(n)."""
        return WeightedCounts(
            self.positives.at_resolution(bits, scale), self.negatives.at_resolution(bits, scale)
        )


def unless_one(units: IntArray | None) -> IntArray | None:
    """Return a column of weights in units, or None where each is 1. O(n)."""
    return None if units is None or (units == WEIGHT_UNITS).all() else units


def too_many_weighted() -> InvalidInputError:
    """Return the error for more cases with weights than can be summed exactly."""
    return InvalidInputError(
        "cases of an evaluator with weights must stay below 2**38, and their weights together "
        "below 2**46",
        field="weights",
    )


def _summed(
    ordered: FloatArray, cases: IntArray, units: IntArray, high: IntArray, low: IntArray
) -> WeightedRun:
    """Return the run of ascending scores with repetitions, without sums that are all 0."""
    new = np.empty(ordered.size, dtype=np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    if not new.all():
        firsts = np.flatnonzero(new)
        cases, units = (np.add.reduceat(each, firsts) for each in (cases, units))
        high, low = summed_squares(high, low, firsts)
        kept = (cases != 0) | (units != 0) | (high != 0) | (low != 0)
        ordered = ordered[firsts[kept]]
        cases, units, high, low = (each[kept] for each in (cases, units, high, low))
    for column in (ordered, cases, units, high, low):
        column.flags.writeable = False
    return WeightedRun(ordered, cases, units, high, low)


def summed_squares(high: IntArray, low: IntArray, firsts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sums of squares over the rows from each of `firsts` to the next. O(n)."""
    middle = np.add.reduceat(low >> _HALF_BITS, firsts)
    last = np.add.reduceat(low & _HALF_MASK, firsts)
    middle += last >> _HALF_BITS
    high = np.add.reduceat(high, firsts) + (middle >> _HALF_BITS)
    return high, ((middle & _HALF_MASK) << _HALF_BITS) + (last & _HALF_MASK)


def squared_units(high: IntArray, low: IntArray) -> FloatArray:
    """Return sums of squared units as floats, each rounded once or twice. O(n)."""
    return high.astype(np.float64) * float(1 << _LOW_BITS) + low


def signed_squares(units: IntArray, sign: int | IntArray) -> tuple[IntArray, IntArray]:
    """Return the squares of units, times 1 or -1 (of all or each), as high and low parts. O(n)."""
    high, low = _squared(units)
    return _carried(high * sign, low * sign)


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
