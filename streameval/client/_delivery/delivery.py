"""From buffer to sender and from sender to caller: the part both workers share.

The thread (`worker`) and the asyncio task (`async_connection`) own the connection
and wait for events. `Delivery` moves rows from the buffer to the sender, decides
whether a flush is done, and reports lost rows. It never waits and has no lock: the
thread's worker holds its own lock around each call, the event loop needs none.
"""

from __future__ import annotations

import logging
import operator
import os
import random
import shlex
import threading
import time
import uuid
from typing import TYPE_CHECKING

from streameval.client._buffer.clock import offset_us
from streameval.client._delivery.sender import Phase, Sender
from streameval.client._delivery.spool import write_spool
from streameval.client._delivery.statistics import count, read_statistics
from streameval.client._errors import DeadlineError, FencedError, PreconditionError, RowsLostError
from streameval.client._wire.rpc_errors import unanswered

if TYPE_CHECKING:
    from pathlib import Path

    from streameval.client._buffer.buffer import Buffer
    from streameval.client._delivery.statistics import ClientStatistics
    from streameval.client._errors import ClientError
    from streameval.v1 import ingest_pb2

_log = logging.getLogger("streameval.client")

_MIN_LOG_INTERVAL_S = 10.0
"""Lost rows are logged at most once in this time."""

_RELEASE_INTERVAL_S = 1.0
"""Rows that are kept for want of segment keys are sent again after this time, with the next."""

_PERMANENT_CODES = frozenset(
    {"INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"}
)
"""A flush fails at once with these: retrying helps only after someone has changed something."""


class Delivery:
    """The delivery of one producer's rows.

    Parameters
    ----------
    buffer : Buffer
    producer : str or None
        A new UUID when None.
    address : str
        Names the server in log messages.

    Attributes
    ----------
    buffer, sender
    """

    def __init__(self, buffer: Buffer, producer: str | None, address: str) -> None:
        self.buffer = buffer
        self.sender = Sender(
            producer or str(uuid.uuid4()),
            next_epoch(),
            random=random.random,
            offset_us=offset_us(buffer.clock_ns),
            batch_rows=buffer.batch_rows,
        )
        self._address = address
        self._opened_s = 0.0
        self._is_lost = False  # as the log says
        # What flushes have raised, and what the log has.
        self._raised_losses = _LossReport()
        self._logged_losses = _LossReport()
        self._next_log_s = self._next_release_s = 0.0
        self._logged_holds: dict[str, str] = {}

    def record_revision(self, revision: int) -> None:
        """Record a revision that another call returned: queries wait for it too."""
        self.sender.revision = max(self.sender.revision, revision)
        if self.sender.held_rows:  # the call may have declared their segment keys
            self._release_held()
            self.buffer.wake()

    def statistics(self) -> ClientStatistics:
        """Return the counters."""
        return read_statistics(self.sender, self.buffer)

    # --- Moving rows ----------------------------------------------------------------------------

    def drain_buffer(self) -> None:
        """Move the buffer's rows to the sender.

        Kept rows are sent again from time to time.
        """
        if self.sender.held_rows and time.monotonic() >= self._next_release_s:
            self._release_held()
        self.sender.put(self.buffer.take())

    def _release_held(self) -> None:
        self._next_release_s = time.monotonic() + _RELEASE_INTERVAL_S
        self.sender.release_held()

    def open(self, now_s: float) -> ingest_pb2.IngestRequest:
        """Start a connection; return its first message."""
        self._opened_s = now_s
        return self.sender.open()

    def answer_left_s(self, now_s: float, timeout_s: float) -> float | None:
        """Return how long the first message may stay unanswered; None once it is answered."""
        if self.sender.phase is not Phase.OPENING:
            return None
        return self._opened_s + timeout_s - now_s

    def next_message(self) -> ingest_pb2.IngestRequest | None:
        """Return the next batch; None without rows, or without room in the window."""
        if self.sender.starved:
            self.drain_buffer()
        message = self.sender.next_message()
        if message is None:
            self._refuse_held_if_full()
        return message

    def _refuse_held_if_full(self) -> None:
        """Count kept rows as lost where they leave no room for the rows of other streams."""
        if self.sender.held_rows and self.buffer.is_full:
            self.sender.refuse_held()
            self.buffer.settled(self.sender.settled_rows)

    def receive(self, response: ingest_pb2.IngestResponse) -> bool:
        """Process a message from the server; return whether the connection stays open.

        Rows that would be kept are lost if the buffer is full.

        Raises
        ------
        ProtocolError
            When the protocol does not allow it.
        """
        self.sender.receive(response, self.buffer.clock_ns() // 1_000)
        self._refuse_held_if_full()
        if self._is_lost and self.sender.phase is Phase.READY:
            self._is_lost = False
            _log.warning("streameval client of %s: the server is back", self._address)
        return self.sender.phase is Phase.READY

    def disconnected(self, error: ClientError | None, now_s: float) -> bool:
        """Record that the connection has ended; return whether to open another one."""
        # A cut that the next connection makes good is no outage.
        is_outage = self.sender.phase is Phase.OPENING and error is not None
        self.sender.disconnected(error, now_s)
        if self.sender.phase is Phase.FENCED:
            return False
        has_rows = self.sender.pending or self.buffer.has_rows()
        if is_outage and has_rows and not self._is_lost:
            self._is_lost = True
            _log.warning("streameval client of %s: lost the server: %s", self._address, error)
        return True

    def discard(self) -> None:
        """Drop the buffer's rows and all later ones: this producer is fenced."""
        self.buffer.discard()
        self.drain_buffer()
        _log.error(
            "streameval client of %s: %s; further rows are dropped",
            self._address,
            self.sender.error,
        )

    # --- Flushing and reporting -----------------------------------------------------------------

    def begin_flush(self) -> int:
        """Drain the buffer; return how many rows must be settled for the flush to be done."""
        self._release_held()
        self.drain_buffer()
        return self.sender.put_rows

    def flush_result(self, target: int, known: ClientError | None) -> int | None:
        """Return the revision once `target` rows are settled, None before that.

        Raises
        ------
        ClientError
            What `Client.flush` raises. An error that was `known` before the
            flush is not raised: its cause may be gone by now.
        """
        sender = self.sender
        if sender.settled_rows + sender.held_rows < target:
            error = sender.error
            if error is not None and error is not known and error.code in _PERMANENT_CODES:
                raise error
            return None
        if isinstance(sender.error, FencedError):
            raise sender.error
        if sender.holds:
            raise self._held_error()
        lost = self._raised_losses.take_new(sender, self.buffer)
        if lost is not None:
            raise lost
        return sender.revision

    def _held_error(self) -> PreconditionError:
        first = next(iter(self.sender.holds.values()))
        rows = count(self.sender.held_rows, "row")
        return PreconditionError(
            f"{rows} of {count(len(self.sender.holds), 'stream')} kept and not durable: "
            f"{first.message}",
            reason="SEGMENT_KEYS_MISSING",
            violations=first.violations,
        )

    def flush_timeout(self, timeout_s: float | None, target: int) -> DeadlineError:
        """Return the error of a flush that was not done in time."""
        left = target - self.sender.settled_rows
        error = self.sender.error
        why = "" if error is None else f"; the last connection ended with: {error}"
        if error is None and self.sender.phase is Phase.OPENING:
            why = f"; {unanswered(time.monotonic() - self._opened_s)}"
        return DeadlineError(f"{count(left, 'row')} not durable after {timeout_s:.3g} s{why}")

    def keep_unsettled(self, spool: Path | None) -> None:
        """Write the rows that a client could not send to a file, or log that they are lost.

        Called once the client has stopped.
        """
        self.drain_buffer()
        left = self.sender.put_rows - self.sender.settled_rows
        if not left:
            return
        rows = count(left, "row")
        if spool is None:
            _log.warning("streameval client of %s: %s lost", self._address, rows)
            return
        try:
            write_spool(spool, self.sender.unsettled(str(uuid.uuid4())))
        except OSError as error:
            _log.warning(
                "streameval client of %s: %s lost, for %s cannot be written: %s",
                self._address,
                rows,
                spool,
                error,
            )
            return
        command = shlex.join(
            ["streameval", "push", "--spool", str(spool), "--server", self._address]
        )
        _log.warning(
            "streameval client of %s: %s kept; send them within 7 days: %s",
            self._address,
            rows,
            command,
        )

    def log_losses(self, now_s: float) -> None:
        """Log rows lost since the last message, at most every `_MIN_LOG_INTERVAL_S`."""
        for stream, hold in self.sender.holds.items():
            if self._logged_holds.get(stream) != hold.message:
                self._logged_holds[stream] = hold.message
                _log.warning(
                    "streameval client of %s: rows are kept, until then or until the buffer is "
                    "full: %s",
                    self._address,
                    hold.message,
                )
        if now_s < self._next_log_s:
            return
        lost = self._logged_losses.take_new(self.sender, self.buffer)
        if lost is not None:
            self._next_log_s = now_s + _MIN_LOG_INTERVAL_S
            _log.warning("streameval client of %s: %s", self._address, lost)


class FlushWait:
    """A flush that waits: whether it is done, and for how long it may go on.

    Parameters
    ----------
    delivery : Delivery
    target : int
        How many rows must be settled.
    timeout_s, stall_s : float or None
        The longest wait, and the longest time in which no row is settled.
    """

    def __init__(
        self, delivery: Delivery, target: int, timeout_s: float | None, stall_s: float | None
    ) -> None:
        self._delivery, self._target = delivery, target
        self._timeout_s, self._stall_s = timeout_s, stall_s
        self._known = delivery.sender.error
        self._settled = delivery.sender.settled_rows
        self._begun_s = self._moved_s = time.monotonic()

    def result(self) -> int | None:
        """Return the revision when it is done, None before. Raises as `Delivery.flush_result`."""
        return self._delivery.flush_result(self._target, self._known)

    def left_s(self) -> float | None:
        """Return how long to wait for a change; None means until there is one.

        Raises
        ------
        DeadlineError
            When it has waited long enough.
        """
        now_s = time.monotonic()
        if self._settled != self._delivery.sender.settled_rows:
            self._settled, self._moved_s = self._delivery.sender.settled_rows, now_s
        left = [
            (begun_s + limit_s - now_s, limit_s)
            for begun_s, limit_s in (
                (self._begun_s, self._timeout_s),
                (self._moved_s, self._stall_s),
            )
            if limit_s is not None
        ]
        if not left:
            return None
        shortest_s, limit_s = min(left)
        if shortest_s <= 0:
            raise self._delivery.flush_timeout(limit_s, self._target)
        return shortest_s


class _LossReport:
    """The counters of lost rows as of the last report, so that each loss is reported once."""

    def __init__(self) -> None:
        self._reported = (0, 0, 0, 0)

    def take_new(self, sender: Sender, buffer: Buffer) -> RowsLostError | None:
        """Return what was refused, dropped or lost since the last call; None if nothing was."""
        now = (sender.refused_rows, sender.refused_batches, buffer.dropped, sender.lost_rows)
        refused, batches, dropped, lost = map(operator.sub, now, self._reported)
        if not (refused or dropped or lost):
            return None
        self._reported = now
        refusals = tuple(sender.refusals)[-batches:] if batches else ()
        parts = []
        if lost:
            parts.append(
                f"the server has lost {count(lost, 'row')} that it had acknowledged: its log was "
                "damaged, or is another one"
            )
        if refusals:
            first = refusals[0]
            parts.append(
                f"{count(refused, 'row')} in {count(batches, 'batch', 'batches')} refused, "
                f"the first of {first.stream}: {first.message}"
            )
        if dropped:
            parts.append(f"{count(dropped, 'row')} dropped because the buffer was full")
        return RowsLostError(
            "; ".join(parts),
            refusals=refusals,
            refused_rows=refused,
            dropped_rows=dropped,
            lost_rows=lost,
        )


# --- Epochs -----------------------------------------------------------------------------------

_epoch_lock = threading.Lock()
_last_epoch = 0


def next_epoch() -> int:
    """Return a producer's epoch: microseconds since 1970, unique and rising in the process."""
    global _last_epoch  # noqa: PLW0603 - one number for the process is its meaning
    with _epoch_lock:
        _last_epoch = max(_last_epoch + 1, time.time_ns() // 1000)
        return _last_epoch


def _in_forked_child() -> None:
    global _epoch_lock  # noqa: PLW0603 - a thread of the parent may have held the old one
    _epoch_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
