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
from streameval._uncertainty.limits import UNDEFINED, Figure, Limits

if TYPE_CHECKING:
    from streameval._counts.view import View
    from streameval._metric_registry import Share


def share_counts(view: View, name: str, threshold: float) -> tuple[float, float]:
    """Return the cases that count for a rate's share, and the other ones. O(log K)."""
    share = BY_NAME[name].share
    assert share is not None, name
    return share.parts(ViewQueries(view).confusion_at(threshold))


def share_figure(hits: float, others: float) -> Figure:
    """Return a share of cases with its variance; nan of no cases."""
    cases = hits + others
    share = hits / cases if cases > 0 else math.nan
    return Figure(share, share * (1 - share) / cases if cases > 0 else math.nan, hits, others)


def rate_limits(
    name: str, share: Share, figure: Figure, alpha: float, *, anytime: bool = False
) -> Limits:
    """Return the limits of a rate, from the figure of its share. O(1)."""
    if math.isnan(figure.estimate):
        return UNDEFINED
    lower, upper = limits_of(figure, name, alpha, anytime=anytime)
    return share.rate(lower), share.rate(upper)
