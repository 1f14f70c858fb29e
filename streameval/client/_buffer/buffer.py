"""Rows that callers have added and the sender has not drained: bounded, cheap to append to.

One lock guards the buffer. It is held for an append or a swap, never while rows are
converted or sent. All rows are drained at once and split afterwards, because removing
the head of a list costs O(rest).

A row is packed and stamped before the lock is taken, and appended by `+=`. CPython switches
threads, and raises KeyboardInterrupt, where a function is called; without calls under the
lock it does neither there. So threads that add seldom find the lock taken (with calls they
took 1.5x to 2x as long), and an interrupted call adds its row or nothing.

The bound is on rows *accepted and not settled*: those in the buffer, those queued and
those sent but not acknowledged. When it is reached, new rows are dropped and counted, or
their caller waits.

The sender calls `arm` to learn how long to wait for more rows; it is woken through
`wake`, or waits in `wait` if it is a thread.

Cost: about 670 ns a row, a few ns a row in columns (bench/client.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from streameval.client._buffer import clock
from streameval.client._buffer.single_rows import pack_row
from streameval.client._buffer.stream_buffer import StreamBuffer
from streameval.client._errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client._buffer.columns import BufferedCases, BufferedMisses, Rows
    from streameval.client._buffer.id_columns import IdRows
    from streameval.client._buffer.segments import SegmentSet
    from streameval.client._buffer.single_rows import Sampling

WhenFull = Literal["drop", "block"]

_NEVER = 1 << 62
"""Above every number of rows: do not wake the sender."""


class Buffer:
    """The buffers of all streams, with one bound over them.

    Parameters
    ----------
    capacity : int
        Maximum number of rows accepted and not settled.
    batch_rows : int
        A sender that waits for more rows is woken at this number; also an attribute.
    when_full : {"drop", "block"}
        Whether rows beyond the capacity are dropped, or their caller waits.
    start : callable
        Starts the sender. Called under the lock at the first row, and again at each
        further row until it returns True.
    wake : callable, optional
        Called under the lock to wake a sender that does not wait in `wait`.
    clock_ns : callable, optional
        The clock of the rows' stamps; by default `clock.clock_ns`.
    """

    def __init__(
        self,
        *,
        capacity: int,
        batch_rows: int,
        when_full: WhenFull,
        start: Callable[[], bool],
        wake: Callable[[], None] | None = None,
        clock_ns: Callable[[], int] | None = None,
    ) -> None:
        self.clock_ns = clock_ns or clock.clock_ns
        self._capacity = capacity
        self.batch_rows = batch_rows
        self._when_full = when_full
        self._start = start
        self._on_wake = wake
        self._streams: dict[str, StreamBuffer] = {}
        self.reset()

    def reset(self) -> None:
        """Drop all rows and replace the lock, as a forked child must."""
        for stream in self._streams.values():
            stream.clear()
        self._started = False
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._space = threading.Condition(self.lock)
        self._drained = 0
        self.accepted = 0
        """Rows accepted since the start."""
        self.dropped = 0
        """Rows that were dropped because the buffer was full."""
        self.limit = self._capacity
        """Largest allowed `accepted`: the settled rows plus the capacity; -1 once stopped."""
        self.wake_at = 1
        """The sender is woken when `accepted` reaches this."""
        self._closed: str | None = None
        self._discarding = False

    def stream_buffer(self, stream: str) -> StreamBuffer:
        """Return a stream's buffer; it is created on first use."""
        with self.lock:
            return self._streams.setdefault(stream, StreamBuffer(stream, self.clock_ns))

    def add_case(  # noqa: PLR0917 - keywords cost every call 20 ns
        self,
        stream: StreamBuffer,
        positive: bool,
        score: float,
        time_us: int | None = None,
        segments: SegmentSet | None = None,
        sampling: Sampling | None = None,
        value: bytes = b"",
    ) -> None:
        """Append one checked case.

        Parameters
        ----------
        sampling, value
            Whether the case has a weight or a cluster, and its units or checksum as an int64.
        """
        row = pack_row(score, positive)
        if time_us is None:
            time_us = stream.stamps.now()
        with self.lock:
            if self.accepted >= self.limit and not self._make_room(1):
                return
            if sampling is not None:
                run = stream.sampled_run(sampling, has_segments=segments is not None)
            else:
                run = stream.cases if segments is None else stream.segmented_cases
            if time_us != run.time_us:
                run.mark(time_us)
            if segments is not None:
                run.sets += (segments,)
            if value:
                run.values += value
            run.rows += row
            self.accepted += 1
            if self.accepted >= self.wake_at:
                self._wake()

    def add_id(  # noqa: PLR0917 - as in add_case
        self,
        stream: StreamBuffer,
        id_: str,
        code: int,
        score: float,
        time_us: int | None = None,
        segments: SegmentSet | None = None,
        value: int | None = None,
    ) -> None:
        """Append one checked row by id.

        Parameters
        ----------
        code
            `PREDICTION_CODE`, `RETRACTION_CODE` or a `label_code`.
        score
            0 for a row without a score.
        value
            The units of a label's weight, or the checksum of a prediction's cluster.
        """
        row = pack_row(score, code)
        if time_us is None:
            time_us = stream.stamps.now()
        with self.lock:
            if self.accepted >= self.limit and not self._make_room(1):
                return
            run = stream.ids
            if time_us != run.time_us:
                run.mark(time_us)
            if segments is not None:
                run.sets[len(run.ids)] = segments
            if value is not None:
                run.values[len(run.ids)] = value
            run.ids += (id_,)
            run.rows += row
            self.accepted += 1
            if self.accepted >= self.wake_at:
                self._wake()

    def add_rows(self, stream: StreamBuffer, rows: BufferedCases | IdRows | BufferedMisses) -> None:
        """Append checked rows as far as there is room for them. O(1)."""
        rest: BufferedCases | IdRows | BufferedMisses | None = rows
        with self.lock:
            while rest is not None and rest.size:
                if self.accepted >= self.limit and not self._make_room(rest.size):
                    return
                head, rest = rest.cut(self.limit - self.accepted)
                stream.append(head)
                self.accepted += head.size
                if self.accepted >= self.wake_at:
                    self._wake()

    # --- Under the lock -------------------------------------------------------------------------

    def _make_room(self, rows: int) -> bool:
        """Return whether there is room: wait for it if configured, else count rows as dropped."""
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
        """Wake the sender."""
        with self.lock:
            self._wake()

    def arm(self, linger_s: float) -> float | None:
        """Return how long to wait for more rows; None means until `wake`. Under the lock.

        The sender is woken at the first row if the buffer is empty, else at a full batch.
        """
        if self.accepted == self._drained:
            self.wake_at = self._drained + 1
            return None
        self.wake_at = self._drained + self.batch_rows
        return linger_s if self.accepted < self.wake_at else 0.0

    def wait(self, ready: Callable[[], bool], *, linger_s: float) -> None:
        """Wait until `ready()`, or for a full batch, or `linger_s` once there are rows."""
        with self.lock:
            while not ready():
                timeout_s = self.arm(linger_s)
                if timeout_s is None:
                    self._changed.wait()
                    continue
                if timeout_s:
                    self._changed.wait(timeout_s)
                break

    def has_rows(self) -> bool:
        """Return whether there are accepted rows; a hint, because it is read without the lock."""
        return self.accepted > self._drained

    @property
    def is_full(self) -> bool:
        """Whether further rows are dropped or wait; a hint, as it is read without the lock."""
        return 0 <= self.limit <= self.accepted

    def take(self) -> list[Rows]:
        """Drain all rows: O(streams) under the lock, then O(rows)."""
        with self.lock:
            if self.accepted == self._drained:
                return []
            self._drained = self.accepted
            drained = [stream.drain() for stream in self._streams.values()]
        return [rows for stream in drained if stream is not None for rows in stream.rows()]

    def settled(self, rows: int) -> None:
        """Set how many rows are settled since the start: durable, refused or dropped."""
        with self.lock:
            if self._closed is None and not self._discarding:
                self.limit = rows + self._capacity
                self._space.notify_all()

    def discard(self) -> None:
        """Stop accepting rows; further rows are dropped and counted."""
        self._stop(closed=None)

    def close(self, message: str) -> None:
        """Stop accepting rows; adding one raises ClosedError with `message`."""
        self._stop(closed=message)

    def _stop(self, *, closed: str | None) -> None:
        with self.lock:
            self._closed, self._discarding = closed or self._closed, True
            self.limit = -1
            self._space.notify_all()
            self._wake()
