"""Metrics of columns in one call: each fills an `Evaluator` and queries it once.

Every function takes ``labels=``, ``scores=`` and optionally ``counts=``, ``weights=``,
``positive=`` and ``negative=`` as :meth:`streameval.Evaluator.add_cases` does, by keyword
because libraries disagree on their order. scikit-learn's ``y_true=`` and ``y_score=`` mean
``labels=`` and ``scores=``. The other arguments go to the evaluator's method of
the same name, which documents the definition. Each function sorts the columns: for several
metrics of the same columns, fill one evaluator (:func:`evaluator`) and query it.

Cost: O(n log n), some 20 ns a case. Errors: `InvalidInputError` with the field
and the row at fault.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, Unpack

from streameval._common.keywords import keywords_error
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


_SAME = {"y_true": "labels", "y_score": "scores"}
"""The names of columns in scikit-learn, and here."""


class _Columns(TypedDict, total=False):
    """The columns that every function takes: labels and scores, by one of their two names."""

    labels: Any
    scores: Any
    counts: Any
    weights: Any
    positive: Any
    negative: Any
    y_true: Any
    y_score: Any


_COLUMNS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Any)
    for name, default in {
        **dict.fromkeys(("labels", "scores"), inspect.Parameter.empty),
        **dict.fromkeys(("counts", "weights", "positive", "negative")),
    }.items()
]
"""The parameters that signatures show for `_Columns`."""


def _of_columns(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Give the function the signature with all columns; report columns that are not named."""
    own = [*inspect.signature(function).parameters.values()][:-1]
    places = [each for each in own if each.kind is each.POSITIONAL_OR_KEYWORD]
    shown = [*places, *_COLUMNS, *(each for each in own if each not in places)]
    signature = inspect.signature(function).replace(parameters=shown)
    function.__signature__ = signature  # type: ignore[attr-defined]

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for other, name in _SAME.items():
            if other in kwargs:
                if name in kwargs:
                    raise TypeError(f"{function.__name__}() takes {name}= or {other}=, not both")
                kwargs[name] = kwargs.pop(other)
        if len(args) > len(places) or not {"labels", "scores"} <= kwargs.keys():
            raise keywords_error(function)
        for name in kwargs.keys() - signature.parameters.keys():
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
        return function(*args, **kwargs)

    return call


@_of_columns
def evaluator(**columns: Unpack[_Columns]) -> Evaluator:
    """Return an exact evaluator of these columns.

    Examples
    --------
    >>> ev = evaluator(y_true=[1, 0, 1, 0], y_score=[0.9, 0.7, 0.4, 0.1])
    >>> ev.auc_roc(), ev.num_cases
    (0.75, 4)
    """
    named: dict[str, Any] = {**columns}  # by our names: see `_of_columns`
    filled = Evaluator()
    filled.add_cases(**named)
    return filled


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

    It unpacks as lower limit, upper limit.

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

    Each column is an attribute (``fpr``, ``tpr``, ``precision``, ``recall``, ``thresholds``), in
    the order of falling thresholds, from infinity.

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

    One array of shape (n, 2), from (0, 0) to (1, 1): ``fpr, tpr = roc_curve(...).T``. scikit-learn
    returns ``fpr, tpr, thresholds``; :func:`operating_points` has the thresholds.

    Examples
    --------
    >>> roc_curve(labels=[1, 0], scores=[0.9, 0.3]).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    return evaluator(**columns).roc_curve(interpolate, hull=hull)


@_of_columns
def pr_curve(*, interpolate: bool = False, **columns: Unpack[_Columns]) -> FloatArray:
    """Return rows of recall and precision, as :meth:`streameval.Evaluator.pr_curve`.

    One array of shape (n, 2), by rising recall: ``recall, precision = pr_curve(...).T``.
    scikit-learn returns ``precision, recall, thresholds``, by falling recall;
    :func:`operating_points` has the thresholds.

    Examples
    --------
    >>> pr_curve(labels=[1, 0], scores=[0.9, 0.3]).tolist()
    [[0.0, 1.0], [1.0, 1.0], [1.0, 0.5], [1.0, 0.0]]
    """
    return evaluator(**columns).pr_curve(interpolate)


@_of_columns
def roc_hull(**columns: Unpack[_Columns]) -> RocHull:
    """Return the ROC curve's upper hull, as :meth:`streameval.Evaluator.roc_hull`.

    Its columns are attributes, in the order of falling thresholds.

    Examples
    --------
    >>> roc_hull(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]).tp
    array([0, 1, 2, 2])
    """
    return evaluator(**columns).roc_hull()


@_of_columns
def pr_hull(**columns: Unpack[_Columns]) -> PrHull:
    """Return the achievable PR curve, as :meth:`streameval.Evaluator.pr_hull`.

    Its columns are attributes, in the order of falling thresholds.

    Examples
    --------
    >>> pr_hull(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1]).precision.round(3)
    array([1.   , 1.   , 0.667, 0.5  ])
    """
    return evaluator(**columns).pr_hull()
