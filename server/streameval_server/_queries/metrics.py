"""Metrics of a window by name: a value or a reason, an interval, bounds. Never NaN.

The reason says why a metric has no value: nothing was counted, a class is absent, or
the metric reads scores as probabilities and they are none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streameval import InvalidInputError
from streameval.checks import quoted
from streameval.kernel import quantise, state_of
from streameval.statistics import BY_NAME, HEADLINE, ErrorCosts, Metric, Place, dependence_warning
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streameval import Interval, Window
    from streameval_server._model.stream_settings import StreamSettings

_Reason = types_pb2.UndefinedReason

DEFAULT_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class MetricSelection:
    """The metrics of an answer and the kind of their intervals; a key of the answer's cache.

    Attributes
    ----------
    names : tuple of str
    level : float
    anytime : bool
    is_default : bool
        Whether the request named none, so that a stream's declared threshold adds rates, and
        its declared costs add what errors cost.
    threshold : float or None
        The request's, else the stream's declared one.
    costs : ErrorCosts or None
        The request's, else the stream's declared ones.
    bare : tuple of str
        Metrics without intervals and bounds.
    """

    names: tuple[str, ...] = Place.SNAPSHOT.names()
    level: float = DEFAULT_LEVEL
    anytime: bool = False
    is_default: bool = False
    threshold: float | None = None
    costs: ErrorCosts | None = None
    bare: tuple[str, ...] = ()

    def at(self, declared: StreamSettings) -> MetricSelection:
        """Return the selection for a stream, with its declared threshold and costs. O(1)."""
        threshold = declared.threshold if self.threshold is None else self.threshold
        if threshold is None:
            return self
        costs = declared.costs if self.costs is None else self.costs
        names = self.names
        if self.is_default:
            names += Place.POINT.names(known_arguments(costs))
        return replace(self, names=names, threshold=threshold, costs=costs)


def select_metrics(
    names: Iterable[str],
    *,
    level: float,
    anytime: bool = False,
    default: Sequence[str] = Place.SNAPSHOT.names(),
    threshold: float | None = None,
    costs: ErrorCosts | None = None,
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
    threshold, costs
        In place of the stream's.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for an unknown name, a level that is no probability, or a threshold
        that is NaN.
    """
    chosen = tuple(dict.fromkeys(names))
    known = (*Place.REQUEST.names(), *Place.DECISION.names())
    for index, name in enumerate(chosen):
        if name not in known:
            message = f"no figure is called {quoted(name)}: choose from {', '.join(known)}"
            raise invalid(f"metrics[{index}]", message)
    if threshold is not None and math.isnan(threshold):
        raise invalid("threshold", "threshold must not be NaN, got nan")
    return MetricSelection(
        chosen or tuple(default),
        checked_level(level),
        anytime,
        is_default=not chosen,
        threshold=threshold,
        costs=costs,
    )


def known_arguments(costs: ErrorCosts | None) -> tuple[str, ...]:
    """Return what a metric is given where there is a threshold, and perhaps costs."""
    return ("threshold", *(() if costs is None else costs._fields))


def requested_costs(
    request: query_pb2.GetDecisionRequest | query_pb2.ListWindowsRequest,
) -> ErrorCosts | None:
    """Return the costs that a request gives; None where it leaves them to the stream.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when one is negative or not finite, or both are 0.
    """
    if not request.HasField("error_costs"):
        return None
    costs = ErrorCosts(request.error_costs.false_positive, request.error_costs.false_negative)
    for name, cost in zip(("false_positive", "false_negative"), costs, strict=True):
        if not (math.isfinite(cost) and cost >= 0):
            field = f"error_costs.{name}"
            raise invalid(field, f"{field} must be finite and 0 or more, got {cost:g}")
    if not any(costs):
        message = "error_costs must not both be 0"
        raise invalid("error_costs.false_negative", message)
    return costs


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
    if metric.is_at_threshold:
        return _at_threshold(window, metric, selection)
    try:
        value = metric.value(window)
    except InvalidInputError:  # scores outside [0, 1]
        return types_pb2.Metric(
            name=name, undefined_reason=_Reason.UNDEFINED_REASON_NOT_PROBABILITIES
        )
    if math.isnan(value):
        return types_pb2.Metric(name=name, undefined_reason=_reason(window, metric))
    message = types_pb2.Metric(name=name, value=value)
    if name in selection.bare:
        return message
    if metric.interval:
        interval = window.interval(name, level=selection.level, anytime=selection.anytime)
        message.interval.CopyFrom(interval_message(interval))
    bounds = bounds_message(window, name)
    if bounds is not None:
        message.bounds.CopyFrom(bounds)
    return message


def _at_threshold(window: Window, metric: Metric, selection: MetricSelection) -> types_pb2.Metric:
    """Return a rate, or what errors cost, at the stream's threshold."""
    if selection.threshold is None:
        return types_pb2.Metric(
            name=metric.name, undefined_reason=_Reason.UNDEFINED_REASON_NO_THRESHOLD
        )
    if metric.is_cost and selection.costs is None:
        return types_pb2.Metric(
            name=metric.name, undefined_reason=_Reason.UNDEFINED_REASON_NO_COSTS
        )
    return point_metric(
        window,
        metric.name,
        lowest_score(window, selection.threshold),
        selection.costs,
        level=selection.level,
        anytime=selection.anytime,
    )


def point_metric(
    window: Window,
    name: str,
    threshold: float,
    costs: ErrorCosts | None,
    *,
    level: float,
    anytime: bool = False,
) -> types_pb2.Metric:
    """Return a metric at a threshold, which was chosen on other cases. O(log K)."""
    metric = BY_NAME[name]
    arguments = {} if costs is None or not metric.is_cost else costs._asdict()
    value = metric.function(window, threshold=threshold, **arguments)
    if math.isnan(value):
        return types_pb2.Metric(name=name, undefined_reason=_reason(window, metric))
    interval = window.interval(name, threshold=threshold, level=level, anytime=anytime, **arguments)
    return types_pb2.Metric(name=name, value=value, interval=interval_message(interval))


def lowest_score(window: Window, threshold: float) -> float:
    """Return the lowest score that a threshold calls positive. O(1).

    Where scores keep few bits a case counts at the lower edge of its cell, and the cell of
    the threshold is called positive whole: scores that equal the threshold are in it. A
    threshold beyond all scores of the scale is in no cell: it calls none positive, or all.
    """
    view = state_of(window)
    is_beyond = math.isinf(threshold) or (view.scale == "probability" and not 0 <= threshold <= 1)
    if view.resolution is None or is_beyond:
        return threshold
    return float(quantise(np.array([threshold]), view.resolution, view.scale)[0])


def operating_point(
    window: Window, threshold: float, costs: ErrorCosts | None
) -> types_pb2.OperatingPoint:
    """Return what a declared threshold does, and what errors cost. O(log K)."""
    return point_message(window, threshold, lowest_score(window, threshold), costs)


def point_message(
    window: Window, threshold: float, lowest: float, costs: ErrorCosts | None
) -> types_pb2.OperatingPoint:
    """Return what a threshold does that calls the scores from `lowest` on positive. O(log K)."""
    found = window.confusion_at(lowest)
    return types_pb2.OperatingPoint(
        **({} if costs is None else costs._asdict()),
        threshold=threshold,
        lowest_score=lowest,
        tp=found.tp,
        fp=found.fp,
        fn=found.fn,
        tn=found.tn,
    )


def _reason(window: Window, metric: Metric) -> _Reason.ValueType:
    reason = metric.undefined_reason(
        positives=window.num_positive_ref, negatives=window.num_negative_ref
    )
    return undefined_reason(reason)


def undefined_reason(reason: str) -> _Reason.ValueType:
    """Return the library's reason why there is no figure or no interval, as the contract's."""
    return _Reason.Value(f"UNDEFINED_REASON_{reason}")


def reason_value(window: Window) -> _Reason.ValueType:
    """Return why a metric of ranks has no value."""
    return _reason(window, BY_NAME[HEADLINE])


def interval_message(interval: Interval) -> types_pb2.Interval:
    """Return an interval as a message."""
    message = types_pb2.Interval(level=interval.level, anytime=interval.anytime)
    if interval.reason is None:
        message.lower, message.upper = interval.lower, interval.upper
    else:
        message.undefined_reason = undefined_reason(interval.reason)
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


def weights_message(window: Window) -> types_pb2.Weights | None:
    """Return what the references weigh; None where each weighs 1. O(n), cached."""
    weights = window.weights
    return None if weights is None else types_pb2.Weights(**weights._asdict())


def bounds_message(
    window: Window, name: str, *, prevalence: float | None = None
) -> types_pb2.Bounds | None:
    """Return the limits of the exact metric; None where it is exact or has no bounds."""
    if window.resolution is None or not BY_NAME[name].bounds:
        return None
    at = {} if prevalence is None else {"prevalence": prevalence}
    lower, upper = window.bounds(name, **at)
    return None if math.isnan(lower) else types_pb2.Bounds(lower=lower, upper=upper)
