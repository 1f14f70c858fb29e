"""Queries of the second source: a ranked list, its curves and its classic figures.

The names and meanings are those of LingPipe's ``ScoredPrecisionRecallEvaluation``
in snake_case (docs/worked-example.md reproduces its example number by number,
docs/differences.md says where the answers differ and why). Misses count in P
and N and are retrieved at no finite threshold. Tied cases have no order: curves
show them as one row, and a rank inside a tie takes its expectation over a
uniformly random order of the tie.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.view import Queries
from streameval._metrics import ranked_retrieval_curves as curves
from streameval._metrics.areas import auc_roc_value
from streameval._metrics.confusion import recall_share
from streameval._metrics.operating_points import points_of
from streameval._metrics.pr_areas import average_precision_value
from streameval._metrics.tied_ranks import (
    check_rank,
    expected_positives,
    expected_reciprocal_rank,
)

if TYPE_CHECKING:
    from typing import SupportsIndex

    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups
    from streameval._counts.view import View

_PRINTED_RANKS = (5, 10, 25, 100, 500)


class RankedQueries(Queries):
    """What the second source asks of its cases, ranked by score."""

    def pr_curve(self, interpolate: bool = False) -> FloatArray:
        """Return the precision-recall curve as rows.

        Parameters
        ----------
        interpolate : bool
            False: (0, 1), every operating point at a finite threshold with
            TP > 0, and always (1, 0). True: (0, 1) and one row for each distinct
            recall, with the best precision at that or a higher recall; (1, 0)
            only where the scored cases do not reach recall 1.

        Returns
        -------
        float64[K, 2]
            Recall and precision, both in [0, 1], by falling threshold; read-only.
            No rows without positives.

        See Also
        --------
        pr_hull : The achievable curve.

        Notes
        -----
        O(D) for D distinct scores, O(G) interpolated, for G with positives. The
        two limit points are the second source's; nothing need reach them.

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
                lambda: _frozen(curves.interpolated_pr_score_rows(view.groups)),
            )
        return view.cached(
            ("pr_score_curve", False), lambda: _frozen(curves.pr_score_rows(points_of(view)))
        )

    def roc_curve(self, interpolate: bool = False) -> FloatArray:
        """Return the ROC curve as rows.

        Parameters
        ----------
        interpolate : bool
            False: every operating point. True: one row for each distinct false
            positive rate, with the best true positive rate there; joined by
            straight lines these rows lie on or above the ROC curve.

        Returns
        -------
        float64[K, 2]
            False and true positive rate (1 - specificity and recall), by falling
            threshold, from (0, 0) to (1, 1); read-only. No rows unless both
            classes have references.

        See Also
        --------
        roc_hull : The curve that is reached by mixing thresholds.

        Notes
        -----
        O(D) for D distinct scores.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.roc_curve().tolist()
        [[0.0, 0.0], [0.0, 0.5], [0.5, 0.5], [0.5, 1.0], [1.0, 1.0]]
        >>> ev.roc_curve(True).tolist()
        [[0.0, 0.5], [0.5, 1.0], [1.0, 1.0]]
        """
        return _roc_curve(self._view(), interpolate=interpolate)

    def area_under_pr_curve(self, interpolate: bool = False) -> float:
        """Return the trapezoid area under the rows of `pr_curve`.

        Straight lines between PR points are optimistic where one step gains
        both classes, as ties do (Davis and Goadrich 2006, section 4), and the
        limit points (0, 1) and (1, 0) belong to no threshold.
        For the area under the empirical curve use `auc_pr`, for a step-wise sum
        `average_precision`.

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

    def area_under_roc_curve(self, interpolate: bool = False) -> float:
        """Return the trapezoid area under the rows of `roc_curve`.

        Parameters
        ----------
        interpolate : bool
            False gives the Wilcoxon-Mann-Whitney statistic, as `auc_roc`. True
            gives an area that is never below it and is no probability: do not
            report it as AUC.

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
        if not interpolate:
            return view.cached(
                ("area_under_roc_curve", False), lambda: auc_roc_value(view.groups.with_misses())
            )
        return view.cached(
            ("area_under_roc_curve", True),
            lambda: curves.trapezoid_area(_roc_curve(view, interpolate=True)),
        )

    def eleven_pt_interp_precision(self) -> FloatArray:
        """Return the interpolated precision at recall 0, 0.1, ..., 1.

        Entry i is the best precision of `pr_curve(True)` at recall i/10 or
        above; 10 TP is compared with i P in integers. Entry 0 is always 1, the
        curve's limit point, and recalls that the scored cases do not reach have
        precision 0.

        Returns
        -------
        float64[11]
            Read-only; all nan without positives.

        Notes
        -----
        O(G); cached.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1], scores=[0.9, 0.4])
        >>> ev.add_misses(1)
        >>> ev.eleven_pt_interp_precision().tolist()
        [1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
        """
        view = self._view()
        return view.cached("eleven_pt_interp_precision", lambda: _frozen(_eleven(view.groups)))

    def maximum_f_measure(self, beta: float = 1.0) -> float:
        """Return the highest F of any finite threshold.

        F is (1 + beta^2) TP / (beta^2 P + TP + FP), with misses in P.

        Parameters
        ----------
        beta : float
            Weight of recall against precision, positive and finite.

        Returns
        -------
        float
            In [0, 1]; nan without positives, 0 where all positives were missed.

        Raises
        ------
        InvalidInputError
            When `beta` is not positive and finite.

        Notes
        -----
        O(G); cached for each `beta`. It is chosen on the data that it scores, so
        it flatters where positives are few.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1, 1], scores=[0.9, 0.5, 0.4])
        >>> ev.maximum_f_measure()
        0.8
        """
        share = recall_share(beta)
        view = self._view()
        return view.cached(("maximum_f_measure", share), lambda: _maximum_f(view.groups, share))

    def precision_at(self, rank: SupportsIndex) -> float:
        """Return the precision of the first `rank` cases.

        Parameters
        ----------
        rank : int
            How many cases are returned, 0 or more. Beyond the last case
            whatever would be returned counts as an error.

        Returns
        -------
        float
            In [0, 1]; 1.0 at rank 0; nan where nothing has been scored. Inside
            a tie, the expectation over a random order of the tied cases.

        Raises
        ------
        InvalidInputError
            When `rank` is not a whole number of 0 or more.

        Notes
        -----
        O(log G), by one division of exact integers.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 1, 0, 0], scores=[0.9, 0.5, 0.5, 0.1])
        >>> [ev.precision_at(k) for k in (0, 1, 2, 4, 8)]
        [1.0, 1.0, 0.75, 0.5, 0.25]
        """
        return _precision_at(self._view().groups, check_rank(rank))

    def r_precision(self) -> float:
        """Return the precision at rank P, where precision equals recall.

        Returns
        -------
        float
            In [0, 1]; nan without positives and where nothing has been scored.
            Misses count in P. Inside a tie, the expectation as in `precision_at`.

        Notes
        -----
        O(log G). By definition; the second source's program reads it from its
        curve's rows and is a rank or more off when the best cases are negative.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.r_precision()
        0.5
        """
        groups = self._view().groups
        return math.nan if groups.P == 0 else _precision_at(groups, groups.P)

    def pr_breakeven_point(self) -> float:
        """Return the point where precision equals recall: `r_precision` by another name.

        Returns
        -------
        float
            As `r_precision`.

        Notes
        -----
        O(log G).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.pr_breakeven_point() == ev.r_precision()
        True
        """
        return self.r_precision()

    def reciprocal_rank(self) -> float:
        """Return 1/(rank of the first positive).

        Returns
        -------
        float
            In [0, 1]; 0.0 where all positives were missed, nan without
            positives. Where the first positives share their score with
            negatives, the expectation over a random order of that tie.

        Notes
        -----
        O(1) after the groups: at most a few thousand terms, however long the tie.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1], scores=[0.9, 0.4])
        >>> ev.reciprocal_rank()
        0.5
        >>> ev.add_case(True, 0.9)  # now first or second, as chance has it
        >>> ev.reciprocal_rank()
        0.75
        """
        view = self._view()
        return view.cached("reciprocal_rank", lambda: _reciprocal_rank(view.groups))

    def __str__(self) -> str:
        """Return the figures as lines of text, in the second source's order."""
        groups = self._view().groups
        lines = [
            ("Positive references", f"{groups.P} ({groups.missed_positives} missed)"),
            ("Negative references", f"{groups.N} ({groups.missed_negatives} missed)"),
        ]
        figures = [
            ("Area under PR curve (interpolated)", self.area_under_pr_curve(True)),
            ("Area under PR curve (uninterpolated)", self.area_under_pr_curve(False)),
            ("Area under ROC curve (interpolated)", self.area_under_roc_curve(True)),
            ("Area under ROC curve (uninterpolated)", self.area_under_roc_curve(False)),
            ("Average precision", average_precision_value(groups)),
            ("Maximum F(1) measure", self.maximum_f_measure()),
            ("Break-even point (R-precision)", self.pr_breakeven_point()),
            ("Reciprocal rank", self.reciprocal_rank()),
        ]
        scored = _scored(groups)
        figures += [
            (f"Precision at {rank}", self.precision_at(rank))
            for rank in _PRINTED_RANKS
            if rank <= scored
        ]
        lines += [(name, f"{figure:.6g}") for name, figure in figures]
        return "\n".join(f"{name:<38}{figure}" for name, figure in lines)


def _pr_curve(view: View, *, interpolate: bool) -> FloatArray:
    if interpolate:
        return view.cached(
            ("pr_curve", True), lambda: _frozen(curves.interpolated_pr_rows(view.groups))
        )
    return view.cached(("pr_curve", False), lambda: _frozen(curves.pr_rows(points_of(view))))


def _roc_curve(view: View, *, interpolate: bool) -> FloatArray:
    rows = curves.interpolated_roc_rows if interpolate else curves.roc_rows
    return view.cached(("roc_curve", bool(interpolate)), lambda: _frozen(rows(points_of(view))))


def _scored(groups: Groups) -> int:
    return groups.P + groups.N - groups.missed_positives - groups.missed_negatives


def _precision_at(groups: Groups, rank: int) -> float:
    if rank == 0:
        return 1.0
    if _scored(groups) == 0:
        return math.nan
    return float(expected_positives(groups, rank) / rank)


def _reciprocal_rank(groups: Groups) -> float:
    if groups.P == 0:
        return math.nan
    if groups.scores.size == 0:
        return 0.0
    return expected_reciprocal_rank(int(groups.fp[0]), int(groups.p[0]), int(groups.n[0]))


def _maximum_f(groups: Groups, share: float) -> float:
    if groups.P == 0:
        return math.nan
    if groups.scores.size == 0:
        return 0.0
    reached = groups.tp + groups.p
    called = reached + groups.fp + groups.n
    return float(np.max(reached / (share * groups.P + (1 - share) * called)))


def _eleven(groups: Groups) -> FloatArray:
    if groups.P == 0:
        return np.full(11, np.nan)
    precision = np.append(curves.interpolated_precision(groups), 0.0)
    # The least TP with 10 TP >= i P; a group that no recall reaches reads the 0 at the end.
    needed = np.array([-(-i * groups.P // 10) for i in range(1, 11)])
    at_level = precision[np.searchsorted(groups.tp + groups.p, needed)]
    return np.concatenate(([1.0], at_level))


def _frozen(values: FloatArray) -> FloatArray:
    """Return the array read-only: it is shared by all who ask at this revision."""
    values.flags.writeable = False
    return values
