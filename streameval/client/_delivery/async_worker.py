"""The task that moves a sender's messages on an event loop; adding never waits for it.

Everything runs on one loop, so nothing is locked but the buffer, to which other
threads may add as well once the task runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import grpc

from streameval.client._errors import ClientError, UnavailableError
from streameval.client._wire.async_transport import is_cancelling
from streameval.client._wire.transport import from_rpc_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client._delivery.delivery import Delivery
    from streameval.client._wire.async_transport import AsyncTransport


class Bell:
    """Wakes all that wait when it rings. For one event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake those that wait now."""
        rung, self._event = self._event, asyncio.Event()
        rung.set()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the next ring, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()


class AsyncWorker:
    """Moves a delivery's messages over a transport.

    Parameters
    ----------
    transport : AsyncTransport
    linger_s : float
        How long rows wait for company, in seconds.

    Attributes
    ----------
    delivery : Delivery
        What to move; set before the start. The loop alone uses it.
    """

    def __init__(self, transport: AsyncTransport, *, linger_s: float) -> None:
        self._transport = transport
        self._linger_s = linger_s
        self.delivery: Delivery
        self._rows = Bell()
        self._changed = Bell()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    # --- The loop that it belongs to ------------------------------------------------------------

    def start(self) -> bool:
        """Start the task on the running loop, if there is one; whether it runs.

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
        """Let the task look for rows; from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._rows.ring)

    # --- What callers ask -----------------------------------------------------------------------

    async def flush(self, timeout: float | None) -> int:
        """Wait until everything added so far is settled; see `Client.flush`."""
        self.start()
        deadline = None if timeout is None else time.monotonic() + timeout
        target = self.delivery.begin_flush()
        self._rows.ring()
        known = self.delivery.sender.error
        while (revision := self.delivery.flushed(target, known)) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise self.delivery.too_late(timeout, target)
            await self._changed.wait(left)
        return revision

    async def stop(self) -> None:
        """End the connection and the task; what is not durable stays so."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    # --- The task -------------------------------------------------------------------------------

    async def _run(self) -> None:
        delivery = self.delivery
        while True:
            await self._wait(lambda: delivery.sender.pending, linger_s=0.0)
            error = await self._connection()
            goes_on = delivery.disconnected(error, time.monotonic())
            if not goes_on:
                delivery.give_up()
            self._settled()
            if not goes_on:
                return
            await asyncio.sleep(max(0.0, delivery.sender.retry_at - time.monotonic()))

    async def _wait(self, ready: Callable[[], bool], *, linger_s: float) -> None:
        """Wait until `ready()`, or rows are here and are a batch or have waited `linger_s`."""
        buffer = self.delivery.buffer
        while not ready():
            with buffer.lock:
                patience_s = buffer.arm(linger_s)
            if patience_s is None:
                await self._rows.wait()
                continue
            if patience_s:
                await self._rows.wait(patience_s)
            return

    async def _connection(self) -> ClientError | None:
        """Hold one Ingest stream until it ends; return why it did."""
        try:
            call = self._transport.ingest()
        except ClientError as error:
            return error
        writing = asyncio.create_task(self._write(call), name="streameval-client-write")
        # It ends by itself only when the call is over, or by a mistake of ours.
        writing.add_done_callback(lambda _: call.cancel())
        try:
            while (response := await call.read()) is not grpc.aio.EOF:
                goes_on = self.delivery.receive(response)
                self._settled()
                if not goes_on:
                    return self.delivery.sender.error
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
            with contextlib.suppress(asyncio.CancelledError):
                await writing

    async def _write(self, call: Any) -> None:
        """Send what there is to send until the call is over."""
        delivery = self.delivery
        sender = delivery.sender
        # The reader hears why the call is over.
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await call.write(sender.open())
            while True:
                message = delivery.next_message()
                if message is not None:
                    await call.write(message)
                elif sender.starved:
                    await self._wait(lambda: not sender.starved, linger_s=self._linger_s)
                else:
                    await self._changed.wait()

    def _settled(self) -> None:
        """Make room for what is settled, say what was lost, and wake who waits for either."""
        self.delivery.buffer.settled(self.delivery.sender.settled_rows)
        self.delivery.log_losses(time.monotonic())
        self._changed.ring()
