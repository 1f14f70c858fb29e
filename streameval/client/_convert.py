"""Answers of the server as the library's own objects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._curves import RocHull
from streameval._points import OperatingPoints
from streameval._snapshot import FIGURES, Snapshot
from streameval.v1 import types_pb2

if TYPE_CHECKING:
    from streameval._groups import FloatArray, IntArray
    from streameval.v1 import query_pb2

_REASON_PREFIX = "UNDEFINED_REASON_"


def read_snapshot(message: types_pb2.Snapshot) -> Snapshot:
    """Return a snapshot; figures that the server does not send are nan. O(vertices)."""
    P, N = message.num_positive_ref, message.num_negative_ref
    figures = dict.fromkeys(FIGURES, math.nan)
    reasons: dict[str, str] = {}
    for metric in message.metrics:
        if metric.name not in figures:
            continue  # a newer server's
        if metric.HasField("value"):
            figures[metric.name] = metric.value
        else:
            name = types_pb2.UndefinedReason.Name(metric.undefined_reason)
            reasons[metric.name] = name.removeprefix(_REASON_PREFIX)
    hull = None
    if message.hull.thresholds:
        thresholds, fp, tp = _columns(message.hull)
        hull = RocHull(thresholds=thresholds, fp=fp, tp=tp, P=P, N=N)
    return Snapshot(
        revision=message.revision,
        num_cases=P + N - message.num_misses - message.num_negative_misses,
        num_positive_ref=P,
        num_negative_ref=N,
        num_misses=message.num_misses,
        num_negative_misses=message.num_negative_misses,
        auc_roc=figures["auc_roc"],
        auc_roc_hull=figures["auc_roc_hull"],
        auc_pr=figures["auc_pr"],
        auc_pr_hull=figures["auc_pr_hull"],
        average_precision=figures["average_precision"],
        prevalence=figures["prevalence"],
        hull=hull,
        reasons=reasons,
    )


def read_points(response: query_pb2.GetCurveResponse) -> OperatingPoints:
    """Return a curve as operating points. O(points)."""
    thresholds, fp, tp = _columns(response.curve)
    P, N = response.num_positive_ref, response.num_negative_ref
    return OperatingPoints(thresholds=thresholds, fp=fp, tp=tp, P=P, N=N)


def read_hull(response: query_pb2.GetCurveResponse) -> RocHull:
    """Return a curve as a hull. O(vertices)."""
    thresholds, fp, tp = _columns(response.curve)
    P, N = response.num_positive_ref, response.num_negative_ref
    return RocHull(thresholds=thresholds, fp=fp, tp=tp, P=P, N=N)


def _columns(curve: types_pb2.Curve) -> tuple[FloatArray, IntArray, IntArray]:
    return (
        np.array(curve.thresholds, dtype=np.float64),
        np.array(curve.fp, dtype=np.int64),
        np.array(curve.tp, dtype=np.int64),
    )
