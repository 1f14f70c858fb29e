"""Figures of a window by name: a value or a reason, an interval, a certificate. Never NaN.

A reason is what keeps the figure from having a value: nothing was counted, a
class is absent, or scores that it reads as probabilities are none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import InvalidInputError
from streameval._common import quoted
from streameval._metric_registry import COMPUTE, METRICS
from streameval._snapshot import FIGURES, reason_of
from streameval._uncertainty import BOUNDED_FIGURES
from streameval._uncertainty import NAMES as WITH_INTERVAL
from streameval.v1 import types_pb2
from streameval_server._model.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streameval._time import Window
    from streameval._uncertainty import Interval

_Reason = types_pb2.UndefinedReason

DEFAULT_LEVEL = 0.95

_OF_CASES = ("brier_score", "log_loss")
"""Figures of what was scored: misses do not count."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which figures, and how their intervals are to be. Equal ones ask for the same."""

    names: tuple[str, ...] = FIGURES
    level: float = DEFAULT_LEVEL
    anytime: bool = False


def wanted(
    names: Iterable[str], *, level: float, anytime: bool = False, default: Sequence[str] = FIGURES
) -> Wanted:
    """Check what a request asks for.

    Parameters
    ----------
    names
        In the order of the answer; none means `default`. Twice is once.
    level
        Nominal coverage; 0 means 0.95.
    anytime
        Whether intervals hold however often one looks.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for an unknown name, or a level that is no probability.
    """
    chosen = tuple(dict.fromkeys(names))
    for index, name in enumerate(chosen):
        if name not in COMPUTE:
            raise invalid(
                f"metrics[{index}]",
                f"no figure is called {quoted(name)}: choose from {', '.join(METRICS)}",
            )
    return Wanted(chosen or tuple(default), checked_level(level), anytime)


def checked_level(level: float) -> float:
    """Return a level, 0.95 for 0; refuse what is no probability."""
    if level == 0:
        return DEFAULT_LEVEL
    if not 0 < level < 1:
        raise invalid("level", f"level must be between 0 and 1, got {level:g}")
    return level


def metric_messages(window: Window, asked: Wanted) -> list[types_pb2.Metric]:
    """Return the figures. O(G) for each that was not computed before."""
    return [_metric(window, name, asked) for name in asked.names]


def _metric(window: Window, name: str, asked: Wanted) -> types_pb2.Metric:
    try:
        value = COMPUTE[name](window)
    except InvalidInputError:  # scores outside [0, 1]
        return types_pb2.Metric(
            name=name, undefined_reason=_Reason.UNDEFINED_REASON_NOT_PROBABILITIES
        )
    if math.isnan(value):
        return types_pb2.Metric(name=name, undefined_reason=_reason(window, name))
    message = types_pb2.Metric(name=name, value=value)
    if name in WITH_INTERVAL:
        interval = window.interval(name, level=asked.level, anytime=asked.anytime)
        message.interval.CopyFrom(interval_message(interval))
    bounds = bounds_message(window, name)
    if bounds is not None:
        message.bounds.CopyFrom(bounds)
    return message


def _reason(window: Window, name: str) -> _Reason.ValueType:
    if name in _OF_CASES:
        return _Reason.UNDEFINED_REASON_EMPTY
    return reason_value(window)


def reason_value(window: Window) -> _Reason.ValueType:
    """Return why a figure of ranks has no value."""
    reason = reason_of(positives=window.num_positive_ref, negatives=window.num_negative_ref)
    return _Reason.Value(f"UNDEFINED_REASON_{reason}")


def interval_message(interval: Interval) -> types_pb2.Interval:
    """Return an interval as a message."""
    message = types_pb2.Interval(level=interval.level, anytime=interval.anytime)
    if interval.reason is None:
        message.lower, message.upper = interval.lower, interval.upper
    else:
        message.undefined_reason = _Reason.Value(f"UNDEFINED_REASON_{interval.reason}")
    return message


def bounds_message(
    window: Window, name: str, *, prevalence: float | None = None
) -> types_pb2.Bounds | None:
    """Return what the exact figure lies within; None where it is exact or none are known."""
    if window.resolution is None or name not in BOUNDED_FIGURES:
        return None
    at = {} if prevalence is None else {"prevalence": prevalence}
    lower, upper = window.bounds(name, **at)
    return None if math.isnan(lower) else types_pb2.Bounds(lower=lower, upper=upper)
