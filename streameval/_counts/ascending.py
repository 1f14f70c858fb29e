"""The integers from 0 on, shared by all columns of ranks that are nothing else.

Where no positives tie, the true positives above each group are 0, 1, 2, ...: half a million of
them take as long to write into new memory as to compute a metric from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import IntArray

MAX_SHARED = 1 << 20
"""More than this are made for the caller alone: 8 MiB are kept at most."""


class _Shared:
    """The table: it only grows, and its values never change."""

    def __init__(self) -> None:
        self.table: IntArray = np.arange(0, dtype=np.int64)

    def first(self, size: int) -> IntArray:
        """Return the first `size` integers, a view of the table."""
        table = self.table
        if table.size < size:
            table = np.arange(min(2 * size, MAX_SHARED), dtype=np.int64)
            table.flags.writeable = False
            # Two threads may both make one; either serves.
            self.table = table
        return table[:size]


_SHARED = _Shared()


def ascending(size: int) -> IntArray:
    """Return 0, 1, ..., size - 1, read-only. O(1) once as many were asked for.

    Examples
    --------
    >>> ascending(3)
    array([0, 1, 2])
    """
    if size <= MAX_SHARED:
        return _SHARED.first(size)
    column = np.arange(size, dtype=np.int64)
    column.flags.writeable = False
    return column
