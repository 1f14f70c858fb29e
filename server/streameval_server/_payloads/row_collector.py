"""Collects the rows of concurrent requests into batches.

Senders of payloads send one event a request, thousands a second. While a batch of a stream
commits, the rows of further requests wait, and the next batch has all of them; so a busy
server writes few large batches, and an idle one waits for nothing. A request is answered when
its own rows are durable, or with its own refusal: a batch is all or nothing, so a refused one
is halved until the rows at fault stand alone, and the rows of others count.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._model.errors import BATCH_REFUSED, RequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from streameval.payloads import PayloadRow
    from streameval_server._payloads.row_batches import RowKind

    Store = Callable[[str, RowKind, Sequence[PayloadRow]], Awaitable[int]]
    """Stores rows of one stream; returns, once they are durable, a log revision that includes
    them. Raises RequestError."""

MAX_COLLECTED_ROWS = 10_000
"""Rows of a batch. One that is too long for the server's limits is halved as a refused one is."""


@dataclass(slots=True)
class _Waiting:
    """The row of a request."""

    row: PayloadRow
    settled: asyncio.Future[int | RequestError]


class RowCollector:
    """Collects rows; belongs to one event loop.

    Parameters
    ----------
    store
        Stores a batch.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[tuple[str, RowKind], list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(
        self, stream: str, kind: RowKind, rows: Sequence[PayloadRow]
    ) -> list[int | RequestError]:
        """Return once the rows are settled: for each its revision, or why it is not counted.

        O(rows), amortised.
        """
        loop = asyncio.get_running_loop()
        mine = [_Waiting(row, loop.create_future()) for row in rows]
        queue = self._waiting.get((stream, kind))
        if queue is None:
            self._waiting[stream, kind] = mine[:]
            task = asyncio.create_task(self._run(stream, kind))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            queue += mine
        return [await each.settled for each in mine]

    async def _run(self, stream: str, kind: RowKind) -> None:
        """Store the queue until it is empty."""
        queue = self._waiting[stream, kind]
        while queue:
            batch = queue[:MAX_COLLECTED_ROWS]
            del queue[:MAX_COLLECTED_ROWS]
            await self._settle(stream, kind, batch)
        del self._waiting[stream, kind]

    async def _settle(self, stream: str, kind: RowKind, batch: list[_Waiting]) -> None:
        outcome: int | RequestError
        try:
            outcome = await self._store(stream, kind, [each.row for each in batch])
        except RequestError as error:
            outcome = error
        except BaseException:
            for each in batch:
                each.settled.cancel()
            raise
        is_refused = isinstance(outcome, RequestError) and outcome.reason == BATCH_REFUSED
        if is_refused and len(batch) > 1:
            middle = len(batch) // 2
            await self._settle(stream, kind, batch[:middle])
            await self._settle(stream, kind, batch[middle:])
            return
        for each in batch:
            if not each.settled.cancelled():  # the request may have gone away
                each.settled.set_result(outcome)
