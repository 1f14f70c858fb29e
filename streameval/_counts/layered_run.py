"""A large run, and a small run of the cases added since; reading merges the two.

Of the negatives, most metrics need only how many rank below each positive; a few new cases
update these ranks (`multiset`). So the scores of a million negatives need not be copied for
each thousand new ones: new cases are merged with the small run. The small run is merged with
the large one when it has grown to a sixteenth of it, or when the scores themselves are read.

Cost: O(d log d + k) to add d scores to a small run of k; O(n) for each n/16 scores added, or
when the scores are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streameval._counts.run import Run, locate

if TYPE_CHECKING:
    from streameval._common.arrays import IntArray

_MIN_BASE_SCORES = 1 << 16
"""A smaller run is copied at once: that takes less time than what the layers cost."""

_MIN_BASE_RATIO = 16
"""The added scores are merged once the large run is less than this many times longer."""


class Layers(NamedTuple):
    """A run in two parts.

    Attributes
    ----------
    base : Run
        The large one.
    added : Run
        The cases added since; some scores may be in both.
    below : int64[n + 1] or None
        How many cases of the base are before each index; None if all its counts are 1.
    """

    base: Run
    added: Run
    below: IntArray | None


class LayeredRun(Run):
    """A run whose scores and counts are merged when they are first read. Immutable.

    Examples
    --------
    >>> large = Run.of(np.arange(100_000.0))
    >>> run = with_added(large, Run.of(np.array([7.0, 7.5])))
    >>> len(run), run.total, run.count_of(7.0), run.is_merged
    (100001, 100002, 2, False)
    >>> run.scores.size, run.is_merged
    (100001, True)
    """

    __slots__ = ("_layers", "_size")

    _layers: Layers | None
    _size: int | None
    """How many distinct scores there are; None until that is first asked for."""

    @classmethod
    def of_layers(cls, layers: Layers) -> LayeredRun:
        """Return the run of two layers. O(1)."""
        run = cls.__new__(cls)
        object.__setattr__(run, "_layers", layers)
        object.__setattr__(run, "_size", None)
        object.__setattr__(run, "sums", None)
        object.__setattr__(run, "total", layers.base.total + layers.added.total)
        return run

    @property
    def layers(self) -> Layers | None:
        """The two layers; None once they are merged."""
        return self._layers

    @property
    def is_merged(self) -> bool:
        """Whether the scores were read."""
        return self._layers is None

    def __getattr__(self, name: str) -> Any:
        """Merge the layers when the scores or counts are first read. O(n)."""
        if name not in {"scores", "counts"}:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        layers = self._layers
        if layers is not None:
            # Two threads may both merge; their results are equal.
            merged = layers.base.merged(layers.added)
            object.__setattr__(self, "scores", merged.scores)
            object.__setattr__(self, "counts", merged.counts)
            object.__setattr__(self, "_layers", None)
        return object.__getattribute__(self, name)

    def __len__(self) -> int:
        """Return how many distinct scores there are. O(d log n) once, for d added ones."""
        layers, size = self._layers, self._size
        if layers is None:
            return super().__len__()
        if size is None:
            found = locate(layers.base.scores, layers.added.scores)[1]
            size = len(layers.base) + len(layers.added) - int(np.count_nonzero(found))
            object.__setattr__(self, "_size", size)
        return size

    @property
    def max_len(self) -> int:
        """A bound of how many distinct scores there are; searches and merges nothing."""
        layers = self._layers
        return super().max_len if layers is None else len(layers.base) + len(layers.added)

    def above(self, score: float) -> int:
        """Return how many cases have at least this score; merges nothing."""
        layers = self._layers
        if layers is None:
            return super().above(score)
        return layers.base.above(score) + layers.added.above(score)

    def count_of(self, score: float) -> int:
        """Return how many cases have this score. O(log n)."""
        layers = self._layers
        if layers is None:
            return super().count_of(score)
        return layers.base.count_of(score) + layers.added.count_of(score)

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
        size, total = len(self), self.total
        super()._check()
        assert (size, total) == (self.scores.size, self.multiplicities().sum()), (size, total)


def with_added(run: Run, change: Run) -> Run:
    """Return the sum of a run and a small change, in layers if that pays. O(d log d + k).

    Raises nothing for a change that removes cases: the caller checks the counts of a run that
    is not layered.
    """
    layers = run.layers if isinstance(run, LayeredRun) else None
    removes = change.counts is not None and change.counts.size and change.counts.min() < 1
    if removes or not len(change):
        return run.merged(change)
    base, added, below = layers or Layers(run, Run.EMPTY, None)
    together = added.merged(change)
    if len(base) < max(_MIN_BASE_SCORES, _MIN_BASE_RATIO * len(together)):
        return base.merged(together)
    if layers is None:
        below = base.cumulative()
    return LayeredRun.of_layers(Layers(base, together, below))
