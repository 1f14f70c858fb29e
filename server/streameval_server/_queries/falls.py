"""Since when a figure is lower, of the rows of a time series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval import InvalidInputError, find_fall
from streameval.statistics import BY_NAME
from streameval.v1 import query_pb2
from streameval_server._queries.metrics import lowest_score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval import Window
    from streameval_server._queries.metrics import MetricSelection


def fall_message(windows: Sequence[Window], selection: MetricSelection) -> query_pb2.Fall | None:
    """Return since when the first figure is lower; None where chance explains its changes.

    None also for a figure without intervals, or that lacks a threshold or costs. O(S log S) for
    S distinct scores.
    """
    metric = BY_NAME[selection.names[0]]
    known: dict[str, float] = {}
    if windows and selection.threshold is not None:
        known["threshold"] = lowest_score(windows[0], selection.threshold)
    if selection.costs is not None:
        known |= selection.costs._asdict()
    if metric.interval is None or metric.missing(known) is not None:
        return None
    given = {name: known[name] for name in metric.needs}
    try:
        fall = find_fall(windows, metric.name, level=selection.level, **given)
    except InvalidInputError:  # scores outside [0, 1], as each row says
        return None
    if fall is None:
        return None
    message = query_pb2.Fall(
        difference=fall.difference, p_value=fall.p_value, warnings=fall.warnings
    )
    message.step.start_time.FromDatetime(windows[fall.index].start)
    message.step.end_time.FromDatetime(windows[fall.index].end)
    message.since.start_time.FromDatetime(windows[fall.first].start)
    message.since.end_time.FromDatetime(windows[fall.last].start)
    return message
