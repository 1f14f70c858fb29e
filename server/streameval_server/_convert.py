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

from streameval.v1 import types_pb2

if TYPE_CHECKING:
    from typing import Protocol

    from streameval._snapshot import Snapshot

    from streameval._evaluator import Evaluator
    from streameval._groups import FloatArray, IntArray

    class CountCurve(Protocol):
        """Operating points and hulls alike."""

        @property
        def fp(self) -> IntArray: ...
        @property
        def tp(self) -> IntArray: ...
        @property
        def thresholds(self) -> FloatArray: ...


METRICS = (
    "auc_roc",
    "auc_roc_hull",
    "auc_pr",
    "auc_pr_hull",
    "average_precision",
    "prevalence",
)
"""The figures of a snapshot, in the order in which they are sent."""

DEFAULT_MAX_POINTS = 2048

_NEEDS_NEGATIVES = frozenset({"auc_roc", "auc_roc_hull", "auc_pr_hull"})
_Reason = types_pb2.UndefinedReason


def snapshot_message(snapshot: Snapshot, *, stream: str, revision: int) -> types_pb2.Snapshot:
    """Return the answer to GetSnapshot. O(vertices of the hull)."""
    positives, negatives = snapshot.num_positive_ref, snapshot.num_negative_ref
    message = types_pb2.Snapshot(
        revision=revision,
        stream=stream,
        num_positive_ref=positives,
        num_negative_ref=negatives,
        num_misses=snapshot.num_misses,
        num_negative_misses=snapshot.num_negative_misses,
        metrics=[
            metric_message(name, getattr(snapshot, name), positives=positives, negatives=negatives)
            for name in METRICS
        ],
    )
    if positives and negatives:
        message.hull.CopyFrom(curve_message(snapshot.hull))
    return message


def metric_message(name: str, value: float, *, positives: int, negatives: int) -> types_pb2.Metric:
    """Return one figure: its value, or why it has none.

    Examples
    --------
    >>> metric_message("auc_roc", float("nan"), positives=3, negatives=0)
    name: "auc_roc"
    undefined_reason: UNDEFINED_REASON_NO_NEGATIVES
    <BLANKLINE>
    """
    if not math.isnan(value):
        return types_pb2.Metric(name=name, value=value)
    return types_pb2.Metric(
        name=name, undefined_reason=undefined_reason(name, positives, negatives)
    )


def undefined_reason(
    name: str, positives: int, negatives: int
) -> types_pb2.UndefinedReason.ValueType:
    """Say what the figure `name` lacks when it has no value."""
    if positives == 0 and negatives == 0:
        return _Reason.UNDEFINED_REASON_EMPTY
    if positives == 0:
        return _Reason.UNDEFINED_REASON_NO_POSITIVES
    if negatives == 0 and name in _NEEDS_NEGATIVES:
        return _Reason.UNDEFINED_REASON_NO_NEGATIVES
    return _Reason.UNDEFINED_REASON_TOO_FEW


def hull_message(evaluator: Evaluator) -> types_pb2.Curve:
    """Return the ROC hull's vertices; none where one class is absent."""
    if not (evaluator.num_positive_ref and evaluator.num_negative_ref):
        return types_pb2.Curve()
    return curve_message(evaluator.roc_hull())


def points_message(evaluator: Evaluator, max_points: int) -> types_pb2.Curve:
    """Return the operating points, thinned to about `max_points`; 0 means 2,048."""
    points = evaluator.operating_points()
    limit = max_points or DEFAULT_MAX_POINTS
    if len(points.fp) <= limit:
        return curve_message(points)
    if not (evaluator.num_positive_ref and evaluator.num_negative_ref):
        return curve_message(points, thinned(points, points.fp[:0], max_points=limit))
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
