"""Alarms as bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from streameval._common.frame import raise_corrupt
from streameval._drift.alarm import Alarm, DriftedSegment, First
from streameval._drift.change import LEVEL
from streameval._drift.watches import BY_CODE, WATCHES
from streameval._time.times import MAX_TIME_US, to_datetime, to_us
from streameval._uncertainty.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from streameval._common.frame import Reader
    from streameval._drift.settings import DriftSettings

_ALARM = struct.Struct("<IBBBIH8q7d")
_SEGMENT = struct.Struct("<Hd")
_PAST: Final = 0x80
"""Added to the number of the side of an alarm that is past."""
_FIRST: Final[tuple[First, ...]] = ("scores", "labels", "neither")


def encode_alarm(alarm: Alarm, places: Mapping[str, int]) -> bytes:
    """Return an alarm as bytes; `places` has the index of each segment's name. O(segments)."""
    watch = WATCHES[alarm.watch]
    side = next(
        place
        for place, each in enumerate(watch.sides)
        if watch.titles[place] == alarm.changed
        and ("rose" if each.is_mirrored else "fell") == alarm.direction
    )
    return _ALARM.pack(
        alarm.number,
        watch.code,
        side | (_PAST if alarm.is_past else 0),
        _FIRST.index(alarm.changed_first),
        alarm.repeats,
        len(alarm.segments),
        to_us(alarm.raised_at),
        to_us(alarm.since),
        to_us(alarm.earliest),
        to_us(alarm.latest),
        to_us(alarm.last_at),
        *(
            -1 if at is None else to_us(at)
            for at in (alarm.scores_changed_at, alarm.labels_changed_at, alarm.acknowledged_at)
        ),
        alarm.reference,
        *alarm.value,
        alarm.value.estimate,
        *alarm.difference,
        alarm.difference.estimate,
    ) + b"".join(_SEGMENT.pack(places[each.segment], each.e_value) for each in alarm.segments)


def decode_alarm(reader: Reader, settings: DriftSettings, names: Sequence[str]) -> Alarm:
    """Read an alarm, or refuse it. O(segments)."""
    number, code, side, first, repeats, segments, *rest = reader.fields(_ALARM)
    times, values = rest[:8], rest[8:]
    is_past, side = bool(side & _PAST), side & ~_PAST
    watch = BY_CODE.get(code)
    if (
        watch not in settings.watches
        or watch is None
        or side >= len(watch.sides)
        or first >= len(_FIRST)
        or not all(0 <= at <= MAX_TIME_US for at in times[:5])
        or not all(-1 <= at <= MAX_TIME_US for at in times[5:])
    ):
        raise_corrupt("an alarm of the detector is out of range")
    found = []
    for _ in range(segments):
        place, e_value = reader.fields(_SEGMENT)
        if place >= len(names):
            raise_corrupt("an alarm names an unknown segment")
        found.append(DriftedSegment(names[place], e_value))
    raised, since, earliest, latest, last = map(to_datetime, times[:5])
    scores, labels, closed = map(_time, times[5:])
    return Alarm(
        number=number,
        watch=watch.name,
        changed=watch.titles[side],
        direction="rose" if watch.sides[side].is_mirrored else "fell",
        raised_at=raised,
        since=since,
        earliest=earliest,
        latest=latest,
        reference=values[0],
        value=Interval(values[1], values[2], LEVEL, "blocks", values[3]),
        difference=Interval(values[4], values[5], LEVEL, "blocks", values[6]),
        segments=tuple(found),
        changed_first=_FIRST[first],
        scores_changed_at=scores,
        labels_changed_at=labels,
        look_at=watch.look_at,
        repeats=repeats,
        last_at=last,
        acknowledged_at=closed,
        is_past=is_past,
    )


def _time(at_us: int) -> datetime | None:
    return None if at_us < 0 else to_datetime(at_us)
