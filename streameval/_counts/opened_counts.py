"""The closed counts that are open: at most so large together, the oldest closed first.

Closed counts are opened when they are read, and their next reader finds them open. What
has not been closed by then is bounded here, for all counts of the process. Closing is safe at
any time: a reader keeps the counts that it holds, and the next one opens them again.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol


class Open(Protocol):
    """Counts that are open."""

    def close(self) -> None:
        """Keep the closed form alone. O(1)."""


_CELL_BYTES = 16
"""Memory of an open cell: its score and its multiplicity."""

_STATE_CELLS = 48
"""Cells that take as much as the objects and heads of arrays of one state's open counts."""

MAX_OPEN_CELLS = 1 << 20
"""Cells of all open counts, with those for each state; the newest may exceed it alone."""


class OpenedCounts:
    """The states that are open, in the order in which they were opened. Any thread may call it.

    Parameters
    ----------
    max_cells : int
        The most that all may have together, with `_STATE_CELLS` for each state.
    """

    def __init__(self, max_cells: int) -> None:
        self._max_cells = max_cells
        self._counts: deque[tuple[Open, int]] = deque()
        self._cells = 0
        self._lock = threading.Lock()

    @property
    def memory_bytes(self) -> int:
        """Memory of open counts, an upper bound. O(1)."""
        return _CELL_BYTES * self._cells

    def add(self, counts: Open, cells: int) -> None:
        """Note that counts were opened; close the oldest beyond the limit. Amortised O(1)."""
        closed = []
        cells += _STATE_CELLS
        with self._lock:
            self._counts.append((counts, cells))
            self._cells += cells
            while self._cells > self._max_cells and len(self._counts) > 1:
                oldest, size = self._counts.popleft()
                self._cells -= size
                closed.append(oldest)
        for each in closed:
            each.close()


OPENED = OpenedCounts(MAX_OPEN_CELLS)
"""Those of this process."""
