"""`Client`: the verbs of one server, or of several, blocking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from streameval.client._client_verbs import (
    ClientVerbs,
    check_seconds,
    check_settings,
    selection_of,
)
from streameval.client._delivery.connection import BlockingVerbs, Connection, run_blocking
from streameval.client._stream import Stream
from streameval.client._wire import calls
from streameval.client._wire.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    import grpc

    from streameval.client._buffer.buffer import WhenFull
    from streameval.client._wire.answers import StreamComparison
    from streameval.client._wire.credentials import Credentials, Pem, Token
    from streameval.client._wire.selection import Selection


class Client(ClientVerbs[Connection], BlockingVerbs):
    """A connection to a streameval server, or to several.

    Parameters
    ----------
    address : str or sequence of str
        ``host:port``. Nothing is opened before it is needed, and the server
        need not be there yet. Of several servers each stream has one, chosen by
        rendezvous hashing of its name and the addresses: every client that is
        given the same addresses, in any order, finds it.
    token : str or callable, optional
        Sent with each call as a bearer token; a callable returns it, and is
        asked for each call: ``token=Path("token").read_text`` follows a file.
        Never sent in plain text to another machine.
    tls : bool
        Encrypt, and trust the authorities that gRPC knows. Each of the next
        four turns encryption on as well.
    root_certificates : path or bytes, optional
        The authorities to trust instead: a PEM file, or its content.
    client_certificate, client_key : path or bytes, optional
        For a server that wants to see them (mTLS): PEM, both or none. All
        these files are read again when they have changed.
    credentials : grpc.ChannelCredentials, optional
        Anything else that gRPC can do, instead of those.
    producer : str, optional
        Who sends; 1 to 128 bytes of UTF-8. A new UUID unless given. Two
        processes that use the same one at a time fence each other off.
    when_full : {"drop", "block"}
        What happens to rows when `max_buffered_rows` are waiting: the newest
        are dropped and counted, or their caller waits.
    max_buffered_rows : int
        Rows that may be added and not yet durable, at most. One takes 9 bytes,
        with an id 80 to 110: so 36 MB by default, and up to 440 MB with ids.
    batch_rows : int
        So many rows are sent without waiting for more.
    linger_s : float
        Fewer wait so long for company, in seconds.
    timeout_s : float
        How long queries and the management of streams may take, in seconds.
    exit_timeout_s : float
        How long a client that was not closed may hold up the end of its
        process, to send what it still has, in seconds.

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
        batch_rows: int = 1_000,
        linger_s: float = 0.025,
        timeout_s: float = 10.0,
        exit_timeout_s: float = 2.0,
    ) -> None:
        check_seconds(linger_s=linger_s, timeout_s=timeout_s, exit_timeout_s=exit_timeout_s)
        check_settings(
            when_full=when_full,
            producer=producer,
            max_buffered_rows=max_buffered_rows,
            batch_rows=batch_rows,
        )

        def connect(each: str, credentials: Credentials) -> Connection:
            return Connection(
                Transport(each, credentials),
                producer=producer,
                when_full=when_full,
                max_buffered_rows=max_buffered_rows,
                batch_rows=batch_rows,
                linger_s=linger_s,
                timeout_s=timeout_s,
                exit_timeout_s=exit_timeout_s,
            )

        super().__init__(
            address,
            connect,
            token=token,
            tls=tls,
            root_certificates=root_certificates,
            client_certificate=client_certificate,
            client_key=client_key,
            channel=credentials,
        )

    def stream(self, name: str) -> Stream:
        """Return the verbs of one stream. Asks nothing of the server.

        Parameters
        ----------
        name : str
            By custom ``model/version``. The stream is made by its first batch,
            unless the server was told otherwise.
        """
        return Stream(self._servers.for_stream(name), name)

    def shards(self, name: str) -> list[Stream]:
        """Return the verbs of one stream on each server, in the order of the addresses.

        A stream that is too much for one server may be written on several, each
        case on any one of them; `evaluator` adds them up.
        """
        return [Stream(connection, name) for connection in self._servers]

    def compare(
        self,
        a: Selection | Stream | str,
        b: Selection | Stream | str,
        *,
        metric: str = "auc_pr",
        prevalence: float | Literal["common", "own"] = "common",
        level: float = 0.95,
    ) -> StreamComparison:
        """Compare two streams, windows or segments: a minus b, with its interval.

        Parameters
        ----------
        a, b : Selection, Stream or str
            The sides: `Stream.select` chooses windows and segments, a name
            means all of a stream. Where b contains a, the rest of b is
            compared; every other overlap is refused.
        metric : {"auc_pr", "average_precision", "auc_roc"}
            The figure.
        prevalence : float, "common" or "own"
            The prevalence that figures of precision and recall are compared
            at; "common" is that of both sides pooled, "own" compares them as
            they are.
        level : float
            Nominal coverage of the interval.

        Raises
        ------
        NotFoundError
            When there is no such stream.
        PreconditionError
            When the sides share cases and b does not contain a.
        InvalidInputError, InvalidRequestError
            When an argument is something else, or the sides are on different
            servers.

        Examples
        --------
        >>> from streameval_server.testing import running_server
        >>> with running_server() as address, Client(address) as client:
        ...     for name, labels in (("m/1", [1, 0, 1, 0, 0, 1]), ("m/2", [1, 1, 1, 0, 0, 0])):
        ...         client.stream(name).add_cases(labels=labels, scores=[6, 5, 4, 3, 2, 1])
        ...     revision = client.flush()
        ...     change = client.compare("m/2", "m/1", metric="auc_roc")
        >>> round(change.difference, 3), change.lower < 0 < change.upper
        (0.444, True)
        """
        sides = selection_of(a), selection_of(b)
        connection = self._servers.for_both(*sides)
        call = calls.compare(
            *sides, connection.revision, metric=metric, prevalence=prevalence, level=level
        )
        return run_blocking(connection.ask(call))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            run_blocking(self._servers.close_quietly())
