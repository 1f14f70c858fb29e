"""Counts at one moment that are merged when they are first read."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from streameval._counts.merge import merge_states

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval._counts.state import State

_MERGED_LOCK = threading.Lock()
"""Held while merged counts get their state: the one that is packed is the one that stays."""


class LazyCounts:
    """Counts at one moment, merged when first read. Immutable.

    Parameters
    ----------
    source
        What the counts are merged from. It is dropped after the first merge, so that counts
        are in memory once: as they arrived, or merged.
    merge : callable
        Returns the counts of a source.
    """

    __slots__ = ("__weakref__", "_merge", "_source", "_state")

    def __init__(self, source: Any, merge: Callable[[Any], State]) -> None:
        self._source = source
        self._merge = merge
        self._state: State | None = None

    @property
    def state(self) -> State:
        """The counts, always the same object. O(cells) the first time."""
        # Two threads may both merge; the first one's state is kept. The source is dropped after
        # the state is there, so a reader that misses one finds the other.
        if self._state is None and (source := self._source) is not None:
            merged = self._merge(source)
            with _MERGED_LOCK:
                if self._state is None:
                    self._state = merged
            self._source = None
        assert self._state is not None
        return self._state

    @property
    def source(self) -> Any:
        """What the counts are merged from; None once they are merged."""
        return self._source

    def merge(self) -> None:
        """Merge the counts now, unless they are merged."""
        _ = self.state

    @classmethod
    def sum(cls, parts: Sequence[LazyCounts]) -> LazyCounts:
        """Return the sum of counts at one moment."""
        return cls(parts, _sum)


def _sum(parts: Sequence[LazyCounts]) -> State:
    return merge_states([part.state for part in parts], revision=0)
