"""The client's side of the Ingest protocol, without threads, clocks or sockets.

A `Sender` takes rows, cuts them into batches within the server's limits,
numbers them, and keeps those that are sent and not acknowledged (the window).
A shell moves its messages and tells it the time: the client's thread, an
asyncio task or a simulator.

It guarantees that every row is counted exactly once by a server that keeps its
promises, or is reported as refused or dropped:

- A batch that was numbered is only ever sent again as it was, so that the
  server can tell a repetition from news; what Resume reports as durable is not.
- Rows are numbered in the order in which they were put, and dated by the
  server's clock then.
- A refused batch is counted as such and never sent again, also when only
  Resume, after a broken connection, could say that it was refused.
- A server that has forgotten acknowledged batches (another data directory)
  gets the rest under a higher epoch, from sequence 1.
- A batch that makes connections fail again and again is given up as refused:
  after the first failure batches go one by one until the guilty one is found.

Cost: O(1) for each message besides the batch's own encoding.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.rpc import code_pb2

from streameval.client._errors import ClientError, FencedError, RefusedBatch, Violation
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streameval.client._buffer.columns import Rows
    from streameval.v1 import status_pb2

MAX_BATCH_ROWS = 16_384
"""A batch has no more rows than this, whatever the server allows: acks stay quick."""

MAX_REFUSALS = 100
"""How many refused batches stay readable."""

_MIN_RETRY_DELAY_S = 0.05
_MAX_RETRY_DELAY_S = 5.0
_MAX_BATCH_FAILURES = 3

# The status says nothing about the batches that were on their way.
_TRANSIENT_CODES = frozenset(
    {
        "UNAVAILABLE",
        "DEADLINE_EXCEEDED",
        "CANCELLED",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNAUTHENTICATED",
        "PERMISSION_DENIED",
        "FAILED_PRECONDITION",
    }
)


class Phase(enum.Enum):
    """Where a sender stands."""

    DISCONNECTED = "disconnected"
    OPENING = "opening"
    READY = "ready"
    FENCED = "fenced"


class ProtocolError(ClientError):
    """The server said what the protocol does not allow: the shell must disconnect."""

    code = "INTERNAL"


@dataclass(slots=True)
class _NumberedBatch:
    """A numbered batch, and what dates it."""

    sequence: int
    rows: Rows
    offset_us: int
    sent: bool = False
    refused: bool = False


class Sender:
    """One producer's batches: numbered, sent, acknowledged.

    Parameters
    ----------
    producer : str
        Who sends; 1 to 128 bytes of UTF-8.
    epoch : int
        When the producer started, in microseconds since 1970.
    random : callable
        Returns numbers in [0, 1), for jitter.
    offset_us : int
        What makes a stamp a time (`_clock`), until a server tells its own time.

    Attributes
    ----------
    phase : Phase
    error : ClientError or None
        Why the last connection ended; None while one works.
    retry_at : float
        When to connect again, on the shell's clock.
    revision : int
        The highest log revision that acknowledged a batch.
    refusals : deque of RefusedBatch
        The last 100 refused batches.
    """

    def __init__(
        self, producer: str, epoch: int, *, random: Callable[[], float], offset_us: int = 0
    ) -> None:
        self.producer = producer
        self.epoch = epoch
        self._random = random
        self._offset_us = offset_us
        self.phase = Phase.DISCONNECTED
        self.error: ClientError | None = None
        self.retry_at = 0.0
        self.revision = 0
        self.refusals: deque[RefusedBatch] = deque(maxlen=MAX_REFUSALS)
        # Counters since the start, in rows unless they say otherwise.
        self.put_rows = self.sent_rows = self.retried_rows = 0
        self.acked_rows = self.refused_rows = self.dropped_rows = 0
        self.refused_batches = self.connections = 0
        self._queue: deque[Rows] = deque()
        self._window: deque[_NumberedBatch] = deque()
        self._next_sequence = 1
        self._cursor = 0  # the window's batches before this were sent on this connection
        self._inflight_bytes = 0
        self._max_rows = MAX_BATCH_ROWS
        self._max_bytes = 1 << 20
        self._max_inflight = 1 << 20
        self._failures = 0
        self._batch_failures = 0
        self._suspect_until = 0  # one batch at a time up to this sequence

    @property
    def settled_rows(self) -> int:
        """Rows whose fate is known, in the order in which they were put."""
        return self.acked_rows + self.refused_rows + self.dropped_rows

    @property
    def pending(self) -> bool:
        """Whether there are rows whose fate is not known."""
        return self.settled_rows < self.put_rows

    @property
    def starved(self) -> bool:
        """Whether rows could be sent at once, if there were any."""
        return not self._queue and self._cursor == len(self._window) and self._has_room()

    def _has_room(self) -> bool:
        if self.phase is not Phase.READY:
            return False
        if not self._cursor:
            return True
        return (
            self._inflight_bytes < self._max_inflight
            and self._window[0].sequence > self._suspect_until
        )

    @property
    def settled_sequence(self) -> int:
        """The last sequence of this epoch whose fate is known."""
        return self._next_sequence - len(self._window) - 1

    # --- What the shell gives -------------------------------------------------------------------

    def put(self, rows: Iterable[Rows]) -> None:
        """Take rows to send. A fenced sender drops and counts them."""
        for piece in rows:
            self.put_rows += piece.size
            if self.phase is Phase.FENCED:
                self.dropped_rows += piece.size
            else:
                self._queue.append(piece)

    def open(self) -> ingest_pb2.IngestRequest:
        """Begin a connection: return its first message."""
        self.phase = Phase.OPENING
        self.connections += 1
        return ingest_pb2.IngestRequest(
            open=ingest_pb2.Open(producer=self.producer, epoch=self.epoch)
        )

    def next_message(self) -> ingest_pb2.IngestRequest | None:
        """Return the next batch to send; None when there is none or the window is full."""
        if not self._has_room():
            return None
        if self._cursor == len(self._window):
            if not self._queue:
                return None
            first = self._queue[0]
            if first.size > 2 * self._max_rows:
                # At once: cutting a list's head off again and again copies its rest each time.
                self._queue.popleft()
                self._queue.extendleft(reversed(list(first.chunks(self._max_rows))))
            head, rest = self._queue.popleft().split(self._max_rows, self._max_bytes)
            if rest is not None:
                self._queue.appendleft(rest)
            self._window.append(_NumberedBatch(self._next_sequence, head, self._offset_us))
            self._next_sequence += 1
        batch = self._window[self._cursor]
        self._cursor += 1
        self._inflight_bytes += batch.rows.wire_bytes
        if batch.sent:
            self.retried_rows += batch.rows.size
        else:
            self.sent_rows += batch.rows.size
            batch.sent = True
        return ingest_pb2.IngestRequest(batch=batch.rows.batch(batch.sequence, batch.offset_us))

    def receive(self, response: ingest_pb2.IngestResponse, clock_us: int = 0) -> None:
        """Take a message from the server.

        Parameters
        ----------
        response
            What it said.
        clock_us
            When, on the clock of the stamps.

        Raises
        ------
        ProtocolError
            When it makes no sense: disconnect.
        """
        kind = response.WhichOneof("message")
        if self.phase is Phase.OPENING and kind == "resume":
            self._resume(response.resume, clock_us)
        elif self.phase is Phase.READY and kind == "ack":
            self._receive_ack(response.ack)
        elif self.phase is Phase.READY and kind == "refused":
            self._receive_refused(response.refused)
        else:
            raise ProtocolError(
                f"the server sent {kind or 'nothing known'} while {self.phase.value}"
            )

    def disconnected(self, error: ClientError | None, now: float) -> None:
        """Take note that the connection has ended, why, and when."""
        if self.phase is Phase.FENCED:
            return
        worked = self.phase is Phase.READY
        self.phase = Phase.DISCONNECTED
        self.error = error
        sent = self._cursor
        self._cursor = self._inflight_bytes = 0
        if isinstance(error, FencedError):
            self._fence(error)
            return
        if worked and sent and error is not None and _blames_a_batch(error):
            self._suspect_until = self._next_sequence - 1
            self._batch_failures += 1
        self._failures += 1
        most = min(_MAX_RETRY_DELAY_S, _MIN_RETRY_DELAY_S * 2 ** min(self._failures, 20))
        delay = most * (0.5 + 0.5 * self._random())
        if error is not None and error.retry_after_s is not None:
            delay = max(delay, error.retry_after_s * (1.0 + 0.5 * self._random()))
        self.retry_at = now + delay

    # --- What the server says -------------------------------------------------------------------

    def _resume(self, resume: ingest_pb2.Resume, clock_us: int) -> None:
        last = resume.last_sequence
        if resume.time_us:
            # It was read before we heard it, so no stamp becomes a time ahead of the server's.
            self._offset_us = resume.time_us - clock_us
        settled = self.settled_sequence
        if last >= self._next_sequence:
            self._fence(
                FencedError(
                    f"producer {self.producer!r} with epoch {self.epoch} has sent {last} batches, "
                    f"of which this client numbered {self._next_sequence - 1}: another process "
                    "uses the same producer and epoch"
                )
            )
            return
        self._max_rows = min(MAX_BATCH_ROWS, resume.max_batch_rows or MAX_BATCH_ROWS)
        self._max_bytes = resume.max_batch_bytes or self._max_bytes
        self._max_inflight = resume.max_inflight_bytes or self._max_inflight
        for refused in resume.refused:
            # What a connection could not tell any more.
            batch = self._window_batch(refused.sequence)
            if batch is not None and refused.sequence <= last:
                self._record_refusal(batch, refused.refusal)
        forgotten = last < settled
        self.revision = resume.revision if forgotten else max(self.revision, resume.revision)
        if forgotten or any(not self._fits(batch.rows) for batch in self._window):
            # The server has forgotten what it acknowledged, or now takes smaller batches
            # only; both mean that it was restarted, so nothing is on its way to the disk.
            if not forgotten:
                self._settle(last)
            self._new_epoch()
            return
        if (
            self._batch_failures >= _MAX_BATCH_FAILURES
            and self._window
            and self._window[0].sequence > last
        ):
            self._give_up_batch()
            self._new_epoch()
            return
        self._settle(last)
        self._cursor = self._inflight_bytes = 0
        self.phase = Phase.READY
        self.error = None

    def _fits(self, rows: Rows) -> bool:
        return rows.split(self._max_rows, self._max_bytes)[1] is None

    def _receive_ack(self, ack: ingest_pb2.Ack) -> None:
        if ack.last_sequence >= self._next_sequence:
            raise ProtocolError(f"the server acknowledged sequence {ack.last_sequence} unsent")
        self.revision = max(self.revision, ack.revision)
        self._settle(ack.last_sequence)

    def _receive_refused(self, refused: ingest_pb2.BatchRefused) -> None:
        self.revision = max(self.revision, refused.revision)
        if not self._window or refused.sequence < self._window[0].sequence:
            return  # heard before
        if refused.sequence >= self._next_sequence:
            raise ProtocolError(f"the server refused sequence {refused.sequence} unsent")
        self._record_refusal(
            self._window[refused.sequence - self._window[0].sequence], refused.refusal
        )
        # Sequences become durable in order, so those before it are durable as well.
        self._settle(refused.sequence)

    def _window_batch(self, sequence: int) -> _NumberedBatch | None:
        """Return a batch whose fate is not known; None when there is none of that number."""
        place = sequence - self._window[0].sequence if self._window else -1
        return self._window[place] if 0 <= place < len(self._window) else None

    def _record_refusal(self, batch: _NumberedBatch, refusal: status_pb2.Refusal) -> None:
        self._refuse(
            batch,
            code=_code_name(refusal.code),
            message=refusal.message,
            violations=tuple(
                Violation(violation.field, violation.description)
                for violation in refusal.violations
            ),
        )

    def _refuse(
        self, batch: _NumberedBatch, *, code: str, message: str, violations: tuple[Violation, ...]
    ) -> None:
        batch.refused = True
        self.refused_batches += 1
        self.refusals.append(
            RefusedBatch(batch.rows.stream, batch.rows.size, code, message, violations)
        )

    def _settle(self, last: int) -> None:
        """Take out of the window what is durable: everything up to `last`."""
        while self._window and self._window[0].sequence <= last:
            batch = self._window.popleft()
            if self._cursor:
                self._cursor -= 1
                self._inflight_bytes -= batch.rows.wire_bytes
            if batch.refused:
                self.refused_rows += batch.rows.size
            else:
                self.acked_rows += batch.rows.size
            self._failures = self._batch_failures = 0

    # --- When it goes wrong ---------------------------------------------------------------------

    def _new_epoch(self) -> None:
        """Disconnect, to number what is left from 1 again under a higher epoch."""
        self._queue.extendleft(batch.rows for batch in reversed(self._window) if not batch.refused)
        self.refused_rows += sum(batch.rows.size for batch in self._window if batch.refused)
        self._window.clear()
        self._cursor = self._inflight_bytes = 0
        self._next_sequence = 1
        self._suspect_until = 0
        self.epoch += 1
        self.phase = Phase.DISCONNECTED
        self.error = None
        self._failures = 0

    def _give_up_batch(self) -> None:
        """Count the first batch as refused: it has made every connection fail."""
        error = self.error or ClientError("no reason was given")
        message = f"given up after {self._batch_failures} attempts: {error}"
        self._refuse(self._window[0], code=error.code, message=message, violations=error.violations)
        self._batch_failures = 0

    def _fence(self, error: FencedError) -> None:
        self.phase = Phase.FENCED
        self.error = error
        self.dropped_rows += sum(batch.rows.size for batch in self._window)
        self.dropped_rows += sum(rows.size for rows in self._queue)
        self._window.clear()
        self._queue.clear()


def _code_name(code: int) -> str:
    return code_pb2.Code.Name(code) if code in code_pb2.Code.values() else "UNKNOWN"


def _blames_a_batch(error: ClientError) -> bool:
    overloaded = error.code == "RESOURCE_EXHAUSTED" and error.retry_after_s is not None
    return error.code not in _TRANSIENT_CODES and not overloaded
