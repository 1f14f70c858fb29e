"""Metrics by name with their sampling variance, from the groups, and their limits.

The metric's row has the estimator, and the rule by which its interval is made. O(G) for the
metric and its variance, O(1) for its limits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval._metric_registry import BY_NAME
from streameval._uncertainty.limits import Figure, Limits
from streameval._uncertainty.sampling_variance import sampling_error
from streameval._uncertainty.unseen_cases import with_mean_step

if TYPE_CHECKING:
    from streameval._counts.groups import Groups
    from streameval._metrics.gradients import Estimator
    from streameval._uncertainty.rules import IntervalRule


def figure_of(
    groups: Groups, name: str, prevalence: float | None = None, *, value: float | None = None
) -> Figure:
    """Return a metric with its variance; nan where undefined. O(G).

    `value` is the metric, where it is not the value of the groups; None computes it.
    """
    P, N = groups.P, groups.N
    if BY_NAME[name].estimator is None:
        total = P + N
        share = P / total if total else math.nan
        return Figure(share, share * (1 - share) / total if total else math.nan, P, N)
    if value is None:
        value = value_of(groups, name, prevalence)
    if min(P, N) < 2:
        return Figure(value, math.nan, P, N)
    estimator = estimator_of(name)
    counted = estimator.counted(groups)
    influence = estimator.influence(counted, prevalence)
    error = sampling_error(influence, counted, fixed_prevalence=prevalence is not None)
    if estimator.derivatives is None:
        return Figure(value, error.variance, P, N)
    figure = Figure(value, error.variance, P, N, error.freedom)
    return with_mean_step(figure, groups, estimator, prevalence)


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
    return rule_of(name).limits((figure,), alpha, anytime=anytime)


def rule_of(name: str) -> IntervalRule:
    """Return how the interval of a metric is made that has one."""
    rule = BY_NAME[name].interval
    assert rule is not None, name
    return rule
