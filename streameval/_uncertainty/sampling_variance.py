"""The sampling variance of a metric, from the influence of each case.

The variance of the influence function over the positives, divided by P, plus that
over the negatives, divided by N, is the metric's sampling variance (von Mises; for
AUC-ROC this *is* DeLong's estimate, DeLong, DeLong and Clarke-Pearson 1988, here in
one pass as in Sun and Xu 2014). All is O(G) for G groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import dot

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._metrics.influence import Influence


def sampling_variance(
    influence: Influence, groups: Groups, *, fixed_prevalence: bool = False
) -> float:
    """Return the metric's sampling variance. O(G).

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
    variance = positive / groups.P + negative / groups.N
    if not fixed_prevalence:
        variance += (1 / groups.P + 1 / groups.N) * influence.prevalence_slope**2
    return variance


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
