"""`Stream` and `AsyncStream`: the verbs of one stream, blocking and for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.client._delivery.connection import AsyncVerbs, BlockingVerbs
from streameval.client._stream_verbs import StreamVerbs
from streameval.client._wire import calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from datetime import timedelta

    from streameval._snapshot import Snapshot
    from streameval.client._delivery.async_connection import AsyncConnection
    from streameval.client._delivery.connection import Connection
    from streameval.client._wire.selection import Window


class Stream(StreamVerbs, BlockingVerbs):
    """One stream of a server: everything about one model version.

    `Client.stream` makes it; any number of them, in any threads, may stand for
    the same stream. The methods that add return at once; a thread sends what
    they added. Answers include everything that a `flush` has waited for.

    Wherever methods take ``window``, ``half_life``, ``segment`` and
    ``mature_after``, they choose which cases count, as in `Selection`: all of
    them by default.
    """

    _connection: Connection

    def __init__(self, connection: Connection, name: str) -> None:
        super().__init__(connection, name)

    def flush(self, timeout: float | None = 30.0) -> int:
        """Wait until everything added to the *client* so far is durable.

        The same as `Client.flush`: batches of all streams travel in one order.
        """
        return self._connection.worker.flush(timeout)

    def watch(
        self,
        *,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
        metrics: Iterable[str] | None = None,
        min_interval: timedelta | None = None,
        level: float = 0.95,
        anytime: bool = False,
    ) -> Iterator[Snapshot]:
        """Yield a snapshot at once, and the newest whenever it is another.

        Nothing queues up: who reads slowly misses some, and gets the newest.
        Close the iterator, or drop it, to end it.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`.
        metrics, level, anytime
            As in `snapshot`.
        min_interval : timedelta, optional
            No more often than this; 100 ms, which is also the least.

        Raises
        ------
        InvalidInputError, NotFoundError
            As `snapshot`; NotFoundError also when the stream is deleted.
        UnavailableError
            When the server stops, or there is none.
        """
        selection = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return self._connection.transport.watch(
            calls.watch(
                selection,
                self._connection.revision,
                metrics,
                min_interval=min_interval,
                level=level,
                anytime=anytime,
            )
        )


class AsyncStream(StreamVerbs, AsyncVerbs):
    """One stream of a server, for asyncio: the verbs of `Stream`.

    `AsyncClient.stream` makes it. The methods that add return at once, without
    ``await``; a task sends what they added. All others are awaited, with the
    parameters, results and errors of their twins.
    """

    _connection: AsyncConnection

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        super().__init__(connection, name)

    async def flush(self, timeout: float | None = 30.0) -> int:
        """Wait until everything added to the *client* so far is durable; as `Stream.flush`."""
        return await self._connection.worker.flush(timeout)

    def watch(
        self,
        *,
        window: Window = None,
        half_life: timedelta | None = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
        metrics: Iterable[str] | None = None,
        min_interval: timedelta | None = None,
        level: float = 0.95,
        anytime: bool = False,
    ) -> AsyncIterator[Snapshot]:
        """Yield a snapshot at once, and the newest whenever it is another; as `Stream.watch`."""
        selection = self.select(
            window=window, half_life=half_life, segment=segment, mature_after=mature_after
        )
        return self._connection.transport.watch(
            calls.watch(
                selection,
                self._connection.revision,
                metrics,
                min_interval=min_interval,
                level=level,
                anytime=anytime,
            )
        )
