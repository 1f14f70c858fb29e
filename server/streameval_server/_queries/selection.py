"""The selection of a request: parses and checks it by the message alone, without a stream."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from streameval.checks import id_problem
from streameval.kernel import MAX_TIME_US
from streameval_server._model.crossed_keys import declared_key_problem
from streameval_server._model.errors import invalid
from streameval_server._model.names import check_stream_name

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    from streameval.v1 import types_pb2

_MAX_SECONDS = 315_576_000_000
"""10,000 years: the range of a Duration; a Timestamp has a smaller one."""
_NANOS = 1_000_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AllTime:
    """Everything since the stream was created."""


@dataclass(frozen=True, slots=True)
class Last:
    """A span of time that ends at the server's clock."""

    span_us: int


@dataclass(frozen=True, slots=True)
class Between:
    """A span of time, [start, end)."""

    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class LastCases:
    """The newest panes with at least this number of cases."""

    count: int


@dataclass(frozen=True, slots=True)
class HalfLife:
    """All panes that are kept, weighted by age."""

    half_life_us: int


Span = AllTime | Last | Between | LastCases | HalfLife


@dataclass(frozen=True, slots=True)
class Selection:
    """A checked Selection message. Equal selections have equal answers."""

    stream: str
    span: Span = AllTime()
    segment: tuple[str, str] | None = None
    mature_after_us: int | None = None


def micros(time: Duration | Timestamp, field: str) -> int:
    """Return a duration or a time in microseconds.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when it is out of the range of such messages.
    """
    if abs(time.seconds) > _MAX_SECONDS or abs(time.nanos) >= _NANOS:
        name = field.rpartition(".")[2]
        raise invalid(field, f"{name} is out of range: {time.seconds} s and {time.nanos} ns")
    return time.seconds * 1_000_000 + time.nanos // 1_000


def parse_selection(message: types_pb2.Selection, path: str = "selection") -> Selection:
    """Check a Selection. O(1).

    Parameters
    ----------
    message
        The message of the request.
    path
        Its name in the request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    check_stream_name(message.stream, f"{path}.stream")
    span = _span(message, path)
    mature_after_us = None
    if message.HasField("mature_after"):
        field = f"{path}.mature_after"
        mature_after_us = micros(message.mature_after, field)
        if mature_after_us < 0:
            raise invalid(
                field, f"mature_after must not be negative, got {mature_after_us / 1e6:g} s"
            )
        if isinstance(span, AllTime):
            raise invalid(
                field,
                "mature_after leaves out panes, and all time does not consist of panes: set a "
                "window, for instance last or between",
            )
    segment = None
    if message.HasField("segment"):
        segment = _segment(message.segment, f"{path}.segment")
    return Selection(message.stream, span, segment, mature_after_us)


def _segment(segment: types_pb2.Segment, path: str) -> tuple[str, str]:
    """Return the key and the value, checked for length: answers are cached by them."""
    key, value = segment.key, segment.value
    if not key:
        raise invalid(f"{path}.key", "segment.key must not be empty")
    problem = declared_key_problem(key, "segment.key")
    if problem is not None:
        raise invalid(f"{path}.key", problem)
    problem = id_problem("segment.value", value)
    if value and problem is not None:
        raise invalid(f"{path}.value", problem)
    return key, value


def _span(message: types_pb2.Selection, path: str) -> Span:
    kind = message.WhichOneof("window")
    if kind is None:
        return AllTime()
    field = f"{path}.{kind}"
    if kind == "between":
        return _between(message.between, field)
    if kind == "last_cases":
        if not message.last_cases:
            raise invalid(field, "last_cases must be positive, got 0")
        return LastCases(message.last_cases)
    span = message.last if kind == "last" else message.half_life
    span_us = micros(span, field)
    if span_us <= 0:
        raise invalid(field, f"{kind} must be positive, got {span_us / 1e6:g} s")
    return Last(span_us) if kind == "last" else HalfLife(span_us)


def _between(between: types_pb2.TimeRange, field: str) -> Between:
    for name in ("start_time", "end_time"):
        if not between.HasField(name):
            raise invalid(f"{field}.{name}", f"between needs a {name}")
    start_us = micros(between.start_time, f"{field}.start_time")
    end_us = micros(between.end_time, f"{field}.end_time")
    for name, time_us in (("start_time", start_us), ("end_time", end_us)):
        if not 0 <= time_us <= MAX_TIME_US:
            raise invalid(
                f"{field}.{name}", f"{name} must lie between 1970 and 9999, got {time_us} us"
            )
    if start_us >= end_us:
        raise invalid(
            f"{field}.end_time",
            f"start_time must be before end_time, got {iso(start_us)} and {iso(end_us)}",
        )
    return Between(start_us, end_us)


def iso(time_us: int) -> str:
    """Return a time in ISO 8601."""
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat().replace("+00:00", "Z")
