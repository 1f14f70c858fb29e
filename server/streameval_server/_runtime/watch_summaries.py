"""WatchStreamSummaries: the first streams in an order, whenever they or their order change.

An answer has the names of all streams of the page in order, and the summaries that the reader
does not have yet. Works as the other watches: nothing is queued, and a slow reader gets the
newest list next.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from streameval.v1 import overview_pb2
from streameval_server._runtime.watch import CLOCK_INTERVAL_S, compute_on_change

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from streameval_server._runtime.runtime import Runtime
    from streameval_server._runtime.watch import Heartbeat


async def watch_summaries(
    runtime: Runtime,
    compute: Callable[[], Awaitable[overview_pb2.ListStreamSummariesResponse]],
    known: Callable[[], Awaitable[overview_pb2.ListStreamSummariesResponse]],
    *,
    pause_s: float,
    heartbeat: Heartbeat,
) -> AsyncIterator[overview_pb2.WatchStreamSummariesResponse]:
    """Yield a list at once, and then whenever it differs.

    The first one waits neither for rows that are durable and not applied, nor for figures that
    are not known: both come with the next ones.

    Parameters
    ----------
    runtime
        The server's.
    compute
        Returns the first page now.
    known
        Returns it as it is known, without computing figures.
    pause_s
        The minimum time between two answers.
    heartbeat
        When an empty answer is sent.

    Raises
    ------
    RequestError
        UNAVAILABLE when the server stops.
    """
    reader = _Reader()
    with runtime.calls.call():
        first = await known()
    if response := reader.next_response(first):
        yield response
    lists = compute_on_change(runtime, compute, pause_s=pause_s, timeout_s=CLOCK_INTERVAL_S)
    async with aclosing(lists):
        async for found in lists:
            if response := reader.next_response(found):
                heartbeat.sent()
                yield response
            elif heartbeat.due():
                yield overview_pb2.WatchStreamSummariesResponse()


class _Reader:
    """What one reader has been sent."""

    def __init__(self) -> None:
        self._summaries: dict[str, bytes] = {}
        self._head = b""

    def next_response(
        self, found: overview_pb2.ListStreamSummariesResponse
    ) -> overview_pb2.WatchStreamSummariesResponse | None:
        """Return what the reader does not have of a list; None where it has all. O(page)."""
        # A message is shared by all readers of an equal list, so it is never changed.
        summaries = {each.stream: each.SerializeToString() for each in found.summaries}
        response = overview_pb2.WatchStreamSummariesResponse(list=found, streams=summaries)
        del response.list.summaries[:]
        response.list.revision = 0  # moves with changes of other streams
        head = response.SerializeToString()
        changed = [name for name in summaries if self._summaries.get(name) != summaries[name]]
        if head == self._head and not changed:
            return None
        self._head, self._summaries = head, summaries
        response.revision = response.list.revision = found.revision
        response.list.summaries.extend(
            overview_pb2.StreamSummary.FromString(summaries[name]) for name in changed
        )
        return response
