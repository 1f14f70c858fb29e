"""Selections: which cases of a stream an answer covers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from streameval._common.errors import InvalidInputError
from streameval._common.spans import Segment, Span, parse_segment, read_span
from streameval._counts.columns import check_count
from streameval._time.times import span_us, to_us
from streameval.client._buffer.checks import check_stream_name
from streameval.v1 import types_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Window = Span | tuple[datetime, datetime] | int | None
"""The last hour, a span [start, end), the last n labelled cases, or all time."""


class Part(TypedDict, total=False):
    """Which cases of a stream a verb is about, as of `Selection`; all of them by default."""

    window: Window
    half_life: Span | None
    segment: Segment | None
    mature_after: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A part of the cases of one stream.

    Attributes
    ----------
    stream : str
        Name of the stream.
    window : timedelta or text, (datetime, datetime), int or None
        ``"7d"`` or a timedelta: the time up to the present by the server's clock; a span
        [start, end), widened to whole panes; the newest panes that together hold this
        number of labelled cases; or, None, all time since the stream was created.
    half_life : timedelta, text or None
        In place of a window: all cases that are kept, each pane weighted by
        2^(-age / half_life).
    segment : text, (str, str) or None
        One slice, ``"country=US"`` or ``("country", "US")``; None is the whole.
    mature_after : timedelta, text or None
        Leaves out younger cases, whose labels had less time than this to arrive.
        Not for all time.

    Raises
    ------
    InvalidInputError
        When an attribute is invalid, or window and half_life are both given.

    Examples
    --------
    >>> selection = Selection(stream="fraud/v3", window="1h", segment="country=US")
    >>> selection.window, selection.segment
    (datetime.timedelta(seconds=3600), ('country', 'US'))
    """

    stream: str
    window: Window = None
    half_life: Span | None = None
    segment: Segment | None = None
    mature_after: Span | None = None

    def __post_init__(self) -> None:
        check_stream_name(self.stream)
        for name in ("window", "half_life", "mature_after"):
            text = getattr(self, name)
            if isinstance(text, str):
                object.__setattr__(self, name, read_span(text, name))
        if isinstance(self.segment, str):
            object.__setattr__(self, "segment", parse_segment(self.segment, "segment"))
        self.to_message(0)

    def to_message(self, min_revision: int) -> types_pb2.Selection:
        """Return the selection as a message; queries wait until the log has `min_revision`."""
        message = types_pb2.Selection(stream=self.stream, min_revision=min_revision)
        window = self.window
        if self.half_life is not None:
            if window is not None:
                raise InvalidInputError("give a window or a half_life, not both", field="half_life")
            message.half_life.CopyFrom(duration(self.half_life, field="half_life"))
        elif isinstance(window, timedelta | str):
            message.last.CopyFrom(duration(window, field="window"))
        elif isinstance(window, tuple):
            message.between.CopyFrom(_between(window))
        elif isinstance(window, int) and not isinstance(window, bool):
            message.last_cases = check_count(window, field="window")
            if not window:
                raise InvalidInputError("window must be at least 1 case, got 0", field="window")
        elif window is not None:
            raise InvalidInputError(
                'window must be a timedelta, a text such as "7d", a (start, end) of datetimes or a '
                f"number of cases, got {window!r:.60}",
                field="window",
            )
        if self.segment is not None:
            message.segment.key, message.segment.value = _segment(self.segment)
        if self.mature_after is not None:
            message.mature_after.CopyFrom(duration(self.mature_after, field="mature_after"))
        return message


def _segment(segment: Sequence[Any]) -> tuple[str, str]:
    if (
        not isinstance(segment, tuple)
        or len(segment) != 2
        or not all(isinstance(part, str) for part in segment)
    ):
        raise InvalidInputError(
            f'segment must be "country=US" or ("country", "US"), got {segment!r:.60}',
            field="segment",
        )
    return segment


def _between(span: Sequence[Any]) -> types_pb2.TimeRange:
    if len(span) != 2:
        raise InvalidInputError(
            f"window must be a (start, end) of datetimes, got {span!r:.60}", field="window"
        )
    return time_range(*span)


def time_range(start: datetime, end: datetime) -> types_pb2.TimeRange:
    """Return the span [start, end) as a message, or refuse it."""
    start_us, end_us = to_us(start, field="start"), to_us(end, field="end")
    if start_us >= end_us:
        raise InvalidInputError(f"start must be before end, got {start} and {end}", field="end")
    return types_pb2.TimeRange(start_time=_timestamp(start_us), end_time=_timestamp(end_us))


def _timestamp(time_us: int) -> Timestamp:
    return Timestamp(seconds=time_us // 1_000_000, nanos=time_us % 1_000_000 * 1_000)


def duration(span: Span, *, field: str) -> Duration:
    """Return a duration as a message, or refuse what is not positive or none."""
    us = span_us(span, field=field)
    return Duration(seconds=us // 1_000_000, nanos=us % 1_000_000 * 1_000)


def check_names(given: Iterable[str] | None, *, field: str = "metrics") -> list[str]:
    """Return a list of names, or refuse a single string and other types."""
    listed = [] if given is None else list(given)
    if isinstance(given, str) or not all(isinstance(name, str) for name in listed):
        raise InvalidInputError(f"{field} must be a list of names, got {given!r:.60}", field=field)
    return listed
