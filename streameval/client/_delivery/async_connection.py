"""The asyncio client without its verbs: its parts, put together."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import time
import weakref
from typing import TYPE_CHECKING, TypeVar

from streameval.client._buffer.buffer import Buffer
from streameval.client._delivery.async_worker import AsyncWorker
from streameval.client._delivery.delivery import Delivery
from streameval.client._errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streameval.client._delivery.merge_upload import Upload
    from streameval.client._wire.async_transport import AsyncTransport
    from streameval.client._wire.calls import Call, PagedCall

A = TypeVar("A")

_log = logging.getLogger("streameval.client")


class AsyncCore:
    """Buffer, sender, worker and transport of one client.

    Parameters
    ----------
    transport : AsyncTransport
    producer : str or None
        A new UUID when None.
    max_buffered_rows, batch_rows, linger_s, timeout_s
        As of `AsyncClient`.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        *,
        producer: str | None,
        max_buffered_rows: int,
        batch_rows: int,
        linger_s: float,
        timeout_s: float,
    ) -> None:
        self.transport = transport
        self.timeout_s = timeout_s
        self.worker = AsyncWorker(transport, linger_s=linger_s)
        self.buffer = Buffer(
            capacity=max_buffered_rows,
            batch_rows=batch_rows,
            when_full="drop",
            start=self.worker.start,
            wake=self.worker.wake,
        )
        self.delivery = Delivery(self.buffer, producer, transport.address)
        self.worker.delivery = self.delivery
        self._closed = False
        _open.add(self)

    # -- asking ------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The log revision that answers include."""
        return self.delivery.revision

    async def ask(self, question: Call[A]) -> A:
        """Ask one question."""
        return await self.transport.ask(question, self.timeout_s)

    async def run(self, dialogue: PagedCall[A]) -> A:
        """Ask all questions of a dialogue."""
        try:
            question = next(dialogue)
            while True:
                question = dialogue.send(await self.ask(question))
        except StopIteration as ended:
            result: A = ended.value
            return result

    def watch(self, question: Call[A]) -> AsyncIterator[A]:
        """Ask, and yield each answer."""
        return self.transport.watch(question)

    async def merge(self, upload: Upload, timeout_s: float | None) -> int:
        """Send a merge until it is known to be durable; return the log revision."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            try:
                response = await self.transport.merge(upload.requests(), left)
            except ClientError as error:
                pause_s = upload.pause_s(error, left)
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
                continue
            self.delivery.saw(response.revision)
            return response.revision

    # -- the end -----------------------------------------------------------------

    async def close(self, timeout: float | None) -> None:
        """Flush and stop; raises what the flush raises, when all is closed."""
        if self._closed:
            return
        self._closed = True
        self.buffer.close("the client is closed")
        try:
            await self.worker.flush(timeout)
        finally:
            await self.worker.stop()
            await self.transport.close()
            _open.discard(self)

    async def close_quietly(self) -> None:
        """Close without raising, soon: something else is ending already."""
        try:
            await self.close(2.0)
        except ClientError as error:
            _log.warning("streameval client of %s: %s", self.transport.address, error)

    def complain(self) -> None:
        """Say what will be lost, if anything: the loop that could send it has ended."""
        left = self.delivery.statistics().pending
        if left:
            _log.warning(
                "streameval client of %s: %d rows were not sent: close an AsyncClient before "
                "its event loop ends",
                self.transport.address,
                left,
            )


# --- The process ------------------------------------------------------------------------------

_open: weakref.WeakSet[AsyncCore] = weakref.WeakSet()


def _at_exit() -> None:
    for core in list(_open):
        core.complain()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    # What the parent has is the parent's to send.
    os.register_at_fork(after_in_child=_open.clear)
