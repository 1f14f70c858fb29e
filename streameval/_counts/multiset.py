"""A sorted multiset of scores for each class: the data of every answer.

Positives and negatives are separate, a `Run` each. Sorting the classes separately
needs no argsort and moves no labels, and nearly all metrics need only the positives'
groups and the number of negatives above each (`ScoreCounts.ranks`).

A pair of runs is immutable. Adding, removing, merging and sliding a window are the
same operation, a signed merge, which returns a new pair. Counts that are seldom read may be
kept closed, as bytes that each reader opens: their content stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from streameval._counts.exact import MAX_TOTAL
from streameval._counts.insertion import inserted, stepped
from streameval._counts.layered_run import LayeredRun, with_added
from streameval._counts.run import NegativeCountError, Run, alike, locate
from streameval._counts.weights import WEIGHT_UNITS

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, IntArray

_MIN_RANK_UPDATE_RATIO = 16
"""Ranks are updated if the positives are longer than the change times this; else recomputed."""


_Part = TypeVar("_Part", Run, Run | LayeredRun)


class ClosedCounts(Protocol):
    """Counts in a form that takes less memory; each reader opens them."""

    @property
    def memory_bytes(self) -> int:
        """Memory. O(1)."""

    @property
    def num_scores(self) -> int:
        """How many distinct scores there are, by class. O(1)."""

    def total(self, label: bool) -> int:
        """Return how many cases of a class there are."""

    def open(self) -> tuple[Run, Run]:
        """Return the positives and the negatives. O(n)."""


@dataclass(init=False, slots=True, eq=False)
class ScoreCounts:
    """All scored cases: one run for each class.

    Parameters
    ----------
    positives, negatives : Run
        The scores of each class.

    Attributes
    ----------
    stored : ClosedCounts or None
        The same counts in a closed form, once `store` was called, or since `closed`.
    has_weights : bool
        Whether the runs have sums of weights; closed counts have none.

    Examples
    --------
    >>> counts = ScoreCounts(Run.of(np.array([0.9, 0.4])), Run.of(np.array([0.4, 0.1, 0.1])))
    >>> above, tied = counts.ranks()
    >>> above, tied
    (array([0, 0]), array([0, 1]))
    >>> counts.num_distinct()
    3
    """

    stored: ClosedCounts | None
    has_weights: bool
    _runs: tuple[Run, Run | LayeredRun] | None
    _ranks: tuple[IntArray, IntArray | None] | None

    def __init__(self, positives: Run = Run.EMPTY, negatives: Run | LayeredRun = Run.EMPTY) -> None:
        self.stored = self._ranks = None
        if isinstance(negatives, Run):
            positives, negatives = alike(positives, negatives)
        self.has_weights = positives.sums is not None
        self._runs = positives, negatives

    @classmethod
    def closed(cls, stored: ClosedCounts) -> ScoreCounts:
        """Return counts that each reader opens. O(1)."""
        counts = cls()
        counts.store(stored)
        return counts

    def store(self, stored: ClosedCounts) -> None:
        """Keep the counts closed, with the same content; a reader keeps its own runs. O(1)."""
        self.stored = stored
        self._runs = self._ranks = None

    @property
    def nbytes(self) -> int:
        """Memory of the columns. O(1)."""
        columns = [each for run in self.runs for each in (run.scores, run.columns)]
        return sum(each.nbytes for each in columns if each is not None)

    @property
    def parts(self) -> tuple[Run, Run | LayeredRun]:
        """As `runs`, with negatives that may be in layers; merges nothing."""
        runs = self._runs
        if runs is None:
            assert self.stored is not None
            return self.stored.open()
        return runs

    @property
    def runs(self) -> tuple[Run, Run]:
        """The positives and the negatives. O(1); O(n) for closed counts, which stay closed.

        O(n) the first time after cases were added to layers.
        """
        positives, negatives = self.parts
        if isinstance(negatives, LayeredRun):
            # Two threads may both merge; their results are equal.
            negatives = negatives.whole()
            self._runs = positives, negatives
        return positives, negatives

    @property
    def positives(self) -> Run:
        """The scores of positives. As `parts`."""
        return self.parts[0]

    @property
    def negatives(self) -> Run:
        """The scores of negatives. As `runs`."""
        return self.runs[1]

    def run(self, label: bool) -> Run:
        """Return the scores of one class. As `runs`."""
        return self.positives if label else self.negatives

    def num_cases(self, label: bool) -> int:
        """Return how many cases of a class there are, whatever they weigh. O(n) with weights."""
        return int(self.run(label).cases.sum()) if self.has_weights else self.total_of(label)

    def weighed(self) -> ScoreCounts:
        """Return these with sums of weights: each case weighs 1 where there are none. O(n)."""
        return self if self.has_weights else ScoreCounts(*(run.weighed() for run in self.runs))

    def unweighed(self) -> ScoreCounts:
        """Return these without sums of weights if every case weighs 1. O(n), as a rule O(1)."""
        if not self.has_weights:
            return self
        positives, negatives = self.runs
        positives = positives.unweighed()
        negatives = negatives.unweighed() if positives.sums is None else positives
        return self if negatives.sums is not None else ScoreCounts(positives, negatives)

    def negated(self) -> ScoreCounts:
        """Return the change that removes all these cases. O(n)."""
        return ScoreCounts(*(run.negated() for run in self.runs))

    def __len__(self) -> int:
        return sum(map(len, self.parts)) if self.stored is None else self.stored.num_scores

    def count_of(self, label: bool, score: float) -> int:
        """Return how many cases of a class have this score; merges nothing. O(log n)."""
        return self.parts[0 if label else 1].count_of(score)

    def total_of(self, label: bool) -> int:
        """Return how many cases of a class there are; opens nothing."""
        if self.stored is not None:
            return self.stored.total(label)
        return self.parts[0 if label else 1].total

    @property
    def max_len(self) -> int:
        """The length, or a bound of it that costs less. O(1)."""
        return sum(run.max_len for run in self.parts)

    @property
    def total(self) -> int:
        """How many cases there are."""
        return self.total_of(True) + self.total_of(False)

    def ranks(self) -> tuple[IntArray, IntArray | None]:
        """Return how many negatives are above, and tied with, each distinct positive score.

        Returns
        -------
        above : int64[n]
            Negatives whose score is higher, for each score of the positives, best first.
        tied : int64[n] or None
            Negatives whose score is the same; None when no score has both.

        Notes
        -----
        O(n log m), cached. A merge of few scores updates the cache in O(n).
        """
        ranks = self._ranks
        if ranks is None:
            ranks = self._ranks = _ranks(*self.parts)
        return ranks

    @property
    def unit(self) -> int:
        """What one case of weight 1 counts. O(1)."""
        return WEIGHT_UNITS if self.has_weights else 1

    @property
    def known_ranks(self) -> tuple[IntArray, IntArray | None] | None:
        """What `ranks` returns, once it is computed. O(1)."""
        return self._ranks

    def keep_ranks(self, ranks: tuple[IntArray, IntArray | None] | None) -> None:
        """Take ranks that were computed otherwise; None drops them. O(1)."""
        self._ranks = ranks

    def num_distinct(self) -> int:
        """Return how many distinct scores there are over both classes. O(n log m)."""
        shorter, longer = sorted((run.scores for run in self.runs), key=len)
        return shorter.size + longer.size - int(np.count_nonzero(locate(longer, shorter)[1]))

    def merged(self, change: ScoreCounts) -> ScoreCounts:
        """Return these with the signed counts of `change` added. O(n + d).

        Raises
        ------
        NegativeCountError
            When a score would be left with a negative count, or with sums of weights that no
            cases have.
        """
        if self.has_weights or change.has_weights:
            positives, negatives = self.runs
            return ScoreCounts(
                _require_possible(positives.merged(change.positives), change.positives),
                _require_possible(negatives.merged(change.negatives), change.negatives),
            )
        if self._ranks is None or not _is_update_cheaper(self, change):
            positives, negatives = self.runs
            return ScoreCounts(
                _require_positive(positives.merged(change.positives)),
                _require_positive(negatives.merged(change.negatives)),
            )
        # Ranks that are updated need no scores of negatives.
        positives, layers = self.parts
        places = locate(positives.scores, change.positives.scores)
        after = ScoreCounts(
            _require_positive(positives.merged_at(change.positives, *places)),
            _require_positive(with_added(layers, change.negatives)),
        )
        if after.positives.scores.size:
            after._ranks = _updated_ranks(self, change, after, places)
        return after

    def _check(self) -> None:
        """Assert all invariants. O(n log n)."""
        for part in (*self.parts, *self.runs):
            part._check()
        assert self.total < MAX_TOTAL, self.total
        if self._ranks is not None:
            above, tied = self._ranks
            fresh_above, fresh_tied = _ranks(self.positives, self.negatives)
            assert np.array_equal(above, fresh_above), (above, fresh_above)
            if tied is None or fresh_tied is None:
                assert tied is None or not tied.any(), tied
                assert fresh_tied is None, fresh_tied
            else:
                assert np.array_equal(tied, fresh_tied), (tied, fresh_tied)


def _require_positive(run: _Part) -> _Part:
    """Return the run if every count is at least 1, else raise."""
    if isinstance(run, LayeredRun):
        return run  # cases were only added
    if run.counts is not None and run.counts.size and run.counts.min() < 1:
        raise NegativeCountError(float(run.scores[np.argmax(run.counts < 1)]))
    return run


def _require_possible(run: Run, change: Run) -> Run:
    """Return the sum of a signed change if its scores are left with sums that cases have.

    O(n), O(d log n) more for a change that removes d scores.
    """
    if change.cases.min(initial=1) < 1:
        run = run.weighed()
        for score in change.scores.tolist():
            if not run.sums_of(score).is_possible():
                raise NegativeCountError(score)
    return run


def _ranks(positives: Run, negatives: Run | LayeredRun) -> tuple[IntArray, IntArray | None]:
    if isinstance(negatives, Run):
        below, tied = _ranks_in(positives, negatives, negatives.cumulative())
    else:
        added = negatives.added
        below, tied = _ranks_in(positives, negatives.base, negatives.below)
        more_below, more_tied = _ranks_in(positives, added, added.cumulative())
        below = below + more_below
        tied = more_tied if tied is None else tied if more_tied is None else tied + more_tied
    above = negatives.total - below[::-1]
    if tied is None:
        return above, None
    tied = np.ascontiguousarray(tied[::-1])
    above -= tied
    return above, tied


def _ranks_in(
    positives: Run, negatives: Run, below: IntArray | None
) -> tuple[IntArray, IntArray | None]:
    """Return how many negatives are below, and tied with, each score of the positives, ascending.

    `below` is how many cases are before each index of the negatives.
    """
    at, present = locate(negatives.scores, positives.scores)
    if not present.any():
        return (at if below is None else below[at]), None
    tied = np.zeros(at.size, dtype=np.int64)
    tied[present] = 1 if negatives.counts is None else negatives.counts[at[present]]
    return (at if below is None else below[at]), tied


def _is_update_cheaper(counts: ScoreCounts, change: ScoreCounts) -> bool:
    """Return whether updating the ranks costs less than computing them again."""
    return len(change) * _MIN_RANK_UPDATE_RATIO < len(counts.positives)


def _updated_ranks(
    before: ScoreCounts,
    change: ScoreCounts,
    after: ScoreCounts,
    places: tuple[IntArray, BoolArray],
) -> tuple[IntArray, IntArray | None]:
    """Return the ranks after a small signed change, in a few passes over the positives.

    `places` says where the changed positives are among the positives before the change.
    """
    above, tied = before.ranks()
    old = before.positives.scores
    # From here on rows are counted from the best score, as ranks are.
    moved, counts = change.negatives.scores[::-1], change.negatives.multiplicities()[::-1]
    at, is_tied = locate(old, moved)
    starts = old.size - at  # every positive below a negative has that many more above it
    if is_tied.any():
        tied = np.zeros(old.size, dtype=np.int64) if tied is None else tied.copy()
        tied[starts[is_tied] - 1] += counts[is_tied]
    # Then the positive scores that are removed and added.
    at, is_old = places[0][::-1], places[1][::-1]
    added = change.positives.multiplicities()[::-1]
    held = 1 if before.positives.counts is None else before.positives.counts[at[is_old]]
    drop = old.size - 1 - at[is_old][added[is_old] == -held]
    at, fresh = old.size - at[~is_old], change.positives.scores[~places[1]]
    if drop.size:
        above = np.delete(above, drop)
        tied = None if tied is None else np.delete(tied, drop)
        at = at - np.searchsorted(drop, at)
        starts = starts - np.searchsorted(drop, starts)
    fresh_above, fresh_tied = _ranks(Run(fresh, None, fresh.size), after.parts[1])
    above = stepped(above, starts, counts, at, fresh_above)
    if tied is not None or fresh_tied is not None:
        tied = np.zeros(old.size - drop.size, dtype=np.int64) if tied is None else tied
        nothing = np.zeros(fresh.size, dtype=np.int64)
        tied = inserted(tied, at, nothing if fresh_tied is None else fresh_tied)
    return above, tied
