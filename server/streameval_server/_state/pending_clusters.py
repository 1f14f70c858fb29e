"""Changes of a slice's counts by groups of clusters that are not merged into its state yet.

Each piece is a sorted table, which the accumulators of the whole and of a pane share. Pieces
are merged once they have more rows than the last merge left: so a row is merged O(log n) times
at most, and the memory is bounded by that of the counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from streameval._counts import CLUSTER_ROW_BYTES, ClusterCounts, merge_clusters

_MIN_PENDING_ROWS = 16_384
"""Pending rows that are always allowed, however few the last merge left."""

_MAX_PENDING_RATIO = 2
"""Pending rows allowed for each row that the last merge left."""

_PIECE_BYTES = 512
"""Memory of a piece besides its rows."""

MAX_BYTES_PER_ROW = 2 * CLUSTER_ROW_BYTES
"""By how much a row makes a slice grow at most: its row of a piece, and of the slice's table."""

EMPTY_BYTES = 2 * _PIECE_BYTES
"""Memory of an empty table with a piece."""


@dataclass(frozen=True, slots=True)
class PendingClusters:
    """Tables of counts that are to be added to a state's. Immutable.

    Attributes
    ----------
    pieces : tuple of ClusterCounts
    num_rows : int
        Rows of all pieces.
    num_merged : int
        Rows of the first piece, if it is a merged one.
    """

    pieces: tuple[ClusterCounts, ...] = ()
    num_rows: int = 0
    num_merged: int = 0

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound: a shared piece counts for each owner. O(1)."""
        return self.num_rows * CLUSTER_ROW_BYTES + _PIECE_BYTES * len(self.pieces)

    def added(self, piece: ClusterCounts) -> PendingClusters:
        """Return them with one more table. Amortised O(rows log rows)."""
        pieces = (*self.pieces, piece)
        num_rows = self.num_rows + piece.counts.size
        allowed = max(_MIN_PENDING_ROWS, _MAX_PENDING_RATIO * self.num_merged)
        if num_rows - self.num_merged <= allowed:
            return PendingClusters(pieces, num_rows, self.num_merged)
        merged = merge_clusters(pieces)
        return PendingClusters((merged,), merged.counts.size, merged.counts.size)

    def add_to(self, clusters: ClusterCounts) -> ClusterCounts:
        """Return a state's counts with all of them added. O(rows)."""
        return merge_clusters([clusters, *self.pieces])


def table_bytes(table: ClusterCounts | None) -> int:
    """Return the memory of a state's counts by groups. O(1)."""
    return 0 if table is None else _PIECE_BYTES + table.counts.size * CLUSTER_ROW_BYTES
