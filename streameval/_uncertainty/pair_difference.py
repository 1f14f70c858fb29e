"""The difference of two models' figures on the same cases, with its limits.

The figures come from the two models' own scores. The variance is that of the
per-case differences of influence over the grid of pairs, which may be in cells. The
half-width is Student's t times the standard error, times the mean ratio by which the
two figures' stabilised intervals are wider than plain ones. (Square-and-add with a
correlation, Zou 2007, was tried: it is several times too wide where two models
nearly agree.) A confidence sequence has the quantile of a normal mixture in place of
Student's, and the e-value is that mixture's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run
from streameval._counts.state import State
from streameval._uncertainty.estimates import estimator_of, limits_of
from streameval._uncertainty.limits import MIN_ANYTIME_POSITIVES, UNDEFINED, Figure
from streameval._uncertainty.sampling_variance import sampling_variance, scatter
from streameval._uncertainty.student import (
    E_VALUE_ALPHA,
    anytime_quantile,
    count_for_evidence,
    e_value,
    normal_quantile,
    student_quantile,
)

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._metrics.influence import Influence
    from streameval._uncertainty.intervals import UncertainMetric
    from streameval._uncertainty.limits import Limits
    from streameval._uncertainty.pair_grid import PairGrid

_ONE_STANDARD_ERROR = 2 * 0.15865525393145707
"""The probability outside one standard error of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two figures of the same cases, and the variance of a's minus b's.

    Attributes
    ----------
    metric : str
        The name of the figures.
    a, b : Figure
        The figures, with their own variances.
    variance : float
        The variance of the difference; nan without two of each class.
    """

    metric: str
    a: Figure
    b: Figure
    variance: float

    @property
    def estimate(self) -> float:
        """The figure of a minus the figure of b."""
        return self.a.estimate - self.b.estimate

    @property
    def cases(self) -> float:
        """Cases of the smaller class."""
        return min(self.a.positives, self.a.negatives)

    def limits(self, alpha: float, *, anytime: bool = False) -> Limits:
        """Return the limits of the difference, of nominal coverage 1 - alpha. O(1).

        `anytime`: of a confidence sequence; undefined below 50 cases of a class.
        """
        if math.isnan(self.variance) or (anytime and not self.is_anytime):
            return UNDEFINED
        cases = self.cases
        if self.variance > 0:
            quantile = student_quantile(alpha / 2, cases - 1)
            half = (anytime_quantile(alpha, cases) if anytime else quantile) * self._error(alpha)
        else:
            # No case differs: as Wilson's limit of a share with no positives.
            quantile = anytime_quantile(alpha, cases) if anytime else normal_quantile(alpha / 2)
            half = quantile**2 / (cases + quantile**2)
        return max(-1.0, self.estimate - half), min(1.0, self.estimate + half)

    @property
    def is_anytime(self) -> bool:
        """Whether there are cases enough for a confidence sequence and an e-value."""
        return self.cases >= MIN_ANYTIME_POSITIVES

    def e_value(self) -> float:
        """Return the evidence against no difference; nan where limits are undefined. O(1).

        1/0.05 or more where the confidence sequence of level 0.95 does not hold 0, save where
        no case differs: there it may be less.
        """
        if math.isnan(self.variance) or not self.is_anytime:
            return math.nan
        return e_value(self._z(), self.cases)

    def growth_to_decide(self) -> float:
        """Return how many times as many cases an e-value of 1/0.05 takes at this difference.

        1 where it is reached, inf without a difference, nan without an e-value. O(1).
        """
        if math.isnan(self.e_value()):
            return math.nan
        return count_for_evidence(self._z(), self.cases, 1 / E_VALUE_ALPHA) / self.cases

    def _z(self) -> float:
        """Return the difference over its standard error."""
        if self.variance > 0:
            return self.estimate / self._error(E_VALUE_ALPHA)
        # From below: Wilson's limit is at the difference d where z^2 = cases d/(1 - d).
        return math.sqrt(self.cases * abs(self.estimate))

    def _error(self, alpha: float) -> float:
        """Return the standard error, times the mean widening of the figures' own intervals."""
        widening = (self._widening(self.a, alpha) + self._widening(self.b, alpha)) / 2
        return math.sqrt(self.variance) * max(1.0, widening)

    def _widening(self, figure: Figure, alpha: float) -> float:
        """Return how much wider the figure's stabilised interval is than the plain one."""
        if figure.variance == 0:
            return 1.0
        plain = student_quantile(alpha / 2, min(figure.positives, figure.negatives) - 1)
        if plain == 0:
            return 1.0
        lower, upper = limits_of(figure, self.metric, alpha)
        return (upper - lower) / (2 * plain * math.sqrt(figure.variance))


class GridTooCoarseError(Exception):
    """The cells of a grid hide too much of a model's order for a variance."""


def variance_of_difference(
    grid: PairGrid,
    models: tuple[UncertainMetric, UncertainMetric],
    prevalence: float | None,
) -> float:
    """Return the variance of a's figure minus b's; nan without two of each class. O(n log n).

    Cells make a variance smaller. So that of the difference is multiplied by the larger of
    the two ratios of a model's exact variance to that in the cells.

    Parameters
    ----------
    grid : PairGrid
        All cases of the models.
    models : UncertainMetric
        The metric of a and of b, of their own scores.
    prevalence : float or None
        As in the figures.

    Raises
    ------
    GridTooCoarseError
        Where a figure in the cells is further from the exact one than a standard error,
        or its variance is 0 and the exact one is not.
    """
    positives, negatives = grid.positives, grid.negatives
    P, N = positives.total, negatives.total
    if min(P, N) < 2:
        return math.nan
    of_positives, of_negatives = np.zeros(len(positives)), np.zeros(len(negatives))
    slope, ratio = 0.0, 1.0
    for model, name, sign in zip(models, ("a", "b"), (1, -1)):
        scores = getattr(positives, name), getattr(negatives, name)
        groups = State(
            counts=ScoreCounts(
                Run.of(scores[0], positives.counts), Run.of(scores[1], negatives.counts)
            )
        ).groups
        estimator = estimator_of(model.name)
        if grid.cuts is not None and estimator.in_cells is not None:
            estimator = estimator.in_cells
        influence = estimator.influence(groups, prevalence)
        lower, upper = model.limits(_ONE_STANDARD_ERROR)
        if not lower <= influence.estimate <= upper:
            raise GridTooCoarseError
        of_grid = sampling_variance(influence, groups, fixed_prevalence=prevalence is not None)
        if model.figure.variance > ratio * of_grid:
            if of_grid == 0:
                raise GridTooCoarseError
            ratio = model.figure.variance / of_grid
        of_each = influences_of_cases(influence, groups, *scores)
        of_positives += sign * of_each[0]
        of_negatives += sign * of_each[1]
        slope += sign * float(influence.prevalence_slope)
    variance = float(
        scatter(of_positives, positives.counts, P) / P
        + scatter(of_negatives, negatives.counts, N) / N
    )
    if prevalence is None:
        variance += (1 / P + 1 / N) * slope**2
    return ratio * variance


def influences_of_cases(
    influence: Influence, groups: Groups, positives: FloatArray, negatives: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Look up the influence of positives and of negatives by their scores. O(n log G)."""
    ascending = groups.scores[::-1]
    size = len(ascending)
    of_positives = influence.positive[size - 1 - np.searchsorted(ascending, positives)]
    below = np.searchsorted(ascending, negatives)
    above = size - np.searchsorted(ascending, negatives, side="right")
    is_tied = below + above < size
    of_negatives = influence.between[above]
    of_negatives[is_tied] = influence.tied[above[is_tied]]
    return of_positives, of_negatives
