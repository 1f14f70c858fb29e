"""Query facet: the usual metrics of scorecards: recall and lift at a rank, KS, Gini.

They measure the top of the ranked list and the separation of the classes, without a
threshold. Misses count in P and N.
"""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import share
from streameval._counts.exact import exact_dot
from streameval._counts.view import Queries
from streameval._metrics.areas import curve_groups
from streameval._metrics.operating_points import points_of
from streameval._metrics.tied_ranks import check_rank, expected_positives
from streameval._metrics.weighting import require_unweighted

if TYPE_CHECKING:
    from typing import SupportsIndex

    from streameval._counts.groups import Groups
    from streameval._counts.view import View
    from streameval._metrics.operating_points import OperatingPoints


class ScorecardQueries(Queries):
    """Recall and lift of the first ranks, and the separation of the classes."""

    def recall_at(
        self, rank: SupportsIndex | None = None, *, fraction: float | None = None
    ) -> float:
        """Return the recall of the first `rank` cases.

        Parameters
        ----------
        rank : int, optional
            How many cases are retrieved, 0 or more; ranks beyond the last case count
            as errors.
        fraction : float, optional
            Instead of a rank: this share of all references, rounded up.

        Returns
        -------
        float
            In [0, 1]; nan without positives. Inside a tie, the expectation over
            a random order of the tied cases.

        Raises
        ------
        InvalidInputError
            Unless exactly one of the two is given and in range; for a rank where cases
            have weights (a fraction is then a share of all weight).

        Notes
        -----
        O(log G), by one division of exact integers.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.recall_at(1), ev.recall_at(fraction=0.75)
        (0.5, 1.0)
        """
        view = self._view()
        groups = view.groups
        taken = _rank_of(view, rank, fraction)
        if groups.P == 0:
            return math.nan
        return float(expected_positives(groups, taken) / groups.P)

    def lift_at(self, rank: SupportsIndex | None = None, *, fraction: float | None = None) -> float:
        """Return the precision of the first `rank` cases as a multiple of the prevalence.

        Parameters
        ----------
        rank : int, optional
            How many cases are retrieved, 0 or more; ranks beyond the last case count
            as errors.
        fraction : float, optional
            Instead of a rank: this share of all references, rounded up; 0.1 is the
            top decile.

        Returns
        -------
        float
            Precision at that rank, divided by P/(P+N), misses included: 1 is no
            better than random ranking. nan at rank 0, without positives and without
            scored cases.

        Raises
        ------
        InvalidInputError
            Unless exactly one of the two is given and in range.

        Notes
        -----
        O(log G), by one division of exact integers.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.lift_at(1), ev.lift_at(fraction=1)
        (2.0, 1.0)
        """
        view = self._view()
        groups = view.groups
        taken = _rank_of(view, rank, fraction)
        total = groups.P + groups.N
        if (
            groups.P == 0
            or taken == 0
            or total == groups.missed_positives + groups.missed_negatives
        ):
            return math.nan
        return float(expected_positives(groups, taken) * total / (taken * groups.P))

    def ks_statistic(self) -> float:
        """Return the Kolmogorov-Smirnov distance of the classes' scores.

        Returns
        -------
        float
            The largest absolute difference of true and false positive rate at any
            threshold, in [0, 1]; nan unless both classes have references. Misses
            are one tied group below every case.

        Notes
        -----
        O(D) for D distinct scores; cached.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.ks_statistic()
        0.5
        """
        view = self._view()
        return view.cached("ks_statistic", lambda: _ks(points_of(view)))

    def maximum_mcc(self) -> float:
        """Return the highest Matthews correlation of any threshold.

        It correlates the decision with the label:
        (TP TN - FP FN) / sqrt((TP+FP) (TN+FN) P N), with misses in P and N.

        Returns
        -------
        float
            In [0, 1]; nan unless both classes have references. Where all or none
            are called positive the correlation is 0, so it is never negative.

        Notes
        -----
        O(G); cached. Products of counts are exact integers while P N stays below
        2^63, so that nothing cancels near 0. It is chosen on the data that it
        scores, so it flatters where positives are few. Of one threshold:
        :attr:`Confusion.mcc`.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> round(ev.maximum_mcc(), 6)
        0.57735
        """
        view = self._view()
        return view.cached("maximum_mcc", lambda: _maximum_mcc(view.groups))

    def gini(self, *, hull: bool = False) -> float:
        """Return the Gini coefficient of the ranking, 2 AUC-ROC - 1.

        Parameters
        ----------
        hull : bool
            Of the ROC hull, which is optimistic, as in `auc_roc`.

        Returns
        -------
        float
            In [-1, 1], 0 for a random ranking; nan unless both classes have
            references. Another name is Somers' D of the score given the class.

        Notes
        -----
        O(G), cached. Computed from the exact pair count, so nothing cancels near 0.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.4, 0.1])
        >>> ev.gini(), ev.gini(hull=True)
        (0.5, 0.75)
        """
        view = self._view()
        return view.cached(("gini", hull), lambda: _gini(curve_groups(view, hull=hull)))


def _rank_of(view: View, rank: SupportsIndex | None, fraction: float | None) -> int:
    """Return the requested rank, given as a number or as a share of all references."""
    if (rank is None) == (fraction is None):
        got = "none" if rank is None else "both"
        raise InvalidInputError(f"give either a rank or a fraction, got {got}", field="rank")
    if rank is not None:
        require_unweighted("a metric at a rank", is_weighted=view.unit > 1)
        return check_rank(rank)
    least = share(fraction if fraction is not None else math.nan, "fraction")
    total = view.P + view.N
    # The least k with k/total >= fraction as doubles: 0.1 of 1,000 is 100, not 101.
    return bisect.bisect_left(range(total + 1), least, key=lambda k: k / max(total, 1))


def _ks(points: OperatingPoints) -> float:
    if points.P == 0 or points.N == 0:
        return math.nan
    return float(np.max(np.abs(points.tpr - points.fpr)))


def _maximum_mcc(groups: Groups) -> float:
    """Return the best correlation at the ends of the groups; no other threshold beats them.

    With more positives called by the same false ones, or fewer false ones by the same
    positives, a correlation that is not negative rises.
    """
    P, N = groups.P, groups.N
    if P == 0 or N == 0:
        return math.nan
    tp, fp = groups.tp + groups.p, groups.fp + groups.n
    # TP TN - FP FN = TP N - FP P, of integers: the difference of products cancels.
    if P * N < 1 << 63:
        agreement = (tp * N - fp * P).astype(np.float64)
    else:
        pairs = zip(tp.tolist(), fp.tolist(), strict=True)
        agreement = np.array([float(t * N - f * P) for t, f in pairs], dtype=np.float64)
    rows = agreement > 0  # where all are called positive it is 0
    called = (tp + fp)[rows]
    rest = P + N - called
    scale = np.sqrt(called * float(P)) * np.sqrt(rest * float(N))
    return float(min(1.0, np.max(agreement[rows] / scale, initial=0.0)))


def _gini(groups: Groups) -> float:
    P, N = groups.P, groups.N
    if P == 0 or N == 0:
        return math.nan
    # Each positive beats the N - fp - n negatives below its group and loses to fp above.
    balance = (N - groups.fp - groups.n) - groups.fp
    won = exact_dot(groups.p, np.maximum(balance, 0), P * N)
    lost = exact_dot(groups.p, np.maximum(-balance, 0), P * N)
    return (won - lost) / (P * N)
