"""Metrics that correct for the prevalence of positives.

The area under a PR curve has a lower bound that depends on the prevalence alone
(Boyd, Costa, Davis and Page 2012): the worst ranking, all negatives first, still has
AUC-PR phi(P/N) > 0. Precision-recall gain (Flach and Kull 2015) puts precision and
recall on a harmonic scale, on which the always-positive classifier has 0 and
interpolation is linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import dot
from streameval._counts.view import Queries
from streameval._metrics.operating_points import points_of
from streameval._metrics.pr_areas import auc_pr_value, phi

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._metrics.operating_points import OperatingPoints


@dataclass(frozen=True, slots=True, eq=False)
class PrecisionRecallGainCurve:
    """Points in precision-recall-gain space, joined by straight lines.

    Attributes
    ----------
    recall_gain, precision_gain : float64[K]
        From recall gain 0, interpolated, to 1. A negative precision gain is worse
        than calling everything positive.
    thresholds : float64[K]
        The threshold of each point; nan at the interpolated first point.

    Examples
    --------
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1])
    >>> curve = ev.precision_recall_gain_curve()
    >>> round(curve.area(), 3) == round(ev.auc_prg(), 3)
    True
    """

    recall_gain: FloatArray
    precision_gain: FloatArray
    thresholds: FloatArray

    def area(self) -> float:
        """Return the area under the curve; nan if the curve is empty. O(K)."""
        if self.recall_gain.size == 0:
            return math.nan
        heights = (self.precision_gain[1:] + self.precision_gain[:-1]) / 2
        return dot(np.diff(self.recall_gain), heights)


def auc_pr_minimum_value(P: int, N: int) -> float:
    """Return the AUC-PR of the worst ranking; nan when P = 0, 1 when N = 0. O(1)."""
    if P == 0:
        return math.nan
    if N == 0:
        return 1.0
    return phi(P / N)


def auc_pr_normalized_value(groups: Groups) -> float:
    """Return AUC-PR rescaled so that the worst ranking has 0 and the best 1.

    nan unless both classes have references. `groups` include the misses. O(G).
    """
    if groups.P == 0 or groups.N == 0:
        return math.nan
    floor = auc_pr_minimum_value(groups.P, groups.N)
    return (auc_pr_value(groups) - floor) / (1 - floor)


def auc_prg_value(groups: Groups) -> float:
    """Return the area under the precision-recall-gain curve.

    nan unless both classes have references. `groups` include the misses. O(G).
    """
    P, N = groups.P, groups.N
    if P == 0 or N == 0:
        return math.nan
    zero = P * (P / (P + N))  # true positives where the recall gain is 0
    kept = groups.tp + groups.p > zero
    tp, fp = groups.tp[kept].astype(np.float64), groups.fp[kept].astype(np.float64)
    p, n = groups.p[kept].astype(np.float64), groups.n[kept].astype(np.float64)
    cut = max(zero - tp[0], 0.0)
    share = cut / p[0]
    tp[0], fp[0] = tp[0] + cut, fp[0] + n[0] * share
    p[0], n[0] = p[0] - cut, n[0] * (1 - share)
    end = tp + p
    # (P/N) times the decrease of FN/TP = P/TP - 1, times the mean of both heights.
    width = P * (p / (tp * end))
    lost = fp / tp + (fp + n) / end
    ratio = P / N
    # A perfect ranking has 1, which rounding must not exceed.
    return min(1.0, ratio * dot(width, 1 - ratio * lost / 2))


class SkewQueries(Queries):
    """An evaluator's skew-aware metrics."""

    @property
    def prevalence(self) -> float:
        """Share of positives P/(P+N), misses included; nan when empty. O(1).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 0], scores=[0.9, 0.7, 0.4])
        >>> ev.add_misses(1)
        >>> ev.prevalence
        0.5
        """
        view = self._view()
        total = view.P + view.N
        return view.P / total if total else math.nan

    def auc_pr_minimum(self) -> float:
        """Return the least AUC-PR of any ranking of these references.

        1 + (1 - pi) ln(1 - pi)/pi at prevalence pi: about pi/2 when positives
        are rare.

        Returns
        -------
        float
            nan without positives; 1 without negatives.

        Notes
        -----
        O(1). Source: Boyd, Costa, Davis and Page (2012), theorem 1.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1], scores=[0.9, 0.1])
        >>> ev.auc_pr_minimum() == ev.auc_pr()
        True
        """
        view = self._view()
        return auc_pr_minimum_value(view.P, view.N)

    def auc_pr_normalized(self) -> float:
        """Return AUC-PR rescaled so that the worst ranking has 0 and the best 1.

        Returns
        -------
        float
            (auc_pr - minimum)/(1 - minimum); nan unless both classes have references.

        Notes
        -----
        O(G) for G distinct scores of positives; cached per revision. Source: Boyd,
        Costa, Davis and Page (2012), section 4. It removes the lower bound, not every
        effect of prevalence: to compare periods, use ``auc_pr(prevalence=...)``.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> round(ev.auc_pr_normalized(), 6)
        0.707519
        """
        view = self._view()
        return view.cached(
            "auc_pr_normalized", lambda: auc_pr_normalized_value(view.groups.with_misses())
        )

    def auc_prg(self) -> float:
        """Return the area under the precision-recall-gain curve.

        With recall gain 1 - (P/N) FN/TP and precision gain 1 - (P/N) FP/TP,
        from the interpolated point of recall gain 0. Calling everything positive
        has precision gain 0; negative gains count.

        Returns
        -------
        float
            At most 1, without a lower bound; nan unless both classes have references.

        Notes
        -----
        O(G) for G distinct scores of positives; cached per revision. Source: Flach
        and Kull (2015).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> ev.auc_prg()
        0.25
        """
        view = self._view()
        return view.cached("auc_prg", lambda: auc_prg_value(view.groups.with_misses()))

    def precision_recall_gain_curve(self) -> PrecisionRecallGainCurve:
        """Return the precision-recall-gain curve through every operating point.

        Returns
        -------
        PrecisionRecallGainCurve
            Empty unless both classes have references.

        Notes
        -----
        O(n) for n distinct scores. Source: Flach and Kull (2015).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> curve = ev.precision_recall_gain_curve()
        >>> curve.recall_gain, curve.precision_gain
        (array([0., 0., 1., 1.]), array([1. , 0. , 0.5, 0. ]))
        """
        return _gain_curve(points_of(self._view()))


def _gain_curve(points: OperatingPoints) -> PrecisionRecallGainCurve:
    P, N = points.P, points.N
    if P == 0 or N == 0:
        empty = np.empty(0)
        return PrecisionRecallGainCurve(empty, empty, empty)
    zero = P * (P / (P + N))
    first = int(np.searchsorted(points.tp, zero))  # the first point at or above it
    tp, fp = points.tp[first:].astype(np.float64), points.fp[first:].astype(np.float64)
    thresholds = points.thresholds[first:]
    if tp[0] > zero:
        share = (zero - points.tp[first - 1]) / (tp[0] - points.tp[first - 1])
        between = points.fp[first - 1] + share * (fp[0] - points.fp[first - 1])
        tp, fp = np.append(zero, tp), np.append(between, fp)
        thresholds = np.append(np.nan, thresholds)
    ratio = P / N
    return PrecisionRecallGainCurve(
        recall_gain=1 - ratio * (P - tp) / tp,
        precision_gain=1 - ratio * fp / tp,
        thresholds=thresholds,
    )
