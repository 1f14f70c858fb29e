"""Memory of the rows that a stream has collected and not counted yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval_server._state.row_growth import growth_bytes, panes_in, span_of

if TYPE_CHECKING:
    from streameval._row_codec import EventTimes
    from streameval_server._state.pane_store import PaneStore


class CollectedRows:
    """What rows of a stream that are not counted yet take, now and once they are counted.

    Batches only add up how many rows there are. What these may grow is computed when the memory is
    read, which is far rarer.
    """

    __slots__ = ("_first_us", "_has_effects", "_keys", "_last_us", "_row_bytes", "_rows")

    def __init__(self) -> None:
        self._rows = self._row_bytes = self._keys = 0
        self._first_us, self._last_us = 1 << 62, 0
        self._has_effects = False

    def add(
        self, rows: int, keys: int, event_us: EventTimes, nbytes: int, *, has_effects: bool
    ) -> None:
        """Take rows: how many, of how many keys, and their times. O(1), O(rows) with times."""
        self._rows += rows
        self._row_bytes += nbytes
        self._keys = max(self._keys, keys)
        self._has_effects |= has_effects
        first_us, last_us = span_of(event_us)
        self._first_us = min(self._first_us, first_us)
        self._last_us = max(self._last_us, last_us)

    @property
    def span_us(self) -> tuple[int, int]:
        """The first and the last time of any row. O(1)."""
        return self._first_us, self._last_us

    def memory_bytes(self, store: PaneStore) -> int:
        """Return an upper bound of both. O(panes).

        Parameters
        ----------
        store : PaneStore
            Where the rows will be counted.
        """
        if not self._rows:
            return 0
        first_us = max(self._first_us, store.oldest_us)
        num_panes, parts = store.places_of(first_us, self._last_us)
        growth = growth_bytes(
            self._rows,
            self._keys,
            slices=store.num_slices if self._keys else 0,
            panes=panes_in(first_us, self._last_us, store.panes.tiers[0].width_us),
            existing=(len(store.slices) - 1, num_panes, parts),
            has_effects=self._has_effects,
            has_clusters=store.has_clusters,
        )
        # Counting replaces the columns.
        return max(self._row_bytes, growth)
