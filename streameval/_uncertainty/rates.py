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


def share_figure(hits: float, others: float) -> Figure:
    """Return a share of cases with its variance; nan of no cases."""
    cases = hits + others
    share = hits / cases if cases > 0 else math.nan
    return Figure(share, share * (1 - share) / cases if cases > 0 else math.nan, hits, others)


def rate_interval(
    metric: Metric, estimate: float, figure: Figure, level: float, *, anytime: bool = False
) -> Interval:
    """Return the interval of a rate, from the figure of its share. O(1)."""
    assert metric.share is not None, metric.name
    limits = UNDEFINED
    if not math.isnan(estimate) and not math.isnan(figure.estimate):
        lower, upper = limits_of(figure, metric.name, 1 - level, anytime=anytime)
        limits = metric.share.rate(lower), metric.share.rate(upper)
    return Interval(
        *limits, level, "wilson", estimate, anytime, figure.design_effect, figure.refused
    )
