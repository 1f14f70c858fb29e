"""The panes that are not observed yet: exact sums of values, in any order of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, IntArray

CLUSTER_GROUPS = 64
"""Clusters are hashed into this many groups, a bit each, to count those of a pane."""

_MAX_CELLS = 1 << 20
"""The most sums that one batch of rows makes at a time."""


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

    def independent(self, has_clusters: bool) -> IntArray:
        """Return how many independent observations each mean is of: clusters, or rows."""
        if not has_clusters:
            return self.counts
        octets = np.ascontiguousarray(self.groups)[..., None].view(np.uint8)
        numbers: IntArray = np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.int64)
        return numbers


class OpenPanes:
    """Sums by pane. Rows are added in any order; panes are taken in the order of time."""

    def __init__(self, parts: int, sides: int) -> None:
        self._shape = (parts, sides)
        self._panes: dict[int, PaneSums] = {}

    def items(self) -> list[tuple[int, PaneSums]]:
        """Return the panes that have rows, oldest first."""
        return sorted(self._panes.items())

    def pane(self, index: int) -> PaneSums:
        """Return a pane's sums, which may be changed."""
        found = self._panes.get(index)
        if found is None:
            found = self._panes[index] = PaneSums(
                np.zeros(self._shape, dtype=np.int64),
                np.zeros(self._shape, dtype=np.int64),
                np.zeros(self._shape, dtype=np.uint64),
            )
        return found

    def add(
        self,
        panes: IntArray,
        parts: Sequence[IntArray],
        sides: Sequence[tuple[BoolArray, IntArray]],
        groups: IntArray | None,
    ) -> None:
        """Add the values of rows. O(n log n x parts x sides).

        Parameters
        ----------
        panes : int64[n]
            The pane of each row.
        parts : sequence of int64[n]
            The parts that each row belongs to; below 0 is none.
        sides : sequence of (bool[n], int64[n])
            Of each side: which rows it counts, and their values.
        groups : int64[n] or None
            The group of each row's cluster.
        """
        distinct, places = np.unique(panes, return_inverse=True)
        step = max(1, _MAX_CELLS // (self._shape[0] * self._shape[1]))
        for start in range(0, distinct.size, step):
            some = distinct[start : start + step]
            chosen = np.flatnonzero((places >= start) & (places < start + some.size))
            table = self._table(
                places[chosen] - start,
                some.size,
                [part[chosen] for part in parts],
                [(counted[chosen], values[chosen]) for counted, values in sides],
                None if groups is None else groups[chosen],
            )
            for index, *columns in zip(some.tolist(), *table, strict=True):
                pane = self.pane(index)
                pane.sums[:] += columns[0]
                pane.counts[:] += columns[1]
                pane.groups[:] |= columns[2]

    def _table(
        self,
        places: IntArray,
        number: int,
        parts: Sequence[IntArray],
        sides: Sequence[tuple[BoolArray, IntArray]],
        groups: IntArray | None,
    ) -> PaneSums:
        """Return the sums of rows for each of some panes, [panes, parts, sides]."""
        shape = (number, *self._shape)
        table = PaneSums(
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.uint64),
        )
        size = number * self._shape[0]
        for part in parts:
            for side, (counted, values) in enumerate(sides):
                rows = np.flatnonzero(counted & (part >= 0))
                at = places[rows] * self._shape[0] + part[rows]
                # Sums of integers below 2**53 are exact in float64.
                sums = np.bincount(at, values[rows], minlength=size).astype(np.int64)
                table.sums[..., side] += sums.reshape(shape[:2])
                table.counts[..., side] += np.bincount(at, minlength=size).reshape(shape[:2])
                if groups is not None:
                    bits = np.left_shift(np.uint64(1), groups[rows].astype(np.uint64))
                    cells = np.zeros(size, dtype=np.uint64)
                    np.bitwise_or.at(cells, at, bits)
                    table.groups[..., side] |= cells.reshape(shape[:2])
        return table

    def take_before(self, index: int) -> list[tuple[int, PaneSums]]:
        """Remove and return the panes before one, oldest first. O(panes log panes)."""
        due = sorted(each for each in self._panes if each < index)
        return [(each, self._panes.pop(each)) for each in due]
