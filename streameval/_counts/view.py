"""The protocol that every query reads: one revision's counts, with cached answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from streameval._counts.cluster_counts import ClusterCounts
    from streameval._counts.cumulative import CumulativeCounts
    from streameval._counts.groups import Groups
    from streameval._counts.multiset import ScoreCounts
    from streameval._counts.resolution import Scale

T = TypeVar("T")


class View(Protocol):
    """The counts at one revision: immutable, sorted, with a cache of answers."""

    @property
    def revision(self) -> int:
        """How many mutations it includes."""

    @property
    def unit(self) -> int:
        """What one case of weight 1 counts: 1 where no case has another weight."""

    @property
    def weighted(self) -> ScoreCounts | None:
        """The counts, with sums of weights and squares; None where every case weighs 1."""

    @property
    def min_label_probability(self) -> float | None:
        """The least probability with which a case is labelled; None if it is not declared."""

    @property
    def missed_positives(self) -> int:
        """Positive references that were never scored."""

    @property
    def missed_negatives(self) -> int:
        """Negative references that were never scored."""

    @property
    def resolution(self) -> int | None:
        """Significant bits of a score that are kept; None keeps all."""

    @property
    def scale(self) -> Scale:
        """Whether bits are counted from 0 only, or from both 0 and 1."""

    @property
    def P(self) -> int:
        """All positives, misses included."""

    @property
    def N(self) -> int:
        """All negatives, misses included."""

    @property
    def clusters(self) -> ClusterCounts:
        """The counts of each group of clusters; of no groups where none are declared."""

    @property
    def groups(self) -> Groups:
        """The tied groups that have positives; computed once."""

    @property
    def cumulative(self) -> CumulativeCounts:
        """The counts above each threshold; computed once."""

    def above(self, threshold: float) -> tuple[int, int]:
        """Return how many positives and negatives a threshold calls positive."""

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached answer for `key`, computing it on the first call."""


class Queries:
    """Base class of the facets: each adds one family of queries to an evaluator."""

    def _view(self) -> View:
        raise NotImplementedError
