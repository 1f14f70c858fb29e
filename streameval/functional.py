"""Metrics of columns in one call: each fills an `Evaluator` and queries it once.

Every function takes ``labels=``, ``scores=`` and optionally ``counts=`` and ``weights=``
as :meth:`streameval.Evaluator.add_cases` does, by keyword because libraries disagree
on their order. The other arguments go to the evaluator's method of the same name,
which documents the definition. Each function sorts the columns: for several
metrics of the same columns, fill one evaluator (:func:`evaluator`) and query it.

Cost: O(n log n), some 20 ns a case. Errors: `InvalidInputError` with the field
and the row at fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streameval._common.keywords import by_keyword
from streameval._evaluator import Evaluator

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._metrics.curves import PrHull, RocHull
    from streameval._metrics.operating_points import OperatingPoints
    from streameval._snapshot import Snapshot
    from streameval._uncertainty.interval import Interval

__all__ = [
    "auc_pr",
    "auc_roc",
    "average_precision",
    "brier_score",
    "evaluator",
    "interval",
    "log_loss",
    "maximum_f_measure",
    "operating_points",
    "pr_curve",
    "pr_hull",
    "roc_curve",
    "roc_hull",
    "snapshot",
]


@by_keyword
def evaluator(*, labels: Any, scores: Any, counts: Any = None, weights: Any = None) -> Evaluator:
    """Return an exact evaluator of these columns.

    Examples
    --------
    >>> ev = evaluator(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    >>> ev.auc_roc(), ev.num_cases
    (0.75, 4)
    """
    filled = Evaluator()
    filled.add_cases(labels=labels, scores=scores, counts=counts, weights=weights)
    return filled


@by_keyword
def snapshot(*, labels: Any, scores: Any, counts: Any = None, weights: Any = None) -> Snapshot:
    """Return the metrics of these columns, as :meth:`streameval.Evaluator.snapshot`.

    Examples
    --------
    >>> snapshot(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]).auc_roc_hull
    0.875
    """
    return evaluator(labels=labels, scores=scores, counts=counts, weights=weights).snapshot()


@by_keyword
def auc_roc(
    *,
    labels: Any,
    scores: Any,
    counts: Any = None,
    weights: Any = None,
    hull: bool = False,
    max_fpr: float | None = None,
    min_recall: float | None = None,
    standardize: bool = False,
) -> float:
    """Return the area under the ROC curve, as :meth:`streameval.Evaluator.auc_roc`.

    Examples
    --------
    >>> auc_roc(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    0.75
    """
    return evaluator(labels=labels, scores=scores, counts=counts, weights=weights).auc_roc(
        hull=hull, max_fpr=max_fpr, min_recall=min_recall, standardize=standardize
    )


@by_keyword
def auc_pr(
    *,
    labels: Any,
    scores: Any,
    counts: Any = None,
    weights: Any = None,
    hull: bool = False,
    method: str = "closed",
    prevalence: float | None = None,
    min_recall: float = 0.0,
) -> float:
    """Return the area under the PR curve, as :meth:`streameval.Evaluator.auc_pr`.

    Examples
    --------
    >>> round(auc_pr(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]), 6)
    0.797267
    """
    return evaluator(labels=labels, scores=scores, counts=counts, weights=weights).auc_pr(
        hull=hull, method=method, prevalence=prevalence, min_recall=min_recall
    )


@by_keyword
def average_precision(
    *,
    labels: Any,
    scores: Any,
    counts: Any = None,
    weights: Any = None,
    prevalence: float | None = None,
) -> float:
    """Return the average precision, as :meth:`streameval.Evaluator.average_precision`.

    Examples
    --------
    >>> round(average_precision(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]), 6)
    0.833333
    """
    filled = evaluator(labels=labels, scores=scores, counts=counts, weights=weights)
    return filled.average_precision(prevalence=prevalence)


@by_keyword
def maximum_f_measure(
    *, labels: Any, scores: Any, counts: Any = None, weights: Any = None, beta: float = 1.0
) -> float:
    """Return the best F measure, as :meth:`streameval.Evaluator.maximum_f_measure`.

    Examples
    --------
    >>> maximum_f_measure(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    0.8
    """
    return evaluator(
        labels=labels, scores=scores, counts=counts, weights=weights
    ).maximum_f_measure(beta)


@by_keyword
def brier_score(*, labels: Any, scores: Any, counts: Any = None, weights: Any = None) -> float:
    """Return the mean squared error of probabilities, as :meth:`streameval.Evaluator.brier_score`.

    Examples
    --------
    >>> round(brier_score(labels=[1, 0], scores=[0.9, 0.3]), 6)
    0.05
    """
    return evaluator(labels=labels, scores=scores, counts=counts, weights=weights).brier_score()


@by_keyword
def log_loss(*, labels: Any, scores: Any, counts: Any = None, weights: Any = None) -> float:
    """Return the mean log loss of probabilities, as :meth:`streameval.Evaluator.log_loss`.

    Examples
    --------
    >>> round(log_loss(labels=[1, 0], scores=[0.5, 0.5]), 6)
    0.693147
    """
    return evaluator(labels=labels, scores=scores, counts=counts, weights=weights).log_loss()


@by_keyword
def interval(
    metric: str = "auc_pr",
    *,
    labels: Any,
    scores: Any,
    counts: Any = None,
    weights: Any = None,
    level: float = 0.95,
    prevalence: float | None = None,
) -> Interval:
    """Return a confidence interval, as :meth:`streameval.Evaluator.interval`.

    Examples
    --------
    >>> limits = interval("auc_roc", labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    >>> 0.75 in limits
    True
    """
    filled = evaluator(labels=labels, scores=scores, counts=counts, weights=weights)
    return filled.interval(metric, level=level, prevalence=prevalence)


@by_keyword
def operating_points(
    *, labels: Any, scores: Any, counts: Any = None, weights: Any = None
) -> OperatingPoints:
    """Return every operating point, as :meth:`streameval.Evaluator.operating_points`.

    Examples
    --------
    >>> operating_points(labels=[1, 0], scores=[0.9, 0.3]).thresholds
    array([inf, 0.9, 0.3])
    """
    return evaluator(
        labels=labels, scores=scores, counts=counts, weights=weights
    ).operating_points()


@by_keyword
def roc_curve(
    *,
    labels: Any,
    scores: Any,
    counts: Any = None,
    weights: Any = None,
    interpolate: bool = False,
    hull: bool = False,
) -> FloatArray:
    """Return rows of FPR and TPR, as :meth:`streameval.Evaluator.roc_curve`.

    Examples
    --------
    >>> roc_curve(labels=[1, 0], scores=[0.9, 0.3]).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    return evaluator(labels=labels, scores=scores, counts=counts, weights=weights).roc_curve(
        interpolate, hull=hull
    )


@by_keyword
def pr_curve(
    *, labels: Any, scores: Any, counts: Any = None, weights: Any = None, interpolate: bool = False
) -> FloatArray:
    """Return rows of recall and precision, as :meth:`streameval.Evaluator.pr_curve`.

    Examples
    --------
    >>> pr_curve(labels=[1, 0], scores=[0.9, 0.3]).tolist()
    [[0.0, 1.0], [1.0, 1.0], [1.0, 0.5], [1.0, 0.0]]
    """
    return evaluator(labels=labels, scores=scores, counts=counts, weights=weights).pr_curve(
        interpolate
    )


@by_keyword
def roc_hull(*, labels: Any, scores: Any, counts: Any = None, weights: Any = None) -> RocHull:
    """Return the ROC curve's upper hull, as :meth:`streameval.Evaluator.roc_hull`.

    Examples
    --------
    >>> roc_hull(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]).tp
    array([0, 1, 2, 2])
    """
    return evaluator(labels=labels, scores=scores, counts=counts, weights=weights).roc_hull()


@by_keyword
def pr_hull(*, labels: Any, scores: Any, counts: Any = None, weights: Any = None) -> PrHull:
    """Return the achievable PR curve, as :meth:`streameval.Evaluator.pr_hull`.

    Examples
    --------
    >>> pr_hull(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]).precision.round(3)
    array([1.   , 1.   , 0.667, 0.5  ])
    """
    return evaluator(labels=labels, scores=scores, counts=counts, weights=weights).pr_hull()
