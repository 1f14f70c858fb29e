"""Settings and verbs that `Client` and `AsyncClient` share.

`flush`, `close`, `evaluator` and `list_streams` concern all servers of a client; the
verbs that manage one stream go to the server that has it.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._time.times import to_us
from streameval.client._delivery.connection import BaseConnection, verb
from streameval.client._delivery.routing import check_addresses
from streameval.client._delivery.servers import Servers
from streameval.client._delivery.spool import checked_spool
from streameval.client._pair_verbs import PairVerbs
from streameval.client._stream_verbs import StreamVerbs
from streameval.client._wire import alarms, calls, summaries
from streameval.client._wire.answers import StreamInfo
from streameval.client._wire.calls import Call, all_pages, new_request_id, set_prevalence
from streameval.client._wire.credentials import Credentials
from streameval.client._wire.decode import read_comparison
from streameval.client._wire.marks import StreamMark
from streameval.client._wire.reader import read
from streameval.client._wire.selection import Selection
from streameval.client._wire.verdicts import read_verdict
from streameval.v1 import alarm_pb2, mark_pb2, query_pb2, stream_pb2, verdict_pb2

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from streameval._common.spans import Segment, Span
    from streameval._evaluator import Evaluator
    from streameval._verdict.verdict import Verdict
    from streameval.client._delivery.statistics import ClientStatistics
    from streameval.client._wire.alarms import AlarmStatus, StreamAlarm
    from streameval.client._wire.answers import StreamComparison
    from streameval.client._wire.selection import Window
    from streameval.client._wire.settings import ChangedSettings, NewSettings
    from streameval.client._wire.summaries import StreamSummary

C = TypeVar("C", bound=BaseConnection)
S = TypeVar("S", bound=StreamVerbs[Any])


class ClientVerbs(PairVerbs[C], Generic[C, S]):
    """The verbs of a client of one server, or of several.

    Parameters
    ----------
    address : str or sequence of str
    connect : callable
        Returns the connection to an address, given its credentials.
    spool : path or None
        As of `Client`.
    **credentials
        As of `Credentials`.
    """

    _stream_of: Callable[[C, str], S]

    def __init__(
        self,
        address: object,
        connect: Callable[[str, Credentials], C],
        *,
        spool: str | os.PathLike[str] | None,
        **credentials: Any,
    ) -> None:
        found = check_addresses(address)
        self.addresses = tuple(found)
        secrets = {
            each: Credentials(each, is_https=is_https, **credentials)
            for each, is_https in found.items()
        }
        self._servers = Servers({each: connect(each, secrets[each]) for each in self.addresses})
        for connection in self._servers:
            if spool is not None:
                several = len(self.addresses) > 1
                suffix = f"-{connection.address.replace('/', '_')}" if several else ""
                path = Path(f"{os.fspath(spool)}{suffix}").absolute()
                connection.spool = checked_spool(path)

    # -- streams -----------------------------------------------------------------

    def stream(self, name: str) -> S:
        """Return the verbs of one stream, without a call to the server.

        With several servers, the first use of a stream asks them which has it, for at most a
        second each, also on an event loop; the token then needs the scope query.

        Parameters
        ----------
        name : str
            By convention ``model/version``. The first batch creates the stream,
            unless the server is configured not to.
        """
        return self._stream_of(self._servers.for_stream(name), name)

    def shards(self, name: str) -> list[S]:
        """Return the verbs of one stream on each server, in the order of the addresses.

        A stream with too many rows for one server may be written to several, each
        case to any one of them; `evaluator` adds them up.
        """
        return [self._stream_of(connection, name) for connection in self._servers]

    @verb
    async def compare(
        self,
        a: Selection | StreamVerbs[Any] | str,
        b: Selection | StreamVerbs[Any] | str,
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
            also a metric at one, such as "recall", and if they declare the same costs what
            errors cost. Another name is refused with the list of all.
        prevalence : float, "common" or "own"
            The prevalence at which figures of precision and recall are compared;
            "common" is the greater of the two sides', and the answer has AUC-ROC, too;
            "own" keeps each side's own.
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
        >>> from streameval.client import Client
        >>> with running_server() as address, Client(address) as client:
        ...     for name, labels in (("m/1", [1, 0, 1, 0, 0, 1]), ("m/2", [1, 1, 1, 0, 0, 0])):
        ...         client.stream(name).add_cases(labels=labels, scores=[6, 5, 4, 3, 2, 1])
        ...     revision = client.flush()
        ...     change = client.compare("m/2", "m/1", metric="auc_roc")
        >>> round(change.difference, 3), change.lower < 0 < change.upper
        (0.444, True)
        """
        sides = _selection_of(a), _selection_of(b)
        connection = self._servers.for_both(
            sides[0].stream,
            sides[1].stream,
            ": compare their evaluators, "
            "streameval.compare(client.evaluator(a), client.evaluator(b))",
        )
        request = query_pb2.CompareStreamsRequest(
            a=sides[0].to_message(connection.revision),
            b=sides[1].to_message(connection.revision),
            metric=metric,
            level=level,
        )
        set_prevalence(request, prevalence, default="common")
        call = Call(request, lambda response: read_comparison(response.comparison))
        return await connection.ask(call)

    @verb
    async def evaluator(
        self,
        name: str,
        *,
        window: Window = None,
        segment: Segment | None = None,
        mature_after: Span | None = None,
    ) -> Evaluator:
        """Return a stream's state, added up over all servers that have a part of it.

        The cases of a stream are on several servers when they were written with
        `shards`, or when servers were added. States add up exactly: a single server
        with all the cases would give the same result.

        Parameters
        ----------
        name : str
        window, segment, mature_after
            Which cases: see `Selection`. Each server uses its own clock. With
            several servers, a window must not be a number of cases.

        Raises
        ------
        NotFoundError
            When no server has the stream.
        UnavailableError, DeadlineError
            When one of the servers does not answer: a partial sum is not returned.
        InvalidInputError, CorruptStateError
            As `Stream.evaluator`.

        Notes
        -----
        Transfers all states: at most 4 MB from each server with default limits.
        """
        return await self._servers.evaluator(
            Selection(stream=name, window=window, segment=segment, mature_after=mature_after)
        )

    @verb
    async def create_stream(self, name: str, **settings: Unpack[NewSettings]) -> StreamInfo:
        """Create a stream. The first row does so too, with the server's default settings.

        Parameters
        ----------
        name : str
            By convention ``model/version``.
        **settings
            As in `StreamSettings`; the server's defaults unless given.

        Raises
        ------
        AlreadyExistsError
            When a stream of that name exists.
        InvalidInputError, InvalidRequestError
            When the name is invalid, or settings contradict each other.
        """
        call = calls.create_stream(name, settings)
        response = await self._servers.for_stream(name).change(call)
        return read(response.stream, StreamInfo)

    @verb
    async def update_stream(self, name: str, **settings: Unpack[ChangedSettings]) -> StreamInfo:
        """Change the given settings of a stream; the others stay as they are.

        Parameters
        ----------
        name : str
        **settings
            As in `StreamSettings`, but for ``pane``, ``resolution``, ``scale`` and the
            clusters, which cannot change; ``segment_keys`` lists the present keys and those
            to add.

        Raises
        ------
        NotFoundError
            When there is no stream of that name.
        PreconditionError
            When a setting cannot change to this value.
        InvalidInputError, InvalidRequestError
            When settings contradict each other.
        """
        call = calls.update_stream(name, settings)
        response = await self._servers.for_stream(name).change(call)
        return read(response.stream, StreamInfo)

    @verb
    async def get_stream(self, name: str) -> StreamInfo:
        """Return a stream's description, with its counters.

        Raises
        ------
        NotFoundError
            When there is no stream of that name.
        """
        return await self._servers.for_stream(name).ask(calls.get_stream(name))

    @verb
    async def list_streams(self, prefix: str = "") -> list[StreamInfo]:
        """Return the streams whose names begin with `prefix`, in order of their names.

        A stream that is on several servers is listed once for each.
        """
        pages = await self._servers.ask_pages_of_all(
            lambda: all_pages(stream_pb2.ListStreamsRequest(prefix=prefix))
        )
        found = [read(each, StreamInfo) for page in pages for each in page.streams]
        return sorted(found, key=lambda info: info.name)

    @verb
    async def list_summaries(
        self,
        order_by: str = "alarms",
        *,
        reverse: bool = False,
        search: str = "",
        prefix: str = "",
        window: Span | None = timedelta(days=1),
        limit: int | None = None,
    ) -> list[StreamSummary]:
        """Return streams in an order, with their figures, changes and alarms.

        Parameters
        ----------
        order_by : str
            "alarms": those with open alarms, then those whose verdict is worse, the largest fall
            first, then the others by their change. "change", "name", "volume", "newest",
            "coverage", "projected", or a metric of the summaries, such as "auc_pr" or "f_measure",
            the worst first.
        reverse : bool
            The other way round; streams without a value still come last.
        search, prefix : str
            Only streams whose names contain this in any case, or begin with this.
        window : timedelta or text or None
            The time before the server's clock; None is all time, which has no change.
        limit : int or None
            The most streams; None means all.

        Raises
        ------
        InvalidInputError, InvalidRequestError
            When an argument has no meaning.

        Notes
        -----
        O(streams log streams) on the server, and a few milliseconds for each stream that has
        changed since its last summary. With several servers the streams of each are in order,
        one server after the other.
        """
        return await self._servers.ask_pages_of_all(
            lambda: summaries.list_summaries(
                order_by=order_by,
                reverse=reverse,
                search=search,
                prefix=prefix,
                window=window,
                limit=limit,
            )
        )

    @verb
    async def delete_stream(self, name: str) -> None:
        """Delete a stream and all its counts.

        Rows that are added later, or were added earlier and not flushed, create a
        new stream of that name.

        Raises
        ------
        NotFoundError
            When there is no stream of that name.
        """
        request = stream_pb2.DeleteStreamRequest(name=name, request_id=new_request_id())
        await self._servers.for_stream(name).change(Call(request))

    # -- alarms ------------------------------------------------------------------

    @verb
    async def list_alarms(self, prefix: str = "", *, open_only: bool = False) -> list[AlarmStatus]:
        """Return the detectors of the streams whose names begin with `prefix`, in their order.

        Parameters
        ----------
        prefix : str
        open_only : bool
            Only streams with an open alarm, and only those alarms.
        """
        pages = await self._servers.ask_pages_of_all(
            lambda: all_pages(alarm_pb2.ListAlarmsRequest(prefix=prefix, open_only=open_only))
        )
        found = [alarms.read_status(each) for page in pages for each in page.statuses]
        return sorted(found, key=lambda status: status.stream)

    @verb
    async def stream_alarms(self, name: str) -> AlarmStatus | None:
        """Return a stream's detector with its alarms; None where it has no settings of alarms.

        Raises
        ------
        NotFoundError
            When there is no stream of that name.
        """
        request = alarm_pb2.ListAlarmsRequest(stream=name, page_size=1)
        response: alarm_pb2.ListAlarmsResponse = await self._servers.for_stream(name).ask(
            Call(request)
        )
        return alarms.read_status(response.statuses[0]) if response.statuses else None

    @verb
    async def acknowledge_alarm(self, name: str, number: int) -> StreamAlarm:
        """Acknowledge an alarm, so that its watch may raise another; return it.

        Acknowledging it again changes nothing.

        Raises
        ------
        NotFoundError
            When there is no such stream, or no such alarm.
        """
        _check_number(number, "an alarm's")
        request = alarm_pb2.AcknowledgeAlarmRequest(stream=name, number=number)
        call = Call(request, lambda response: alarms.read_alarm(response.alarm))
        return await self._servers.for_stream(name).ask(call)

    @verb
    async def accept_normal(self, name: str) -> Verdict:
        """Say that what a stream is now is its new normal; return the verdict then.

        Verdicts compare with it from then on: the base is the newest time since the change that
        has cases enough, or begins now.

        Raises
        ------
        NotFoundError
            When there is no stream of that name.
        """
        request = verdict_pb2.AcceptNormalRequest(stream=name)
        call = Call(request, lambda response: read_verdict(response.verdict))
        return await self._servers.for_stream(name).ask(call)

    # -- marks -------------------------------------------------------------------

    @verb
    async def create_mark(self, name: str, text: str, *, at: datetime | None = None) -> StreamMark:
        """Mark a time of a stream, such as a deployment: charts show it; return the mark.

        A mark of the same time and text is the same mark, so that a call can be repeated.

        Parameters
        ----------
        name : str
        text : str
            What happened: one line of 1 to 200 characters.
        at : datetime, optional
            When it happened, with a zone; now by default.

        Raises
        ------
        NotFoundError
            When there is no stream of that name.
        InvalidRequestError
            When the text is no such line.
        """
        request = mark_pb2.CreateMarkRequest(stream=name, text=text)
        if at is not None:
            request.time.FromMicroseconds(to_us(at, field="at"))
        call = Call(request, lambda response: read(response.mark, StreamMark))
        return await self._servers.for_stream(name).ask(call)

    @verb
    async def list_marks(
        self, name: str, *, start: datetime | None = None, end: datetime | None = None
    ) -> list[StreamMark]:
        """Return a stream's marks from `start` to before `end`, in order of their times.

        Raises
        ------
        NotFoundError
            When there is no stream of that name.
        """
        request = mark_pb2.ListMarksRequest(stream=name)
        if start is not None:
            request.start_time.FromMicroseconds(to_us(start, field="start"))
        if end is not None:
            request.end_time.FromMicroseconds(to_us(end, field="end"))
        response: mark_pb2.ListMarksResponse = await self._servers.for_stream(name).ask(
            Call(request)
        )
        return [read(each, StreamMark) for each in response.marks]

    @verb
    async def delete_mark(self, name: str, number: int) -> None:
        """Delete a mark.

        Raises
        ------
        NotFoundError
            When there is no such stream, or no such mark.
        """
        _check_number(number, "a mark's")
        request = mark_pb2.DeleteMarkRequest(stream=name, number=number)
        await self._servers.for_stream(name).ask(Call(request))

    # -- the whole client --------------------------------------------------------

    @verb
    async def flush(self, timeout_s: float | None = 30.0) -> int:
        """Wait until everything added so far, to any stream, is durable.

        Parameters
        ----------
        timeout_s : float or None
            The longest wait, in seconds; None waits without limit.

        Returns
        -------
        int
            The log revision that includes all those rows; with several servers
            the highest. Queries of this client wait for it automatically.

        Raises
        ------
        RowsLostError
            When rows were refused or dropped since the last such error; all
            others are durable.
        DeadlineError
            When rows are not durable in time; the client goes on sending them.
        FencedError
            When a newer producer uses this producer's name.
        AccessError, UnimplementedError, InvalidRequestError
            When the server refuses the connection itself.
        """
        return await self._servers.flush(timeout_s)

    def statistics(self) -> ClientStatistics:
        """Return the counters of rows added, sent, acked, refused, dropped, retried. O(1)."""
        return self._servers.statistics()

    @verb
    async def close(self, timeout_s: float | None = 30.0) -> None:
        """Flush, and close the connections. Closing again does nothing.

        Parameters
        ----------
        timeout_s : float or None
            The longest wait for the flush, in seconds; None waits for as long as rows become
            durable. It ends after the client's `close_timeout_s` in which none did.

        Raises
        ------
        ClientError
            What `flush` raises; the client is closed nevertheless.
        """
        await self._servers.close(timeout_s)


def _selection_of(side: Selection | StreamVerbs[Any] | str) -> Selection:
    """Return a side of a comparison: a stream, or its name, means all of it."""
    if isinstance(side, Selection):
        return side
    return side.select() if isinstance(side, StreamVerbs) else Selection(stream=side)


def _check_number(number: object, whose: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**32:
        message = f"number must be {whose} number, got {shown(number)}"
        raise InvalidInputError(message, field="number")
