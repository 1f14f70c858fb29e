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
    import os
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
        ``host:port``. The connection opens with the first call, so the server
        need not run yet. With several servers, each stream lives on one of them: the
        one that has it already, else one chosen by rendezvous hashing of its name and
        the addresses. All clients with the same addresses, in any order, choose the same
        server, and a server that is added gets new streams only.
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
        A file for these rows instead, for ``streameval push FILE --to HOST:PORT``, which
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
        check_seconds(linger_s=linger_s, timeout_s=timeout_s, close_timeout_s=close_timeout_s)
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
                close_timeout_s=close_timeout_s,
            )

        super().__init__(
            address,
            connect,
            spool=spool,
            token=token,
            tls=tls,
            root_certificates=root_certificates,
            client_certificate=client_certificate,
            client_key=client_key,
            channel=credentials,
        )

    def stream(self, name: str) -> Stream:
        """Return the verbs of one stream, without a call to the server.

        With several servers, the first use of a stream asks them which has it, for at most a
        second each; the token then needs the scope query.

        Parameters
        ----------
        name : str
            By convention ``model/version``. The first batch creates the stream,
            unless the server is configured not to.
        """
        return Stream(self._servers.for_stream(name), name)

    def shards(self, name: str) -> list[Stream]:
        """Return the verbs of one stream on each server, in the order of the addresses.

        A stream with too many rows for one server may be written to several, each
        case to any one of them; `evaluator` adds them up.
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
            means all of a stream. When b contains a, a is compared with the rest
            of b; any other overlap is refused.
        metric : str
            "auc_pr", "average_precision", "auc_roc"; if both streams declare a threshold
            also "precision", "recall", "fpr", "specificity", "f_measure", and if they
            declare the same costs, "expected_cost".
        prevalence : float, "common" or "own"
            The prevalence at which figures of precision and recall are compared;
            "common" pools both sides for it, "own" keeps each side's own.
        level : float
            Nominal coverage of the interval.

        Raises
        ------
        NotFoundError
            When there is no such stream.
        PreconditionError
            When the sides share cases and b does not contain a.
        InvalidInputError, InvalidRequestError
            When an argument is invalid, or the sides are on different servers.

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
