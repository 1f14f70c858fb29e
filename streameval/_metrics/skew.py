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
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.result import Result
from streameval._counts.exact import dot
from streameval._counts.view import Queries
from streameval._metrics.operating_points import points_of
from streameval._metrics.pr_areas import auc_pr_rest, auc_pr_value, phi

if TYPE_CHECKING:
    from streameval._common.arrays import Counts, FloatArray
    from streameval._counts.groups import Groups
    from streameval._metrics.operating_points import OperatingPoints


@dataclass(frozen=True, slots=True, eq=False)
class PrecisionRecallGainCurve(Result):
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

    Notes
    -----
    With 1 - minimum = (N/P) log1p(P/N), the metric is both (AUC - minimum)/(1 - minimum)
    and 1 - (1 - AUC)/(1 - minimum). Where AUC is at least 1/2, the second form is taken,
    with P (1 - AUC) as a sum of its own: for P >> N, AUC and the minimum agree in most of
    their digits. Its absolute error is a few units of the last place of 1, and its
    relative error grows only where the ranking is nearly the worst.
    """
    P, N = groups.P, groups.N
    if P == 0 or N == 0:
        return math.nan
    lost = N * math.log1p(P / N)  # by the best ranking's lead over the worst, times P
    area = auc_pr_value(groups)
    if area < 1 / 2:
        return (area - auc_pr_minimum_value(P, N)) * (P / lost)
    return 1 - auc_pr_rest(groups) / lost


def auc_prg_value(groups: Groups) -> float:
    """Return the area under the precision-recall-gain curve.

    nan unless both classes have references. `groups` include the misses. O(G).

    Notes
    -----
    The curve begins at recall gain 0, where FN = PN/(P + N). The piece that this point
    divides is found and cut in integers, because in floats the point may be equal to P.
    The area is 1 minus the area above the curve, a sum without cancellation; an area
    below 1/2 is summed itself, from gains whose differences are formed exactly.
    """
    P, N = groups.P, groups.N
    if P == 0 or N == 0:
        return math.nan
    # The pieces that end at FN < PN/(P + N); the last piece ends at FN = 0.
    after = groups.tp + groups.p
    first = int(np.searchsorted(after, P - (P * N - 1) // (P + N)))
    tp, fp = groups.tp[first:].astype(np.float64), groups.fp[first:].astype(np.float64)
    p, n = groups.p[first:].astype(np.float64), groups.n[first:].astype(np.float64)
    end = after[first:].astype(np.float64)
    total = int(groups.p[first]) * (P + N)
    kept = P * N - (P - int(after[first])) * (P + N)  # of the total, beyond the first point
    start = int(groups.fp[first]) + int(groups.n[first]) * Fraction(total - kept, total)
    if kept < total:
        tp[0], fp[0] = P * P / (P + N), float(start)
        p[0], n[0] = kept / (P + N), int(groups.n[first]) * kept / total
    # (P/N) times the decrease of FN/TP = P/TP - 1, times the mean of both heights.
    ratio = P / N
    width = P * (p / (tp * end))
    above = ratio * ratio * dot(width, fp / tp + (fp + n) / end) / 2
    if above < 1 / 2:
        return 1 - above
    right = _precision_gains(after[first:], groups.fp[first:] + groups.n[first:], P, N)
    left = _precision_gains(groups.tp[first:], groups.fp[first:], P, N)
    if kept < total:
        left[0] = float(1 - start * (P + N) / (P * N))
    return ratio * dot(width, (left + right) / 2)


def _precision_gains(tp: Counts, fp: Counts, P: int, N: int) -> FloatArray:
    """Return 1 - (P/N) FP/TP, with the difference of the products formed exactly. O(n).

    At TP = 0 the value is meaningless.
    """
    if P * N >= 1 << 62:
        tp, fp = tp.astype(object), fp.astype(object)
    lead = N * tp - P * fp
    gains: FloatArray = lead.astype(np.float64) / N / np.maximum(tp, 1).astype(np.float64)
    return gains


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
    P, N = int(points.P), int(points.N)
    if P == 0 or N == 0:
        empty = np.empty(0)
        return PrecisionRecallGainCurve(empty, empty, empty)
    # The first point with FN <= PN/(P + N), where the recall gain is 0. In integers: as a
    # float, the TP of this point may be equal to P, or rounded to more than P.
    first = int(np.searchsorted(points.tp, P - P * N // (P + N)))
    tp, fp, thresholds = points.tp[first:], points.fp[first:], points.thresholds[first:]
    recall_gain = 1 - P / N * ((P - tp) / tp)
    precision_gain = _precision_gains(tp, fp, P, N)
    lead = P * N - (P - int(tp[0])) * (P + N)  # of the first point's TP, times P + N
    if lead > 0:
        last_tp, last_fp = int(points.tp[first - 1]), int(points.fp[first - 1])
        share = 1 - Fraction(lead, (int(tp[0]) - last_tp) * (P + N))
        between = last_fp + share * (int(fp[0]) - last_fp)
        recall_gain = np.append(0.0, recall_gain)
        precision_gain = np.append(float(1 - between * (P + N) / (P * N)), precision_gain)
        thresholds = np.append(np.nan, thresholds)
    else:
        recall_gain[0] = 0.0
    return PrecisionRecallGainCurve(recall_gain, precision_gain, thresholds)
