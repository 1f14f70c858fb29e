"""scikit-learn scorers for searches, cross-validation and early stopping.

Davis and Goadrich (2006), section 5: an algorithm that optimises the area under
the ROC curve need not optimise the area under the PR curve. With these scorers
``GridSearchCV``, ``cross_val_score`` and ``HistGradientBoostingClassifier`` choose
by the latter, interpolated or achievable.

The achievable area is under a hull that is chosen on the data that it is scored on, so it
is optimistic, the more so the fewer positives there are. Within a search that bias
applies to every candidate, so it may rank them; do not report it as a result. To
report, use `auc_pr_scorer`, or :meth:`Evaluator.at_thresholds` on data that was not
used to choose.

A scorer costs O(n log n), less than scikit-learn's own. Needs scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from streameval import functional
from streameval._common.errors import InvalidInputError
from streameval._common.labels import class_of, is_missing
from streameval._common.values import shown
from streameval._counts.columns import check_nulls, read_column
from streameval._counts.weight_columns import scaled_weights

__all__ = [
    "achievable_auc_pr_score",
    "achievable_auc_pr_scorer",
    "auc_pr_score",
    "auc_pr_scorer",
]


def auc_pr_score(
    y_true: Any, y_score: Any, *, pos_label: Any = 1, sample_weight: Any = None
) -> float:
    """Return the interpolated area under the PR curve, in scikit-learn's order.

    Parameters
    ----------
    y_true : column
        Labels: {0, 1} or {-1, 1}; others with `pos_label`.
    y_score : column of float
        Probabilities of the positive class, or decision values.
    pos_label : label
        The label that is positive.
    sample_weight : column of float, optional
        Finite, 0 or more, of any size. They are rounded to at most 1e-11 of their mean for
        a million rows.

    Returns
    -------
    float
        nan without positives.

    Raises
    ------
    InvalidInputError
        When the labels are not two classes with `pos_label` among them, or one is missing, or
        a score or a weight is not finite or a weight is negative.

    Notes
    -----
    :meth:`streameval.Evaluator.auc_pr` with its definition. O(n log n).

    Examples
    --------
    >>> round(auc_pr_score([1, 0, 1, 0], [0.9, 0.7, 0.4, 0.1]), 6)
    0.797267
    """
    return functional.auc_pr(
        labels=_positives(y_true, pos_label), scores=y_score, weights=_weights(sample_weight)
    )


def achievable_auc_pr_score(
    y_true: Any, y_score: Any, *, pos_label: Any = 1, sample_weight: Any = None
) -> float:
    """Return the area under the achievable PR curve, in scikit-learn's order.

    Parameters, errors and cost are as for `auc_pr_score`. Optimistic: the hull is
    chosen on the data that it is scored on.

    Examples
    --------
    >>> round(achievable_auc_pr_score([1, 0, 1, 0], [0.9, 0.7, 0.4, 0.1]), 6)
    0.887327
    """
    return functional.auc_pr(
        labels=_positives(y_true, pos_label),
        scores=y_score,
        weights=_weights(sample_weight),
        hull=True,
    )


_RESPONSES = ("decision_function", "predict_proba")  # the first that a model has

auc_pr_scorer = make_scorer(auc_pr_score, response_method=_RESPONSES)
"""The interpolated area under the PR curve."""

achievable_auc_pr_scorer = make_scorer(achievable_auc_pr_score, response_method=_RESPONSES)
"""The area under the achievable PR curve: to choose a model by, not to report."""


def _weights(sample_weight: Any) -> Any:
    if sample_weight is None:
        return None
    return scaled_weights(sample_weight, field="sample_weight")


def _positives(y_true: Any, pos_label: Any) -> Any:
    """Return a mask of the positive labels; refuse labels that are not two classes."""
    column = read_column(y_true, "y_true", check=check_nulls)
    places = None
    if column.dtype.kind in "biuf":  # a few values, each of them read once
        column, places = np.unique(column, return_inverse=True)
    try:
        classes = [class_of(each) for each in column.tolist()]
        positive = class_of(pos_label)
    except TypeError as error:
        raise InvalidInputError(str(error).replace("label", "y_true", 1), field="y_true") from None
    missing = [place for place, each in enumerate(classes) if each != positive and is_missing(each)]
    if missing:
        index = missing[0] if places is None else int(np.argmax(places == missing[0]))
        message = f"y_true must not have missing values, got {shown(column.tolist()[missing[0]])}"
        raise InvalidInputError(f"{message} at index {index}", field="y_true", index=index)
    others = [each for each in dict.fromkeys(classes) if each != positive]
    # A single class is taken as negative only where it is 0 or -1.
    unknown = len(others) == 1 and positive not in classes and others[0] not in (-1, 0)
    if len(others) > 1 or unknown:
        found = list(dict.fromkeys(classes))
        message = (
            f"y_true must hold pos_label={pos_label!r} and one other label, "
            f"got {found[:3]}{'...' if len(found) > 3 else ''}"
        )
        raise InvalidInputError(message, field="y_true")
    mask = np.fromiter((each == positive for each in classes), dtype=np.bool_, count=len(classes))
    return mask if places is None else mask[places]
