"""Spans of time as text: ``90s``, ``15m``, ``1h``, ``7d``."""

from __future__ import annotations

import re
from datetime import timedelta

from streameval._common.errors import StreamEvalError

_UNITS_S = {"y": 365 * 86_400, "w": 7 * 86_400, "d": 86_400, "h": 3_600, "m": 60, "s": 1}


def parse_span(text: str, option: str = "--window") -> timedelta:
    """Read a span such as ``90s``, ``15m``, ``1h``, ``7d``, ``2w``, ``1y`` (365 days)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([ywdhms])", text)
    if match is None or not float(match[1]):
        raise StreamEvalError(f"{option} {text!r}: use a span such as 90s, 15m, 1h or 7d")
    try:
        return timedelta(seconds=float(match[1]) * _UNITS_S[match[2]])
    except OverflowError:
        raise StreamEvalError(f"{option} {text!r}: too long") from None


def format_span(span: timedelta) -> str:
    """Return a span in its largest whole unit, as `parse_span` reads it.

    Examples
    --------
    >>> format_span(timedelta(days=30)), format_span(timedelta(minutes=90))
    ('30d', '90m')
    >>> format_span(timedelta(seconds=1.5))
    '1.5s'
    """
    seconds = span.total_seconds()
    for unit, unit_s in _UNITS_S.items():
        if seconds >= unit_s and unit != "w" and not seconds % unit_s:
            return f"{seconds / unit_s:.0f}{unit}"
    return f"{seconds:g}s"
