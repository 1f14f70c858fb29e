"""Which changes of a stream raise an alarm: the settings of its detector.

The detector is the library's; these are its settings, the reference to freeze, and how long
to wait for the labels of that.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from google.protobuf.duration_pb2 import Duration

from streameval import InvalidInputError
from streameval.kernel import MAX_TIME_US, quantise
from streameval.statistics import DriftSettings
from streameval.v1 import alarm_pb2, stream_pb2, types_pb2

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from streameval.kernel import Scale

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US

REFERENCE_US = 7 * _DAY_US
"""The reference where no time is given: from when the settings are made."""

_MAX_SPAN_DAYS = 3_660
_MAX_MEAN_TIME_DAYS = 366_000
"""A thousand years: one false alarm a month in all of ten thousand streams."""

_KEPT_NAMES = {"auc_roc": "placement"}
"""The names of watches in logs, checkpoints and exports, where they are other ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSettings:
    """The settings of a stream's detector.

    Attributes
    ----------
    watches : tuple of (str, float)
        What is watched, and the tolerance of each.
    mean_time_to_false_alarm_us : int
    pane_us : int
        The time of one observation.
    maturity_us : int
        How long after its end a pane waits for labels.
    reference_us : (int, int) or None
        The time to compare with, [start, end); None for the week from when they are made.
    label_wait_us : int or None
        How long after its end the reference waits for labels; None for `label_ttl` where rows
        come by id, else 0.
    """

    watches: tuple[tuple[str, float], ...]
    mean_time_to_false_alarm_us: int = 365 * _DAY_US
    pane_us: int = 60 * _SECOND_US
    maturity_us: int = 0
    reference_us: tuple[int, int] | None = None
    label_wait_us: int | None = None

    @classmethod
    def of_message(cls, message: alarm_pb2.AlarmSettings) -> Self:
        """Parse a message; fields that are not set get their defaults. `check` is to follow."""
        given: dict[str, Any] = {}
        for descriptor, value in message.ListFields():
            if isinstance(value, Duration):
                given[f"{descriptor.name}_us"] = value.seconds * _SECOND_US + value.nanos // 1_000
            elif descriptor.name == "reference":
                given["reference_us"] = (_time_us(value.start_time), _time_us(value.end_time))
        return cls(watches=tuple((each.name, each.tolerance) for each in message.watches), **given)

    def to_message(self) -> alarm_pb2.AlarmSettings:
        """Encode all settings as a message."""
        message = alarm_pb2.AlarmSettings(
            watches=[alarm_pb2.AlarmWatch(name=name, tolerance=each) for name, each in self.watches]
        )
        for name in ("mean_time_to_false_alarm", "pane", "maturity", "label_wait"):
            value_us = getattr(self, f"{name}_us")
            if value_us is not None:
                getattr(message, name).FromMicroseconds(value_us)
        if self.reference_us is not None:
            message.reference.CopyFrom(time_range(self.reference_us))
        return message

    def to_fields(self) -> dict[str, Any]:
        """Return all settings by name, as checkpoints and exports keep them."""
        watches = tuple((_KEPT_NAMES.get(name, name), each) for name, each in self.watches)
        return asdict(self) | {"watches": watches}

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the settings that `to_fields` returned, also after JSON.

        Raises
        ------
        LookupError, TypeError, ValueError
            When they are not.
        """
        watches = tuple((_current(str(name)), float(each)) for name, each in fields["watches"])
        reference = fields["reference_us"]
        wait = fields["label_wait_us"]
        return cls(
            watches=watches,
            reference_us=None if reference is None else (int(reference[0]), int(reference[1])),
            label_wait_us=None if wait is None else int(wait),
            **{
                name: int(fields[name])
                for name in ("mean_time_to_false_alarm_us", "pane_us", "maturity_us")
            },
        )

    @property
    def needs_threshold(self) -> bool:
        """Whether a watch is of the declared threshold."""
        return any(DriftSettings.WATCHES[name].needs_threshold for name, _ in self.watches)

    def check(self, *, scale: Scale, threshold: float | None, resolution: int) -> None:
        """Refuse settings that are out of range or contradict each other.

        Raises
        ------
        InvalidInputError
            With the first one at fault.
        """
        if self.reference_us is not None:
            start_us, end_us = self.reference_us
            if not 0 < start_us < end_us <= MAX_TIME_US:
                message = "reference must have a start_time, and an end_time after it"
                raise InvalidInputError(message, field="reference")
        for name in ("mean_time_to_false_alarm", "pane", "maturity", "label_wait"):
            value_us = getattr(self, f"{name}_us")
            least = 0 if name in {"maturity", "label_wait"} else _SECOND_US
            is_mean_time = name == "mean_time_to_false_alarm"
            most_days = _MAX_MEAN_TIME_DAYS if is_mean_time else _MAX_SPAN_DAYS
            if value_us is not None and not least <= value_us <= most_days * _DAY_US:
                message = (
                    f"{name} must be from {least // _SECOND_US} s to {most_days} d, "
                    f"got {value_us / _SECOND_US:g} s"
                )
                raise InvalidInputError(message, field=name)
        self.drift_settings(
            scale=scale, threshold=threshold, resolution=resolution, has_clusters=False
        )

    def drift_settings(
        self, *, scale: Scale, threshold: float | None, resolution: int, has_clusters: bool
    ) -> DriftSettings:
        """Return the settings of a detector for a stream with this scale, threshold and so on.

        Panes keep the reference's scores by cell. So the threshold is moved to the lower edge of
        its cell: then it flags a live score exactly where it flags the reference's.

        Raises
        ------
        InvalidInputError
            As `check`.
        """
        names = [name for name, _ in self.watches]
        known = [name for name in names if name in DriftSettings.WATCHES]
        if threshold is not None and any(
            DriftSettings.WATCHES[name].needs_threshold for name in known
        ):
            threshold = float(quantise(np.array([threshold]), resolution, scale)[0])
        else:
            threshold = None
        return DriftSettings.of(
            watch=names,
            tolerance=dict(self.watches),
            mean_time_to_false_alarm=timedelta(microseconds=self.mean_time_to_false_alarm_us),
            threshold=threshold,
            pane=timedelta(microseconds=self.pane_us),
            maturity=timedelta(microseconds=self.maturity_us),
            clusters=has_clusters,
            scale=scale,
        )


def with_current_names(settings: stream_pb2.StreamSettings) -> stream_pb2.StreamSettings:
    """Return the settings of a row of the log, with its watches called as they are now."""
    for each in settings.alarms.watches:
        each.name = _current(each.name)
    return settings


def _current(name: str) -> str:
    return next((now for now, kept in _KEPT_NAMES.items() if kept == name), name)


def time_range(span_us: tuple[int, int]) -> types_pb2.TimeRange:
    """Return a time as a message."""
    found = types_pb2.TimeRange()
    found.start_time.FromMicroseconds(span_us[0])
    found.end_time.FromMicroseconds(span_us[1])
    return found


def _time_us(time: Timestamp) -> int:
    # Not ToMicroseconds, which raises for a time out of range; `check` refuses those.
    return time.seconds * _SECOND_US + time.nanos // 1_000
