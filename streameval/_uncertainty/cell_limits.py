"""What the cases of a cell can add to an influence, in any order: shared by the areas.

With x true and y false positives above a case, influences on an area in precision-recall
space are sums of f = y/(x + y)^2 (of a positive) and g = x/(x + y)^2 (of a negative). In a
cell both are at most an envelope that does not increase with x; so its integral over the
cell's positives bounds the sum, however these are ordered or tied. The limits depend on the
counts alone, so the areas of one answer share them (`cell_variance` has what differs).

Most cells are far from the diagonal x = y, where most terms of the envelope are 0: these are
computed for the other cells only. O(G) for G cells that hold positives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.groups import Groups


@dataclass(frozen=True, slots=True, eq=False)
class CellLimits:
    """The limits of the terms of each cell, and its counts as floats. Never change the columns.

    Attributes
    ----------
    weight : float
        What a negative counts.
    case : float
        What one case counts.
    ties : int64[]
        The groups that hide no order: a single case, or a real tie.
    positives, above, through : float64[G]
        Positives in the group, above it, and both.
    least_fp, most_fp : float64[G]
        Weighted false positives above a case of the group, at least and at most.
    least_gain, greatest_gain : float64[G]
        Limits of the sum of f over the group's positives.
    greatest_below, greatest_own : float64[G]
        The greatest sum of g over them, for a negative above the group, and in it.
    """

    weight: float
    case: float
    ties: IntArray
    positives: FloatArray
    above: FloatArray
    through: FloatArray
    least_fp: FloatArray
    most_fp: FloatArray
    least_gain: FloatArray
    greatest_gain: FloatArray
    greatest_below: FloatArray
    greatest_own: FloatArray

    @classmethod
    def of(cls, groups: Groups, hidden: BoolArray, weight: float, case: float) -> CellLimits:
        """Return the limits of groups, of which some hide the order of their cases. O(G).

        Parameters
        ----------
        groups : Groups
        hidden : bool[G]
            Which groups are cells of several scores; the others are real ties.
        weight : float
            What a negative counts: 1 unless it is rescaled to another prevalence.
        case : float
            What one case counts. Where it is a mean, as of decayed counts, nothing is proven.
        """
        p, tp = groups.p.astype(np.float64), groups.tp.astype(np.float64)
        last = tp + p
        least, most = groups.fp.astype(np.float64), groups.n.astype(np.float64)
        if weight != 1.0:
            least *= weight
            most *= weight
        most += least
        # A lone case has no order.
        ties = np.flatnonzero(~hidden | (groups.p + groups.n <= case))
        own_fp = weight * case
        return cls(
            weight=weight,
            case=case,
            ties=ties,
            positives=p,
            above=tp,
            through=last,
            least_fp=least,
            most_fp=most,
            least_gain=_least_gain(p, last, least, most),
            greatest_gain=_greatest_gain(tp, last, least, most, case),
            greatest_below=_greatest_loss(tp, last, np.maximum(least, own_fp)),
            greatest_own=_greatest_loss(tp, last, least + own_fp),
        )


def _greatest_gain(
    tp: FloatArray, last: FloatArray, least: FloatArray, most: FloatArray, case: float
) -> FloatArray:
    """Return a limit of the sum of f over a cell's positives, `least` <= y <= `most`.

    The greatest f at x is at y = x, or at the limit next to it. The first group of all
    adds at most 1/4, and x is at least one case below it.
    """
    start, end = np.maximum(tp, case), np.maximum(last, case)
    at_least, at_most = np.maximum(least, start), np.maximum(most, start)
    np.minimum(at_least, end, out=at_least)
    np.minimum(at_most, end, out=at_most)
    # The integral over the x where y is at its least; from there to `at_most` y is x.
    total = at_least - start
    total *= least
    start += least
    start *= at_least + least
    total /= start
    level = np.flatnonzero(at_least < at_most)
    total[level] += np.log(at_most[level] / at_least[level]) / 4
    rest = np.flatnonzero(at_most < end)
    at_most, end, most = at_most[rest], end[rest], most[rest]
    total[rest] += most * (end - at_most) / ((at_most + most) * (end + most))
    total[:1] += 0.25
    return total


def _least_gain(p: FloatArray, last: FloatArray, least: FloatArray, most: FloatArray) -> FloatArray:
    """Return the least sum of f over a cell's positives: after them all, at one limit of y."""
    at_least, at_most = last + least, last + most
    at_least *= at_least
    at_most *= at_most
    np.divide(least, at_least, out=at_least)
    np.divide(most, at_most, out=at_most)
    np.minimum(at_least, at_most, out=at_least)
    at_least *= p
    return at_least


def _greatest_loss(tp: FloatArray, last: FloatArray, fp: FloatArray) -> FloatArray:
    """Return a limit of the sum of g over a cell's positives, y >= `fp` > 0.

    The greatest g is at y = fp, where it grows until x = fp. Until there, or until the cell's
    last positive if that is before, the envelope is constant: g at this place.
    """
    peak = np.maximum(fp, tp)
    np.minimum(peak, last, out=peak)
    level = peak + fp
    level *= level
    np.divide(peak, level, out=level)
    total = peak - tp
    total *= level
    beyond = np.flatnonzero(peak < last)
    peak, last, fp = peak[beyond], last[beyond], fp[beyond]
    total[beyond] += np.log((last + fp) / (peak + fp)) + fp / (last + fp) - fp / (peak + fp)
    return total
