"""What a webhook is told: alarms that were raised, and verdicts whose quality changed.

The content of an id never differs: receivers may drop a second one without reading it. So an
alarm has only what does not change once it is raised; and the id of a verdict's change follows
from its content, which is kept until the receiver has taken it.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict

from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.verdict_change import VerdictChange
from streameval_server._queries.alarms import alarm_id, alarm_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval import Alarm
    from streameval.v1 import verdict_pb2
    from streameval_server._ingest.unary_call import UnaryCall
    from streameval_server._model.stream_info import StreamInfo

_FIXED = (
    *("number", "id", "stream", "watch", "changed", "direction", "raisedAt", "since"),
    *("sinceLimits", "reference", "value", "difference", "changedFirst"),
    *("scoresChangedAt", "labelsChangedAt", "lookAt"),
)
"""What an alarm says for ever: the segments that explain it, its repeats and its acknowledgement
may still change."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a webhook is to take.

    Attributes
    ----------
    id : str
    at : datetime
        When it happened: the oldest is sent first.
    body : callable
        Returns it.
    record : callable
        Submits to the log that it was taken.
    """

    id: str
    at: datetime
    body: Callable[[], bytes]
    record: Callable[[UnaryCall], None]


def alarm_event(info: StreamInfo, alarm: Alarm) -> Event:
    """Return an alarm that was raised. O(1)."""
    change = AlarmChange(alarm.number, is_delivery=True)
    return Event(
        alarm_id(info, alarm.number),
        alarm.raised_at,
        partial(_alarm_body, info, alarm),
        lambda call: call.change_alarm(info.name, change),
    )


def _alarm_body(info: StreamInfo, alarm: Alarm) -> bytes:
    message = alarm_message(info, alarm, delivered=False)
    known = MessageToDict(message, always_print_fields_with_no_presence=True)
    data = {name: known[name] for name in _FIXED if name in known}
    return _body("alarm.raised", data["raisedAt"], data)


def verdict_event(stream: str, verdict: verdict_pb2.Verdict, told: str, quality: str) -> Event:
    """Return a verdict whose quality is another one than what was told last. O(segments)."""
    data = MessageToDict(verdict, always_print_fields_with_no_presence=True)
    data["previous"] = told
    body = _body("verdict.changed", data["at"], data)
    change = VerdictChange(told=quality)
    return Event(
        str(uuid.uuid5(uuid.NAMESPACE_URL, body.decode())),
        verdict.at.ToDatetime(UTC),
        partial(bytes, body),
        lambda call: call.change_verdict(stream, change),
    )


def _body(kind: str, timestamp: str, data: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "timestamp": timestamp, "data": data}).encode()
