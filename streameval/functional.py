"""Metrics of columns in one call: each fills an `Evaluator` and queries it once.

Every function takes ``labels=``, ``scores=`` and optionally ``counts=``, ``weights=``,
``positive=`` and ``negative=`` as :meth:`streameval.Evaluator.add_cases` does, by keyword
because libraries disagree on their order. The other arguments go to the evaluator's method of
the same name, which documents the definition. Each function sorts the columns: for several
metrics of the same columns, fill one evaluator (:func:`evaluator`) and query it.

Cost: O(n log n), some 20 ns a case. Errors: `InvalidInputError` with the field
and the row at fault.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Required, TypedDict, TypeVar, Unpack

from streameval._common.keywords import by_keyword, keywords_error
from streameval._evaluator import Evaluator

if TYPE_CHECKING:
    from collections.abc import Callable

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


_P = ParamSpec("_P")
_R = TypeVar("_R")


@by_keyword
def evaluator(
    *,
    labels: Any,
    scores: Any,
    counts: Any = None,
    weights: Any = None,
    positive: Any = None,
    negative: Any = None,
) -> Evaluator:
    """Return an exact evaluator of these columns.

    Examples
    --------
    >>> ev = evaluator(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    >>> ev.auc_roc(), ev.num_cases
    (0.75, 4)
    """
    filled = Evaluator()
    filled.add_cases(
        labels=labels,
        scores=scores,
        counts=counts,
        weights=weights,
        positive=positive,
        negative=negative,
    )
    return filled


class _Columns(TypedDict, total=False):
    """The columns that every function takes, as `evaluator` does."""

    labels: Required[Any]
    scores: Required[Any]
    counts: Any
    weights: Any
    positive: Any
    negative: Any


def _of_columns(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Give the function the signature with all columns; report columns that are not named."""
    columns = inspect.signature(evaluator).parameters.values()
    own = [*inspect.signature(function).parameters.values()][:-1]
    places = [each for each in own if each.kind is each.POSITIONAL_OR_KEYWORD]
    shown = [*places, *columns, *(each for each in own if each not in places)]
    signature = inspect.signature(function).replace(parameters=shown)
    function.__signature__ = signature  # type: ignore[attr-defined]

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if len(args) > len(places) or not {"labels", "scores"} <= kwargs.keys():
            raise keywords_error(function)
        for name in kwargs.keys() - signature.parameters.keys():
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
        return function(*args, **kwargs)

    return call


@_of_columns
def snapshot(**columns: Unpack[_Columns]) -> Snapshot:
    """Return the metrics of these columns, as :meth:`streameval.Evaluator.snapshot`.

    Examples
    --------
    >>> snapshot(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]).auc_roc_hull
    0.875
    """
    return evaluator(**columns).snapshot()


@_of_columns
def auc_roc(
    *,
    hull: bool = False,
    max_fpr: float | None = None,
    min_recall: float | None = None,
    standardize: bool = False,
    **columns: Unpack[_Columns],
) -> float:
    """Return the area under the ROC curve, as :meth:`streameval.Evaluator.auc_roc`.

    Examples
    --------
    >>> auc_roc(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    0.75
    """
    return evaluator(**columns).auc_roc(
        hull=hull, max_fpr=max_fpr, min_recall=min_recall, standardize=standardize
    )


@_of_columns
def auc_pr(
    *,
    hull: bool = False,
    method: str = "closed",
    prevalence: float | None = None,
    min_recall: float = 0.0,
    **columns: Unpack[_Columns],
) -> float:
    """Return the area under the PR curve, as :meth:`streameval.Evaluator.auc_pr`.

    Examples
    --------
    >>> round(auc_pr(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]), 6)
    0.797267
    """
    return evaluator(**columns).auc_pr(
        hull=hull, method=method, prevalence=prevalence, min_recall=min_recall
    )


@_of_columns
def average_precision(*, prevalence: float | None = None, **columns: Unpack[_Columns]) -> float:
    """Return the average precision, as :meth:`streameval.Evaluator.average_precision`.

    Examples
    --------
    >>> round(average_precision(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]), 6)
    0.833333
    """
    filled = evaluator(**columns)
    return filled.average_precision(prevalence=prevalence)


@_of_columns
def maximum_f_measure(*, beta: float = 1.0, **columns: Unpack[_Columns]) -> float:
    """Return the best F measure, as :meth:`streameval.Evaluator.maximum_f_measure`.

    Examples
    --------
    >>> maximum_f_measure(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    0.8
    """
    return evaluator(**columns).maximum_f_measure(beta)


@_of_columns
def brier_score(**columns: Unpack[_Columns]) -> float:
    """Return the mean squared error of probabilities, as :meth:`streameval.Evaluator.brier_score`.

    Examples
    --------
    >>> round(brier_score(labels=[1, 0], scores=[0.9, 0.3]), 6)
    0.05
    """
    return evaluator(**columns).brier_score()


@_of_columns
def log_loss(**columns: Unpack[_Columns]) -> float:
    """Return the mean log loss of probabilities, as :meth:`streameval.Evaluator.log_loss`.

    Examples
    --------
    >>> round(log_loss(labels=[1, 0], scores=[0.5, 0.5]), 6)
    0.693147
    """
    return evaluator(**columns).log_loss()


@_of_columns
def interval(
    metric: str = "auc_pr",
    *,
    level: float = 0.95,
    prevalence: float | None = None,
    **columns: Unpack[_Columns],
) -> Interval:
    """Return a confidence interval, as :meth:`streameval.Evaluator.interval`.

    Examples
    --------
    >>> limits = interval("auc_roc", labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    >>> 0.75 in limits
    True
    """
    filled = evaluator(**columns)
    return filled.interval(metric, level=level, prevalence=prevalence)


@_of_columns
def operating_points(**columns: Unpack[_Columns]) -> OperatingPoints:
    """Return every operating point, as :meth:`streameval.Evaluator.operating_points`.

    Examples
    --------
    >>> operating_points(labels=[1, 0], scores=[0.9, 0.3]).thresholds
    array([inf, 0.9, 0.3])
    """
    return evaluator(**columns).operating_points()


@_of_columns
def roc_curve(
    *, interpolate: bool = False, hull: bool = False, **columns: Unpack[_Columns]
) -> FloatArray:
    """Return rows of FPR and TPR, as :meth:`streameval.Evaluator.roc_curve`.

    Examples
    --------
    >>> roc_curve(labels=[1, 0], scores=[0.9, 0.3]).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    return evaluator(**columns).roc_curve(interpolate, hull=hull)


@_of_columns
def pr_curve(*, interpolate: bool = False, **columns: Unpack[_Columns]) -> FloatArray:
    """Return rows of recall and precision, as :meth:`streameval.Evaluator.pr_curve`.

    Examples
    --------
    >>> pr_curve(labels=[1, 0], scores=[0.9, 0.3]).tolist()
    [[0.0, 1.0], [1.0, 1.0], [1.0, 0.5], [1.0, 0.0]]
    """
    return evaluator(**columns).pr_curve(interpolate)


@_of_columns
def roc_hull(**columns: Unpack[_Columns]) -> RocHull:
    """Return the ROC curve's upper hull, as :meth:`streameval.Evaluator.roc_hull`.

    Examples
    --------
    >>> roc_hull(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]).tp
    array([0, 1, 2, 2])
    """
    return evaluator(**columns).roc_hull()


@_of_columns
def pr_hull(**columns: Unpack[_Columns]) -> PrHull:
    """Return the achievable PR curve, as :meth:`streameval.Evaluator.pr_hull`.

    Examples
    --------
    >>> pr_hull(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]).precision.round(3)
    array([1.   , 1.   , 0.667, 0.5  ])
    """
    return evaluator(**columns).pr_hull()
