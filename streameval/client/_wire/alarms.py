"""Detectors and their alarms, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any, Literal

from streameval._common.result import Result
from streameval._drift.alarm import Alarm, DriftedSegment
from streameval._drift.change import LEVEL
from streameval._uncertainty.interval import Interval
from streameval.client._wire.reader import read, reads
from streameval.v1 import alarm_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


AlarmState = Literal["waiting", "watching", "firing"]


@dataclass(frozen=True, slots=True, eq=False)
class StreamAlarm(Alarm):
    """One alarm of a stream: an `Alarm`, and which it is.

    Attributes
    ----------
    stream : str
    id : str
        Tells alarms of all streams and servers apart.
    delivered : bool
        Whether a webhook has taken it.
    """

    stream: str = ""
    id: str = ""
    delivered: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        which = {"id": self.id, "stream": self.stream, "delivered": self.delivered}
        return {**which, **Alarm.to_dict(self)}

    def __str__(self) -> str:
        """Return the alarm in a few lines."""
        return f"{self.stream}: {Alarm.__str__(self)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlarmStatus(Result):
    """A stream's detector.

    Attributes
    ----------
    stream : str
    state : {"waiting", "watching", "firing"}
        Waiting for its reference; watching; or an alarm is open.
    waits_for : str
        Why it does not watch yet; "" once it does.
    reference : (datetime, datetime)
        The time that is compared with, or will be.
    watching_since : datetime or None
    evidence : mapping of str to float
        Each watch's evidence, as a share of what raises an alarm, from 0 to 1.
    alarms : tuple of StreamAlarm
        Those that are open, and the newest others, 32 at most; oldest first.
    left_out : int
        Rows with a weight, which are not watched.
    warnings : tuple of str
        What was seen in its reference: cases that depend on one another over hours.
    """

    stream: str
    state: AlarmState
    waits_for: str
    reference: tuple[datetime, datetime]
    watching_since: datetime | None
    evidence: Mapping[str, float] = field(default_factory=dict)
    alarms: tuple[StreamAlarm, ...] = ()
    left_out: int = 0
    warnings: tuple[str, ...] = ()


@reads(alarm_pb2.Alarm)
def read_alarm(message: alarm_pb2.Alarm) -> StreamAlarm:
    """Return an alarm."""
    limits = message.since_limits
    return read(
        message,
        StreamAlarm,
        earliest=limits.start_time.ToDatetime(UTC),
        latest=limits.end_time.ToDatetime(UTC),
    )


@reads(alarm_pb2.AlarmFigure)
def _interval(message: alarm_pb2.AlarmFigure) -> Interval:
    return Interval(message.lower, message.upper, LEVEL, "blocks", message.estimate)


@reads(alarm_pb2.DriftedSegment)
def _segment(message: alarm_pb2.DriftedSegment) -> DriftedSegment:
    return DriftedSegment(f"{message.segment.key}={message.segment.value}", message.e_value)


def read_status(message: alarm_pb2.AlarmStatus) -> AlarmStatus:
    """Return a stream's detector."""
    evidence = {each.watch: each.share for each in message.evidence}
    return read(message, AlarmStatus, evidence=evidence)
