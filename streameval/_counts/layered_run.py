"""A large run, and a small run of the cases added since; reading merges the two.

Of the negatives, most metrics need only how many rank below each positive; a few new cases
update these ranks (`multiset`). So the scores of a million negatives need not be copied for
each thousand new ones: new cases are merged with the small run. The small run is merged with
the large one when it has grown to a sixteenth of it, or when the scores themselves are read.

Cost: O(d log d + k) to add d scores to a small run of k; O(n) for each n/16 scores added, or
when the scores are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.run import Run, locate

if TYPE_CHECKING:
    from streameval._common.arrays import IntArray

_MIN_BASE_SCORES = 1 << 16
"""A smaller run is copied at once: that takes less time than what the layers cost."""

_MIN_BASE_RATIO = 16
"""The added scores are merged once the large run is less than this many times longer."""


@dataclass(slots=True, eq=False)
class LayeredRun:
    """A run in two parts, which are merged when its scores are read. Immutable.

    Attributes
    ----------
    base : Run
        The large one.
    added : Run
        The cases added since; some scores may be in both.
    below : int64[n + 1] or None
        How many cases of the base are before each index; None if all its counts are 1.

    Examples
    --------
    >>> large = Run.of(np.arange(100_000.0))
    >>> run = with_added(large, Run.of(np.array([7.0, 7.5])))
    >>> len(run), run.total, run.count_of(7.0)
    (100001, 100002, 2)
    >>> run.whole().scores.size
    100001
    """

    base: Run
    added: Run
    below: IntArray | None
    _size: int | None = None
    """How many distinct scores there are; None until that is first asked for."""

    def whole(self) -> Run:
        """Return the run. O(n)."""
        return self.base.merged(self.added)

    @property
    def total(self) -> int:
        """The sum of the counts. O(1)."""
        return self.base.total + self.added.total

    def __len__(self) -> int:
        """Return how many distinct scores there are. O(d log n) once, for d added ones."""
        if self._size is None:
            found = locate(self.base.scores, self.added.scores)[1]
            self._size = self.max_len - int(np.count_nonzero(found))
        return self._size

    @property
    def max_len(self) -> int:
        """A bound of how many distinct scores there are; searches nothing."""
        return len(self.base) + len(self.added)

    def above(self, score: float) -> int:
        """Return how many cases have at least this score. O(log n), O(n) with counts."""
        return self.base.above(score) + self.added.above(score)

    def count_of(self, score: float) -> int:
        """Return how many cases have this score. O(log n)."""
        return self.base.count_of(score) + self.added.count_of(score)

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
        whole = self.whole()
        whole._check()
        assert (len(self), self.total) == (len(whole), whole.total)


def with_added(run: Run | LayeredRun, change: Run) -> Run | LayeredRun:
    """Return the sum of a run and a small change, in layers if that pays. O(d log d + k).

    Raises nothing for a change that removes cases: the caller checks the counts of a run that
    is not layered.
    """
    if not len(change):
        return run
    layers = run if isinstance(run, LayeredRun) else LayeredRun(run, Run.EMPTY, None)
    base, added = layers.base, layers.added
    if change.counts is not None and change.counts.min() < 1:
        return base.merged(added).merged(change)
    together = added.merged(change)
    if len(base) < max(_MIN_BASE_SCORES, _MIN_BASE_RATIO * len(together)):
        return base.merged(together)
    return LayeredRun(base, together, layers.below if layers is run else base.cumulative())
