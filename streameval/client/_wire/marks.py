"""Annotations of streams: the calls about them, and their answers as objects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result
from streameval._common.values import shown
from streameval._time.times import to_us
from streameval.client._wire.answers import plain_values
from streameval.client._wire.calls import Call
from streameval.client._wire.reader import read, reads
from streameval.v1 import mark_pb2

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, eq=False)
class StreamMark(Result):
    """An annotation of a stream's time, such as a deployment.

    Attributes
    ----------
    number : int
        From 1, ascending in its stream; `Client.delete_mark` takes it.
    time : datetime
        When what it names happened.
    text : str
    created : datetime
        When it was made.
    """

    number: int
    time: datetime
    text: str
    created: datetime

    def to_dict(self) -> dict[str, object]:
        """Return it as values that JSON has, with times in ISO 8601."""
        return plain_values(self)


def create_mark(stream: str, text: str, at: datetime | None) -> Call[StreamMark]:
    """Return the call that makes a mark, now by default."""
    request = mark_pb2.CreateMarkRequest(stream=stream, text=text)
    if at is not None:
        request.time.FromMicroseconds(to_us(at, field="at"))
    return Call(request, lambda response: _read_mark(response.mark))


def list_marks(stream: str, start: datetime | None, end: datetime | None) -> Call[list[StreamMark]]:
    """Return the call for a stream's marks in a span, in order of their times."""
    request = mark_pb2.ListMarksRequest(stream=stream)
    if start is not None:
        request.start_time.FromMicroseconds(to_us(start, field="start"))
    if end is not None:
        request.end_time.FromMicroseconds(to_us(end, field="end"))
    return Call(request, lambda response: [_read_mark(each) for each in response.marks])


def delete_mark(stream: str, number: int) -> Call[int]:
    """Return the call that deletes a mark."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**32:
        raise InvalidInputError(
            f"number must be a mark's number, got {shown(number)}", field="number"
        )
    request = mark_pb2.DeleteMarkRequest(stream=stream, number=number)
    return Call(request, lambda response: int(response.revision))


@reads(mark_pb2.Mark)
def _read_mark(message: mark_pb2.Mark) -> StreamMark:
    return read(message, StreamMark, created=message.create_time.ToDatetime(UTC))
