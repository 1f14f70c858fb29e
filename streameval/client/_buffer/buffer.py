"""What callers have added and the sender has not yet taken: bounded, quick to append to.

One lock guards all of it, held for an append or for a swap, never while
anything is converted or sent. The buffer is taken whole and split afterwards
(removing its head would cost O(rest) each time). Where rows of a kind come one
after the other, so many may be added without the lock (`_open`), until somebody
takes them, or needs their room, or their stamp is too old.

The bound is on rows *accepted and not settled*: those here, those queued and
those sent but not acknowledged. When it is reached, the newest rows are dropped
and counted, or their caller waits. Rows that may be added without the lock have
their room; threads that add the last of them at once may each exceed it by one.

Whoever sends asks `arm` how long to wait for more, and is woken by `wake`: in a
thread (`wait`) or however it likes.

Cost: about 500 ns a row under the lock, a few ns a row in columns (bench/client.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from streameval.client._buffer.clock import SHARED_S, clock_ns
from streameval.client._buffer.id_columns import IdRows
from streameval.client._buffer.stream_buffer import StreamBuffer
from streameval.client._buffer.ticker import Ticker
from streameval.client._errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client._buffer.columns import CaseRows, MissRows, Rows
    from streameval.client._buffer.runs import Pairs
    from streameval.client._buffer.stream_buffer import UnlockedRows

WhenFull = Literal["drop", "block"]

# Above every number of rows: "do not wake".
_NEVER = 1 << 62

_UNSEEN = 512
"""So many rows, of one kind and stream."""


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
        Called under the lock when the first row comes, and with each one after
        it until it returns True.
    wake : callable, optional
        Called under the lock when the sender is to look again, if it does not
        wait in `wait`.
    unseen : int
        So many rows of a stream may be added without the lock; 0 for no thread.
    """

    def __init__(
        self,
        *,
        capacity: int,
        batch_rows: int,
        when_full: WhenFull,
        start: Callable[[], bool],
        wake: Callable[[], None] | None = None,
        unseen: int = _UNSEEN,
    ) -> None:
        self._capacity = capacity
        self._batch_rows = batch_rows
        self._when_full = when_full
        self._start = start
        self._on_wake = wake
        self._unseen = unseen
        self._lanes: dict[str, StreamBuffer] = {}
        self.reset()

    def reset(self) -> None:
        """Start again, empty, with a lock of its own: also in a forked child."""
        for lane in self._lanes.values():
            lane.clear()
        self._started = False
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._space = threading.Condition(self.lock)
        self._taken = 0
        # What may be added to without the lock, and how many rows that are.
        self._open: dict[UnlockedRows, None] = {}
        self._allowed = 0
        self._ticker = Ticker(self.lock, self._close_all, SHARED_S)
        self.accepted = 0
        """Rows accepted since the start, but for those that nobody has seen: `look` first."""
        self.dropped = 0
        """Rows that were not accepted because the buffer was full."""
        self.limit = self._capacity
        """`accepted` must not exceed this: the settled rows and the capacity."""
        self.wake_at = 1
        """The sender is to be woken when `accepted` reaches this."""
        self._closed: str | None = None
        self._discarding = False

    def lane(self, stream: str) -> StreamBuffer:
        """Return the stream's lane, which is made on first use."""
        with self.lock:
            return self._lanes.setdefault(stream, StreamBuffer(stream))

    def add_case(self, lane: StreamBuffer, positive: bool, score: float) -> None:
        """Append one checked case, where `open_cases` does not allow it without the lock."""
        with self.lock:
            if lane.open_cases.rows:
                self._close(lane.open_cases)
            if self.accepted + self._allowed >= self.limit and not self._make_room(1):
                return
            run = lane.cases
            now_ns = clock_ns()
            if now_ns >= run.until_ns:
                run.until_ns = run.marks.plain(len(run.scores), now_ns)
            run.positives.append(positive)
            run.scores.append(score)
            self._accept(1)
            if lane.open_cases.is_brisk(lane.stamps.at(now_ns)):
                self._let(lane.open_cases)

    def add_dated_case(
        self, lane: StreamBuffer, positive: bool, score: float, time_us: int | None, segments: Pairs
    ) -> None:
        """Append one checked case with a time or segments of its own."""
        with self.lock:
            if self.accepted + self._allowed >= self.limit and not self._make_room(1):
                return
            run = lane.cases
            run.marks.own(len(run.scores), time_us, segments)
            run.until_ns = 0
            run.positives.append(positive)
            run.scores.append(score)
            self._accept(1)

    def add_id(self, lane: StreamBuffer, id_: str, code: int, score: float) -> None:
        """Append what is done to an id, without saying when, as `add_case`.

        Parameters
        ----------
        code
            What is done: `PREDICTED`, `RETRACTED` or from `labelled`.
        score
            0 where there is none.
        """
        with self.lock:
            if lane.open_ids.rows:
                self._close(lane.open_ids)
            if self.accepted + self._allowed >= self.limit and not self._make_room(1):
                return
            run = lane.ids
            now_ns = clock_ns()
            if now_ns >= run.until_ns:
                run.until_ns = run.marks.plain(len(run.ids), now_ns)
            run.ids.append(id_)
            run.codes.append(code)
            run.scores.append(score)
            self._accept(1)
            if lane.open_ids.is_brisk(lane.stamps.at(now_ns)):
                self._let(lane.open_ids)

    def add_dated_id(
        self,
        lane: StreamBuffer,
        id_: str,
        code: int,
        score: float,
        *,
        time_us: int | None,
        segments: Pairs,
    ) -> None:
        """Append what is done to an id, with a time or segments of its own."""
        with self.lock:
            if lane.open_ids.rows:
                self._close(lane.open_ids)
            if self.accepted + self._allowed >= self.limit and not self._make_room(1):
                return
            run = lane.ids
            run.marks.own(len(run.ids), time_us, segments)
            run.until_ns = 0
            run.ids.append(id_)
            run.codes.append(code)
            run.scores.append(score)
            self._accept(1)

    def add_rows(self, lane: StreamBuffer, rows: CaseRows | IdRows | MissRows) -> None:
        """Append checked rows, as many of them as there is room for. O(1)."""
        rest: CaseRows | IdRows | MissRows | None = rows
        with self.lock:
            if lane.open_ids.rows and isinstance(rows, IdRows):
                self._close(lane.open_ids)
            while rest is not None and rest.size:
                if self.accepted + self._allowed >= self.limit and not self._make_room(rest.size):
                    return
                head, rest = rest.cut(self.limit - self.accepted - self._allowed)
                lane.append(head)
                self._accept(head.size)

    def look_at(self, rows: UnlockedRows) -> None:
        """Take note of a row that was added without the lock when that was no longer allowed."""
        with self.lock:
            if self.limit >= 0:
                self._close(rows)
                return
            dropped = rows.drop()
            if self._closed is not None:
                raise ClosedError(self._closed)
            self.dropped += dropped

    def look(self) -> None:
        """Take note of everything that was added. O(rows since the last time)."""
        with self.lock:
            self._close_all()

    # --- Under the lock -------------------------------------------------------------------------

    def _accept(self, rows: int) -> None:
        self.accepted += rows
        if self.accepted >= self.wake_at:
            self._wake()

    def _let(self, rows: UnlockedRows) -> None:
        """Let rows be added without the lock: fewer than what the sender waits for."""
        accepted = self.accepted + self._allowed
        unseen = min(self._unseen, self.limit - accepted, self.wake_at - accepted - 1)
        if unseen > 1 and self._ticker.start():
            rows.allow(unseen)
            self._allowed += rows.rows
            self._open[rows] = None

    def _close(self, rows: UnlockedRows) -> None:
        """Let no more be added without the lock, and take what was."""
        added = rows.take()
        if added:
            self._accept(added)
        # Last: what interrupts this leaves it to whoever looks next.
        allowed, rows.rows = rows.rows, 0
        self._allowed -= allowed
        self._open.pop(rows, None)

    def _close_all(self) -> bool:
        """Let nothing more be added without the lock; return whether anything could be."""
        was_open = list(self._open)
        for rows in was_open:
            self._close(rows)
        return bool(was_open)

    def _make_room(self, rows: int) -> bool:
        """Wait for room if that was asked for, or count rows as dropped."""
        self._close_all()
        while self.accepted >= self.limit:
            if self._closed is not None:
                raise ClosedError(self._closed)
            if self._discarding or self._when_full == "drop":
                self.dropped += rows
                return False
            self._wake()
            self._space.wait()
            self._close_all()
        return True

    def _wake(self) -> None:
        self.wake_at = _NEVER
        if not self._started and self.accepted:
            self._started = self._start()
            if not self._started:
                self.wake_at = self.accepted + 1
        self._changed.notify_all()
        if self._on_wake is not None:
            self._on_wake()

    def wake(self) -> None:
        """Wake whoever sends, so that it looks again."""
        with self.lock:
            self._wake()

    def arm(self, linger_s: float) -> float | None:
        """Return how long to wait for more rows; None until `wake`. Under the lock.

        Whoever asked is woken when there are rows, or enough for a batch.
        """
        self._close_all()
        if self.accepted == self._taken:
            self.wake_at = self._taken + 1
            return None
        self.wake_at = self._taken + self._batch_rows
        return linger_s if self.accepted < self.wake_at else 0.0

    def wait(self, ready: Callable[[], bool], *, linger_s: float) -> None:
        """Wait until `ready()`, or rows are here and are a batch or have waited `linger_s`."""
        with self.lock:
            while not ready():
                patience_s = self.arm(linger_s)
                if patience_s is None:
                    self._changed.wait()
                    continue
                if patience_s:
                    self._changed.wait(patience_s)
                break

    def has_rows(self) -> bool:
        """Whether there is anything to take that was seen; read without the lock, so a hint."""
        return self.accepted > self._taken

    def take(self) -> list[Rows]:
        """Take everything that is here: mostly O(streams) under the lock, O(rows) after it."""
        with self.lock:
            self._close_all()
            if self.accepted == self._taken:
                return []
            self._taken = self.accepted
            taken = [lane.swap() for lane in self._lanes.values()]
        return [rows for lane in taken if lane is not None for rows in lane.rows()]

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
            self._close_all()
            self._closed, self._discarding = closed or self._closed, True
            self.limit = -1
            self._space.notify_all()
            self._wake()
