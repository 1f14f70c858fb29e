"""Metrics by name with their sampling variance, from the groups, and their limits.

The metric's row says which estimator and which kind of interval it has. O(G) for the
metric and its variance, O(1) for its limits.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._metric_registry import BY_NAME
from streameval._metrics.pr_areas import negatives_factor
from streameval._uncertainty.cell_limits import CellLimits
from streameval._uncertainty.cell_orders import hidden_groups, rows_of
from streameval._uncertainty.cell_variance import greatest_variance
from streameval._uncertainty.limits import (
    MIN_ANYTIME_POSITIVES,
    UNDEFINED,
    Figure,
    Limits,
    auc_roc_limits,
    precision_limits,
    precision_turns,
    proportion_limits,
)
from streameval._uncertainty.sampling_variance import sampling_variance
from streameval._uncertainty.unseen_cases import with_unseen_cases

if TYPE_CHECKING:
    from streameval._counts.groups import Groups
    from streameval._counts.view import View
    from streameval._metric_registry import Estimator, IntervalKind


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
    if min(groups.P, groups.N) < 2:
        return math.nan
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
    if _has_no_limits(figure, kind, anytime=anytime):
        return UNDEFINED
    if kind == "wilson":
        return proportion_limits(figure, alpha, anytime=anytime)
    seen = _seen_limits(figure, name, alpha, anytime=anytime)
    return with_unseen_cases(seen, figure, figure, name, alpha, anytime=anytime)


def _has_no_limits(figure: Figure, kind: IntervalKind | None, *, anytime: bool) -> bool:
    """Return whether a figure is refused, or has too few cases for limits. O(1)."""
    if kind == "wilson":
        too_few = figure.positives + figure.negatives < 2
    else:
        too_few = min(figure.positives, figure.negatives) < 2
    is_early = anytime and figure.positives < MIN_ANYTIME_POSITIVES
    return figure.refused is not None or too_few or is_early


def _seen_limits(figure: Figure, name: str, alpha: float, *, anytime: bool) -> Limits:
    """Return the limits of an area by the variance of the sample alone. O(1)."""
    if BY_NAME[name].interval == "delong-newcombe":
        return auc_roc_limits(figure, alpha, anytime=anytime)
    return precision_limits(figure, alpha, anytime=anytime)


def limits_between(
    figures: tuple[Figure, ...], name: str, alpha: float, *, anytime: bool = False
) -> Limits:
    """Return the least lower and the greatest upper limit between `hidden_figures`. O(1)."""
    kind = BY_NAME[name].interval
    if _has_no_limits(figures[0], kind, anytime=anytime):
        return UNDEFINED
    first = _seen_limits(figures[0], name, alpha, anytime=anytime)
    if math.isnan(first[0]):
        return UNDEFINED
    if kind == "influence-logit":
        figures += tuple(precision_turns(figures[0], figures[-1], alpha, anytime=anytime))
    limits = [_seen_limits(each, name, alpha, anytime=anytime) for each in figures[1:]]
    limits.append(first)
    outermost = min(lower for lower, _ in limits), max(upper for _, upper in limits)
    ordered = sorted(figures, key=lambda each: each.estimate)
    return with_unseen_cases(outermost, ordered[0], ordered[-1], name, alpha, anytime=anytime)


def hidden_figures(
    view: View, figure: Figure, bounds: Limits, name: str, prevalence: float | None
) -> tuple[Figure, ...]:
    """Return the estimates and variances whose limits an interval has to enclose. O(G).

    Of a bounded evaluator the order inside the cells is unknown, so the exact metric is
    anywhere within its bounds. A limit does not always move with the estimate: near 0 and
    1 the same variance gives a wider interval. So the interval is from the least lower to
    the greatest upper limit of several figures:

    - AUC-ROC: the standard error grows by the most that placements inside the cells can
      add to it, so the variance is at least the exact one. It is capped at the variance
      of placements that are all 0 or 1. The figures are at the bounds, and at the
      estimates where the two variances are equal: between them the limits are monotone.
    - In precision-recall space: the bounds, with a variance that no order exceeds
      (`cell_variance`). That the limits are furthest out at the bounds, and not between
      them, is measured and not proven.
    """
    lowest, highest = bounds
    groups = view.groups
    if view.resolution is None or math.isnan(figure.variance):
        return replace(figure, estimate=lowest), replace(figure, estimate=highest)
    hidden = hidden_groups(view)
    # Weighted counts exceed the effective number of cases.
    weight = groups.P / figure.positives
    if BY_NAME[name].interval == "delong-newcombe":
        error = hidden_error(rows_of(groups, hidden)) * math.sqrt(weight)
        variance = (math.sqrt(figure.variance) + error) ** 2
        spread = replace(figure, variance=variance)
        if weight == 1:
            return _placement_figures(spread, lowest, highest)
        return replace(spread, estimate=lowest), replace(spread, estimate=highest)
    estimator = estimator_of(name)
    counted = estimator.counted(groups)
    if counted is not groups:  # the misses are a real tie
        hidden = np.append(hidden, False)
    # Without misses all areas have the same groups. The first area leaves the limits for the
    # next one, which takes them away: the view would keep them for as long as it lives.
    left: list[CellLimits] = view.cached(
        ("cell limits", prevalence, weight, counted is not groups), list
    )
    try:
        limits = left.pop()
    except IndexError:
        factor = negatives_factor(groups, prevalence)
        limits = CellLimits.of(counted, hidden, factor, weight)
        left.append(limits)
    greatest = greatest_variance(counted, limits, estimator, prevalence) * weight
    return (
        replace(figure, estimate=lowest, variance=greatest),
        replace(figure, estimate=highest, variance=greatest),
    )


def _placement_figures(figure: Figure, lowest: float, highest: float) -> tuple[Figure, ...]:
    """Return AUC-ROC at its bounds, and where the variance is the greatest possible one.

    At the estimate t, placements in [0, 1] have a variance of at most t (1 - t) times the
    sum of 1/(P - 1) and 1/(N - 1).
    """
    P, N = figure.positives, figure.negatives
    greatest = 1 / (P - 1) + 1 / (N - 1)

    def at(estimate: float) -> Figure:
        cap = greatest * estimate * (1 - estimate)
        return replace(figure, estimate=estimate, variance=min(figure.variance, cap))

    figures = [at(lowest), at(highest)]
    # t (1 - t) = V/greatest; the least estimate above 0 is a single tied pair's.
    square = max(1 - 4 * figure.variance / greatest, 0.0)
    root = max((1 - math.sqrt(square)) / 2, 1 / (2 * P * N))
    figures += [at(t) for t in (root, 1 - root) if lowest < t < highest]
    return tuple(figures)


def hidden_error(groups: Groups) -> float:
    """Return the most that the order inside these cells adds to AUC-ROC's standard error. O(G)."""
    P, N = groups.P, groups.N
    p, n = groups.p.astype(np.float64), groups.n.astype(np.float64)
    of_positives = float((p * n * n).sum()) / (4.0 * N * N * P * (P - 1))
    of_negatives = float((n * p * p).sum()) / (4.0 * P * P * N * (N - 1))
    return math.sqrt(of_positives + of_negatives)
