"""Influence functions of the areas, and the derivatives by the counts that they are made of.

A metric's influence function says how much the metric moves when one more case
of a class lands at a rank. Negatives that rank between two groups with positives
share one value, so each function is O(G) for G groups. Sampling variances are
made of influences in `_uncertainty`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import dot
from streameval._metrics.log_series import log_series
from streameval._metrics.pr_areas import negatives_factor

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """The influence of each case on one figure.

    Attributes
    ----------
    positive : float64[G]
        Influence of a positive in group g.
    tied : float64[G]
        Influence of a negative in group g.
    between : float64[G + 1]
        Influence of a negative that ranks below g groups and is tied with none.
    estimate : float
        The figure.
    prevalence_slope : float
        Derivative of the figure by the log odds of the prevalence; 0 for AUC-ROC.
    """

    positive: FloatArray
    tied: FloatArray
    between: FloatArray
    estimate: float
    prevalence_slope: float


def auc_roc_influence(groups: Groups) -> Influence:
    """Return the placements of the cases: DeLong's structural components. O(G).

    `groups` includes the misses. A positive counts the share of negatives that
    rank below it, a negative the share of positives above it, ties at half.
    """
    positive = 1.0 - (groups.fp + 0.5 * groups.n) / groups.N
    tied = (groups.tp + 0.5 * groups.p) / groups.P
    between = np.append(groups.tp, groups.P) / groups.P
    estimate = dot(groups.p, positive) / groups.P
    return Influence(positive, tied, between, estimate, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Derivatives:
    """The derivatives of an area in precision-recall space by each group's counts.

    Attributes
    ----------
    value : float64[G]
        Mean precision within the group.
    own_tp, own_fp : float64[G]
        Derivatives of the group's part of the area by the counts in the group.
    per_tp, per_fp : float64[G]
        Derivatives of the same by the counts that rank above it.
    """

    value: FloatArray
    own_tp: FloatArray
    own_fp: FloatArray
    per_tp: FloatArray
    per_fp: FloatArray


def average_precision_influence(groups: Groups, prevalence: float | None = None) -> Influence:
    """Return the influences on average precision. O(G).

    `groups` excludes the misses: a missed reference adds nothing to the figure and
    changes only the totals. `prevalence` rescales the false positives to that
    prevalence, which is then held fixed.
    """
    return _accumulate(groups, prevalence, average_precision_derivatives(groups, prevalence))


def average_precision_derivatives(groups: Groups, prevalence: float | None = None) -> Derivatives:
    """Return the derivatives of average precision by the counts of each group. O(G)."""
    weight = negatives_factor(groups, prevalence)
    p = groups.p.astype(np.float64)
    tp = groups.tp + p
    fp = weight * (groups.fp + groups.n)
    called = tp + fp
    precision = tp / called
    per_tp = p * fp / (called * called)
    per_fp = -p * precision / called
    return Derivatives(precision, own_tp=per_tp, own_fp=per_fp, per_tp=per_tp, per_fp=per_fp)


def auc_pr_influence(groups: Groups, prevalence: float | None = None) -> Influence:
    """Return the influences on the area under the interpolated PR curve. O(G).

    `groups` includes the misses, as one tied group at the end: like the
    area itself, they are on the line from the last operating point to (N, P).
    """
    return _accumulate(groups, prevalence, auc_pr_derivatives(groups, prevalence))


def auc_pr_derivatives(groups: Groups, prevalence: float | None = None) -> Derivatives:
    """Return the derivatives of the area under the interpolated PR curve. O(G).

    Inside a group the curve passes (tp + s p, fp + s n), 0 <= s <= 1; the
    derivatives of its area p int x/(x+y) ds are integrals of s^k/(x+y)^2.
    """
    weight = negatives_factor(groups, prevalence)
    p = groups.p.astype(np.float64)
    n = weight * groups.n
    tp = groups.tp.astype(np.float64)
    fp = weight * groups.fp
    mean0, mean1, square0, square1, square2 = _segment_integrals(tp + fp, p + n)
    # Exactly 1 without false positives, so that rounding adds no variance there.
    value = np.where(fp + n > 0, tp * mean0 + p * mean1, 1.0)
    return Derivatives(
        value,
        own_tp=p * (fp * square1 + n * square2),
        own_fp=-p * (tp * square1 + p * square2),
        per_tp=p * (fp * square0 + n * square1),
        per_fp=-p * (tp * square0 + p * square1),
    )


def _accumulate(groups: Groups, prevalence: float | None, moved: Derivatives) -> Influence:
    """Sum over the groups at and below each case. O(G)."""
    below_tp = sums_from(moved.per_tp)
    below_fp = sums_from(moved.per_fp)
    scale = negatives_factor(groups, prevalence) * groups.N / groups.P
    positive = moved.value + moved.own_tp + below_tp[1:]
    tied = scale * (moved.own_fp + below_fp[1:])
    between = scale * below_fp
    estimate = dot(groups.p, moved.value) / groups.P
    # The figure depends on ratios of counts only, so by Euler's theorem the
    # mean influence of the positives is the figure plus this slope.
    slope = (dot(groups.p, moved.own_tp) + dot(groups.tp, moved.per_tp)) / groups.P
    return Influence(positive, tied, between, estimate, slope)


def sums_from(values: FloatArray) -> FloatArray:
    """Return the sums over h >= g, g = 0..G."""
    sums = np.zeros(values.size + 1)
    np.cumsum(values[::-1], out=sums[-2::-1])
    return sums


def _segment_integrals(start: FloatArray, growth: FloatArray) -> tuple[FloatArray, ...]:
    """Integrate s^k/m (k = 0, 1) and s^k/m^2 (k = 0, 1, 2), m = start + s growth, over [0, 1].

    Where nothing ranks above (start = 0) the divergent integrals are returned as 0:
    they are only multiplied by the counts above, which are 0.

    With e = start + growth, d = start + e, and z and S of `log_series`, t = 2 S/d, they are
    2/d + t z^2,  (1 - t z start)/d,  1/(start e),  (1 + t z e)/(d e),
    (1 - 2 t start e/d)/(d e), in which nothing cancels.
    """
    first = start == 0
    end = start + growth
    ends_sum, z, tail = log_series(start, growth)
    tail *= 2
    tail /= ends_sum
    inverse = 1.0 / (ends_sum * end)
    square2 = tail * start
    square2 *= 2
    square2 *= end
    square2 /= ends_sum
    np.subtract(1.0, square2, out=square2)
    square2 *= inverse
    tail *= z
    square1 = tail * end
    square1 += 1.0
    square1 *= inverse
    mean1 = tail * start
    np.subtract(1.0, mean1, out=mean1)
    mean1 /= ends_sum
    mean0 = 2.0 / ends_sum
    tail *= z
    mean0 += tail
    square0 = 1.0 / (np.where(first, 1.0, start) * end)
    mean0[first] = square0[first] = square1[first] = 0.0
    return mean0, mean1, square0, square1, square2
