"""The best and the worst order of the cases inside each cell.

With T true and F false positives above a cell of p positives and n negatives,
a metric that only gains when false positives come later is highest with the
positives of every cell first and lowest with the negatives first: the metric's own
formula on groups rewritten in these orders gives its limits. Only the worst order of
average precision cannot be written as groups (its positives are ranked one by one);
its sum is here. All is O(G) for G cells that hold positives.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import dot
from streameval._counts.resolution import MAX_BITS, upper_edge
from streameval._metrics.pr_areas import closed_area

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._counts.resolution import Scale
    from streameval._counts.view import View


_MIN_SERIES_RANK = 64
"""Ranks below this are summed one by one; from it on the series is exact to a double."""


def hides_order(groups: Groups, bits: int, scale: Scale) -> BoolArray:
    """Return which groups are cells of several doubles, so that their order is lost.

    A cell of one double holds a real tie. Probabilities have such cells next to
    1, where a saturated model puts many cases: doubles are 2^-53 apart there, so
    a few significant bits of 1 - s tell all of them apart. O(G).
    """
    if scale == "plain" and bits < MAX_BITS - 1:
        # A cell has at least four doubles, the lowest cell of all at least two finite ones.
        return np.ones(groups.scores.size, dtype=np.bool_)
    above = upper_edge(groups.scores, bits, scale)
    with np.errstate(over="ignore"):  # the successor of the largest double is inf
        return above > np.nextafter(groups.scores, np.inf)


def hidden_groups(view: View) -> BoolArray:
    """Return which groups of a view are cells whose order is lost. O(G), cached."""
    bits = MAX_BITS if view.resolution is None else view.resolution
    return view.cached("hidden", lambda: hides_order(view.groups, bits, view.scale))


def positives_first(groups: Groups, hidden: BoolArray) -> Groups:
    """Return the groups with positives above negatives in each hidden cell. O(G)."""
    return replace(groups, n=np.where(hidden, 0, groups.n))


def negatives_first(groups: Groups, hidden: BoolArray) -> Groups:
    """Return the groups with negatives above positives in each hidden cell. O(G)."""
    moved = np.where(hidden, groups.n, 0)
    return replace(groups, fp=groups.fp + moved, n=groups.n - moved)


def rows_of(groups: Groups, rows: BoolArray | IntArray) -> Groups:
    """Return the chosen groups with their ranks in the whole; the same object for all. O(G)."""
    if rows.dtype == np.bool_:
        if rows.all():
            return groups
        rows = np.flatnonzero(rows)
    return replace(
        groups,
        scores=groups.scores[rows],
        p=groups.p[rows],
        n=groups.n[rows],
        tp=groups.tp[rows],
        fp=groups.fp[rows],
    )


def least_average_precision(groups: Groups, *, factor: float = 1.0) -> float:
    """Return average precision with negatives first and the positives one by one.

    The positive at place i of its cell then has T + i true positives at its rank
    and F + n false ones: no order gives it a lower precision. A negative counts
    `factor` times. O(G).

    Notes
    -----
    A cell adds the sum of t/(t + B) over t = T+1 .. T+p, B = factor (F + n). By
    the midpoint rule that is nearly the integral from T + 1/2 to T + p + 1/2,
    the area of a vertical piece of the precision-recall curve, and never less.
    The rest is B [c(y) - c(y + p)], with y = T + B + 1/2 and
    c(y) = psi(y + 1/2) - ln y = 1/(24 y^2) - 7/(960 y^4) + ..., which alternates
    and bounds itself: from y = 64 on four terms leave less than 1e-16 of the
    sum. Ranks above that are summed one by one; at most 64 cells have any.
    """
    p = groups.p.astype(np.float64)
    above = groups.tp.astype(np.float64)
    false = (groups.fp + groups.n).astype(np.float64)
    false *= factor
    direct: list[float] = []
    for row in range(int(np.searchsorted(above + false, _MIN_SERIES_RANK))):
        T, B = float(above[row]), float(false[row])
        taken = min(int(p[row]), math.ceil(_MIN_SERIES_RANK - T - B))
        direct.extend((T + i) / (T + i + B) for i in range(1, taken + 1))
        above[row] += taken
        p[row] -= taken
    total = math.fsum(direct)
    rest = p > 0
    if rest.any():
        above, false, p = above[rest], false[rest], p[rest]
        above += 0.5
        y = above + false
        total += closed_area(above, false, p, np.zeros_like(p))
        total += dot(false, _beyond_midpoint(y) - _beyond_midpoint(y + p))
    return total / groups.P


def _beyond_midpoint(y: FloatArray) -> FloatArray:
    """Return psi(y + 1/2) - ln y, the series c, to 1e-20 from y = 64 on."""
    square = 1.0 / (y * y)
    return square * (1 / 24 - square * (7 / 960 - square * (31 / 8064 - square * 127 / 30720)))
