"""The sums of all sides for many rows at once: rows are counted by band, bands are summed.

A value depends on the band of a row's score and on what the row is, for all sides but the
residual. So rows are counted in cells of both, and one product of matrices makes the sums of
every side. All sums are integers below 2**53, which float64 adds exactly in any order.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._counts.cell_layout import cell_keys
from streameval._counts.resolution import quantise
from streameval._drift.band_index import INDEX_BYTES, BandIndex, KeyIndex
from streameval._drift.cell_residuals import MAX_TABLE_BITS, CellResiduals, cell_residuals
from streameval._drift.watches import UNITS, WatchRows, residual_units, side_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._drift.reference import Bands
    from streameval._drift.watches import Side

CLUSTER_GROUPS: Final = 64
"""Clusters are hashed into this many groups, a bit each; a pane's set bits count as its
clusters."""

MAX_MULTIPLICITY: Final = 1 << 16
"""A row that stands for more cases counts as this many, so that no sum can overflow."""


BYTES_A_MEAN: Final = 24
"""Memory of the sums of one side of one part of a pane."""


class RowKind(enum.IntEnum):
    """What a row is."""

    PREDICTION = 0
    """A score whose label comes later."""
    NEGATIVE = 1
    """A label of a prediction that was counted before."""
    POSITIVE = 2
    NEGATIVE_CASE = 3
    """A prediction with its label."""
    POSITIVE_CASE = 4


class DriftRows(NamedTuple):
    """Rows in the order of their arrival.

    Attributes
    ----------
    kinds : uint8[n]
        `RowKind` of each.
    scores : float64[n]
    counts : int64[n] or None
        How many identical rows each stands for, at most `MAX_MULTIPLICITY`; -1 takes one back.
        None where each is 1.
    groups : int64[n] or None
        The group of each row's cluster, below `CLUSTER_GROUPS`.
    """

    kinds: npt.NDArray[np.uint8]
    scores: FloatArray
    counts: IntArray | None = None
    groups: IntArray | None = None

    def take(self, chosen: IntArray | slice) -> DriftRows:
        """Return some of the rows. O(n)."""
        return DriftRows(
            self.kinds[chosen],
            self.scores[chosen],
            None if self.counts is None else self.counts[chosen],
            None if self.groups is None else self.groups[chosen],
        )


class CellCases(NamedTuple):
    """Cases whose scores are known as cells of the probability scale.

    Attributes
    ----------
    labels : bool[n]
    keys : int64[n]
        `cell_keys` of the scores; not changed.
    counts, groups
        As of `DriftRows`.
    """

    labels: BoolArray
    keys: IntArray
    counts: IntArray | None = None
    groups: IntArray | None = None

    def take(self, chosen: IntArray | slice) -> CellCases:
        """Return some of the cases. O(n)."""
        return CellCases(
            self.labels[chosen],
            self.keys[chosen],
            None if self.counts is None else self.counts[chosen],
            None if self.groups is None else self.groups[chosen],
        )


class CodedRows(NamedTuple):
    """Rows as a `SideTable` sums them.

    Attributes
    ----------
    codes : int16[n]
        The pair of kind and band of each.
    residuals : float64[n] or uint16[n] or None
        In units, times the row's count; 0 without a label. None where they are not watched.
    counts, groups
        As of `DriftRows`.
    """

    codes: npt.NDArray[np.int16]
    residuals: FloatArray | npt.NDArray[np.uint16] | None
    counts: IntArray | None
    groups: IntArray | None

    def take(self, chosen: IntArray) -> CodedRows:
        """Return some of the rows. O(n)."""
        return CodedRows(
            self.codes[chosen],
            None if self.residuals is None else self.residuals[chosen],
            None if self.counts is None else self.counts[chosen],
            None if self.groups is None else self.groups[chosen],
        )


class PaneSums(NamedTuple):
    """The rows of one pane, by part (the whole first, then segments) and side.

    Attributes
    ----------
    sums : int64[parts, sides]
        Of values, in units.
    counts : int64[parts, sides]
        Of rows.
    groups : uint64[parts, sides]
        The groups of clusters that rows are in, a bit each; 0 where none are declared.
    """

    sums: IntArray
    counts: IntArray
    groups: npt.NDArray[np.uint64]

    @classmethod
    def empty(cls, *shape: int) -> PaneSums:
        """Return sums over no rows."""
        return cls(
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.uint64),
        )

    def independent(self, has_clusters: bool) -> IntArray:
        """Return how many independent observations each mean is of: clusters, or rows."""
        if not has_clusters:
            return self.counts
        octets = np.ascontiguousarray(self.groups)[..., None].view(np.uint8)
        numbers: IntArray = np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.int64)
        return numbers


class SideTable:
    """Which sides count a row, and with which value, by its kind and band.

    Parameters
    ----------
    sides : sequence of Side
    bands : Bands
        With an edge at the threshold, where there is one.
    threshold : float
        Infinite without one.
    """

    def __init__(self, sides: Sequence[Side], bands: Bands, threshold: float) -> None:
        self._edges = bands.edges
        self._index: BandIndex | None = None
        self._key_index: KeyIndex | None = None
        self._cell_residuals: CellResiduals | None = None
        self._num_bands = bands.edges.size + 1
        # The lowest score of each band; the first one's only has to lie below all edges.
        lowest = np.append(bands.edges[:1] - 1, bands.edges) if bands.edges.size else np.zeros(1)
        populations = list(dict.fromkeys(side.population for side in sides))
        self._population_of = np.array([populations.index(side.population) for side in sides])
        counted, values = [], []
        for kind in RowKind:
            labels = np.full(self._num_bands, kind in {RowKind.POSITIVE, RowKind.POSITIVE_CASE})
            rows = WatchRows(
                None if kind == RowKind.PREDICTION else labels,
                lowest,
                np.arange(self._num_bands),
                is_prediction=kind in _PREDICTIONS,
            )
            found = [side_values(side, rows, threshold, bands.tables) for side in sides]
            counted.append(np.column_stack([each for each, _ in found]))
            values.append(np.column_stack([each for _, each in found]))
        is_counted = np.concatenate(counted)
        first_sides = [self._population_of.tolist().index(at) for at in range(len(populations))]
        self._counted: BoolArray = is_counted[:, first_sides]
        # As small as they are exact: a server has tables of thousands of streams.
        self._values = np.where(is_counted, np.concatenate(values), 0).astype(np.uint16)
        self._residuals = [at for at, side in enumerate(sides) if side.value == "residual"]
        self._sides = sides

    @property
    def num_sides(self) -> int:
        """Means that are watched, companions included."""
        return len(self._sides)

    @property
    def num_cells(self) -> int:
        """Pairs of a kind and a band."""
        return len(RowKind) * self._num_bands

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(1)."""
        return 2 * INDEX_BYTES + self._values.nbytes + self._counted.nbytes

    def index_cells(self, resolution: int) -> bool:
        """Prepare for cases as cells of the probability scale; return whether they can be read.

        They can where each band's edge is a cell's edge, and residuals have a table. O(1) but
        for the first table of a resolution.
        """
        if not 1 <= resolution <= MAX_TABLE_BITS:
            return False
        edges = self._edges
        if edges.size and not (
            edges[0] >= 0
            and edges[-1] <= 1
            and np.array_equal(quantise(edges, resolution, "probability"), edges)
        ):
            return False
        self._key_index = KeyIndex(cell_keys(edges, "probability"))
        self._cell_residuals = cell_residuals(resolution) if self._residuals else None
        return True

    def coded(self, rows: DriftRows) -> CodedRows:
        """Return rows as they are summed. O(n)."""
        if self._index is None:
            self._index = BandIndex(self._edges)
        codes = self._index.of(rows.scores)
        codes += rows.kinds.astype(np.int16) * np.int16(self._num_bands)
        residuals = None
        if self._residuals:
            residuals = residual_units(_LABELS[rows.kinds], rows.scores)
            times = _HAS_LABEL[rows.kinds]
            residuals *= times if rows.counts is None else times * rows.counts
        return CodedRows(codes, residuals, rows.counts, rows.groups)

    def coded_cells(self, cases: CellCases) -> CodedRows:
        """Return cases, after `index_cells`, as they are summed: at their cells' edges. O(n)."""
        assert self._key_index is not None
        codes = self._key_index.of(cases.keys)
        codes += np.int16(RowKind.NEGATIVE_CASE * self._num_bands)
        codes += np.multiply(cases.labels, self._num_bands, dtype=np.int16)
        residuals: FloatArray | npt.NDArray[np.uint16] | None = None
        if self._cell_residuals is not None:
            residuals = self._cell_residuals.of(cases.keys, cases.labels)
            if cases.counts is not None:
                residuals = residuals.astype(np.float64) * cases.counts
        return CodedRows(codes, residuals, cases.counts, cases.groups)

    def sums(self, rows: CodedRows, places: IntArray | None, number: int) -> PaneSums:
        """Return the sums of rows by their places, [number, sides]. O(n + number).

        Parameters
        ----------
        rows : CodedRows
        places : int64[n] or None
            From 0 to `number` - 1; None where all are 0.
        number : int
        """
        at = rows.codes if places is None else places * self.num_cells + rows.codes
        cells = np.bincount(at, rows.counts, minlength=number * self.num_cells)
        table = cells.reshape(number, self.num_cells).astype(np.float64)
        sums = (table @ self._values.astype(np.float64)).astype(np.int64)
        sizes = (table @ self._counted.astype(np.float64)).astype(np.int64)
        counts = sizes[:, self._population_of]
        if self._residuals:
            self._set_residuals(rows, places, sums, counts)
        found = PaneSums(sums, counts, np.zeros(sums.shape, dtype=np.uint64))
        if rows.groups is not None:
            self._add_groups(rows, places, found.groups)
        return found

    def _set_residuals(
        self, rows: CodedRows, places: IntArray | None, sums: IntArray, counts: IntArray
    ) -> None:
        """Set the sums of residuals, which depend on the score itself."""
        assert rows.residuals is not None
        if places is None:
            total = np.array([rows.residuals.sum()]).astype(np.int64)
        else:
            weights = np.bincount(places, rows.residuals, minlength=sums.shape[0])
            total = weights.astype(np.int64)
        for at in self._residuals:
            mirrored = self._sides[at].is_mirrored
            sums[:, at] = counts[:, at] * UNITS - total if mirrored else total

    def _add_groups(
        self,
        rows: CodedRows,
        places: IntArray | None,
        groups: npt.NDArray[np.uint64],
    ) -> None:
        """Set the bits of the clusters' groups of each population."""
        assert rows.groups is not None
        at = rows.groups if places is None else places * CLUSTER_GROUPS + rows.groups
        size = groups.shape[0] * CLUSTER_GROUPS
        for population, is_counted in enumerate(self._counted.T):
            weights = is_counted[rows.codes].astype(np.float64)
            if rows.counts is not None:
                weights *= rows.counts
            is_there = np.bincount(at, weights, minlength=size).reshape(-1, CLUSTER_GROUPS) > 0
            bits = np.packbits(is_there, axis=1, bitorder="little").view(np.dtype("<u8"))
            groups[:, self._population_of == population] = bits


_PREDICTIONS = frozenset({RowKind.PREDICTION, RowKind.NEGATIVE_CASE, RowKind.POSITIVE_CASE})

# By kind: the label, and whether there is one.
_LABELS = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
_HAS_LABEL = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
