"""One server as a client sees it, and how a verb runs on it: blocking or on an event loop.

Who owns what:

- A client has one connection for each server, from its construction to `close`. The
  streams of the client share it.
- The connection owns the buffer, the transport (with the channel) and the worker.
  Any thread appends to the buffer, which has a lock of its own. The channel opens
  with the first call.
- The worker owns the sender, the Ingest call and what drives them: a thread, started
  by the first row, with a lock around the sender (`Connection`, `Worker`); or a task
  on the event loop that was running when the first row was added, without a lock
  (`AsyncConnection`, `AsyncWorker`). The channel of an `AsyncConnection` belongs to
  that loop as well.
- Queries use the same channel, in the thread or task of their caller.

Each verb is one coroutine for both kinds of clients (`verb`). The coroutines of an
`AsyncConnection` wait on the event loop. Those of a `Connection` block the calling
thread and never suspend, so `run_blocking` runs them without an event loop.

Two events reach a `Connection` from outside. After a fork, the child starts with an
empty buffer, as a producer of its own; the parent sends what it had. At the end of
the process, pending rows are sent, for a bounded time.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
import weakref
from functools import update_wrapper, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from streameval.client._buffer.buffer import Buffer
from streameval.client._delivery.delivery import Delivery
from streameval.client._delivery.worker import Worker
from streameval.client._errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager
    from pathlib import Path

    from streameval.client._delivery.client_settings import ClientSettings
    from streameval.client._delivery.merge_upload import Upload
    from streameval.client._delivery.statistics import ClientStatistics
    from streameval.client._wire.calls import Call, PagedCall
    from streameval.client._wire.transport import Transport

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger("streameval.client")

_MAX_STOP_S = 1.0
"""How long the orderly end of an Ingest stream may take once all rows are settled."""


class BlockingVerbs:
    """Marks a class whose verbs block the calling thread and return their result."""


class AsyncVerbs:
    """Marks a class whose verbs are coroutine functions."""


class verb(Generic[P, R]):  # noqa: N801 - a decorator, like property
    """A method that is written once, as a coroutine function, for both kinds of clients.

    In a class marked with `AsyncVerbs` it is the decorated function itself; in one
    marked with `BlockingVerbs`, a function with the same signature that runs it.
    """

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
        @wraps(function)
        def blocking(*args: Any, **kwargs: Any) -> R:
            return run_blocking(function(*args, **kwargs))

        self._coroutine_function = function
        self._blocking = blocking
        update_wrapper(cast("Any", self), function)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: BlockingVerbs, owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, instance: AsyncVerbs, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        function: Callable[..., Any] = self._coroutine_function
        if issubclass(owner, BlockingVerbs):
            function = self._blocking
        return function if instance is None else MethodType(function, instance)


def run_blocking(coroutine: Coroutine[Any, Any, A]) -> A:
    """Run a coroutine that never suspends, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: A = ended.value
        return result
    coroutine.close()
    raise RuntimeError("the coroutine of a blocking verb suspended")


async def _settled(result: Any) -> Any:
    """Return the result of a blocking call as it is, and wait for an asynchronous one's."""
    return await result if hasattr(result, "__await__") else result


class BaseConnection:
    """Base of the connections of both kinds of clients.

    Attributes
    ----------
    address : str
    transport : Transport or AsyncTransport
    settings : ClientSettings
    buffer : Buffer
    delivery : Delivery
    worker : Worker or AsyncWorker
    lock : context manager
        Guards the delivery.
    spool : Path or None
        The file for rows that cannot be sent; None for none.
    """

    buffer: Buffer
    delivery: Delivery
    worker: Any
    lock: AbstractContextManager[Any]
    spool: Path | None = None

    def __init__(self, transport: Any, settings: ClientSettings) -> None:
        self.address: str = transport.address
        self.transport = transport
        self.settings = settings
        self._closed = False

    @property
    def revision(self) -> int:
        """The log revision that answers must include."""
        return self.delivery.sender.revision

    def record_revision(self, revision: int) -> None:
        """Record a revision that a call returned: queries wait for it too."""
        with self.lock:
            self.delivery.record_revision(revision)

    def statistics(self) -> ClientStatistics:
        """Return the counters."""
        with self.lock:
            return self.delivery.statistics()

    async def ask(self, call: Call[A]) -> A:
        """Make a call; return its result."""
        result: A = await _settled(self.transport.ask(call, self.settings.timeout_s))
        return result

    async def change(self, call: Call[A]) -> A:
        """Make a call that changes something; queries wait for its revision. Return its result."""
        response: Any = await self.ask(call)
        self.record_revision(response.revision)
        changed: A = response
        return changed

    def ask_now(self, call: Call[A], timeout_s: float) -> A:
        """Make a short call and block the calling thread meanwhile; return its result."""
        raise NotImplementedError

    async def ask_pages(self, pages: PagedCall[A]) -> A:
        """Make the calls of all pages; return their result."""
        try:
            call = next(pages)
            while True:
                call = pages.send(await self.ask(call))
        except StopIteration as ended:
            result: A = ended.value
            return result

    async def merge(self, upload: Upload, timeout_s: float | None) -> int:
        """Send a merge, again if need be, until it is durable; return the log revision."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            try:
                response = await _settled(self.transport.merge(upload.requests(), left))
            except ClientError as error:
                pause_s = upload.pause_s(error, left)
                if pause_s is None:
                    raise
                await self.pause(pause_s)
                continue
            self.record_revision(response.revision)
            return int(response.revision)

    async def flush(self, timeout_s: float | None, stall_s: float | None = None) -> int:
        """Wait until all rows added so far are settled; see `Worker.flush`."""
        return int(await _settled(self.worker.flush(timeout_s, stall_s)))

    async def close(self, timeout_s: float | None) -> None:
        """Flush and stop; raise what the flush raises after everything is closed."""
        if self._closed:
            return
        self._closed = True
        self.buffer.close("the client is closed")
        try:
            await self.flush(timeout_s, self.settings.close_timeout_s)
        finally:
            await self._stop()
            self.delivery.keep_unsettled(self.spool)

    async def close_quietly(self) -> None:
        """Close and log errors instead of raising them: an exception is on its way already."""
        try:
            await self.close(self.settings.close_timeout_s)
        except ClientError as error:
            _log.warning("streameval client of %s: %s", self.address, error)

    async def pause(self, seconds: float) -> None:
        """Wait before a call is repeated."""
        raise NotImplementedError

    async def _stop(self) -> None:
        raise NotImplementedError


class Connection(BaseConnection):
    """The connection of a `Client`; its coroutines block and never suspend.

    Parameters
    ----------
    transport : Transport
    settings : ClientSettings
        The producer is a new UUID when None, and in each forked child.
    """

    transport: Transport
    worker: Worker

    def __init__(self, transport: Transport, settings: ClientSettings) -> None:
        super().__init__(transport, settings)
        self.buffer = Buffer(
            capacity=settings.max_buffered_rows,
            batch_rows=settings.batch_rows,
            when_full=settings.when_full,
            start=self._start,
        )
        self._begin(settings.producer)
        _connections.add(self)

    def _begin(self, producer: str | None) -> None:
        self.delivery = Delivery(self.buffer, producer, self.address)
        self.worker = Worker(self.delivery, self.transport, self.settings)
        self.lock = self.worker.lock
        self._closed = False

    def _start(self) -> bool:
        self.worker.start()
        _started.add(self)
        return True

    def ask_now(self, call: Call[A], timeout_s: float) -> A:
        return self.transport.ask(call, timeout_s)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _stop(self) -> None:
        self.worker.stop(_MAX_STOP_S)
        self.transport.close()
        _started.discard(self)

    def restart_in_child(self) -> None:
        """Start empty, as a new producer, in a forked child."""
        closed = self._closed
        self.transport.forked()
        self.buffer.reset()
        self._begin(None)
        if closed:
            run_blocking(self.close(None))


# --- The process ------------------------------------------------------------------------------

_connections: weakref.WeakSet[Connection] = weakref.WeakSet()

_started: set[Connection] = set()
"""Connections with a thread, kept until they are closed: their rows must be sent."""


def _at_exit() -> None:
    for connection in list(_started):
        run_blocking(connection.close_quietly())


def _in_forked_child() -> None:
    _started.clear()
    for connection in list(_connections):
        connection.restart_in_child()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
