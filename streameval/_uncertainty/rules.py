"""How intervals are made: the strategy that a metric's row holds, and the shares of cases.

A rule asks for what was counted (`Counted`: an evaluator, a window, a decayed window each
answer in their own way) and returns the metric with its limits at every level. The rules
of areas are in `area_rules`, of costs in `error_costs`, of calibration in `calibration`.

A share of cases has Wilson's limits where cases are independent and the threshold was chosen
on other data (Wilson 1927), and so has an increasing function of one: F is 2 J/(1 + J), where
J is the share of true positives among all that are positive or called positive.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from streameval._uncertainty.design_effect import INDEPENDENT
from streameval._uncertainty.interval import Interval
from streameval._uncertainty.limits import (
    MIN_ANYTIME_POSITIVES,
    UNDEFINED,
    Figure,
    Limits,
    proportion_limits,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._counts.view import View
    from streameval._metrics.confusion import Confusion
    from streameval._metrics.costs import ErrorCosts
    from streameval._metrics.gradients import Estimator
    from streameval._uncertainty.design_effect import DesignEffect

Parts = tuple[float, float]
"""The cases that count for a share, and the other ones."""


class Given(NamedTuple):
    """What a metric was asked at."""

    prevalence: float | None = None
    threshold: float | None = None
    costs: ErrorCosts | None = None

    @property
    def keywords(self) -> dict[str, float]:
        """The arguments as the metric's method takes them."""
        found = {} if self.costs is None else self.costs._asdict()
        named = {"prevalence": self.prevalence, "threshold": self.threshold}
        return found | {name: value for name, value in named.items() if value is not None}

    @property
    def arguments(self) -> tuple[float, ...]:
        """The arguments as a gradient takes them, after the cells.

        Costs are relative: the design effect is a ratio, so that the costs' unit cancels.
        """
        found = [each for each in (self.prevalence, self.threshold) if each is not None]
        return (*found, *(() if self.costs is None else self.costs.relative))


class ErrorShares(NamedTuple):
    """The share of cases that are errors, and the share that are errors of the costlier kind."""

    errors: Figure
    costlier: Figure

    def widened(self, effect: DesignEffect, *, refused: str | None = None) -> ErrorShares:
        """Return both with limits that allow for an effect, or that are refused. O(1)."""
        return ErrorShares(
            *(effect.widened(replace(each, refused=refused or each.refused)) for each in self)
        )


class Counted(Protocol):
    """What rules ask of an evaluator or a window; windows with weights answer otherwise."""

    def _view(self) -> View: ...

    def bounds(self, metric: str, **arguments: float) -> Limits: ...

    def _value_given(self, name: str, given: Given) -> float: ...

    def _figure(self, name: str, prevalence: float | None) -> Figure: ...

    def _share_figure(self, parts: Callable[[Confusion], Parts], threshold: float) -> Figure: ...

    def _error_shares(self, threshold: float, costs: ErrorCosts) -> ErrorShares: ...

    def _effective_scored(self) -> float: ...

    def _weights_of_scored(self, cells: Groups) -> tuple[FloatArray | None, Figure | None]: ...

    def _design_effect(self, name: str, arguments: tuple[float, ...]) -> DesignEffect: ...


@dataclass(frozen=True, slots=True)
class UncertainMetric:
    """A metric with its limits at every level.

    Attributes
    ----------
    rule : IntervalRule
    estimate : float
        The metric; nan where it is undefined.
    figures : tuple of Figure
        What the limits are made of: one for exact counts.
    figure : Figure
        The metric, or the share of which it is made, with its sampling variance.
    effect : DesignEffect
        The effect of clusters, which the figures allow for.
    greatest : float
        The largest difference that two such metrics can have.
    """

    rule: IntervalRule
    estimate: float
    figures: tuple[Figure, ...]
    figure: Figure
    effect: DesignEffect = INDEPENDENT
    greatest: float = 1.0

    def limits(self, alpha: float, *, anytime: bool = False) -> Limits:
        """Return the limits that miss with probability `alpha` in any order of the cells. O(1)."""
        return self.rule.limits(self.figures, alpha, anytime=anytime)

    def widened(self, effect: DesignEffect) -> UncertainMetric:
        """Return the metric with limits that allow for the effect of its cases' clusters. O(1)."""
        if effect is INDEPENDENT:
            return self
        figures = tuple(map(effect.widened, self.figures))
        return replace(self, figure=effect.widened(self.figure), figures=figures, effect=effect)

    def interval(self, level: float, *, anytime: bool = False) -> Interval:
        """Return the analytic interval at a level. O(1)."""
        lower, upper = self.limits(1 - level, anytime=anytime)
        return Interval(
            lower,
            upper,
            level,
            self.rule.method,
            self.estimate,
            anytime,
            self.figure.design_effect,
            self.figure.refused,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRule(ABC):
    """How a metric's confidence interval is made.

    Attributes
    ----------
    method : str
        As `Interval.method` says it.
    estimator : Estimator or None
        The metric's, where the variance is made of influences.
    no_bootstrap : str or None
        Which interval the bootstrap does not have; None where it has one.
    is_blurred : bool
        Whether cells that keep few bits hide a part of what it is made of.
    """

    method: str
    estimator: Estimator | None = None
    no_bootstrap: str | None = "one for a share of cases"
    is_blurred: bool = False

    @abstractmethod
    def uncertain(self, counted: Counted, name: str, given: Given) -> UncertainMetric:
        """Return a metric with its limits at every level."""

    @abstractmethod
    def limits(self, figures: tuple[Figure, ...], alpha: float, *, anytime: bool) -> Limits:
        """Return the limits that miss with probability `alpha`; nan with too few. O(1)."""


def has_no_limits(figure: Figure, too_few: float, *, anytime: bool) -> bool:
    """Return whether a figure is refused, or `too_few` are fewer than two cases. O(1)."""
    is_early = anytime and figure.positives < MIN_ANYTIME_POSITIVES
    return figure.refused is not None or too_few < 2 or is_early


def wilson_limits(figure: Figure, alpha: float, *, anytime: bool = False) -> Limits:
    """Return Wilson's limits of a share, nan of too few cases. O(1)."""
    if has_no_limits(figure, figure.positives + figure.negatives, anytime=anytime):
        return UNDEFINED
    return proportion_limits(figure, alpha, anytime=anytime)


def share_figure(hits: float, others: float) -> Figure:
    """Return a share of cases with its variance; nan of no cases."""
    cases = hits + others
    share = hits / cases if cases > 0 else math.nan
    return Figure(share, share * (1 - share) / cases if cases > 0 else math.nan, hits, others)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrevalenceRule(IntervalRule):
    """Wilson's interval of the share of all cases that are positive."""

    method: str = "wilson"

    def uncertain(self, counted: Counted, name: str, given: Given) -> UncertainMetric:
        """Return the prevalence. O(1), O(n) of clusters."""
        figure, effect = counted._figure(name, given.prevalence), INDEPENDENT
        if not math.isnan(figure.variance):
            effect = counted._design_effect(name, given.arguments)
            figure = effect.widened(figure)
        return UncertainMetric(self, figure.estimate, (figure,), figure, effect)

    def limits(self, figures: tuple[Figure, ...], alpha: float, *, anytime: bool) -> Limits:
        """Return Wilson's limits. O(1)."""
        return wilson_limits(figures[0], alpha, anytime=anytime)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRule(IntervalRule):
    """Wilson's interval of a rate at a threshold.

    Attributes
    ----------
    parts : callable
        A confusion matrix to the cases that count for the share, and the other ones.
    rate : callable
        The share to the metric, increasing.
    """

    method: str = "wilson"
    parts: Callable[[Confusion], Parts]
    rate: Callable[[float], float] = float

    def uncertain(self, counted: Counted, name: str, given: Given) -> UncertainMetric:
        """Return a rate. O(log K), O(n) of clusters."""
        assert given.threshold is not None, name
        figure, effect = counted._share_figure(self.parts, given.threshold), INDEPENDENT
        if not math.isnan(figure.estimate):
            effect = counted._design_effect(name, given.arguments)
            figure = effect.widened(figure)
        return UncertainMetric(self, self.rate(figure.estimate), (figure,), figure, effect)

    def limits(self, figures: tuple[Figure, ...], alpha: float, *, anytime: bool) -> Limits:
        """Return the limits of the rate, from the figure of its share. O(1)."""
        (figure,) = figures
        if math.isnan(figure.estimate):
            return UNDEFINED
        lower, upper = wilson_limits(figure, alpha, anytime=anytime)
        return self.rate(lower), self.rate(upper)
