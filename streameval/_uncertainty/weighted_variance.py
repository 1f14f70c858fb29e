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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._counts.exact import dot
from streameval._metric_registry import BY_NAME
from streameval._metrics.confusion import Confusion
from streameval._metrics.gradients import cells_of
from streameval._metrics.queries import ViewQueries
from streameval._metrics.weighting import effective_cases
from streameval._uncertainty.limits import Figure

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._counts.view import View
    from streameval._counts.weights import WeightedCounts, WeightedRun

MIN_EFFECTIVE_CASES = 50
TOO_FEW_EFFECTIVE = "TOO_FEW_EFFECTIVE"


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

    def variance(self, derivative: FloatArray) -> float:
        """Return what the class adds to a metric's variance."""
        return dot(self.squares, derivative**2) * _unbiased(self.effective)

    def equal_variance(self, derivative: FloatArray) -> float:
        """Return the same if all its cases had their mean weight."""
        mean = float(self.units.sum()) / (float(self.cases.sum()) or 1.0)
        return mean * dot(self.units, derivative**2) * _unbiased(self.effective)


def weighted_figure(
    view: View, weighted: WeightedCounts, name: str, prevalence: float | None
) -> Figure:
    """Return a metric of weighted cases with its variance; nan where undefined. O(K).

    Parameters
    ----------
    view : View
        Its counts are units of weight.
    weighted : WeightedCounts
        The view's sums of weights and of their squares.
    name : str
        A metric whose interval is that of an area or of a share.
    prevalence : float or None
        To which the metric is rescaled.
    """
    metric = BY_NAME[name]
    arguments = {} if prevalence is None else {"prevalence": prevalence}
    estimate = float(metric.function(ViewQueries(view), **arguments))
    cells = cells_of(view)
    positives, negatives = _sums(view, weighted, cells)
    P, N = float(positives.cases.sum()), float(negatives.cases.sum())
    if metric.interval == "wilson":
        return _share(*(np.array(pair) for pair in zip(positives.totals, negatives.totals)))
    if math.isnan(estimate) or min(P, N) < 2:
        return Figure(estimate, math.nan, P, N)
    assert metric.gradient is not None, name
    gradient = metric.gradient(cells, **arguments)
    spread = positives.variance(gradient.positive) + negatives.variance(gradient.negative)
    equal = positives.equal_variance(gradient.positive)
    equal += negatives.equal_variance(gradient.negative)
    effect = max(1.0, spread / equal) if equal > 0 else 1.0
    refused = _refused(min(positives.effective, negatives.effective))
    return Figure(estimate, effect * equal, P / effect, N / effect, None, effect, refused)


def weighted_share(view: View, weighted: WeightedCounts, name: str, threshold: float) -> Figure:
    """Return the share of a rate at a threshold, of weighted cases, with its variance. O(K)."""
    share = BY_NAME[name].share
    assert share is not None, name
    cells = cells_of(view)
    called = cells.scores >= threshold
    parts = (
        np.array(share.parts(_confusion(threshold, called, of_positives, of_negatives)))
        for of_positives, of_negatives in zip(*_sums(view, weighted, cells), strict=True)
    )
    return _share(*parts)


def _share(cases: FloatArray, units: FloatArray, squares: FloatArray) -> Figure:
    """Return the share of hits, from each sum over the hits and over the other cases.

    A hit moves the share s by (1 - s) of its weight over all weight, another case by -s.
    """
    whole = float(units.sum())
    if not whole:
        return Figure(math.nan, math.nan, 0, 0)
    share, total = float(units[0]) / whole, float(cases.sum())
    kish = effective_cases(whole, float(squares.sum()))
    binomial = share * (1 - share)
    spread = dot(squares, np.array([1 - share, -share]) ** 2) / whole**2 * _unbiased(kish)
    # Without hits, or without other cases, the weights of all cases say what is known.
    effect = max(1.0, total * spread / binomial if binomial > 0 else total / kish)
    hits = total / effect * share
    others = total / effect - hits
    return Figure(
        share, binomial * effect / total, hits, others, None, effect, _refused(kish)
    )


def _refused(effective: float) -> str | None:
    return TOO_FEW_EFFECTIVE if effective < MIN_EFFECTIVE_CASES else None


def _unbiased(effective: float) -> float:
    """Return n/(n - 1), which makes a mean squared distance an unbiased variance."""
    return effective / (effective - 1) if effective > 1 else 1.0


def _confusion(
    threshold: float, called: FloatArray, positives: FloatArray, negatives: FloatArray
) -> Confusion:
    """Return the confusion matrix of any sums of the cells."""
    tp, fp = float(positives[called].sum()), float(negatives[called].sum())
    rest = float(positives[~called].sum()), float(negatives[~called].sum())
    return Confusion(threshold, tp, fp, *rest)


def _sums(view: View, weighted: WeightedCounts, cells: Groups) -> tuple[_ClassSums, _ClassSums]:
    """Return the sums of each class in the order of the cells; the misses weigh 1 each."""
    return (
        _class_sums(weighted.positives, view.missed_positives, view.unit, cells.scores),
        _class_sums(weighted.negatives, view.missed_negatives, view.unit, cells.scores),
    )


def _class_sums(run: WeightedRun, missed: int, unit: int, scores: FloatArray) -> _ClassSums:
    rows = scores.size - 1 - np.searchsorted(scores[::-1], run.scores)
    columns = np.zeros((3, scores.size))
    columns[:, rows] = run.cases, run.units, run.squares()
    if missed:
        columns[:, -1] = missed / unit, missed, float(missed) * unit
    return _ClassSums(*columns)
