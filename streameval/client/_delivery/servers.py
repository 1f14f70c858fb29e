"""The servers of one client: a core for each, and what concerns them all.

`Servers` is for threads, `AsyncServers` the same for asyncio.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from streameval._common.errors import InvalidInputError
from streameval._evaluator import Evaluator
from streameval.client._delivery.routing import owner
from streameval.client._delivery.statistics import total_statistics
from streameval.client._errors import NotFoundError
from streameval.client._wire import calls as _questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from streameval.client._delivery.async_connection import AsyncCore
    from streameval.client._delivery.connection import Core
    from streameval.client._delivery.statistics import ClientStatistics
    from streameval.client._wire.calls import PagedCall
    from streameval.client._wire.selection import Selection

A = TypeVar("A")
C = TypeVar("C")


class _Cores(Generic[C]):
    """The cores of one client, by address.

    Parameters
    ----------
    cores : mapping of str to Core
        At least one.
    """

    def __init__(self, cores: Mapping[str, C]) -> None:
        self.cores = dict(cores)

    def __iter__(self) -> Iterator[C]:
        return iter(self.cores.values())

    def of(self, stream: str) -> C:
        """Return the core of the server that has a stream."""
        return self.cores[owner(stream, tuple(self.cores))]

    def of_both(self, a: Selection, b: Selection) -> C:
        """Return the core of the server that has both sides, or refuse them."""
        core = self.of(a.stream)
        if self.of(b.stream) is not core:
            raise InvalidInputError(
                f"{a.stream} and {b.stream} are on different servers: compare their evaluators, "
                "streameval.compare(client.evaluator(a), client.evaluator(b))",
                field="b",
            )
        return core

    def check_parts(self, chosen: Selection) -> None:
        """Refuse a selection that has no meaning for parts of a stream."""
        if isinstance(chosen.window, int) and len(self.cores) > 1:
            raise InvalidInputError(
                "a number of cases cannot be counted back on several servers: "
                "give window as a timedelta or a (start, end)",
                field="window",
            )


class Servers(_Cores["Core"]):
    """The cores of a `Client`."""

    def evaluator(self, chosen: Selection) -> Evaluator:
        """Return the sum of a stream's states on all servers that have it.

        Raises
        ------
        NotFoundError
            When none has it.
        """
        self.check_parts(chosen)
        parts = _Parts()
        for core in self:
            with parts.unless_missing():
                parts.found.append(core.ask(_questions.evaluator(chosen, core.revision)))
        return parts.whole()

    def all_of(self, dialogue: Callable[[], PagedCall[list[A]]]) -> list[A]:
        """Ask every server, and return their answers one after the other."""
        return [each for core in self for each in core.run(dialogue())]

    def flush(self, timeout: float | None) -> int:
        """Wait until everything is durable on each server; return the highest revision."""
        deadline = _deadline(timeout)
        return max([core.worker.flush(_left(deadline)) for core in self])

    def statistics(self) -> ClientStatistics:
        """Return the counters of all servers together."""
        return total_statistics([core.worker.statistics() for core in self])

    def close(self, timeout: float | None) -> None:
        """Close every core, also when one raises."""
        deadline = _deadline(timeout)
        with ExitStack() as stack:
            for core in self:
                stack.callback(_close_by, core, deadline)

    def close_quietly(self) -> None:
        """Close every core without raising."""
        for core in self:
            core.close_quietly()


class AsyncServers(_Cores["AsyncCore"]):
    """The cores of an `AsyncClient`; as `Servers`."""

    async def evaluator(self, chosen: Selection) -> Evaluator:
        """Return the sum of a stream's states on all servers that have it."""
        self.check_parts(chosen)
        parts = _Parts()
        for core in self:
            with parts.unless_missing():
                parts.found.append(await core.ask(_questions.evaluator(chosen, core.revision)))
        return parts.whole()

    async def all_of(self, dialogue: Callable[[], PagedCall[list[A]]]) -> list[A]:
        """Ask every server, and return their answers one after the other."""
        return [each for core in self for each in await core.run(dialogue())]

    async def flush(self, timeout: float | None) -> int:
        """Wait until everything is durable on each server; return the highest revision."""
        deadline = _deadline(timeout)
        return max([await core.worker.flush(_left(deadline)) for core in self])

    def statistics(self) -> ClientStatistics:
        """Return the counters of all servers together."""
        return total_statistics([core.delivery.statistics() for core in self])

    async def close(self, timeout: float | None) -> None:
        """Close every core, also when one raises."""
        deadline = _deadline(timeout)
        async with AsyncExitStack() as stack:
            for core in self:
                stack.push_async_callback(_aclose_by, core, deadline)

    async def close_quietly(self) -> None:
        """Close every core without raising."""
        for core in self:
            await core.close_quietly()


class _Parts:
    """States of one stream, from the servers that have it."""

    def __init__(self) -> None:
        self.found: list[Evaluator] = []
        self._missing: NotFoundError | None = None

    @contextmanager
    def unless_missing(self) -> Iterator[None]:
        """Take note of a server that does not have the stream."""
        try:
            yield
        except NotFoundError as error:
            self._missing = error

    def whole(self) -> Evaluator:
        """Return the sum; raises when no server has the stream."""
        if not self.found and self._missing is not None:
            raise self._missing
        whole, *others = map(self._uncapped, self.found)
        whole.merge(*others)
        return whole

    def _uncapped(self, part: Evaluator) -> Evaluator:
        """Return a part with room for all: one server's cap on cells is no cap on their sum."""
        caps = [each.max_cells for each in self.found if each.max_cells is not None]
        room = sum(caps) if len(caps) == len(self.found) else None
        return part if room is None else Evaluator._of(replace(part._view(), max_cells=room))


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _close_by(core: Core, deadline: float | None) -> None:
    core.close(_left(deadline))


async def _aclose_by(core: AsyncCore, deadline: float | None) -> None:
    await core.close(_left(deadline))
