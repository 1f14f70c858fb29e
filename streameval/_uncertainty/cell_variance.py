"""The greatest sampling variance that an order inside the cells can give, and a proof.

Of a bounded evaluator the order inside a cell is unknown. For areas in precision-recall
space the influence of each case is still known within limits, from the counts above its
cell and inside it. A variance is the least mean squared distance from any value, so the
mean of the greatest squared distances from one fixed value is at least the variance of
every order, with ties or without.

An influence is the sum, over the positives that rank below a case, of terms that
`cell_limits` bounds for each cell. All is O(G) for G cells that hold positives. (The terms
are the derivatives of `influence`.)
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import dot
from streameval._metrics.influence import Derivatives, sums_from
from streameval._uncertainty.cell_orders import rows_of
from streameval._uncertainty.sampling_variance import SamplingError, negatives_between

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._metrics.gradients import Estimator
    from streameval._uncertainty.cell_limits import CellLimits

_NO_TIES = Derivatives(*(np.empty(0) for _ in fields(Derivatives)))


def greatest_error(
    groups: Groups, limits: CellLimits, estimator: Estimator, prevalence: float | None
) -> SamplingError:
    """Return the parts of a variance that no order of the cases inside the cells exceeds. O(G).

    And the least effective number of negatives: no order has fewer.

    Parameters
    ----------
    groups : Groups
        As `estimator` takes them.
    limits : CellLimits
        Of these groups, at this prevalence.
    estimator : Estimator
        Of an area in precision-recall space: it has derivatives.
    prevalence : float or None
        Rescales the negatives, and is then held fixed.
    """
    assert estimator.derivatives is not None
    tie = _NO_TIES
    if limits.ties.size:
        tie = estimator.derivatives(rows_of(groups, limits.ties), prevalence)
    # Positives that are not interpolated count themselves.
    first_tp = limits.above if estimator.counts_misses else limits.above + limits.case
    called = first_tp + limits.most_fp
    is_first_empty = bool(called.size) and called[0] == 0
    if is_first_empty:  # no case is above the first positive, nor a negative in its cell
        called[0] = 1.0
    least_precision = first_tp / called
    called *= called
    losses = first_tp / called
    if is_first_empty:
        least_precision[0] = 1.0
    greatest_precision = limits.through + limits.least_fp
    np.divide(limits.through, greatest_precision, out=greatest_precision)
    slope = 0.0
    if prevalence is None:
        slope = _slope(limits, tie, least_precision, greatest_precision) / groups.P
    positive = _of_positives(groups, limits, tie, least_precision, greatest_precision)
    negative, effective = _of_negatives(groups, limits, tie, losses)
    return SamplingError(
        positive / groups.P,
        negative / groups.N,
        (1 / groups.P + 1 / groups.N) * slope**2,
        groups.P,
        effective,
    )


def _slope(limits: CellLimits, tie: Derivatives, lower: FloatArray, upper: FloatArray) -> float:
    """Return the greatest sum over the positives of q (1 - q), q the precision, in its limits."""
    nearest = np.minimum(np.maximum(0.5, lower), upper)
    slopes = 1 - nearest
    slopes *= nearest
    slopes *= limits.positives
    ties = limits.ties
    slopes[ties] = tie.own_tp * limits.positives[ties] + tie.per_tp * limits.above[ties]
    return float(slopes.sum())


def _of_positives(
    groups: Groups, limits: CellLimits, tie: Derivatives, lower: FloatArray, upper: FloatArray
) -> float:
    """Return the greatest variance of the positives' influences, from limits of precision.

    An influence is the precision at the rank, f of the own cell, and f of those below. The
    limits of precision are changed.
    """
    ties = limits.ties
    lower[ties] = upper[ties] = tie.value + tie.own_tp
    gain = limits.least_gain.copy()
    gain[ties] = tie.per_tp
    lower += sums_from(gain)[1:]
    gain = limits.greatest_gain.copy()
    gain[ties] = 0.0
    upper += gain
    gain[ties] = tie.per_tp
    upper += sums_from(gain)[1:]
    left_out = groups.P - int(groups.p.sum())
    return _greatest_squares(lower, upper, limits.positives, groups.P, left_out)


def _of_negatives(
    groups: Groups, limits: CellLimits, tie: Derivatives, losses: FloatArray
) -> tuple[float, float]:
    """Return the greatest variance of the negatives' influences, from g at the first positive.

    And the least number of them that have an effect.

    An influence is g of the own cell, where the negative is itself above, and of those below.
    """
    ties, size = limits.ties, losses.size
    # g grows and then falls with x, so the least of a cell is at one of its ends.
    at_last = limits.through + limits.most_fp
    at_last *= at_last
    np.divide(limits.through, at_last, out=at_last)
    np.minimum(losses, at_last, out=losses)
    losses *= limits.positives
    losses[ties] = -tie.per_fp
    # Negatives of each group, then those between the groups.
    lower, upper = np.empty(2 * size + 1), np.empty(2 * size + 1)
    lower[size:] = sums_from(losses)
    losses = limits.greatest_below.copy()
    losses[ties] = -tie.per_fp
    upper[size:] = sums_from(losses)
    lower[:size] = lower[size + 1 :]
    upper[:size] = limits.greatest_own
    lower[ties] -= tie.own_fp
    upper[ties] = -tie.own_fp
    upper[:size] += upper[size + 1 :]
    scale = limits.weight * groups.N / groups.P
    lower *= scale
    upper *= scale
    counts = np.empty(2 * size + 1)
    counts[:size], counts[size:] = groups.n, negatives_between(groups)
    squares = dot(counts, upper * upper)
    effective = dot(counts, lower) ** 2 / squares if squares > 0 else float(groups.N)
    return _greatest_squares(lower, upper, counts, groups.N, left_out=0), effective


def _greatest_squares(
    lower: FloatArray, upper: FloatArray, counts: FloatArray, total: int, left_out: int
) -> float:
    """Return the greatest unbiased variance of values between these limits. O(n).

    `counts` values lie between each pair of limits; `left_out` more of the `total` are 0.
    Overwrites `lower` and `upper`.
    """
    middle = lower + upper
    middle /= 2
    middle *= counts
    centre = float(middle.sum()) / total
    lower -= centre
    upper -= centre
    distance = np.maximum(np.abs(lower, out=lower), np.abs(upper, out=upper), out=upper)
    distance *= distance
    distance *= counts
    squares = float(distance.sum()) + left_out * centre**2
    return squares / (total - 1)
