"""The method of StreamService that concerns verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc

from streameval.v1 import verdict_pb2
from streameval_server._model.names import check_stream_name
from streameval_server._model.verdict_change import VerdictChange

if TYPE_CHECKING:
    from streameval_server._runtime.runtime import Runtime

Context = grpc.aio.ServicerContext[Any, Any]

_NORMAL_US: Final = 28 * 86_400_000_000
"""The most time, up to now, of which the new normal is made."""


class VerdictMethods:
    """Accepts what streams are now as their new normal."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def accept(
        self, request: verdict_pb2.AcceptNormalRequest, _context: Context
    ) -> verdict_pb2.AcceptNormalResponse:
        """Move the base to now; the answer has the verdict after it."""
        name, runtime = request.stream, self._runtime
        check_stream_name(name, "stream")
        now, _ = await self._verdict(name)
        change = VerdictChange(from_us=_since_us(now))
        response = await runtime.settled(lambda call: call.change_verdict(name, change))
        await runtime.visible(response.revision)
        found, revision = await self._verdict(name)
        return verdict_pb2.AcceptNormalResponse(verdict=found, revision=revision)

    async def _verdict(self, name: str) -> tuple[verdict_pb2.Verdict, int]:
        runtime = self._runtime

        def read() -> tuple[verdict_pb2.Verdict, int]:
            view = runtime.view(name)
            return runtime.engine.verdicts.of(view).message(), view.revision

        with runtime.calls.call():
            return await runtime.queries.run(object(), read, is_long=True)


def _since_us(verdict: verdict_pb2.Verdict) -> int:
    """Return from when on a stream has been as it is: after the last change, or of late."""
    since = verdict.returned if verdict.HasField("returned") else verdict.since
    from_us = max(verdict.at.ToMicroseconds() - _NORMAL_US, 1)
    return max(from_us, since.latest.ToMicroseconds()) if since.HasField("latest") else from_us
