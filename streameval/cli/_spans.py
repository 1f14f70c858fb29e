"""What people write for a window and a segment."""

from __future__ import annotations

import re
from datetime import timedelta

from streameval._common.errors import StreamEvalError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_span(text: str) -> timedelta:
    """Read a span such as ``90s``, ``15m``, ``1h``, ``7d``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if match is None or not float(match[1]):
        raise StreamEvalError(f"--window {text!r}: use a span such as 90s, 15m, 1h or 7d")
    return timedelta(**{_UNITS[match[2]]: float(match[1])})


def parse_segment(text: str | None) -> tuple[str, str] | None:
    """Read ``key=value``."""
    if text is None:
        return None
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise StreamEvalError(f"--segment {text!r}: use key=value, for instance country=US")
    return key, value
