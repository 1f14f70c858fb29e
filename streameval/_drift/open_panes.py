"""The panes that are not observed yet: exact sums of values, in any order of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._drift.side_table import BYTES_A_MEAN, PaneSums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import IntArray
    from streameval._drift.side_table import CodedRows, SideTable

_MAX_CELLS = 1 << 20
"""The most cells that one batch of rows makes at a time."""


class OpenPanes:
    """Sums by pane. Rows are added in any order; panes are taken in the order of time."""

    def __init__(self, parts: int, table: SideTable) -> None:
        self._shape = (parts, table.num_sides)
        self._table = table
        self._panes: dict[int, PaneSums] = {}

    def items(self) -> list[tuple[int, PaneSums]]:
        """Return the panes that have rows, oldest first."""
        return sorted(self._panes.items())

    @property
    def first(self) -> int | None:
        """The oldest pane that has rows. O(panes)."""
        return min(self._panes, default=None)

    @property
    def memory_bytes(self) -> int:
        """Memory of all panes. O(1)."""
        parts, sides = self._shape
        return len(self._panes) * parts * sides * BYTES_A_MEAN

    def pane(self, index: int) -> PaneSums:
        """Return a pane's sums, which may be changed."""
        found = self._panes.get(index)
        if found is None:
            found = self._panes[index] = PaneSums.empty(*self._shape)
        return found

    def add(
        self,
        rows: CodedRows,
        panes: IntArray | int,
        parts: Sequence[IntArray],
        own_part: int = 0,
        *,
        only_groups: bool = False,
    ) -> None:
        """Add the values of rows. O(n log n) for the whole and for each key of segments.

        Parameters
        ----------
        rows : CodedRows
            From the table.
        panes : int or int64[n]
            The pane of all rows, or of each.
        parts : sequence of int64[n]
            For each key of segments the part of each row; below 0 is none.
        own_part : int
            What all rows are part of: the whole, or a segment whose rows are in the whole already.
        only_groups : bool
            Whether rows tell the groups of clusters alone, and are no values.
        """
        if isinstance(panes, int):
            self._add_some(rows, np.array([panes]), None, parts, own_part)
            return
        order = np.argsort(panes, kind="stable")
        distinct, starts = np.unique(panes[order], return_index=True)
        ends = np.append(starts[1:], panes.size)
        step = max(1, _MAX_CELLS // (self._shape[0] * self._table.num_cells))
        for first in range(0, distinct.size, step):
            lengths = (ends - starts)[first : first + step]
            chosen = order[starts[first] : starts[first] + int(lengths.sum())]
            self._add_some(
                rows.take(chosen),
                distinct[first : first + step],
                np.repeat(np.arange(lengths.size), lengths),
                [part[chosen] for part in parts],
                own_part,
                only_groups=only_groups,
            )

    def _add_some(
        self,
        rows: CodedRows,
        panes: IntArray,
        places: IntArray | None,
        parts: Sequence[IntArray],
        own_part: int,
        *,
        only_groups: bool = False,
    ) -> None:
        """Add rows; `places` has the index of each row's pane in `panes`, None where all are 0."""
        table, width = self._table, self._shape[0]
        own = table.sums(rows, places, panes.size)
        if only_groups:
            own = own._replace(sums=np.zeros_like(own.sums), counts=np.zeros_like(own.counts))
        self._add_sums(panes, np.full_like(panes, own_part), own)
        for part in parts:
            inside = np.flatnonzero(part >= 0)
            at = part[inside] if places is None else places[inside] * width + part[inside]
            used = np.flatnonzero(np.bincount(at, minlength=panes.size * width))
            rank = np.zeros(panes.size * width, dtype=np.int64)
            rank[used] = np.arange(used.size)
            found = table.sums(rows.take(inside), rank[at], used.size)
            self._add_sums(panes[used // width], used % width, found)

    def _add_sums(self, panes: IntArray, parts: IntArray, found: PaneSums) -> None:
        """Add sums, each of one part of one pane."""
        for row, (index, part) in enumerate(zip(panes.tolist(), parts.tolist(), strict=True)):
            pane = self.pane(index)
            pane.sums[part] += found.sums[row]
            pane.counts[part] += found.counts[row]
            pane.groups[part] |= found.groups[row]

    def take_before(self, index: int) -> list[tuple[int, PaneSums]]:
        """Remove and return the panes before one, oldest first. O(panes log panes)."""
        due = sorted(each for each in self._panes if each < index)
        return [(each, self._panes.pop(each)) for each in due]
