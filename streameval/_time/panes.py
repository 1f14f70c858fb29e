"""Time cut into panes: narrow at first, wider with age, dropped after retention.

A pane is half-open, [start, start + width), and starts at a multiple of its
width since 1970. The content of a pane can be anything that merges. The pane of a
time depends on now alone, so late data goes to the pane that early data went to,
and the order of arrival makes no difference.

Cost: finding a pane O(1); a new one O(1) at the end; advancing O(panes that change).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from streameval._common.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval._common.arrays import IntArray

_SECOND = 1_000_000
_HOUR = 3_600 * _SECOND
_DAY = 24 * _HOUR


class Mergeable(Protocol):
    """The content of a pane."""

    def merge(self, *others: Self) -> None:
        """Add the counts of others."""


T = TypeVar("T", bound=Mergeable)


class Tier(NamedTuple):
    """Panes of one width, from the next finer tier's age up to `until_us`."""

    width_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Where panes begin and end at one moment. Immutable.

    Attributes
    ----------
    tiers : tuple of Tier
        From `Grid.tiers_of`.
    edges : tuple of int
        The start of each tier, oldest first; the first is the oldest time that is kept.

    Examples
    --------
    >>> minute = 60 * 1_000_000
    >>> grid = Grid.at(Grid.tiers_of(minute, 30 * 24 * 60 * minute), 10_000 * 60 * minute)
    >>> grid.snapped(599_999 * minute + 5, 600_000 * minute) == (599_999 * minute, 600_000 * minute)
    True
    >>> (grid.end_of(599_000 * minute) - grid.start_of(599_000 * minute)) // minute
    60
    """

    tiers: tuple[Tier, ...]
    edges: tuple[int, ...]

    @staticmethod
    @lru_cache
    def tiers_of(pane_us: int, retention_us: int) -> tuple[Tier, ...]:
        """Return the tiers: `pane_us` for 3 h, 1 h for 7 d, then 1 d until retention.

        Raises
        ------
        InvalidInputError
            When panes do not nest, or retention is shorter than a pane.
        """
        if not (_HOUR % pane_us == 0 or (pane_us % _HOUR == 0 and _DAY % pane_us == 0)) and (
            pane_us % _DAY
        ):
            raise InvalidInputError(
                f"pane must divide an hour or a day, or be whole days, got {pane_us / _SECOND:g} s",
                field="pane",
            )
        if retention_us < pane_us:
            raise InvalidInputError(
                f"retention must be at least one pane, got {retention_us / _SECOND:g} s "
                f"for a pane of {pane_us / _SECOND:g} s",
                field="retention",
            )
        coarser = [Tier(_HOUR, 7 * _DAY), Tier(_DAY, retention_us)]
        tiers = [Tier(pane_us, 3 * _HOUR if pane_us < _HOUR else 7 * _DAY)]
        tiers += [tier for tier in coarser if tier.width_us > pane_us]
        while len(tiers) > 1 and tiers[-2].until_us >= retention_us:
            tiers.pop()
        return (*tiers[:-1], Tier(tiers[-1].width_us, retention_us))

    @classmethod
    def at(cls, tiers: tuple[Tier, ...], now_us: int) -> Self:
        """Return the grid at a time. O(tiers)."""
        edges = []
        for tier, coarser in zip(tiers, (*tiers[1:], tiers[-1]), strict=True):
            edges.append(max(0, (now_us - tier.until_us) // coarser.width_us * coarser.width_us))
        return cls(tiers, tuple(edges[::-1]))

    @property
    def oldest_us(self) -> int:
        """The earliest time that is kept."""
        return self.edges[0]

    @property
    def until_us(self) -> int:
        """When the next pane coarsens or expires; the grid is constant until then. O(tiers)."""
        coarser = (*self.tiers[1:], self.tiers[-1])
        return min(
            edge + above.width_us + tier.until_us
            for edge, tier, above in zip(reversed(self.edges), self.tiers, coarser, strict=True)
        )

    def width_at(self, time_us: int) -> int:
        """Return the width of the pane of a time, which must not be expired. O(tiers)."""
        finer = sum(time_us >= edge for edge in self.edges[1:])
        return self.tiers[len(self.tiers) - 1 - finer].width_us

    def start_of(self, time_us: int) -> int:
        """Return the start of the pane of a time. O(tiers)."""
        width = self.width_at(time_us)
        return time_us // width * width

    def end_of(self, time_us: int) -> int:
        """Return the end of the pane of a time. O(tiers)."""
        width = self.width_at(time_us)
        return time_us // width * width + width

    def starts_of(self, times_us: IntArray) -> IntArray:
        """Return the start of each time's pane. O(n tiers)."""
        widths = np.array([tier.width_us for tier in reversed(self.tiers)])
        width = widths[np.searchsorted(np.array(self.edges[1:]), times_us, side="right")]
        starts: IntArray = times_us // width * width
        return starts

    def snapped(self, start_us: int, end_us: int) -> tuple[int, int]:
        """Return [start, end) widened to whole panes. O(tiers)."""
        return self.start_of(start_us), self.end_of(end_us - 1)


@lru_cache
def _grid_at(tiers: tuple[Tier, ...], now_us: int) -> tuple[Grid, int]:
    """Return the grid at a time, and until when it is constant; many streams ask for the same."""
    grid = Grid.at(tiers, now_us)
    return grid, grid.until_us


@dataclass(frozen=True, slots=True)
class Pane(Generic[T]):
    """One pane, [start_us, end_us), and its content."""

    start_us: int
    width_us: int
    content: T

    @property
    def end_us(self) -> int:
        """The end, not included."""
        return self.start_us + self.width_us


class Panes(Generic[T]):
    """Panes in order of time.

    Parameters
    ----------
    tiers : tuple of Tier
        From `Grid.tiers_of`.
    make : callable
        Returns a new empty content.

    Attributes
    ----------
    now_us : int
        The latest time given to `advance`.
    grid : Grid
        The grid at that time.
    until_us : int
        When the next pane coarsens or expires.
    """

    __slots__ = (
        "_contents",
        "_make",
        "_starts",
        "grid",
        "now_us",
        "tiers",
        "until_us",
    )

    def __init__(self, tiers: tuple[Tier, ...], make: Callable[[], T]) -> None:
        self.now_us = 0
        self.tiers = tiers
        self._make = make
        self.grid, self.until_us = _grid_at(tiers, 0)
        self._contents: dict[int, T] = {}
        # Ascending. A `SortedDict` takes 1 KB in each stream, and to insert a number that is not
        # the newest among thousands takes microseconds.
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._contents)

    def __iter__(self) -> Iterator[Pane[T]]:
        """Yield the panes, oldest first."""
        for start in self._starts:
            yield Pane(start, self.grid.width_at(start), self._contents[start])

    def contents(self) -> list[T]:
        """Return the contents of the panes, oldest first. O(panes)."""
        return [self._contents[start] for start in self._starts]

    def grid_at(self, now_us: int) -> Grid:
        """Return the grid at this time or a later one. O(tiers)."""
        return self.grid if now_us < self.until_us else _grid_at(self.tiers, now_us)[0]

    def at(self, start_us: int) -> T:
        """Return the content of the pane that starts there, a new one if needed. O(1).

        O(panes) for a new one that is not the newest: a move of their starts.
        """
        content = self._contents.get(start_us)
        if content is None:
            content = self._make()
            self.put(start_us, content)
        return content

    def get(self, start_us: int) -> T | None:
        """Return the content of the pane that starts there, or None. O(1)."""
        return self._contents.get(start_us)

    def put(self, start_us: int, content: T) -> None:
        """Set or replace the content of the pane that starts there. As `at`."""
        if start_us not in self._contents:
            insort(self._starts, start_us)
        self._contents[start_us] = content

    def _starts_between(self, start_us: int, end_us: int) -> list[int]:
        """Return the starts of panes that start in [start, end). O(log panes + panes)."""
        starts = self._starts
        return starts[bisect_left(starts, start_us) : bisect_left(starts, end_us)]

    def between(self, start_us: int, end_us: int) -> list[Pane[T]]:
        """Return the panes that overlap [start, end), oldest first. O(log panes + panes)."""
        first = self.grid.start_of(max(start_us, self.grid.oldest_us))
        return [
            Pane(start, self.grid.width_at(start), self._contents[start])
            for start in self._starts_between(first, end_us)
        ]

    def advance(self, now_us: int) -> bool:
        """Advance to a time: coarsen and expire panes. Return whether any changed.

        O(panes that change). A time before `now_us` has no effect.
        """
        if now_us <= self.now_us:
            return False
        self.now_us = now_us
        if now_us < self.until_us:
            return False
        before = self.grid
        self.grid, self.until_us = _grid_at(self.tiers, now_us)
        expired = self._starts_between(0, self.grid.oldest_us)
        self._drop(expired)
        changed = bool(expired)
        aged = [
            start
            for old, new in zip(before.edges[1:], self.grid.edges[1:], strict=True)
            for start in self._starts_between(old, new)
        ]
        coarser: dict[int, list[int]] = {}
        for start in dict.fromkeys(aged):
            coarser.setdefault(self.grid.start_of(start), []).append(start)
        for start, members in coarser.items():
            contents = [self._contents[member] for member in members]
            self._drop(members)
            # A new content, because a reader may hold the old ones.
            merged = self._make()
            merged.merge(*contents)
            self.put(start, merged)
            changed = True
        return changed

    def _drop(self, starts: list[int]) -> None:
        """Drop panes that follow one another. O(panes)."""
        if starts:
            for start in starts:
                del self._contents[start]
            first = bisect_left(self._starts, starts[0])
            del self._starts[first : first + len(starts)]

    def _check(self) -> None:
        """Assert all invariants. O(panes)."""
        assert self._starts == sorted(self._contents)
        assert self.grid == Grid.at(self.tiers, self.now_us), self.now_us
        assert self.now_us < self.until_us == self.grid.until_us
        end = self.grid.oldest_us
        for pane in self:
            assert pane.start_us >= end, (pane, end)
            assert pane.start_us == self.grid.start_of(pane.start_us), pane
            assert pane.start_us % (pane.end_us - pane.start_us) == 0, pane
            end = pane.end_us
