"""Answers as values that JSON can hold: nan becomes null, an infinity its name.

Every `to_dict` of a snapshot or an answer goes through here, and so does what ``query --json``
prints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np


def plain_values(answer: Any) -> dict[str, Any]:
    """Return an answer, and the values that it holds, as what JSON can hold; None for nan."""
    return {each.name: plain_value(getattr(answer, each.name)) for each in fields(answer)}


def plain_value(value: Any) -> Any:
    """Return a value of an answer as what JSON can hold."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return plain_values(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [plain_value(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): plain_value(each) for key, each in value.items()}
    if isinstance(value, datetime | timedelta):
        return value.isoformat() if isinstance(value, datetime) else value.total_seconds()
    return plain(value) if isinstance(value, float) else value


def plain(value: float) -> float | str | None:
    """Return a number as a value of JSON: None for nan, a string for an infinity."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)
