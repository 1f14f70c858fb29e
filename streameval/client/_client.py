"""The client: what is done to a server, or to several, as a whole."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Literal, Self, Unpack

from streameval._common.errors import InvalidInputError
from streameval._common.values import real, shown
from streameval.client._delivery.connection import Core
from streameval.client._delivery.routing import check_addresses
from streameval.client._delivery.servers import Servers
from streameval.client._stream import Stream
from streameval.client._wire import calls as _questions
from streameval.client._wire.credentials import Credentials
from streameval.client._wire.decode import read_info
from streameval.client._wire.selection import Selection, selection_of
from streameval.client._wire.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from types import TracebackType

    import grpc

    from streameval._evaluator import Evaluator
    from streameval.client._buffer.buffer import WhenFull
    from streameval.client._delivery.statistics import ClientStatistics
    from streameval.client._wire.answers import StreamComparison, StreamInfo
    from streameval.client._wire.credentials import Pem, Token
    from streameval.client._wire.selection import Window
    from streameval.client._wire.stream_settings import ChangedSettings, NewSettings


class Client:
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
        self.addresses = check_addresses(address)
        check_seconds(linger_s=linger_s, timeout_s=timeout_s, exit_timeout_s=exit_timeout_s)
        check_settings(
            when_full=when_full,
            producer=producer,
            max_buffered_rows=max_buffered_rows,
            batch_rows=batch_rows,
        )
        transports = {}
        for each in self.addresses:
            secrets = Credentials(
                each,
                token=token,
                tls=tls,
                root_certificates=root_certificates,
                client_certificate=client_certificate,
                client_key=client_key,
                channel=credentials,
            )
            transports[each] = Transport(each, secrets)
        self._servers = Servers(
            {
                each: Core(
                    transport,
                    producer=producer,
                    when_full=when_full,
                    max_buffered_rows=max_buffered_rows,
                    batch_rows=batch_rows,
                    linger_s=linger_s,
                    timeout_s=timeout_s,
                    exit_timeout_s=exit_timeout_s,
                )
                for each, transport in transports.items()
            }
        )

    # -- streams -----------------------------------------------------------------

    def stream(self, name: str) -> Stream:
        """Return the verbs of one stream. Asks nothing of the server.

        Parameters
        ----------
        name : str
            By custom ``model/version``. The stream is made by its first batch,
            unless the server was told otherwise.
        """
        return Stream(self._servers.of(name), name)

    def shards(self, name: str) -> list[Stream]:
        """Return the verbs of one stream on each server, in the order of the addresses.

        A stream that is too much for one server may be written on several, each
        case on any one of them; `evaluator` adds them up.
        """
        return [Stream(core, name) for core in self._servers]

    def evaluator(
        self,
        name: str,
        *,
        window: Window = None,
        segment: tuple[str, str] | None = None,
        mature_after: timedelta | None = None,
    ) -> Evaluator:
        """Return a stream's state, added up over all servers that have a part of it.

        The cases of a stream are on several servers where they were written so
        (`shards`), or since servers were added. States add up exactly, so this
        is the answer of one server that had seen them all.

        Parameters
        ----------
        name : str
        window, segment, mature_after
            Which cases: see `Selection`. Each server has a clock of its own, and
            several cannot count back a number of cases.

        Raises
        ------
        NotFoundError
            When no server has the stream.
        UnavailableError, DeadlineError
            When one of the servers does not answer: there is no answer without it.
        InvalidInputError, CorruptStateError
            As `Stream.evaluator`.

        Notes
        -----
        Transfers all states: at most 4 MB from each server with default limits.
        """
        return self._servers.evaluator(
            Selection(stream=name, window=window, segment=segment, mature_after=mature_after)
        )

    def create_stream(self, name: str, **settings: Unpack[NewSettings]) -> StreamInfo:
        """Make a stream. Not needed before the first row, unless settings matter.

        Parameters
        ----------
        name : str
            By custom ``model/version``.
        **settings
            As in `StreamSettings`; the server's defaults unless given.

        Raises
        ------
        AlreadyExistsError
            When there is one of that name.
        InvalidInputError, InvalidRequestError
            When the name is not one, or settings do not go together.
        """
        core = self._servers.of(name)
        response = core.ask(_questions.create_stream(name, settings))
        core.worker.saw(response.revision)
        return read_info(response.stream)

    def update_stream(self, name: str, **settings: Unpack[ChangedSettings]) -> StreamInfo:
        """Change settings of a stream: those that are given. The others cannot change.

        Parameters
        ----------
        name : str
        **settings
            As in `StreamSettings`; ``segment_keys`` are those that it has, and
            those to add.

        Raises
        ------
        NotFoundError
            When there is no stream of that name.
        PreconditionError
            When a setting cannot change so.
        InvalidInputError, InvalidRequestError
            When settings do not go together.
        """
        core = self._servers.of(name)
        response = core.ask(_questions.update_stream(name, settings))
        core.worker.saw(response.revision)
        return read_info(response.stream)

    def get_stream(self, name: str) -> StreamInfo:
        """Return a stream's description, with its counters.

        Raises
        ------
        NotFoundError
            When there is none of that name.
        """
        return self._servers.of(name).ask(_questions.get_stream(name))

    def list_streams(self, prefix: str = "") -> list[StreamInfo]:
        """Return the streams whose names begin with `prefix`, in order of their names.

        One that is on several servers is there once for each.
        """
        found = self._servers.all_of(lambda: _questions.list_streams(prefix))
        return sorted(found, key=lambda info: info.name)

    def delete_stream(self, name: str) -> None:
        """Delete a stream and everything that was counted in it.

        What is added to it afterwards, or was added and not flushed before,
        begins a new stream of that name.

        Raises
        ------
        NotFoundError
            When there is none of that name.
        """
        core = self._servers.of(name)
        response = core.ask(_questions.delete_stream(name))
        core.worker.saw(response.revision)

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
        core = self._servers.of_both(*sides)
        return core.ask(
            _questions.compare(
                *sides,
                core.revision,
                metric=metric,
                prevalence=prevalence,
                level=level,
            )
        )

    # -- the whole client --------------------------------------------------------

    def flush(self, timeout: float | None = 30.0) -> int:
        """Wait until everything added so far, to any stream, is durable.

        Parameters
        ----------
        timeout : float or None
            At most so many seconds; None waits for ever.

        Returns
        -------
        int
            The log revision that includes it all; of several servers the
            highest. Queries of this client wait for it by themselves.

        Raises
        ------
        RowsLostError
            When rows were refused or dropped since the last such error; all
            others are durable.
        DeadlineError
            When rows are not durable in time; they are still being sent.
        FencedError
            When a newer producer has taken this one's name.
        AccessError, UnimplementedError, InvalidRequestError
            When the server will not talk to this client at all.
        """
        return self._servers.flush(timeout)

    def statistics(self) -> ClientStatistics:
        """Return what was added, sent, acked, refused, dropped, retried. O(1)."""
        return self._servers.statistics()

    def close(self, timeout: float | None = 30.0) -> None:
        """Flush, and close the connection. Closing again does nothing.

        Parameters
        ----------
        timeout : float or None
            At most so many seconds for the flush; None waits for ever.

        Raises
        ------
        ClientError
            What `flush` raises; the client is closed all the same.
        """
        self._servers.close(timeout)

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
            self._servers.close_quietly()


def check_seconds(**seconds: object) -> None:
    """Refuse times that are no seconds."""
    for field, value in seconds.items():
        number = real(value, field)
        if not 0.0 <= number < math.inf:
            message = f"{field} must be finite seconds and not negative, got {number}"
            raise InvalidInputError(message, field=field)


def check_settings(
    *, when_full: object, producer: object, max_buffered_rows: object, batch_rows: object
) -> None:
    """Refuse what cannot be a client's setting."""
    if when_full not in ("drop", "block"):
        message = f"when_full must be 'drop' or 'block', got {shown(when_full)}"
        raise InvalidInputError(message, field="when_full")
    if producer is not None and not isinstance(producer, str):
        message = f"producer must be text, got {shown(producer)}"
        raise InvalidInputError(message, field="producer")
    if producer is not None and not 1 <= len(producer.encode()) <= 128:
        message = f"producer must have 1 to 128 bytes of UTF-8, got {len(producer.encode())}"
        raise InvalidInputError(message, field="producer")
    for field, value in (("max_buffered_rows", max_buffered_rows), ("batch_rows", batch_rows)):
        if not isinstance(value, numbers.Integral):
            message = f"{field} must be a whole number, got {shown(value)}"
            raise InvalidInputError(message, field=field)
        if value < 1:
            raise InvalidInputError(f"{field} must be at least 1, got {value}", field=field)
