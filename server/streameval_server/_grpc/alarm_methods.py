"""The methods of StreamService that concern alarms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc

from streameval import InvalidInputError
from streameval.v1 import alarm_pb2, stream_pb2
from streameval_server._batch.decode import parse_message
from streameval_server._grpc.pages import read_page
from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.names import check_stream_name
from streameval_server._model.stream_settings import refuse_alarms, update_of
from streameval_server._queries.alarms import alarm_message, status_message
from streameval_server._state.alarms.alarm_reference import check_unchanged, freeze_reference

if TYPE_CHECKING:
    from streameval_server._model.stream_info import StreamInfo
    from streameval_server._runtime.runtime import Runtime
    from streameval_server._state.views import AlarmsView

    Detectors = list[tuple[StreamInfo, AlarmsView]]

Context = grpc.aio.ServicerContext[Any, Any]


class AlarmMethods:
    """Lists and acknowledges alarms; checks references before they are declared."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def list(
        self, request: alarm_pb2.ListAlarmsRequest, _context: Context
    ) -> alarm_pb2.ListAlarmsResponse:
        """Describe the detector of one stream, or a page of the detectors that the token covers."""
        runtime = self._runtime
        if request.stream:
            return await self._one(request)
        read = partial(runtime.list_alarms, prefix=request.prefix, open_only=request.open_only)
        found, token, revision = await read_page(
            runtime, request, read, lambda each: (each[0].name, each[0].name)
        )
        return alarm_pb2.ListAlarmsResponse(
            statuses=[
                status_message(info, view, open_only=request.open_only) for info, view in found
            ],
            next_page_token=token,
            revision=revision,
        )

    async def _one(self, request: alarm_pb2.ListAlarmsRequest) -> alarm_pb2.ListAlarmsResponse:
        info, view, revision = await self._view(request.stream, "stream")
        statuses = []
        if view is not None and (view.num_open or not request.open_only):
            statuses = [status_message(info, view, open_only=request.open_only)]
        return alarm_pb2.ListAlarmsResponse(statuses=statuses, revision=revision)

    async def acknowledge(
        self, request: alarm_pb2.AcknowledgeAlarmRequest, _context: Context
    ) -> alarm_pb2.AcknowledgeAlarmResponse:
        """Acknowledge an alarm; one that was acknowledged stays as it is."""
        _, alarm, revision = await self._alarm(request)
        if alarm.is_past:
            raise RequestError(
                Code.FAILED_PRECONDITION,
                f"alarm {request.number} of stream {request.stream} is past: it was found in the "
                "history when the alarms were declared, and there is nothing to acknowledge",
                reason="ALARM_IS_PAST",
            )
        if not alarm.HasField("acknowledged_at"):
            change = AlarmChange(request.number, is_delivery=False)
            response = await self._runtime.settled(
                lambda call: call.change_alarm(request.stream, change)
            )
            assert isinstance(response, alarm_pb2.AcknowledgeAlarmResponse)
            await self._runtime.visible(response.revision)
            _, alarm, revision = await self._alarm(request)
        return alarm_pb2.AcknowledgeAlarmResponse(alarm=alarm, revision=revision)

    async def check_update(self, frame: bytes) -> None:
        """Refuse alarms whose reference lies in the past and is none, or has a change in it.

        Raises
        ------
        RequestError
            INVALID_ARGUMENT with what its rows lack.
        """
        request = parse_message(stream_pb2.UpdateStreamRequest, frame)
        alarms = request.stream.settings.alarms
        if not alarms.HasField("reference"):
            return
        changes = update_of(request).changes
        declared = changes.get("alarms")
        if declared is None or declared.reference_us[1] > self._runtime.now_us():
            return
        runtime, name = self._runtime, request.stream.name
        with runtime.calls.call():
            # Rows that were acknowledged before count.
            await runtime.visible(runtime.durable_revision())
            view = await runtime.answer(("stream", name), lambda: runtime.view(name))
        settings = replace(view.info.settings, alarms=declared)
        if "threshold" in changes:
            settings = replace(settings, threshold=changes["threshold"])

        wait_us = declared.label_wait_us
        wait_us = settings.label_ttl_us if wait_us is None else wait_us

        def check() -> None:
            try:
                freeze_reference(settings, view.counts, declared.reference_us)
                check_unchanged(view.counts, declared.reference_us, runtime.now_us(), wait_us)
            except InvalidInputError as error:
                refuse_alarms(error)

        await runtime.queries.run(object(), check, is_long=True)

    async def _alarm(
        self, request: alarm_pb2.AcknowledgeAlarmRequest
    ) -> tuple[StreamInfo, alarm_pb2.Alarm, int]:
        info, view, revision = await self._view(request.stream, "stream")
        found = () if view is None else view.alarms
        for each in found:
            if view is not None and each.number == request.number:
                delivered = each.number in view.delivered
                return info, alarm_message(info, each, delivered=delivered), revision
        raise RequestError(
            Code.NOT_FOUND,
            f"stream {request.stream} has no alarm {request.number}: it was never raised, or is "
            "no longer kept",
            reason="ALARM_NOT_FOUND",
        )

    async def _view(self, name: str, field: str) -> tuple[StreamInfo, AlarmsView | None, int]:
        runtime = self._runtime
        check_stream_name(name, field)
        with runtime.calls.call():
            view = await runtime.answer(("stream", name), lambda: runtime.view(name))
        return view.info, view.alarms, view.revision
