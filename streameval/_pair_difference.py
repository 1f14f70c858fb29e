"""The difference of two models' figures on the same cases, with its limits.

The half-width is Student's t times the standard error of the per-case
differences, widened by as much as the two figures' own stabilised intervals
are wider than plain ones. (Square-and-add with a correlation, Zou 2007, was
tried: where two models nearly agree it is several times too wide.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._estimates import influence_of, limits_of
from streameval._influence import scatter
from streameval._intervals import PR_NAMES
from streameval._limits import UNDEFINED, Figure
from streameval._multiset import Run, ScoreCounts
from streameval._state import State
from streameval._student import normal_quantile, student_quantile

if TYPE_CHECKING:
    from streameval._groups import FloatArray, Groups
    from streameval._influence import Influence
    from streameval._limits import Limits
    from streameval._pair_cells import PairCells


@dataclass(frozen=True, slots=True)
class Difference:
    """Two figures of the same cases, and the variance of a's minus b's."""

    metric: str
    a: Figure
    b: Figure
    variance: float

    def limits(self, alpha: float) -> Limits:
        """Return the limits of the difference that miss with probability `alpha`. O(1)."""
        smaller = min(self.a.positives, self.a.negatives)
        if math.isnan(self.variance):
            return UNDEFINED
        quantile = student_quantile(alpha / 2, smaller - 1)
        if self.variance > 0:
            widening = (self._widening(self.a, alpha) + self._widening(self.b, alpha)) / 2
            half = quantile * math.sqrt(self.variance) * max(1.0, widening)
        else:
            # No case tells the two apart; as for a share of which none was seen.
            square = normal_quantile(alpha / 2) ** 2
            half = square / (smaller + square)
        difference = self.a.estimate - self.b.estimate
        return max(-1.0, difference - half), min(1.0, difference + half)

    def _widening(self, figure: Figure, alpha: float) -> float:
        """Return how much wider the figure's stabilised interval is than the plain one."""
        plain = 2 * student_quantile(alpha / 2, min(figure.positives, figure.negatives) - 1)
        plain *= math.sqrt(figure.variance)
        if plain == 0:
            return 1.0
        lower, upper = limits_of(figure, self.metric, alpha)
        return (upper - lower) / plain


def difference_of(
    positives: PairCells, negatives: PairCells, metric: str, prevalence: float | None
) -> Difference:
    """Compute both figures and the variance of their difference. O(n log n)."""
    P, N = positives.sampled, negatives.sampled
    if min(P, N) < 2:
        missing = Figure(math.nan, math.nan, P, N)
        return Difference(metric, missing, missing, math.nan)
    fixed = prevalence is not None or metric not in PR_NAMES
    at = prevalence
    if at is None and (positives.total, negatives.total) != (P, N):
        at = positives.total / (positives.total + negatives.total)  # the sample has another
    sides = []
    for name in ("a", "b"):
        scores = getattr(positives, name), getattr(negatives, name)
        groups = State(
            counts=ScoreCounts(
                Run.of(scores[0], positives.counts), Run.of(scores[1], negatives.counts)
            )
        ).groups
        influence = influence_of(groups, metric, at)
        sides.append(_Side(influence, *_of_cases(influence, groups, *scores)))
    odds = 0.0 if fixed else 1 / positives.total + 1 / negatives.total

    def variance(of_positives: FloatArray, of_negatives: FloatArray, slope: float) -> float:
        return (
            scatter(of_positives, positives.counts, P) / P
            + scatter(of_negatives, negatives.counts, N) / N
            + odds * slope**2
        )

    a, b = sides
    first, second = (
        Figure(
            side.influence.estimate,
            variance(side.positives, side.negatives, side.influence.prevalence_slope),
            P,
            N,
        )
        for side in sides
    )
    slope = a.influence.prevalence_slope - b.influence.prevalence_slope
    return Difference(
        metric,
        first,
        second,
        variance(a.positives - b.positives, a.negatives - b.negatives, slope),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One model: its influence, and the value of it for each entry."""

    influence: Influence
    positives: FloatArray
    negatives: FloatArray


def _of_cases(
    influence: Influence, groups: Groups, positives: FloatArray, negatives: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Look up the influence of positives and of negatives by their scores."""
    ascending = groups.scores[::-1]
    size = len(ascending)
    of_positives = influence.positive[size - 1 - np.searchsorted(ascending, positives)]
    below = np.searchsorted(ascending, negatives)
    above = size - np.searchsorted(ascending, negatives, side="right")
    is_tied = below + above < size
    of_negatives = influence.between[above]
    of_negatives[is_tied] = influence.tied[above[is_tied]]
    return of_positives, of_negatives
