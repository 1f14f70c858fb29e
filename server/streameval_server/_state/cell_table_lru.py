"""Which of a stream's counts are in tables: few, those that are being added to.

A pane is filled for its time and then left alone, so a table that nobody used for long
makes room for the next. Where more panes than these are filled in turn, the others do
without: to make a table and to take it apart again costs more than it saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streameval_server._state.accumulator import Accumulator

_MOST = 3
"""So many at a time: the whole's, and those of panes."""

_IDLE = 256
"""A table is left alone when it was not used in so many additions."""


class CellTableLru:
    """The cells that have tables, the one used last at the end."""

    def __init__(self) -> None:
        self._used: dict[Accumulator, int] = {}
        self._additions = 0
        self._taken_at = 0
        self._leaving: list[Accumulator] = []

    def admits(self, cells: Accumulator) -> bool:
        """Tell whether cells that are added to now may be counted in a table. O(1)."""
        self._additions += 1
        if cells in self._used or len(self._used) < _MOST:
            return True
        return self._additions - next(iter(self._used.values())) > _IDLE

    def note(self, cells: Accumulator) -> None:
        """Note that they are. O(1)."""
        self._used.pop(cells, None)
        self._used[cells] = self._additions
        if len(self._used) > _MOST:
            oldest = next(iter(self._used))
            del self._used[oldest]
            self._leaving.append(oldest)

    def leaving(self) -> list[Accumulator]:
        """Return those that had to make room, once."""
        left, self._leaving = self._leaving, []
        return left

    def take(self, but: Accumulator) -> list[Accumulator]:
        """Return all, once, but for one that was used since the last time."""
        kept = {but} if self._used.get(but, 0) > self._taken_at else set()
        left = [*self.leaving(), *(cells for cells in self._used if cells not in kept)]
        self._used = {cells: self._used[cells] for cells in kept}
        self._taken_at = self._additions
        return left
