"""The settings of a stream's detector, as an object and as a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result
from streameval._common.spans import read_span
from streameval._common.values import real, shown
from streameval.client._wire.reader import read, reads
from streameval.client._wire.selection import duration, time_range
from streameval.v1 import alarm_pb2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlarmSettings(Result):
    """Which changes of a stream raise an alarm, and how rare a false one shall be.

    After a change of these settings, detection starts again with a new reference; it
    also does after a change of the stream's threshold, if a watch uses the threshold.

    Attributes
    ----------
    watches : mapping of str to float
        What is watched, as `DriftDetector` names it, and the tolerance of each.
    mean_time_to_false_alarm : timedelta
        Each time is a timedelta, or given as a text such as ``"365d"``.
        The mean time for all watches together.
    pane : timedelta
        The time of one observation; cases that depend on one another should be in one.
    maturity : timedelta
        How long after its end a pane waits for labels, at most 48 panes.
    reference : (datetime, datetime) or None
        The time to compare with, [start, end); None for the 7 days from when the settings
        are made.
    label_wait : timedelta or None
        How long after its end the reference waits for labels; None for the stream's
        ``label_ttl`` where rows come by id, else no time.

    Examples
    --------
    >>> settings = AlarmSettings(watches={"auc_roc": 0.01, "precision": 0.03})
    >>> settings.mean_time_to_false_alarm.days
    365
    """

    watches: Mapping[str, float]
    mean_time_to_false_alarm: timedelta = timedelta(days=365)
    pane: timedelta = timedelta(minutes=1)
    maturity: timedelta = timedelta(0)
    reference: tuple[datetime, datetime] | None = None
    label_wait: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("mean_time_to_false_alarm", "pane", "maturity", "label_wait"):
            span = getattr(self, name)
            if isinstance(span, str):
                object.__setattr__(self, name, read_span(span, name))

    def to_message(self) -> alarm_pb2.AlarmSettings:
        """Return them as a message.

        Raises
        ------
        InvalidInputError
            When a value has the wrong type; the server refuses what is out of range.
        """
        if not isinstance(self.watches, Mapping):
            message = f"watches must map names to tolerances, got {shown(self.watches)}"
            raise InvalidInputError(message, field="watches")
        made = alarm_pb2.AlarmSettings(
            watches=[
                alarm_pb2.AlarmWatch(name=str(name), tolerance=real(each, "watches"))
                for name, each in self.watches.items()
            ],
            mean_time_to_false_alarm=duration(
                self.mean_time_to_false_alarm, field="mean_time_to_false_alarm"
            ),
            pane=duration(self.pane, field="pane"),
        )
        if self.maturity:
            made.maturity.CopyFrom(duration(self.maturity, field="maturity"))
        if self.reference is not None:
            if not (isinstance(self.reference, tuple | list) and len(self.reference) == 2):
                message = f"reference must be (start, end), got {shown(self.reference)}"
                raise InvalidInputError(message, field="reference")
            made.reference.CopyFrom(time_range(*self.reference))
        if self.label_wait is not None:
            made.label_wait.CopyFrom(Duration())  # zero waits for none, and is not the default
            if self.label_wait:
                made.label_wait.CopyFrom(duration(self.label_wait, field="label_wait"))
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return them as values that JSON has: spans in seconds, times as ISO 8601."""
        reference, wait = self.reference, self.label_wait
        return {
            "watches": dict(self.watches),
            "mean_time_to_false_alarm_s": self.mean_time_to_false_alarm.total_seconds(),
            "pane_s": self.pane.total_seconds(),
            "maturity_s": self.maturity.total_seconds(),
            "reference": None if reference is None else [at.isoformat() for at in reference],
            "label_wait_s": None if wait is None else wait.total_seconds(),
        }


@reads(alarm_pb2.AlarmSettings)
def _read_settings(message: alarm_pb2.AlarmSettings) -> AlarmSettings:
    return read(
        message, AlarmSettings, watches={each.name: each.tolerance for each in message.watches}
    )
