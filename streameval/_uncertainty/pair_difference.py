"""The difference of two models' figures on the same cases, with its limits.

The figures come from the two models' own scores. The variance is that of the
per-case differences of influence over the grid of cells, which may be a sample. The
half-width is Student's t times the standard error, times the mean ratio by which the
two figures' stabilised intervals are wider than plain ones. (Square-and-add with a
correlation, Zou 2007, was tried: it is several times too wide where two models
nearly agree.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.multiset import ScoreCounts
from streameval._counts.resolution import quantise
from streameval._counts.run import Run
from streameval._counts.state import State
from streameval._uncertainty.estimates import estimator_of, limits_of
from streameval._uncertainty.limits import UNDEFINED, Figure
from streameval._uncertainty.sampling_variance import scatter
from streameval._uncertainty.student import normal_quantile, student_quantile

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._counts.resolution import Scale
    from streameval._metrics.influence import Influence
    from streameval._uncertainty.limits import Limits
    from streameval._uncertainty.pair_cells import PairCells


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
        The variance of the difference; nan when a class has too few cases in the grid.
    sampled : int
        Cases in the grid of the class with fewer of them.
    """

    metric: str
    a: Figure
    b: Figure
    variance: float
    sampled: int

    @property
    def estimate(self) -> float:
        """The figure of a minus the figure of b."""
        return self.a.estimate - self.b.estimate

    def limits(self, alpha: float) -> Limits:
        """Return the limits of the difference, of nominal coverage 1 - alpha. O(1)."""
        if math.isnan(self.variance):
            return UNDEFINED
        if self.variance > 0:
            widening = (self._widening(self.a, alpha) + self._widening(self.b, alpha)) / 2
            quantile = student_quantile(alpha / 2, self.sampled - 1)
            half = quantile * math.sqrt(self.variance) * max(1.0, widening)
        else:
            # No case differs: as Wilson's limit of a share with no positives.
            square = normal_quantile(alpha / 2) ** 2
            half = square / (self.sampled + square)
        return max(-1.0, self.estimate - half), min(1.0, self.estimate + half)

    def _widening(self, figure: Figure, alpha: float) -> float:
        """Return how much wider the figure's stabilised interval is than the plain one."""
        if figure.variance == 0:
            return 1.0
        plain = student_quantile(alpha / 2, min(figure.positives, figure.negatives) - 1)
        if plain == 0:
            return 1.0
        lower, upper = limits_of(figure, self.metric, alpha)
        return (upper - lower) / (2 * plain * math.sqrt(figure.variance))


def variance_of_difference(
    positives: PairCells,
    negatives: PairCells,
    models: tuple[State, State],
    resolution: int,
    *,
    metric: str,
    prevalence: float | None,
) -> float:
    """Return the variance of a's figure minus b's. O(n log n).

    Influences are computed from all cases of a model, rounded to the grid's cells. Only
    the cases whose differences are averaged may be a sample.
    """
    P, N = positives.sampled, negatives.sampled
    if min(P, N) < 2:
        return math.nan
    of_positives, of_negatives, slope = np.zeros(len(positives)), np.zeros(len(negatives)), 0.0
    for state, name, sign in zip(models, ("a", "b"), (1, -1)):
        bits = resolution if state.resolution is None else min(resolution, state.resolution)
        groups = State(
            counts=ScoreCounts(
                _coarser(state.counts.positives, bits, state.scale),
                _coarser(state.counts.negatives, bits, state.scale),
            )
        ).groups
        influence = estimator_of(metric).influence(groups, prevalence)
        of_each = influences_of_cases(
            influence,
            groups,
            quantise(getattr(positives, name), bits, state.scale),
            quantise(getattr(negatives, name), bits, state.scale),
        )
        of_positives += sign * of_each[0]
        of_negatives += sign * of_each[1]
        slope += sign * float(influence.prevalence_slope)
    variance = float(
        scatter(of_positives, positives.counts, P) / positives.total
        + scatter(of_negatives, negatives.counts, N) / negatives.total
    )
    if prevalence is None:
        variance += (1 / positives.total + 1 / negatives.total) * slope**2
    return variance


def _coarser(run: Run, bits: int, scale: Scale) -> Run:
    return Run.of_ordered(quantise(run.scores, bits, scale), run.counts)


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
