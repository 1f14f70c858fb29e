"""The client for asyncio: what is done to a server, or to several, as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self, Unpack

from streameval.client._async_stream import AsyncStream
from streameval.client._client import check_seconds, check_settings
from streameval.client._delivery.async_connection import AsyncCore
from streameval.client._delivery.routing import check_addresses
from streameval.client._delivery.servers import AsyncServers
from streameval.client._wire import calls as _questions
from streameval.client._wire.async_transport import AsyncTransport
from streameval.client._wire.credentials import Credentials
from streameval.client._wire.decode import read_info
from streameval.client._wire.selection import Selection, selection_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from types import TracebackType

    import grpc

    from streameval._evaluator import Evaluator
    from streameval.client._delivery.statistics import ClientStatistics
    from streameval.client._wire.answers import StreamComparison, StreamInfo
    from streameval.client._wire.credentials import Pem, Token
    from streameval.client._wire.selection import Window
    from streameval.client._wire.stream_settings import ChangedSettings, NewSettings


class AsyncClient:
    """A connection to a streameval server, or several, for asyncio: the verbs of `Client`.

    Adding to its streams returns at once, without ``await``; a task sends what
    was added, from the first row on that is added on a running event loop. To
    that loop the client belongs. Everything else is awaited.

    Parameters
    ----------
    address, token, tls, root_certificates, client_certificate, client_key, credentials, producer
        As of `Client`.
    max_buffered_rows : int
        Rows that may be added and not yet durable, at most: 9 bytes each, some
        120 with an id. Beyond it the newest are dropped and counted: who adds
        faster than the server takes awaits a `flush` now and then.
    batch_rows, linger_s, timeout_s
        As of `Client`.

    Raises
    ------
    InvalidInputError
        When a setting is out of range, a file cannot be read, or the token
        would travel in plain text to another machine.

    Notes
    -----
    Close it before its event loop ends, or use it in an ``async with``
    statement: what was not sent by then is lost, and the log says so.

    Examples
    --------
    >>> import asyncio
    >>> from streameval_server.testing import running_server
    >>> async def main(address):
    ...     async with AsyncClient(address) as client:
    ...         stream = client.stream("fraud/v3")
    ...         stream.log("order-17", 0.93)
    ...         stream.label("order-17", True)
    ...         await stream.flush()
    ...         return await stream.snapshot()
    >>> with running_server() as address:
    ...     snapshot = asyncio.run(main(address))
    >>> snapshot.num_positive_ref
    1
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        token: Token | None = None,
        tls: bool = False,
        root_certificates: Pem | None = None,
        client_certificate: Pem | None = None,
        client_key: Pem | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        producer: str | None = None,
        max_buffered_rows: int = 4_000_000,
        batch_rows: int = 1_000,
        linger_s: float = 0.025,
        timeout_s: float = 10.0,
    ) -> None:
        self.addresses = check_addresses(address)
        check_seconds(linger_s=linger_s, timeout_s=timeout_s)
        check_settings(
            when_full="drop",
            producer=producer,
            max_buffered_rows=max_buffered_rows,
            batch_rows=batch_rows,
        )
        transports = {}
        for each in self.addresses:
            shown = Credentials(
                each,
                token=token,
                tls=tls,
                root_certificates=root_certificates,
                client_certificate=client_certificate,
                client_key=client_key,
                channel=credentials,
            )
            transports[each] = AsyncTransport(each, shown)
        self._servers = AsyncServers(
            {
                each: AsyncCore(
                    transport,
                    producer=producer,
                    max_buffered_rows=max_buffered_rows,
                    batch_rows=batch_rows,
                    linger_s=linger_s,
                    timeout_s=timeout_s,
                )
                for each, transport in transports.items()
            }
        )

    # -- streams -----------------------------------------------------------------

    def stream(self, name: str) -> AsyncStream:
        """Return the verbs of one stream. Asks nothing of the server."""
        return AsyncStream(self._servers.of(name), name)

    def shards(self, name: str) -> list[AsyncStream]:
        """Return the verbs of one stream on each server; as `Client.shards`."""
        return [AsyncStream(core, name) for core in self._servers]

    async def evaluator(
        self,
        name: str,
        *,
        window: Window = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
    ) -> Evaluator:
        """Return a stream's state, added up over all servers; as `Client.evaluator`."""
        return await self._servers.evaluator(
            Selection(stream=name, window=window, segment=segment, mature_after=mature_after)
        )

    async def create_stream(self, name: str, **settings: Unpack[NewSettings]) -> StreamInfo:
        """Make a stream; as `Client.create_stream`."""
        core = self._servers.of(name)
        response = await core.ask(_questions.create_stream(name, settings))
        core.delivery.saw(response.revision)
        return read_info(response.stream)

    async def update_stream(self, name: str, **settings: Unpack[ChangedSettings]) -> StreamInfo:
        """Change settings of a stream; as `Client.update_stream`."""
        core = self._servers.of(name)
        response = await core.ask(_questions.update_stream(name, settings))
        core.delivery.saw(response.revision)
        return read_info(response.stream)

    async def get_stream(self, name: str) -> StreamInfo:
        """Return a stream's description, with its counters; as `Client.get_stream`."""
        return await self._servers.of(name).ask(_questions.get_stream(name))

    async def list_streams(self, prefix: str = "") -> list[StreamInfo]:
        """Return the streams whose names begin with `prefix`, in order of their names."""
        found = await self._servers.all_of(lambda: _questions.list_streams(prefix))
        return sorted(found, key=lambda info: info.name)

    async def delete_stream(self, name: str) -> None:
        """Delete a stream and everything that was counted in it; as `Client.delete_stream`."""
        core = self._servers.of(name)
        response = await core.ask(_questions.delete_stream(name))
        core.delivery.saw(response.revision)

    async def compare(
        self,
        a: Selection | AsyncStream | str,
        b: Selection | AsyncStream | str,
        *,
        metric: str = "auc_pr",
        prevalence: float | Literal["common", "own"] = "common",
        level: float = 0.95,
    ) -> StreamComparison:
        """Compare two streams, windows or segments; as `Client.compare`."""
        sides = selection_of(a), selection_of(b)
        core = self._servers.of_both(*sides)
        return await core.ask(
            _questions.compare(
                *sides,
                core.revision,
                metric=metric,
                prevalence=prevalence,
                level=level,
            )
        )

    # -- the whole client --------------------------------------------------------

    async def flush(self, timeout: float | None = 30.0) -> int:
        """Wait until everything added so far is durable; as `Client.flush`."""
        return await self._servers.flush(timeout)

    def statistics(self) -> ClientStatistics:
        """Return what was added, sent, acked, refused, dropped, retried. O(1)."""
        return self._servers.statistics()

    async def close(self, timeout: float | None = 30.0) -> None:
        """Flush, and close the connection; as `Client.close`."""
        await self._servers.close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.close()
        else:
            await self._servers.close_quietly()
