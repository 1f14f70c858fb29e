"""Areas under curves: the methods of an evaluator and of every curve object.

The computations are pure functions in ``roc_areas`` and ``pr_areas``. All are O(G)
for G groups of tied scores that have positives, and an evaluator computes each
once per revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._common.values import optional_real, real
from streameval._counts.groups import Groups
from streameval._counts.view import Queries
from streameval._metrics.hull import Vertices, cached_hull, hull_vertices
from streameval._metrics.pr_areas import auc_pr_value, average_precision_value, closed_areas
from streameval._metrics.roc_areas import partial_auc_roc_value
from streameval._metrics.weighting import require_unweighted

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.view import View


_PLAIN_AREA = ("auc_pr", False, "closed", None, 0.0)
"""The key of AUC-PR by its defaults."""


def step_groups(thresholds: FloatArray, fp: IntArray, tp: IntArray, P: int, N: int) -> Groups:
    """Return the steps of a curve that gain positives, as tied groups. O(K).

    The areas treat a curve through chosen points as a ranking in which all cases
    between two neighbouring points are tied.
    """
    gained = np.diff(tp)
    rows = np.flatnonzero(gained)
    return Groups(
        scores=thresholds[rows + 1],
        p=gained[rows],
        n=np.diff(fp)[rows],
        tp=tp[rows],
        fp=fp[rows],
        missed_positives=0,
        missed_negatives=0,
        P=P,
        N=N,
    )


class CurveAreas:
    """The areas of a curve object; the base class of every curve of this package."""

    __slots__ = ()

    @property
    def is_weighted(self) -> bool:
        """Whether its counts are sums of weights. O(1)."""
        raise NotImplementedError

    def groups(self) -> Groups:
        """Return the curve's steps that gain positives. O(K)."""
        raise NotImplementedError

    def auc_roc(
        self,
        *,
        hull: bool = False,
        max_fpr: float | None = None,
        min_recall: float | None = None,
        standardize: bool = False,
    ) -> float:
        """Return the area under the ROC curve through these points.

        Parameters and definition as :meth:`streameval.Evaluator.auc_roc`. O(K).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1])
        >>> ev.at_thresholds([4, 2]).auc_roc()
        0.875
        """
        groups = _hull_groups(self.groups()) if hull else self.groups()
        return partial_auc_roc_value(
            groups, max_fpr=max_fpr, min_recall=min_recall, standardize=standardize
        )

    def auc_pr(
        self,
        *,
        hull: bool = False,
        method: str = "closed",
        prevalence: float | None = None,
        min_recall: float = 0.0,
    ) -> float:
        """Return the area under the PR curve through these points, interpolated.

        Parameters and definition as :meth:`streameval.Evaluator.auc_pr`. O(K).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1])
        >>> round(ev.at_thresholds([4, 2]).auc_pr(), 4)
        0.8873
        """
        _check_method(method, is_weighted=self.is_weighted)
        groups = _hull_groups(self.groups()) if hull else self.groups()
        return auc_pr_value(groups, method=method, prevalence=prevalence, min_recall=min_recall)


class AreaQueries(Queries):
    """An evaluator's areas."""

    def auc_roc(
        self,
        *,
        hull: bool = False,
        max_fpr: float | None = None,
        min_recall: float | None = None,
        standardize: bool = False,
    ) -> float:
        """Return the area under the ROC curve.

        It is the probability that a random positive outscores a random negative,
        a tie counting half (the Wilcoxon-Mann-Whitney statistic). Misses are
        included, as one tied group below every case.

        Parameters
        ----------
        hull : bool
            Return the area under the ROC hull. The hull is chosen on the data that
            it is scored on, so its area is optimistic; see :meth:`at_thresholds`.
        max_fpr : float or None
            In (0, 1]: only the area where the false positive rate is at most
            this. Raw, so at most `max_fpr`; scikit-learn's ``max_fpr`` is
            standardized.
        min_recall : float or None
            In [0, 1): only the area under the curve and above this recall, so at most
            ``1 - min_recall``. Raw.
        standardize : bool
            Rescale a partial area to McClish's scale: 0.5 on the diagonal, 1 for a
            perfect curve.

        Returns
        -------
        float
            nan without positives or without negatives.

        Raises
        ------
        InvalidInputError
            A limit out of its range, or both limits.

        Notes
        -----
        O(G) for G distinct scores of positives; cached per revision. The
        pair count is an exact integer. Sources: Davis and Goadrich (2006),
        section 4; McClish (1989) for `standardize`.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> ev.auc_roc()
        0.75
        >>> ev.auc_roc(max_fpr=0.5), ev.auc_roc(max_fpr=0.5, standardize=True)
        (0.25, 0.6666666666666666)
        """
        max_fpr = optional_real(max_fpr, "max_fpr")
        min_recall = optional_real(min_recall, "min_recall")
        view = self._view()
        key = ("auc_roc", hull, max_fpr, min_recall, standardize)
        return view.cached(
            key,
            lambda: partial_auc_roc_value(
                curve_groups(view, hull=hull),
                max_fpr=max_fpr,
                min_recall=min_recall,
                standardize=standardize,
            ),
        )

    def auc_pr(
        self,
        *,
        hull: bool = False,
        method: str = "closed",
        prevalence: float | None = None,
        min_recall: float = 0.0,
    ) -> float:
        """Return the area under the precision-recall curve, correctly interpolated.

        Between operating points false positives grow linearly with true
        positives. Misses count as one tied group below every case, so the tail of
        the curve that they form has the precision of random ranking;
        :meth:`average_precision` adds nothing for it.

        Parameters
        ----------
        hull : bool
            Return the area under the achievable PR curve. The curve is chosen on the
            data that it is scored on, so its area is optimistic; see
            :meth:`at_thresholds`.
        method : {"closed", "unit"}
            The integral itself, or the paper's composite trapezoid with a node
            at every integer number of true positives, which cases with weights do not
            have.
        prevalence : float or None
            In (0, 1). Return the area that the same ROC curve has at this
            prevalence. Use one prevalence to compare periods or segments: the area
            of one ROC curve can be 0.54 at prevalence 0.05 and 0.18 at 0.005.
        min_recall : float
            In [0, 1): integrate from this recall to 1 only. Raw, so at most
            ``1 - min_recall``.

        Returns
        -------
        float
            nan without positives, or with `prevalence` and without negatives.
            1 without negatives.

        Raises
        ------
        InvalidInputError
            Unknown method, "unit" where cases have weights, or a parameter out of its
            range.

        Notes
        -----
        O(G) for G distinct scores of positives; cached per revision. The relative
        error is below 1e-15. Source: Davis and Goadrich (2006), section 4.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> round(ev.auc_pr(), 6), round(ev.auc_pr(method="unit"), 6)
        (0.797267, 0.791667)
        >>> round(ev.auc_pr(prevalence=0.01), 6)
        0.507459
        """
        prevalence = optional_real(prevalence, "prevalence")
        min_recall = real(min_recall, "min_recall")
        view = self._view()
        _check_method(method, is_weighted=view.unit > 1)
        key = ("auc_pr", hull, method, prevalence, min_recall)
        if key == _PLAIN_AREA:
            return view.cached(key, lambda: _plain_area(view))
        return view.cached(
            key,
            lambda: auc_pr_value(
                curve_groups(view, hull=hull),
                method=method,
                prevalence=prevalence,
                min_recall=min_recall,
            ),
        )

    def average_precision(self, *, prevalence: float | None = None) -> float:
        """Return the mean over positives of the precision where each is found.

        The sum over distinct scores of (positives there / P) x precision there.
        A missed positive adds 0. Without misses this is scikit-learn's
        ``average_precision_score``.

        Parameters
        ----------
        prevalence : float or None
            In (0, 1). Return the value that the same ROC curve has at this prevalence.

        Returns
        -------
        float
            nan without positives, or with `prevalence` and without negatives.

        Raises
        ------
        InvalidInputError
            Prevalence out of its range.

        Notes
        -----
        O(G) for G distinct scores of positives; cached per revision.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> round(ev.average_precision(), 6)
        0.833333
        >>> ev.add_misses(2)
        >>> round(ev.average_precision(), 6)
        0.416667
        """
        prevalence = optional_real(prevalence, "prevalence")
        view = self._view()
        return view.cached(
            ("average_precision", prevalence),
            lambda: average_precision_value(view.groups, prevalence=prevalence),
        )


def _plain_area(view: View) -> float:
    """Return AUC-PR, and keep average precision, which is nearly always asked for, too.

    Missed positives are a last group of the one and not of the other, so then it is not kept.
    """
    groups = view.groups
    if groups.missed_positives:
        return auc_pr_value(groups.with_misses())
    area, precision = closed_areas(groups)
    view.cached(("average_precision", None), lambda: precision)
    return area


def curve_groups(view: View, *, hull: bool) -> Groups:
    """Return the steps of the curve that gain positives, or of its hull; with misses."""
    if hull:
        return view.cached("hull groups", lambda: _vertex_groups(cached_hull(view), view.P, view.N))
    return view.groups.with_misses()


def _hull_groups(groups: Groups) -> Groups:
    return _vertex_groups(hull_vertices(groups), groups.P, groups.N)


def _vertex_groups(hull: Vertices, P: int, N: int) -> Groups:
    return step_groups(hull.thresholds, hull.fp, hull.tp, P, N)


def _check_method(method: str, *, is_weighted: bool) -> None:
    """Refuse the composite trapezoid where cases have weights; others are checked elsewhere."""
    if method == "unit":
        require_unweighted("method='unit'", is_weighted=is_weighted)
