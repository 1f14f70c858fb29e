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


async def watch_summaries(
    runtime: Runtime,
    compute: Callable[[], Awaitable[overview_pb2.ListStreamSummariesResponse]],
    *,
    pause_s: float,
) -> AsyncIterator[overview_pb2.WatchStreamSummariesResponse]:
    """Yield a list at once, and then whenever it differs.

    Parameters
    ----------
    runtime
        The server's.
    compute
        Returns the first page now.
    pause_s
        The minimum time between two answers.

    Raises
    ------
    RequestError
        UNAVAILABLE when the server stops.
    """
    lists = compute_on_change(
        runtime,
        compute,
        pause_s=pause_s,
        timeout_s=CLOCK_INTERVAL_S,
        min_revision=runtime.durable_revision(),
    )
    async with aclosing(lists):
        sent: dict[str, bytes] = {}
        head = b""
        async for found in lists:
            # A message is shared by all readers of an equal list, so it is never changed.
            summaries = {each.stream: each.SerializeToString() for each in found.summaries}
            response = overview_pb2.WatchStreamSummariesResponse(list=found, streams=summaries)
            del response.list.summaries[:]
            response.list.revision = 0  # moves with changes of other streams
            now = response.SerializeToString()
            changed = [name for name in summaries if sent.get(name) != summaries[name]]
            if now == head and not changed:
                continue
            head, sent = now, summaries
            response.revision = response.list.revision = found.revision
            response.list.summaries.extend(
                overview_pb2.StreamSummary.FromString(summaries[name]) for name in changed
            )
            yield response
