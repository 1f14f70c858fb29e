"""The sampling variance of a metric of weighted cases, from its gradient.

A case of weight w in cell k moves a metric by w times the derivative by the cell's counts,
so the variance is the sum over cells of (sum w^2 of the positives) g1^2 + (the same of the
negatives) g0^2. Over the variance of as many cases that all have their class's mean weight,
it is the design effect D (Kish 1965). Intervals keep their small-sample shapes: they take D
times that variance, and P/D and N/D of the P and N cases that were counted. D below 1, of
weights that are small where the metric is sensitive, is taken as 1.

With few effective cases a sum of squared weights is itself mostly chance, so below
`MIN_EFFECTIVE_CASES` there are no limits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streameval._counts.exact import dot
from streameval._metric_registry import BY_NAME
from streameval._metrics.confusion import Confusion
from streameval._metrics.gradients import cells_of
from streameval._metrics.queries import ViewQueries
from streameval._metrics.weighting import effective_cases
from streameval._uncertainty.design_effect import DesignEffect
from streameval._uncertainty.error_costs import error_shares
from streameval._uncertainty.limits import TOO_FEW_EFFECTIVE, Figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._common.arrays import BoolArray, FloatArray
    from streameval._counts.groups import Groups
    from streameval._counts.multiset import ScoreCounts
    from streameval._counts.run import Run
    from streameval._counts.view import View
    from streameval._metrics.costs import ErrorCosts
    from streameval._metrics.gradients import Gradient
    from streameval._uncertainty.rules import ErrorShares, Parts

MIN_EFFECTIVE_CASES = 50


class _ClassSums(NamedTuple):
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

    def parts(self, derivative: FloatArray) -> FloatArray:
        """Return what each cell adds to a metric's variance."""
        parts: FloatArray = self.squares * derivative**2 * _unbiased(self.effective)
        return parts

    def fourth(self, parts: FloatArray) -> float:
        """Return the sum of each case's squared part; a cell's cases have equal parts."""
        return float((parts**2 / np.maximum(self.cases, 1.0)).sum())

    def equal_variance(self, derivative: FloatArray) -> float:
        """Return the variance that all cells would add if all cases had their mean weight."""
        mean = float(self.units.sum()) / (float(self.cases.sum()) or 1.0)
        return mean * dot(self.units, derivative**2) * _unbiased(self.effective)


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
    positives, negatives = _sums(view, weighted, cells)
    P, N = float(positives.cases.sum()), float(negatives.cases.sum())
    assert metric.gradient is not None, name
    if metric.estimator is None:
        if math.isnan(estimate):
            return Figure(estimate, math.nan, P, N)
        refused = _refused(positives, negatives, metric.gradient(cells))
        cases, units, squares = np.transpose((positives.totals, negatives.totals))
        return _share(cases, units, squares, refused)
    if math.isnan(estimate) or min(P, N) < 2:
        return Figure(estimate, math.nan, P, N)
    gradient = metric.gradient(cells, **arguments)
    parts = (positives.parts(gradient.positive), negatives.parts(gradient.negative))
    spread = float(sum(part.sum() for part in parts))
    equal = positives.equal_variance(gradient.positive)
    equal += negatives.equal_variance(gradient.negative)
    effect = max(1.0, spread / equal) if equal > 0 else 1.0
    refused = _refused(positives, negatives, gradient)
    freedom = min(P / effect, N / effect) - 1
    if spread > 0:
        fourth = positives.fourth(parts[0]) + negatives.fourth(parts[1])
        freedom = max(1.0, min(freedom, spread**2 / fourth - 1))
    figure = Figure(estimate, equal, P, N, refused=refused)
    return DesignEffect.of_weights(effect, freedom).widened(figure)


def effective_scored(weighted: ScoreCounts) -> float:
    """Return Kish's effective number of all scored cases. O(K)."""
    runs = (weighted.positives, weighted.negatives)
    units = sum(float(run.total) for run in runs)
    return effective_cases(units, sum(float(run.squares().sum()) for run in runs))


def weighted_share(
    view: View,
    weighted: ScoreCounts,
    name: str,
    parts: Callable[[Confusion], Parts],
    threshold: float,
) -> Figure:
    """Return the share of a rate at a threshold, of weighted cases, with its variance. O(K)."""
    gradient = BY_NAME[name].gradient
    assert gradient is not None, name
    cells = cells_of(view)
    called = cells.scores >= threshold
    positives, negatives = _sums(view, weighted, cells)
    cases, units, squares = np.array(
        [
            parts(_confusion(threshold, called, of_positives, of_negatives))
            for of_positives, of_negatives in zip(positives, negatives, strict=True)
        ]
    )
    if not units.sum():
        return Figure(math.nan, math.nan, 0, 0)
    refused = _refused(positives, negatives, gradient(cells, threshold))
    return _share(cases, units, squares, refused)


def weighted_cost(
    view: View, weighted: ScoreCounts, threshold: float, costs: ErrorCosts
) -> ErrorShares:
    """Return the shares of errors, and of the costlier ones, of weighted cases. O(K).

    Both are widened by what the weights add to the variance of the mean cost.
    """
    cells = cells_of(view)
    called = cells.scores >= threshold
    positives, negatives = _sums(view, weighted, cells)
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
    is_few = min(positives.effective, negatives.effective) < MIN_EFFECTIVE_CASES
    refused = TOO_FEW_EFFECTIVE if is_few else None
    return shares.widened(DesignEffect.of_weights(effect), refused=refused)


def _sum(counts: Confusion) -> float:
    return counts.tp + counts.fp + counts.fn + counts.tn


def _share(
    cases: FloatArray, units: FloatArray, squares: FloatArray, refused: str | None
) -> Figure:
    """Return the share of hits, from each sum over the hits and over the other cases.

    A hit moves the share s by (1 - s) of its weight over all weight, another case by -s.
    """
    whole = float(units.sum())
    if not whole:
        return Figure(math.nan, math.nan, 0, 0)
    share, total = float(units[0]) / whole, float(cases.sum())
    kish = effective_cases(whole, float(squares.sum()))
    binomial = share * (1 - share)
    spread = dot(squares, np.array([1 - share, -share]) ** 2) / whole**2
    # Without hits, or without other cases, the weights of all cases say what is known.
    effect = max(1.0, total * spread / binomial if binomial > 0 else total / kish)
    hits = total * share
    figure = Figure(share, binomial / total, hits, total - hits, refused=refused)
    return DesignEffect.of_weights(effect).widened(figure)


def _refused(positives: _ClassSums, negatives: _ClassSums, gradient: Gradient) -> str | None:
    """Return why there are no limits, from the classes that the metric depends on."""
    needed = [positives.effective] if gradient.positive.any() else []
    needed += [negatives.effective] if gradient.negative.any() else []
    return TOO_FEW_EFFECTIVE if min(needed, default=math.inf) < MIN_EFFECTIVE_CASES else None


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


def _sums(view: View, weighted: ScoreCounts, cells: Groups) -> tuple[_ClassSums, _ClassSums]:
    """Return the sums of each class in the order of the cells; the misses weigh 1 each."""
    return (
        _class_sums(weighted.positives, view.missed_positives, view.unit, cells.scores),
        _class_sums(weighted.negatives, view.missed_negatives, view.unit, cells.scores),
    )


def _class_sums(run: Run, missed: int, unit: int, scores: FloatArray) -> _ClassSums:
    rows = scores.size - 1 - np.searchsorted(scores[::-1], run.scores)
    columns = np.zeros((3, scores.size))
    columns[:, rows] = run.cases, run.multiplicities(), run.squares()
    if missed:
        columns[:, -1] = missed / unit, missed, float(missed) * unit
    return _ClassSums(*columns)
