"""The sampling variance of a metric of weighted cases, from its gradient.

A case of weight w in cell k moves a metric by w times the derivative by the cell's counts,
so the variance is the sum over cells of (sum w^2 of the positives) g1^2 + (the same of the
negatives) g0^2. Over the variance of as many cases that all have their class's mean weight,
it is the design effect D (Kish 1965). Areas keep their small-sample shapes with Kish's effective
cases of each class; a share of cases is Wilson's of as many cases as have its variance.

A sample whose few heavy cases happen to be missing looks precise and is not. So limits allow
for unseen cases of the greatest weight (`unseen_weights`), whatever was drawn.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streameval._counts.exact import dot
from streameval._metric_registry import BY_NAME
from streameval._metrics.confusion import Confusion
from streameval._metrics.gradients import cells_of
from streameval._metrics.queries import ViewQueries
from streameval._metrics.weighting import effective_cases
from streameval._uncertainty.design_effect import DesignEffect
from streameval._uncertainty.error_costs import costlier_errors, error_shares
from streameval._uncertainty.limits import Figure
from streameval._uncertainty.rules import ErrorShares
from streameval._uncertainty.unseen_cases import negative_step, positive_step
from streameval._uncertainty.unseen_weights import UnseenWeight, unseen_weight

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval._common.arrays import BoolArray, FloatArray
    from streameval._counts.groups import Groups
    from streameval._counts.multiset import ScoreCounts
    from streameval._counts.run import Run
    from streameval._counts.view import View
    from streameval._metrics.costs import ErrorCosts
    from streameval._metrics.gradients import Estimator
    from streameval._uncertainty.rules import Parts


class ClassSums(NamedTuple):
    """One class's sums by cell: cases, units, and squared units."""

    cases: FloatArray
    units: FloatArray
    squares: FloatArray

    @property
    def effective(self) -> float:
        """Kish's effective number of cases."""
        return effective_cases(float(self.units.sum()), float(self.squares.sum()))

    @property
    def totals(self) -> tuple[float, float, float]:
        """The three sums over all cells."""
        return float(self.cases.sum()), float(self.units.sum()), float(self.squares.sum())

    @property
    def mean_weight(self) -> float:
        """What a case weighs on average, in units; 0 of none."""
        return float(self.units.sum()) / (float(self.cases.sum()) or 1.0)

    def variance(self, derivative: FloatArray) -> float:
        """Return what the class adds to a metric's variance."""
        return float((self.squares * derivative**2 * _unbiased(self.effective)).sum())

    def moving(self, derivative: FloatArray) -> float:
        """Return the effective number of cases by how far each moves a metric."""
        moved = float((self.units * np.abs(derivative)).sum())
        return effective_cases(moved, float((self.squares * derivative**2).sum()))

    def moving_weight(self, derivative: FloatArray) -> float:
        """Return the mean weight, in units, of the cases that move a metric, by how far."""
        moved = float((self.units * derivative**2).sum())
        if not moved:
            return self.mean_weight
        return float((self.squares * derivative**2).sum()) / moved

    def equal_variance(self, derivative: FloatArray) -> float:
        """Return what the class would add if all cases had their mean weight."""
        return self.mean_weight * dot(self.units, derivative**2) * _unbiased(self.effective)


_ROC_SHARE = 0.7
"""Of an unseen case's step in AUC-ROC: a heavy positive is low, but seldom below all others."""


def weighted_figure(
    view: View, weighted: ScoreCounts, name: str, prevalence: float | None
) -> Figure:
    """Return a metric of weighted cases with its variance; nan where undefined. O(K).

    Parameters
    ----------
    view : View
        Its counts are units of weight.
    weighted : ScoreCounts
        The view's sums of weights and of their squares.
    name : str
        A metric that has an interval as an area or as a share has.
    prevalence : float or None
        To which the metric is rescaled.
    """
    metric = BY_NAME[name]
    arguments = {} if prevalence is None else {"prevalence": prevalence}
    estimate = float(metric.function(ViewQueries(view), **arguments))
    cells = cells_of(view)
    positives, negatives = class_sums(view, weighted, cells)
    P, N = float(positives.cases.sum()), float(negatives.cases.sum())
    unseen = unseen_weight(view, weighted)
    assert metric.gradient is not None, name
    if metric.estimator is None:
        if math.isnan(estimate):
            return Figure(estimate, math.nan, P, N)
        cases, units, squares = np.transpose((positives.totals, negatives.totals))
        return _share(cases, units, squares, unseen=unseen)
    if math.isnan(estimate) or min(P, N) < 2:
        return Figure(estimate, math.nan, P, N)
    gradient = metric.gradient(cells, **arguments)
    sides = ((positives, gradient.positive), (negatives, gradient.negative))
    spreads = [side.variance(moves) for side, moves in sides]
    equal = sum(side.equal_variance(moves) for side, moves in sides)
    of_positive, of_negative = (side.moving_weight(moves) for side, moves in sides)
    # Where a design goes by scores, an unseen negative weighs what negatives do at high scores:
    # these move an area.
    weights = (max(of_positive, unseen.cases * unseen.units), of_negative)
    fall = _fall(view.groups, metric.estimator, prevalence, weights)
    return Figure(
        estimate,
        sum(spreads),
        positives.effective,
        negatives.effective,
        freedom=_freedom(spreads, [side.moving(moves) for side, moves in sides]),
        design_effect=max(1.0, sum(spreads) / equal) if equal > 0 else 1.0,
        refused=unseen.refused,
        unseen=(fall if metric.is_rescaled else _ROC_SHARE * fall, 0.0),
    )


def _fall(
    groups: Groups, estimator: Estimator, prevalence: float | None, units: Sequence[float]
) -> float:
    """Return what an area loses to an unseen case of each class, as errors that add up. O(G)."""
    of_positive, of_negative = (max(1, round(each)) for each in units)
    return math.hypot(
        positive_step(groups, estimator, prevalence, units=of_positive),
        negative_step(groups, estimator, prevalence, units=of_negative),
    )


def effective_scored(weighted: ScoreCounts) -> float:
    """Return Kish's effective number of all scored cases. O(K)."""
    runs = (weighted.positives, weighted.negatives)
    units = sum(float(run.total) for run in runs)
    return effective_cases(units, sum(float(run.squares().sum()) for run in runs))


def weighted_scored(view: View, weighted: ScoreCounts, cells: Groups) -> tuple[FloatArray, Figure]:
    """Return squared weights by cell, and the share of scored cases that is positive. O(K)."""
    sides = [_class_sums(run, 0, view.unit, cells.scores) for run in weighted.runs]
    cases, units, squares = np.transpose([side.totals for side in sides])
    share = _share(cases, units, squares, unseen=unseen_weight(view, weighted))
    return sides[0].squares + sides[1].squares, share


def weighted_bins(view: View, weighted: ScoreCounts, upper: FloatArray) -> list[Figure]:
    """Return the observed rate of each bin of scores, without cases that it lacks. O(K).

    Parameters
    ----------
    view, weighted
        As of `weighted_figure`.
    upper : float64[B]
        The greatest score of each bin, ascending; each has cases.
    """
    unseen = unseen_weight(view, weighted)._replace(cases=0.0)
    sums = np.zeros((upper.size, 3, 2))
    for side, run in enumerate(weighted.runs):
        place = np.searchsorted(upper, run.scores, side="left")
        for row, column in enumerate((run.cases, run.multiplicities(), run.squares())):
            np.add.at(sums[:, row, side], place, column)
    return [_share(*each, unseen=unseen) for each in sums]


def weighted_share(
    view: View,
    weighted: ScoreCounts,
    parts: Callable[[Confusion], Parts],
    threshold: float,
) -> Figure:
    """Return the share of a rate at a threshold, of weighted cases, with its variance. O(K)."""
    cells = cells_of(view)
    called = cells.scores >= threshold
    positives, negatives = class_sums(view, weighted, cells)
    cases, units, squares = np.array(
        [
            parts(_confusion(threshold, called, of_positives, of_negatives))
            for of_positives, of_negatives in zip(positives, negatives, strict=True)
        ]
    )
    if not units.sum():
        return Figure(math.nan, math.nan, 0, 0)
    return _share(cases, units, squares, unseen=unseen_weight(view, weighted))


def weighted_cost(
    view: View, weighted: ScoreCounts, threshold: float, costs: ErrorCosts
) -> ErrorShares:
    """Return the shares of errors, and of the costlier ones, of weighted cases. O(K).

    Both are widened by what the weights add to the variance of the mean cost.
    """
    cells = cells_of(view)
    called = cells.scores >= threshold
    positives, negatives = class_sums(view, weighted, cells)
    cases, units, squares = (
        _confusion(threshold, called, of_positives, of_negatives)
        for of_positives, of_negatives in zip(positives, negatives, strict=True)
    )
    total, whole = _sum(cases), _sum(units)
    shares = error_shares(units, costs, total)
    if not whole:
        return shares
    of_fp, of_fn = costs.relative
    mean = units.expected_cost(cost_fp=of_fp, cost_fn=of_fn)
    binomial = (of_fp**2 * units.fp + of_fn**2 * units.fn) / whole - mean**2
    spread = (of_fp - mean) ** 2 * squares.fp + (of_fn - mean) ** 2 * squares.fn
    spread = (spread + mean**2 * (squares.tp + squares.tn)) / whole**2
    # Without errors the weights of all cases say what is known.
    kish = effective_cases(whole, _sum(squares))
    effect = max(1.0, total * spread / binomial if binomial > 0 else total / kish)
    unseen = unseen_weight(view, weighted)
    shares = shares.widened(DesignEffect(effect), refused=unseen.refused)
    sums = (cases, units, squares)
    errors = [(each.fp + each.fn, each.tp + each.tn) for each in sums]
    rarer = [(hits := costlier_errors(each, costs), _sum(each) - hits) for each in sums]
    alone = [_share(*map(np.array, parts), unseen=unseen) for parts in (errors, rarer)]
    return ErrorShares(*map(_of_fewer_cases, shares, alone))


def _of_fewer_cases(by_cost: Figure, alone: Figure) -> Figure:
    """Return a share with its own effective cases, or the mean cost's where these are fewer."""
    own, shared = (each.positives + each.negatives for each in (alone, by_cost))
    if own < shared:
        return replace(alone, design_effect=by_cost.design_effect)
    return replace(by_cost, unseen=alone.unseen)


def _sum(counts: Confusion) -> float:
    return counts.tp + counts.fp + counts.fn + counts.tn


def _share(
    cases: FloatArray, units: FloatArray, squares: FloatArray, *, unseen: UnseenWeight
) -> Figure:
    """Return the share of hits, from each sum over the hits and over the other cases.

    A hit moves the share s by (1 - s) of its weight over all weight, another case by -s.
    """
    whole = float(units.sum())
    if not whole:
        return Figure(math.nan, math.nan, 0, 0)
    share = float(units[0]) / whole
    of_hit, of_other = _deciding_weights(units, squares)
    # As many cases of one weight have the same variance.
    effective = whole / ((1 - share) * of_hit + share * of_other)
    # Another case that is not seen lowers the share, a hit raises it.
    fall, rise = (unseen.beyond(each) / whole for each in (of_other, of_hit))
    return Figure(
        share,
        share * (1 - share) / effective,
        effective * share,
        effective * (1 - share),
        design_effect=max(1.0, float(cases.sum()) / effective),
        refused=unseen.refused,
        unseen=(fall, rise),
    )


def _deciding_weights(units: FloatArray, squares: FloatArray) -> list[float]:
    """Return sum w^2 over sum w, in units, of the hits and of the other cases.

    Of none the weights of all cases say what is known.
    """
    every = float(squares.sum()) / float(units.sum())
    pairs = zip(units.tolist(), squares.tolist(), strict=True)
    return [square / unit if unit else every for unit, square in pairs]


def _freedom(spreads: list[float], cases: list[float]) -> float:
    """Return the degrees of freedom of the sum of two classes' variances (Satterthwaite 1946)."""
    terms = [spread**2 / max(n - 1, 1.0) for spread, n in zip(spreads, cases, strict=True)]
    return sum(spreads) ** 2 / sum(terms) if sum(terms) > 0 else max(min(cases) - 1, 1.0)


def _unbiased(effective: float) -> float:
    """Return n/(n - 1), which makes a mean squared distance an unbiased variance."""
    return effective / (effective - 1) if effective > 1 else 1.0


def _confusion(
    threshold: float, called: BoolArray, positives: FloatArray, negatives: FloatArray
) -> Confusion:
    """Return the confusion matrix of any sums of the cells."""
    tp, fp, fn, tn = (
        float(column[rows].sum()) for rows in (called, ~called) for column in (positives, negatives)
    )
    sums: Any = (tp, fp, fn, tn)
    return Confusion(threshold, *sums)


def class_sums(view: View, weighted: ScoreCounts, cells: Groups) -> tuple[ClassSums, ClassSums]:
    """Return the sums of each class in the order of the cells; the misses weigh 1 each."""
    return (
        _class_sums(weighted.positives, view.missed_positives, view.unit, cells.scores),
        _class_sums(weighted.negatives, view.missed_negatives, view.unit, cells.scores),
    )


def _class_sums(run: Run, missed: int, unit: int, scores: FloatArray) -> ClassSums:
    rows = scores.size - 1 - np.searchsorted(scores[::-1], run.scores)
    columns = np.zeros((3, scores.size))
    columns[:, rows] = run.cases, run.multiplicities(), run.squares()
    if missed:
        columns[:, -1] = missed / unit, missed, float(missed) * unit
    return ClassSums(*columns)
