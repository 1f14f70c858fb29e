"""Intervals of rates at a threshold: precision, recall, false positive rate and F.

Each is a share of cases, or an increasing function of one: F is 2 J/(1 + J), where J is
the share of true positives among all that are positive or called positive. Where cases
are independent and the threshold was chosen on other data, Wilson's limits hold for the
share (Wilson 1927), and so for the rate.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval._metric_registry import BY_NAME
from streameval._metrics.queries import ViewQueries
from streameval._uncertainty.estimates import limits_of
from streameval._uncertainty.interval import Interval
from streameval._uncertainty.limits import UNDEFINED, Figure

if TYPE_CHECKING:
    from streameval._counts.view import View
    from streameval._metric_registry import Metric


def share_counts(view: View, name: str, threshold: float) -> tuple[int, int]:
    """Return the cases that count for a rate's share, and the other ones. O(log K)."""
    share = BY_NAME[name].share
    assert share is not None, name
    return share.parts(ViewQueries(view).confusion_at(threshold))


def rate_interval(
    metric: Metric,
    estimate: float,
    counts: tuple[float, float],
    level: float,
    *,
    anytime: bool = False,
) -> Interval:
    """Return the interval of a rate, from the counts of its share. O(1)."""
    assert metric.share is not None, metric.name
    hits, others = counts
    limits = UNDEFINED
    if hits + others > 0 and not math.isnan(estimate):
        share = hits / (hits + others)
        figure = Figure(share, share * (1 - share) / (hits + others), hits, others)
        lower, upper = limits_of(figure, metric.name, 1 - level, anytime=anytime)
        limits = metric.share.rate(lower), metric.share.rate(upper)
    return Interval(*limits, level, "wilson", estimate, anytime)
