"""Detectors and their alarms as messages."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp

from streameval.v1 import alarm_pb2, types_pb2
from streameval_server._model.alarm_settings import time_range

if TYPE_CHECKING:
    from datetime import datetime

    from streameval import Alarm, Interval
    from streameval_server._model.stream_info import StreamInfo
    from streameval_server._state.views import AlarmsView


def alarm_id(info: StreamInfo, number: int) -> str:
    """Return an alarm's id, unique among all streams and servers. O(1).

    A restart and a copy of the server keep the id; an import gives the alarm another one.
    """
    name = f"streameval:{info.name}:{info.create_us}:{info.create_revision}:{number}"
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def alarm_message(info: StreamInfo, alarm: Alarm, *, delivered: bool) -> alarm_pb2.Alarm:
    """Return an alarm of a stream. O(segments)."""
    message = alarm_pb2.Alarm(
        number=alarm.number,
        id=alarm_id(info, alarm.number),
        stream=info.name,
        watch=alarm.watch,
        changed=alarm.changed,
        direction=alarm.direction,
        raised_at=_timestamp(alarm.raised_at),
        since=_timestamp(alarm.since),
        since_limits=types_pb2.TimeRange(
            start_time=_timestamp(alarm.earliest), end_time=_timestamp(alarm.latest)
        ),
        reference=alarm.reference,
        value=_figure(alarm.value),
        difference=_figure(alarm.difference),
        changed_first=alarm.changed_first,
        look_at=alarm.look_at,
        repeats=alarm.repeats,
        last_at=_timestamp(alarm.last_at),
        delivered=delivered,
        is_past=alarm.is_past,
    )
    for each in alarm.segments:
        key, _, value = each.segment.partition("=")
        message.segments.add(segment=types_pb2.Segment(key=key, value=value), e_value=each.e_value)
    for name in ("scores_changed_at", "labels_changed_at", "acknowledged_at"):
        at: datetime | None = getattr(alarm, name)
        if at is not None:
            getattr(message, name).CopyFrom(_timestamp(at))
    return message


def status_message(
    info: StreamInfo, view: AlarmsView, *, open_only: bool = False
) -> alarm_pb2.AlarmStatus:
    """Return a stream's detector with its alarms. O(alarms)."""
    state = alarm_pb2.ALARM_STATE_FIRING if view.num_open else alarm_pb2.ALARM_STATE_WATCHING
    message = alarm_pb2.AlarmStatus(
        stream=info.name,
        state=alarm_pb2.ALARM_STATE_WAITING if view.waits_for else state,
        waits_for=view.waits_for,
        reference=time_range(view.reference_us),
        left_out=view.left_out,
        warnings=view.warnings,
    )
    if view.since_us is not None:
        message.watching_since.FromMicroseconds(view.since_us)
    firing = {each.watch for each in view.alarms if each.is_open}
    for watch, share in view.evidence.items():
        message.evidence.add(watch=watch, share=share, firing=watch in firing)
    message.alarms.extend(
        alarm_message(info, each, delivered=each.number in view.delivered)
        for each in view.alarms
        if each.is_open or not open_only
    )
    return message


def _timestamp(at: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(at)
    return message


def _figure(interval: Interval) -> alarm_pb2.AlarmFigure:
    return alarm_pb2.AlarmFigure(
        estimate=interval.estimate, lower=interval.lower, upper=interval.upper
    )
