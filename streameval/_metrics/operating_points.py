"""Operating points: the outcome at each threshold, in integers.

Calling every case with ``score >= threshold`` positive gives one point of (false
positives, true positives). Tied scores are always one point, so no result depends on
the order in which cases arrived. All curves of Davis and Goadrich (2006, sections 2
and 3) are built from these points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result, rows_of
from streameval._common.values import reals
from streameval._counts.cumulative import cumulative_counts
from streameval._counts.weights import WEIGHT_UNITS
from streameval._metrics.areas import CurveAreas, step_groups

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import Counts, FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._counts.view import View


@dataclass(frozen=True, slots=True, eq=False)
class Curve(CurveAreas, Result):
    """Points of a curve in counts, from (0, 0) at +inf downwards.

    Attributes
    ----------
    thresholds : float64[K]
        Strictly decreasing, the first +inf.
    fp, tp : int64[K]
        False and true positives among the cases with score >= threshold; where cases have
        weights, float64 sums of these.
    P, N : int
        All positives and negatives, misses included; sums of weights likewise.
    """

    thresholds: FloatArray
    fp: Counts
    tp: Counts
    P: float
    N: float

    def __post_init__(self) -> None:
        for column in (self.thresholds, self.fp, self.tp):
            column.flags.writeable = False

    def __len__(self) -> int:
        return self.thresholds.size

    @property
    def tpr(self) -> FloatArray:
        """True positive rate TP/P of each point; nan without positives."""
        return _rate(self.tp, self.P)

    @property
    def fpr(self) -> FloatArray:
        """False positive rate FP/N of each point; nan without negatives."""
        return _rate(self.fp, self.N)

    @property
    def recall(self) -> FloatArray:
        """Recall TP/P of each point: another name of the true positive rate."""
        return self.tpr

    @property
    def specificity(self) -> FloatArray:
        """Specificity TN/N of each point; nan without negatives."""
        return _rate(np.subtract(self.N, self.fp), self.N)

    @property
    def precision(self) -> FloatArray:
        """Precision TP/(TP+FP) of each point; 1 if nothing is called positive."""
        return precision_of(self.fp, self.tp)

    def to_dict(self) -> dict[str, FloatArray | IntArray]:
        """Return the columns of a table, one row for each point: ``pd.DataFrame`` takes them.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.3])
        >>> columns = ev.operating_points().to_dict()
        >>> list(columns)
        ['threshold', 'fp', 'tp', 'fpr', 'recall', 'precision']
        >>> columns["threshold"], columns["precision"]
        (array([inf, 0.9, 0.3]), array([1. , 1. , 0.5]))
        """
        return {
            "threshold": self.thresholds,
            "fp": self.fp,
            "tp": self.tp,
            "fpr": self.fpr,
            "recall": self.recall,
            "precision": self.precision,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each point, with the values of `to_dict`. O(K)."""
        return rows_of(self.to_dict())

    @property
    def is_weighted(self) -> bool:
        """Whether `fp`, `tp`, `P` and `N` are sums of weights. O(1)."""
        return self.fp.dtype.kind == "f"

    def groups(self) -> Groups:
        """Return the steps of the curve that gain positives, as tied groups. O(K)."""
        units = self.in_units()
        fp, tp = cast("IntArray", units.fp), cast("IntArray", units.tp)
        return step_groups(units.thresholds, fp, tp, int(units.P), int(units.N))

    def in_weights(self, unit: int) -> Self:
        """Return the curve of counts in this unit with sums of weights instead. O(K)."""
        if unit == 1:
            return self
        weights: dict[str, Any] = {
            "fp": self.fp / unit,
            "tp": self.tp / unit,
            "P": self.P / unit,
            "N": self.N / unit,
        }
        return replace(self, **weights)

    def in_units(self) -> Self:
        """Return the curve in integers, which areas and comparisons are computed from. O(K).

        Exact where weights add up to less than 2**37.
        """
        if not self.is_weighted:
            return self
        fp, tp = (np.rint(each * WEIGHT_UNITS).astype(np.int64) for each in (self.fp, self.tp))
        P, N = round(self.P * WEIGHT_UNITS), round(self.N * WEIGHT_UNITS)
        return replace(self, fp=fp, tp=tp, P=P, N=N)


@dataclass(frozen=True, slots=True, eq=False)
class OperatingPoints(Curve):
    """The points of one scorer's curve, from (0, 0) at +inf downwards.

    Attributes
    ----------
    thresholds : float64[K]
        Strictly decreasing. The first is +inf, where nothing is called
        positive; -inf, if present, is the last and calls the misses positive too.
    fp, tp : int64[K]
        False and true positives among the cases with score >= threshold.
    P, N : int
        All positives and negatives, misses included.

    Examples
    --------
    >>> import numpy as np
    >>> points = OperatingPoints.from_classes(
    ...     positive_scores=np.array([0.4, 0.9]), negative_scores=np.array([0.1, 0.4])
    ... )
    >>> points.thresholds
    array([inf, 0.9, 0.4, 0.1])
    >>> points.tp, points.fp
    (array([0, 1, 2, 2]), array([0, 0, 1, 2]))
    >>> points.precision.round(3)
    array([1.   , 1.   , 0.667, 0.5  ])
    """

    @classmethod
    def from_classes(
        cls,
        *,
        positive_scores: FloatArray,
        negative_scores: FloatArray,
        positive_counts: IntArray | None = None,
        negative_counts: IntArray | None = None,
        missed_positives: int = 0,
        missed_negatives: int = 0,
    ) -> OperatingPoints:
        """Build the points from each class's scores.

        Parameters
        ----------
        positive_scores, negative_scores : float64[...]
            Finite scores of each class in ascending order.
        positive_counts, negative_counts : int64[...] or None
            How many cases have each score; None means one each.
        missed_positives, missed_negatives : int
            References that were never scored. With any, the last point is
            (N, P) at -inf.

        Returns
        -------
        OperatingPoints
            One point for each distinct score, after (0, 0) at +inf.

        Notes
        -----
        O(n): the stable sort only merges two sorted runs.
        """
        counts = cumulative_counts(
            positive_scores=positive_scores,
            negative_scores=negative_scores,
            positive_counts=positive_counts,
            negative_counts=negative_counts,
            missed_positives=missed_positives,
            missed_negatives=missed_negatives,
        )
        return cls(*counts, P=int(counts.tp[-1]), N=int(counts.fp[-1]))

    def at_thresholds(self, thresholds: npt.ArrayLike) -> OperatingPoints:
        """Return the operating points at these thresholds only.

        This avoids the optimism of hulls, as the paper suggests: choose thresholds
        on tuning data, then evaluate test data at these thresholds only.

        Parameters
        ----------
        thresholds : array_like of float
            In any order; repetitions count once. Infinite ones are allowed.

        Returns
        -------
        OperatingPoints
            The points in order of decreasing threshold; (0, 0) at +inf and
            (N, P) at -inf are always added.

        Raises
        ------
        InvalidInputError
            When a threshold is NaN.

        Notes
        -----
        O(k log K) for k thresholds and K points. Source: Davis and Goadrich
        (2006), end of section 3.

        Examples
        --------
        >>> import numpy as np
        >>> points = OperatingPoints.from_classes(
        ...     positive_scores=np.array([0.4, 0.9]), negative_scores=np.array([0.1, 0.4])
        ... )
        >>> at = points.at_thresholds([0.5, 0.2])
        >>> at.thresholds
        array([ inf,  0.5,  0.2, -inf])
        >>> at.tp, at.fp
        (array([0, 1, 2, 2]), array([0, 0, 1, 2]))
        """
        wanted = reals(thresholds, "thresholds").ravel()
        bad = np.flatnonzero(np.isnan(wanted))
        if bad.size:
            index = int(bad[0])
            message = f"threshold must not be NaN, got nan at index {index}"
            raise InvalidInputError(message, field="thresholds", index=index)
        # Adding 0.0 turns -0.0 into 0.0, which is the same threshold.
        cuts = np.unique(np.concatenate((wanted + 0.0, [np.inf, -np.inf])))[::-1].copy()
        rows = np.searchsorted(-self.thresholds, -cuts, side="right") - 1
        fp, tp = self.fp[rows], self.tp[rows]
        fp[-1], tp[-1] = self.N, self.P
        return OperatingPoints(thresholds=cuts, fp=fp, tp=tp, P=self.P, N=self.N)


def points_of(view: View) -> OperatingPoints:
    """Return every operating point of one revision. O(n), once per revision."""
    return view.cached(
        "operating_points", lambda: OperatingPoints(*view.cumulative, P=view.P, N=view.N)
    )


def public_points_of(view: View) -> OperatingPoints:
    """Return every operating point, with sums of weights where cases have some. O(n), once."""
    if view.unit == 1:
        return points_of(view)
    return view.cached("weighted points", lambda: points_of(view).in_weights(view.unit))


def precision_of(fp: Counts, tp: Counts) -> FloatArray:
    """Return TP/(TP+FP), and 1 if nothing is called positive."""
    called = tp + fp
    precision: FloatArray = np.ones(called.shape)
    np.divide(tp, called, out=precision, where=called > 0)
    return precision


def _rate(counts: Counts, total: float) -> FloatArray:
    if total == 0:
        return np.full(counts.size, np.nan)
    rates: FloatArray = counts / total
    return rates
