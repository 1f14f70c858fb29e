"""Since when a figure is lower, in the rows of a time series."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval import find_fall
from streameval.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval.v1 import types_pb2

_NONE = (math.nan, math.nan, math.nan)


def fall_message(
    rows: Sequence[types_pb2.Snapshot], metric: str, level: float
) -> query_pb2.Fall | None:
    """Return since when a metric is lower; None where chance explains its changes. O(rows).

    Rows without the metric or its interval are left out. Each has its own cases.
    """
    estimates = [_estimate(row, metric) for row in rows]
    fall = find_fall(*zip(*estimates, strict=True), level=level) if estimates else None
    if fall is None:
        return None
    message = query_pb2.Fall(difference=fall.difference, p_value=fall.p_value)
    message.step.CopyFrom(rows[fall.index].window)
    message.since.start_time.CopyFrom(rows[fall.first].window.start_time)
    message.since.end_time.CopyFrom(rows[fall.last].window.start_time)
    return message


def _estimate(row: types_pb2.Snapshot, metric: str) -> tuple[float, float, float]:
    """Return a metric of a row and its limits; nan where it has none."""
    for each in row.metrics:
        if each.name == metric and each.HasField("value") and each.interval.HasField("upper"):
            return each.value, each.interval.lower, each.interval.upper
    return _NONE
