"""Intervals of areas: AUC-ROC, and the areas in precision-recall space.

The limits are of the variance of the sample (`limits`), widened for the cases that the
sample may not have (`unseen_cases`). Of a bounded evaluator the order inside the cells is
unknown, so the exact metric is anywhere within its bounds. A limit does not always move with
the estimate: near 0 and 1 the same variance gives a wider interval. So the interval is from
the least lower to the greatest upper limit of several figures, `hidden_figures`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._metrics.pr_areas import negatives_factor
from streameval._uncertainty.cell_limits import CellLimits
from streameval._uncertainty.cell_orders import (
    hidden_groups,
    least_average_precision,
    negatives_first,
    positives_first,
    rows_of,
)
from streameval._uncertainty.cell_variance import greatest_error
from streameval._uncertainty.design_effect import INDEPENDENT, least_freedom
from streameval._uncertainty.limits import (
    UNDEFINED,
    Figure,
    Limits,
    auc_roc_limits,
    precision_limits,
    precision_turns,
)
from streameval._uncertainty.rules import IntervalRule, UncertainMetric, has_no_limits
from streameval._uncertainty.sampling_variance import least_freedom_of, sampling_error
from streameval._uncertainty.unseen_cases import (
    precision_errors,
    roc_errors,
    with_mean_step,
    with_unseen_cases,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._counts.groups import Groups
    from streameval._counts.view import View
    from streameval._metrics.gradients import Estimator
    from streameval._uncertainty.rules import Counted, Given

_LIMIT_ROUNDING = 2.0**-48
"""AUC-ROC's limits are bisected to 2^-50; a bounded evaluator's are widened by this for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaRule(IntervalRule):
    """The interval of an area, from its estimator.

    Attributes
    ----------
    seen_limits : callable
        A figure and an alpha to the limits by the variance of the sample alone.
    unseen_errors : callable
        A figure to the errors of the cases that the sample may not have: of the lower limit,
        and of the upper one.
    turns : callable or None
        Two figures of one variance and an alpha to the figures between them at which a limit
        turns; None where limits move with the estimate.
    """

    estimator: Estimator
    no_bootstrap: str | None = None
    is_blurred: bool = True
    seen_limits: Callable[..., Limits]
    unseen_errors: Callable[[Figure], tuple[float, float]]
    turns: Callable[..., list[Figure]] | None = None

    def uncertain(self, counted: Counted, name: str, given: Given) -> UncertainMetric:
        """Return an area. O(G), cached for each revision."""
        view, prevalence = counted._view(), given.prevalence
        figure = view.cached(
            ("figure", name, prevalence), lambda: counted._figure(name, prevalence)
        )
        effect = INDEPENDENT
        if not math.isnan(figure.variance):
            effect = counted._design_effect(name, given.arguments)
        if effect is not INDEPENDENT:
            figure = effect.widened(figure)
        figures: tuple[Figure, ...] = (figure,)
        if view.resolution is not None:
            bounds = counted.bounds(name, **given.keywords)
            figures = view.cached(
                ("hidden figures", name, prevalence, effect.value),
                lambda: self._figures_between(view, figure, bounds, prevalence),
            )
        return UncertainMetric(self, figure.estimate, figures, figure, effect)

    def limits(self, figures: tuple[Figure, ...], alpha: float, *, anytime: bool) -> Limits:
        """Return the least lower and the greatest upper limit between the figures. O(1)."""
        first = figures[0]
        if has_no_limits(first, min(first.positives, first.negatives), anytime=anytime):
            return UNDEFINED
        seen = self.seen_limits(first, alpha, anytime=anytime)
        if len(figures) == 1:
            return with_unseen_cases(seen, first, first, self.unseen_errors, alpha, anytime=anytime)
        if math.isnan(seen[0]):
            return UNDEFINED
        if self.turns is not None:
            figures += tuple(self.turns(first, figures[-1], alpha, anytime=anytime))
        limits = [self.seen_limits(each, alpha, anytime=anytime) for each in figures[1:]]
        limits.append(seen)
        outermost = min(lower for lower, _ in limits), max(upper for _, upper in limits)
        ordered = sorted(figures, key=lambda each: each.estimate)
        lower, upper = with_unseen_cases(
            outermost, ordered[0], ordered[-1], self.unseen_errors, alpha, anytime=anytime
        )
        return max(lower - _LIMIT_ROUNDING, 0.0), min(upper + _LIMIT_ROUNDING, 1.0)

    def _figures_between(
        self, view: View, figure: Figure, bounds: Limits, prevalence: float | None
    ) -> tuple[Figure, ...]:
        """Return the figures at the bounds, and others between where an order is hidden. O(G)."""
        ends = tuple(replace(figure, estimate=bound) for bound in bounds)
        if math.isnan(figure.variance):
            return ends
        return self.hidden_figures(view, figure, ends, prevalence)

    @abstractmethod
    def hidden_figures(
        self, view: View, figure: Figure, ends: tuple[Figure, ...], prevalence: float | None
    ) -> tuple[Figure, ...]:
        """Return the estimates and variances whose limits an interval has to enclose. O(G).

        `ends` are the figure at its least and its greatest value.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RocRule(AreaRule):
    """DeLong's variance of AUC-ROC, stabilised by Newcombe's (2006).

    Where cells hide an order the standard error grows by the most that placements inside the
    cells can add to it, so the variance is at least the exact one. It is capped at the variance
    of placements that are all 0 or 1. The figures are at the bounds, and at the estimates
    where the two variances are equal: between them the limits are monotone.
    """

    method: str = "delong-newcombe"
    seen_limits: Callable[..., Limits] = auc_roc_limits
    unseen_errors: Callable[[Figure], tuple[float, float]] = roc_errors

    def hidden_figures(
        self,
        view: View,
        figure: Figure,
        ends: tuple[Figure, ...],
        prevalence: float | None,  # noqa: ARG002 - areas in precision-recall space use it
    ) -> tuple[Figure, ...]:
        """Return the figures at the bounds, and where the variance is the greatest. O(G)."""
        # Weighted counts exceed the effective number of cases.
        weight = view.groups.P / figure.positives
        error = hidden_error(rows_of(view.groups, hidden_groups(view))) * math.sqrt(weight)
        variance = (math.sqrt(figure.variance) + error) ** 2
        lowest, highest = (replace(each, variance=variance) for each in ends)
        return _placement_figures(lowest, highest) if weight == 1 else (lowest, highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionRule(AreaRule):
    """The variance of the influence function, shrunk, on the logit scale.

    Where cells hide an order the figures are at the bounds, with a variance that no order
    exceeds (`cell_variance`), and the step of an unseen negative in the best order, where it
    takes most. That the limits are furthest out at the bounds, and not between
    them, is measured and not proven.
    """

    method: str = "influence-logit"
    seen_limits: Callable[..., Limits] = precision_limits
    unseen_errors: Callable[[Figure], tuple[float, float]] = precision_errors
    turns: Callable[..., list[Figure]] | None = precision_turns

    def hidden_figures(
        self, view: View, figure: Figure, ends: tuple[Figure, ...], prevalence: float | None
    ) -> tuple[Figure, ...]:
        """Return the figures at the bounds, with the greatest variance of any order. O(G)."""
        groups, hidden = view.groups, hidden_groups(view)
        weight = groups.P / figure.positives
        counted = self.estimator.counted(groups)
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
        greatest = greatest_error(counted, limits, self.estimator, prevalence)
        orders = positives_first(counted, hidden), negatives_first(counted, hidden), counted
        errors = [
            sampling_error(self.estimator.influence(order, prevalence), order) for order in orders
        ]
        share = figure.negatives / groups.N  # weighted counts exceed the effective number of cases
        counts = [
            each._replace(positives=figure.positives, effective=each.effective * share)
            for each in (greatest, *errors)
        ]
        freedom = least_freedom(figure.freedom, least_freedom_of(counts))
        variance = greatest.variance * weight
        step = self._greatest_step(counted, orders[0], (figure, ends[-1]), prevalence)
        return tuple(
            replace(each, variance=variance, freedom=freedom, unseen=(step, 0.0)) for each in ends
        )

    def _greatest_step(
        self,
        counted: Groups,
        best: Groups,
        figures: tuple[Figure, Figure],
        prevalence: float | None,
    ) -> float:
        """Return the step of unseen cases in the best order, each positive by itself. O(G).

        `figures` are the figure, with its step of ties, and its greatest value.
        """
        figure, highest = figures
        estimator = by_itself = self.estimator
        if not estimator.counts_misses:
            by_itself = replace(estimator, value=_each_by_itself)
        most = with_mean_step(highest, best, by_itself, prevalence).unseen[0]
        tied = with_mean_step(figure, counted, estimator, prevalence).unseen[0]
        return figure.unseen[0] * max(most / tied, 1.0) if tied > 0 else most


def _each_by_itself(groups: Groups, prevalence: float | None) -> float:
    """Return average precision with the negatives of a group above its positives. O(G)."""
    return least_average_precision(groups, factor=negatives_factor(groups, prevalence))


def _placement_figures(lowest: Figure, highest: Figure) -> tuple[Figure, ...]:
    """Return AUC-ROC at its bounds, and where the variance is the greatest possible one.

    At the estimate t, placements in [0, 1] have a variance of at most t (1 - t) times the
    sum of 1/(P - 1) and 1/(N - 1).
    """
    P, N = lowest.positives, lowest.negatives
    greatest = 1 / (P - 1) + 1 / (N - 1)

    def at(estimate: float) -> Figure:
        cap = greatest * estimate * (1 - estimate)
        return replace(lowest, estimate=estimate, variance=min(lowest.variance, cap))

    figures = [at(lowest.estimate), at(highest.estimate)]
    # t (1 - t) = V/greatest; the least estimate above 0 is a single tied pair's.
    square = max(1 - 4 * lowest.variance / greatest, 0.0)
    root = max((1 - math.sqrt(square)) / 2, 1 / (2 * P * N))
    figures += [at(t) for t in (root, 1 - root) if lowest.estimate < t < highest.estimate]
    return tuple(figures)


def hidden_error(groups: Groups) -> float:
    """Return the most that the order inside these cells adds to AUC-ROC's standard error. O(G)."""
    P, N = groups.P, groups.N
    p, n = groups.p.astype(np.float64), groups.n.astype(np.float64)
    of_positives = float((p * n * n).sum()) / (4.0 * N * N * P * (P - 1))
    of_negatives = float((n * p * p).sum()) / (4.0 * P * P * N * (N - 1))
    return math.sqrt(of_positives + of_negatives)
