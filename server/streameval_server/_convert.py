"""The library's answers as messages: absent with a reason where undefined, never NaN.

Curves are thinned to what a plot can show. The hull's vertices always stay,
and between them points stay at even steps along the curve (its length counted
as false positive rate plus true positive rate), so that neither a long flat
tail nor a steep start loses its shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._snapshot import FIGURES
from streameval.v1 import types_pb2

if TYPE_CHECKING:
    from typing import Protocol

    from streameval._evaluator import Evaluator
    from streameval._groups import FloatArray, IntArray
    from streameval._snapshot import Snapshot

    class CountCurve(Protocol):
        """Operating points and hulls alike."""

        @property
        def fp(self) -> IntArray: ...
        @property
        def tp(self) -> IntArray: ...
        @property
        def thresholds(self) -> FloatArray: ...


DEFAULT_MAX_POINTS = 2048

_Reason = types_pb2.UndefinedReason


def snapshot_message(snapshot: Snapshot, *, stream: str, revision: int) -> types_pb2.Snapshot:
    """Return the answer to GetSnapshot. O(vertices of the hull).

    Parameters
    ----------
    snapshot
        The library's.
    revision
        The log revision that it includes; its own counts an evaluator's changes.
    """
    return types_pb2.Snapshot(
        revision=revision,
        stream=stream,
        num_positive_ref=snapshot.num_positive_ref,
        num_negative_ref=snapshot.num_negative_ref,
        num_misses=snapshot.num_misses,
        num_negative_misses=snapshot.num_negative_misses,
        metrics=[_metric(snapshot, name) for name in FIGURES],
        hull=None if snapshot.hull is None else curve_message(snapshot.hull),
    )


def _metric(snapshot: Snapshot, name: str) -> types_pb2.Metric:
    value: float = getattr(snapshot, name)
    if math.isnan(value):
        reason = _Reason.Value(f"UNDEFINED_REASON_{snapshot.reasons[name]}")
        return types_pb2.Metric(name=name, undefined_reason=reason)
    return types_pb2.Metric(name=name, value=value)


def points_message(evaluator: Evaluator, max_points: int) -> types_pb2.Curve:
    """Return the operating points, thinned to about `max_points`; 0 means 2,048."""
    points = evaluator.operating_points()
    limit = max_points or DEFAULT_MAX_POINTS
    if len(points.fp) <= limit:
        return curve_message(points)
    hull = evaluator.roc_hull()
    return curve_message(points, thinned(points, hull.fp + hull.tp, max_points=limit))


def curve_message(curve: CountCurve, keep: IntArray | None = None) -> types_pb2.Curve:
    """Return the curve's points, or those whose indices are in `keep`."""
    rows = slice(None) if keep is None else keep
    return types_pb2.Curve(
        fp=curve.fp[rows].tolist(),
        tp=curve.tp[rows].tolist(),
        thresholds=curve.thresholds[rows].tolist(),
    )


def thinned(points: CountCurve, vertices: IntArray, *, max_points: int) -> IntArray:
    """Return the indices of about `max_points` points that carry the curve's shape.

    O(points + max_points log(points)).

    Parameters
    ----------
    points
        The operating points: neither fp nor tp ever decreases, and no point repeats.
    vertices
        fp + tp of the points that always stay.
    max_points
        How many to keep, fewer than there are. Reached exactly unless more must stay.
    """
    size = len(points.fp)
    kept = np.zeros(size, dtype=bool)
    # Each point calls more cases positive than the one before, so that number finds it.
    kept[np.searchsorted(points.fp + points.tp, vertices)] = True
    kept[[0, -1]] = True
    spare = max_points - int(np.count_nonzero(kept))
    if spare > 0:
        rest = np.flatnonzero(~kept)
        travelled = points.fp / max(int(points.fp[-1]), 1) + points.tp / max(int(points.tp[-1]), 1)
        steps = np.linspace(0.0, float(travelled[-1]), spare + 2)[1:-1]
        kept[rest[_distinct(np.searchsorted(travelled[rest], steps), len(rest))]] = True
    return np.flatnonzero(kept)


def _distinct(indices: IntArray, size: int) -> IntArray:
    """Move non-decreasing indices apart by as little as possible, within range(size)."""
    steps = np.arange(len(indices))
    # Strictly increasing indices minus 0, 1, 2, ... never decrease, and back.
    apart = np.maximum.accumulate(indices - steps)
    return np.minimum(apart, size - len(indices)) + steps
