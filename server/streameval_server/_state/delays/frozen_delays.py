"""How late labels come, as queries and checkpoints read it: at one moment, immutable.

Under the engine's lock nothing is summed: a pane's parts are handed over, and the first reader
sums them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval.statistics import DelayRows

if TYPE_CHECKING:
    from collections.abc import Sequence


class PaneRows:
    """The rows of one pane, [start_us, end_us), at one moment; summed when first read. Immutable.

    Parameters
    ----------
    start_us, end_us : int
    parts : sequence of DelayRows
        What the rows are summed from. Dropped after the first sum.
    """

    __slots__ = ("_rows", "end_us", "parts", "start_us")

    def __init__(self, start_us: int, end_us: int, parts: Sequence[DelayRows]) -> None:
        self.start_us = start_us
        self.end_us = end_us
        self.parts = parts
        self._rows: DelayRows | None = None

    @property
    def rows(self) -> DelayRows:
        """All rows, in their one order. O(n log n) the first time."""
        rows = self._rows
        if rows is None:
            # Two threads may both sum; their results are equal.
            rows = self._rows = DelayRows.sum_of(self.parts)
            self.parts = (rows,)
        return rows

    def merge(self) -> None:
        """Sum now, so that encoding is fast."""
        _ = self.rows

    def __call__(self) -> bytes:
        """Return the bytes, as a part of a checkpoint. O(rows)."""
        return self.rows.to_bytes()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FrozenDelays:
    """A stream's delays between two changes. Immutable.

    Attributes
    ----------
    panes : tuple of PaneRows
        Oldest first.
    """

    panes: tuple[PaneRows, ...]
