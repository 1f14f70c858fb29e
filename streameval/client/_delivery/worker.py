"""The thread that moves a sender's messages; a thread that adds rows never waits for it.

The worker's thread connects, reads answers and waits before it connects again.
gRPC's own thread pulls the requests from `Worker._requests`, which waits for rows, for
room in the window or for the end of the connection.

Two locks, taken in this order: the worker's, which guards the sender, then the
buffer's. Rows move from buffer to sender under both, so a flush waits for exactly
the rows that were added before it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import grpc

from streameval.client._delivery.delivery import FlushWait
from streameval.client._errors import ClientError, UnavailableError
from streameval.client._wire.rpc_errors import from_rpc_error, unanswered
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.client._delivery.client_settings import ClientSettings
    from streameval.client._delivery.delivery import Delivery
    from streameval.client._wire.transport import Transport


class Worker:
    """Moves a delivery's messages over a transport, in a thread.

    Parameters
    ----------
    delivery : Delivery
        Used by this worker only.
    transport : Transport
    settings : ClientSettings
        Rows wait `linger_s` until they are a whole batch. The first message of a connection
        may stay unanswered for `timeout_s`.

    Attributes
    ----------
    lock : Lock
        Guards the delivery.
    """

    def __init__(self, delivery: Delivery, transport: Transport, settings: ClientSettings) -> None:
        self.buffer = delivery.buffer
        self.linger_s = settings.linger_s
        self.stopping = False
        self._delivery = delivery
        self._sender = delivery.sender
        self._transport = transport
        self._timeout_s = settings.timeout_s
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._stream = 0  # the number of the present stream, or of the next one
        self._is_unanswered = False
        self._thread: threading.Thread | None = None
        self._call: grpc.RpcContext | None = None

    # --- Called by any thread -------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="streameval-client", daemon=True)
        self._thread.start()

    def flush(self, timeout_s: float | None, stall_s: float | None = None) -> int:
        """Wait until all rows added so far are settled; see `Client.flush`.

        At most `timeout_s`, and `stall_s` while no row is settled.
        """
        with self.lock:
            target = self._delivery.begin_flush()
        self.buffer.wake()
        with self.lock:
            wait = FlushWait(self._delivery, target, timeout_s, stall_s)
            while (revision := wait.result()) is None:
                self._changed.wait(wait.left_s())
            return revision

    def stop(self, timeout_s: float) -> None:
        """End the connection and the thread, without waiting for rows to be durable."""
        with self.lock:
            self.stopping = True
            self._changed.notify_all()
            thread = self._thread
        self.buffer.wake()
        if thread is not None:
            thread.join(timeout_s)
            with self.lock:
                call = self._call
            if call is not None:
                call.cancel()
                thread.join(timeout_s)

    # --- Called by gRPC's thread ----------------------------------------------------------------

    def _requests(
        self, stream: int, opening: ingest_pb2.IngestRequest
    ) -> Iterator[ingest_pb2.IngestRequest]:
        """Yield the requests of one Ingest stream until it is over."""
        yield opening
        while not self._is_over(stream):
            message = self._next_message(stream)
            if message is not None:
                yield message
            else:
                self.buffer.wait(
                    lambda: self._is_over(stream) or not self._sender.starved,
                    linger_s=self.linger_s,
                )

    def _next_message(self, stream: int) -> ingest_pb2.IngestRequest | None:
        """Wait for room in the window; return the next batch, None without rows or at the end."""
        with self.lock:
            while not self._is_over(stream):
                message = self._delivery.next_message()
                if message is not None:
                    return message
                if self._sender.starved:
                    self._changed.notify_all()  # a flush ends once all rows are settled or kept
                    return None
                left_s = self._delivery.answer_left_s(time.monotonic(), self._timeout_s)
                if left_s is not None and left_s <= 0 and self._call is not None:
                    self._is_unanswered = True
                    self._call.cancel()
                    break
                self._changed.wait(left_s)
        return None

    def _is_over(self, stream: int) -> bool:
        """Whether a stream has ended, or the worker is stopping."""
        return self.stopping or self._stream != stream

    # --- The worker's thread --------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self.buffer.wait(self._has_work, linger_s=0.0)
            if self.stopping:
                return
            error = self._hold_connection()
            with self.lock:
                reconnect = self._delivery.disconnected(error, time.monotonic())
                self._changed.notify_all()
            if not reconnect:
                with self.lock:
                    self._delivery.discard()
                return
            self._report_settled()
            self._wait_for_retry()

    def _has_work(self) -> bool:
        return self.stopping or self._sender.pending

    def _hold_connection(self) -> ClientError | None:
        """Open one Ingest stream and read it until it ends; return why it ended."""
        with self.lock:
            if self.stopping:
                return None
            self._stream += 1
            self._is_unanswered = False
            stream = self._stream
            requests = self._requests(stream, self._delivery.open(time.monotonic()))
        try:
            try:
                transport = self._transport
                call = transport.ingest_stub.Ingest(requests, metadata=transport.metadata)
            except RuntimeError:
                # A process that is ending starts no thread (Python 3.12), and gRPC needs one.
                return self._send_without_stream(stream)
            self._call = call
            for response in call:
                with self.lock:
                    is_open = self._delivery.receive(response)
                    self._changed.notify_all()
                self._report_settled()
                if not is_open:
                    return self._sender.error
        except grpc.RpcError as error:
            return unanswered(self._timeout_s) if self._is_unanswered else from_rpc_error(error)
        except ClientError as error:
            return error
        finally:
            with self.lock:
                self._stream += 1
                self._changed.notify_all()
                ended, self._call = self._call, None
            self.buffer.wake()
            if ended is not None:
                ended.cancel()
        return UnavailableError("the server ended the stream")

    def _send_without_stream(self, stream: int) -> ClientError:
        """Send each batch by a unary call, for which gRPC needs no thread."""
        self._transport.abandon()
        sender = self._sender
        with self.lock:
            self._delivery.receive(ingest_pb2.IngestResponse(resume=sender.expected_resume()))
        while (message := self._next_message(stream)) is not None:
            answer = self._transport.ingest_batch(sender.producer, sender.epoch, message.batch)
            with self.lock:
                self._delivery.receive(answer)
                self._changed.notify_all()
            self._report_settled()
        return UnavailableError("there is no Ingest stream")

    def _report_settled(self) -> None:
        """Free the room of settled rows in the buffer, and log lost ones."""
        self.buffer.settled(self._sender.settled_rows)
        with self.lock:
            self._delivery.log_losses(time.monotonic())

    def _wait_for_retry(self) -> None:
        """Wait until it is time to connect again, or to stop."""
        with self.lock:
            left = self._sender.retry_at - time.monotonic()
            self._changed.wait_for(lambda: self.stopping, max(0.0, left))
