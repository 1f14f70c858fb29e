"""Metrics by name with their sampling variance, from the groups, and their limits.

The metric's row says which estimator and which kind of interval it has. O(G) for the
metric and its variance, O(1) for its limits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._metric_registry import BY_NAME
from streameval._uncertainty.cell_orders import both_orders, hides_order, rows_of
from streameval._uncertainty.limits import (
    MIN_ANYTIME_POSITIVES,
    UNDEFINED,
    Figure,
    Limits,
    auc_roc_limits,
    precision_limits,
    proportion_limits,
)
from streameval._uncertainty.sampling_variance import sampling_variance

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._counts.view import View
    from streameval._metric_registry import Estimator


def figure_of(groups: Groups, name: str, prevalence: float | None = None) -> Figure:
    """Return a metric with its variance; nan where undefined. O(G)."""
    P, N = groups.P, groups.N
    if BY_NAME[name].interval == "wilson":
        total = P + N
        share = P / total if total else math.nan
        return Figure(share, share * (1 - share) / total if total else math.nan, P, N)
    value = value_of(groups, name, prevalence)
    return Figure(value, variance_of(groups, name, prevalence), P, N)


def variance_of(groups: Groups, name: str, prevalence: float | None) -> float:
    """Return an area's variance, nan without two of each class. O(G)."""
    return float(variances_of(groups, name, prevalence))


def variances_of(groups: Groups, name: str, prevalence: float | None) -> FloatArray:
    """Return an area's variance in each order that the groups are in. O(G)."""
    if min(groups.P, groups.N) < 2:
        return np.full(groups.fp.shape[:-1], math.nan)
    estimator = estimator_of(name)
    counted = estimator.counted(groups)
    influence = estimator.influence(counted, prevalence)
    return sampling_variance(influence, counted, fixed_prevalence=prevalence is not None)


def value_of(groups: Groups, name: str, prevalence: float | None) -> float:
    """Return an area, from groups without the misses. O(G)."""
    estimator = estimator_of(name)
    return estimator.value(estimator.counted(groups), prevalence)


def estimator_of(name: str) -> Estimator:
    """Return the estimator of a metric whose variance is made of influences."""
    estimator = BY_NAME[name].estimator
    assert estimator is not None, name
    return estimator


def limits_of(figure: Figure, name: str, alpha: float, *, anytime: bool = False) -> Limits:
    """Return the limits that miss with probability `alpha`; nan with too few. O(1)."""
    kind = BY_NAME[name].interval
    if kind == "wilson":
        too_few = figure.positives + figure.negatives < 2
    else:
        too_few = min(figure.positives, figure.negatives) < 2
    if too_few or (anytime and figure.positives < MIN_ANYTIME_POSITIVES):
        return UNDEFINED
    if kind == "wilson":
        return proportion_limits(figure, alpha, anytime=anytime)
    if kind == "delong-newcombe":
        return auc_roc_limits(figure, alpha, anytime=anytime)
    return precision_limits(figure, alpha, anytime=anytime)


def hidden_variance(view: View, figure: Figure, name: str, prevalence: float | None) -> float:
    """Return the variance enlarged for the unknown order inside the cells. O(G).

    For AUC-ROC the standard error grows by the most that placements inside the
    cells can add to it; in precision-recall space the variance is the greatest
    of three: cells as ties, with positives first, and with negatives first.
    """
    groups = view.groups
    if view.resolution is None or math.isnan(figure.variance):
        return figure.variance
    hidden = hides_order(groups, view.resolution, view.scale)
    # Weighted counts exceed the effective number of cases.
    weight = groups.P / figure.positives
    if BY_NAME[name].interval == "delong-newcombe":
        error = hidden_error(rows_of(groups, hidden)) * math.sqrt(weight)
        return (math.sqrt(figure.variance) + error) ** 2
    variances = variances_of(both_orders(groups, hidden), name, prevalence) * weight
    return max(figure.variance, float(variances.max()))


def hidden_error(groups: Groups) -> float:
    """Return the most that the order inside these cells adds to AUC-ROC's standard error. O(G)."""
    P, N = groups.P, groups.N
    p, n = groups.p.astype(np.float64), groups.n.astype(np.float64)
    of_positives = float((p * n * n).sum()) / (4.0 * N * N * P * (P - 1))
    of_negatives = float((n * p * p).sum()) / (4.0 * P * P * N * (N - 1))
    return math.sqrt(of_positives + of_negatives)
