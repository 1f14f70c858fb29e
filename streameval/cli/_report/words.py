"""Formats metrics, counts and times as the web page does, with times in UTC."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval._metric_registry import BY_NAME
from streameval.cli._output import REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from streameval._uncertainty.interval import Interval

MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EN DASH}"

_MIN_TENTH_PERCENT = 0.0095
"""Shares below it keep two digits after the point."""


def figure(value: float) -> str:
    """Return a number with three digits after the point.

    Examples
    --------
    >>> figure(0.12345)
    '0.123'
    """
    return f"{value:.3f}".replace("-", MINUS)


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return f"{value:+.3f}".replace("-", MINUS)


def percent(share: float) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.1234), percent(0.00123), percent(0.99999)
    ('12.3 %', '0.12 %', '99.9 %')
    """
    digits = 2 if share != 0 and abs(share) < _MIN_TENTH_PERCENT else 1
    text = f"{100 * share:.{digits}f}"
    return f"{'99.9' if share < 1 and float(text) == 100 else text} %"


def cost(value: float) -> str:
    """Return a cost with three significant digits, and all before the point.

    Examples
    --------
    >>> cost(0.012345), cost(1.2345), cost(12345.6), cost(0.0)
    ('0.0123', '1.23', '12,346', '0')
    """
    if value >= 1e15 or 0 < value < 1e-6:
        return f"{value:.2e}"
    digits = 0 if value == 0 or value >= 100 else max(0, 2 - math.floor(math.log10(value)))
    return f"{value:,.{digits}f}"


_FORMATS = {"share": percent, "cost": cost}
"""How a metric of a unit is written; others are plain figures."""


def count(value: float) -> str:
    """Return a number of cases; sums of weights keep a digit."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def score(value: float) -> str:
    """Return a score or a threshold with five digits."""
    return f"{value:.5g}".replace("-", MINUS).replace("inf", "\N{INFINITY}")


def p_value(value: float) -> str:
    """Return a p-value."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def measured(name: str, value: float) -> str:
    """Return a metric in its unit."""
    return _FORMATS.get(BY_NAME[name].unit, figure)(value)


def reason(name: str) -> str:
    """Return why something has no value, in words."""
    return REASONS.get(name, "not defined")


def limits(name: str, interval: Interval) -> str:
    """Return an interval's limits in the metric's unit, or why there are none."""
    if interval.reason is not None:
        return f"no interval: {reason(interval.reason)}"
    lower, upper = (measured(name, each) for each in interval)
    return f"{lower.removesuffix(' %')} to {upper}"


def moment(time: datetime) -> str:
    """Return a time in UTC, to the minute."""
    return f"{time:%Y-%m-%d %H:%M}"


def period(window: tuple[datetime, datetime]) -> str:
    """Return a span of time; the day of its end where it differs.

    Examples
    --------
    >>> from datetime import datetime
    >>> period((datetime(1970, 1, 1), datetime(1970, 1, 1, 1)))
    '1970-01-01 00:00 to 01:00 UTC'
    """
    start, end = window
    last = f"{end:%H:%M}" if start.date() == end.date() else moment(end)
    return f"{moment(start)} to {last} UTC"


def listed(items: Sequence[str]) -> str:
    """Return items as a clause: ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
