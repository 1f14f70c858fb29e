"""Curve objects: the ROC hull, the achievable PR curve, and the queries for both.

The two curves have the same vertices (Davis and Goadrich 2006, corollary 3.1): the
hull is computed once, in counts, and shown in either space. Both are chosen on the
data that they are scored on, so they are optimistic: to judge a scorer, pass the
thresholds of the hull of tuning data to `at_thresholds` of test data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import reals
from streameval._counts.view import Queries
from streameval._metrics.hull import cached_hull
from streameval._metrics.operating_points import (
    Curve,
    points_of,
    precision_of,
    public_points_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import FloatArray
    from streameval._metrics.operating_points import OperatingPoints


@dataclass(frozen=True, slots=True, eq=False)
class RocHull(Curve):
    """The upper convex hull of the operating points.

    A point on a segment is reached by choosing at random, for each case, between the
    thresholds at the segment's ends.

    Attributes
    ----------
    thresholds : float64[K]
        The threshold of each vertex, decreasing; +inf at (0, 0). The last is -inf,
        which calls everything positive, unless the score of a positive reaches (N, P).
    fp, tp : int64[K]
        The vertices, from (0, 0) to (N, P). No three are on one line.
    P, N : int
        All positives and negatives, misses included.

    Examples
    --------
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1])
    >>> hull = ev.roc_hull()
    >>> hull.fp.tolist(), hull.tp.tolist(), hull.slopes.tolist()
    ([0, 0, 1, 2], [0, 1, 2, 2], [inf, 1.0, 0.0])
    """

    @property
    def slopes(self) -> FloatArray:
        """Slope dTP/dFP of each of the K - 1 segments, in counts; decreasing, may be inf."""
        rise, run = np.diff(self.tp), np.diff(self.fp)
        slopes: FloatArray = np.full(rise.size, np.inf)
        np.divide(rise, run, out=slopes, where=run > 0)
        return slopes


@dataclass(frozen=True, slots=True, eq=False)
class PrHull(Curve):
    """The achievable PR curve: the ROC hull's vertices in PR space.

    It is nowhere below any other curve that the operating points can reach. Between
    vertices the false positives, not the precision, grow linearly: draw it with `at`.

    Attributes
    ----------
    thresholds, fp, tp, P, N
        As in :class:`RocHull`.

    Examples
    --------
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1])
    >>> ev.pr_hull().at([0.5, 0.75, 1.0]).round(3).tolist()
    [1.0, 0.75, 0.667]
    """

    @property
    def precision(self) -> FloatArray:
        """Precision of each vertex.

        At recall 0 it is the precision of the first vertex after (0, 0), because the
        precision is constant on that segment. nan without positives.
        """
        precision = precision_of(self.fp, self.tp)
        if self.P == 0:
            precision[:] = np.nan
        elif len(self) > 1:
            precision[0] = precision[1]
        return precision

    def at(self, recalls: npt.ArrayLike) -> FloatArray:
        """Return the achievable precision at these recalls.

        Parameters
        ----------
        recalls : array_like of float
            In [0, 1], in any order and shape.

        Returns
        -------
        float64 array of the same shape
            nan without positives.

        Raises
        ------
        InvalidInputError
            When a recall is not in [0, 1].

        Notes
        -----
        O(k log K). Source: Davis and Goadrich (2006), section 4.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> ev.pr_hull().at([0, 0.5, 0.75, 1]).round(3)
        array([1.   , 1.   , 0.75 , 0.667])
        """
        wanted = reals(recalls, "recalls")
        bad = np.flatnonzero(~((wanted >= 0) & (wanted <= 1)))
        if bad.size:
            index = int(bad[0])
            message = f"recall must be in [0, 1], got {wanted.flat[index]} at index {index}"
            raise InvalidInputError(message, field="recalls", index=index)
        if self.P == 0:
            return np.full(wanted.shape, np.nan)
        # Stop at the first vertex with all positives: the best precision at recall 1.
        last = int(np.searchsorted(self.tp, self.P)) + 1
        tp = wanted * self.P
        fp = np.interp(tp, self.tp[:last], self.fp[:last])
        return np.where(tp + fp > 0, precision_of(fp, tp), self.precision[0])


class CurveQueries(Queries):
    """An evaluator's curves."""

    def operating_points(self) -> OperatingPoints:
        """Return the operating points, one for each distinct score.

        From (0, 0) at +inf through every distinct score; with misses, a last
        point (N, P) at -inf.

        Returns
        -------
        OperatingPoints
            ``thresholds``, ``fp``, ``tp``, with ``fpr``, ``tpr``, ``recall`` and
            ``precision`` from them.

        Notes
        -----
        O(n) for n distinct scores; cached per revision. Source: Davis and
        Goadrich (2006), section 2.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.4])
        >>> ev.add_misses(1)
        >>> points = ev.operating_points()
        >>> points.thresholds
        array([ inf,  0.9,  0.7,  0.4, -inf])
        >>> points.fp, points.tp
        (array([0, 0, 1, 2, 2]), array([0, 1, 1, 2, 3]))
        """
        return public_points_of(self._view())

    def candidate_thresholds(self) -> FloatArray:
        """Return the thresholds between neighbours of different classes: the paper's rule.

        With the cases in ascending order of their scores, it is each score(i+1) for which
        class(i) != class(i+1) and score(i) < score(i+1). Other thresholds are never
        vertices of the hull.

        Returns
        -------
        float64[K]
            Descending: every case with score >= threshold is called positive. Tied cases
            count in any order, so a score with both classes differs from its neighbours.
            Misses rank below every case, as one tied group.

        See Also
        --------
        at_thresholds : the points of other data at these thresholds.

        Notes
        -----
        O(n) for n distinct scores. The rule has neither +inf nor the lowest score (without
        misses), where everything is called alike. Source: Davis and Goadrich (2006), end
        of section 3.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 1, 0, 0, 1, 0], scores=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
        >>> ev.candidate_thresholds()
        array([0.8, 0.6, 0.5])
        """
        points = points_of(self._view())
        positives, negatives = np.diff(points.tp) > 0, np.diff(points.fp) > 0
        # Row k + 1 is the group of threshold k + 1; both classes are in it, or one.
        alike = ~(positives[:-1] | positives[1:]) | ~(negatives[:-1] | negatives[1:])
        return points.thresholds[1:-1][~alike]

    def at_thresholds(self, thresholds: npt.ArrayLike) -> OperatingPoints:
        """Return the operating points at these thresholds only.

        The unbiased use of a hull: choose thresholds with it on tuning data, then
        evaluate them here, on test data.

        Parameters
        ----------
        thresholds : array_like of float
            In any order; repetitions count once. Infinite ones are allowed.

        Returns
        -------
        OperatingPoints
            In order of decreasing threshold, with (0, 0) at +inf and (N, P) at
            -inf always added. ``auc_roc()`` and ``auc_pr()`` give its areas.

        Raises
        ------
        InvalidInputError
            When a threshold is NaN.

        Notes
        -----
        O(n + k log n) for n distinct scores and k thresholds. Source: Davis and
        Goadrich (2006), end of section 3.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> tuning, test = Evaluator(), Evaluator()
        >>> tuning.add_cases(labels=[1, 0, 1, 0, 1, 0], scores=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
        >>> test.add_cases(labels=[0, 1, 1, 0, 1, 0], scores=[0.95, 0.8, 0.7, 0.6, 0.5, 0.4])
        >>> hull = tuning.roc_hull()
        >>> hull.thresholds
        array([ inf,  0.9,  0.5, -inf])
        >>> chosen = test.at_thresholds(hull.thresholds)
        >>> chosen.fp, chosen.tp
        (array([0, 1, 2, 3]), array([0, 0, 3, 3]))
        >>> round(tuning.auc_roc(hull=True), 3), round(chosen.auc_roc(), 3)
        (0.778, 0.5)
        """
        return public_points_of(self._view()).at_thresholds(thresholds)

    def roc_hull(self) -> RocHull:
        """Return the upper convex hull of the ROC curve: its minimal vertices.

        Returns
        -------
        RocHull
            ``fp``, ``tp``, ``thresholds``, ``fpr``, ``tpr``, ``slopes``, from
            (0, 0) to (N, P). Exact: slopes are compared as integers.

        Notes
        -----
        O(G) for G distinct scores of positives; cached per revision. The hull is
        chosen on the data that it describes, so its area is optimistic. Source:
        Davis and Goadrich (2006), section 3.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> hull = ev.roc_hull()
        >>> hull.fp, hull.tp, hull.slopes
        (array([0, 0, 1, 2]), array([0, 1, 2, 2]), array([inf,  1.,  0.]))
        """
        view = self._view()
        hull = cached_hull(view)
        curve = RocHull(hull.thresholds, hull.fp, hull.tp, P=view.P, N=view.N)
        return curve.in_weights(view.unit)

    def pr_hull(self) -> PrHull:
        """Return the achievable PR curve: the ROC hull's vertices in PR space.

        Returns
        -------
        PrHull
            ``recall``, ``precision``, ``thresholds``, ``fp``, ``tp``, and
            ``at(recalls)``, which interpolates.

        Notes
        -----
        O(G) for G distinct scores of positives; cached per revision. The curve is
        chosen on the data that it describes, so its area is optimistic. Source:
        Davis and Goadrich (2006), corollary 3.1.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> hull = ev.pr_hull()
        >>> hull.recall, hull.precision.round(3)
        (array([0. , 0.5, 1. , 1. ]), array([1.   , 1.   , 0.667, 0.5  ]))
        """
        view = self._view()
        hull = cached_hull(view)
        curve = PrHull(hull.thresholds, hull.fp, hull.tp, P=view.P, N=view.N)
        return curve.in_weights(view.unit)
