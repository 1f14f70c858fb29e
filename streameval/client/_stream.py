"""`Stream` and `AsyncStream`: the verbs of one stream, blocking and for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from streameval.client._delivery.connection import AsyncVerbs, BlockingVerbs
from streameval.client._stream_verbs import StreamVerbs
from streameval.client._wire import calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from datetime import timedelta

    from streameval._snapshot import Snapshot
    from streameval.client._delivery.async_connection import AsyncConnection
    from streameval.client._delivery.connection import Connection
    from streameval.client._wire.selection import Part


class Stream(StreamVerbs, BlockingVerbs):
    """One stream of a server: everything about one model version.

    Made by `Client.stream`. Any number of objects, in any threads, may stand for
    the same stream. The methods that add rows return at once; a thread sends the
    rows. Answers include all rows that a `flush` has waited for.

    The parameters ``window``, ``half_life``, ``segment`` and ``mature_after``
    choose which cases count, as in `Selection`: all of them by default.
    """

    _connection: Connection

    def __init__(self, connection: Connection, name: str) -> None:
        super().__init__(connection, name)

    def flush(self, timeout_s: float | None = 30.0) -> int:
        """Wait until everything added to the *client* so far is durable.

        The same as `Client.flush`: the batches of all streams share one sequence.
        """
        return self._connection.worker.flush(timeout_s)

    def watch(
        self,
        *,
        metrics: Iterable[str] | None = None,
        min_interval: timedelta | None = None,
        level: float = 0.95,
        anytime: bool = False,
        **part: Unpack[Part],
    ) -> Iterator[Snapshot]:
        """Yield a snapshot at once, and the newest one after each change.

        Nothing queues up: a slow reader skips snapshots and gets the newest. To
        end the watch, close the iterator or drop its last reference.

        Parameters
        ----------
        window, half_life, segment, mature_after
            Which cases: see `Selection`.
        metrics, level, anytime
            As in `snapshot`.
        min_interval : timedelta, optional
            The shortest time between two snapshots; 100 ms by default, which is
            also the minimum.

        Raises
        ------
        InvalidInputError, NotFoundError
            As `snapshot`; NotFoundError also when the stream is deleted.
        UnavailableError
            When the server stops, or does not answer.
        """
        call = calls.watch(
            self.select(**part),
            self._connection.revision,
            metrics,
            min_interval=min_interval,
            level=level,
            anytime=anytime,
        )
        return self._connection.transport.watch(call)


class AsyncStream(StreamVerbs, AsyncVerbs):
    """One stream of a server, for asyncio: the verbs of `Stream`.

    Made by `AsyncClient.stream`. The methods that add rows return at once, without
    ``await``; a task sends the rows. All others are awaited, with the parameters,
    results and errors of the methods of `Stream`.
    """

    _connection: AsyncConnection

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        super().__init__(connection, name)

    async def flush(self, timeout_s: float | None = 30.0) -> int:
        """Wait until everything added to the *client* so far is durable; as `Stream.flush`."""
        return await self._connection.worker.flush(timeout_s)

    def watch(
        self,
        *,
        metrics: Iterable[str] | None = None,
        min_interval: timedelta | None = None,
        level: float = 0.95,
        anytime: bool = False,
        **part: Unpack[Part],
    ) -> AsyncIterator[Snapshot]:
        """Yield a snapshot at once, and the newest one after each change; as `Stream.watch`."""
        call = calls.watch(
            self.select(**part),
            self._connection.revision,
            metrics,
            min_interval=min_interval,
            level=level,
            anytime=anytime,
        )
        return self._connection.transport.watch(call)
