"""The calls for alarms, and their answers as objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result
from streameval._common.values import shown
from streameval._drift.alarm import Alarm, DriftedSegment, First
from streameval._drift.change import LEVEL
from streameval._uncertainty.interval import Interval
from streameval.client._wire.calls import Call, PagedCall
from streameval.v1 import alarm_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

_PAGE_SIZE: Final = 1_000

AlarmState = Literal["waiting", "watching", "firing"]
STATES: dict[int, AlarmState] = {
    alarm_pb2.ALARM_STATE_WAITING: "waiting",
    alarm_pb2.ALARM_STATE_WATCHING: "watching",
    alarm_pb2.ALARM_STATE_FIRING: "firing",
}


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
    """

    stream: str
    state: AlarmState
    waits_for: str
    reference: tuple[datetime, datetime]
    watching_since: datetime | None
    evidence: Mapping[str, float] = field(default_factory=dict)
    alarms: tuple[StreamAlarm, ...] = ()
    left_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        since = self.watching_since
        return {
            "stream": self.stream,
            "state": self.state,
            "waits_for": self.waits_for,
            "reference": [at.isoformat() for at in self.reference],
            "watching_since": None if since is None else since.isoformat(),
            "evidence": dict(self.evidence),
            "alarms": [each.to_dict() for each in self.alarms],
            "left_out": self.left_out,
        }


def list_alarms(stream: str, prefix: str, *, open_only: bool) -> PagedCall[list[AlarmStatus]]:
    """Return the calls for the detectors of one stream or of all, page by page."""
    request = alarm_pb2.ListAlarmsRequest(
        stream=stream, prefix=prefix, open_only=open_only, page_size=_PAGE_SIZE
    )
    found: list[AlarmStatus] = []
    while True:
        response: alarm_pb2.ListAlarmsResponse = yield Call(
            "StreamService", "ListAlarms", request, lambda response: response
        )
        found += map(_read_status, response.statuses)
        if not response.next_page_token:
            return found
        request.page_token = response.next_page_token


def acknowledge_alarm(stream: str, number: int) -> Call[StreamAlarm]:
    """Return the call that acknowledges an alarm."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**32:
        message = f"number must be an alarm's number, got {shown(number)}"
        raise InvalidInputError(message, field="number")
    request = alarm_pb2.AcknowledgeAlarmRequest(stream=stream, number=number)
    return Call(
        "StreamService",
        "AcknowledgeAlarm",
        request,
        lambda response: _read_alarm(response.alarm),
    )


def _read_status(message: alarm_pb2.AlarmStatus) -> AlarmStatus:
    since = _time(message, "watching_since") if message.HasField("watching_since") else None
    return AlarmStatus(
        stream=message.stream,
        state=STATES[message.state],
        waits_for=message.waits_for,
        reference=(_time(message.reference, "start_time"), _time(message.reference, "end_time")),
        watching_since=since,
        evidence={each.watch: each.share for each in message.evidence},
        alarms=tuple(map(_read_alarm, message.alarms)),
        left_out=message.left_out,
    )


def _read_alarm(message: alarm_pb2.Alarm) -> StreamAlarm:
    directions: dict[str, Literal["fell", "rose"]] = {"fell": "fell", "rose": "rose"}
    first: dict[str, First] = {each: each for each in ("scores", "labels", "neither")}
    optional = {
        name: _time(message, name) if message.HasField(name) else None
        for name in ("scores_changed_at", "labels_changed_at", "acknowledged_at")
    }
    return StreamAlarm(
        number=message.number,
        watch=message.watch,
        changed=message.changed,
        direction=directions[message.direction],
        raised_at=_time(message, "raised_at"),
        since=_time(message, "since"),
        earliest=_time(message.since_limits, "start_time"),
        latest=_time(message.since_limits, "end_time"),
        reference=message.reference,
        value=_interval(message.value),
        difference=_interval(message.difference),
        segments=tuple(
            DriftedSegment(f"{each.segment.key}={each.segment.value}", each.e_value)
            for each in message.segments
        ),
        changed_first=first[message.changed_first],
        look_at=message.look_at,
        repeats=message.repeats,
        last_at=_time(message, "last_at"),
        stream=message.stream,
        id=message.id,
        delivered=message.delivered,
        **optional,
    )


def _interval(message: alarm_pb2.AlarmFigure) -> Interval:
    return Interval(message.lower, message.upper, LEVEL, "blocks", message.estimate)


def _time(message: Message, name: str) -> datetime:
    found: datetime = getattr(message, name).ToDatetime(UTC)
    return found
