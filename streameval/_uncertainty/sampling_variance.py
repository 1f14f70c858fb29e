"""The sampling variance of a metric, from the influence of each case.

The variance of the influence function over the positives, divided by P, plus that
over the negatives, divided by N, is the metric's sampling variance (von Mises; for
AUC-ROC this *is* DeLong's estimate, DeLong, DeLong and Clarke-Pearson 1988, here in
one pass as in Sun and Xu 2014). All is O(G) for G groups.

A prevalence far below the data's weighs the negatives up, and few of them make most of the
variance. Then it is as uncertain as a variance of those few: its degrees of freedom are
Satterthwaite's (1946), of P - 1 and of the effective number of negatives less 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._counts.exact import dot
from streameval._uncertainty.design_effect import least_freedom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._metrics.influence import Influence

_MIN_FREEDOM = 2.0
"""Satterthwaite's estimate is itself too uncertain to be less than this."""
_FREEDOM_ROUNDING = 2.0**-40
"""By more than this part rounding does not raise degrees of freedom."""


class SamplingError(NamedTuple):
    """A metric's sampling variance, and what its degrees of freedom depend on.

    Attributes
    ----------
    of_positives, of_negatives, of_prevalence : float
        The parts of the variance.
    positives : float
    effective : float
        How many negatives have an effect: (sum of n |g|)^2 over the sum of n g^2, for
        influences g of n negatives each.
    """

    of_positives: float
    of_negatives: float
    of_prevalence: float
    positives: float
    effective: float

    @classmethod
    def of(
        cls, positive: float, positives: float, negative: float, negatives: float, mean: float
    ) -> SamplingError:
        """Return the error at a known prevalence, from each class's variance of influences. O(1).

        `mean` is the negatives' mean influence. None of them is above 0 in precision-recall
        space, so the effective number follows from it and the variance.
        """
        square = mean**2 + negative * (negatives - 1) / negatives
        effective = negatives * mean**2 / square if square > 0 else negatives
        return cls(positive / positives, negative / negatives, 0.0, positives, effective)

    @property
    def variance(self) -> float:
        """The metric's sampling variance."""
        return self.of_positives + self.of_negatives + self.of_prevalence

    @property
    def freedom(self) -> float | None:
        """Satterthwaite's degrees of freedom of the variance; None where it is 0."""
        whole = self.of_positives + self.of_negatives
        if not whole > 0:
            return None
        of_positives = (self.of_positives / whole) ** 2 / (self.positives - 1)
        of_negatives = (self.of_negatives / whole) ** 2 / max(self.effective - 1, 0.5)
        return max(1 / (of_positives + of_negatives), _MIN_FREEDOM)


def sampling_variance(
    influence: Influence, groups: Groups, *, fixed_prevalence: bool = False
) -> float:
    """Return the metric's sampling variance, as `sampling_error` does. O(G)."""
    return sampling_error(influence, groups, fixed_prevalence=fixed_prevalence).variance


def sampling_error(
    influence: Influence, groups: Groups, *, fixed_prevalence: bool = False
) -> SamplingError:
    """Return the metric's sampling variance by its parts. O(G).

    It is the variance due to the cases plus that due to the prevalence; with
    `fixed_prevalence` the second part is left out. Positives in no group (misses, for
    average precision) have influence 0. Negatives below every group have the last
    value of `between`. Needs two of each class.
    """
    positive = scatter(influence.positive, groups.p, groups.P)
    negative = scatter(
        np.concatenate((influence.tied, influence.between)),
        np.concatenate((groups.n, negatives_between(groups))),
        groups.N,
    )
    mean = negatives_mean(influence, groups)
    error = SamplingError.of(positive, groups.P, negative, groups.N, mean)
    if fixed_prevalence:
        return error
    return error._replace(
        of_prevalence=(1 / groups.P + 1 / groups.N) * influence.prevalence_slope**2
    )


def least_freedom_of(errors: Sequence[SamplingError]) -> float | None:
    """Return the least degrees of freedom of any order of cases, from the errors of some. O(1).

    The negatives' share of the variance may be anything between its extremes, and the
    freedom is least at one of them.
    """
    positive = [error.of_positives for error in errors]
    negative = [error.of_negatives for error in errors]
    effective = min(error.effective for error in errors)
    extremes = (
        errors[0]._replace(of_positives=first, of_negatives=second, effective=effective)
        for first, second in ((min(positive), max(negative)), (max(positive), min(negative)))
    )
    least = least_freedom(*(extreme.freedom for extreme in extremes))
    return None if least is None else least * (1 - _FREEDOM_ROUNDING)


def negatives_mean(influence: Influence, groups: Groups) -> float:
    """Return the mean influence of the negatives. O(G)."""
    whole = dot(groups.n, influence.tied) + dot(negatives_between(groups), influence.between)
    return whole / groups.N


def negatives_between(groups: Groups) -> IntArray:
    """Return how many negatives rank below g groups and are tied with none, g = 0..G. O(G)."""
    before = np.empty(groups.p.size + 1, dtype=np.int64)
    before[:-1] = groups.fp
    before[-1] = groups.N
    before[1:] -= groups.fp + groups.n
    return before


def scatter(values: FloatArray, counts: IntArray, total: int) -> float:
    """Return the unbiased variance of `values` that occur `counts` times each. O(n).

    Parameters
    ----------
    values : float64[n]
    counts : int64[n]
    total : int
        The number of values in all; values that `counts` leaves out are 0.
    """
    mean = dot(counts, values) / total
    centred = values - mean
    squares = dot(counts, centred * centred)
    squares += (total - int(counts.sum())) * mean**2
    return squares / (total - 1)
