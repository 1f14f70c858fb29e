"""Cases of a slice that are not merged into its state's counts by groups of clusters yet.

Cases stay as they arrived until there are many, and are then counted together: in a dense
table, or, where that is refused, in a sorted piece. Pieces are merged once they have more than
twice the rows that the last merge left: so a row is merged O(log n) times at most. Above a fixed
minimum, the memory of pending cases is bounded by a multiple of the merged counts'.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streameval._counts import CLUSTER_ROW_BYTES, ClusterCounts, UnsortedCases, merge_clusters
from streameval_server._state.cluster_table import MAX_BYTES_PER_CASE, ClusterTable

_MIN_COUNTED_CASES = 16_384
"""Cases that are counted together."""

_MAX_ARRIVED = 64
"""Additions after which cases are joined, however few they are: each takes memory of its own."""

_MIN_PENDING_ROWS = 16_384
"""Rows of pieces that are always allowed, however few the last merge left."""

_MAX_PENDING_RATIO = 2
"""Rows of pieces allowed for each row that the last merge left."""

_PIECE_BYTES = 512
"""Memory of an addition, a piece or a table besides its rows."""

MAX_BYTES_PER_ROW = MAX_BYTES_PER_CASE
"""By how much a row makes a slice grow at most, in a table or in sorted rows."""

EMPTY_BYTES = 3 * _PIECE_BYTES
"""Memory of an addition and of a table without rows, and of the slice's own."""


@dataclass(frozen=True, slots=True)
class PendingClusters:
    """Cases that are to be added to a state's counts. Immutable.

    Attributes
    ----------
    arrived : tuple of UnsortedCases
        Not counted yet.
    num_arrived, arrived_bytes : int
        Cases of these, and their memory.
    table : ClusterTable or None
        Counted cases; None before the first.
    pieces : tuple of ClusterCounts
        Counted cases that the table refused.
    num_rows : int
        Rows of all pieces.
    num_merged : int
        Rows of the first piece, if it is a merged one.
    """

    arrived: tuple[UnsortedCases, ...] = ()
    num_arrived: int = 0
    arrived_bytes: int = 0
    table: ClusterTable | None = None
    pieces: tuple[ClusterCounts, ...] = ()
    num_rows: int = 0
    num_merged: int = 0

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound: shared cases count for each owner. O(1)."""
        heads = _PIECE_BYTES * (len(self.arrived) + len(self.pieces))
        table_bytes = 0 if self.table is None else _PIECE_BYTES + self.table.nbytes
        return heads + self.arrived_bytes + table_bytes + self.num_rows * CLUSTER_ROW_BYTES

    def added(self, cases: UnsortedCases, num_groups: int) -> PendingClusters:
        """Return them with more cases. Amortised O(cases), in pieces O(cases log cases)."""
        arrived = (*self.arrived, cases)
        if len(arrived) > _MAX_ARRIVED:
            arrived = (UnsortedCases.concat(arrived),)
        num_arrived = self.num_arrived + len(cases)
        if num_arrived >= _MIN_COUNTED_CASES:
            return self._counted(UnsortedCases.concat(arrived), num_groups)
        arrived_bytes = self.arrived_bytes + cases.nbytes
        return replace(self, arrived=arrived, num_arrived=num_arrived, arrived_bytes=arrived_bytes)

    def _counted(self, cases: UnsortedCases, num_groups: int) -> PendingClusters:
        """Return them with all that arrived counted. O(n + places), in pieces O(n log n)."""
        rest = replace(self, arrived=(), num_arrived=0, arrived_bytes=0)
        table = (self.table or ClusterTable.empty(num_groups)).added(cases)
        if table is not None:
            return replace(rest, table=table)
        piece = cases.by_cluster(num_groups)
        pieces, num_rows = (*self.pieces, piece), self.num_rows + piece.counts.size
        if num_rows - self.num_merged <= max(
            _MIN_PENDING_ROWS, _MAX_PENDING_RATIO * self.num_merged
        ):
            return replace(rest, pieces=pieces, num_rows=num_rows)
        merged = merge_clusters(pieces)
        size = merged.counts.size
        return replace(rest, pieces=(merged,), num_rows=size, num_merged=size)

    def add_to(self, clusters: ClusterCounts) -> ClusterCounts:
        """Return a state's counts with all of them added. O(rows + places)."""
        changes = [*self.pieces]
        if self.table is not None:
            changes.append(self.table.counts())
        if self.arrived:
            changes.append(UnsortedCases.concat(self.arrived).by_cluster(clusters.num_groups))
        return merge_clusters([clusters, *changes])


def table_bytes(table: ClusterCounts | None) -> int:
    """Return the memory of a state's counts by groups. O(1)."""
    return 0 if table is None else _PIECE_BYTES + table.counts.size * CLUSTER_ROW_BYTES
