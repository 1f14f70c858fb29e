"""Values in the headers of exported streams and pairs, checked before they are used."""

from __future__ import annotations

from typing import Any

_MAX_NUMBER = 1 << 62


def read_integer(value: Any, maximum: int = _MAX_NUMBER) -> int:
    """Return a number from 0 to a maximum. Raises ValueError when it is none."""
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError(f"{value!r:.60} is not a valid number")
    return value


def read_text(value: Any) -> str:
    """Return a text. Raises TypeError when it is none."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not a valid name")
    return value
