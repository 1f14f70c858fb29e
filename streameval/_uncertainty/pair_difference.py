"""The difference of two models' figures on the same cases, with its limits.

The figures come from the two models' own scores. Each case has a difference of influence;
its variance is computed over the grid of pairs, which may be in cells. What one unseen case of
each class would add, if one model alone ranked it wrongly, is added for each model
(`pair_variance`). A limit is Student's t times the root of the sum, with the degrees of
freedom of the estimated part (Satterthwaite 1946). A confidence sequence has the quantile of
a normal mixture in place of the normal one, and the e-value is computed from the same mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._uncertainty.design_effect import INDEPENDENT
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
    from streameval._uncertainty.pair_variance import UnseenCases


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
    unseen : UnseenCases
        Of both models.
    freedom : float
        The degrees of freedom of `variance`.
    effect : DesignEffect
        Of clusters on the difference.
    """

    metric: str
    a: Figure
    b: Figure
    variance: float
    unseen: UnseenCases
    freedom: float = math.inf
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
        """How many times as wide as of independent cases the variance is."""
        return self.effect.value

    @property
    def is_defined(self) -> bool:
        """Whether there are limits: with a variance, and two effective cases of each class."""
        return not math.isnan(self.variance) and self.cases >= 2

    def limits(self, alpha: float, *, anytime: bool = False) -> Limits:
        """Return the limits of the difference, of nominal coverage 1 - alpha. O(1).

        `anytime`: of a confidence sequence; undefined below 50 cases of a class.
        """
        if not self.is_defined or (anytime and not self.is_anytime):
            return UNDEFINED
        quantile = normal_quantile(alpha / 2)
        if anytime:
            quantile = anytime_quantile(alpha, self.cases)
        half = quantile * self._error(alpha)
        if self.variance == 0:
            # No case differs yet. While that is so, limits that narrow with the cases hold at all
            # looks if they hold at the look where they leave out the truth: the rule of three.
            half = min(half, -math.log(alpha / 2) * self.unseen.step)
        return max(-1.0, self.estimate - half), min(1.0, self.estimate + half)

    @property
    def is_anytime(self) -> bool:
        """Whether there are cases enough for a confidence sequence and an e-value."""
        return self.cases >= MIN_ANYTIME_POSITIVES

    def e_value(self) -> float:
        """Return the evidence against no difference; nan where limits are undefined. O(1).

        1/0.05 or more where the confidence sequence of level 0.95 does not hold 0.
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

    def _z(self) -> float:
        """Return the difference over its standard error."""
        return self.estimate / self._error(E_VALUE_ALPHA)

    def _error(self, alpha: float) -> float:
        """Return the standard error, times how much wider than normal limits have to be.

        A confidence sequence has no Student's form: it widens in the same proportion.
        """
        estimated = self.variance * self.design_effect
        variance = estimated + self.unseen.variance
        normal = normal_quantile(alpha / 2)
        widening = 1.0
        if estimated > 0 and normal > 0:
            # The unseen part is not estimated: it has no degrees of freedom of its own.
            freedom = max(self._freedom * (variance / estimated) ** 2, 1.0)
            widening = student_quantile(alpha / 2, freedom) / normal
        return widening * math.sqrt(variance)

    @property
    def _freedom(self) -> float:
        """The degrees of freedom of the variance with clusters."""
        if self.effect.freedom is not None:
            return self.effect.freedom
        known = [each.freedom for each in (self.a, self.b) if each.freedom is not None]
        return min([self.freedom, *known])
