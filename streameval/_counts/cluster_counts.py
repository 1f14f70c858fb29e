"""The cases of each group of clusters, in the cells of `cluster_cells`.

An evaluator keeps them in addition to its whole counts, for the variance between groups alone.

Memory: 18 B for each cell, group and class that has cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from streameval._counts.cluster_cells import cluster_edges
from streameval._counts.groups import Groups
from streameval._counts.run import NegativeCountError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray

_MAX_CHEAP_WIDTH = 1 << 16
"""Places of cell, group and class that are counted in a table, however few rows there are."""

_MAX_PLACES_PER_ROW = 8
"""Places for each row above which rows are sorted instead."""

_NO_EDGES = np.empty(0)
_NO_CODES = np.empty(0, dtype=np.uint16)
_NO_COUNTS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterCounts:
    """Counts by cell, group and class, as a sorted table. Immutable.

    Attributes
    ----------
    num_groups : int
        G, how many groups keys are hashed into; 0 where no clusters are declared, and then the
        table stays empty.
    edges : float64[n]
        The lower edge of each row's cell, ascending; -inf of misses.
    codes : uint16[n]
        Twice the group, plus 1 for positives; ascending within a cell.
    counts : int64[n]
        At least 1; below 0 in a change that removes.
    """

    DEFAULT_GROUPS: ClassVar = 32
    """Where the key of clusters is named, and no number of groups."""
    ROW_BYTES: ClassVar = 18
    """Memory of a row of the table."""
    TABLE_BYTES: ClassVar = 512
    """Memory of a table with groups besides its rows."""

    num_groups: int
    edges: FloatArray = field(default_factory=lambda: _NO_EDGES)
    codes: npt.NDArray[np.uint16] = field(default_factory=lambda: _NO_CODES)
    counts: IntArray = field(default_factory=lambda: _NO_COUNTS)

    @property
    def row_bytes(self) -> int:
        """Memory that one more case takes at most. O(1)."""
        return self.ROW_BYTES if self.num_groups else 0

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(1)."""
        return (self.TABLE_BYTES if self.num_groups else 0) + self.counts.size * self.ROW_BYTES

    @property
    def groups(self) -> IntArray:
        """The group of each row."""
        return (self.codes >> 1).astype(np.int64)

    @property
    def is_positive(self) -> BoolArray:
        """The class of each row."""
        positive: BoolArray = (self.codes & 1).astype(np.bool_)
        return positive

    def cells(self) -> tuple[Groups, IntArray]:
        """Return every cell of all groups together, best first, and the cell of each row. O(n)."""
        edges, rows = self.distinct_edges()
        size = edges.size
        cell = size - 1 - np.repeat(np.arange(size), rows)
        columns = np.zeros((2, size), dtype=np.int64)
        np.add.at(columns, ((self.codes & 1).astype(np.int64), cell), self.counts)
        n, p = columns
        return Groups.of_cells(edges[::-1], p, n), cell

    def distinct_edges(self) -> tuple[FloatArray, IntArray]:
        """Return the edges without repetitions, and how many rows each has. O(n)."""
        if not self.edges.size:
            return self.edges, np.empty(0, dtype=np.int64)
        starts = np.concatenate(([0], np.flatnonzero(self.edges[1:] != self.edges[:-1]) + 1))
        return self.edges[starts], np.diff(starts, append=self.edges.size)

    def total(self, label: bool, *, missed: bool) -> int:
        """Return how many cases of a class are scored, or missed. O(n)."""
        rows = (self.is_positive == label) & (np.isinf(self.edges) == missed)
        return int(self.counts[rows].sum())

    def negated(self) -> ClusterCounts:
        """Return the counts with the other sign, to be subtracted."""
        return ClusterCounts(self.num_groups, self.edges, self.codes, -self.counts)

    def times(self, weight: int) -> ClusterCounts:
        """Return the counts times a weight."""
        return ClusterCounts(self.num_groups, self.edges, self.codes, self.counts * weight)

    def same_content(self, other: ClusterCounts) -> bool:
        """Return whether both have the same counts in as many groups. O(n)."""
        return self is other or (
            self.num_groups == other.num_groups
            and np.array_equal(self.edges, other.edges)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.counts, other.counts)
        )

    def is_table(self) -> bool:
        """Return whether rows are ascending, in known groups, and at the edges of cells. O(n)."""
        edges, codes = self.edges, self.codes
        if not edges.size:
            return True
        if np.isnan(edges).any() or np.isposinf(edges).any():
            return False
        rise = edges[1:] > edges[:-1]
        tied = (edges[1:] == edges[:-1]) & (codes[1:] > codes[:-1])
        return (
            bool((rise | tied).all())
            and int(codes.max()) < 2 * self.num_groups
            and np.array_equal(edges, cluster_edges(edges))
            and not np.signbit(edges[edges == 0]).any()
        )

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
        assert self.edges.shape == self.codes.shape == self.counts.shape
        assert self.is_table(), (self.num_groups, self.edges, self.codes)
        assert (self.counts > 0).all(), self.counts


NO_CLUSTERS = ClusterCounts(0)
"""The table where no clusters are declared."""


def counts_of_cells(
    num_groups: int,
    edges: FloatArray,
    ranks: npt.NDArray[np.integer],
    codes: npt.NDArray[np.uint16],
    counts: IntArray | None,
) -> ClusterCounts:
    """Return the counts of rows whose cells are known. O(n), O(n log n) of few or odd scores.

    Parameters
    ----------
    num_groups : int
    edges, ranks
        The distinct edges of cells, ascending, and the cell of each row.
    codes : uint16[n]
        As of `ClusterCounts`.
    counts : int64[n] or None
        None for 1; rows that sum to 0 are left out.
    """
    width = 2 * num_groups
    place = ranks.astype(np.int64) * width + codes
    if _is_sparse(edges.size * width, place.size):
        return _sorted_table(num_groups, edges, place, counts)
    if counts is None:
        sums = np.bincount(place, minlength=edges.size * width)
    else:
        sums = np.zeros(edges.size * width, dtype=np.int64)
        np.add.at(sums, place, counts)
    return _table(num_groups, edges, np.flatnonzero(sums != 0), sums)


def merge_clusters(tables: Sequence[ClusterCounts]) -> ClusterCounts:
    """Return the sum of signed counts in the same number of groups. O(n), at most O(n log n).

    Raises
    ------
    NegativeCountError
        When a count would be left negative.
    """
    tables = [tables[0], *(table for table in tables[1:] if table.counts.size)]
    if len(tables) == 1:
        return tables[0]
    num_groups = tables[0].num_groups
    width = 2 * num_groups
    distinct = [table.distinct_edges() for table in tables]
    edges = np.unique(np.concatenate([each for each, _ in distinct]))
    # Made one at a time: all of them take half as much again as the tables.
    places = (
        np.repeat(np.searchsorted(edges, own) * width, rows) + table.codes
        for table, (own, rows) in zip(tables, distinct, strict=True)
    )
    num_rows = sum(table.counts.size for table in tables)
    if _is_sparse(edges.size * width, num_rows):
        counts = np.concatenate([table.counts for table in tables])
        merged = _sorted_table(num_groups, edges, np.concatenate(list(places)), counts)
    else:
        sums = np.zeros(edges.size * width, dtype=np.int64)
        for place, table in zip(places, tables, strict=True):
            sums[place] += table.counts  # a table has a place once
        merged = _table(num_groups, edges, np.flatnonzero(sums != 0), sums)
    if merged.counts.size and merged.counts.min() < 1:
        raise NegativeCountError(float(merged.edges[np.argmax(merged.counts < 1)]))
    return merged


def _is_sparse(num_places: int, num_rows: int) -> bool:
    return num_places > max(_MAX_CHEAP_WIDTH, _MAX_PLACES_PER_ROW * num_rows)


def _sorted_table(
    num_groups: int, edges: FloatArray, place: IntArray, counts: IntArray | None
) -> ClusterCounts:
    """Return the table of rows by their place, by a sort. O(n log n)."""
    places, inverse = np.unique(place, return_inverse=True)
    sums = np.zeros(places.size, dtype=np.int64)
    np.add.at(sums, inverse, 1 if counts is None else counts)
    kept = sums != 0
    return _table(num_groups, edges, places[kept], sums[kept], is_dense=False)


def _table(
    num_groups: int, edges: FloatArray, places: IntArray, sums: IntArray, *, is_dense: bool = True
) -> ClusterCounts:
    """Return the table of ascending places; the sums are of each place, or of all if dense."""
    width = 2 * num_groups
    cells = places // width
    columns = (
        edges[cells],
        (places - cells * width).astype(np.uint16),
        sums[places] if is_dense else sums,
    )
    for column in columns:
        column.flags.writeable = False
    return ClusterCounts(num_groups, *columns)
