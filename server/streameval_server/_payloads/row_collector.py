"""Collects the rows of concurrent requests into batches.

Senders of payloads send one event a request, thousands a second. While a batch of a stream
commits, the rows of further requests wait, and the next batch has all of them; so a busy
server writes few large batches, and an idle one waits for nothing. A request is answered when
its own rows are durable, or with its own refusal: a batch is all or nothing, so a refused one
is halved until the rows at fault stand alone, and the rows of others count.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from streameval_server._model.errors import BATCH_REFUSED, RequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from streameval.payloads import PayloadRow
    from streameval_server._payloads.row_batches import PayloadKind

    Store = Callable[[str, PayloadKind, Sequence[PayloadRow]], Awaitable[int]]
    """Stores rows of one stream; returns, once they are durable, a log revision that includes
    them. Raises RequestError."""

MAX_COLLECTED_ROWS = 10_000
"""Rows of a batch. One that is too long for the server's limits is halved as a refused one is."""


@dataclass(slots=True, eq=False)
class _WaitingRows:
    """Rows of one request.

    Attributes
    ----------
    outcomes : list of int or RequestError or None
        Each row's outcome; None while it is not settled.
    left : int
        Rows that are not settled.
    is_settled : Future
        Set when none is left.
    """

    rows: Sequence[PayloadRow]
    outcomes: list[int | RequestError | None]
    left: int
    is_settled: asyncio.Future[None]


class _Piece(NamedTuple):
    """The rows of a request from one place to another."""

    waiting: _WaitingRows
    start: int
    stop: int


class RowCollector:
    """Collects rows; belongs to one event loop.

    Parameters
    ----------
    store
        Stores a batch.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[tuple[str, PayloadKind], deque[_Piece]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(
        self, stream: str, kind: PayloadKind, rows: Sequence[PayloadRow]
    ) -> list[int | RequestError]:
        """Return once the rows are settled: for each its revision, or why it is not counted.

        O(rows), amortised.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        mine = _WaitingRows(rows, [None] * len(rows), len(rows), future)
        queue = self._queues.get((stream, kind))
        if queue is None:
            queue = self._queues[stream, kind] = deque()
            task = asyncio.create_task(self._run(stream, kind))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append(_Piece(mine, 0, len(rows)))
        await mine.is_settled
        return [each for each in mine.outcomes if each is not None]

    async def _run(self, stream: str, kind: PayloadKind) -> None:
        """Store the queue until it is empty."""
        queue = self._queues[stream, kind]
        while queue:
            await self._settle(stream, kind, _first(queue, MAX_COLLECTED_ROWS))
        del self._queues[stream, kind]

    async def _settle(self, stream: str, kind: PayloadKind, pieces: list[_Piece]) -> None:
        outcome: int | RequestError
        rows = [row for each in pieces for row in each.waiting.rows[each.start : each.stop]]
        try:
            outcome = await self._store(stream, kind, rows)
        except RequestError as error:
            outcome = error
        except BaseException:
            for each in pieces:
                each.waiting.is_settled.cancel()
            raise
        is_refused = isinstance(outcome, RequestError) and outcome.reason == BATCH_REFUSED
        if is_refused and len(rows) > 1:
            rest = deque(pieces)
            first_half = _first(rest, len(rows) // 2)
            await self._settle(stream, kind, first_half)
            await self._settle(stream, kind, list(rest))
            return
        for waiting, start, stop in pieces:
            waiting.outcomes[start:stop] = [outcome] * (stop - start)
            waiting.left -= stop - start
            # The request may have gone away.
            if not waiting.left and not waiting.is_settled.done():
                waiting.is_settled.set_result(None)


def _first(queue: deque[_Piece], size: int) -> list[_Piece]:
    """Remove the first rows of a queue, and return them."""
    pieces = []
    while queue and size:
        waiting, start, stop = queue.popleft()
        if stop - start > size:
            queue.appendleft(_Piece(waiting, start + size, stop))
            stop = start + size
        pieces.append(_Piece(waiting, start, stop))
        size -= stop - start
    return pieces
