"""One class's scores: sorted, distinct, each with its multiplicity.

A run is immutable and has one normal form. Adding, removing and merging are the same
operation, a signed merge, which returns a new run. Where cases have weights, the merge sums
the columns of `weights` as it sums multiplicities.

Cost: 8 B for each distinct score, 16 B once any score repeats, 40 B with weights. Merging d scores
into n is O(d log d + n), with passes at memory speed (0.5 ms for a million).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from streameval._counts.insertion import inserted
from streameval._counts.weights import (
    WeightSums,
    carried,
    columns_of,
    reduced,
    squared_units,
    weighed,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray

_MIN_INSERT_RATIO = 100
"""A change this many times shorter than the run is inserted; a longer one is merge-sorted."""

_MAX_SORTED_SCORES = 16_384
"""Scores of several runs that are merged by a stable sort, which finds the runs in them; more
are counted by a search for each."""

_NO_SCORES: FloatArray = np.empty(0)
_NO_SCORES.flags.writeable = False


class NegativeCountError(Exception):
    """A signed merge would leave a score with a negative count."""

    def __init__(self, score: float) -> None:
        super().__init__(f"no case of score {score} is left to remove")
        self.score = score


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One class's scores: ascending, distinct, each with its multiplicity.

    Attributes
    ----------
    scores : float64[n]
        Finite, strictly ascending, without -0.0; read-only.
    counts : int64[n] or None
        How many cases have each score, at least 1 (signed in a change that is to be
        merged); None if all are 1. Where cases have weights, the sum of their units of 2**-16.
    total : int
        The sum of the counts.
    sums : int64[4, n] or None
        Where cases have weights: `counts`; the numbers of cases; and the sum of the squares
        of their units, ``sums[2] * 2**48 + sums[3]``, 0 <= sums[3] < 2**48.

    Examples
    --------
    >>> run = Run.of(np.array([0.5, 0.25, 0.5]))
    >>> run.scores, run.counts, run.total
    (array([0.25, 0.5 ]), array([1, 2]), 3)
    >>> run = Run.of(np.array([0.5, 0.25, 0.5]), units=np.array([65536, 65536, 131072]))
    >>> run.counts / 65536, run.cases, run.squares() / 65536**2
    (array([1., 3.]), array([1, 2]), array([1., 5.]))
    """

    EMPTY: ClassVar[Run]
    """Of no cases."""

    scores: FloatArray
    counts: IntArray | None
    total: int
    sums: IntArray | None = None

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        counts: IntArray | None = None,
        units: IntArray | None = None,
    ) -> Run:
        """Build a run from scores in any order. O(n log n), O(n) in ascending order.

        Parameters
        ----------
        scores : float64[n]
            Finite; -0.0 is taken as 0.0.
        counts : int64[n] or None
            Multiplicity of each row; None means 1 each. Scores whose counts add up
            to 0 are left out.
        units : int64[n] or None
            The weight of each row in units of 2**-16, 0 leaves the row out; None means that
            no case has a weight. With units no count may be negative.
        """
        columns = counts
        if units is not None:
            kept = (units if counts is None else units * counts) > 0
            scores, units = scores[kept], units[kept]
            columns = columns_of(units, None if counts is None else counts[kept])
        scores = scores + 0.0  # a private copy, in which -0.0 is 0.0
        if columns is None:
            if (scores[1:] < scores[:-1]).any():
                scores.sort()
            return _grouped(scores, None)
        order = np.argsort(scores)
        return _grouped(scores[order], columns.take(order, axis=-1))

    @classmethod
    def of_ordered(cls, scores: FloatArray, columns: IntArray | None = None) -> Run:
        """Build a run from ascending scores, which may repeat; takes ownership of them. O(n).

        Parameters
        ----------
        scores : float64[n]
        columns : int64[n], int64[4, n] or None
            As `columns` of a run.
        """
        return _grouped(scores, columns)

    @classmethod
    def of_distinct(cls, scores: FloatArray, columns: IntArray) -> Run:
        """Build a run from strictly ascending scores; as `of_ordered`. O(n)."""
        return _run(scores, columns)

    @classmethod
    def of_totalled(cls, scores: FloatArray, counts: IntArray | None, total: int) -> Run:
        """Build a run as `of_distinct`, without a check of its counts. O(1).

        Parameters
        ----------
        scores, counts
            Taken over; None stands for counts that are all 1.
        total
            The sum of the counts, each of them at least 1.
        """
        scores.flags.writeable = False
        if counts is not None:
            counts.flags.writeable = False
        return cls(scores, counts, total)

    @property
    def columns(self) -> IntArray | None:
        """What a merge sums: the sums of weights, else the counts; None if they are all 1."""
        return self.counts if self.sums is None else self.sums

    @property
    def cases(self) -> IntArray:
        """How many cases have each score, whatever they weigh. O(1), O(n) if all are 1."""
        return self.multiplicities() if self.sums is None else self.sums[1]

    def weights(self) -> IntArray:
        """Return `sums`, also where every case weighs 1 (then O(n))."""
        return weighed(self.multiplicities()) if self.sums is None else self.sums

    def squares(self) -> FloatArray:
        """Return the sums of squared units as floats, each rounded once or twice. O(n)."""
        return squared_units(*self.weights()[2:])

    def sums_of(self, score: float) -> WeightSums:
        """Return the sums of one score, exactly. O(log n) where cases have weights."""
        at = int(np.searchsorted(self.scores, score))
        if at == self.scores.size or self.scores[at] != score:
            return WeightSums(0, 0, 0)
        return WeightSums.of(self.weights()[:, at])

    def weighed(self) -> Run:
        """Return the run with sums of weights; where it had none, each case weighs 1. O(n)."""
        return self if self.sums is not None else _run(self.scores, self.weights())

    def unweighed(self) -> Run:
        """Return the run without sums of weights if every case weighs 1. O(n), as a rule O(1)."""
        if self.sums is None:
            return self
        for part in (slice(1), slice(None)):
            if (self.sums[:, part] != weighed(self.sums[1, part])).any():
                return self
        return _run(self.scores, self.sums[1])

    def __len__(self) -> int:
        return self.scores.size

    @property
    def max_len(self) -> int:
        """The number of distinct scores, or a bound of it that costs less. O(1)."""
        return self.scores.size

    def count_of(self, score: float) -> int:
        """Return how many cases have this score. O(log n)."""
        at = int(np.searchsorted(self.scores, score))
        if at == self.scores.size or self.scores[at] != score:
            return 0
        return 1 if self.counts is None else int(self.counts[at])

    def above(self, score: float) -> int:
        """Return how many cases have at least this score. O(log n), O(n) with counts."""
        at = int(np.searchsorted(self.scores, score))
        return self.scores.size - at if self.counts is None else int(self.counts[at:].sum())

    def cumulative(self) -> IntArray | None:
        """Return the number of cases before each index, n + 1 values. O(n).

        None if all counts are 1, because then each value is the index itself.
        """
        if self.counts is None:
            return None
        below = np.zeros(self.counts.size + 1, dtype=np.int64)
        np.cumsum(self.counts, out=below[1:])
        return below

    def multiplicities(self) -> IntArray:
        """Return how many cases have each score, as an array even if all are 1 (then O(n))."""
        return np.ones(self.scores.size, dtype=np.int64) if self.counts is None else self.counts

    def merged(self, change: Run) -> Run:
        """Return the sum of both signed runs, without scores whose count is 0. O(n + d)."""
        run, change = alike(self, change)
        if not change.scores.size:
            return run
        if not run.scores.size:
            return change
        is_plain = run.counts is None and change.counts is None
        if run.sums is not None or (is_plain and len(change) * _MIN_INSERT_RATIO > len(run)):
            # Two sorted runs: the last step of a merge sort.
            return _sorted((run, change))
        longer, shorter = (change, run) if len(change) > len(run) else (run, change)
        return longer.merged_at(shorter, *locate(longer.scores, shorter.scores))

    def merged_at(self, change: Run, at: IntArray, is_present: BoolArray) -> Run:
        """Return `merged` of a change of which `locate` has found the scores here. O(n + d).

        Neither has weights.
        """
        if not change.scores.size:
            return self
        added = change.multiplicities()
        counts = self.counts
        if is_present.any():
            counts = self.multiplicities().copy()
            counts[at[is_present]] += added[is_present]
        scores = self.scores
        if not is_present.all():
            is_new = ~is_present
            scores = inserted(scores, at[is_new], change.scores[is_new])
            if counts is not None or change.counts is not None:
                before = self.multiplicities() if counts is None else counts
                counts = inserted(before, at[is_new], added[is_new])
        return _run(scores, None) if counts is None else _without_nothing(scores, counts)

    def negated(self) -> Run:
        """Return the change that removes all these cases. O(n)."""
        return _run(self.scores, carried(-self.all_columns()))

    def all_columns(self) -> IntArray:
        """Return `columns`, as an array even if all counts are 1 (then O(n))."""
        return self.multiplicities() if self.sums is None else self.sums

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
        assert self.scores.dtype == np.float64, self.scores.dtype
        assert self.scores.ndim == 1, self.scores.shape
        assert not self.scores.flags.writeable
        assert np.isfinite(self.scores).all(), self.scores
        assert (self.scores[1:] > self.scores[:-1]).all(), self.scores
        assert not np.signbit(self.scores[self.scores == 0.0]).any(), "-0.0 is stored"
        if self.counts is None:
            assert self.total == self.scores.size, (self.total, self.scores.size)
            return
        assert self.counts.dtype == np.int64, self.counts.dtype
        assert self.counts.shape == self.scores.shape, (self.counts.shape, self.scores.shape)
        assert not self.counts.flags.writeable
        assert (self.counts >= 1).all(), self.counts
        assert self.sums is not None or (self.counts > 1).any(), "counts that are all 1 are stored"
        assert self.total == sum(self.counts.tolist()), self.total


Run.EMPTY = Run(_NO_SCORES, None, 0)
"""No scores."""


def alike(*runs: Run) -> Sequence[Run]:
    """Return runs as they are if none has sums of weights; else each with sums. O(n)."""
    return runs if all(run.sums is None for run in runs) else [run.weighed() for run in runs]


def merge_runs(runs: Sequence[Run]) -> Run:
    """Return the sum of many runs at once.

    One sort of all scores instead of one merge after another: sixty runs of 16,000
    cells take milliseconds. O(S log S) for S scores in all.
    """
    runs = alike(*(run for run in runs if run.scores.size))
    if len(runs) <= 2:
        return Run.EMPTY if not runs else runs[0] if len(runs) == 1 else runs[0].merged(runs[1])
    has_columns = any(run.columns is not None for run in runs)
    if has_columns and (sum(map(len, runs)) <= _MAX_SORTED_SCORES or runs[0].sums is not None):
        return _sorted(runs)
    union = np.concatenate([run.scores for run in runs])
    union.sort()
    if not has_columns:
        return _grouped(union, None)
    union = union[_first_indices(union)]
    counts = np.zeros(union.size, dtype=np.int64)
    for run in runs:
        # A run's scores are distinct, so no index occurs twice.
        counts[np.searchsorted(union, run.scores)] += 1 if run.counts is None else run.counts
    return _run(union, counts)


def _sorted(runs: Sequence[Run]) -> Run:
    """Return the sum of runs by one stable sort, which finds the runs in it. O(S log S)."""
    scores = np.concatenate([run.scores for run in runs])
    if all(run.columns is None for run in runs):
        scores.sort(kind="stable")
        return _grouped(scores, None)
    order = np.argsort(scores, kind="stable")
    parts = [np.atleast_2d(run.all_columns()) for run in runs]
    columns = np.empty((len(parts[0]), scores.size), dtype=np.int64)
    # One column after the other: the memory of one is used again for the next.
    for column, *each in zip(columns, *parts, strict=True):
        np.concatenate(each).take(order, out=column, mode="clip")
    return _grouped(scores[order], columns if len(columns) > 1 else columns[0])


def locate(
    ordered: FloatArray | IntArray, wanted: FloatArray | IntArray
) -> tuple[IntArray, BoolArray]:
    """Return the insertion index of each wanted value, and whether the value is present."""
    at = np.searchsorted(ordered, wanted)
    if not ordered.size:
        return at, np.zeros(at.size, dtype=np.bool_)
    return at, ordered[np.minimum(at, ordered.size - 1)] == wanted


def _run(scores: FloatArray, columns: IntArray | None) -> Run:
    """Return the run of ascending distinct scores, in its normal form."""
    counts, sums = columns, None
    if columns is not None:
        if columns.ndim > 1:
            counts, sums = columns[0], columns
        elif (columns == 1).all():
            counts = None
        for column in (columns, counts):
            if column is not None:
                column.flags.writeable = False
    scores.flags.writeable = False
    # The callers have checked the limit on counts, so the sum fits int64.
    return Run(scores, counts, scores.size if counts is None else int(counts.sum()), sums)


def _first_indices(ordered: FloatArray) -> IntArray:
    """Return the first index of each distinct value of an ascending array."""
    new = np.empty(ordered.size, dtype=np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)


def _grouped(ordered: FloatArray, columns: IntArray | None) -> Run:
    """Return the run of ascending scores with repetitions, without sums that are 0."""
    if columns is None and (ordered[1:] != ordered[:-1]).all():
        return _run(ordered, None)
    if not ordered.size:
        return _run(ordered, columns)
    firsts = _first_indices(ordered)
    if columns is None:
        return _run(ordered[firsts], np.diff(firsts, append=ordered.size))
    if firsts.size < ordered.size:
        ordered, columns = ordered[firsts], reduced(columns, firsts)
    return _without_nothing(ordered, columns)


def _without_nothing(scores: FloatArray, columns: IntArray) -> Run:
    """Return the run of ascending distinct scores, without scores whose sums are all 0."""
    rows = np.atleast_2d(columns)
    if not (rows[0] != 0).all():
        kept = rows.any(axis=0)
        scores, columns = scores[kept], columns.compress(kept, axis=-1)
    return _run(scores, columns)
