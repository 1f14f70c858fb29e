"""Cases that are not merged yet, as they arrived: unsorted and at full precision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from streameval._counts.cell_layout import Span, cell_keys
from streameval._counts.cluster_cells import coarse_cells
from streameval._counts.cluster_counts import counts_of_cells
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run
from streameval._counts.weights import every_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.cluster_counts import ClusterCounts
    from streameval._counts.resolution import Scale

    CodeArray: TypeAlias = npt.NDArray[np.uint16]
    Columns: TypeAlias = tuple[npt.NDArray[Any] | None, ...]


@dataclass(slots=True, eq=False)
class UnsortedCases:
    """Cases as they arrived, at full precision. Never mutated.

    Attributes
    ----------
    labels : bool[n]
    scores : float64[n]
    counts : int64[n] or None
        The multiplicity of each, None for 1.
    units : int64[n] or None
        The weight of each in units of 2**-16, None where each weighs 1.
    clusters : uint16[n] or None
        The group of each one's cluster; None where the stream declares no clusters.
    """

    PIECE_BYTES: ClassVar = 640
    """Memory of one addition besides its rows: five objects, the heads of its arrays; measured."""

    labels: BoolArray
    scores: FloatArray
    counts: IntArray | None
    units: IntArray | None = None
    clusters: CodeArray | None = None
    _by_cluster: ClusterCounts | None = field(default=None, init=False, repr=False)
    _keys: dict[Scale, tuple[IntArray, Span]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def concat(cls, parts: Sequence[UnsortedCases]) -> UnsortedCases:
        """Join cases; return the same object when there is one part, never zero. O(n)."""
        if len(parts) == 1:
            return parts[0]
        counts = None
        if any(part.counts is not None for part in parts):
            counts = np.concatenate([part.multiplicities() for part in parts])
        units = None
        if any(part.units is not None for part in parts):
            units = np.concatenate([every_unit(part.units, len(part)) for part in parts])
        return cls(
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.scores for part in parts]),
            counts,
            units,
            _concatenated([part.clusters for part in parts]),
        )

    @property
    def _columns(self) -> Columns:
        return self.labels, self.scores, self.counts, self.units, self.clusters

    def take(self, rows: slice | BoolArray | IntArray) -> UnsortedCases:
        """Return some of the rows. O(rows)."""
        return UnsortedCases(*each_column(self._columns, lambda column: column[rows]))

    def copy(self) -> UnsortedCases:
        """Return a copy that is no view: a view keeps its whole base array in memory. O(n)."""
        return UnsortedCases(*each_column(self._columns, np.ndarray.copy))

    def __len__(self) -> int:
        return self.scores.size

    @property
    def nbytes(self) -> int:
        """Memory of the rows. O(1)."""
        return sum(each.nbytes for each in self._columns if each is not None)

    @property
    def has_weights(self) -> bool:
        """Whether the cases have weights. O(1)."""
        return self.units is not None

    def num_cases(self) -> tuple[int, int]:
        """Return how many negatives and positives have a weight above 0. O(n)."""
        counts = self.counts
        if self.units is not None:
            counts = self.multiplicities() * (self.units > 0)
        if counts is None:
            positives = int(np.count_nonzero(self.labels))
            return len(self) - positives, positives
        positives = int(counts[self.labels].sum())
        return int(counts.sum()) - positives, positives

    def num_units(self) -> int:
        """Return the sum of the weights, in units of 2**-16. O(n)."""
        return int((every_unit(self.units, len(self)) * self.multiplicities()).sum())

    def multiplicities(self) -> IntArray:
        """Return how many cases each row stands for. O(n)."""
        return np.ones(len(self), dtype=np.int64) if self.counts is None else self.counts

    def keys(self, scale: Scale) -> tuple[IntArray, Span]:
        """Return the scores' cell keys and their span. O(n) once; cached for several tables."""
        if scale not in self._keys:
            keys = cell_keys(self.scores, scale)
            self._keys[scale] = keys, Span.of(keys)
        return self._keys[scale]

    def by_cluster(self, num_groups: int) -> ClusterCounts:
        """Return the counts by groups of clusters. O(n) once; the parts of a stream share them."""
        if self._by_cluster is None:
            assert self.clusters is not None
            codes = self.clusters << np.uint16(1)
            codes |= self.labels
            cells = coarse_cells(self.scores)
            self._by_cluster = counts_of_cells(num_groups, *cells, codes, self.counts)
        return self._by_cluster

    def sorted(self) -> ScoreCounts:
        """Return the cases as sorted runs. O(n log n)."""
        classes = (self.take(np.flatnonzero(each)) for each in (self.labels, ~self.labels))
        return ScoreCounts(*(Run.of(each.scores, each.counts, each.units) for each in classes))


def each_column(columns: Columns, change: Callable[[npt.NDArray[Any]], Any]) -> list[Any]:
    """Return what becomes of each column; one that is not there stays None."""
    return [None if each is None else change(each) for each in columns]


def _concatenated(columns: Sequence[CodeArray | None]) -> CodeArray | None:
    """Return the columns of clusters as one: all parts of a stream have one, or none has."""
    found = [column for column in columns if column is not None]
    return np.concatenate(found) if found else None
