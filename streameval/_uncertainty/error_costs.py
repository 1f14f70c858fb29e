"""The limits of the expected cost of errors at a threshold, from the shares of errors.

A case costs 0, or what its error costs. With the costs in order, low <= high, the mean is

    low E + (high - low) H

where E is the share of cases that are errors, and H the share that are errors of the costlier
kind, a part of E. Both are shares of all cases and have Wilson's limits; their estimates have
the correlation sqrt(H (1 - E) / (E (1 - H))). The limits of the sum are made of theirs by
square-and-add (Zou and Donner 2008, Statistics in Medicine 27:1693). So at equal costs they
are Wilson's of the share of errors, and where one kind costs nothing Wilson's of the other.
A plug-in variance would be 0, or far too small, where a sample happens to have none of the
costlier errors; Wilson's limit of H is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._metrics.costs import ErrorCosts
from streameval._uncertainty.design_effect import INDEPENDENT
from streameval._uncertainty.limits import (
    MIN_ANYTIME_POSITIVES,
    UNDEFINED,
    Figure,
    Limits,
    proportion_limits,
)
from streameval._uncertainty.rules import (
    ErrorShares,
    IntervalRule,
    UncertainMetric,
    share_figure,
)

if TYPE_CHECKING:
    from streameval._metrics.confusion import Confusion
    from streameval._uncertainty.rules import Counted, Given


def error_shares(at: Confusion, costs: ErrorCosts, cases: float) -> ErrorShares:
    """Return the shares of a confusion matrix, scaled to `cases` cases of equal weight. O(1)."""
    whole = at.tp + at.fp + at.fn + at.tn
    unit = cases / whole if whole else 0.0
    hits = (at.fp + at.fn) * unit, costlier_errors(at, costs) * unit
    return ErrorShares(*(share_figure(each, max(cases - each, 0.0)) for each in hits))


def costlier_errors(at: Confusion, costs: ErrorCosts) -> float:
    """Return the errors of the kind that costs more, or as much. O(1)."""
    return at.fn if costs.cost_fn >= costs.cost_fp else at.fp


EQUAL = ErrorCosts(1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRule(IntervalRule):
    """Square-and-add of Wilson's limits of the share of errors and of the costlier ones.

    Attributes
    ----------
    costs : ErrorCosts
        What a metric was asked at.
    """

    method: str = "square-and-add"
    costs: ErrorCosts = EQUAL

    def uncertain(self, counted: Counted, name: str, given: Given) -> UncertainMetric:
        """Return the expected cost. O(log K), O(n) of clusters."""
        assert given.threshold is not None, name
        assert given.costs is not None, name
        shares, effect = counted._error_shares(given.threshold, given.costs), INDEPENDENT
        estimate = counted._value_given(name, given)
        if not math.isnan(estimate):
            effect = counted._design_effect(name, given.arguments)
            shares = shares.widened(effect)
        rule = CostRule(costs=given.costs)
        return UncertainMetric(rule, estimate, shares, shares.errors, effect, given.costs.high)

    def limits(self, figures: tuple[Figure, ...], alpha: float, *, anytime: bool = False) -> Limits:
        """Return the limits that miss with probability `alpha`; nan with too few cases. O(1)."""
        errors, costlier = figures
        low, high = min(self.costs.relative), self.costs.high
        counted = costlier if low < 1 else errors
        if (
            errors.refused is not None
            or errors.positives + errors.negatives < 2
            or (anytime and counted.positives < MIN_ANYTIME_POSITIVES)
        ):
            return UNDEFINED
        (below_errors, above_errors), (below_costlier, above_costlier) = (
            _distances(each, alpha, anytime=anytime) for each in figures
        )
        shared = _correlation(errors.estimate, costlier.estimate)
        below = _sum_distance(low * below_errors, (1 - low) * below_costlier, shared)
        above = _sum_distance(low * above_errors, (1 - low) * above_costlier, shared)
        mean = low * errors.estimate + (1 - low) * costlier.estimate
        return high * max(mean - below, 0.0), high * min(mean + above, 1.0)


def _distances(share: Figure, alpha: float, *, anytime: bool) -> tuple[float, float]:
    """Return how far Wilson's limits are below and above a share."""
    lower, upper = proportion_limits(share, alpha, anytime=anytime)
    return share.estimate - lower, upper - share.estimate


def _correlation(errors: float, costlier: float) -> float:
    """Return the correlation of a share's estimate with a part's; 0 where one cannot vary."""
    if not 0 < costlier <= errors < 1:
        return 0.0
    return math.sqrt(costlier * (1 - errors) / (errors * (1 - costlier)))


def _sum_distance(first: float, second: float, correlation: float) -> float:
    return math.sqrt(first**2 + second**2 + 2 * correlation * first * second)
