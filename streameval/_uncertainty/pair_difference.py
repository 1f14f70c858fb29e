"""The difference of two models' figures on the same cases, with its limits.

The figures come from the two models' own scores. Each case has a difference of influence;
its variance is computed over the grid of pairs, which may be in cells. The
half-width is Student's t times the standard error, times the mean ratio by which the
two figures' stabilised intervals are wider than plain ones. (Square-and-add with a
correlation, Zou 2007, was tried: it is several times too wide where two models
nearly agree.) A confidence sequence has the quantile of a normal mixture in place of
Student's, and the e-value is computed from the same mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._uncertainty.design_effect import INDEPENDENT
from streameval._uncertainty.estimates import limits_of
from streameval._uncertainty.limits import MIN_ANYTIME_POSITIVES, UNDEFINED, Figure
from streameval._uncertainty.student import (
    E_VALUE_ALPHA,
    anytime_quantile,
    count_for_evidence,
    e_value,
    normal_quantile,
    student_quantile,
)

if TYPE_CHECKING:
    from streameval._uncertainty.design_effect import DesignEffect
    from streameval._uncertainty.limits import Limits


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
        The variance of the difference of independent cases; nan without two of each class.
    effect : DesignEffect
        Of clusters on the difference.
    """

    metric: str
    a: Figure
    b: Figure
    variance: float
    effect: DesignEffect = INDEPENDENT

    @property
    def estimate(self) -> float:
        """The figure of a minus the figure of b."""
        return self.a.estimate - self.b.estimate

    @property
    def cases(self) -> float:
        """Cases of the smaller class, over the effects of weights and of clusters."""
        sizes = (self.a.positives, self.a.negatives, self.b.positives, self.b.negatives)
        return min(sizes) / self.design_effect

    @property
    def design_effect(self) -> float:
        """How many times as wide as of independent cases the variance is, 1 where by chance."""
        return self.effect.value if self.effect.is_applied else 1.0

    @property
    def is_defined(self) -> bool:
        """Whether there are limits: two cases of each class, in two groups of clusters."""
        return not math.isnan(self.variance) and self.cases >= 2

    def limits(self, alpha: float, *, anytime: bool = False) -> Limits:
        """Return the limits of the difference, of nominal coverage 1 - alpha. O(1).

        `anytime`: of a confidence sequence; undefined below 50 cases of a class.
        """
        if not self.is_defined or (anytime and not self.is_anytime):
            return UNDEFINED
        cases = self.cases
        if self.variance > 0:
            quantile = student_quantile(alpha / 2, self._freedom)
            if anytime:
                quantile = anytime_quantile(alpha, cases) * self._student_widening(alpha)
            half = quantile * self._error(alpha)
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
        if not self.is_defined or not self.is_anytime:
            return math.nan
        return e_value(self._z(), self.cases)

    def growth_to_decide(self) -> float:
        """Return how many times as many cases an e-value of 1/0.05 takes at this difference.

        1 where it is reached, inf without a difference, nan without an e-value. O(1).
        """
        if math.isnan(self.e_value()):
            return math.nan
        return count_for_evidence(self._z(), self.cases, 1 / E_VALUE_ALPHA) / self.cases

    @property
    def _freedom(self) -> float:
        """The degrees of freedom of the variance."""
        if self.effect.is_applied and self.effect.freedom is not None:
            return self.effect.freedom
        known = [each.freedom for each in (self.a, self.b) if each.freedom is not None]
        return min(known, default=self.cases - 1)

    def _student_widening(self, alpha: float) -> float:
        """Return how much wider than normal a variance that was estimated apart makes limits.

        A confidence sequence has no Student's form: it widens in the same proportion.
        """
        normal = normal_quantile(alpha / 2)
        if self._freedom == self.cases - 1 or normal == 0:
            return 1.0
        return student_quantile(alpha / 2, self._freedom) / normal

    def _z(self) -> float:
        """Return the difference over its standard error."""
        if self.variance > 0:
            widening = self._student_widening(E_VALUE_ALPHA)
            return self.estimate / (self._error(E_VALUE_ALPHA) * widening)
        # From below: Wilson's limit is at the difference d where z^2 = cases d/(1 - d).
        return math.sqrt(self.cases * abs(self.estimate))

    def _error(self, alpha: float) -> float:
        """Return the standard error, times the mean widening of the figures' own intervals."""
        widening = (self._widening(self.a, alpha) + self._widening(self.b, alpha)) / 2
        return math.sqrt(self.variance * self.design_effect) * max(1.0, widening)

    def _widening(self, figure: Figure, alpha: float) -> float:
        """Return how much wider the figure's stabilised interval is than the plain one."""
        if figure.variance == 0:
            return 1.0
        freedom = figure.freedom
        if freedom is None:
            freedom = min(figure.positives, figure.negatives) - 1
        plain = student_quantile(alpha / 2, freedom)
        if plain == 0:
            return 1.0
        lower, upper = limits_of(figure, self.metric, alpha)
        return (upper - lower) / (2 * plain * math.sqrt(figure.variance))
