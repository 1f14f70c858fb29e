"""One class's scores: sorted, distinct, each with its multiplicity.

A run is immutable and has one normal form. Adding, removing and merging are the same
operation, a signed merge, which returns a new run.

Cost: 8 B for each distinct score, 16 B once any score repeats. Merging d scores
into n is O(d log d + n), with passes at memory speed (0.5 ms for a million).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.insertion import inserted

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
        merged); None if all are 1.
    total : int
        The sum of the counts.

    Examples
    --------
    >>> run = Run.of(np.array([0.5, 0.25, 0.5]))
    >>> run.scores, run.counts, run.total
    (array([0.25, 0.5 ]), array([1, 2]), 3)
    """

    scores: FloatArray
    counts: IntArray | None
    total: int

    @classmethod
    def of(cls, scores: FloatArray, counts: IntArray | None = None) -> Run:
        """Build a run from scores in any order. O(n log n), O(n) in ascending order.

        Parameters
        ----------
        scores : float64[n]
            Finite; -0.0 is taken as 0.0.
        counts : int64[n] or None
            Multiplicity of each row; None means 1 each. Scores whose counts add up
            to 0 are left out.
        """
        scores = scores + 0.0  # a private copy, in which -0.0 is 0.0
        if counts is None:
            if (scores[1:] < scores[:-1]).any():
                scores.sort()
            return _grouped(scores, None)
        order = np.argsort(scores)
        return _grouped(scores[order], counts[order])

    @classmethod
    def of_ordered(cls, scores: FloatArray, counts: IntArray | None = None) -> Run:
        """Build a run from ascending scores, which may repeat; takes ownership of them. O(n)."""
        return _grouped(scores, counts)

    @classmethod
    def of_distinct(cls, scores: FloatArray, counts: IntArray) -> Run:
        """Build a run from strictly ascending scores and counts; takes ownership of both. O(n)."""
        return _run(scores, counts)

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
        if not change.scores.size:
            return self
        if not self.scores.size:
            return change
        if (
            self.counts is None
            and change.counts is None
            and len(change) * _MIN_INSERT_RATIO > len(self)
        ):
            # Two sorted runs without multiplicities: the last step of a merge sort.
            scores = np.concatenate((self.scores, change.scores))
            scores.sort(kind="stable")
            return _grouped(scores, None)
        longer, shorter = (change, self) if len(change) > len(self) else (self, change)
        return longer.merged_at(shorter, *locate(longer.scores, shorter.scores))

    def merged_at(self, change: Run, at: IntArray, is_present: BoolArray) -> Run:
        """Return `merged` of a change of which `locate` has found the scores here. O(n + d)."""
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
        if counts is not None and (counts == 0).any():
            kept = counts != 0
            scores, counts = scores[kept], counts[kept]
        return _run(scores, counts)

    def negated(self) -> Run:
        """Return the change that removes all these cases. O(n)."""
        return Run(self.scores, -self.multiplicities(), -self.total)

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
        assert (self.counts > 1).any(), "counts that are all 1 are stored"
        assert self.total == sum(self.counts.tolist()), self.total


EMPTY_RUN = Run(_NO_SCORES, None, 0)
"""No scores."""


def merge_runs(runs: Sequence[Run]) -> Run:
    """Return the sum of many runs at once.

    One sort of all scores instead of one merge after another: sixty runs of 16,000
    cells take milliseconds. O(S log S) for S scores in all.
    """
    runs = [run for run in runs if run.scores.size]
    if len(runs) <= 2:
        return EMPTY_RUN if not runs else runs[0] if len(runs) == 1 else runs[0].merged(runs[1])
    union = np.concatenate([run.scores for run in runs])
    has_counts = any(run.counts is not None for run in runs)
    if has_counts and union.size <= _MAX_SORTED_SCORES:
        order = np.argsort(union, kind="stable")
        counts = np.concatenate([run.multiplicities() for run in runs])
        return _grouped(union[order], counts[order])
    union.sort()
    if not has_counts:
        return _grouped(union, None)
    union = union[_first_indices(union)]
    counts = np.zeros(union.size, dtype=np.int64)
    for run in runs:
        # A run's scores are distinct, so no index occurs twice.
        counts[np.searchsorted(union, run.scores)] += 1 if run.counts is None else run.counts
    return _run(union, counts)


def locate(
    ordered: FloatArray | IntArray, wanted: FloatArray | IntArray
) -> tuple[IntArray, BoolArray]:
    """Return the insertion index of each wanted value, and whether the value is present."""
    at = np.searchsorted(ordered, wanted)
    if not ordered.size:
        return at, np.zeros(at.size, dtype=np.bool_)
    return at, ordered[np.minimum(at, ordered.size - 1)] == wanted


def _run(scores: FloatArray, counts: IntArray | None) -> Run:
    """Return the run of ascending distinct scores, in its normal form."""
    if counts is not None:
        if (counts == 1).all():
            counts = None
        else:
            counts.flags.writeable = False
    scores.flags.writeable = False
    # The callers have checked the limit on counts, so the sum fits int64.
    return Run(scores, counts, scores.size if counts is None else int(counts.sum()))


def _first_indices(ordered: FloatArray) -> IntArray:
    """Return the first index of each distinct value of an ascending array."""
    new = np.empty(ordered.size, dtype=np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)


def _grouped(ordered: FloatArray, counts: IntArray | None) -> Run:
    """Return the run of ascending scores with repetitions, without sums that are 0."""
    if counts is None and (ordered[1:] != ordered[:-1]).all():
        return _run(ordered, None)
    if not ordered.size:
        return EMPTY_RUN
    firsts = _first_indices(ordered)
    if counts is None:
        return _run(ordered[firsts], np.diff(firsts, append=ordered.size))
    sums = np.add.reduceat(counts, firsts)
    kept = sums != 0
    return _run(ordered[firsts[kept]], sums[kept])
