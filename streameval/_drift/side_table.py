"""The sums of all sides for many rows at once: rows are counted by band, bands are summed.

A value depends on the band of a row's score and on what the row is, for all sides but the
residual. So rows are counted in cells of both, and one product of matrices makes the sums of
every side. All sums are integers below 2**53, which float64 adds exactly in any order.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._drift.band_index import BandIndex
from streameval._drift.watches import UNITS, Rows, side_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._drift.reference import Bands
    from streameval._drift.watches import Population, Side

CLUSTER_GROUPS: Final = 64
"""Clusters are hashed into this many groups, a bit each, to count those of a pane."""

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
        """Return those of no rows."""
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
        self._index = BandIndex(bands.edges)
        self._num_bands = bands.edges.size + 1
        # The lowest score of each band: that of the first only has to lie below all edges.
        lowest = np.append(bands.edges[:1] - 1, bands.edges) if bands.edges.size else np.zeros(1)
        counted, values = [], []
        for kind in RowKind:
            labels = np.full(self._num_bands, kind in {RowKind.POSITIVE, RowKind.POSITIVE_CASE})
            rows = Rows(
                None if kind == RowKind.PREDICTION else labels,
                lowest,
                np.arange(self._num_bands),
                is_prediction=kind in _PREDICTIONS,
            )
            found = [side_values(side, rows, threshold, bands.tables) for side in sides]
            counted.append(np.column_stack([each for each, _ in found]))
            values.append(np.column_stack([each for _, each in found]))
        self._counted: BoolArray = np.concatenate(counted)
        self._values = np.where(self._counted, np.concatenate(values), 0).astype(np.float64)
        self._residuals = [at for at, side in enumerate(sides) if side.value == "residual"]
        self._sides = sides
        self.num_sides = len(sides)
        self._populations: dict[Population, list[int]] = {}
        for at, side in enumerate(sides):
            self._populations.setdefault(side.population, []).append(at)

    @property
    def num_cells(self) -> int:
        """Pairs of a kind and a band."""
        return len(RowKind) * self._num_bands

    def codes(self, rows: DriftRows) -> IntArray:
        """Return the cell of each row. O(n)."""
        codes = self._index.of(rows.scores)
        codes += rows.kinds.astype(np.int64) * self._num_bands
        return codes

    def sums(
        self, rows: DriftRows, codes: IntArray, places: IntArray | None, number: int
    ) -> PaneSums:
        """Return the sums of rows by their places, [number, sides]. O(n + number).

        Parameters
        ----------
        rows : DriftRows
        codes : int64[n]
            From `codes`.
        places : int64[n] or None
            From 0 to `number` - 1; None where all are 0.
        number : int
        """
        at = codes if places is None else places * self.num_cells + codes
        cells = np.bincount(at, rows.counts, minlength=number * self.num_cells)
        table = cells.reshape(number, self.num_cells).astype(np.float64)
        sums = (table @ self._values).astype(np.int64)
        counts = (table @ self._counted.astype(np.float64)).astype(np.int64)
        if self._residuals:
            self._add_residuals(rows, places, sums, counts)
        found = PaneSums(sums, counts, np.zeros(sums.shape, dtype=np.uint64))
        if rows.groups is not None:
            self._add_groups(rows, places, codes, found.groups)
        return found

    def _add_residuals(
        self, rows: DriftRows, places: IntArray | None, sums: IntArray, counts: IntArray
    ) -> None:
        """Set the sums of residuals, which depend on the score itself."""
        residuals = _LABELS[rows.kinds]
        residuals -= rows.scores
        residuals += 1
        residuals *= UNITS / 2
        units = np.rint(residuals, out=residuals)
        units *= (
            _HAS_LABEL[rows.kinds]
            if rows.counts is None
            else (_HAS_LABEL[rows.kinds] * rows.counts)
        )
        if places is None:
            total = np.array([units.sum()]).astype(np.int64)
        else:
            total = np.bincount(places, units, minlength=sums.shape[0]).astype(np.int64)
        for at in self._residuals:
            mirrored = self._sides[at].is_mirrored
            sums[:, at] = counts[:, at] * UNITS - total if mirrored else total

    def _add_groups(
        self,
        rows: DriftRows,
        places: IntArray | None,
        codes: IntArray,
        groups: npt.NDArray[np.uint64],
    ) -> None:
        """Set the bits of the clusters' groups of each population."""
        assert rows.groups is not None
        at = rows.groups if places is None else places * CLUSTER_GROUPS + rows.groups
        size = groups.shape[0] * CLUSTER_GROUPS
        for sides in self._populations.values():
            weights = self._counted[codes, sides[0]].astype(np.float64)
            if rows.counts is not None:
                weights *= rows.counts
            is_there = np.bincount(at, weights, minlength=size).reshape(-1, CLUSTER_GROUPS) > 0
            bits = np.packbits(is_there, axis=1, bitorder="little").view(np.dtype("<u8"))
            groups[:, sides] = bits


_PREDICTIONS = frozenset({RowKind.PREDICTION, RowKind.NEGATIVE_CASE, RowKind.POSITIVE_CASE})

# By kind: the label, and whether there is one.
_LABELS = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
_HAS_LABEL = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
