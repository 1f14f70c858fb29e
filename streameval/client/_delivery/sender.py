"""The client's side of the Ingest protocol, without threads, clocks or sockets.

A `Sender` takes rows, cuts them into batches within the server's limits,
numbers the batches, and keeps the unacknowledged ones (the window).
A worker moves its messages and passes it the time: the client's thread, an
asyncio task, or a simulator.

With a server that follows the protocol, every row is counted exactly once or
reported as refused or dropped:

- A numbered batch never changes. It is sent again with the same sequence, so the
  server recognises the repetition, unless Resume reports it as durable.
- Rows are numbered in the order of `put`, and dated by the server's clock when
  they are numbered.
- A refused batch is counted as refused and never sent again, also when the
  refusal arrives with Resume, after a broken connection.
- A server that no longer has acknowledged batches (a damaged log, another data directory) gets
  the remaining ones under a higher epoch, from sequence 1; the others are counted as lost. If
  it has forgotten the producer, which was idle for days, nothing is lost.
- A batch that its stream refuses for want of segment keys is kept, with the stream's later
  rows, until `release_held` sends them again in other batches, or `refuse_held` counts them.
- A batch that makes connections fail repeatedly is given up as refused: after
  the first failure, batches are sent one at a time until the cause is found. If its
  size may be the cause, its rows are cut into smaller batches first.
- Batches are cut or left out under a higher epoch. The server starts that epoch only if no
  batch became durable since the client asked; one sent on an earlier connection could.

Cost: O(1) for each message, besides encoding the batch.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from google.rpc import code_pb2

from streameval.client._delivery.batch_size import MAX_BATCH_ROWS, BatchSize, doubts_size
from streameval.client._errors import ClientError, FencedError, RefusedBatch, Violation
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streameval.client._buffer.columns import Rows
    from streameval.v1 import status_pb2

MAX_REFUSALS = 100
"""The most refused batches that statistics list."""

MAX_REMEMBERED_BATCHES = 65_536
"""Acknowledged batches whose rows can be counted if the server loses them: the newest. If it
loses more, but not all, fewer rows are reported than were lost."""

_MIN_RETRY_DELAY_S = 0.05
_MAX_RETRY_DELAY_S = 5.0
_MAX_BATCH_FAILURES = 3
"""A batch is given up after it has ended this many connections."""

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
"""These end a connection for reasons other than the batches that were sent on it."""


class Phase(enum.Enum):
    """State of a sender's connection."""

    DISCONNECTED = "disconnected"
    OPENING = "opening"
    READY = "ready"
    FENCED = "fenced"


class ProtocolError(ClientError):
    """The server sent what the protocol does not allow: the worker must disconnect."""

    code = "INTERNAL"


@dataclass(slots=True)
class _NumberedBatch:
    """A batch in the window; `offset_us` turns the stamps of its rows into times."""

    sequence: int
    rows: Rows
    offset_us: int
    sent: bool = False
    refused: bool = False
    held: bool = False


class Sender:
    """One producer's batches: numbered, sent, acknowledged.

    Parameters
    ----------
    producer : str
        Name of the producer; 1 to 128 bytes of UTF-8.
    epoch : int
        When the producer started, in microseconds since 1970.
    random : callable
        Returns numbers in [0, 1), for jitter.
    offset_us : int
        Turns a stamp into a time (`_buffer.clock`) until a server sends its time.
    batch_rows : int
        The most rows of a batch.

    Attributes
    ----------
    phase : Phase
    error : ClientError or None
        Why the last connection ended; None while a connection is open.
    retry_at : float
        When to connect again, on the worker's clock.
    revision : int
        The highest log revision that acknowledged a batch.
    lost_rows : int
        Rows that were acknowledged and that the server has lost since.
    refusals : deque of RefusedBatch
        The last 100 refused batches.
    held_rows : int
        Rows that are kept until their streams have their segment keys; not settled.
    holds : dict of str to RefusedBatch
        Why, by stream.
    """

    def __init__(
        self,
        producer: str,
        epoch: int,
        *,
        random: Callable[[], float],
        offset_us: int = 0,
        batch_rows: int = MAX_BATCH_ROWS,
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
        # Counters since the start, in rows unless named otherwise.
        self.put_rows = self.sent_rows = self.retried_rows = 0
        self.acked_rows = self.refused_rows = self.dropped_rows = self.lost_rows = 0
        self.refused_batches = self.connections = 0
        self.held_rows = 0
        # Kept rows in their order: `_held` was numbered before, `_held_back` never was.
        self._held: deque[Rows] = deque()
        self._held_back: deque[Rows] = deque()
        # Why the rows of a stream are kept, by stream.
        self.holds: dict[str, RefusedBatch] = {}
        self._queue: deque[Rows] = deque()
        self._window: deque[_NumberedBatch] = deque()
        self._next_sequence = 1
        # Acknowledged rows: by batch for the newest sequences, in sum for this epoch.
        self._acked_batches: deque[int] = deque(maxlen=MAX_REMEMBERED_BATCHES)
        self._epoch_acked_rows = 0
        self._acked_revision = 0
        self._history = 0
        self._cursor = 0  # batches of the window sent on this connection
        self._inflight_bytes = 0
        self._size = BatchSize(batch_rows)
        self._max_inflight = 1 << 20
        self._failures = 0
        # Connections in a row that ended with the oldest batch: for any reason that may lie in
        # it, and for one that is not its size.
        self._batch_failures = self._blames = 0
        self._blamed_error: ClientError | None = None
        # Batches up to this sequence are sent one at a time.
        self._suspect_until = 0
        # While the next epoch is to start: the last durable sequence of the present one.
        self._renumber_after: int | None = None

    @property
    def settled_rows(self) -> int:
        """Rows that were acknowledged, refused or dropped, in the order of `put`."""
        return self.acked_rows + self.refused_rows + self.dropped_rows + self.lost_rows

    @property
    def pending(self) -> bool:
        """Whether there are rows that are not settled."""
        return self.settled_rows < self.put_rows

    @property
    def starved(self) -> bool:
        """Whether the window has room but there are no rows to send."""
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

    def expected_resume(self) -> ingest_pb2.Resume:
        """Return the server's answer to `open` as far as it is known here."""
        last = self.settled_sequence if self._renumber_after is None else 0
        return ingest_pb2.Resume(last_sequence=last)

    @property
    def settled_sequence(self) -> int:
        """The last sequence of this epoch that is settled."""
        return self._next_sequence - len(self._window) - 1

    # --- Called by the worker -------------------------------------------------------------------

    def put(self, rows: Iterable[Rows]) -> None:
        """Queue rows. A fenced sender drops and counts them."""
        for piece in rows:
            self.put_rows += piece.size
            if self.phase is Phase.FENCED:
                self.dropped_rows += piece.size
            else:
                self._queue.append(piece)

    def open(self) -> ingest_pb2.IngestRequest:
        """Start a connection; return its first message."""
        self.phase = Phase.OPENING
        self.connections += 1
        opening = ingest_pb2.Open(producer=self.producer, epoch=self.epoch)
        if self._renumber_after is not None:
            opening.epoch += 1
            opening.after_epoch, opening.after_sequence = self.epoch, self._renumber_after
        return ingest_pb2.IngestRequest(open=opening)

    def next_message(self) -> ingest_pb2.IngestRequest | None:
        """Return the next batch to send; None without rows, or when the window is full."""
        if not self._has_room():
            return None
        if self._cursor == len(self._window):
            while self._queue and self._queue[0].stream in self.holds:
                self._hold(self._queue.popleft(), self._held_back)
            if not self._queue:
                return None
            first, size = self._queue[0], self._size
            if first.size > 2 * size.rows:
                # All cuts at once: cutting the head off one by one copies the rest each time.
                self._queue.popleft()
                self._queue.extendleft(reversed(list(first.chunks(size.rows))))
            head, rest = self._queue.popleft().split(size.rows, size.nbytes)
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

    def release_held(self) -> None:
        """Send kept rows again, before all others of their streams.

        One batch at a time, so that no later row of a stream passes one that is refused again.
        """
        pieces = len(self._held) + len(self._held_back)
        self._suspect_until = max(self._suspect_until, self._next_sequence - 1 + pieces)
        self._queue.extendleft(reversed(self._held_back))
        self._queue.extendleft(reversed(self._held))
        self._forget_held()

    def refuse_held(self) -> None:
        """Count kept rows as refused: they are lost."""
        for refusal in self.holds.values():
            self.refused_batches += 1
            self.refusals.append(refusal)
        self.refused_rows += self.held_rows
        self._forget_held()

    def _forget_held(self) -> None:
        self._held.clear()
        self._held_back.clear()
        self.holds.clear()
        self.held_rows = 0

    def _hold(self, rows: Rows, kept: deque[Rows]) -> None:
        kept.append(rows)
        self.held_rows += rows.size
        hold = self.holds[rows.stream]
        self.holds[rows.stream] = replace(hold, rows=hold.rows + rows.size)

    def unsettled(self, producer: str) -> Iterator[ingest_pb2.IngestRequest]:
        """Yield all rows that are not settled as on a new connection: an opening, then batches.

        Parameters
        ----------
        producer
            A new one, of the rows that are not on their way: no later process fences it.
        """
        if self._window:
            yield _opening(self.producer, self.epoch)
        for batch in self._window:
            message = batch.rows.batch(batch.sequence, batch.offset_us)
            yield ingest_pb2.IngestRequest(batch=message)
        rest_of_all = (*self._held, *self._held_back, *self._queue)
        if rest_of_all:
            yield _opening(producer, self.epoch)
        sequence = 1
        for piece in rest_of_all:
            rest: Rows | None = piece
            while rest is not None:
                head, rest = rest.split(self._size.rows, self._size.nbytes)
                yield ingest_pb2.IngestRequest(batch=head.batch(sequence, self._offset_us))
                sequence += 1

    def receive(self, response: ingest_pb2.IngestResponse, clock_us: int = 0) -> None:
        """Process a message from the server.

        Parameters
        ----------
        response
            The message.
        clock_us
            The time of its receipt, on the clock of the stamps.

        Raises
        ------
        ProtocolError
            When the protocol does not allow the message: disconnect.
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
        """Record that the connection ended with `error` at the time `now`."""
        if self.phase is Phase.FENCED:
            return
        worked = self.phase is Phase.READY
        self.phase = Phase.DISCONNECTED
        self.error = error
        sent = self._cursor
        self._cursor = self._inflight_bytes = 0
        if self._renumber_after is not None and error is not None and error.reason == "EPOCH_MOVED":
            # A batch of an earlier connection became durable: ask again which.
            self._renumber_after = None
        elif isinstance(error, FencedError):
            self._fence(error)
            return
        if worked and sent and error is not None:
            self._suspect_batch(error)
        self._failures += 1
        most = min(_MAX_RETRY_DELAY_S, _MIN_RETRY_DELAY_S * 2 ** min(self._failures, 20))
        delay = most * (0.5 + 0.5 * self._random())
        if error is not None and error.retry_after_s is not None:
            delay = max(delay, error.retry_after_s * (1.0 + 0.5 * self._random()))
        self.retry_at = now + delay

    def _suspect_batch(self, error: ClientError) -> None:
        """Record that a connection ended while the oldest batch was on its way."""
        is_about_size, is_blame = doubts_size(error), _blames_a_batch(error)
        if not (is_about_size or is_blame):
            return
        self._suspect_until = self._next_sequence - 1
        self._batch_failures += 1
        if is_blame:
            self._blames += 1
            self._blamed_error = error
        if is_about_size and self._size.halve(self._window[0].rows, self._batch_failures):
            self._batch_failures = self._blames = 0

    # --- Messages of the server -----------------------------------------------------------------

    def _resume(self, resume: ingest_pb2.Resume, clock_us: int) -> None:
        last = resume.last_sequence
        if self._renumber_after is not None:
            if self._blames >= _MAX_BATCH_FAILURES:
                self._give_up_batch()
            self._renumber()
        if resume.time_us:
            # The server read its clock before this message arrived, so no stamp becomes a time
            # ahead of the server's.
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
        self._size.take_limits(resume)
        self._max_inflight = resume.max_inflight_bytes or self._max_inflight
        for refused in resume.refused:
            # Refusals that an earlier connection did not deliver.
            batch = self._window_batch(refused.sequence)
            if batch is not None and refused.sequence <= last:
                self._record_refusal(batch, refused.refusal)
        forgotten = last < settled
        if forgotten and not self._was_only_idle(resume):
            self._lose(settled - last)
        self._history = resume.history
        self.revision = resume.revision if forgotten else max(self.revision, resume.revision)
        if forgotten:
            # It was restarted with another log, so no batch is still being written.
            self._renumber()
            self._disconnect()
            return
        self._acked_revision = resume.revision
        self._settle(last)
        # Settling a batch clears the blames, so the oldest one left has them all.
        is_given_up = self._blames >= _MAX_BATCH_FAILURES
        if is_given_up or any(not self._size.fits(batch.rows) for batch in self._window):
            self._start_epoch_after(last)
            return
        self._cursor = self._inflight_bytes = 0
        self.phase = Phase.READY
        self.error = None

    def _was_only_idle(self, resume: ingest_pb2.Resume) -> bool:
        """Whether the server forgot this idle producer, and still has its rows.

        It then knows no batch of it, but its history is the same and reaches as far.
        """
        return (
            not resume.last_sequence
            and self._history in (0, resume.history)  # 0: the server was too old to say
            and resume.revision >= self._acked_revision
        )

    def _lose(self, batches: int) -> None:
        """Count the rows of the newest acknowledged batches as lost."""
        if batches == self.settled_sequence:
            rows = self._epoch_acked_rows
        else:
            remembered = self._acked_batches
            rows = sum(islice(remembered, max(len(remembered) - batches, 0), None))
        self.acked_rows -= rows
        self.lost_rows += rows

    def _receive_ack(self, ack: ingest_pb2.Ack) -> None:
        if ack.last_sequence >= self._next_sequence:
            raise ProtocolError(f"the server acknowledged sequence {ack.last_sequence} unsent")
        self.revision = max(self.revision, ack.revision)
        self._acked_revision = max(self._acked_revision, ack.revision)
        self._settle(ack.last_sequence)

    def _receive_refused(self, refused: ingest_pb2.BatchRefused) -> None:
        self.revision = max(self.revision, refused.revision)
        if not self._window or refused.sequence < self._window[0].sequence:
            return  # a repetition
        if refused.sequence >= self._next_sequence:
            raise ProtocolError(f"the server refused sequence {refused.sequence} unsent")
        self._record_refusal(
            self._window[refused.sequence - self._window[0].sequence], refused.refusal
        )
        # Sequences become durable in order, so all before this one are durable.
        self._settle(refused.sequence)

    def _window_batch(self, sequence: int) -> _NumberedBatch | None:
        """Return the batch of the window with this sequence; None when there is none."""
        place = sequence - self._window[0].sequence if self._window else -1
        return self._window[place] if 0 <= place < len(self._window) else None

    def _record_refusal(self, batch: _NumberedBatch, refusal: status_pb2.Refusal) -> None:
        violations = tuple(Violation(each.field, each.description) for each in refusal.violations)
        code, message = _code_name(refusal.code), refusal.message
        if refusal.segment_keys:
            batch.held = True
            stream = batch.rows.stream
            message = declaring_call(stream, refusal)
            self.holds.setdefault(stream, RefusedBatch(stream, 0, code, message, violations))
            return
        self._refuse(batch, code=code, message=message, violations=violations)

    def _refuse(
        self, batch: _NumberedBatch, *, code: str, message: str, violations: tuple[Violation, ...]
    ) -> None:
        batch.refused = True
        self.refused_batches += 1
        self.refusals.append(
            RefusedBatch(batch.rows.stream, batch.rows.size, code, message, violations)
        )

    def _settle(self, last: int) -> None:
        """Remove the batches up to `last` from the window: their outcome is durable."""
        while self._window and self._window[0].sequence <= last:
            batch = self._window.popleft()
            if self._cursor:
                self._cursor -= 1
                self._inflight_bytes -= batch.rows.wire_bytes
            acked = 0 if batch.refused or batch.held else batch.rows.size
            self.acked_rows += acked
            if batch.held:
                self._hold(batch.rows, self._held)
            elif batch.refused:
                self.refused_rows += batch.rows.size
            self._acked_batches.append(acked)
            self._epoch_acked_rows += acked
            self._failures = self._batch_failures = self._blames = 0

    # --- Failures -------------------------------------------------------------------------------

    def _start_epoch_after(self, last: int) -> None:
        """Disconnect, and renumber once the server has started the next epoch after a sequence."""
        self._renumber_after = last
        self._disconnect()

    def _disconnect(self) -> None:
        self.phase = Phase.DISCONNECTED
        self.error = None
        self._failures = 0

    def _renumber(self) -> None:
        """Begin a higher epoch, in which the remaining rows are numbered from 1 again."""
        self._renumber_after = None
        # One that is held and not settled goes back: the server says again what it lacks.
        self._queue.extendleft(batch.rows for batch in reversed(self._window) if not batch.refused)
        self.refused_rows += sum(batch.rows.size for batch in self._window if batch.refused)
        self._window.clear()
        self._cursor = self._inflight_bytes = 0
        self._next_sequence = 1
        self._acked_batches.clear()
        self._epoch_acked_rows = self._acked_revision = 0
        self._suspect_until = 0
        self.epoch += 1

    def _give_up_batch(self) -> None:
        """Count the first batch of the window as refused: it made every connection fail."""
        error = self._blamed_error
        assert error is not None
        message = f"given up after {self._blames} attempts: {error}"
        self._refuse(self._window[0], code=error.code, message=message, violations=error.violations)
        self._batch_failures = self._blames = 0

    def _fence(self, error: FencedError) -> None:
        self.phase = Phase.FENCED
        self.error = error
        self.dropped_rows += sum(batch.rows.size for batch in self._window)
        self.dropped_rows += sum(rows.size for rows in self._queue) + self.held_rows
        self._forget_held()
        self._window.clear()
        self._queue.clear()


def _opening(producer: str, epoch: int) -> ingest_pb2.IngestRequest:
    return ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer=producer, epoch=epoch))


def _code_name(code: int) -> str:
    return code_pb2.Code.Name(code) if code in code_pb2.Code.values() else "UNKNOWN"


def declaring_call(stream: str, refusal: status_pb2.Refusal) -> str:
    """Return why a stream refuses segment keys, with the call that adds them."""
    return (
        f"the stream {stream} has not all segment keys of these rows: call "
        f"client.update_stream({stream!r}, segment_keys={list(refusal.segment_keys)!r})"
    )


def _blames_a_batch(error: ClientError) -> bool:
    overloaded = error.code == "RESOURCE_EXHAUSTED" and error.retry_after_s is not None
    return error.code not in _TRANSIENT_CODES and not overloaded
