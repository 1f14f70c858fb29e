"""What callers have added and the sender has not yet taken: bounded, quick to append to.

One lock guards all of it, held for an append or for a swap, never while
anything is converted or sent. The buffer is taken whole and split afterwards
(removing its head would cost O(rest) each time).

The bound is on rows *accepted and not settled*: those here, those queued and
those sent but not acknowledged. When it is reached, the newest rows are dropped
and counted, or their caller waits.

Whoever sends asks `arm` how long to wait for more, and is woken by `wake`: in a
thread (`wait`) or however it likes.

Cost: about 300 ns a case one by one, a few ns in columns (bench/client.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from streameval.client._clock import SHARED_S, clock_ns
from streameval.client._errors import ClosedError
from streameval.client._lane import Lane
from streameval.client._runs import PREDICTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client._id_rows import IdRows
    from streameval.client._rows import CaseRows, MissRows, Rows
    from streameval.client._runs import Pairs

WhenFull = Literal["drop", "block"]

# Above every number of rows: "do not wake".
_NEVER = 1 << 62


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
    """

    def __init__(
        self,
        *,
        capacity: int,
        batch_rows: int,
        when_full: WhenFull,
        start: Callable[[], bool],
        wake: Callable[[], None] | None = None,
    ) -> None:
        self._capacity = capacity
        self._batch_rows = batch_rows
        self._when_full = when_full
        self._start = start
        self._on_wake = wake
        self._lanes: dict[str, Lane] = {}
        self.reset()

    def reset(self) -> None:
        """Start again, empty, with a lock of its own: also in a forked child."""
        for lane in self._lanes.values():
            lane.clear()
        self._started = False
        self.lock = threading.Lock()
        # For what is called most: to enter a lock by `with` takes twice as long.
        self._acquire, self._release = self.lock.acquire, self.lock.release
        self._changed = threading.Condition(self.lock)
        self._space = threading.Condition(self.lock)
        self._taken = 0
        # Whoever sends takes what is here before a stamp is too old: no need to look at a clock.
        self._taken_soon = False
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
        self._acquire()
        try:
            if self.accepted >= self.limit and not self._make_room(1):
                return
            run = lane.cases
            if not (self._taken_soon and run.until_ns):
                now_ns = clock_ns()
                if now_ns >= run.until_ns:
                    run.until_ns = run.marks.plain(len(run.scores), now_ns)
            run.positives.append(positive)
            run.scores.append(score)
            self.accepted = accepted = self.accepted + 1
            if accepted >= self.wake_at:
                self._wake()
        finally:
            self._release()

    def add_dated_case(
        self, lane: Lane, positive: bool, score: float, time_us: int | None, segments: Pairs
    ) -> None:
        """Append one checked case with a time or segments of its own."""
        with self.lock:
            if self.accepted >= self.limit and not self._make_room(1):
                return
            run = lane.cases
            run.marks.own(len(run.scores), time_us, segments)
            run.until_ns = 0
            run.positives.append(positive)
            run.scores.append(score)
            self._accept(1)

    def add_prediction(self, lane: Lane, id_: str, score: float) -> None:
        """Append one checked prediction."""
        self._acquire()
        try:
            if self.accepted >= self.limit and not self._make_room(1):
                return
            run = lane.ids
            if not (self._taken_soon and run.until_ns):
                now_ns = clock_ns()
                if now_ns >= run.until_ns:
                    run.until_ns = run.marks.plain(len(run.ids), now_ns)
            run.ids.append(id_)
            run.codes.append(PREDICTED)
            run.scores.append(score)
            self.accepted = accepted = self.accepted + 1
            if accepted >= self.wake_at:
                self._wake()
        finally:
            self._release()

    def add_id(
        self,
        lane: Lane,
        code: int,
        id_: str,
        score: float = 0.0,
        mark: tuple[int | None, Pairs] | None = None,
    ) -> None:
        """Append what is done to an id.

        Parameters
        ----------
        code
            What is done: `PREDICTED`, `RETRACTED` or from `labelled`.
        score
            Where there is one.
        mark
            Its time and segments, if the code says that there are any.
        """
        with self.lock:
            if self.accepted >= self.limit and not self._make_room(1):
                return
            run = lane.ids
            if mark is not None:
                run.marks.own(len(run.ids), *mark)
                run.until_ns = 0
            run.ids.append(id_)
            run.codes.append(code)
            run.scores.append(score)
            self._accept(1)

    def add_rows(self, lane: Lane, rows: CaseRows | IdRows | MissRows) -> None:
        """Append checked rows, as many of them as there is room for. O(1)."""
        rest: CaseRows | IdRows | MissRows | None = rows
        with self.lock:
            while rest is not None and rest.size:
                if self.accepted >= self.limit and not self._make_room(rest.size):
                    return
                head, rest = rest.cut(self.limit - self.accepted)
                lane.append(head)
                self._accept(head.size)

    def _accept(self, rows: int) -> None:
        self.accepted += rows
        if self.accepted >= self.wake_at:
            self._wake()

    def _make_room(self, rows: int) -> bool:
        """Wait for room if that was asked for, or count rows as dropped. Under the lock."""
        while self.accepted >= self.limit:
            if self._closed is not None:
                raise ClosedError(self._closed)
            if self._discarding or self._when_full == "drop":
                self.dropped += rows
                return False
            self._wake()
            self._space.wait()
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
                    self._taken_soon = patience_s <= SHARED_S
                    self._changed.wait(patience_s)
                    self._taken_soon = False
                break

    def has_rows(self) -> bool:
        """Whether there is anything to take; read without the lock, so a hint."""
        return self.accepted > self._taken

    def take(self) -> list[Rows]:
        """Take everything that is here: O(streams) under the lock, O(rows) after it."""
        with self.lock:
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
            self._closed, self._discarding = closed or self._closed, True
            self.limit = -1
            self._space.notify_all()
            self._wake()
