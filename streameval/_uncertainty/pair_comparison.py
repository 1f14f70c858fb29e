"""A comparison of two models on the same cases, from the counts of their pair.

`PairedEvaluator` and the server ask here, each with its own way of counting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._metric_registry import Place
from streameval._uncertainty.compare import (
    GRID_TOO_COARSE,
    MIN_P_VALUE,
    TOO_FEW,
    Comparison,
    p_value_of,
)
from streameval._uncertainty.estimates import rule_of
from streameval._uncertainty.intervals import check_level, check_prevalence
from streameval._uncertainty.limits import MIN_ANYTIME_POSITIVES
from streameval._uncertainty.pair_difference import Difference
from streameval._uncertainty.pair_variance import (
    GridTooCoarseError,
    PairVariance,
    UnseenCases,
    unseen_cases,
    variance_of_difference,
)
from streameval._uncertainty.pair_verdict import verdict_of
from streameval._uncertainty.rules import Given
from streameval._uncertainty.student import E_VALUE_ALPHA
from streameval._uncertainty.unseen_weights import assumed_weight, unseen_weight

if TYPE_CHECKING:
    from streameval._uncertainty.intervals import UncertaintyQueries
    from streameval._uncertainty.pair_grid import PairGrid
    from streameval._uncertainty.rules import UncertainMetric


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two models' figures of the same cases, and their difference, at every level.

    Attributes
    ----------
    metric : str
    prevalence : float or None
    a, b : UncertainMetric
    difference : Difference
    reason : str or None
        Why the difference has no variance.
    assumed_weight : float
        As of `Interval`.
    """

    metric: str
    prevalence: float | None
    a: UncertainMetric
    b: UncertainMetric
    difference: Difference
    reason: str | None
    assumed_weight: float

    DECIDING_E_VALUE: ClassVar[float] = 1 / E_VALUE_ALPHA
    """The evidence that decides: equal models ever reach it with a probability of 0.05."""
    MIN_CASES: ClassVar[int] = MIN_ANYTIME_POSITIVES
    """Fewer of a class are no evidence."""

    @staticmethod
    def check(metric: str, level: float, prevalence: float | None) -> None:
        """Refuse a metric by which pairs are not compared, and values out of range."""
        check_level(level)
        if metric not in Place.COMPARISON.names():
            raise InvalidInputError(
                f"pairs are compared by {', '.join(Place.COMPARISON.names())}; got {shown(metric)}",
                field="metric",
            )
        check_prevalence(prevalence, metric)

    @classmethod
    def of(
        cls,
        grid: PairGrid,
        models: tuple[UncertaintyQueries, UncertaintyQueries],
        metric: str,
        prevalence: float | None,
    ) -> ComparedPair:
        """Compare the models of a grid. O(n log n) in its entries.

        Parameters
        ----------
        grid : PairGrid
            All cases of the models.
        models : UncertaintyQueries
            The cases of a and of b, with their own scores.
        metric, prevalence
            As `check` takes them.
        """
        a, b = (rule_of(metric).uncertain(model, metric, Given(prevalence)) for model in models)
        reason = a.figure.refused or b.figure.refused
        try:
            variance = variance_of_difference(grid, (a, b), prevalence)
        except GridTooCoarseError:
            variance, reason = PairVariance(math.nan), reason or GRID_TOO_COARSE
        reason = reason or variance.difference.refused
        value = math.nan if reason is not None else variance.value
        difference = Difference(
            metric,
            a.figure,
            b.figure,
            value,
            unseen=_unseen(models, (a, b), prevalence, variance),
            freedom=variance.freedom,
            effect=variance.difference,
        )
        a, b = a.widened(variance.a), b.widened(variance.b)
        weight = assumed_weight(models[0]._view())
        return cls(metric, prevalence, a, b, difference, reason, weight)

    def growth_to_decide(self) -> float:
        """Return how many times as many cases a decision takes; as `Difference`. O(1)."""
        return self.difference.growth_to_decide()

    def verdict(
        self, change: Comparison, cases: int, names: tuple[str, str], *, noun: str = "cases"
    ) -> str:
        """Return a comparison at all looks as one sentence; as `verdict_of`."""
        return verdict_of(change, self.growth_to_decide(), cases, names, noun=noun)

    def comparison(self, level: float, *, anytime: bool) -> Comparison:
        """Return the comparison at a level. O(1)."""
        difference, reason = self.difference, self.reason
        lower, upper = difference.limits(1 - level, anytime=anytime)
        evidence = difference.e_value()
        p_value = p_value_of(difference.estimate, difference.limits)
        if anytime:
            p_value = math.nan if math.isnan(evidence) else max(MIN_P_VALUE, min(1.0, 1 / evidence))
        a, b = (
            replace(each.interval(level, anytime=anytime), assumed_weight=self.assumed_weight)
            for each in (self.a, self.b)
        )
        return Comparison(
            metric=self.metric,
            difference=difference.estimate,
            lower=lower,
            upper=upper,
            level=level,
            p_value=p_value,
            prevalence=self.prevalence,
            a=a,
            b=b,
            reason=TOO_FEW if math.isnan(lower) and reason is None else reason,
            anytime=anytime,
            e_value=evidence,
            design_effect=difference.effect.value,
            warnings=() if a.weight_warning is None else (a.weight_warning,),
        )


def _unseen(
    models: tuple[UncertaintyQueries, UncertaintyQueries],
    metrics: tuple[UncertainMetric, UncertainMetric],
    prevalence: float | None,
    variance: PairVariance,
) -> UnseenCases:
    """Return what unseen cases of both models do to their difference; nan without limits. O(G).

    An unseen case weighs what `unseen_weights` says, and with clusters it is as many cases as
    the mean cluster of a case of its class has, or as the greatest of the effects.
    """
    effect = max(each.value for each in (variance.difference, variance.a, variance.b))
    if math.isnan(variance.value) or not math.isfinite(effect):
        return UnseenCases(math.nan, math.nan)
    of_positives, of_negatives = (max(effect, size) for size in variance.difference.sizes)
    found = []
    for model, metric in zip(models, metrics):
        view = model._view()
        units = 1.0
        if view.weighted is not None:
            weight = unseen_weight(view, view.weighted)
            units = weight.cases * weight.units
        weights = of_positives * units, of_negatives * units
        found.append(unseen_cases(view.groups, metric, prevalence, weights))
    return UnseenCases(sum(each.variance for each in found), max(each.step for each in found))
