"""`AsyncClient`: the verbs of one server, or of several, for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from streameval.client._client_verbs import ClientVerbs
from streameval.client._delivery.async_connection import AsyncConnection
from streameval.client._delivery.client_settings import ClientSettings
from streameval.client._delivery.connection import AsyncVerbs
from streameval.client._stream import AsyncStream
from streameval.client._wire.async_transport import AsyncTransport

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import grpc

    from streameval.client._wire.credentials import Pem, Token


class AsyncClient(ClientVerbs[AsyncConnection, AsyncStream], AsyncVerbs):
    """A connection to a streameval server, or several, for asyncio: the verbs of `Client`.

    The verbs that add rows return at once, without ``await``; all others are
    awaited. A task sends the rows. It starts with the first row that is added on a
    running event loop, and the client belongs to that loop from then on. Examples
    of the verbs show `Client`.

    Parameters
    ----------
    address, token, tls, root_certificates, client_certificate, client_key, credentials, producer
        As of `Client`.
    max_buffered_rows : int
        The most rows that may be added and not yet durable: 9 bytes each, some
        120 with an id. Rows beyond it are dropped and counted. A producer that is
        faster than the server should await `flush` from time to time.
    batch_rows, linger_s, timeout_s, close_timeout_s, spool
        As of `Client`.

    Raises
    ------
    InvalidInputError
        When a setting is out of range, a file cannot be read, or the token
        would travel in plain text to another machine.

    Notes
    -----
    Close it before its event loop ends, or use it in an ``async with``
    statement: rows that are not sent by then are lost, and a warning is logged.

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

    _stream_of = AsyncStream

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
        batch_rows: int = 10_000,
        linger_s: float = 0.025,
        timeout_s: float = 10.0,
        close_timeout_s: float = 5.0,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        settings = ClientSettings(
            producer=producer,
            max_buffered_rows=max_buffered_rows,
            batch_rows=batch_rows,
            linger_s=linger_s,
            timeout_s=timeout_s,
            close_timeout_s=close_timeout_s,
        )
        super().__init__(
            address,
            lambda each, secrets: AsyncConnection(AsyncTransport(each, secrets), settings),
            spool=spool,
            token=token,
            tls=tls,
            root_certificates=root_certificates,
            client_certificate=client_certificate,
            client_key=client_key,
            channel=credentials,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.close()
        else:
            await self._servers.close_quietly()
