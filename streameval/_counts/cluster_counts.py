"""The cases of each group of clusters, with 8 bits of each score.

They stand beside an evaluator's whole counts, only for the variance between groups. A
score below 0 or above 1 keeps 8 significant bits; one in [0, 1] keeps 8 of its distance
from the nearer end. So the cells depend on the score alone, neither on the resolution nor
on the scale of the whole, and sums are the same in any order.

Memory: 18 B for each cell, group and class that has cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._counts.groups import Groups
from streameval._counts.resolution import quantise
from streameval._counts.run import NegativeCountError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray

CLUSTER_BITS = 8
"""Significant bits of a score that a group keeps."""

_NO_EDGES = np.empty(0)
_NO_CODES = np.empty(0, dtype=np.uint16)
_NO_COUNTS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterCounts:
    """Counts by cell, group and class, as a sorted table. Immutable.

    Attributes
    ----------
    num_groups : int
        G, how many groups keys are hashed into.
    edges : float64[n]
        The lower edge of each row's cell, ascending; -inf of misses.
    codes : uint16[n]
        Twice the group, plus 1 for positives; ascending within a cell.
    counts : int64[n]
        At least 1; below 0 in a change that removes.
    """

    num_groups: int
    edges: FloatArray = field(default_factory=lambda: _NO_EDGES)
    codes: npt.NDArray[np.uint16] = field(default_factory=lambda: _NO_CODES)
    counts: IntArray = field(default_factory=lambda: _NO_COUNTS)

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
        edges, index = np.unique(self.edges, return_inverse=True)
        size = edges.size
        cell = size - 1 - index
        columns = np.zeros((2, size), dtype=np.int64)
        np.add.at(columns, ((self.codes & 1).astype(np.int64), cell), self.counts)
        n, p = columns
        groups = Groups(
            scores=edges[::-1],
            p=p,
            n=n,
            tp=np.cumsum(p) - p,
            fp=np.cumsum(n) - n,
            missed_positives=0,
            missed_negatives=0,
            P=int(p.sum()),
            N=int(n.sum()),
        )
        return groups, cell

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
        return (
            self.num_groups == other.num_groups
            and np.array_equal(self.edges, other.edges)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.counts, other.counts)
        )

    def is_table(self) -> bool:
        """Return whether rows are ascending, in known groups, and at the edges of cells. O(n)."""
        edges, codes = self.edges, self.codes
        if np.isnan(edges).any() or np.isposinf(edges).any():
            return False
        rise = edges[1:] > edges[:-1]
        tied = (edges[1:] == edges[:-1]) & (codes[1:] > codes[:-1])
        return (
            bool((rise | tied).all())
            and int(codes.max(initial=0)) < 2 * self.num_groups
            and np.array_equal(edges, cluster_edges(edges))
            and not np.signbit(edges[edges == 0]).any()
        )

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
        assert self.edges.shape == self.codes.shape == self.counts.shape
        assert self.is_table(), (self.num_groups, self.edges, self.codes)
        assert (self.counts > 0).all(), self.counts


class ClusterRows(NamedTuple):
    """Cases that are not sorted yet, with their clusters.

    Attributes
    ----------
    scores : float64[n]
        -inf of misses.
    codes : uint16[n]
        As of `ClusterCounts`.
    counts : int64[n]
    """

    scores: FloatArray
    codes: npt.NDArray[np.uint16]
    counts: IntArray

    @classmethod
    def of(
        cls, labels: BoolArray, scores: FloatArray, counts: IntArray | None, groups: IntArray
    ) -> ClusterRows:
        """Return rows of cases; all arrays but `scores` are new. O(n)."""
        codes = (2 * groups + labels).astype(np.uint16)
        return cls(scores, codes, np.ones(scores.size, np.int64) if counts is None else +counts)


def counts_of_rows(num_groups: int, rows: Sequence[ClusterRows]) -> ClusterCounts:
    """Return the counts of rows in any number of parts. O(n log n)."""
    scores, codes, counts = (np.concatenate(column) for column in zip(*rows, strict=True))
    return _summed(num_groups, cluster_edges(scores), codes, counts)


def merge_clusters(tables: Sequence[ClusterCounts]) -> ClusterCounts:
    """Return the sum of signed counts in the same number of groups. O(n log n).

    Raises
    ------
    NegativeCountError
        When a count would be left negative.
    """
    if len(tables) == 1:
        return tables[0]
    merged = _summed(
        tables[0].num_groups,
        np.concatenate([each.edges for each in tables]),
        np.concatenate([each.codes for each in tables]),
        np.concatenate([each.counts for each in tables]),
    )
    if merged.counts.size and merged.counts.min() < 1:
        raise NegativeCountError(float(merged.edges[np.argmax(merged.counts < 1)]))
    return merged


def cluster_edges(scores: FloatArray) -> FloatArray:
    """Return the lower edge of each score's cell; -inf stays. O(n)."""
    inside = (scores >= 0) & (scores <= 1)
    if inside.all():
        return quantise(scores, CLUSTER_BITS, "probability")
    edges = np.full(scores.size, -np.inf)
    outside = np.isfinite(scores) & ~inside
    edges[inside] = quantise(scores[inside], CLUSTER_BITS, "probability")
    edges[outside] = quantise(scores[outside], CLUSTER_BITS)
    return edges


def _summed(
    num_groups: int, edges: FloatArray, codes: npt.NDArray[np.uint16], counts: IntArray
) -> ClusterCounts:
    """Return the table of these rows, without those that sum to 0."""
    order = np.lexsort((codes, edges))
    edges, codes, counts = edges[order], codes[order], counts[order]
    if edges.size:
        first = np.empty(edges.size, dtype=np.bool_)
        first[0] = True
        first[1:] = (edges[1:] != edges[:-1]) | (codes[1:] != codes[:-1])
        starts = np.flatnonzero(first)
        sums = np.add.reduceat(counts, starts)
        kept = sums != 0
        starts = starts[kept]
        edges, codes, counts = edges[starts], codes[starts], sums[kept]
    for column in (edges, codes, counts):
        column.flags.writeable = False
    return ClusterCounts(num_groups, edges, codes, counts)
