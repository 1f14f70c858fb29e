"""The counts of a sum as the table in which they were added, for further sums.

A window adds the sum of its unchanged panes to the changed pane again and again, and seldom
reads that sum. Kept as a table it is added without laying out its scores again, and the
whole then has its ranks without a search. A reader opens it like packed counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from streameval._counts.cell_sums import CellSums
    from streameval._counts.multiset import ScoreCounts
    from streameval._counts.resolution import Scale

_OBJECT_BYTES = 480
"""Memory besides the table itself: the object, its layout, the head of the array."""


class TableCounts:
    """All scored cases, in a table over the cells' numbers. Immutable.

    Parameters
    ----------
    sums : CellSums
        The table; never change it.
    scale : {"plain", "probability"}

    Examples
    --------
    >>> from streameval._counts.cell_sums import CellSums
    >>> from streameval._counts.multiset import ScoreCounts
    >>> from streameval._counts.run import Run
    >>> counts = ScoreCounts(Run.of(np.array([0.5, 0.75])), Run.of(np.array([0.5])))
    >>> table = TableCounts(CellSums.of([counts, counts], 2, "plain"), "plain")
    >>> table.num_scores, table.total(True), table.open().negatives.counts
    (3, 4, array([2]))
    """

    __slots__ = ("_scale", "_size", "_totals", "sums")

    def __init__(self, sums: CellSums, scale: Scale) -> None:
        self.sums = sums
        self._scale = scale
        self._size = int(np.count_nonzero(sums.sums != 0))
        self._totals: list[int] = sums.sums.sum(axis=1).tolist()

    @property
    def num_scores(self) -> int:
        """How many distinct scores there are, by class. O(1)."""
        return self._size

    @property
    def memory_bytes(self) -> int:
        """Memory. O(1)."""
        return _OBJECT_BYTES + self.sums.sums.nbytes

    def total(self, label: bool) -> int:
        """Return how many cases of a class there are. O(1)."""
        return self._totals[int(label)]

    def open(self) -> ScoreCounts:
        """Return the counts. O(width)."""
        return self.sums.counts(self._scale)
