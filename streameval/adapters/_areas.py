"""The areas that adapters offer, by the names that a `Snapshot` gives them."""

from __future__ import annotations

from streameval._common.errors import InvalidInputError
from streameval._metric_registry import BY_NAME, Metric, Place


def area_of(name: str) -> Metric:
    """Return the area of that name; refuse another.

    Examples
    --------
    >>> area_of("auc")
    Traceback (most recent call last):
    streameval.InvalidInputError: metric must be one of auc_pr, average_precision, auc_roc, \
auc_pr_hull, auc_roc_hull, got 'auc'
    """
    if name not in Place.ADAPTER.names():
        message = f"metric must be one of {', '.join(Place.ADAPTER.names())}, got {name!r}"
        raise InvalidInputError(message, field="metric")
    return BY_NAME[name]
