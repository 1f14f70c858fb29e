"""The figures that adapters offer, by the names that a `Snapshot` gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._common.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streameval._evaluator import Evaluator

FIGURES: Mapping[str, Callable[[Evaluator], float]] = {
    "auc_pr": lambda ev: ev.auc_pr(),
    "auc_pr_hull": lambda ev: ev.auc_pr(hull=True),
    "average_precision": lambda ev: ev.average_precision(),
    "auc_roc": lambda ev: ev.auc_roc(),
    "auc_roc_hull": lambda ev: ev.auc_roc(hull=True),
}


def check_figure(name: str) -> str:
    """Return the name of a figure, or refuse it.

    Examples
    --------
    >>> check_figure("auc")
    Traceback (most recent call last):
    streameval.InvalidInputError: figure must be one of auc_pr, auc_pr_hull, \
average_precision, auc_roc, auc_roc_hull, got 'auc'
    """
    if name not in FIGURES:
        message = f"figure must be one of {', '.join(FIGURES)}, got {name!r}"
        raise InvalidInputError(message, field="figure")
    return name
