"""Queries about decisions: thresholds, the rates they reach, and the cost of errors.

Counts are exact, and so are comparisons with a target: a rate meets a target if it,
correctly rounded to a double, is at least (or at most) the target. So 1 of 10 meets
0.1, and any rate that another method returned is a target that can be met. Misses
count in P and N; a finite threshold never calls them positive.
"""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import real, share
from streameval._counts.view import Queries
from streameval._metrics.coin import Coin, coin_for_fpr, coin_for_recall
from streameval._metrics.confusion import Confusion
from streameval._metrics.costs import CostCurve, cheapest_threshold, cost_envelope
from streameval._metrics.hull import cached_hull
from streameval._metrics.operating_points import Curve, points_of

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._metrics.operating_points import OperatingPoints

_MAX_EXACT_DOUBLE = 1 << 53
"""Cases: up to this a count is exact as a double, so a quotient is rounded once."""


class DecisionQueries(Queries):
    """Which threshold to use, and the outcomes at a threshold."""

    def confusion_at(self, threshold: float) -> Confusion:
        """Return the confusion matrix of a threshold.

        Parameters
        ----------
        threshold : float
            Every case with score >= threshold is called positive. At -inf, so are
            the references that were never scored.

        Returns
        -------
        Confusion
            Exact counts, with recall, precision, F and other rates.

        Raises
        ------
        InvalidInputError
            When `threshold` is NaN.

        Notes
        -----
        O(log D) for D distinct scores that no two cases of a class share, else O(D).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.confusion_at(0.5)
        Confusion(threshold=0.5, tp=1, fp=1, fn=1, tn=1)
        """
        cut = real(threshold, "threshold") + 0.0  # -0.0 is 0.0
        if math.isnan(cut):
            raise InvalidInputError("threshold must not be NaN, got nan", field="threshold")
        view = self._view()
        tp, fp = view.above(cut)
        at = Confusion(threshold=cut, tp=tp, fp=fp, fn=view.P - tp, tn=view.N - fp)
        return at.in_weights(view.unit)

    def expected_cost(self, threshold: float, *, cost_fp: float, cost_fn: float) -> float:
        """Return the expected cost of errors per case at a threshold.

        Parameters
        ----------
        threshold : float
            Every case with score >= threshold is called positive.
        cost_fp, cost_fn : float
            Cost of one false positive and of one false negative, in one unit: finite, not
            negative, not both 0.

        Returns
        -------
        float
            (cost_fp FP + cost_fn FN)/(P + N), from 0 to the larger cost; nan without
            references. Misses are errors as `confusion_at` counts them.

        Raises
        ------
        InvalidInputError
            When `threshold` is NaN, a cost is negative or not finite, or both are 0.

        See Also
        --------
        best_threshold : The threshold with the least cost, of the same cases.

        Notes
        -----
        O(log D) for D distinct scores, after the operating points are computed.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.expected_cost(0.5, cost_fp=1, cost_fn=10)
        2.75
        """
        return self.confusion_at(threshold).expected_cost(cost_fp=cost_fp, cost_fn=cost_fn)

    def threshold_for(
        self,
        *,
        precision: float | None = None,
        recall: float | None = None,
        fpr: float | None = None,
        flagged_share: float | None = None,
    ) -> float:
        """Return the threshold that meets one target best.

        Parameters
        ----------
        precision : float, optional
            The threshold with the largest recall whose precision is at least
            this, with TP > 0; of equal recalls the highest threshold.
        recall : float, optional
            The highest threshold whose recall is at least this.
        fpr : float, optional
            The lowest threshold whose false positive rate is at most this;
            +inf (call nothing positive) if no score meets it.
        flagged_share : float, optional
            The lowest threshold that calls at most this share of the cases
            positive; +inf if no score does.

        Returns
        -------
        float
            A score, or +inf. nan if no finite threshold meets the target (a
            precision that no threshold reaches, a recall that the misses make
            unreachable) and if its rate is undefined: precision and recall without
            positives, fpr without negatives, flagged_share without cases.

        Raises
        ------
        InvalidInputError
            Unless exactly one target is given, from 0 to 1.

        Notes
        -----
        O(G) for G distinct scores of positives; for fpr, O(log D) after the
        operating points are computed, and for flagged_share O(D). The threshold is
        chosen on the cases that it is judged by; evaluate it on new cases with
        `at_thresholds` or `confusion_at`.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.threshold_for(precision=0.6), ev.threshold_for(recall=0.5)
        (0.4, 0.9)
        >>> ev.threshold_for(fpr=0.0), ev.threshold_for(fpr=0.5)
        (0.9, 0.4)
        >>> ev.threshold_for(flagged_share=0.75)
        0.4
        """
        name, target = _one_target(
            precision=precision, recall=recall, fpr=fpr, flagged_share=flagged_share
        )
        view = self._view()
        if name == "precision":
            return _threshold_for_precision(view.groups, target)
        if name == "recall":
            return _threshold_for_recall(view.groups, target)
        points = points_of(view)
        if name == "fpr":
            return _threshold_at_most(points, points.fp, points.N, target)
        return _threshold_at_most(points, points.tp + points.fp, points.P + points.N, target)

    def coin(self, *, recall: float | None = None, fpr: float | None = None) -> Coin:
        """Return two thresholds and a probability that reach a point on the ROC hull.

        No single threshold reaches the points between two vertices of the hull, but a
        weighted coin between the vertices' thresholds does.

        Parameters
        ----------
        recall : float, optional
            The recall to reach, with the lowest false positive rate.
        fpr : float, optional
            The false positive rate to reach, with the highest recall.

        Returns
        -------
        Coin
            ``high, low, probability`` and the rates to expect. At a vertex both
            thresholds are its own. nan unless both classes have references.

        Raises
        ------
        InvalidInputError
            Unless exactly one target is given, from 0 to 1.

        See Also
        --------
        threshold_for : one threshold that meets a target.

        Notes
        -----
        O(H) after the hull, in exact fractions. A recall that the misses make
        unreachable has ``low`` = -inf. The vertices are chosen on the cases that they are
        judged by, so the rates are optimistic: choose the coin on tuning data. Source:
        Davis and Goadrich (2006), section 4; Scott, Niranjan and Prager (1998).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.coin(recall=0.75)
        Coin(high=0.9, low=0.4, probability=0.5, recall=0.75, fpr=0.25)
        >>> high, low, probability = ev.coin(fpr=0.1)
        >>> high, low, round(probability, 3)
        (0.9, 0.4, 0.2)
        """
        name, target = _one_target(recall=recall, fpr=fpr)
        view = self._view()
        vertices = cached_hull(view)
        hull = Curve(vertices.thresholds, vertices.fp, vertices.tp, P=view.P, N=view.N)
        return coin_for_recall(hull, target) if name == "recall" else coin_for_fpr(hull, target)

    def best_threshold(self, *, cost_fp: float, cost_fn: float) -> float:
        """Return the threshold with the least cost of errors.

        Parameters
        ----------
        cost_fp, cost_fn : float
            Cost of one false positive and of one false negative: finite, not
            negative, not both 0. Only their ratio matters.

        Returns
        -------
        float
            The highest threshold with the least cost_fp FP + cost_fn FN: +inf if
            no threshold is cheaper than calling nothing positive, -inf if it is
            cheapest to call everything positive, references without a score
            included. nan unless both classes have references.

        Raises
        ------
        InvalidInputError
            When a cost is negative or not finite, or both are 0.

        See Also
        --------
        cost_curve : The least cost for every ratio of costs and prevalence.

        Notes
        -----
        O(log H) after the hull, compared in exact arithmetic. It uses the
        prevalence of the counted cases. For another prevalence pi, scale the costs:
        ``cost_fn=c * pi / prevalence, cost_fp=d * (1 - pi) / (1 - prevalence)``.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.best_threshold(cost_fp=1, cost_fn=5), ev.best_threshold(cost_fp=5, cost_fn=1)
        (0.4, 0.9)
        """
        view = self._view()
        best = cheapest_threshold(cached_hull(view), cost_fp=cost_fp, cost_fn=cost_fn)
        return best if view.P > 0 and view.N > 0 else math.nan

    def cost_curve(self) -> CostCurve:
        """Return the least expected cost for every ratio of costs and prevalence.

        Returns
        -------
        CostCurve
            ``probability_cost``, ``cost`` and, for each piece between, the best
            threshold; ``at(probability_cost)`` interpolates. Empty unless both
            classes have references.

        Notes
        -----
        O(H) after the hull; cached per revision. Source: Drummond and Holte, "Cost
        curves" (Machine Learning 65, 2006). Like the hull it is chosen on the cases
        that it is judged by, so it is optimistic.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> curve = ev.cost_curve()
        >>> curve.probability_cost.tolist(), curve.cost.tolist(), curve.thresholds.tolist()
        ([0.0, 0.5, 1.0], [0.0, 0.25, 0.0], [0.9, 0.4])
        """
        view = self._view()
        return view.cached("cost_curve", lambda: cost_envelope(cached_hull(view), view.P, view.N))


def _one_target(**targets: float | None) -> tuple[str, float]:
    """Return the name and the value of the one target that is given."""
    given = {name: value for name, value in targets.items() if value is not None}
    if len(given) != 1:
        *others, last = targets
        got = " and ".join(given) or "none"
        message = f"give exactly one of {', '.join(others)} and {last}, got {got}"
        raise InvalidInputError(message, field=others[0])
    ((name, value),) = given.items()
    return name, share(value, name)


def _quotients(part: IntArray, whole: IntArray) -> FloatArray:
    """Return part/whole, each rounded once, also for counts that are not exact as doubles."""
    if whole.size and int(whole.max()) > _MAX_EXACT_DOUBLE:
        exact: FloatArray = (part.astype(object) / whole.astype(object)).astype(np.float64)
        return exact
    return part / whole


def _threshold_for_precision(groups: Groups, target: float) -> float:
    reached = groups.tp + groups.p
    meets = np.flatnonzero(_quotients(reached, reached + groups.fp + groups.n) >= target)
    if groups.P == 0 or not meets.size:
        return math.nan
    # Scores without positives only lower the precision, so a group's own score is best.
    return float(groups.scores[meets[-1]])


def _threshold_for_recall(groups: Groups, target: float) -> float:
    if groups.P == 0:
        return math.nan
    needed = bisect.bisect_left(range(groups.P + 1), target, key=lambda tp: tp / groups.P)
    if needed == 0:
        return math.inf
    row = int(np.searchsorted(groups.tp + groups.p, needed))
    return float(groups.scores[row]) if row < groups.scores.size else math.nan


def _threshold_at_most(
    points: OperatingPoints, called: IntArray | FloatArray, whole: float, target: float
) -> float:
    """Return the lowest threshold at which called / whole is at most the target."""
    if whole == 0:
        return math.nan
    allowed = bisect.bisect_right(range(int(whole) + 1), target, key=lambda n: n / whole) - 1
    finite = len(points) - int(points.thresholds[-1] == -math.inf)
    row = int(np.searchsorted(called[:finite], allowed, side="right")) - 1
    return float(points.thresholds[row])
