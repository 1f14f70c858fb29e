"""Metrics of a window by name: a value or a reason, an interval, bounds. Never NaN.

The reason says why a metric has no value: nothing was counted, a class is absent, or
the metric reads scores as probabilities and they are none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import InvalidInputError
from streameval._common import quoted
from streameval._metric_registry import BY_NAME, SERVED_NAMES, SNAPSHOT_NAMES, Metric, reason_of
from streameval._uncertainty import dependence_warning
from streameval.v1 import types_pb2
from streameval_server._model.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streameval._time import Window
    from streameval._uncertainty import Interval

_Reason = types_pb2.UndefinedReason

DEFAULT_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class MetricSelection:
    """The metrics of an answer and the kind of their intervals; a key of the answer's cache."""

    names: tuple[str, ...] = SNAPSHOT_NAMES
    level: float = DEFAULT_LEVEL
    anytime: bool = False


def select_metrics(
    names: Iterable[str],
    *,
    level: float,
    anytime: bool = False,
    default: Sequence[str] = SNAPSHOT_NAMES,
) -> MetricSelection:
    """Check the metrics that a request names.

    Parameters
    ----------
    names
        In the order of the answer, repetitions dropped; none means `default`.
    level
        Nominal coverage; 0 means 0.95.
    anytime
        Whether intervals hold at any number of looks (a confidence sequence).

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for an unknown name, or a level that is no probability.
    """
    chosen = tuple(dict.fromkeys(names))
    for index, name in enumerate(chosen):
        metric = BY_NAME.get(name)
        if metric is None or not metric.is_served:
            raise invalid(
                f"metrics[{index}]",
                f"no figure is called {quoted(name)}: choose from {', '.join(SERVED_NAMES)}",
            )
    return MetricSelection(chosen or tuple(default), checked_level(level), anytime)


def checked_level(level: float) -> float:
    """Return a level, 0.95 for 0; refuse one outside (0, 1)."""
    if level == 0:
        return DEFAULT_LEVEL
    if not 0 < level < 1:
        raise invalid("level", f"level must be between 0 and 1, got {level:g}")
    return level


def metric_messages(window: Window, selection: MetricSelection) -> list[types_pb2.Metric]:
    """Return the metrics. O(G) for each that the window has not cached."""
    return [_message(window, BY_NAME[name], selection) for name in selection.names]


def _message(window: Window, metric: Metric, selection: MetricSelection) -> types_pb2.Metric:
    name = metric.name
    try:
        value = metric.value(window)
    except InvalidInputError:  # scores outside [0, 1]
        return types_pb2.Metric(
            name=name, undefined_reason=_Reason.UNDEFINED_REASON_NOT_PROBABILITIES
        )
    if math.isnan(value):
        return types_pb2.Metric(name=name, undefined_reason=_reason(window, metric))
    message = types_pb2.Metric(name=name, value=value)
    if metric.interval:
        interval = window.interval(name, level=selection.level, anytime=selection.anytime)
        message.interval.CopyFrom(interval_message(interval))
    bounds = bounds_message(window, name)
    if bounds is not None:
        message.bounds.CopyFrom(bounds)
    return message


def _reason(window: Window, metric: Metric) -> _Reason.ValueType:
    reason = metric.undefined_reason(
        positives=window.num_positive_ref, negatives=window.num_negative_ref
    )
    return _Reason.Value(f"UNDEFINED_REASON_{reason}")


def reason_value(window: Window) -> _Reason.ValueType:
    """Return why a metric of ranks has no value."""
    reason = reason_of(window.num_positive_ref, window.num_negative_ref)
    return _Reason.Value(f"UNDEFINED_REASON_{reason}")


def interval_message(interval: Interval) -> types_pb2.Interval:
    """Return an interval as a message."""
    message = types_pb2.Interval(level=interval.level, anytime=interval.anytime)
    if interval.reason is None:
        message.lower, message.upper = interval.lower, interval.upper
    else:
        message.undefined_reason = _Reason.Value(f"UNDEFINED_REASON_{interval.reason}")
    if math.isfinite(interval.design_effect) and interval.design_effect != 1.0:
        message.design_effect = interval.design_effect
    if not math.isnan(interval.least_effect):
        message.min_design_effect = interval.least_effect
    return message


def dependence_warning_of(messages: Iterable[types_pb2.Metric]) -> str | None:
    """Return the warning of the interval that panes show to be the most too narrow, if any."""
    effects = [
        each.interval.min_design_effect
        for each in messages
        if each.interval.HasField("min_design_effect")
    ]
    return dependence_warning(max(effects, default=math.nan))


def bounds_message(
    window: Window, name: str, *, prevalence: float | None = None
) -> types_pb2.Bounds | None:
    """Return the limits of the exact metric; None where it is exact or has no bounds."""
    if window.resolution is None or not BY_NAME[name].bounds:
        return None
    at = {} if prevalence is None else {"prevalence": prevalence}
    lower, upper = window.bounds(name, **at)
    return None if math.isnan(lower) else types_pb2.Bounds(lower=lower, upper=upper)
