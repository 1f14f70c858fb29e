"""The greatest sampling variance that an order inside the cells can give, and a proof.

Of a bounded evaluator the order inside a cell is unknown. For areas in precision-recall
space the influence of each case is still known within limits, from the counts above its
cell and inside it. A variance is the least mean squared distance from any value, so the
mean of the greatest squared distances from one fixed value is at least the variance of
every order, with ties or without.

With x true and y false positives above a case, the influences are sums, over the
positives that rank below it, of f = y/(x + y)^2 (of a positive) and g = x/(x + y)^2 (of
a negative). In a cell both are at most an envelope that does not increase with x; so its
integral over the cell's positives bounds the sum, however these are ordered or tied. All
is O(G) for G cells that hold positives. (The terms are the derivatives of `influence`.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import dot
from streameval._metrics.influence import sums_from
from streameval._metrics.pr_areas import negatives_factor
from streameval._uncertainty.cell_orders import rows_of
from streameval._uncertainty.sampling_variance import negatives_between

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._metric_registry import Estimator


def greatest_variance(
    groups: Groups,
    hidden: BoolArray,
    estimator: Estimator,
    prevalence: float | None,
    case: float = 1.0,
) -> float:
    """Return a variance that no order of the cases inside the cells exceeds. O(G).

    Parameters
    ----------
    groups : Groups
        As `estimator` takes them.
    hidden : bool[G]
        Which groups are cells of several scores; the others are real ties.
    estimator : Estimator
        Of an area in precision-recall space: it has derivatives.
    prevalence : float or None
        Rescales the negatives, and is then held fixed.
    case : float
        What one case counts. Where it is a mean, as of decayed counts, nothing is proven.
    """
    assert estimator.derivatives is not None
    weight = negatives_factor(groups, prevalence)
    p = groups.p.astype(np.float64)
    tp = groups.tp.astype(np.float64)
    # Positives that are not interpolated count themselves.
    first_tp, last_tp = tp if estimator.counts_misses else tp + case, tp + p
    least_fp = weight * groups.fp.astype(np.float64)
    most_fp = least_fp + weight * groups.n
    # A lone case has no order.
    real_ties = ~hidden | (groups.p + groups.n <= case)
    tie = estimator.derivatives(rows_of(groups, real_ties), prevalence)

    def limits(of_cell: FloatArray, of_tie: FloatArray) -> FloatArray:
        of_cell[real_ties] = of_tie
        return of_cell

    # Of a positive: the precision at its rank, and f of its own cell and of those below.
    least_precision = limits(_precision(first_tp, most_fp), tie.value)
    greatest_precision = limits(_precision(last_tp, least_fp), tie.value)
    gain = _greatest_gain(tp, last_tp, least_fp, most_fp, case)
    least_gain = np.multiply(p, _least_gain(last_tp, least_fp, most_fp))
    positive = _greatest_squares(
        least_precision
        + limits(np.zeros_like(p), tie.own_tp)
        + sums_from(limits(least_gain, tie.per_tp))[1:],
        greatest_precision
        + limits(gain.copy(), tie.own_tp)
        + sums_from(limits(gain, tie.per_tp))[1:],
        groups.p,
        groups.P,
    )
    # Of a negative: g of its own cell, where it is itself above, and of those below.
    own_fp = weight * case
    least_loss = np.multiply(p, _least_loss(first_tp, last_tp, most_fp))
    least_below = sums_from(limits(least_loss, -tie.per_fp))
    below = sums_from(limits(_greatest_loss(tp, p, np.maximum(least_fp, own_fp)), -tie.per_fp))
    least_own = limits(np.zeros_like(p), -tie.own_fp)
    own = limits(_greatest_loss(tp, p, least_fp + own_fp), -tie.own_fp)
    scale = weight * groups.N / groups.P
    negative = _greatest_squares(
        scale * np.concatenate((least_own + least_below[1:], least_below)),
        scale * np.concatenate((own + below[1:], below)),
        np.concatenate((groups.n, negatives_between(groups))),
        groups.N,
    )
    variance = positive / groups.P + negative / groups.N
    if prevalence is None:
        # The slope is the mean of q (1 - q) over the positives, q the precision.
        nearest = np.clip(0.5, least_precision, greatest_precision)
        of_tie = tie.own_tp * p[real_ties] + tie.per_tp * tp[real_ties]
        slope = limits(nearest * (1 - nearest) * p, of_tie).sum() / groups.P
        variance += (1 / groups.P + 1 / groups.N) * float(slope) ** 2
    return variance


def _greatest_squares(lower: FloatArray, upper: FloatArray, counts: IntArray, total: int) -> float:
    """Return the greatest unbiased variance of values between these limits. O(n).

    `counts` values lie between each pair of limits; those of `total` left out are 0.
    """
    centre = dot(counts, (lower + upper) / 2) / total
    distance = np.maximum(np.abs(lower - centre), np.abs(upper - centre))
    squares = dot(counts, distance * distance) + (total - int(counts.sum())) * centre**2
    return float(squares) / (total - 1)


def _precision(tp: FloatArray, fp: FloatArray) -> FloatArray:
    """Return tp/(tp + fp); 1 above every case."""
    called = tp + fp
    return np.divide(tp, called, out=np.ones_like(called), where=called > 0)


def _greatest_gain(
    tp: FloatArray, last: FloatArray, least: FloatArray, most: FloatArray, case: float
) -> FloatArray:
    """Return a limit of the sum of f over a cell's positives, `least` <= y <= `most`.

    The greatest f at x is at y = x, or at the limit next to it. The first group of all
    adds at most 1/4, and x is at least one case below it.
    """
    start, end = np.maximum(tp, case), np.maximum(last, case)
    at_least, at_most = np.clip(least, start, end), np.clip(most, start, end)
    total = least * (at_least - start) / ((start + least) * (at_least + least))
    total += np.log(at_most / at_least) / 4
    total += most * (end - at_most) / ((at_most + most) * (end + most))
    total[tp == 0] += 0.25
    return total


def _least_gain(last: FloatArray, least: FloatArray, most: FloatArray) -> FloatArray:
    """Return the least f of a cell's positives: after them all, and at one limit of y."""
    return np.minimum(least / (last + least) ** 2, most / (last + most) ** 2)


def _greatest_loss(tp: FloatArray, p: FloatArray, fp: FloatArray) -> FloatArray:
    """Return a limit of the sum of g over a cell's positives, y >= `fp` > 0.

    The greatest g is at y = fp, where it grows until x = fp; the envelope is constant
    until there.
    """
    last = tp + p
    peak = np.clip(fp, tp, last)
    total = (peak - tp) / (4 * fp)
    total += np.log((last + fp) / (peak + fp)) + fp / (last + fp) - fp / (peak + fp)
    return total


def _least_loss(first: FloatArray, last: FloatArray, fp: FloatArray) -> FloatArray:
    """Return the least g of a cell's positives, at one end: it grows and then falls with x."""
    with np.errstate(invalid="ignore"):  # no negative is above the first of all cases
        return np.nan_to_num(np.minimum(first / (first + fp) ** 2, last / (last + fp) ** 2))
