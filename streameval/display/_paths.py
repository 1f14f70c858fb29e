"""Curves as lines to draw: the true shape between points, with few vertices. O(K).

Between two operating points false positives grow linearly with true positives,
which is a straight line in ROC space and a hyperbola in PR space (Davis and
Goadrich 2006, section 4). A line of millions of vertices is reduced to the visible ones:
the first, lowest, highest and last of each of 2,000 columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._metrics.operating_points import Curve

_MAX_STRAIGHT_RECALL = 1 / 500
"""Recall: pieces up to this length are drawn as straight lines."""
_NODES_PER_PIECE = 48
_COLUMNS = 2_000
_MAX_VERTICES = 4 * _COLUMNS


def pr_path(curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Return recall and precision along the curve, with the curvature of each piece.

    The path starts at recall 0, with the first piece's precision, and ends at the last
    positive. Negatives alone lower the precision vertically, at one recall.
    """
    groups = curve.groups()
    if groups.p.size == 0:
        return np.empty(0), np.empty(0)
    tp, fp = groups.tp.astype(np.float64), groups.fp.astype(np.float64)
    p, n = groups.p.astype(np.float64), groups.n.astype(np.float64)
    bent = (n + fp > 0) & (p > _MAX_STRAIGHT_RECALL * groups.P)
    shares = [
        _nodes(float(above), float(size)) for above, size in zip((tp + fp)[bent], (p + n)[bent])
    ]
    # Every piece has its two ends; a curved piece also has nodes between them.
    counts = np.full(p.size, 2)
    counts[bent] = [share.size for share in shares]
    ends = np.cumsum(counts)
    share = np.zeros(int(ends[-1]))
    share[ends - 1] = 1.0
    inside = np.repeat(bent, counts)
    share[inside] = np.concatenate([*shares, np.empty(0)])
    along_tp = np.repeat(tp, counts) + share * np.repeat(p, counts)
    called = along_tp + np.repeat(fp, counts) + share * np.repeat(n, counts)
    precision = np.repeat(p / (p + n), counts)  # the constant value of a piece from (0, 0)
    np.divide(along_tp, called, out=precision, where=called > 0)
    return thin(along_tp / groups.P, precision)


def _nodes(above: float, size: float) -> FloatArray:
    """Return nodes from 0 to 1 on a piece: evenly spaced, and evenly in log(TP + FP)."""
    even = np.linspace(0.0, 1.0, _NODES_PER_PIECE)
    if above == 0:
        return np.array([0.0, 1.0])
    growth = size / above
    geometric = np.expm1(np.log1p(growth) * even) / growth
    return np.unique(np.clip(np.concatenate((even, geometric)), 0.0, 1.0))


def thin(x: FloatArray, y: FloatArray, *, log: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the visible vertices; `x` is ascending. Up to `_MAX_VERTICES` all are returned.

    With `log` they are those on a logarithmic axis of x, which is above 0 then.
    """
    if x.size <= _MAX_VERTICES:
        return x, y
    place = np.log(x) if log else x
    width = float(place[-1] - place[0]) or 1.0
    column = ((place - place[0]) * (_COLUMNS / width)).astype(np.int64)
    first = np.flatnonzero(np.append(True, column[1:] != column[:-1]))
    last = np.append(first[1:], x.size) - 1
    # Sorted by column and then by y, a column's ends are its extremes.
    order = np.lexsort((y, column))
    kept = np.unique(np.concatenate((first, last, order[first], order[last])))
    return x[kept], y[kept]
