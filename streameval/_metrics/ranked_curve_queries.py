"""Query facet: the curves of LingPipe's evaluation, as rows, and the areas under them.

The pure functions are in ``ranked_retrieval_curves``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.view import Queries
from streameval._metrics import ranked_retrieval_curves as curves
from streameval._metrics.areas import curve_groups
from streameval._metrics.hull import cached_hull
from streameval._metrics.operating_points import points_of
from streameval._metrics.ranked_retrieval_curves import read_only
from streameval._metrics.roc_areas import auc_roc_value

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.view import View


class RankedCurveQueries(Queries):
    """Curves as plain arrays with limit points, and the trapezoid areas under them."""

    def pr_curve(self, interpolate: bool = False) -> FloatArray:
        """Return the precision-recall curve as rows.

        Parameters
        ----------
        interpolate : bool
            False: (0, 1), every operating point at a finite threshold with
            TP > 0, and always (1, 0). True: (0, 1) and one row for each distinct
            recall, with the best precision at that or a higher recall; (1, 0)
            only if the scored cases do not reach recall 1.

        Returns
        -------
        float64[K, 2]
            Recall and precision, both in [0, 1], by decreasing threshold; read-only.
            No rows without positives.

        See Also
        --------
        pr_hull : The achievable curve.

        Notes
        -----
        O(D) for D distinct scores, O(G) interpolated, for G with positives. LingPipe adds
        the same two limit points; no threshold need reach them.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1, 1], scores=[-1.2, -1.3, -1.6])
        >>> ev.add_misses(2)
        >>> ev.pr_curve().round(2).tolist()
        [[0.0, 1.0], [0.25, 0.5], [0.5, 0.67], [1.0, 0.0]]
        >>> ev.pr_curve(True).round(2).tolist()
        [[0.0, 1.0], [0.25, 0.67], [0.5, 0.67], [1.0, 0.0]]
        """
        return _pr_curve(self._view(), interpolate=interpolate)

    def pr_score_curve(self, interpolate: bool = False) -> FloatArray:
        """Return recall and precision with the score that reaches them.

        Parameters
        ----------
        interpolate : bool
            False: one row for each distinct score, those with TP = 0 included.
            True: one row for each distinct recall above 0, with the highest
            score that reaches it and the best precision there or at a higher
            recall.

        Returns
        -------
        float64[K, 3]
            Recall, precision, score, best score first; read-only. No limit
            points. No rows without positives.

        Notes
        -----
        O(D) for D distinct scores, O(G) interpolated, for G with positives.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1], scores=[0.9, 0.4])
        >>> ev.pr_score_curve().tolist()
        [[0.0, 0.0, 0.9], [1.0, 0.5, 0.4]]
        """
        view = self._view()
        if interpolate:
            return view.cached(
                ("pr_score_curve", True),
                lambda: read_only(curves.interpolated_pr_score_rows(view.groups)),
            )
        return view.cached(
            ("pr_score_curve", False),
            lambda: read_only(curves.pr_score_rows(points_of(view))),
        )

    def roc_curve(self, interpolate: bool = False, *, hull: bool = False) -> FloatArray:
        """Return the ROC curve as rows.

        Parameters
        ----------
        interpolate : bool
            False: every operating point. True: one row for each distinct false
            positive rate, with the best true positive rate there. Joined by straight
            lines, these rows lie on or above the ROC curve.
        hull : bool
            The vertices of the curve's upper hull instead.

        Returns
        -------
        float64[K, 2]
            False and true positive rate (1 - specificity and recall), by decreasing
            threshold, from (0, 0) to (1, 1); read-only. No rows unless both
            classes have references.

        Raises
        ------
        InvalidInputError
            When both `interpolate` and `hull` are true.

        See Also
        --------
        roc_hull : The hull with its thresholds; randomising between them reaches it.

        Notes
        -----
        O(D) for D distinct scores, of the hull O(G) for G with positives.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.roc_curve().tolist()
        [[0.0, 0.0], [0.0, 0.5], [0.5, 0.5], [0.5, 1.0], [1.0, 1.0]]
        >>> ev.roc_curve(True).tolist()
        [[0.0, 0.5], [0.5, 1.0], [1.0, 1.0]]
        >>> ev.roc_curve(hull=True).tolist()
        [[0.0, 0.0], [0.0, 0.5], [0.5, 1.0], [1.0, 1.0]]
        """
        return _roc_curve(self._view(), interpolate=interpolate, hull=hull)

    def area_under_pr_curve(self, interpolate: bool = False) -> float:
        """Return the trapezoid area under the rows of `pr_curve`.

        Straight lines between PR points are optimistic if a step gains cases of both
        classes, as ties do (Davis and Goadrich 2006, section 4), and the limit points
        (0, 1) and (1, 0) belong to no threshold. For the area under the empirical
        curve use `auc_pr`, for a step-wise sum `average_precision`.

        Parameters
        ----------
        interpolate : bool
            As for `pr_curve`.

        Returns
        -------
        float
            In [0, 1]; nan without positives.

        Notes
        -----
        As `pr_curve`; cached.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1], scores=[0.9, 0.4])
        >>> ev.area_under_pr_curve(), ev.average_precision()
        (0.75, 0.5)
        """
        view = self._view()
        return view.cached(
            ("area_under_pr_curve", bool(interpolate)),
            lambda: curves.trapezoid_area(_pr_curve(view, interpolate=interpolate)),
        )

    def area_under_roc_curve(self, interpolate: bool = False, *, hull: bool = False) -> float:
        """Return the trapezoid area under the rows of `roc_curve`.

        Parameters
        ----------
        interpolate : bool
            False gives the Wilcoxon-Mann-Whitney statistic, as `auc_roc`. True
            gives an area that is never smaller and is no probability: do not report
            it as AUC.
        hull : bool
            Of the hull, as ``auc_roc(hull=True)``.

        Returns
        -------
        float
            In [0, 1]; nan unless both classes have references.

        Notes
        -----
        O(G), and exact before one division; interpolated as `roc_curve`. Cached.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.area_under_roc_curve(), ev.area_under_roc_curve(True)
        (0.75, 0.875)
        """
        view = self._view()
        _check_one(interpolate=interpolate, hull=hull)
        if not interpolate:
            return view.cached(
                ("area_under_roc_curve", hull), lambda: auc_roc_value(curve_groups(view, hull=hull))
            )
        return view.cached(
            ("area_under_roc_curve", "interpolated"),
            lambda: curves.trapezoid_area(_roc_curve(view, interpolate=True, hull=False)),
        )


def _pr_curve(view: View, *, interpolate: bool) -> FloatArray:
    if interpolate:
        return view.cached(
            ("pr_curve", True), lambda: read_only(curves.interpolated_pr_rows(view.groups))
        )
    return view.cached(("pr_curve", False), lambda: read_only(curves.pr_rows(points_of(view))))


def _roc_curve(view: View, *, interpolate: bool, hull: bool) -> FloatArray:
    _check_one(interpolate=interpolate, hull=hull)
    if hull:
        return view.cached("roc hull rows", lambda: read_only(_hull_rows(view)))
    rows = curves.interpolated_roc_rows if interpolate else curves.roc_rows
    return view.cached(("roc_curve", bool(interpolate)), lambda: read_only(rows(points_of(view))))


def _hull_rows(view: View) -> FloatArray:
    if not (view.P and view.N):
        return np.empty((0, 2))
    hull = cached_hull(view)
    return np.column_stack((hull.fp / view.N, hull.tp / view.P))


def _check_one(*, interpolate: bool, hull: bool) -> None:
    if interpolate and hull:
        message = "the hull lies above the interpolated curve: give interpolate or hull"
        raise InvalidInputError(message, field="hull")
