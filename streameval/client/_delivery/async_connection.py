"""The connection of an `AsyncClient`, and the task that moves its sender's messages.

All of it runs on one event loop, so only the buffer has a lock: other threads may
append to it once the task runs. Adding rows never waits for the task.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from streameval.client._buffer.buffer import Buffer
from streameval.client._delivery.connection import BaseConnection
from streameval.client._delivery.delivery import Delivery, FlushWait
from streameval.client._errors import ClientError, UnavailableError
from streameval.client._wire.async_transport import is_cancelling
from streameval.client._wire.rpc_errors import from_rpc_error, unanswered

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client._delivery.client_settings import ClientSettings
    from streameval.client._wire.async_transport import AsyncTransport
    from streameval.client._wire.calls import Call
    from streameval.client._wire.transport import Transport

A = TypeVar("A")

_log = logging.getLogger("streameval.client")


class AsyncConnection(BaseConnection):
    """The connection of an `AsyncClient`; its coroutines wait on the event loop.

    Parameters
    ----------
    transport : AsyncTransport
    settings : ClientSettings
        The producer is a new UUID when None.
    """

    transport: AsyncTransport
    worker: AsyncWorker

    def __init__(self, transport: AsyncTransport, settings: ClientSettings) -> None:
        super().__init__(transport, settings)
        self.lock = contextlib.nullcontext()  # all of it runs on one event loop
        self.worker = AsyncWorker(transport, settings)
        self.buffer = Buffer(
            capacity=settings.max_buffered_rows,
            batch_rows=settings.batch_rows,
            when_full="drop",
            start=self.worker.start,
            wake=self.worker.wake,
        )
        self.delivery = Delivery(self.buffer, settings.producer, self.address)
        self.worker.delivery = self.delivery
        # For the calls of `ask_now`, which block.
        self._asking: Transport | None = None
        _open.add(self)

    def ask_now(self, call: Call[A], timeout_s: float) -> A:
        if self._asking is None:
            self._asking = self.transport.blocking()
        return self._asking.ask(call, timeout_s)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _stop(self) -> None:
        await self.worker.stop()
        await self.transport.close()
        if self._asking is not None:
            self._asking.close()
        _open.discard(self)

    def warn_of_unsent_rows(self) -> None:
        """Log that the loop that could send rows has ended, if any are left, and keep them."""
        if self.delivery.statistics().pending:
            _log.warning(
                "streameval client of %s: close an AsyncClient before its event loop ends",
                self.address,
            )
            self.delivery.keep_unsettled(self.spool)


class _Notifier:
    """A condition of one event loop: `notify` wakes every task that waits."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake the tasks that wait now."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the next `notify`, at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()


class AsyncWorker:
    """Moves a delivery's messages over a transport, in a task.

    Parameters
    ----------
    transport : AsyncTransport
    settings : ClientSettings
        Rows wait `linger_s` until they are a whole batch. The first message of a connection
        may stay unanswered for `timeout_s`.

    Attributes
    ----------
    delivery : Delivery
        Set before the start; used on the event loop only.
    """

    def __init__(self, transport: AsyncTransport, settings: ClientSettings) -> None:
        self._transport = transport
        self._linger_s = settings.linger_s
        self._timeout_s = settings.timeout_s
        self.delivery: Delivery
        self._rows = _Notifier()
        self._changed = _Notifier()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    # --- The event loop -------------------------------------------------------------------------

    def start(self) -> bool:
        """Start the task on the running loop, if there is one; return whether it runs.

        Raises
        ------
        ClientError
            When it runs on another loop.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._task is not None
        if self._loop is not None and self._loop is not loop:
            raise ClientError("an AsyncClient belongs to one event loop: make one for each")
        if self._task is None:
            self._loop = loop
            self._task = loop.create_task(self._run(), name="streameval-client")
        return True

    def wake(self) -> None:
        """Wake the task to look for rows; from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._rows.notify)

    # --- Called by other tasks ------------------------------------------------------------------

    async def flush(self, timeout_s: float | None, stall_s: float | None = None) -> int:
        """Wait until all rows added so far are settled; as `Worker.flush`."""
        self.start()
        target = self.delivery.begin_flush()
        self._rows.notify()
        wait = FlushWait(self.delivery, target, timeout_s, stall_s)
        while (revision := wait.result()) is None:
            await self._changed.wait(wait.left_s())
        return revision

    async def stop(self) -> None:
        """End the connection and the task, without waiting for rows to be durable."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    # --- The worker's task ----------------------------------------------------------------------

    async def _run(self) -> None:
        delivery = self.delivery
        while True:
            await self._wait(lambda: delivery.sender.pending, linger_s=0.0)
            error = await self._hold_connection()
            reconnect = delivery.disconnected(error, time.monotonic())
            if not reconnect:
                delivery.discard()
            self._report_settled()
            if not reconnect:
                return
            await asyncio.sleep(max(0.0, delivery.sender.retry_at - time.monotonic()))

    async def _wait(self, ready: Callable[[], bool], *, linger_s: float) -> None:
        """Wait for `ready()`, for a whole batch, or until rows have waited `linger_s`."""
        buffer = self.delivery.buffer
        while not ready():
            with buffer.lock:
                wait_s = buffer.arm(linger_s)
            if wait_s is None:
                await self._rows.wait()
                continue
            if wait_s:
                await self._rows.wait(wait_s)
            return

    async def _hold_connection(self) -> ClientError | None:
        """Open one Ingest stream and read it until it ends; return why it ended."""
        try:
            call = self._transport.ingest()
        except ClientError as error:
            return error
        writing = asyncio.create_task(self._write(call), name="streameval-client-write")
        # The writer ends by itself only when the call is over, or by a bug of this client.
        writing.add_done_callback(lambda _: call.cancel())
        try:
            response = await self._first_response(call)
            while response is not grpc.aio.EOF:
                is_open = self.delivery.receive(response)
                self._report_settled()
                if not is_open:
                    return self.delivery.sender.error
                response = await call.read()
            return UnavailableError("the server ended the stream")
        except grpc.RpcError as error:
            return from_rpc_error(error)
        except ClientError as error:
            return error
        except asyncio.CancelledError:
            if is_cancelling():
                raise
            return UnavailableError("the connection was closed")
        finally:
            writing.cancel()
            # Not `await writing`: a `stop` that comes meanwhile must end this task too.
            await asyncio.wait((writing,))
            if not writing.cancelled():
                writing.result()

    async def _first_response(self, call: Any) -> Any:
        """Return the answer to the first message. Raises UnavailableError without one."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call.read()
        except TimeoutError:
            raise unanswered(self._timeout_s) from None

    async def _write(self, call: Any) -> None:
        """Write batches until the call is over."""
        delivery = self.delivery
        sender = delivery.sender
        # The reader gets the reason why the call is over.
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await call.write(delivery.open(time.monotonic()))
            while True:
                message = delivery.next_message()
                if message is not None:
                    await call.write(message)
                elif sender.starved:
                    self._changed.notify()  # a flush ends once all rows are settled or kept
                    await self._wait(lambda: not sender.starved, linger_s=self._linger_s)
                else:
                    await self._changed.wait()

    def _report_settled(self) -> None:
        """Free the room of settled rows in the buffer, log lost ones, wake the waiting tasks."""
        self.delivery.buffer.settled(self.delivery.sender.settled_rows)
        self.delivery.log_losses(time.monotonic())
        self._changed.notify()


# --- The process ------------------------------------------------------------------------------

_open: weakref.WeakSet[AsyncConnection] = weakref.WeakSet()


def _at_exit() -> None:
    for connection in list(_open):
        connection.warn_of_unsent_rows()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    # The child must not warn: the parent sends its rows.
    os.register_at_fork(after_in_child=_open.clear)
