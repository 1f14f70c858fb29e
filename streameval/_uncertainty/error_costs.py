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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from streameval._common.errors import InvalidInputError
from streameval._metric_registry import BY_NAME
from streameval._metrics.costs import check_costs
from streameval._uncertainty.design_effect import INDEPENDENT
from streameval._uncertainty.interval import Interval
from streameval._uncertainty.limits import (
    MIN_ANYTIME_POSITIVES,
    UNDEFINED,
    Figure,
    Limits,
    proportion_limits,
)
from streameval._uncertainty.rates import share_figure

if TYPE_CHECKING:
    from streameval._metrics.confusion import Confusion
    from streameval._uncertainty.design_effect import DesignEffect


class ErrorCosts(NamedTuple):
    """What an error costs: a false positive, and a false negative; not both 0."""

    cost_fp: float
    cost_fn: float

    @property
    def high(self) -> float:
        """The larger cost."""
        return max(self)

    @property
    def relative(self) -> ErrorCosts:
        """The same as parts of the larger cost, whose squares do not overflow."""
        return ErrorCosts(self.cost_fp / self.high, self.cost_fn / self.high)

    def mean(self, counts: Confusion) -> float:
        """Return the mean cost as a part of the larger cost. O(1)."""
        of_fp, of_fn = self.relative
        return counts.expected_cost(cost_fp=of_fp, cost_fn=of_fn)


class ErrorShares(NamedTuple):
    """The share of cases that are errors, and the share that are errors of the costlier kind."""

    errors: Figure
    costlier: Figure

    def widened(self, effect: DesignEffect, *, refused: str | None = None) -> ErrorShares:
        """Return both with limits that allow for an effect, or that are refused. O(1)."""
        return ErrorShares(
            *(effect.widened(replace(each, refused=refused or each.refused)) for each in self)
        )


def error_shares(at: Confusion, costs: ErrorCosts, cases: float) -> ErrorShares:
    """Return the shares of a confusion matrix, scaled to `cases` cases of equal weight. O(1)."""
    whole = at.tp + at.fp + at.fn + at.tn
    unit = cases / whole if whole else 0.0
    costlier = at.fn if costs.cost_fn >= costs.cost_fp else at.fp
    hits = (at.fp + at.fn) * unit, costlier * unit
    return ErrorShares(*(share_figure(each, max(cases - each, 0.0)) for each in hits))


@dataclass(frozen=True, slots=True)
class UncertainCost:
    """The expected cost of errors, and the shares of errors of which its limits are made.

    Attributes
    ----------
    name : str
        The metric's.
    estimate : float
        nan where it is undefined.
    costs : ErrorCosts
    shares : ErrorShares
    effect : DesignEffect
        That of clusters on the mean cost, which the shares allow for.
    """

    name: str
    estimate: float
    costs: ErrorCosts
    shares: ErrorShares
    effect: DesignEffect = INDEPENDENT

    def limits(self, alpha: float, *, anytime: bool = False) -> Limits:
        """Return the limits that miss with probability `alpha`; nan with too few cases. O(1)."""
        errors, costlier = self.shares
        low, high = min(self.costs.relative), self.costs.high
        counted = costlier if low < 1 else errors
        if (
            errors.refused is not None
            or errors.positives + errors.negatives < 2
            or (anytime and counted.positives < MIN_ANYTIME_POSITIVES)
        ):
            return UNDEFINED
        (below_errors, above_errors), (below_costlier, above_costlier) = (
            _distances(each, alpha, anytime=anytime) for each in self.shares
        )
        shared = _correlation(errors.estimate, costlier.estimate)
        below = _sum_distance(low * below_errors, (1 - low) * below_costlier, shared)
        above = _sum_distance(low * above_errors, (1 - low) * above_costlier, shared)
        mean = low * errors.estimate + (1 - low) * costlier.estimate
        return high * max(mean - below, 0.0), high * min(mean + above, 1.0)

    def interval(self, level: float, *, anytime: bool = False) -> Interval:
        """Return the interval at a level. O(1)."""
        lower, upper = self.limits(1 - level, anytime=anytime)
        return Interval(
            lower,
            upper,
            level,
            BY_NAME[self.name].interval or "",
            self.estimate,
            anytime,
            self.shares.errors.design_effect,
            self.shares.errors.refused,
        )


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


def checked_costs(name: str, cost_fp: float | None, cost_fn: float | None) -> ErrorCosts | None:
    """Return the costs of a metric that needs them, None for another; refuse what is wrong.

    Raises
    ------
    InvalidInputError
        For costs where they have no meaning, for a cost that is missing, negative or not
        finite, and for two that are 0.
    """
    given = {"cost_fp": cost_fp, "cost_fn": cost_fn}
    if not BY_NAME[name].is_cost:
        field = next((each for each, cost in given.items() if cost is not None), None)
        if field is not None:
            raise InvalidInputError(f"{name} does not depend on costs", field=field)
        return None
    if cost_fp is None or cost_fn is None:
        message = f"the interval of {name} needs what errors cost: cost_fp=1, cost_fn=10"
        raise InvalidInputError(message, field="cost_fp" if cost_fp is None else "cost_fn")
    check_costs(cost_fp, cost_fn)
    return ErrorCosts(float(cost_fp), float(cost_fn))
