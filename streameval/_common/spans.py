"""What callers write as text: spans of time, ``90s``, ``1h``, ``7d``, and segments, ``country=US``.

The library, the client and the command line read them with these functions.
"""

from __future__ import annotations

import re
from datetime import timedelta

from streameval._common.errors import InvalidInputError

Span = timedelta | str
"""A duration: a timedelta, or a text that `parse_span` reads."""

Segment = tuple[str, str] | str
"""A segment: its key and value, or a text that `parse_segment` reads."""

SHOWN_VALUES = {"": "(no value)", "__other__": "(other values)"}
"""How an empty value, and `OTHER_VALUE`, whose module imports numpy, are shown."""

_UNITS_S = {"y": 365 * 86_400, "w": 7 * 86_400, "d": 86_400, "h": 3_600, "m": 60, "s": 1}


def parse_span(text: str, option: str = "--window") -> timedelta:
    """Read a span such as ``90s``, ``15m``, ``1h``, ``7d``, ``2w``, ``1y`` (365 days)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([ywdhms])", text)
    try:
        seconds = 0.0 if match is None else float(match[1]) * _UNITS_S[match[2]]
        span = timedelta(seconds=seconds)
    except OverflowError:
        message = f"{option} {text!r:.80}: too long"
        raise InvalidInputError(message, field=_field(option)) from None
    if not span:
        message = f"{option} {text!r:.80}: use a span such as 90s, 15m, 1h or 7d"
        raise InvalidInputError(message, field=_field(option))
    return span


def read_span(span: Span, field: str) -> timedelta:
    """Return a duration, or refuse what is none.

    Raises
    ------
    InvalidInputError
        With the argument `field`.

    Examples
    --------
    >>> read_span("7d", "window") == read_span(timedelta(days=7), "window")
    True
    """
    if isinstance(span, str):
        return parse_span(span, field)
    if not isinstance(span, timedelta):
        message = f"{field} must be a timedelta, got {span!r:.60}; or a text such as 1h or 7d"
        raise InvalidInputError(message, field=field)
    return span


def parse_segment(text: str, option: str = "--segment") -> tuple[str, str]:
    """Read ``key=value``, and refuse what is shown for an empty value or for the other ones.

    Examples
    --------
    >>> parse_segment("country=US")
    ('country', 'US')
    """
    key, equals, value = text.partition("=")
    if not (key and equals):
        message = f"{option} {text!r}: use key=value, for instance country=US"
        raise InvalidInputError(message, field=_field(option))
    for meant, name in SHOWN_VALUES.items():
        if value == name:
            message = f"{option} {text!r}: these rows are {option} {key}={meant}"
            raise InvalidInputError(message, field=_field(option))
    return key, value


def _field(option: str) -> str:
    """Return the argument that an option is."""
    return option.removeprefix("--").replace("-", "_")


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
    return f"{seconds:f}".rstrip("0").rstrip(".") + "s"
