"""The connections of one client, one for each server, and the verbs that concern all of them."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from streameval._common.errors import InvalidInputError
from streameval._evaluator import Evaluator
from streameval.client._delivery.connection import BaseConnection
from streameval.client._delivery.routing import Places
from streameval.client._delivery.statistics import total_statistics
from streameval.client._errors import InvalidRequestError, NotFoundError
from streameval.client._wire import calls
from streameval.client._wire.calls import Call
from streameval.v1 import pair_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from streameval.client._delivery.statistics import ClientStatistics
    from streameval.client._wire.calls import PagedCall
    from streameval.client._wire.selection import Selection

_LOOK_UP_S = 1.0
"""How long a look-up of a stream waits for one server."""

A = TypeVar("A")
C = TypeVar("C", bound=BaseConnection)


class Servers(Generic[C]):
    """The connections of one client, by address.

    Its coroutines make their calls one server after the other.

    Parameters
    ----------
    connections : mapping of str to Connection or AsyncConnection
        At least one.
    """

    def __init__(self, connections: Mapping[str, C]) -> None:
        self._connections = dict(connections)
        self._places = Places(tuple(connections), self._has_stream)

    def __iter__(self) -> Iterator[C]:
        return iter(self._connections.values())

    def for_stream(self, stream: str) -> C:
        """Return the connection to the server that has a stream; see `Places.server_of`."""
        return self._connections[self._places.server_of(stream)]

    def _has_stream(self, address: str, stream: str) -> bool:
        try:
            self._connections[address].ask_now(calls.get_stream(stream), _LOOK_UP_S)
        except (NotFoundError, InvalidRequestError):
            return False
        return True

    def for_both(self, a: str, b: str, advice: str) -> C:
        """Return the connection to the server that has both streams, or refuse them."""
        connection = self.for_stream(a)
        if self.for_stream(b) is not connection:
            message = f"{a} and {b} are on different servers{advice}"
            raise InvalidInputError(message, field="b")
        return connection

    async def for_pair(self, name: str) -> C:
        """Return the connection to the server that has a pair: with several, each is asked.

        The first one where none has it: its answer says so.
        """
        if len(self._connections) == 1:
            return next(iter(self))
        found = []
        for address, connection in self._connections.items():
            with suppress(NotFoundError):
                await connection.ask(Call(pair_pb2.GetPairRequest(name=name)))
                found.append(address)
        if len(found) > 1:
            message = (
                f"there is a pair {name} on each of {', '.join(found)}: "
                "ask a client of one server for it"
            )
            raise InvalidInputError(message, field="pair")
        return self._connections[(found or [*self._connections])[0]]

    async def evaluator(self, selection: Selection) -> Evaluator:
        """Return the sum of a stream's states on all servers that have it.

        Raises
        ------
        NotFoundError
            When no server has it.
        """
        if isinstance(selection.window, int) and len(self._connections) > 1:
            raise InvalidInputError(
                "a number of cases cannot be counted back on several servers: "
                "give window as a timedelta or a (start, end)",
                field="window",
            )
        states: list[Evaluator] = []
        missing: NotFoundError | None = None
        for connection in self:
            try:
                states.append(await connection.ask(calls.evaluator(selection, connection.revision)))
            except NotFoundError as error:
                missing = error
        if not states and missing is not None:
            raise missing
        return _merged(states)

    async def ask_pages_of_all(self, pages: Callable[[], PagedCall[list[A]]]) -> list[A]:
        """Make a paged call to every server; return the answers one after the other."""
        return [each for connection in self for each in await connection.ask_pages(pages())]

    async def flush(self, timeout_s: float | None) -> int:
        """Wait until everything is durable on each server; return the highest revision."""
        deadline = _deadline(timeout_s)
        return max([await connection.flush(_time_left(deadline)) for connection in self])

    def statistics(self) -> ClientStatistics:
        """Return the counters of all servers together."""
        return total_statistics([connection.statistics() for connection in self])

    async def close(self, timeout_s: float | None) -> None:
        """Close every connection, also when one raises."""
        deadline = _deadline(timeout_s)
        async with AsyncExitStack() as stack:
            for connection in self:
                stack.push_async_callback(_close_by, connection, deadline)

    async def close_quietly(self) -> None:
        """Close every connection without raising."""
        for connection in self:
            await connection.close_quietly()


def _merged(states: list[Evaluator]) -> Evaluator:
    """Return the sum of states. The sum of their caps on cells, if all have one, is its cap."""
    caps = [state.max_cells for state in states if state.max_cells is not None]
    if len(caps) == len(states):
        states = [Evaluator._of(state._view().redeclared(max_cells=sum(caps))) for state in states]
    first, *others = states
    first.merge(*others)
    return first


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _time_left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


async def _close_by(connection: BaseConnection, deadline: float | None) -> None:
    await connection.close(_time_left(deadline))
