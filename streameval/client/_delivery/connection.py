"""The client without its verbs: its parts, put together and tied to the process.

A core has its thread and its connection from the first row on, until it is
closed. Two things can happen to it from outside: the process forks (the child
starts empty, as a producer of its own; the parent sends what it had) or ends
(what is left is sent, for a bounded time).
"""

from __future__ import annotations

import atexit
import logging
import os
import time
import weakref
from typing import TYPE_CHECKING, TypeVar

from streameval.client._buffer.buffer import Buffer, WhenFull
from streameval.client._delivery.delivery import Delivery
from streameval.client._delivery.worker import Worker
from streameval.client._errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.client._delivery.merge_upload import Upload
    from streameval.client._wire.calls import Call, PagedCall
    from streameval.client._wire.transport import Transport

A = TypeVar("A")

_log = logging.getLogger("streameval.client")

# How long the connection's orderly end may take once everything is durable, in seconds.
_STOP_S = 1.0


class Core:
    """Buffer, sender, worker and transport of one client.

    Parameters
    ----------
    transport : Transport
    producer : str or None
        A new UUID when None, and in each forked child.
    when_full, max_buffered_rows, batch_rows, linger_s, timeout_s, exit_timeout_s
        As of `Client`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        producer: str | None,
        when_full: WhenFull,
        max_buffered_rows: int,
        batch_rows: int,
        linger_s: float,
        timeout_s: float,
        exit_timeout_s: float,
    ) -> None:
        self.transport = transport
        self.timeout_s = timeout_s
        self.exit_timeout_s = exit_timeout_s
        self._linger_s = linger_s
        self.buffer = Buffer(
            capacity=max_buffered_rows,
            batch_rows=batch_rows,
            when_full=when_full,
            start=self._start,
        )
        self._begin(producer)
        _cores.add(self)

    def _begin(self, producer: str | None) -> None:
        delivery = Delivery(self.buffer, producer, self.transport.address)
        self.worker = Worker(delivery, self.transport, linger_s=self._linger_s)
        self._closed = False

    def _start(self) -> bool:
        self.worker.start()
        _started.add(self)
        return True

    # -- asking ------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The log revision that answers include."""
        return self.worker.revision

    def ask(self, question: Call[A]) -> A:
        """Ask one question."""
        return self.transport.ask(question, self.timeout_s)

    def run(self, dialogue: PagedCall[A]) -> A:
        """Ask all questions of a dialogue."""
        try:
            question = next(dialogue)
            while True:
                question = dialogue.send(self.ask(question))
        except StopIteration as ended:
            result: A = ended.value
            return result

    def watch(self, question: Call[A]) -> Iterator[A]:
        """Ask, and yield each answer."""
        return self.transport.watch(question)

    def merge(self, upload: Upload, timeout_s: float | None) -> int:
        """Send a merge until it is known to be durable; return the log revision."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            try:
                response = self.transport.merge(upload.requests(), left)
            except ClientError as error:
                pause_s = upload.pause_s(error, left)
                if pause_s is None:
                    raise
                time.sleep(pause_s)
                continue
            self.worker.saw(response.revision)
            return response.revision

    # -- the process -------------------------------------------------------------

    def forked(self) -> None:
        """Begin anew, in a forked child."""
        closed = self._closed
        self.transport.forked()
        self.buffer.reset()
        self._begin(None)
        if closed:
            self.close(None)

    def close(self, timeout: float | None) -> None:
        """Flush and stop; raises what the flush raises, when all is closed."""
        if self._closed:
            return
        self._closed = True
        self.buffer.close("the client is closed")
        try:
            self.worker.flush(timeout)
        finally:
            self.worker.stop(_STOP_S)
            self.transport.close()
            _started.discard(self)

    def close_quietly(self) -> None:
        """Close without raising: something else is ending already."""
        try:
            self.close(self.exit_timeout_s)
        except ClientError as error:
            _log.warning("streameval client of %s: %s", self.transport.address, error)


# --- The process ------------------------------------------------------------------------------

_cores: weakref.WeakSet[Core] = weakref.WeakSet()
# Those with a thread; kept until they are closed, because what they hold must be sent.
_started: set[Core] = set()


def _at_exit() -> None:
    for core in list(_started):
        core.close_quietly()


def _in_forked_child() -> None:
    _started.clear()
    for core in list(_cores):
        core.forked()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
