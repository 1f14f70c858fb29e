"""One assigned partition: messages wait here until they are a piece, and the piece is sent.

The consumer's thread polls, cuts pieces and reads them; a worker's thread asks the server where
it is, sends a piece, writes its dead letters, and commits its offset. While one piece is sent,
the next one is read. Nothing here waits, so that the consumer keeps polling while a server is
away: else its group would take the partitions from it.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from streameval.client import ClosedError
from streameval.kafka._dead_letters import Letter
from streameval.kafka._delivery import MovedError
from streameval.kafka._metrics import COUNTED, DEAD_LETTERS, ELSEWHERE, IGNORED, SERVER
from streameval.kafka._piece import NO_MAPPING, RefusedRow, read_piece
from streameval.kafka._piece_range import MAX_PIECE_OFFSETS, PieceRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor, Future

    from confluent_kafka import Message

    from streameval.kafka._dead_letters import DeadLetters
    from streameval.kafka._delivery import Found, PartitionDelivery
    from streameval.kafka._metrics import ConsumerMetrics
    from streameval.kafka._piece import Piece
    from streameval.payloads import PayloadMapping

_log = logging.getLogger(__name__)

MAX_PIECE_MESSAGES = 10_000
MAX_PIECE_BYTES = 8 << 20
LINGER_S = 0.25
"""How long messages wait for others, so that a slow topic is not one piece a message."""

_MAX_WAITING_MESSAGES = 2 * MAX_PIECE_MESSAGES
_PAUSE_S = 1.0
"""Before the server is asked again, after another process was found to have the partition."""

STORE = "store"
"""The reason of a row that was read and that its stream refuses."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A piece that was read, and the offsets that it has."""

    offsets: PieceRange
    piece: Piece
    is_begun: bool


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

    Attributes
    ----------
    next_offset : int or None
        The next message to consume that is not durable; None until it is known.
    seek_to : int or None
        Where the consumer has to go to read on; it sets None once it is there.
    to_commit : tuple of int and int, or None
        The offset of the next message, and the server's history, for the consumer to commit; it
        sets None once it has.
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
    ) -> None:
        self.topic = topic
        self.number = number
        self.next_offset: int | None = None
        self.seek_to: int | None = None
        self.to_commit: tuple[int, int] | None = None
        self.error: BaseException | None = None
        self._delivery = delivery
        self._dead_letters = dead_letters
        self._metrics = metrics
        self._mappings = mappings
        self._streams = streams
        self._executor = executor
        self._locate = locate
        self._is_closed = False
        self._is_reading = False
        self._waiting: list[Message] = []
        self._waiting_bytes = 0
        self._waiting_since_s = 0.0
        self._read_to = 0
        self._redo: PieceRange | None = None
        self._prepared: ReadRange | None = None
        self._locating: Future[tuple[int, PieceRange | None]] | None = None
        self._sending: Future[int] | None = None
        self._locate_at_s = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the consumer should fetch no more of it for now."""
        return (
            not self._is_reading
            or len(self._waiting) >= _MAX_WAITING_MESSAGES
            or self._waiting_bytes >= 2 * MAX_PIECE_BYTES
        )

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
        """Take the next messages; those that were consumed are dropped. O(messages)."""
        if not self._is_reading:
            return
        offsets = [each.offset() for each in messages]
        first = offsets[0]
        # Successive, as a rule; a compacted topic has gaps.
        is_ordered = offsets == list(range(first, first + len(offsets))) or (
            offsets == sorted(set(offsets))
        )
        if first < self._read_to or not is_ordered:
            messages = self._new(messages)
            if not messages:
                return
        if not self._waiting:
            self._waiting_since_s = time.monotonic()
        self._waiting += messages
        self._waiting_bytes += sum(map(len, messages))
        self._read_to = messages[-1].offset() + 1

    def _new(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages that are behind those before them."""
        found, read_to = [], self._read_to
        for each in messages:
            if each.offset() >= read_to:
                found.append(each)
                read_to = each.offset() + 1
        return found

    def end(self, offset: int) -> None:
        """Take note that there is no message below an offset any more."""
        if self._is_reading:
            self._read_to = max(self._read_to, offset)

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
        self._waiting, self._waiting_bytes = [], 0
        self._redo = self._prepared = self._locating = self._sending = None
        self.seek_to = None
        self._locate_at_s = locate_at_s

    def _step(self) -> None:
        if not self._is_reading:
            self._start()
            return
        if self._sending is not None and self._sending.done():
            sent, self._sending = self._sending, None
            self._settle(sent.result())
        if self._prepared is None and self._is_ripe():
            self._prepared = self._read()
        if self._prepared is not None and self._sending is None:
            prepared, self._prepared = self._prepared, None
            self._sending = self._executor.submit(self._send, prepared)

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
        self.next_offset = self._read_to = self.seek_to = offset
        self._is_reading = True
        if self._redo is None:
            self._settle(offset)

    def _settle(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.to_commit = (next_offset, self._delivery.history)

    def _is_ripe(self) -> bool:
        redo = self._redo
        if redo is not None:
            # All of its messages, those that a compacted topic still has.
            return self._read_to >= redo.end
        return bool(self._waiting) and (
            len(self._waiting) >= MAX_PIECE_MESSAGES
            or self._waiting_bytes >= MAX_PIECE_BYTES
            or (self._sending is None and time.monotonic() - self._waiting_since_s >= LINGER_S)
        )

    def _read(self) -> ReadRange | None:
        """Cut a piece, and read its rows. O(payloads)."""
        redo, self._redo = self._redo, None
        count = self._cut(redo)
        messages, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_bytes -= sum(map(len, messages))
        self._waiting_since_s = time.monotonic()
        if redo is not None:
            return ReadRange(
                redo, read_piece(messages, self._mappings, self._streams), is_begun=True
            )
        offsets = PieceRange(messages[0].offset(), messages[-1].offset() + 1)
        return ReadRange(
            offsets, read_piece(messages, self._mappings, self._streams), is_begun=False
        )

    def _cut(self, redo: PieceRange | None) -> int:
        """Return how many of the messages that wait are the next piece."""
        waiting = self._waiting
        if redo is not None:
            return sum(each.offset() < redo.end for each in waiting)
        waiting = waiting[:MAX_PIECE_MESSAGES]
        offsets = [each.offset() for each in waiting]
        sizes = list(accumulate(map(len, waiting)))
        last = offsets[0] + MAX_PIECE_OFFSETS
        return max(1, min(bisect_left(offsets, last), bisect_right(sizes, MAX_PIECE_BYTES)))

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
