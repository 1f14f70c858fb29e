"""What every query reads: one revision's counts, and what was computed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from streameval._counts.cumulative import CumulativeCounts
    from streameval._counts.groups import Groups
    from streameval._counts.resolution import Scale

T = TypeVar("T")


class View(Protocol):
    """The counts at one revision: immutable, sorted; answers are cached with it."""

    @property
    def revision(self) -> int:
        """How many mutations it includes."""

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
        """What the bits are counted of."""

    @property
    def P(self) -> int:
        """All positives, misses included."""

    @property
    def N(self) -> int:
        """All negatives, misses included."""

    @property
    def groups(self) -> Groups:
        """The tied groups that hold positives; computed once."""

    @property
    def cumulative(self) -> CumulativeCounts:
        """The counts above each threshold; computed once."""

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what `compute` gave the first time it was asked for `key`."""


class Queries:
    """Base of the facets that make up an evaluator's queries."""

    def _view(self) -> View:
        raise NotImplementedError
