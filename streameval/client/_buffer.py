"""What callers have added and the sender has not yet taken: bounded, quick to append to.

One lock guards all of it, held for an append or for a swap, never while
anything is converted or sent. The buffer is taken whole and split afterwards
(removing its head would cost O(rest) each time).

The bound is on rows *accepted and not settled*: those here, those queued and
those sent but not acknowledged. When it is reached, the newest rows are dropped
and counted, or their caller waits.

Cost: about 300 ns a case one by one, a few ns in columns (bench/client.py).
"""

from __future__ import annotations

import threading
from array import array
from typing import TYPE_CHECKING, Literal

import numpy as np

from streameval.client._errors import ClosedError
from streameval.client._rows import CaseRows, Rows, joined

if TYPE_CHECKING:
    from collections.abc import Callable

WhenFull = Literal["drop", "block"]

# Above every number of rows: "do not wake".
_NEVER = 1 << 62


class Lane:
    """What was added for one stream and not yet taken."""

    __slots__ = ("pieces", "positives", "scores", "stream")

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.positives = bytearray()
        self.scores = array("d")
        self.pieces: list[Rows] = []

    def swap(self) -> list[Rows]:
        """Return what is here, and start empty. O(1)."""
        pieces = self.pieces
        if self.scores:
            positives = np.frombuffer(self.positives, np.bool_)
            scores = np.frombuffer(self.scores, np.float64)
            pieces.append(CaseRows(self.stream, positives, scores))
        self.positives, self.scores, self.pieces = bytearray(), array("d"), []
        return pieces


class Buffer:
    """The lanes of all streams, with one bound over them.

    Parameters
    ----------
    capacity : int
        Rows accepted and not settled, at most.
    batch_rows : int
        A sender that waits for more is woken when so many are here.
    when_full : {"drop", "block"}
        What happens to rows beyond the capacity.
    start : callable
        Called once, under the lock, when the first row comes.
    """

    def __init__(
        self, *, capacity: int, batch_rows: int, when_full: WhenFull, start: Callable[[], None]
    ) -> None:
        self._capacity = capacity
        self._batch_rows = batch_rows
        self._when_full = when_full
        self._start = start
        self._lanes: dict[str, Lane] = {}
        self.reset()

    def reset(self) -> None:
        """Start again, empty, with a lock of its own: also in a forked child."""
        for lane in self._lanes.values():
            lane.swap()
        self._started = False
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._space = threading.Condition(self.lock)
        self._taken = 0
        self.accepted = 0
        """Rows accepted since the start."""
        self.dropped = 0
        """Rows that were not accepted because the buffer was full."""
        self.limit = self._capacity
        """`accepted` must not exceed this: the settled rows and the capacity."""
        self.wake_at = 1
        """The sender is to be woken when `accepted` reaches this."""
        self._closed: str | None = None
        self._discarding = False

    def lane(self, stream: str) -> Lane:
        """Return the stream's lane, which is made on first use."""
        with self.lock:
            return self._lanes.setdefault(stream, Lane(stream))

    def add_case(self, lane: Lane, positive: bool, score: float) -> None:
        """Append one checked case."""
        with self.lock:
            accepted = self.accepted
            if accepted >= self.limit and not self._make_room():
                self.dropped += 1
                return
            lane.positives.append(positive)
            lane.scores.append(score)
            self.accepted = accepted = self.accepted + 1
            if accepted >= self.wake_at:
                self._wake()

    def add_rows(self, lane: Lane, rows: Rows) -> None:
        """Append checked rows, as many of them as there is room for. O(1)."""
        rest: Rows | None = rows
        with self.lock:
            while rest is not None and rest.size:
                if self.accepted >= self.limit and not self._make_room():
                    self.dropped += rest.size
                    return
                head, rest = rest.split(self.limit - self.accepted, _NEVER)
                lane.pieces.append(head)
                self.accepted += head.size
                if self.accepted >= self.wake_at:
                    self._wake()

    def _make_room(self) -> bool:
        """Wait for room if that was asked for; whether there is any. Under the lock."""
        while self.accepted >= self.limit:
            if self._closed is not None:
                raise ClosedError(self._closed)
            if self._discarding or self._when_full == "drop":
                return False
            self._wake()
            self._space.wait()
        return True

    def _wake(self) -> None:
        self.wake_at = _NEVER
        if not self._started and self.accepted:
            self._started = True
            self._start()
        self._changed.notify_all()

    def wake(self) -> None:
        """Wake whoever waits in `wait`, so that it looks again."""
        with self.lock:
            self._wake()

    def wait(self, ready: Callable[[], bool], *, linger_s: float) -> None:
        """Wait until `ready()`, or rows are here and are a batch or have waited `linger_s`."""
        with self.lock:
            while not ready():
                if self.accepted > self._taken:
                    self.wake_at = self._taken + self._batch_rows
                    if self.accepted < self.wake_at:
                        self._changed.wait(linger_s)
                    break
                self.wake_at = self._taken + 1
                self._changed.wait()

    def has_rows(self) -> bool:
        """Whether there is anything to take; read without the lock, so a hint."""
        return self.accepted > self._taken

    def take(self) -> list[Rows]:
        """Take everything that is here: O(streams) under the lock, O(rows) after it."""
        with self.lock:
            if self.accepted == self._taken:
                return []
            self._taken = self.accepted
            taken = [lane.swap() for lane in self._lanes.values() if lane.scores or lane.pieces]
        return [rows for pieces in taken for rows in joined(pieces)]

    def settled(self, rows: int) -> None:
        """Say how many rows are settled since the start: durable, refused or dropped."""
        with self.lock:
            if self._closed is None and not self._discarding:
                self.limit = rows + self._capacity
                self._space.notify_all()

    def discard(self) -> None:
        """Accept nothing more; what comes is dropped and counted."""
        self._stop(closed=None)

    def close(self, message: str) -> None:
        """Accept nothing more; who adds is told so."""
        self._stop(closed=message)

    def _stop(self, *, closed: str | None) -> None:
        with self.lock:
            self._closed, self._discarding = closed or self._closed, True
            self.limit = -1
            self._space.notify_all()
            self._wake()
