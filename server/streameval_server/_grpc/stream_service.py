"""StreamService over gRPC: changes go through the log, reads do not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import grpc

from streameval.v1 import stream_pb2
from streameval_server._grpc.alarm_methods import AlarmMethods
from streameval_server._grpc.mark_methods import MarkMethods
from streameval_server._grpc.methods import add_methods
from streameval_server._grpc.pages import read_page
from streameval_server._grpc.verdict_methods import VerdictMethods
from streameval_server._ingest.unary_call import UnaryCall, info_message
from streameval_server._model.errors import RequestError, no_stream
from streameval_server._model.names import check_stream_name
from streameval_server._security.access import current_access
from streameval_server._security.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._runtime.runtime import Runtime

    ChangeResponse = (
        stream_pb2.CreateStreamResponse
        | stream_pb2.UpdateStreamResponse
        | stream_pb2.DeleteStreamResponse
    )

_SERVICE = stream_pb2.DESCRIPTOR.services_by_name["StreamService"]

Context = grpc.aio.ServicerContext[Any, Any]


class StreamService:
    """Takes encoded requests for changes, because the log stores the frames themselves."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._alarms = AlarmMethods(runtime)
        self._marks = MarkMethods(runtime)
        self._verdicts = VerdictMethods(runtime)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service's methods."""
        add_methods(
            server,
            _SERVICE,
            {
                "CreateStream": self.create,
                "DeleteStream": self.delete,
                "UpdateStream": self.update,
                "GetStream": self.get,
                "ListStreams": self.list,
                "ListAlarms": self._alarms.list,
                "AcknowledgeAlarm": self._alarms.acknowledge,
                "AcceptNormal": self._verdicts.accept,
                "CreateMark": self._marks.create,
                "ListMarks": self._marks.list,
                "DeleteMark": self._marks.delete,
            },
            encoded=frozenset({"CreateStream", "DeleteStream", "UpdateStream"}),
        )

    async def create(self, frame: bytes, _context: Context) -> stream_pb2.CreateStreamResponse:
        """Make a stream; queries after the answer include it."""
        response = await self._change(lambda call: call.create_stream(frame))
        assert isinstance(response, stream_pb2.CreateStreamResponse)
        if response.duplicate:
            self._describe(response)
        return response

    async def delete(self, frame: bytes, _context: Context) -> stream_pb2.DeleteStreamResponse:
        """Delete a stream; queries after the answer do not find it."""
        try:
            response = await self._change(lambda call: call.delete_stream(frame))
        except RequestError as error:
            if error.reason != "STREAM_IN_PAIR":
                raise
            raise self._in_pairs(frame, error) from None
        assert isinstance(response, stream_pb2.DeleteStreamResponse)
        return response

    async def update(self, frame: bytes, _context: Context) -> stream_pb2.UpdateStreamResponse:
        """Change settings; they apply to batches sent after the answer."""
        await self._alarms.check_update(frame)
        response = await self._change(lambda call: call.update_stream(frame))
        assert isinstance(response, stream_pb2.UpdateStreamResponse)
        self._describe(response)
        return response

    def _in_pairs(self, frame: bytes, error: RequestError) -> RequestError:
        """Return the error with the pairs of which the caller's token covers both streams."""
        name = stream_pb2.DeleteStreamRequest.FromString(frame).name
        pairs = self._runtime.core.engine.pairs.with_stream(name)
        shown = [info.name for info in pairs if current_access().covers_pair(info)]
        message = error.message
        if shown:
            message += f" ({', '.join(shown)})"
        message += ": delete the pair first with DeletePair (streameval pairs delete)"
        if len(shown) < len(pairs):
            message += ", with a token that covers both of its streams"
        return RequestError(error.code, message, reason=error.reason)

    def _describe(
        self, response: stream_pb2.CreateStreamResponse | stream_pb2.UpdateStreamResponse
    ) -> None:
        """Describe the stream as it is now; a duplicate may find that it was deleted since."""
        info = self._runtime.core.engine.stream(response.stream.name)
        if info is not None:
            response.stream.CopyFrom(info_message(info))
        elif response.duplicate:
            raise no_stream(response.stream.name)

    async def _change(self, submit: Callable[[UnaryCall], None]) -> ChangeResponse:
        response = await self._runtime.settled(submit)
        assert isinstance(
            response,
            stream_pb2.CreateStreamResponse
            | stream_pb2.UpdateStreamResponse
            | stream_pb2.DeleteStreamResponse,
        )
        await self._runtime.visible(response.revision)
        return response

    async def get(
        self, request: stream_pb2.GetStreamRequest, _context: Context
    ) -> stream_pb2.GetStreamResponse:
        """Describe one stream."""
        runtime, name = self._runtime, request.name
        check_stream_name(name, "name")
        with runtime.calls.call():
            view = await runtime.answer(("stream", name), lambda: runtime.view(name))
        stream = info_message(view.info)
        stream.counters.CopyFrom(view.counters)
        return stream_pb2.GetStreamResponse(
            stream=stream,
            revision=view.revision,
            may_update=current_access().has(Scope.ADMIN, name),
        )

    async def list(
        self, request: stream_pb2.ListStreamsRequest, _context: Context
    ) -> stream_pb2.ListStreamsResponse:
        """Describe a page of the streams that the caller's token covers."""
        read = partial(self._runtime.list_streams, prefix=request.prefix)
        infos, token, revision = await read_page(
            self._runtime, request, read, lambda info: (info.name, info.name)
        )
        return stream_pb2.ListStreamsResponse(
            streams=map(info_message, infos), next_page_token=token, revision=revision
        )
