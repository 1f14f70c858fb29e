"""Query facet: the classic metrics of a ranked list, and their report as text.

The methods have the names, in snake_case, and the meanings of LingPipe's
``ScoredPrecisionRecallEvaluation`` (docs/worked-example.md reproduces its example number
by number, docs/differences.md says where the answers differ and why). Misses count in P
and N and are retrieved at no finite threshold. Tied cases have no order: a curve
has one row for them, and a metric at a rank inside a tie is the expectation over a
uniformly random order of the tied cases.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._metrics import ranked_retrieval_curves as curves
from streameval._metrics.confusion import f_weights
from streameval._metrics.pr_areas import average_precision_value
from streameval._metrics.ranked_curve_queries import RankedCurveQueries
from streameval._metrics.ranked_retrieval_curves import read_only
from streameval._metrics.tied_ranks import (
    check_rank,
    expected_positives,
    expected_reciprocal_rank,
)
from streameval._metrics.weighting import require_unweighted

if TYPE_CHECKING:
    from typing import SupportsIndex

    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups

_PRINTED_RANKS = (5, 10, 25, 100, 500)


class RankedQueries(RankedCurveQueries):
    """The metrics of LingPipe's evaluation, of the cases ranked by score."""

    def eleven_pt_interp_precision(self) -> FloatArray:
        """Return the interpolated precision at recall 0, 0.1, ..., 1.

        Entry i is the best precision of `pr_curve(True)` at recall i/10 or
        above; 10 TP is compared with i P in integers. Entry 0 is always 1, the
        curve's limit point. Recalls that the scored cases do not reach have
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
        return view.cached(
            "eleven_pt_interp_precision", lambda: read_only(_eleven_point(view.groups))
        )

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
            In [0, 1]; nan without positives, 0 if all positives were missed.

        Raises
        ------
        InvalidInputError
            When `beta` is not positive and finite.

        Notes
        -----
        O(G); cached for each `beta`. The threshold is chosen on the data that it is
        scored on, so the value is optimistic with few positives.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1, 1], scores=[0.9, 0.5, 0.4])
        >>> ev.maximum_f_measure()
        0.8
        """
        weights = f_weights(beta)
        view = self._view()
        return view.cached(
            ("maximum_f_measure", weights), lambda: _maximum_f(view.groups, *weights)
        )

    def precision_at(self, rank: SupportsIndex) -> float:
        """Return the precision of the first `rank` cases.

        Parameters
        ----------
        rank : int
            How many cases are retrieved, 0 or more. Ranks beyond the last case
            count as errors.

        Returns
        -------
        float
            In [0, 1]; 1.0 at rank 0; nan without scored cases. Inside a tie, the
            expectation over a random order of the tied cases.

        Raises
        ------
        InvalidInputError
            When `rank` is not a whole number of 0 or more, and where cases have weights.

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
        view = self._view()
        require_unweighted("precision at a rank", is_weighted=view.unit > 1)
        return _precision_at(view.groups, check_rank(rank))

    def r_precision(self) -> float:
        """Return the precision at rank P, where precision equals recall.

        Returns
        -------
        float
            In [0, 1]; nan without positives and without scored cases. Misses count
            in P. Inside a tie, the expectation as in `precision_at`.

        Raises
        ------
        InvalidInputError
            Where cases have weights.

        Notes
        -----
        O(log G). Computed by definition. LingPipe's program reads it from the rows
        of its curve and is a rank or more off if the best cases are negative.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.r_precision()
        0.5
        """
        view = self._view()
        require_unweighted("R-precision", is_weighted=view.unit > 1)
        groups = view.groups
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
            In [0, 1]; 0.0 if all positives were missed, nan without positives. If
            the first positives are tied with negatives, the expectation over a
            random order of that tie.

        Raises
        ------
        InvalidInputError
            Where cases have weights.

        Notes
        -----
        O(1) after the groups: at most a few thousand terms for a tie of any length.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[0, 1], scores=[0.9, 0.4])
        >>> ev.reciprocal_rank()
        0.5
        >>> ev.add_case(True, 0.9)  # now first or second at random
        >>> ev.reciprocal_rank()
        0.75
        """
        view = self._view()
        require_unweighted("reciprocal rank", is_weighted=view.unit > 1)
        return view.cached("reciprocal_rank", lambda: _reciprocal_rank(view.groups))

    def ranked_report(self) -> str:
        """Return the metrics of LingPipe's evaluation as lines of text, in its order.

        As there, the areas under the PR curve are computed by the trapezoid rule, which
        overestimates; `auc_pr` is the area that thresholds reach (docs/differences.md).

        Returns
        -------
        str
            Undefined metrics are shown as nan.

        Notes
        -----
        O(G).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> print(ev.ranked_report())  # doctest: +ELLIPSIS
        Positive references                   2 (0 missed)
        Negative references                   2 (0 missed)
        Area under PR curve (interpolated)    0.916667
        ...
        """
        view = self._view()
        require_unweighted("the ranked report", is_weighted=view.unit > 1)
        groups = view.groups
        lines = [
            ("Positive references", f"{groups.P} ({groups.missed_positives} missed)"),
            ("Negative references", f"{groups.N} ({groups.missed_negatives} missed)"),
        ]
        metrics = [
            ("Area under PR curve (interpolated)", self.area_under_pr_curve(True)),
            ("Area under PR curve (uninterpolated)", self.area_under_pr_curve(False)),
            ("Area under ROC curve (interpolated)", self.area_under_roc_curve(True)),
            ("Area under ROC curve (uninterpolated)", self.area_under_roc_curve(False)),
            ("Average precision", average_precision_value(groups)),
            ("Maximum F(1) measure", self.maximum_f_measure()),
            ("Break-even point (R-precision)", self.pr_breakeven_point()),
            ("Reciprocal rank", self.reciprocal_rank()),
        ]
        scored = _num_scored(groups)
        metrics += [
            (f"Precision at {rank}", self.precision_at(rank))
            for rank in _PRINTED_RANKS
            if rank <= scored
        ]
        lines += [(name, f"{value:.6g}") for name, value in metrics]
        return "\n".join(f"{name:<38}{text}" for name, text in lines)


def _num_scored(groups: Groups) -> int:
    return groups.P + groups.N - groups.missed_positives - groups.missed_negatives


def _precision_at(groups: Groups, rank: int) -> float:
    if rank == 0:
        return 1.0
    if _num_scored(groups) == 0:
        return math.nan
    return float(expected_positives(groups, rank) / rank)


def _reciprocal_rank(groups: Groups) -> float:
    if groups.P == 0:
        return math.nan
    if groups.scores.size == 0:
        return 0.0
    return expected_reciprocal_rank(int(groups.fp[0]), int(groups.p[0]), int(groups.n[0]))


def _maximum_f(groups: Groups, of_recall: float, of_precision: float) -> float:
    if groups.P == 0:
        return math.nan
    if groups.scores.size == 0:
        return 0.0
    reached = groups.tp + groups.p
    errors = of_recall * (groups.P - reached) + of_precision * (groups.fp + groups.n)
    return float(np.max(reached / (reached + errors)))


def _eleven_point(groups: Groups) -> FloatArray:
    if groups.P == 0:
        return np.full(11, np.nan)
    precision = np.append(curves.interpolated_precision(groups), 0.0)
    # The least TP with 10 TP >= i P; a level that no group reaches reads the 0 at the end.
    needed = np.array([-(-i * groups.P // 10) for i in range(1, 11)])
    at_level = precision[np.searchsorted(groups.tp + groups.p, needed)]
    return np.concatenate(([1.0], at_level))
