"""The thread that moves a sender's messages; the caller's thread never waits for it.

One thread of our own connects, reads answers and waits before it connects
again. gRPC's thread pulls the requests from a `_Pump`, which waits for rows, for
room in the window or for the end of the connection.

Two locks, taken in this order: the sender's (here), then the buffer's. Rows
move from buffer to sender under both, so that what a flush waits for is exactly
what had been added before it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import grpc

from streameval.client._errors import ClientError, UnavailableError
from streameval.client._wire.transport import from_rpc_error
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from streameval.client._delivery.delivery import Delivery
    from streameval.client._delivery.statistics import ClientStatistics
    from streameval.client._wire.transport import Transport


class Worker:
    """Moves a delivery's messages over a transport.

    Parameters
    ----------
    delivery, transport
        What to move, and over what. The worker alone uses the delivery.
    linger_s : float
        How long rows wait for company, in seconds.
    """

    def __init__(self, delivery: Delivery, transport: Transport, *, linger_s: float) -> None:
        self.buffer = delivery.buffer
        self.linger_s = linger_s
        self._delivery = delivery
        self._sender = delivery.sender
        self._transport = transport
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self.stopping = False
        self._call: grpc.RpcContext | None = None

    # --- What callers ask -----------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="streameval-client", daemon=True)
        self._thread.start()

    @property
    def is_starved(self) -> bool:
        """Whether rows could be sent at once, if there were any."""
        return self._sender.starved

    @property
    def revision(self) -> int:
        """The highest log revision that acknowledged a batch."""
        return self._delivery.revision

    def saw(self, revision: int) -> None:
        """Take note of a revision that another call returned: queries wait for it too."""
        with self._lock:
            self._delivery.saw(revision)

    def statistics(self) -> ClientStatistics:
        """Return the counters."""
        with self._lock:
            return self._delivery.statistics()

    def flush(self, timeout: float | None) -> int:
        """Wait until everything added so far is settled; see `Client.flush`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            target = self._delivery.begin_flush()
        self.buffer.wake()
        with self._lock:
            known = self._sender.error
            while (revision := self._delivery.flushed(target, known)) is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise self._delivery.too_late(timeout, target)
                self._changed.wait(left)
            return revision

    def stop(self, timeout: float) -> None:
        """End the connection and the thread; what is not durable stays so."""
        with self._lock:
            self.stopping = True
            self._changed.notify_all()
            thread = self._thread
        self.buffer.wake()
        if thread is not None:
            thread.join(timeout)
            with self._lock:
                call = self._call
            if call is not None:
                call.cancel()
                thread.join(timeout)

    # --- Under the lock -------------------------------------------------------------------------

    def next_message(self, pump: _Pump) -> ingest_pb2.IngestRequest | None:
        """Return a pump's next batch once there is room; None without rows, or at its end."""
        with self._lock:
            while not pump.over:
                message = self._delivery.next_message()
                if message is not None or self._sender.starved:
                    return message
                self._changed.wait()
        return None

    # --- The thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self.buffer.wait(self._has_work, linger_s=0.0)
            if self.stopping:
                return
            error = self._connection()
            with self._lock:
                goes_on = self._delivery.disconnected(error, time.monotonic())
                self._changed.notify_all()
            if not goes_on:
                with self._lock:
                    self._delivery.give_up()
                return
            self._settled()
            self._pause()

    def _has_work(self) -> bool:
        return self.stopping or self._sender.pending

    def _connection(self) -> ClientError | None:
        """Hold one Ingest stream until it ends; return why it did."""
        with self._lock:
            if self.stopping:
                return None
            pump = _Pump(self, self._sender.open())
        try:
            try:
                call = self._transport.ingest().Ingest(pump, metadata=self._transport.metadata)
            except RuntimeError:
                # A process that is ending starts no thread (Python 3.12), and gRPC needs one.
                return self._without_stream(pump)
            self._call = call
            for response in call:
                with self._lock:
                    alive = self._delivery.receive(response)
                    self._changed.notify_all()
                self._settled()
                if not alive:
                    return self._sender.error
        except grpc.RpcError as error:
            return from_rpc_error(error)
        except ClientError as error:
            return error
        finally:
            with self._lock:
                pump.ended = True
                self._changed.notify_all()
                ended, self._call = self._call, None
            self.buffer.wake()
            if ended is not None:
                ended.cancel()
        return UnavailableError("the server ended the stream")

    def _without_stream(self, pump: _Pump) -> ClientError:
        """Send each batch by a call of its own, for which gRPC needs no thread."""
        self._transport.abandon()
        sender = self._sender
        with self._lock:
            resume = ingest_pb2.Resume(last_sequence=sender.settled_sequence)
            self._delivery.receive(ingest_pb2.IngestResponse(resume=resume))
        while (message := self.next_message(pump)) is not None:
            answer = self._transport.ingest_batch(sender.producer, sender.epoch, message.batch)
            with self._lock:
                self._delivery.receive(answer)
                self._changed.notify_all()
            self._settled()
        return UnavailableError("there is no Ingest stream")

    def _settled(self) -> None:
        """Make room for what is settled, and say what was lost."""
        self.buffer.settled(self._sender.settled_rows)
        with self._lock:
            self._delivery.log_losses(time.monotonic())

    def _pause(self) -> None:
        """Wait until it is time to connect again, or to stop."""
        with self._lock:
            left = self._sender.retry_at - time.monotonic()
            self._changed.wait_for(lambda: self.stopping, max(0.0, left))


class _Pump:
    """The requests of one Ingest stream; gRPC's thread asks for the next."""

    def __init__(self, worker: Worker, opening: ingest_pb2.IngestRequest) -> None:
        self.ended = False
        self._worker = worker
        self._opening: ingest_pb2.IngestRequest | None = opening

    def __iter__(self) -> _Pump:
        return self

    def __next__(self) -> ingest_pb2.IngestRequest:
        opening, self._opening = self._opening, None
        if opening is not None:
            return opening
        worker = self._worker
        while not self.over:
            message = worker.next_message(self)
            if message is not None:
                return message
            worker.buffer.wait(self._has_news, linger_s=worker.linger_s)
        raise StopIteration

    @property
    def over(self) -> bool:
        """Whether the connection has ended, or is to end."""
        return self.ended or self._worker.stopping

    def _has_news(self) -> bool:
        return self.over or not self._worker.is_starved
