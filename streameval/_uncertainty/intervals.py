"""Confidence intervals of metrics, from the counts alone.

Each interval costs one pass over the groups (O(G)); nothing is resampled unless
``method="bootstrap"`` is given. Cases are taken as independent, or with declared clusters,
cases of different clusters are. Where cases are correlated, like the cases of one customer
or of one burst, and no clusters are declared, the intervals are too narrow.
Measured coverage, by metric, prevalence and number of positives, is in
docs/evidence-map.md; ``bench/truth.py map`` measures it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from streameval._common.errors import InvalidInputError
from streameval._common.values import real, shown
from streameval._metric_registry import BY_NAME, Place
from streameval._metrics.costs import ErrorCosts, check_costs
from streameval._metrics.queries import ViewQueries
from streameval._metrics.weighting import require_unweighted
from streameval._uncertainty.bootstrap import bootstrap_limits
from streameval._uncertainty.bounds import BoundsQueries, value_of_view
from streameval._uncertainty.calibration import bin_limits
from streameval._uncertainty.cluster_effect import cluster_effect
from streameval._uncertainty.design_effect import INDEPENDENT
from streameval._uncertainty.error_costs import error_shares
from streameval._uncertainty.estimates import figure_of, rule_of, value_of
from streameval._uncertainty.interval import Interval
from streameval._uncertainty.limits import UNDEFINED, Figure, Limits, proportion_limits
from streameval._uncertainty.pane_blocks import pane_effect
from streameval._uncertainty.rules import Given, share_figure
from streameval._uncertainty.unseen_weights import assumed_weight
from streameval._uncertainty.weighted_variance import (
    effective_scored,
    weighted_bins,
    weighted_cost,
    weighted_figure,
    weighted_scored,
    weighted_share,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._counts.state import State
    from streameval._metrics.confusion import Confusion
    from streameval._metrics.gradients import Gradient
    from streameval._metrics.reliability import ReliabilityTable
    from streameval._uncertainty.design_effect import DesignEffect
    from streameval._uncertainty.rules import ErrorShares, IntervalRule, Parts

Method: TypeAlias = Literal["analytic", "bootstrap"]


class UncertaintyQueries(BoundsQueries):
    """The confidence intervals of an evaluator."""

    def interval(
        self,
        metric: str = "auc_pr",
        *,
        level: float = 0.95,
        anytime: bool = False,
        prevalence: float | None = None,
        threshold: float | None = None,
        cost_fp: float | None = None,
        cost_fn: float | None = None,
        method: Method = "analytic",
        resamples: int = 1000,
        seed: int = 0,
    ) -> Interval:
        """Return a confidence interval of a metric, of independent cases or clusters.

        Parameters
        ----------
        metric : str
            A metric that the table of metrics gives an interval: an area such as
            "auc_roc", "prevalence", with a `threshold` a metric such as "recall", with
            costs what errors cost, of probabilities "calibration_error". Another name is
            refused with the list of all. A hull and a
            maximum over thresholds have no interval: they are chosen on the data that
            they are scored on, so they are biased estimates for new data, and no
            interval around them would hold its nominal coverage.
        level : float
            Nominal coverage, between 0 and 1.
        anytime : bool
            Return an interval from a confidence sequence: with probability
            `level` all intervals from 50 positives on hold the true value, at
            any number of looks. For metrics that are cumulative from a start
            declared beforehand, not for sliding windows.
        prevalence : float, optional
            For the areas in precision-recall space: the prevalence to rescale
            to, taken as known; by default the data's own, whose uncertainty is
            included.
        threshold : float, optional
            For the rates at a threshold; it was chosen on other data. A bounded
            evaluator rounds it up to the next cell.
        cost_fp, cost_fn : float, optional
            Of the expected cost: what a false positive and a false negative cost.
        method : {"analytic", "bootstrap"}
            "bootstrap" resamples the groups and takes percentiles: slower, with
            no better coverage (docs/intervals.md).
        resamples, seed : int
            Of the bootstrap.

        Returns
        -------
        Interval
            Limits are nan with fewer than two positives or negatives (for the
            prevalence and rates: than two cases in the denominator), and with
            `anytime` below 50 positives, or cases that count for the rate, or costlier
            errors. With weights that no `min_label_probability` bounds also where one case
            may have more than a fifth of the sum of their squares; then the reason is
            ``"TOO_FEW_EFFECTIVE"``.

        Raises
        ------
        InvalidInputError
            For a metric without intervals, for values out of range, and for the
            bootstrap where cases have weights.

        Notes
        -----
        O(G) for G distinct scores with positives; cached for each revision.
        AUC-ROC: DeLong's variance, stabilised by Newcombe's (2006). Areas in
        precision-recall space: the variance of the influence function, shrunk,
        on the logit scale. Prevalence and rates at a threshold: Wilson's, F as a
        function of the share TP/(TP + FP + FN). Expected cost: square-and-add of Wilson's
        of all errors and of the costlier ones. Calibration error: conservative, of the gaps
        of its bins; the ratio of observed to expected positives: given the scores. Anytime:
        Waudby-Smith et al. (2024).
        With weights: docs/weights.md. Clusters: the variance between their groups (there);
        O(n) for the n cells of all groups. Where these keep too few bits the reason is
        ``"TOO_COARSE"``, of fewer than 20 effective clusters ``"TOO_FEW_CLUSTERS"``.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 1, 0, 1, 0, 0], scores=[6, 5, 4, 3, 2, 1])
        >>> interval = ev.interval("auc_roc")
        >>> round(interval.lower, 2), round(interval.estimate, 2), round(interval.upper, 2)
        (0.04, 0.89, 1.0)
        """
        check_level(level)
        check_prevalence(prevalence, metric)
        check_threshold(threshold, metric)
        given = Given(prevalence, threshold, checked_costs(metric, cost_fp, cost_fn))
        rule = rule_of(metric)
        view = self._view()
        cells = view.resolution is not None and rule.is_blurred
        check_method(method, rule, anytime=anytime, cells=cells, resamples=resamples)
        if method == "bootstrap":
            return self._bootstrap(metric, level, prevalence, resamples=resamples, seed=seed)
        found = rule.uncertain(self, metric, given).interval(level, anytime=anytime)
        if threshold is not None and given.costs is None:
            # A share is rounded apart from its rate, and may be undefined where the rate is not.
            found = replace(found, estimate=self._value_given(metric, given))
        found = replace(found, assumed_weight=assumed_weight(view))
        return self._with_least_effect(found, metric, given.arguments)

    def _bootstrap(
        self, name: str, level: float, prevalence: float | None, *, resamples: int, seed: int
    ) -> Interval:
        """Return the interval by resampling. O(resamples x G)."""
        view = self._view()
        require_unweighted("the bootstrap", is_weighted=view.unit > 1)
        if view.clusters.num_groups:
            message = "the bootstrap takes cases as independent; with clusters use 'analytic'"
            raise InvalidInputError(message, field="method")
        figure = self._figure(name, prevalence)
        limits = UNDEFINED
        if not math.isnan(figure.variance):
            limits = bootstrap_limits(
                view.groups,
                lambda groups: value_of(groups, name, prevalence),
                alpha=1 - level,
                fixed_prevalence=prevalence is not None,
                resamples=resamples,
                seed=seed,
            )
        return Interval(*limits, level=level, method="bootstrap", estimate=figure.estimate)

    def _value_given(self, name: str, given: Given) -> float:
        """Return a metric that needs what is given."""
        value: float = BY_NAME[name].function(self, **given.keywords)
        return value

    def _figure(self, name: str, prevalence: float | None) -> Figure:
        """Return a metric with its sampling variance; weighted windows override it. O(G)."""
        view = self._view()
        if view.weighted is not None:
            return weighted_figure(view, view.weighted, name, prevalence)
        if BY_NAME[name].estimator is None:
            return figure_of(view.groups, name)
        value = value_of_view(view, BY_NAME[name], **Given(prevalence).keywords)
        return figure_of(view.groups, name, prevalence, value=value)

    def _share_figure(self, parts: Callable[[Confusion], Parts], threshold: float) -> Figure:
        """Return a share at a threshold with its variance; decayed windows override it."""
        view = self._view()
        if view.weighted is not None:
            return weighted_share(view, view.weighted, parts, threshold)
        return share_figure(*parts(ViewQueries(view).confusion_at(threshold)))

    def _error_shares(self, threshold: float, costs: ErrorCosts) -> ErrorShares:
        """Return the shares of errors at a threshold; weighted windows override it. O(log K)."""
        view = self._view()
        if view.weighted is not None:
            return weighted_cost(view, view.weighted, threshold, costs)
        at = ViewQueries(view).confusion_at(threshold)
        return error_shares(at, costs, view.P + view.N)

    def _bin_limits(self, table: ReliabilityTable, level: float) -> list[Limits]:
        """Return the limits of each observed rate of a table; nan of too few effective cases."""
        view = self._view()
        if view.weighted is not None:
            figures = weighted_bins(view, view.weighted, table.upper)
            return [
                UNDEFINED if figure.refused else proportion_limits(figure, 1 - level)
                for figure in figures
            ]
        return bin_limits(table, self._effective_scored(), level)

    def _weights_of_scored(self, cells: Groups) -> tuple[FloatArray | None, Figure | None]:
        """Return the squared weights of each cell, and the share of positives. O(K)."""
        view = self._view()
        if view.weighted is None:
            return None, None
        return weighted_scored(view, view.weighted, cells)

    def _effective_scored(self) -> float:
        """Return Kish's effective number of scored cases; weighted windows override it. O(K)."""
        view = self._view()
        if view.weighted is not None:
            return effective_scored(view.weighted)
        return float(view.P + view.N - view.missed_positives - view.missed_negatives)

    def _design_effect(self, name: str, arguments: tuple[float, ...]) -> DesignEffect:
        """Return the effect of clusters; none where none are declared. O(n), cached."""
        if not self._view().clusters.counts.size:
            return INDEPENDENT
        return self._cluster_effect(name, arguments)

    def _cluster_effect(self, name: str, arguments: tuple[float, ...]) -> DesignEffect:
        """Return the effect of clusters; weighted windows override it. O(n), cached."""
        view = self._view()
        return view.cached(
            ("design effect", name, arguments),
            lambda: cluster_effect(view, gradient_function(name, arguments)),
        )

    def _with_least_effect(
        self, interval: Interval, name: str, arguments: tuple[float, ...]
    ) -> Interval:
        """Return an interval with what the panes show of dependence. O(S), cached."""
        panes, view = self._panes_as_blocks(), self._view()
        if math.isnan(interval.lower) or not panes or view.clusters.num_groups:
            return interval
        effect = view.cached(
            ("least effect", name, arguments),
            lambda: pane_effect(view, panes, gradient_function(name, arguments)),
        )
        return replace(interval, least_effect=effect)

    def _panes_as_blocks(self) -> Sequence[State]:
        """Return the panes of which these are the sum; windows override it."""
        return ()


def analytic_method(name: str) -> str:
    """Return how a metric's interval is made, as `Interval.method` names it.

    Examples
    --------
    >>> analytic_method("prevalence"), analytic_method("auc_pr")
    ('wilson', 'influence-logit')
    """
    metric = BY_NAME.get(name)
    rule = None if metric is None else metric.interval
    return "influence-logit" if rule is None else rule.method


def gradient_function(name: str, arguments: tuple[float, ...]) -> Callable[[Groups], Gradient]:
    """Return a metric's gradient as a function of cells, at a prevalence or a threshold."""
    gradient = BY_NAME[name].gradient
    assert gradient is not None, name
    return lambda cells: gradient(cells, *arguments)


def check_level(level: float) -> None:
    """Refuse a level outside (0, 1)."""
    if not 0 < real(level, "level") < 1:
        message = f"level must be between 0 and 1, got {shown(level)}"
        raise InvalidInputError(message, field="level")


def check_method(
    method: str, rule: IntervalRule, *, anytime: bool, cells: bool, resamples: int
) -> None:
    """Refuse an unknown method, and the bootstrap where it has no interval."""
    if method not in get_args(Method):
        raise InvalidInputError(
            f"method must be 'analytic' or 'bootstrap', got {shown(method)}", field="method"
        )
    lacks = "an anytime interval" if anytime else rule.no_bootstrap
    if cells:
        lacks = rule.no_bootstrap or "one from scores that kept few bits"
    if method == "bootstrap" and lacks is not None:
        raise InvalidInputError(
            f"the bootstrap has no interval of this kind: {lacks}; use method='analytic'",
            field="method",
        )
    if resamples < 1:
        raise InvalidInputError(f"resamples must be at least 1, got {resamples}", field="resamples")


def check_prevalence(prevalence: float | None, name: str) -> None:
    """Refuse a metric without intervals, and a prevalence that it cannot use."""
    metric = BY_NAME.get(name)
    if metric is not None and metric.is_hull:
        raise InvalidInputError(
            f"{name} has no interval: the hull is chosen on the data it is scored on, so its "
            f"area is optimistic by an unknown amount; use {name.removesuffix('_hull')}",
            field="metric",
        )
    if metric is not None and metric.is_maximum:
        raise InvalidInputError(
            f"{name} has no interval: its threshold is chosen on the data it is scored on, so it "
            "is optimistic by an unknown amount; use a rate at a threshold chosen on other data",
            field="metric",
        )
    if metric is None or metric.interval is None:
        raise InvalidInputError(
            f"no interval for {shown(name)}; there is one for {', '.join(Place.INTERVAL.names())}",
            field="metric",
        )
    if prevalence is None:
        return
    if not metric.is_rescaled:
        raise InvalidInputError(f"{name} does not depend on a prevalence", field="prevalence")
    if not 0 < real(prevalence, "prevalence") < 1:
        raise InvalidInputError(
            f"prevalence must be between 0 and 1, got {shown(prevalence)}", field="prevalence"
        )


def check_threshold(threshold: float | None, name: str) -> None:
    """Refuse a threshold where it has no meaning, and a rate without one."""
    if not BY_NAME[name].is_at_threshold:
        if threshold is not None:
            message = f"{name} does not depend on a threshold"
            raise InvalidInputError(message, field="threshold")
    elif threshold is None:
        message = f"the interval of {name} needs a threshold: interval({name!r}, threshold=0.5)"
        raise InvalidInputError(message, field="threshold")


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


def rate_limits(queries: UncertaintyQueries, table: ReliabilityTable, level: float) -> list[Limits]:
    """Return the limits of each observed rate of a table; nan of too few effective cases."""
    return queries._bin_limits(table, level)
