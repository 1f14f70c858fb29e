"""Intervals of the calibration error, and of the ratio of observed to expected positives.

The calibration error is T = sum over bins of (share of cases) |gap|, where a bin's gap is
the mean of score minus label over its cases, observed with the standard error s. Around a
gap d the mean of |gap| is larger than |d|: chance makes calibrated scores look
miscalibrated, so T is biased upward, and an interval around it that is symmetric misses the
truth. These limits do not:

- above: |x| >= sign(d) x, so T is at least the true error plus the mean-zero sum of
  sign(d) times the gaps' errors: the upper limit is T + z sigma, sigma the standard
  error of that sum and of the bins' shares;
- below: |gap| <= |d| + |gap - d|, so T exceeds the true error by at most the sum of the
  gaps' absolute errors, of which the mean is sqrt(2/pi) times the sum of (share) s: the
  lower limit is T - mean - z sigma. A gap of more than `_CERTAIN_ERRORS` s has a certain
  sign, and then no such excess.

A bin's variance is the variance of its residuals, and at least the variance of a rate with one
more case of each class, so that a bin of few cases of one class is not taken as certain.

The ratio divides the number of positives by the sum of the scores, which is taken as given.
The number is a sum of independent labels, which varies no more than as many labels of equal
probability (Hoeffding 1956), so Wilson's limits of their share hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streameval._metrics.gradients import cells_of
from streameval._metrics.reliability import DEFAULT_BINS
from streameval._uncertainty.design_effect import INDEPENDENT
from streameval._uncertainty.limits import (
    UNDEFINED,
    Figure,
    Limits,
    proportion_limits,
)
from streameval._uncertainty.rules import (
    IntervalRule,
    UncertainMetric,
    has_no_limits,
    share_figure,
)
from streameval._uncertainty.student import anytime_quantile, normal_quantile, student_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._metrics.reliability import ReliabilityTable
    from streameval._uncertainty.design_effect import DesignEffect
    from streameval._uncertainty.rules import Counted, Given

_CERTAIN_ERRORS = 3.0
"""A gap of more standard errors than this has the sign that it shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The gap of each bin that has cases.

    Attributes
    ----------
    share : float64[B]
        Of the scored cases.
    gap, error : float64[B]
        Mean of score minus label, and its standard error if cases are independent.
    cases : float64[B]
        Effective number of them.
    """

    share: FloatArray
    gap: FloatArray
    error: FloatArray
    cases: FloatArray

    @classmethod
    def of(cls, sample: ScoredSample) -> Gaps:
        """Return the gaps of a sample. O(K)."""
        cells, squares = sample.cells, sample.squares
        finite = np.isfinite(cells.scores)
        score, p, n = cells.scores[finite], cells.p[finite], cells.n[finite]
        place = np.searchsorted(np.arange(1, DEFAULT_BINS) / DEFAULT_BINS, score, side="left")

        def summed(values: npt.NDArray[Any]) -> FloatArray:
            return np.bincount(place, values, minlength=DEFAULT_BINS).astype(np.float64)

        size, positives = summed(p + n), summed(p)
        held = size > 0
        gap = summed(score * (p + n) - p)[held] / size[held]
        spread = summed(score**2 * n + (1 - score) ** 2 * p)[held] / size[held] - gap**2
        share = size[held] / size.sum()
        cases = sample.effective * share
        if squares is not None:
            cases = size[held] ** 2 / summed(squares[finite])[held]  # Kish's, of each bin
        rate = (cases * positives[held] / size[held] + 1) / (cases + 2)
        variance = np.maximum(spread, rate * (1 - rate))
        return cls(share, gap, np.sqrt(variance / cases), cases)

    @property
    def value(self) -> float:
        """The calibration error."""
        return float(self.share @ np.abs(self.gap))

    @property
    def between(self) -> float:
        """The part of the variance that the bins' shares have."""
        apart = np.abs(self.gap) - self.value
        return float((self.share**2 / self.cases) @ apart**2)

    @property
    def variance(self) -> float:
        """That of the sum of gaps with known signs."""
        return float(((self.share * self.error) ** 2).sum()) + self.between

    def excess(self) -> float:
        """Return the most by which the error is expected to exceed the true one."""
        doubtful = np.abs(self.gap) <= _CERTAIN_ERRORS * self.error
        return math.sqrt(2 / math.pi) * float((self.share * self.error)[doubtful].sum())

    def limits(self, alpha: float, effect: DesignEffect, *, anytime: bool) -> Limits:
        """Return the limits that miss with probability `alpha` at most. O(B)."""
        widening = math.sqrt(effect.value)
        if anytime:
            total = float(self.cases.sum())
            reach = anytime_quantile(alpha, total) * math.sqrt(self.variance)
            # Half of alpha for the shares of the bins, half for all their gaps.
            each = [anytime_quantile(alpha / 2 / self.gap.size, n) for n in self.cases.tolist()]
            below = anytime_quantile(alpha / 2, total) * math.sqrt(self.between)
            below += float((self.share * self.error) @ np.array(each))
        else:
            quantile = normal_quantile(alpha / 2)
            if effect.freedom is not None:
                quantile = student_quantile(alpha / 2, effect.freedom)
            reach = quantile * math.sqrt(self.variance)
            below = self.excess() + reach
        lower, upper = self.value - below * widening, self.value + reach * widening
        return max(lower, 0.0), min(upper, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRule(IntervalRule):
    """The interval of a metric of probabilities.

    Attributes
    ----------
    sample_limits : callable
        A sample, an alpha, and whether at all looks, to the limits.
    sample : ScoredSample or None
        What the limits are made of.
    """

    no_bootstrap: str | None = "one for a metric of probabilities"
    is_blurred: bool = True
    sample_limits: Callable[[ScoredSample, float, bool], Limits]
    sample: ScoredSample | None = None

    def uncertain(self, counted: Counted, name: str, given: Given) -> UncertainMetric:
        """Return a metric of calibration. O(K), O(n) of clusters.

        Raises
        ------
        InvalidInputError
            When a score is outside [0, 1].
        """
        view, effective = counted._view(), counted._effective_scored()
        positives = view.P - view.missed_positives
        cases = positives + view.N - view.missed_negatives
        effect = counted._design_effect(name, ()) if cases else INDEPENDENT
        estimate = counted._value_given(name, given)
        figure = effect.widened(Figure(estimate, math.nan, positives / view.unit, effective))
        cells = cells_of(view)
        sample = ScoredSample(cells, effective, effect, *counted._weights_of_scored(cells))
        if sample.positives is not None:
            figure = replace(figure, refused=sample.positives.refused)
        rule = replace(self, sample=sample)
        return UncertainMetric(rule, estimate, (figure,), figure, effect)

    def limits(self, figures: tuple[Figure, ...], alpha: float, *, anytime: bool) -> Limits:
        """Return the limits that miss with probability `alpha`; nan with too few cases. O(K)."""
        (figure,), sample = figures, self.sample
        assert sample is not None
        too_few = has_no_limits(figure, sample.effective, anytime=anytime)
        if too_few or not (math.isfinite(figure.estimate) and math.isfinite(sample.effect.value)):
            return UNDEFINED
        return self.sample_limits(sample, alpha, anytime)


class ScoredSample(NamedTuple):
    """What limits of calibration are made of.

    Attributes
    ----------
    cells : Groups
    effective : float
        The effective number of scored cases.
    effect : DesignEffect
        Of clusters.
    squares : float64[K] or None
        Sum of squared weights of each cell; None where no case weighs other than 1.
    positives : Figure or None
        The share of the weighted scored cases that is positive; None as `squares`.
    """

    cells: Groups
    effective: float
    effect: DesignEffect
    squares: FloatArray | None
    positives: Figure | None


def _gap_limits(sample: ScoredSample, alpha: float, anytime: bool) -> Limits:
    gaps = Gaps.of(sample)
    return gaps.limits(alpha, sample.effect, anytime=anytime)


def _ratio_limits(sample: ScoredSample, alpha: float, anytime: bool) -> Limits:
    """Return Wilson's limits of the share of positives, over the mean score. O(K)."""
    cells, effective = sample.cells, sample.effective
    finite = np.isfinite(cells.scores)
    p, n = cells.p[finite], cells.n[finite]
    total = float((p + n).sum())
    share, mean = float(p.sum()) / total, float(cells.scores[finite] @ (p + n)) / total
    if not mean:
        return UNDEFINED
    figure = sample.positives or share_figure(effective * share, effective * (1 - share))
    lower, upper = proportion_limits(sample.effect.widened(figure), alpha, anytime=anytime)
    return lower / mean, upper / mean


GAPS = CalibrationRule(method="binned-gaps", sample_limits=_gap_limits)
RATIO = CalibrationRule(method="wilson", sample_limits=_ratio_limits)


def bin_limits(table: ReliabilityTable, effective: float, level: float) -> list[Limits]:
    """Return Wilson's limits of each bin's observed rate. O(B).

    Parameters
    ----------
    table : ReliabilityTable
    effective : float
        Number of cases of equal weight that say as much as the table's.
    level : float
    """
    share = effective / float(table.counts.sum()) if len(table) else 0.0
    cases = (table.counts * share).tolist()
    figures = [
        Figure(rate, rate * (1 - rate) / size, size * rate, size * (1 - rate))
        for rate, size in zip(table.observed_rate.tolist(), cases, strict=True)
    ]
    return [proportion_limits(figure, 1 - level) for figure in figures]
