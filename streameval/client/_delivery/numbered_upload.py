"""The upload of batches that their caller numbers, exactly once, from where it was broken off.

A source that can be read again from its beginning (files, a topic) is cut into the same
batches each time, and batch k is sequence k of one (producer, epoch). The server keeps the
last durable sequence, so a process that was killed begins after it: no state is kept here.

Two processes with the same source do no harm: a batch that one of them has sent is a
duplicate of the other's, and the server answers it alike.

The caller's thread puts batches; a thread of the upload holds the Ingest stream, and opens
another one when it breaks. gRPC's thread takes what to send. One lock guards all state.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import grpc

from streameval.client._delivery.merge_upload import RETRYABLE_CODES, retry_pause_s
from streameval.client._errors import (
    ClientError,
    ClosedError,
    FencedError,
    UnavailableError,
)
from streameval.client._wire.rpc_errors import from_rpc_error, unanswered
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.client._wire.transport import Transport

MAX_WAITING_BYTES = 16 << 20
"""Encoded batches that may wait for their acknowledgement; `put` then blocks."""

MAX_AWAY_S = 600.0
"""How long the server may be away before the upload is given up."""

_MAX_ANSWER_S = 30.0
"""How long the first message of a stream may stay unanswered."""

_MAX_STOP_S = 2.0


class UploadRefusal(NamedTuple):
    """A batch that was refused, durably: none of its rows counts.

    Attributes
    ----------
    sequence : int
    message : str
        The server's.
    code : int
        A status code of gRPC.
    field : str
        Path of the field at fault inside the batch, with the row; empty without one.
    """

    sequence: int
    message: str
    code: int = 0
    field: str = ""


class _Unacknowledged(NamedTuple):
    sequence: int
    request: ingest_pb2.IngestRequest
    nbytes: int


class NumberedUpload:
    """Sends one producer's batches.

    Parameters
    ----------
    transport : Transport
    producer : str
        1 to 128 bytes of UTF-8.
    epoch : int
        From 1 to 2**63 - 1; another one begins from sequence 1.
    after : tuple of int and int, optional
        Epoch and sequence at which the producer has to be for a new epoch to start.
    max_away_s : float
        How long the server may be away before the upload is given up, in seconds.

    Attributes
    ----------
    durable_sequence : int
        All batches up to this one are durable, or were refused.
    revision : int
        Log revision that includes them.
    history : int
        Number of the log's history; see ``Resume`` in the proto.
    time_us : int
        The server's clock when it was asked last, in microseconds since 1970.
    refusals : list of UploadRefusal
        Those that were reported: of earlier processes the newest 64.
    """

    def __init__(
        self,
        transport: Transport,
        producer: str,
        epoch: int,
        *,
        after: tuple[int, int] | None = None,
        max_away_s: float = MAX_AWAY_S,
    ) -> None:
        self.producer = producer
        self.epoch = epoch
        self.durable_sequence = self.revision = self.history = self.time_us = 0
        self._after = after or (0, 0)
        self._max_away_s = max_away_s
        self.refusals: list[UploadRefusal] = []
        self._transport = transport
        self._waiting: deque[_Unacknowledged] = deque()
        self._waiting_bytes = 0
        self._sent = self._sent_bytes = 0  # waiting batches sent on the present stream
        self._max_sent_bytes = 1 << 20
        self._stream = 0  # the number of the present stream, or of the next one
        self._is_ready = self._is_stopping = self._is_unanswered = False
        self._error: Exception | None = None
        self._attempts = 0
        self._changed = threading.Condition()
        self._call: grpc.RpcContext | None = None
        self._thread = threading.Thread(target=self._run, name="streameval-upload", daemon=True)

    # --- Called by the caller's thread ----------------------------------------------------------

    def begin(self) -> int:
        """Connect; return the last durable sequence, after which the caller is to go on.

        Raises
        ------
        FencedError
            When a higher epoch has begun.
        ClientError
            When the server refuses the connection, or there is none.
        """
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._is_ready or self._has_ended)
            self._raise()
            return self.durable_sequence

    def check(self, batch: ingest_pb2.Batch) -> bool:
        """Return whether a batch is the one that is durable under its sequence.

        The server compares the 1,024 newest batches of a producer.
        """
        try:
            self._transport.ingest_batch(self.producer, self.epoch, batch)
        except FencedError as error:
            if error.reason != "SEQUENCE_REUSED":
                raise
            return False
        return True

    def put(self, batch: ingest_pb2.Batch) -> None:
        """Send a batch, the next one; wait while too many wait for their acknowledgement.

        Raises
        ------
        ClientError
            When the upload has failed; what is not durable is to be put again after a new
            `begin`.
        """
        request = ingest_pb2.IngestRequest(batch=batch)
        waiting = _Unacknowledged(batch.sequence, request, request.ByteSize())
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting_bytes < MAX_WAITING_BYTES or self._has_ended
            )
            self._raise()
            if waiting.sequence > self.durable_sequence:
                self._waiting.append(waiting)
                self._waiting_bytes += waiting.nbytes
                self._changed.notify_all()

    def finish(self) -> int:
        """Wait until all batches are settled; return the log revision that includes them.

        Raises
        ------
        ClientError
            As `put`.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting or self._has_ended)
            self._raise()
            return self.revision

    def close(self) -> None:
        """End the stream and the thread; what other threads wait for raises ClosedError."""
        with self._changed:
            self._is_stopping = True
            call = self._call
            self._changed.notify_all()
        if call is not None:
            call.cancel()
        if self._thread.ident is not None:
            self._thread.join(_MAX_STOP_S)

    @property
    def _has_ended(self) -> bool:
        return self._error is not None or self._is_stopping

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_stopping:
            raise ClosedError("the upload was closed")

    # --- The upload's thread --------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._deliver()
        except Exception as error:  # noqa: BLE001 - the caller's thread raises it
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _deliver(self) -> None:
        """Hold one stream after the other, until the upload is closed or fails."""
        away_since_s = None
        while not self._is_stopping:
            settled = self.durable_sequence
            error = self._hold_stream()
            with self._changed:
                now_s = time.monotonic()
                if away_since_s is None or self.durable_sequence > settled:
                    away_since_s = now_s
                    self._attempts = 0
                is_passing = error.code in RETRYABLE_CODES or error.retry_after_s is not None
                is_first = not self.time_us
                if not is_passing or is_first or now_s - away_since_s > self._max_away_s:
                    self._error = error
                    self._changed.notify_all()
                    return
                self._attempts += 1
                pause_s = retry_pause_s(self._attempts, error)
                self._changed.wait_for(lambda: self._is_stopping, pause_s)

    def _hold_stream(self) -> ClientError:
        """Open an Ingest stream and read it until it ends; return why it ended."""
        with self._changed:
            self._stream += 1
            self._sent = self._sent_bytes = 0
            self._is_unanswered = False
            requests = self._requests(self._stream)
        try:
            call = self._transport.ingest_stub.Ingest(requests, metadata=self._transport.metadata)
            with self._changed:
                self._call = call
                if self._is_stopping:
                    call.cancel()
            for response in call:
                with self._changed:
                    self._receive(response)
                    self._changed.notify_all()
        except grpc.RpcError as error:
            return unanswered(_MAX_ANSWER_S) if self._is_unanswered else from_rpc_error(error)
        except ClientError as error:
            return error
        finally:
            with self._changed:
                self._stream += 1
                self._is_ready = False
                ended, self._call = self._call, None
                self._changed.notify_all()
            if ended is not None:
                ended.cancel()
        return UnavailableError("the server ended the stream")

    def _receive(self, response: ingest_pb2.IngestResponse) -> None:
        kind = response.WhichOneof("message")
        if kind == "resume":
            resume = response.resume
            if resume.last_sequence < self.durable_sequence:
                raise ClientError(
                    "the server has lost rows that it had acknowledged: run the command again, "
                    "which begins where they end",
                    code="DATA_LOSS",
                )
            known = {each.sequence for each in self.refusals}
            for refused in resume.refused:
                if refused.sequence not in known:
                    self._record(refused)
            self._max_sent_bytes = resume.max_inflight_bytes or self._max_sent_bytes
            self.history = resume.history
            self.time_us = resume.time_us or 1
            self._settle(resume.last_sequence, resume.revision)
            self._is_ready = True
        elif kind == "ack":
            self._settle(response.ack.last_sequence, response.ack.revision)
        elif kind == "refused":
            self._record(response.refused)
            self._settle(response.refused.sequence, response.refused.revision)

    def _record(self, refused: ingest_pb2.BatchRefused) -> None:
        refusal = refused.refusal
        field = refusal.violations[0].field if refusal.violations else ""
        self.refusals.append(UploadRefusal(refused.sequence, refusal.message, refusal.code, field))

    def _settle(self, last: int, revision: int) -> None:
        """Remove the batches up to a sequence from the queue of waiting ones."""
        while self._waiting and self._waiting[0].sequence <= last:
            nbytes = self._waiting.popleft().nbytes
            self._waiting_bytes -= nbytes
            if self._sent:
                self._sent -= 1
                self._sent_bytes -= nbytes
        self.durable_sequence = max(self.durable_sequence, last)
        self.revision = max(self.revision, revision)

    # --- gRPC's thread --------------------------------------------------------------------------

    def _requests(self, stream: int) -> Iterator[ingest_pb2.IngestRequest]:
        """Yield the requests of one stream until it is over."""
        epoch, sequence = self._after
        opened = ingest_pb2.Open(
            producer=self.producer, epoch=self.epoch, after_epoch=epoch, after_sequence=sequence
        )
        yield ingest_pb2.IngestRequest(open=opened)
        with self._changed:
            has_answer = self._changed.wait_for(
                lambda: self._is_over(stream) or self._is_ready, _MAX_ANSWER_S
            )
            if not has_answer and self._call is not None:
                self._is_unanswered = True
                self._call.cancel()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over(stream) or self._can_send())
                if self._is_over(stream):
                    return
                waiting = self._waiting[self._sent]
                self._sent += 1
                self._sent_bytes += waiting.nbytes
            yield waiting.request

    def _is_over(self, stream: int) -> bool:
        return self._is_stopping or self._stream != stream

    def _can_send(self) -> bool:
        return (
            self._is_ready
            and self._sent < len(self._waiting)
            and (not self._sent or self._sent_bytes < self._max_sent_bytes)
        )
