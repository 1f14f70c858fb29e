"""The verbs of pairs, which `Client` and `AsyncClient` share.

A pair is on the server that has both streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, TypeVar, Unpack

from streameval.client._buffer.checks import check_stream_name
from streameval.client._delivery.connection import BaseConnection, verb
from streameval.client._wire import pairs
from streameval.client._wire.calls import Call, all_pages, new_request_id, set_prevalence
from streameval.client._wire.pair_answers import PairInfo
from streameval.client._wire.reader import read
from streameval.client._wire.selection import Selection, duration, time_range
from streameval.client._wire.settings import NewPairSettings, set_settings
from streameval.v1 import pair_pb2

if TYPE_CHECKING:
    from datetime import datetime

    from streameval._common.spans import Segment, Span
    from streameval.client._delivery.servers import Servers
    from streameval.client._wire.pair_answers import PairComparison
    from streameval.client._wire.selection import Window
    from streameval.v1 import types_pb2

C = TypeVar("C", bound=BaseConnection)


class PairVerbs(Generic[C]):
    """The verbs of champion and challenger."""

    _servers: Servers[C]

    async def _connection_of(self, name: str) -> C:
        return await self._servers.for_pair(check_stream_name(name, field="pair"))

    @verb
    async def create_pair(
        self, a: str, b: str, *, name: str = "", **settings: Unpack[NewPairSettings]
    ) -> PairInfo:
        """Make a pair of two streams: from now on their predictions meet by id.

        Predictions of both streams under the same id count for the pair, in either order;
        the label that comes to either counts for both models.

        Parameters
        ----------
        a, b : str
            Two streams of the server; a is the champion as a rule.
        name : str
            The pair's own name, by which the other verbs reach it, of the form of a stream's;
            "{a}-vs-{b}" unless given.
        **settings
            As in `PairSettings`; the server's defaults unless given.

        Raises
        ------
        NotFoundError
            When there is no such stream.
        AlreadyExistsError
            When there is a pair of these two, or another one of that name.
        InvalidInputError, InvalidRequestError
            When an argument is invalid, or the streams are on different servers.
        """
        for each in (a, b):
            check_stream_name(each)
        connection = self._servers.for_both(
            a,
            b,
            ", and a pair is on one: give both streams to one server, or keep their scores by id "
            "and use streameval.compare_paired",
        )
        if name:
            check_stream_name(name, field="pair")
        request = pair_pb2.CreatePairRequest(pair_id=name, request_id=new_request_id())
        request.pair.a, request.pair.b = a, b
        set_settings(request.pair.settings, NewPairSettings.__annotations__, settings)
        response: pair_pb2.CreatePairResponse = await connection.change(Call(request))
        return read(response.pair, PairInfo)

    @verb
    async def get_pair(self, name: str) -> PairInfo:
        """Return a pair's description, with its counters.

        Raises
        ------
        NotFoundError
            When there is no such pair.
        """
        connection = await self._connection_of(name)
        request = pair_pb2.GetPairRequest(name=name)
        return await connection.ask(Call(request, lambda found: read(found.pair, PairInfo)))

    @verb
    async def list_pairs(self, stream: str = "") -> list[PairInfo]:
        """Return the pairs of a stream, or of all, in order of their names."""
        pages = await self._servers.ask_pages_of_all(
            lambda: all_pages(pair_pb2.ListPairsRequest(stream=stream))
        )
        found = [read(each, PairInfo) for page in pages for each in page.pairs]
        return sorted(found, key=lambda pair: pair.name)

    @verb
    async def delete_pair(self, name: str) -> None:
        """Delete a pair and all that was counted in it; its streams stay.

        Raises
        ------
        NotFoundError
            When there is no such pair.
        """
        connection = await self._connection_of(name)
        request = pair_pb2.DeletePairRequest(name=name, request_id=new_request_id())
        await connection.change(Call(request))

    @verb
    async def compare_pair(
        self,
        name: str,
        *,
        window: Window = None,
        segment: Segment | None = None,
        mature_after: Span | None = None,
        metric: str = "auc_pr",
        prevalence: float | Literal["pair", "own"] = "pair",
        level: float = 0.95,
        by_segment: str = "",
    ) -> PairComparison:
        """Compare two models on the ids that both have scored: a minus b.

        Parameters
        ----------
        name : str
            The pair's; of two streams, `list_pairs` has it.
        window, segment, mature_after
            Which ids, by the time of the first prediction: see `Selection`.
        metric : {"auc_pr", "average_precision", "auc_roc"}
        prevalence : float, "pair" or "own"
            The prevalence that areas in precision-recall space are rescaled to: the one
            in the pair's settings, or the shared ids' own.
        level : float
            Nominal coverage of the intervals.
        by_segment : str
            A segment key, for the comparison in each of its values, too.

        Raises
        ------
        NotFoundError
            When there is no such pair.
        InvalidInputError, InvalidRequestError
            When an argument is invalid.

        Examples
        --------
        >>> from streameval_server.testing import running_server
        >>> from streameval.client import Client
        >>> ids, labels = [f"order-{n}" for n in range(120)], [n % 3 == 0 for n in range(120)]
        >>> with running_server() as address, Client(address) as client:
        ...     for name in ("m/1", "m/2"):
        ...         info = client.create_stream(name)
        ...     pair = client.create_pair("m/1", "m/2", name="m/next")
        ...     for name, noise in (("m/1", 7), ("m/2", 3)):
        ...         scores = [label + n % noise / noise for n, label in enumerate(labels)]
        ...         client.stream(name).log_cases(ids=ids, scores=scores)
        ...     client.stream("m/1").label_cases(ids=ids, labels=labels)
        ...     revision = client.flush()
        ...     found = client.compare_pair("m/next", metric="auc_roc")
        >>> found.coverage.shared, found.coverage.labelled, found.verdict
        (120, 120, 'too_early')
        """
        connection = await self._connection_of(name)
        selection = Selection(
            stream=name, window=window, segment=segment, mature_after=mature_after
        )
        request = pair_pb2.GetPairComparisonRequest(
            selection=_without_stream(selection, connection.revision),
            name=name,
            metric=metric,
            level=level,
            by_segment=by_segment,
        )
        set_prevalence(request, prevalence, default="pair")
        call = Call(request, pairs.read_answer)
        return await connection.ask(call)

    @verb
    async def pair_series(
        self,
        name: str,
        start: datetime,
        end: datetime,
        step: Span,
        *,
        segment: Segment | None = None,
        metric: str = "auc_pr",
        prevalence: float | Literal["pair", "own"] = "pair",
        level: float = 0.95,
        cumulative: bool = False,
    ) -> list[PairComparison]:
        """Return the comparison over time: one for each step, also for steps without cases.

        Parameters
        ----------
        name : str
            The pair's.
        start, end : datetime
            The span [start, end), widened to whole panes.
        step : timedelta or text
            The width of a step, widened to whole panes; at most 500 steps.
        segment, metric, prevalence, level
            As of `compare_pair`.
        cumulative : bool
            Whether each answer is of the time from `start` to the end of its step.

        Raises
        ------
        NotFoundError, InvalidInputError, InvalidRequestError
            As `compare_pair`.
        """
        time_range(start, end)
        connection = await self._connection_of(name)
        selection = Selection(stream=name, window=(start, end), segment=segment)
        request = pair_pb2.ListPairComparisonsRequest(
            selection=_without_stream(selection, connection.revision),
            name=name,
            step=duration(step, field="step"),
            metric=metric,
            level=level,
            cumulative=cumulative,
        )
        set_prevalence(request, prevalence, default="pair")
        response: pair_pb2.ListPairComparisonsResponse = await connection.ask(Call(request))
        return list(map(pairs.read_pair, response.comparisons))


def _without_stream(selection: Selection, revision: int) -> types_pb2.Selection:
    message = selection.to_message(revision)
    message.ClearField("stream")
    return message
