"""The methods of StreamService that concern annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from streameval.kernel import MAX_TIME_US
from streameval.v1 import mark_pb2
from streameval_server._model.errors import Code, RequestError, invalid
from streameval_server._model.mark import MarkChange, mark_problem
from streameval_server._model.names import check_stream_name
from streameval_server._state.stream_marks import find_mark

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from streameval_server._model.mark import Mark
    from streameval_server._runtime.runtime import Runtime

Context = grpc.aio.ServicerContext[Any, Any]


class MarkMethods:
    """Makes, lists and deletes the annotations of streams."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def create(
        self, request: mark_pb2.CreateMarkRequest, _context: Context
    ) -> mark_pb2.CreateMarkResponse:
        """Make a mark; one of the same time and text is there already."""
        problem = mark_problem(request.text)
        if problem is not None:
            raise invalid("text", problem)
        time_us = self._runtime.now_us()
        if request.HasField("time"):
            time_us = _micros(request.time, "time")
        marks, revision = await self._marks(request.stream)
        found = find_mark(marks, time_us, request.text)
        if found is None:
            await self._change(request.stream, MarkChange(time_us, request.text))
            marks, revision = await self._marks(request.stream)
            found = find_mark(marks, time_us, request.text)
        if found is None:
            raise _unknown(request.stream, "this one was deleted as soon as it was made")
        return mark_pb2.CreateMarkResponse(mark=found.to_message(), revision=revision)

    async def list(
        self, request: mark_pb2.ListMarksRequest, _context: Context
    ) -> mark_pb2.ListMarksResponse:
        """Return a stream's marks in order of their times. O(marks log marks)."""
        start_us, end_us = 0, MAX_TIME_US + 1
        if request.HasField("start_time"):
            start_us = _micros(request.start_time, "start_time")
        if request.HasField("end_time"):
            end_us = _micros(request.end_time, "end_time")
        marks, revision = await self._marks(request.stream)
        chosen = sorted(
            (each for each in marks if start_us <= each.time_us < end_us),
            key=lambda each: (each.time_us, each.number),
        )
        return mark_pb2.ListMarksResponse(
            marks=[each.to_message() for each in chosen], revision=revision
        )

    async def delete(
        self, request: mark_pb2.DeleteMarkRequest, _context: Context
    ) -> mark_pb2.DeleteMarkResponse:
        """Delete a mark."""
        marks, _ = await self._marks(request.stream)
        if all(each.number != request.number for each in marks):
            raise _unknown(request.stream, f"there is none with the number {request.number}")
        revision = await self._change(request.stream, MarkChange(deleted=request.number))
        return mark_pb2.DeleteMarkResponse(revision=revision)

    async def _change(self, name: str, change: MarkChange) -> int:
        """Log a change; return its revision, which is visible then."""
        response = await self._runtime.settled(lambda call: call.change_marks(name, change))
        await self._runtime.visible(response.revision)
        return response.revision

    async def _marks(self, name: str) -> tuple[tuple[Mark, ...], int]:
        runtime = self._runtime
        check_stream_name(name, "stream")
        with runtime.calls.call():
            view = await runtime.answer(("stream", name), lambda: runtime.view(name))
        return view.marks, view.revision


def _micros(time: Timestamp, field: str) -> int:
    micros = time.seconds * 1_000_000 + time.nanos // 1_000
    if not 0 < micros <= MAX_TIME_US:
        raise invalid(field, f"{field} must be a time after 1970, got {time.seconds} s")
    return micros


def _unknown(stream: str, why: str) -> RequestError:
    return RequestError(
        Code.NOT_FOUND,
        f"stream {stream} has no such mark: {why}; list them with ListMarks",
        reason="MARK_NOT_FOUND",
    )
