"""Counts by groups of clusters in a dense table: one addition per case, no merge.

The table has a row for each cell in use, and in it a place for each group and class. It is
refused where it would take more memory than the sorted table that its cases may make.

Cost: 20 ns a case, and a copy of the table for each addition, which should have many cases.
Memory: 4 B a place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts import CLUSTER_ROW_BYTES, UnsortedCases, counts_of_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common import FloatArray
    from streameval._counts import ClusterCounts

_MAX_CASES = 1 << 30
"""Maximum number of cases in a table: int32 counts, which take half the cache of int64 ones."""

MAX_BYTES_PER_CASE = 2 * CLUSTER_ROW_BYTES
"""Memory of a table at most, for each of its cases."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusterTable:
    """Counts by cell, group and class. Immutable.

    Attributes
    ----------
    num_groups : int
    edges : float64[n]
        The lower edge of each cell, ascending.
    sums : int32[n, 2 num_groups]
        Cases by cell, and by twice the group, plus 1 for positives.
    num_cases : int
    """

    num_groups: int
    edges: FloatArray
    sums: npt.NDArray[np.int32]
    num_cases: int = 0

    @classmethod
    def empty(cls, num_groups: int) -> ClusterTable:
        """Return a table without cases."""
        return cls(num_groups, np.empty(0), np.zeros((0, 2 * num_groups), dtype=np.int32))

    @property
    def nbytes(self) -> int:
        """Memory of the table. O(1)."""
        return self.edges.nbytes + self.sums.nbytes

    def added(self, cases: UnsortedCases) -> ClusterTable | None:
        """Return the table with more cases; None to refuse them. O(n + places)."""
        num_cases = self.num_cases + len(cases)
        if cases.counts is not None or num_cases > _MAX_CASES:
            return None
        own, ranks = cases.coarse_cells()
        edges = _union(self.edges, own)
        width = 2 * self.num_groups
        row_bytes = edges.itemsize + width * self.sums.itemsize
        if edges.size * row_bytes > MAX_BYTES_PER_CASE * num_cases:
            return None
        sums = np.zeros((edges.size, width), dtype=np.int32)
        sums[np.searchsorted(edges, self.edges)] = self.sums
        places = (np.searchsorted(edges, own) * width)[ranks]
        places += cases.cluster_codes()
        np.add.at(sums.reshape(-1), places, np.int32(1))
        return ClusterTable(self.num_groups, edges, sums, num_cases)

    def counts(self) -> ClusterCounts:
        """Return the counts as a sorted table. O(places)."""
        return counts_of_table(self.num_groups, self.edges, self.sums)


def _union(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return what is in either of two ascending arrays. O(n)."""
    both = np.concatenate((one, other))
    both.sort(kind="stable")  # of two ascending arrays it is a merge
    kept = np.ones(both.size, dtype=np.bool_)
    np.not_equal(both[1:], both[:-1], out=kept[1:])
    return both[kept]
