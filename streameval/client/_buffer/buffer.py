"""Rows that callers have added and the sender has not drained: bounded, cheap to append to.

One lock guards the buffer. It is held for an append or a swap, never while rows are
converted or sent. All rows are drained at once and split afterwards, because removing
the head of a list costs O(rest). Where rows of a stream and kind arrive in bursts, the
buffer grants a number of them without the lock (`unlocked_rows` explains the lock-free
appends), until the sender drains them, another row needs their room, or their stamp is
too old.

The bound is on rows *accepted and not settled*: those in the buffer, those queued and
those sent but not acknowledged. When it is reached, new rows are dropped and counted, or
their caller waits. A grant reserves its room.

The sender calls `arm` to learn how long to wait for more rows; it is woken through
`wake`, or waits in `wait` if it is a thread.

Cost: about 500 ns a row under the lock, a few ns a row in columns (bench/client.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from streameval.client._buffer import clock
from streameval.client._buffer.id_columns import IdRows
from streameval.client._buffer.runs import STAMP_INTERVAL_S
from streameval.client._buffer.stream_buffer import StreamBuffer
from streameval.client._buffer.ticker import Ticker
from streameval.client._errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._row_codec.segments import SegmentPairs
    from streameval.client._buffer.columns import CaseRows, MissRows, Rows
    from streameval.client._buffer.runs import Sampling
    from streameval.client._buffer.segments import SegmentSet
    from streameval.client._buffer.unlocked_rows import UnlockedRows

WhenFull = Literal["drop", "block"]

_NEVER = 1 << 62
"""Above every number of rows: do not wake the sender."""

_MAX_UNLOCKED_ROWS = 512
"""Largest grant, in rows of one kind and stream."""


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
    max_unlocked_rows : int
        Largest grant of rows without the lock; 0 grants none, and starts no thread.
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
        max_unlocked_rows: int = _MAX_UNLOCKED_ROWS,
        clock_ns: Callable[[], int] | None = None,
    ) -> None:
        self.clock_ns = clock_ns or clock.clock_ns
        self._capacity = capacity
        self.batch_rows = batch_rows
        self._when_full = when_full
        self._start = start
        self._on_wake = wake
        self._max_unlocked_rows = max_unlocked_rows
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
        # The current grants, and the sum of their rows.
        self._grants: dict[UnlockedRows, None] = {}
        self._granted = 0
        # Ends grants when their stamp is too old.
        self._ticker = Ticker(self.lock, self._revoke_all, STAMP_INTERVAL_S)
        self.accepted = 0
        """Rows accepted since the start; `collect_unlocked` adds the rows of current grants."""
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

    def add_case(self, stream: StreamBuffer, positive: bool, score: float) -> None:
        """Append one checked case for which `unlocked_cases` has no grant."""
        with self.lock:
            if stream.unlocked_cases.granted:
                self._revoke(stream.unlocked_cases)
            if self.accepted + self._granted >= self.limit and not self._make_room(1):
                return
            run = stream.cases
            now_ns = self.clock_ns()
            if now_ns >= run.until_ns:
                run.until_ns = run.marks.mark_now(len(run.scores), now_ns)
            run.positives.append(positive)
            run.scores.append(score)
            self._accept(1)
            if stream.unlocked_cases.count_locked_row(stream.stamps.at(now_ns)):
                self._grant(stream.unlocked_cases)

    def add_segmented_case(
        self, stream: StreamBuffer, positive: bool, score: float, segments: SegmentSet
    ) -> None:
        """Append one checked case for which `unlocked_segmented_cases` has no grant."""
        with self.lock:
            if stream.unlocked_segmented_cases.granted:
                self._revoke(stream.unlocked_segmented_cases)
            if self.accepted + self._granted >= self.limit and not self._make_room(1):
                return
            run = stream.segmented_cases
            now_ns = self.clock_ns()
            if now_ns >= run.until_ns:
                run.until_ns = run.marks.mark_now(len(run.sets), now_ns)
            run.sets.append(segments)
            run.positives.append(positive)
            run.scores.append(score)
            self._accept(1)
            if stream.unlocked_segmented_cases.count_locked_row(stream.stamps.at(now_ns)):
                self._grant(stream.unlocked_segmented_cases)

    def add_dated_case(
        self,
        stream: StreamBuffer,
        positive: bool,
        score: float,
        time_us: int | None,
        segments: SegmentPairs,
    ) -> None:
        """Append one checked case that has a time or segments of its own."""
        with self.lock:
            if self.accepted + self._granted >= self.limit and not self._make_room(1):
                return
            run = stream.cases
            run.marks.mark_row(len(run.scores), time_us, segments)
            run.until_ns = 0
            run.positives.append(positive)
            run.scores.append(score)
            self._accept(1)

    def add_sampled_case(
        self,
        stream: StreamBuffer,
        positive: bool,
        score: float,
        time_us: int | None,
        segments: SegmentPairs,
        *,
        sampling: Sampling,
        value: int,
    ) -> None:
        """Append one checked case with a weight in units, or with a cluster's checksum."""
        with self.lock:
            if self.accepted + self._granted >= self.limit and not self._make_room(1):
                return
            run = stream.sampled_run(sampling)
            run.marks.mark_row(len(run.scores), time_us, segments)
            run.values.append(value)
            run.positives.append(positive)
            run.scores.append(score)
            self._accept(1)

    def add_id(self, stream: StreamBuffer, id_: str, code: int, score: float) -> None:
        """Append one checked row by id for which `unlocked_ids` has no grant.

        Parameters
        ----------
        code
            `PREDICTION_CODE`, `RETRACTION_CODE` or a `label_code`.
        score
            0 for a row without a score.
        """
        with self.lock:
            if stream.unlocked_ids.granted:
                self._revoke(stream.unlocked_ids)
            if self.accepted + self._granted >= self.limit and not self._make_room(1):
                return
            run = stream.ids
            now_ns = self.clock_ns()
            if now_ns >= run.until_ns:
                run.until_ns = run.marks.mark_now(len(run.ids), now_ns)
            run.ids.append(id_)
            run.codes.append(code)
            run.scores.append(score)
            self._accept(1)
            if stream.unlocked_ids.count_locked_row(stream.stamps.at(now_ns)):
                self._grant(stream.unlocked_ids)

    def add_dated_id(
        self,
        stream: StreamBuffer,
        id_: str,
        code: int,
        score: float,
        *,
        time_us: int | None,
        segments: SegmentPairs,
        value: int | None = None,
    ) -> None:
        """Append one checked row by id that has columns of its own.

        Parameters
        ----------
        value
            The units of a label's weight, or the checksum of a prediction's cluster.
        """
        with self.lock:
            if stream.unlocked_ids.granted:
                self._revoke(stream.unlocked_ids)
            if self.accepted + self._granted >= self.limit and not self._make_room(1):
                return
            run = stream.ids
            run.marks.mark_row(len(run.ids), time_us, segments)
            run.until_ns = 0
            if value is not None:
                run.value_rows.append(len(run.ids))
                run.values.append(value)
            run.ids.append(id_)
            run.codes.append(code)
            run.scores.append(score)
            self._accept(1)

    def add_rows(self, stream: StreamBuffer, rows: CaseRows | IdRows | MissRows) -> None:
        """Append checked rows as far as there is room for them. O(1)."""
        rest: CaseRows | IdRows | MissRows | None = rows
        with self.lock:
            if stream.unlocked_ids.granted and isinstance(rows, IdRows):
                self._revoke(stream.unlocked_ids)
            while rest is not None and rest.size:
                if self.accepted + self._granted >= self.limit and not self._make_room(rest.size):
                    return
                head, rest = rest.cut(self.limit - self.accepted - self._granted)
                stream.append(head)
                self._accept(head.size)

    def handle_late_row(self, rows: UnlockedRows) -> None:
        """Move a row that was appended after its grant was revoked; drop it once stopped."""
        with self.lock:
            if self.limit >= 0:
                self._revoke(rows)
                return
            dropped = rows.drop()
            if self._closed is not None:
                raise ClosedError(self._closed)
            self.dropped += dropped

    def collect_unlocked(self) -> None:
        """Revoke all grants, so that `accepted` counts all rows. O(rows of the grants)."""
        with self.lock:
            self._revoke_all()

    # --- Under the lock -------------------------------------------------------------------------

    def _accept(self, rows: int) -> None:
        self.accepted += rows
        if self.accepted >= self.wake_at:
            self._wake()

    def _grant(self, rows: UnlockedRows) -> None:
        """Grant rows without the lock: fewer than would wake the sender."""
        accepted = self.accepted + self._granted
        size = min(self._max_unlocked_rows, self.limit - accepted, self.wake_at - accepted - 1)
        if size > 1 and self._ticker.start():
            rows.allow(size)
            self._granted += rows.granted
            self._grants[rows] = None

    def _revoke(self, rows: UnlockedRows) -> None:
        """Revoke a grant and accept the rows that were added under it."""
        added = rows.take()
        if added:
            self._accept(added)
        # Last, so that after an interrupting exception the next revocation finds the grant.
        granted, rows.granted = rows.granted, 0
        self._granted -= granted
        self._grants.pop(rows, None)

    def _revoke_all(self) -> bool:
        """Revoke all grants; return whether there were any."""
        grants = list(self._grants)
        for rows in grants:
            self._revoke(rows)
        return bool(grants)

    def _make_room(self, rows: int) -> bool:
        """Return whether there is room: wait for it if configured, else count rows as dropped."""
        self._revoke_all()
        while self.accepted >= self.limit:
            if self._closed is not None:
                raise ClosedError(self._closed)
            if self._discarding or self._when_full == "drop":
                self.dropped += rows
                return False
            self._wake()
            self._space.wait()
            self._revoke_all()
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
        self._revoke_all()
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
        """Drain all rows: O(streams) under the lock and the rows of the grants, then O(rows)."""
        with self.lock:
            self._revoke_all()
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
            self._revoke_all()
            self._closed, self._discarding = closed or self._closed, True
            self.limit = -1
            self._space.notify_all()
            self._wake()
