"""Curves as messages, thinned to a number of points that a plot can show.

The hull's vertices are always kept, and between them points at even steps along the
curve (its length is false positive rate plus true positive rate), so that both a long
flat tail and a steep start keep their shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval.v1 import types_pb2

if TYPE_CHECKING:
    from typing import Protocol

    from streameval import Window
    from streameval_server._model.arrays import FloatArray, IntArray

    class CountCurve(Protocol):
        """The columns that operating points and hulls have in common."""

        @property
        def fp(self) -> IntArray | FloatArray: ...
        @property
        def tp(self) -> IntArray | FloatArray: ...
        @property
        def thresholds(self) -> FloatArray: ...


DEFAULT_MAX_POINTS = 2048
"""Points of a curve where the request names no limit."""


def points_message(queries: Window, max_points: int) -> types_pb2.Curve:
    """Return the operating points, thinned to about `max_points`; 0 means 2,048."""
    points = queries.operating_points()
    limit = max_points or DEFAULT_MAX_POINTS
    if len(points.fp) <= limit:
        return curve_message(points)
    hull = queries.roc_hull()
    return curve_message(points, thinned(points, hull.fp + hull.tp, max_points=limit))


def curve_message(curve: CountCurve, keep: IntArray | None = None) -> types_pb2.Curve:
    """Return the curve's points, or those whose indices are in `keep`."""
    rows = slice(None) if keep is None else keep
    fp, tp = curve.fp[rows].tolist(), curve.tp[rows].tolist()
    thresholds = curve.thresholds[rows].tolist()
    if curve.fp.dtype.kind == "f":  # sums of weights
        return types_pb2.Curve(weighted_fp=fp, weighted_tp=tp, thresholds=thresholds)
    return types_pb2.Curve(fp=fp, tp=tp, thresholds=thresholds)


def thinned(points: CountCurve, vertices: IntArray | FloatArray, *, max_points: int) -> IntArray:
    """Return the indices of about `max_points` points that keep the curve's shape.

    O(points + max_points log(points)).

    Parameters
    ----------
    points
        The operating points: neither fp nor tp ever decreases, and no point repeats.
    vertices
        fp + tp of the points that are always kept.
    max_points
        The number of points to keep, fewer than there are. Exact unless `vertices`
        are more.
    """
    size = len(points.fp)
    kept = np.zeros(size, dtype=bool)
    # fp + tp strictly increases along the curve, so it identifies a point.
    kept[np.searchsorted(points.fp + points.tp, vertices)] = True
    kept[[0, -1]] = True
    spare = max_points - int(np.count_nonzero(kept))
    if spare > 0:
        rest = np.flatnonzero(~kept)
        fp, tp = (each / (float(each[-1]) or 1.0) for each in (points.fp, points.tp))
        travelled = fp + tp
        steps = np.linspace(0.0, float(travelled[-1]), spare + 2)[1:-1]
        kept[rest[_distinct(np.searchsorted(travelled[rest], steps), len(rest))]] = True
    return np.flatnonzero(kept)


def _distinct(indices: IntArray, size: int) -> IntArray:
    """Move non-decreasing indices apart by as little as possible, within range(size)."""
    steps = np.arange(len(indices))
    # Indices strictly increase exactly where, less 0, 1, 2, ..., they never decrease.
    apart = np.maximum.accumulate(indices - steps)
    return np.minimum(apart, size - len(indices)) + steps
