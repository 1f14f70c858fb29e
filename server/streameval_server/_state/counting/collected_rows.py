"""Rows that a stream has collected and not counted yet, and their memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from streameval.kernel import UnsortedCases
from streameval_server._state.memory import growth_bytes, panes_in, span_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval_server._model.arrays import EventTimes, IntArray
    from streameval_server._state.counting.pane_store import PaneStore
    from streameval_server._state.segments import SegmentColumns

_OVERHEAD_BYTES = 1_024
"""Memory of timed cases besides their columns."""

_COLUMN_BYTES = 256
"""Memory of a segment column besides its codes."""


@dataclass(frozen=True, slots=True, eq=False)
class TimedCases:
    """Cases to be counted, with their times and segments.

    Attributes
    ----------
    cases : UnsortedCases
    event_us : int or int64[n]
        One time for all rows, or the time of each.
    segments : tuple of SegmentColumns
        Their segments, batch after batch; empty when the stream has no segment keys.
    """

    cases: UnsortedCases
    event_us: int | IntArray
    segments: tuple[SegmentColumns, ...] = ()

    @property
    def nbytes(self) -> int:
        """Memory. O(batches and keys)."""
        total = _OVERHEAD_BYTES + self.cases.nbytes
        if not isinstance(self.event_us, int):
            total += self.event_us.nbytes
        for batch in self.segments:
            for column in batch.columns:
                if column is not None:
                    total += column[1].nbytes + _COLUMN_BYTES
        return total

    @classmethod
    def concat(cls, parts: Sequence[TimedCases], common_us: int | None = None) -> TimedCases:
        """Join cases, at least one part. O(n).

        `common_us`, if given, replaces all their times: a caller whose cases are in one pane may
        do so, because times within a pane count alike.
        """
        event_us = parts[0].event_us if common_us is None else common_us
        if common_us is None and any(part.event_us is not event_us for part in parts):
            event_us = _event_times(parts)
        return cls(
            UnsortedCases.concat([part.cases for part in parts]),
            event_us,
            tuple(chain.from_iterable(part.segments for part in parts)),
        )


def _event_times(parts: Sequence[TimedCases]) -> int | IntArray:
    """Return the times of all rows; most batches have one time for all of their rows."""
    sizes = [len(part.cases) for part in parts]
    if all(isinstance(part.event_us, int) for part in parts):
        return np.repeat(np.array([part.event_us for part in parts], dtype=np.int64), sizes)
    return np.concatenate(
        [np.broadcast_to(part.event_us, size) for part, size in zip(parts, sizes, strict=True)]
    )


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
