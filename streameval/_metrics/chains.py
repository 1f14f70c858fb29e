"""Chains of points whose upper hull is wanted, read where they are needed.

The hull of a long chain reads one point in 32, and then all points of a few blocks (`hull`). A
curve's points are sums of its groups' counts, so only the points that are read are added up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from streameval._counts.exact import constant_of

if TYPE_CHECKING:
    from streameval._common.arrays import IntArray
    from streameval._counts.groups import Groups


class Chain(Protocol):
    """Points of which no column ever decreases, and no two are equal."""

    @property
    def size(self) -> int:
        """How many points there are."""
        ...

    def at(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return x and y of some points, at ascending rows. O(rows)."""
        ...

    def columns(self) -> tuple[IntArray, IntArray]:
        """Return x and y of all points. O(size)."""
        ...


class PointColumns(NamedTuple):
    """A chain that is given as two columns."""

    x: IntArray
    y: IntArray

    @property
    def size(self) -> int:
        """How many points there are."""
        return self.x.size

    def at(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return x and y of some points."""
        return self.x[rows], self.y[rows]

    def columns(self) -> tuple[IntArray, IntArray]:
        """Return x and y of all points."""
        return self.x, self.y


class Corners:
    """A curve's chain: (0, 0), false and true positives at the end of each group, and (N, P).

    Row r is the end of group r - 1. The last row is (N, P), once.
    """

    __slots__ = ("groups", "size")

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.size = groups.p.size + 2
        fp, tp = self.at(np.array([groups.p.size]))
        if fp[0] == groups.N and tp[0] == groups.P:
            self.size -= 1

    def at(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return x and y of some points."""
        groups = self.groups
        num_groups = groups.p.size
        first, last = np.searchsorted(rows, (1, num_groups + 1))
        x = np.zeros(rows.size, dtype=np.int64)
        y = np.zeros(rows.size, dtype=np.int64)
        x[first:last], y[first:last] = self._ends(rows[first:last] - 1)
        x[last:], y[last:] = groups.N, groups.P
        return x, y

    def columns(self) -> tuple[IntArray, IntArray]:
        """Return x and y of all points."""
        groups = self.groups
        num_groups = groups.p.size
        x = np.zeros(self.size, dtype=np.int64)
        y = np.zeros(self.size, dtype=np.int64)
        x[-1], y[-1] = groups.N, groups.P
        ends = slice(1, num_groups + 1)
        np.add(groups.fp, groups.n, out=x[ends])
        np.add(groups.tp, groups.p, out=y[ends])
        return x, y

    def _ends(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return false and true positives at the end of some groups. O(rows)."""
        groups = self.groups
        p, n = constant_of(groups.p), constant_of(groups.n)
        fp: IntArray = groups.fp[rows] + (groups.n[rows] if n is None else int(n))
        if p is None:
            return fp, groups.tp[rows] + groups.p[rows]
        # Each positive is in a group, so groups of as many positives each end at equal distances.
        return fp, groups.tp[0] + (rows + 1) * int(p)
