"""`Client`: the verbs of one server, or of several, blocking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from streameval.client._client_verbs import ClientVerbs
from streameval.client._delivery.client_settings import ClientSettings
from streameval.client._delivery.connection import BlockingVerbs, Connection, run_blocking
from streameval.client._stream import Stream
from streameval.client._wire.transport import Transport

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import grpc

    from streameval.client._buffer.buffer import WhenFull
    from streameval.client._wire.credentials import Pem, Token


class Client(ClientVerbs[Connection, Stream], BlockingVerbs):
    """A connection to a streameval server, or to several.

    Parameters
    ----------
    address : str or sequence of str
        ``host:port``, or a URL: without a port 50051, and https:// encrypts as `tls` does.
        The connection opens with the first call, so the server need not run yet. With several
        servers, each stream lives on one of them: the one that has it already, else one chosen
        by rendezvous hashing of its name and the addresses. All clients with the same addresses,
        in any order, choose the same server, and a server that is added gets new streams only.
    token : str or callable, optional
        Sent with each call as a bearer token. A callable is called for each
        call and returns the token: ``token=Path("token").read_text`` follows a
        file. Never sent in plain text to another machine.
    tls : bool
        Encrypt, and trust the authorities that gRPC knows. Each of the next
        four parameters turns encryption on as well.
    root_certificates : path or bytes, optional
        The authorities to trust instead: a PEM file, or its content.
    client_certificate, client_key : path or bytes, optional
        For a server that requires client certificates (mTLS): PEM, both or
        neither. Certificate and key files are read again when they have changed.
    credentials : grpc.ChannelCredentials, optional
        Any other channel credentials of gRPC, instead of the parameters above.
    producer : str, optional
        Name of the sender; 1 to 128 bytes of UTF-8. A new UUID by default. Two
        processes that use the same name at the same time fence each other.
    when_full : {"drop", "block"}
        What happens to new rows while `max_buffered_rows` are not durable: they
        are dropped and counted, or the caller waits.
    max_buffered_rows : int
        The most rows that may be added and not yet durable. A row takes 9 bytes,
        with an id 80 to 110: 36 MB by default, and up to 440 MB with ids.
    batch_rows : int
        The most rows of a batch; this many are sent at once. No batch has more than 16,384
        rows or 512 KiB, and none more than the server and proxies on the way take.
    linger_s : float
        Fewer rows wait this long for more, in seconds.
    timeout_s : float
        Deadline of queries and of the management of streams, in seconds.
    close_timeout_s : float
        How long `close` waits while no row becomes durable, in seconds; and how long a
        client that was not closed may delay the end of its process to send its rows.
        What is left then is lost, and a warning says how many rows.
    spool : path, optional
        A file for these rows instead, for ``streameval push --spool FILE``, which
        counts each row once. With several servers, one file for each, whose name ends with
        the address.

    Raises
    ------
    InvalidInputError
        When a setting is out of range, a file cannot be read, or the token
        would travel in plain text to another machine.

    Notes
    -----
    Safe for any number of threads. Close it, or use it in a ``with`` statement.

    Examples
    --------
    >>> from streameval_server.testing import running_server
    >>> with running_server() as address, Client(address) as client:
    ...     stream = client.stream("fraud/v3")
    ...     stream.add_case(True, 0.93)
    ...     stream.add_cases(labels=[0, 1], scores=[0.7, 0.4])
    ...     revision = stream.flush()
    ...     snapshot = stream.snapshot()
    ...     acked = client.statistics().acked
    >>> snapshot.auc_roc, snapshot.revision >= revision, acked
    (0.5, True, 3)
    """

    _stream_of = Stream

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
        when_full: WhenFull = "drop",
        max_buffered_rows: int = 4_000_000,
        batch_rows: int = 10_000,
        linger_s: float = 0.025,
        timeout_s: float = 10.0,
        close_timeout_s: float = 5.0,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        settings = ClientSettings(
            producer=producer,
            when_full=when_full,
            max_buffered_rows=max_buffered_rows,
            batch_rows=batch_rows,
            linger_s=linger_s,
            timeout_s=timeout_s,
            close_timeout_s=close_timeout_s,
        )
        super().__init__(
            address,
            lambda each, secrets: Connection(Transport(each, secrets), settings),
            spool=spool,
            token=token,
            tls=tls,
            root_certificates=root_certificates,
            client_certificate=client_certificate,
            client_key=client_key,
            channel=credentials,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            run_blocking(self._servers.close_quietly())
