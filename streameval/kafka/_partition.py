"""One assigned partition: messages wait here until they are a piece, and the piece is sent.

The consumer's thread polls, cuts pieces and reads them; a worker's thread asks the server where
it is, sends a piece, writes its dead letters, and commits its offset. While one piece is sent,
the next one is read. Nothing here waits, so that the consumer keeps polling while a server is
away: else its group would take the partitions from it.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError
from streameval.client import ClosedError
from streameval.kafka._brokers import made_again
from streameval.kafka._dead_letters import Letter
from streameval.kafka._delivery import MovedError
from streameval.kafka._metrics import COUNTED, DEAD_LETTERS, ELSEWHERE, IGNORED, SERVER
from streameval.kafka._piece import NO_MAPPING, RefusedRow, read_piece
from streameval.kafka._piece_range import PieceRange
from streameval.kafka._waiting_messages import WaitingMessages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future

    from confluent_kafka import Message

    from streameval.kafka._dead_letters import DeadLetters
    from streameval.kafka._delivery import Found, PartitionDelivery
    from streameval.kafka._metrics import ConsumerMetrics
    from streameval.kafka._piece import Piece
    from streameval.payloads import PayloadMapping

_log = logging.getLogger(__name__)

LINGER_S = 0.25
"""How long messages wait for others, so that a slow topic is not one piece a message."""

_MAX_DOUBLINGS = 20
_PAUSE_S = 1.0
"""Before the server is asked again, after another process was found to have the partition."""

IDLE_S = 10.0
"""How long a partition without messages, which is not known to be at its end, holds others back."""

STALLED_S = 5.0
"""In this time others may go twice as far before a partition whose messages do not become durable.
A server refuses predictions until labels make room, and these may be hours behind them: they
come within the minute after which it lets predictions expire early, a few at a time."""

STORE = "store"
"""The reason of a row that was read and that its stream refuses."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A piece that was read, and the offsets that it has."""

    offsets: PieceRange
    piece: Piece
    is_begun: bool
    low_us: int | None
    """The earliest time of its messages."""


class Partition:
    """One partition of a topic, while it is assigned to this process.

    Parameters
    ----------
    topic, number
        Which.
    delivery, dead_letters, metrics, mappings, streams
        Where its pieces go, and how they are read.
    executor
        Runs what has to wait.
    locate
        Returns where reading goes on, given what the server has; called by a worker.
    max_skew_us
        How far a piece, and one partition before another, may reach in message time.

    Attributes
    ----------
    next_offset : int or None
        The next message to consume that is not durable; None until it is known.
    seek_to : int or None
        Where the consumer has to go to read on; it sets None once it is there.
    to_commit : tuple of int and int, or None
        The offset of the next message, and the server's history, for the consumer to commit; it
        sets None once it has.
    bound_us : int or None
        No message of a later time is sent for now; set by the consumer.
    error : Exception or None
        Why the process has to end.
    """

    def __init__(
        self,
        topic: str,
        number: int,
        *,
        delivery: PartitionDelivery,
        dead_letters: DeadLetters,
        metrics: ConsumerMetrics,
        mappings: list[PayloadMapping],
        streams: Sequence[str],
        executor: Executor,
        locate: Callable[[Found], tuple[int, PieceRange | None]],
        max_skew_us: int,
    ) -> None:
        self.topic = topic
        self.number = number
        self.next_offset: int | None = None
        self.seek_to: int | None = None
        self.to_commit: tuple[int, int] | None = None
        self.bound_us: int | None = None
        self.error: BaseException | None = None
        self._delivery = delivery
        self._dead_letters = dead_letters
        self._metrics = metrics
        self._mappings = mappings
        self._streams = streams
        self._executor = executor
        self._locate = locate
        self._max_skew_us = max_skew_us
        self._is_closed = False
        self._is_reading = False
        self._waiting = WaitingMessages(0, max_skew_us)
        self._moved_at_s = time.monotonic()
        self._sent: ReadRange | None = None
        self._redo: PieceRange | None = None
        self._prepared: ReadRange | None = None
        self._locating: Future[tuple[int, PieceRange | None]] | None = None
        self._sending: Future[int] | None = None
        self._locate_at_s = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the consumer should fetch no more of it for now."""
        return not self._is_reading or self._waiting.is_full

    @property
    def is_held(self) -> bool:
        """Whether messages wait for slower partitions."""
        return len(self._waiting) > 0 and self._waiting.piece(self.bound_us)[0] == 0

    @property
    def low_us(self) -> int | None:
        """The time before which others are bounded by it; None: it holds back no other.

        The time of its earliest message that is not durable; it moves on while that stays the same.

        While it is not known, because its first message is yet to come, that is the earliest
        of all times. O(1).
        """
        waiting = self._waiting
        parts = [each for each in (self._sent, self._prepared) if each is not None]
        still_s = time.monotonic() - self._moved_at_s
        if len(waiting) or parts:
            lows = [waiting.low_us, *(each.low_us for each in parts)]
            known = [each for each in lows if each is not None]
            further = 2.0 ** min(still_s / STALLED_S, _MAX_DOUBLINGS) - 1
            return min(known) + int(further * self._max_skew_us) if known else None
        if waiting.is_at_end or still_s >= IDLE_S:
            return None
        return waiting.after_us

    def lag(self, high: int) -> int | None:
        """Return how many offsets below the partition's end are not consumed; None: not known yet.

        An offset without a message (a transaction's end) counts only while earlier messages wait.
        """
        if self.next_offset is None:
            return None
        is_waiting = self._sent or self._prepared or len(self._waiting)
        read_to = self.next_offset if is_waiting else self._waiting.read_to
        return max(0, high - max(self.next_offset, read_to))

    def touch(self) -> None:
        """Take note that nothing of it could become durable, as the server was away."""
        self._moved_at_s = time.monotonic()

    def take_gaps(self) -> list[tuple[int, int]]:
        """Return the offsets in [start, end) that did not come since the last call."""
        gaps, self._waiting.gaps = self._waiting.gaps, []
        return gaps

    def close(self, timeout_s: float) -> None:
        """End what runs, and wait for it."""
        self._is_closed = True
        self._delivery.close()
        for future in (self._locating, self._sending):
            if future is not None:
                try:
                    future.result(timeout_s)
                except Exception:  # noqa: BLE001 - its next reader sends it again
                    _log.debug("closed", exc_info=True)

    def drain(self, timeout_s: float) -> None:
        """Wait for the piece that is being sent."""
        if self._sending is not None:
            try:
                self._settle(self._sending.result(timeout_s))
            except Exception:  # noqa: BLE001 - its next reader sends it again
                _log.debug("not drained", exc_info=True)
            self._sending = None

    def add(self, messages: list[Message]) -> None:
        """Take the next messages; drop messages that were consumed before. O(messages)."""
        if self._goes_on_at(messages[0].offset()) and self._waiting.add(messages):
            self._moved_at_s = time.monotonic()

    def end(self, offset: int) -> None:
        """Take note that there is no message below an offset any more."""
        if self._goes_on_at(offset):
            self._waiting.end(offset)

    def _goes_on_at(self, offset: int) -> bool:
        """Whether an offset is to be read; one that was read comes again only of another log."""
        read_to = self._waiting.read_to
        if self._is_reading and self.seek_to is None and offset < read_to:
            self.error = StreamEvalError(made_again(self.topic, self.number, offset, read_to))
        return self._is_reading and self.error is None

    def step(self) -> None:
        """Begin what can begin, and take the results of what has ended. O(a piece)."""
        if self._is_closed or self.error is not None:
            return
        try:
            self._step()
        except MovedError as error:
            _log.warning("%s[%d]: %s: asking the server again", self.topic, self.number, error)
            self._forget(time.monotonic() + _PAUSE_S)
        except ClosedError:
            self._forget(time.monotonic() + _PAUSE_S)
        except Exception as error:  # noqa: BLE001 - the consumer raises it
            self.error = error

    def _forget(self, locate_at_s: float) -> None:
        """Begin again by asking where the server is."""
        self._is_reading = False
        self._waiting = WaitingMessages(0, self._max_skew_us)
        self._redo = self._prepared = self._locating = self._sending = self._sent = None
        self.seek_to = None
        self._locate_at_s = locate_at_s

    def _step(self) -> None:
        if not self._is_reading:
            self._start()
            return
        if self._sending is not None and self._sending.done():
            sent, self._sending, self._sent = self._sending, None, None
            self._settle(sent.result())
        if self._prepared is None:
            self._prepared = self._read()
        if self._prepared is not None and self._sending is None:
            self._sent, self._prepared = self._prepared, None
            self._sending = self._executor.submit(self._send, self._sent)

    def _start(self) -> None:
        """Ask the server where to begin, then let the consumer go there."""
        if self._locating is None:
            if time.monotonic() >= self._locate_at_s:
                self._locating = self._executor.submit(self._find)
            return
        if not self._locating.done():
            return
        located, self._locating = self._locating, None
        offset, self._redo = located.result()
        self.next_offset = self.seek_to = offset
        self._waiting = WaitingMessages(offset, self._max_skew_us)
        self._is_reading = True
        if self._redo is None:
            self._settle(offset)

    def _settle(self, next_offset: int) -> None:
        self._moved_at_s = time.monotonic()
        self.next_offset = next_offset
        self.to_commit = (next_offset, self._delivery.history)

    def _read(self) -> ReadRange | None:
        """Cut a piece, and read its rows; None while it is not ripe. O(payloads)."""
        waiting, redo = self._waiting, self._redo
        low_us = waiting.low_us
        if redo is not None:
            # Wait for all of its messages that a compacted topic still has.
            if waiting.read_to < redo.end:
                return None
            self._redo = None
            messages = waiting.cut_before(redo.end)
        else:
            count, is_whole = waiting.piece(self.bound_us)
            # More will not join it soon if those behind it are held back.
            is_due = count < len(waiting) or time.monotonic() - waiting.since_s >= LINGER_S
            if not count or not (is_whole or (self._sending is None and is_due)):
                return None
            messages = waiting.cut(count)
        offsets = redo or PieceRange(messages[0].offset(), messages[-1].offset() + 1)
        piece = read_piece(messages, self._mappings, self._streams, self._max_skew_us)
        return ReadRange(offsets, piece, redo is not None, low_us)

    # --- A worker's thread ----------------------------------------------------------------------

    def _find(self) -> tuple[int, PieceRange | None]:
        """Ask the server, then the brokers, where reading goes on."""
        found = self._delivery.find()
        self._metrics.forget_trouble(SERVER)
        return self._locate(found)

    def _send(self, read: ReadRange) -> int:
        """Make a piece durable: its rows, its dead letters, its offset; return the next offset."""
        piece = read.piece
        if piece.batches or read.is_begun:
            refusals = self._delivery.send(
                read.offsets, piece.batches, piece.mappings, is_begun=read.is_begun
            )
            self._metrics.forget_trouble(SERVER)
            for batch, text in refusals:
                mapping = piece.mappings[batch.stream].stream
                piece.rows[mapping] -= len(batch)
                for place in batch.places:
                    piece.refuse(place, RefusedRow(mapping, STORE, text))
        letters = [
            Letter(piece.messages[place], refused)
            for place, refused in sorted(piece.refused.items())
        ]
        if not self._dead_letters.write(letters, lambda: self._is_closed):
            raise ClosedError("the partition was given up")
        if letters:
            self._metrics.forget_trouble(DEAD_LETTERS)
        self._count(piece, letters)
        return read.offsets.end

    def _count(self, piece: Piece, letters: Sequence[Letter]) -> None:
        metrics = self._metrics
        for mapping, number in piece.rows.items():
            metrics.count_rows(mapping, COUNTED if mapping != NO_MAPPING else IGNORED, number)
        for mapping, number in piece.elsewhere.items():
            metrics.count_rows(mapping, ELSEWHERE, number)
        for letter in letters:
            for each in letter.refused:
                metrics.count_rows(each.mapping, each.reason)
        if self._dead_letters.is_on:
            metrics.count_dead_letters(len(letters))
        metrics.count_messages(self.topic, self.number, len(piece.messages))
