"""The committer: decides what is in the log, and in which order.

A step drains the queue into one transaction. Only after it is durable do the marks and the
revision advance and the outcomes become true. The fate of a failed commit is unknown, so the
committer stops until the storage was opened again and its content was read back::

    SERVING --StorageError--> FAILED --recover()--> SERVING   (on a full disk it begins FAILED)
                                └─ an acked entry is gone --> BROKEN

`submit` runs in one thread, `step` and `recover` in one other. Cost: about 10 us a batch,
besides the storage's.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval_server._core.catalog import NEW
from streameval_server._core.catalog import record as record_facts
from streameval_server._core.entries import Outcome, Status
from streameval_server._core.id_room import IdRoom
from streameval_server._core.log_time import LogTime
from streameval_server._core.replay import entry_of
from streameval_server._core.storage_work import StorageWork
from streameval_server._core.transaction import Transaction
from streameval_server._log.acked_revision import AckedRevision
from streameval_server._log.checkpoint import read_base
from streameval_server._log.failpoints import NOTED, failpoint
from streameval_server._log.rows import IMPORTS, Kind
from streameval_server._model.errors import (
    CorruptLogError,
    DiskFullError,
    RequestError,
    StorageError,
    batch_too_large_for_memory,
    disk_full,
    queue_full,
    state_full,
    storage_failed,
    too_many_ids,
    too_many_producers,
)
from streameval_server._model.row_kinds import BATCH_KINDS, PredictionRows
from streameval_server._state.memory import max_growth_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval_server._core.applier import Applier
    from streameval_server._core.catalog import Catalog
    from streameval_server._core.entries import Entry, Item
    from streameval_server._core.producer_marks import Marks
    from streameval_server._core.storage_work import Compacted
    from streameval_server._log.checkpoint import Manifest
    from streameval_server._log.storage import Storage
    from streameval_server._model.limits import Limits


_MAX_OVERSHOOT_BYTES = 8 << 20
"""By how much the limit on memory may be exceeded: a batch that may grow the state by less is
committed while there is any room, so that a client with small batches never waits for ever."""

_MAX_UNCOUNTED_BYTES = 1 << 20
"""Memory of rows that may wait, without room for them, while what the state takes is counted."""

_INGEST = frozenset({Kind.BATCH, Kind.REFUSED, Kind.OPEN})
"""Kinds of items that are refused to a producer without a mark while there are too many of them, or
memory is full; a change of a stream with a request id is not."""

_UNLIMITED_BYTES = 1 << 62

_WORKING_BYTES = 32 << 20
"""Memory of temporary arrays while rows are decoded, sorted and merged; measured."""

_MIN_WORKING_SHARE = 8
"""A server with a small limit counts one part of it in this many for temporary arrays."""


class CommitterState(enum.Enum):
    """Whether the committer serves."""

    SERVING = "serving"
    FAILED = "failed"
    """A write failed: call `recover` until it succeeds, with growing pauses."""
    BROKEN = "broken"
    """The storage lost entries that were acknowledged: stop."""


@dataclass(slots=True)
class StepResult:
    """What a step did.

    Attributes
    ----------
    outcomes : list of Outcome
        In order of submission; `deliver` gives each to its item's owner.
    pushed : bool
        Whether the applier has something new to do.
    more : bool
        Whether another step would find work now.
    blocked : bool
        Whether the queue waits for the applier to catch up: step again after it applied.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    pushed: bool = False
    more: bool = False
    blocked: bool = False

    def deliver(self) -> None:
        """Settle each outcome with its owner; to be called in the sessions' thread."""
        for outcome in self.outcomes:
            is_entry = outcome.status is Status.DURABLE
            outcome.item.revision = outcome.revision if is_entry else 0
            failpoint("ack.before")
            outcome.item.owner.settle(outcome)
            failpoint("ack.after")


class Committer:
    """Orders, logs and acknowledges.

    Parameters
    ----------
    storage, applier, limits
        The server's.
    history : int
        The number of the log's history.
    marks : Marks
        Every producer's mark after all durable entries; the committer's own copy. Sessions read it.
    catalog : Catalog
        The facts about each stream at that revision.
    revision, received_us, crc32 : int
        The last durable row's.
    held_us : int or None
        The time up to which things fall due, when the log is held.
    manifest : Manifest or None
        The current checkpoint's.
    base : Manifest or None
        Where the log begins; None when it is whole.
    auto_create : bool
        Whether a batch for an unknown stream creates it.
    error : StorageError or None
        Why the storage cannot be written yet: then it is closed, and `recover` comes first.

    Attributes
    ----------
    state : CommitterState
        Safe to read from any thread, as all attributes here.
    error : StorageError or None
        Why it does not serve.
    revision : int
        The last durable revision.
    batch_rows : dict of str to int
        Rows of batches that became durable here, by kind.
    refused_batches : int
        Batches whose refusal became durable here.
    cache_bytes : callable
        Returns the memory of cached answers; set by who answers queries.
    monotonic_s : callable
        Returns seconds that never go back, for `ack_wait`; set by who has a clock.
    disputed_us : int or None
        What the time is otherwise while the clock is in doubt, else None. Set before each
        step by the caller, who knows the clocks: the log is held from then on.
    is_clock_accepted : bool
        Set by the caller before it ends a doubt by accepting a clock: the log is then released
        even if it was not held yet, so that no producer has been idle since (`Marks`).
    """

    def __init__(
        self,
        storage: Storage,
        applier: Applier,
        limits: Limits,
        *,
        history: int,
        marks: Marks,
        catalog: Catalog,
        revision: int,
        received_us: int,
        crc32: int,
        held_us: int | None = None,
        manifest: Manifest | None,
        base: Manifest | None = None,
        auto_create: bool = True,
        error: StorageError | None = None,
    ) -> None:
        self.state = CommitterState.SERVING if error is None else CommitterState.FAILED
        self.error = error
        self.history = history
        self.revision = revision
        self.marks = marks
        self.catalog = catalog
        self.auto_create = auto_create
        self.batch_rows = dict.fromkeys(BATCH_KINDS, 0)
        self.refused_batches = 0
        self.cache_bytes: Callable[[], int] = int
        self.monotonic_s: Callable[[], float] = float
        self._storage = storage
        self._applier = applier
        self._limits = limits
        self._crc32 = crc32
        self.disputed_us = held_us
        self.is_clock_accepted = False
        self._time = LogTime(received_us, held_us)
        self._tasks = StorageWork(storage, applier, manifest, base)
        self._queue: deque[Item] = deque()
        # Each has a single writer, so their difference needs no lock.
        self._submitted_bytes = self._submitted_memory = 0
        self._drained_bytes = self._drained_memory = 0
        self._headroom_bytes, self._measured_revision = 0, -1
        # By how much transactions that are not applied may grow the state, by last revision.
        self._unapplied: deque[tuple[int, int]] = deque()
        self._unapplied_growth = 0
        # For `ack_wait`: when the oldest item of the transaction that is being written was
        # submitted, or when commits began to fail; what the last step waited for; since when
        # rows are refused for want of memory.
        self._id_room = IdRoom(applier)
        self._writing_since_s: float | None = None
        self._blocked_by = ""
        self._full_since_s: float | None = None

    @property
    def queued_bytes(self) -> int:
        """Bytes submitted and not drained. Safe to read from any thread."""
        return self._submitted_bytes - self._drained_bytes

    @property
    def queued(self) -> int:
        """Items submitted and not drained. Safe to read from any thread."""
        return len(self._queue)

    @property
    def received_us(self) -> int:
        """The time of the last durable entry. Safe to read from any thread."""
        return self._time.received_us

    @property
    def held_us(self) -> int | None:
        """The time up to which things fall due while the log is held; None while it is not."""
        return self._time.held_us

    @property
    def last_row(self) -> AckedRevision:
        """The last durable row. For the thread of `step`, or while there is none."""
        return AckedRevision(self.revision, self._crc32)

    @property
    def checkpoint_revision(self) -> int:
        """Revision of the current checkpoint; 0 when there is none."""
        manifest = self._tasks.manifest
        return 0 if manifest is None else manifest.revision

    @property
    def log_start(self) -> int:
        """The revision at which the log begins; 0 when it is whole."""
        base = self._tasks.base
        return 0 if base is None else base.revision

    def ack_wait(self) -> tuple[str, float] | None:
        """Return why acknowledgements wait, and the seconds of the oldest; None if none waits.

        Safe to call from any thread. The reason is one of

        - ``disk``: a transaction is being written, or commits fail;
        - ``lag``: `max_lag_rows` are durable and not applied yet;
        - ``memory``: rows are refused until there is memory, or the next batch may exceed it
          together with what is not applied yet;
        - ``queue``: earlier items are being committed.
        """
        now_s, since_s, reason = self.monotonic_s(), self._writing_since_s, "disk"
        if since_s is None and self._queue:
            reason = self._blocked_by or "queue"
            try:
                since_s = self._queue[0].submitted_s
            except IndexError:  # the committing thread has just drained it
                return None
        if since_s is None and self._waiting_bytes >= self._headroom_bytes:
            since_s, reason = self._full_since_s, "memory"
        return None if since_s is None else (reason, max(now_s - since_s, 0.0))

    @property
    def compacting(self) -> bool:
        """Whether the log is being compacted, or will be."""
        return self._tasks.when_compacted is not None

    def compact(self, done: Callable[[Compacted | RequestError], None]) -> None:
        """Drop the log before the next checkpoint, or before the current one if none is pending.

        Later steps do the work, between commits. To be called in the thread of `submit`,
        when `compacting` is False. The thread of `step` calls `done` with the result, or
        with an error when the disk failed: then rows below `log_start` may be left.
        """
        self.check_serving()
        self._tasks.when_compacted = done

    def give_up_compaction(self) -> None:
        """Abandon a compaction because the server stops. In the thread of `step`."""
        self._tasks.end_compaction(storage_failed())

    def check_serving(self) -> None:
        """Raise RequestError (UNAVAILABLE) unless it serves."""
        if self.state is not CommitterState.SERVING:
            error = self.error
            if isinstance(error, DiskFullError):
                raise disk_full(error.missing_bytes)
            raise storage_failed()

    def submit(self, item: Item) -> None:
        """Queue an item.

        Raises
        ------
        RequestError
            RESOURCE_EXHAUSTED when the queue is full, the state too large, or
            there are too many producers or ids; UNAVAILABLE when not serving.
            Each has a delay to retry after.
        """
        self.check_serving()
        # Entries that are not applied yet are not counted, so the limits on producers and ids
        # can be exceeded a little. An empty queue takes any item.
        limits, marks, engine = self._limits, self.marks, self._applier.engine
        queued_bytes = self._submitted_bytes - self._drained_bytes
        if queued_bytes and queued_bytes + item.nbytes > limits.max_queue_bytes:
            raise queue_full(queued_bytes)
        producer = item.producer
        is_new_producer = bool(producer) and item.kind in _INGEST and marks.get(producer) is None
        if is_new_producer and len(marks) >= limits.max_producers:
            raise too_many_producers(limits)
        rows, is_import = item.rows, item.kind in IMPORTS
        takes_memory = rows is not None or is_import or is_new_producer
        if takes_memory:
            if engine.revision != self._measured_revision:
                self._measure_headroom()
            # Behind an estimate of what is not counted yet, some items may wait for the count.
            allowed = _MAX_UNCOUNTED_BYTES if rows is not None and engine.has_uncounted else 0
            if self._waiting_bytes >= self._headroom_bytes + allowed:
                if self._full_since_s is None:
                    self._full_since_s = self.monotonic_s()
                raise state_full(limits)
            self._full_since_s = None
        if rows is not None or is_import:
            # Labels pass: they make room.
            has_ids = is_import or isinstance(rows, PredictionRows)
            if has_ids and engine.kept_ids > limits.max_pending_total:
                raise too_many_ids(engine.kept_ids, limits)
        now_s = self.monotonic_s()
        self._id_room.check(item, now_s)
        self._id_room.add(item)
        self._submitted_bytes += item.nbytes
        self._submitted_memory += item.memory_bytes
        item.submitted_s = now_s
        self._queue.append(item)

    def step(self, now_us: int) -> StepResult:
        """Drain the queue, commit, push to the applier; then do a part of the checkpoint tasks.

        Never raises for a disk that fails: look at `state` afterwards.
        """
        result = StepResult()
        if self.state is not CommitterState.SERVING:
            return result
        applier, tasks = self._applier, self._tasks
        self._forget_applied()
        self._measure_headroom()
        is_held = self.held_us is not None
        if is_held != (self.disputed_us is not None) or self.is_clock_accepted:
            self._commit_hold(now_us, result)
            if self.state is not CommitterState.SERVING:
                return result
        is_behind = applier.lag_rows >= self._limits.max_lag_rows
        self._blocked_by = "lag" if is_behind else "memory" if self._must_wait() else ""
        if self._blocked_by:
            result.blocked = bool(self._queue)
        elif self._queue or self._wants_tick(now_us):
            self._commit(now_us, result)
            if self.state is not CommitterState.SERVING:
                return result
        more = False
        if (
            applier.copied_checkpoint is not None
            or tasks.writer is not None
            or tasks.when_compacted is not None
        ):
            try:
                more = tasks.step()
            except StorageError as error:
                self._fail(error, result)
                return result
        result.pushed |= applier.must_count
        result.more = more or (bool(self._queue) and not result.blocked)
        return result

    @property
    def memory_bytes(self) -> int:
        """Memory that `max_state_bytes` limits, an upper bound. Safe to read from any thread.

        State, requests and entries that wait, caches of answers, and the arrays of a merge.
        """
        working = _WORKING_BYTES
        if self._limits.max_state_bytes:
            working = min(working, self._limits.max_state_bytes // _MIN_WORKING_SHARE)
        return self._applier.memory_bytes + self.cache_bytes() + working + self._waiting_bytes

    @property
    def _waiting_bytes(self) -> int:
        """Memory of items that are submitted and not drained."""
        return self._submitted_memory - self._drained_memory

    def _measure_headroom(self) -> None:
        """Measure how much memory `max_state_bytes` still allows; 0 when it is used up.

        Each step measures it, and `submit` does when entries were applied since. Measuring it for
        every item would cost more than the rest of `submit`.
        """
        self._measured_revision = self._applier.engine.revision
        limit = self._limits.max_state_bytes
        self._headroom_bytes = _UNLIMITED_BYTES
        if limit:
            used = self.memory_bytes - self._waiting_bytes
            self._headroom_bytes = max(limit - used, 0)

    def _forget_applied(self) -> None:
        """Drop the growth of transactions that memory includes: before memory is measured."""
        applied, unapplied = self._applier.applied_revision, self._unapplied
        while unapplied and unapplied[0][0] <= applied:
            self._unapplied_growth -= unapplied.popleft()[1]

    def _must_wait(self) -> bool:
        """Return whether the next item may exceed the limit on memory with what precedes it.

        That is what is not applied yet, and what streams have not counted yet: the applier is
        asked to count it, so that an item is refused by the memory that the state takes.
        """
        growth = self._growth_of(self._queue[0]) if self._queue else 0
        waits, is_estimate = self._unapplied_growth, self._applier.engine.has_uncounted
        is_short = not self._headroom_bytes or growth + waits > self._headroom_bytes
        if is_short and is_estimate and not waits:
            self._applier.must_count = True
        return bool(growth) and is_short and (is_estimate or bool(waits))

    def _growth_of(self, item: Item) -> int:
        """Return by how much an item may grow the state; 0 without a limit on memory."""
        if item.rows is None or not self._limits.max_state_bytes:
            return 0
        return max_growth_bytes(item.rows, self.catalog.get(item.stream, NEW).settings)

    def _wants_tick(self, now_us: int) -> bool:
        """Whether something is due that no entry has triggered for a while."""
        applier = self._applier
        if now_us - self.received_us < self._limits.tick_us or applier.lag_rows:
            return False
        if self.held_us is not None:
            return False
        return applier.engine.due_us <= now_us or self._can_forget_producers(now_us)

    def _can_forget_producers(self, now_us: int) -> bool:
        """Whether an entry would forget idle producers that keep new ones out.

        While there are too many producers no batch of a new one is logged, so without a
        tick this state could last for ever.
        """
        due_us = self.marks.due_us
        is_full = len(self.marks) >= self._limits.max_producers
        return is_full and due_us is not None and due_us <= now_us

    def _commit_hold(self, now_us: int, result: StepResult) -> None:
        """Hold the log, at its last time so that nothing more falls due; or release it."""
        if self.disputed_us is None:
            self._commit(now_us, result, Kind.RELEASE)
            self.is_clock_accepted &= self.state is not CommitterState.SERVING
        elif self.revision and self.held_us is None:
            self._commit(self.received_us, result, Kind.HOLD)

    def _commit(self, now_us: int, result: StepResult, change: Kind | None = None) -> None:
        """Write one transaction: of what is queued, or of an entry that changes the hold."""
        transaction = Transaction(
            marks=self.marks,
            catalog=self.catalog,
            limits=self._limits,
            revision=self.revision,
            crc32=self._crc32,
            received_us=max(now_us, self.received_us),
            disputed_us=self.disputed_us,
            auto_create=self.auto_create,
        )
        queue = self._queue
        drained = 0
        if change is not None:
            transaction.pass_time(change)
        elif not queue:
            transaction.pass_time(Kind.TICK)
        rows, growth = 0, 0
        while (
            change is None
            and queue
            and drained < self._limits.max_commit_bytes
            and rows < self._limits.max_lag_rows
        ):
            item = queue[0]
            item_growth = self._growth_of(item)
            waiting = growth + self._unapplied_growth
            is_refused = False
            if item_growth and item_growth + waiting > self._headroom_bytes:
                if waiting:
                    break  # what is applied by then may have grown less
                is_refused = not self._headroom_bytes or item_growth > _MAX_OVERSHOOT_BYTES
            queue.popleft()
            drained += item.nbytes
            self._drained_memory += item.memory_bytes
            if is_refused:
                left = self._headroom_bytes
                error = batch_too_large_for_memory(item_growth, left) if left else None
                refused = error or state_full(self._limits)
                transaction.outcomes.append(Outcome(item, Status.FAILED, error=refused))
                continue
            growth += item_growth
            rows += 0 if item.rows is None else item.rows.size
            transaction.add(item)
        self._drained_bytes += drained
        result.outcomes = transaction.outcomes
        if transaction.rows:
            try:
                failpoint("commit.before")
                self._writing_since_s = min(
                    (outcome.item.submitted_s for outcome in transaction.outcomes),
                    default=self.monotonic_s(),
                )
                self._storage.append(transaction.rows)
                self._writing_since_s = None
                failpoint("commit.after")
            except StorageError as error:
                failpoint("commit.failed")
                failed = [
                    Outcome(outcome.item, Status.FAILED, error=storage_failed())
                    for outcome in transaction.outcomes
                ]
                result.outcomes = failed
                self._fail(error, result)
                return
            self._advance(transaction.entries, transaction.rows[-1].crc32, transaction.nbytes)
            if growth:
                self._unapplied.append((self.revision, growth))
                self._unapplied_growth += growth
            result.pushed = True

    def _advance(self, entries: Sequence[Entry], crc32: int, nbytes: int) -> None:
        """Record that entries are durable, and push them to the applier.

        `crc32` is the checksum of the last one's row.
        """
        if not entries:
            return
        self._crc32 = crc32
        # Before the marks: a thread that reads a mark and then the revision must get a
        # revision that includes the mark.
        self.revision = entries[-1].revision
        record_mark, batch_rows = self.marks.record, self.batch_rows
        for entry in entries:
            failpoint("mark.before")
            due_us = self._time.due_before(entry)
            self._time.record(entry)
            if entry.kind == Kind.RELEASE:
                self.marks.restart_idle(entry.received_us)
            record_mark(
                entry.producer,
                entry.epoch,
                entry.sequence,
                entry.received_us,
                due_us=due_us,
                revision=entry.revision,
                refused=entry.refused,
                content=entry.content,
            )
            record_facts(self.catalog, entry)
            rows = entry.rows
            if rows is not None and rows.KIND in batch_rows:
                batch_rows[rows.KIND] += rows.size
            elif entry.refused is not None:
                self.refused_batches += 1
            failpoint(NOTED[entry.kind])
        failpoint("push.before")
        self._applier.push(entries, nbytes)
        failpoint("push.after")

    def _fail(self, error: StorageError, result: StepResult) -> None:
        """Stop serving: the storage's content is unknown until it was read back."""
        self.state = CommitterState.FAILED
        self.error = error
        self._writing_since_s = self.monotonic_s()
        self._tasks.abort(storage_failed())
        self._storage.close()
        while self._queue:
            item = self._queue.popleft()
            self._drained_bytes += item.nbytes
            self._drained_memory += item.memory_bytes
            result.outcomes.append(Outcome(item, Status.FAILED, error=storage_failed()))

    def recover(self) -> StepResult:
        """Open the storage again, read what proved durable, and serve; FAILED if it cannot.

        Entries whose commit had failed may turn out durable: they count, and
        their producers learn it when they resume.
        """
        result = StepResult()
        if self.state is not CommitterState.FAILED:
            return result
        try:
            failpoint("recover.begin")
            self._storage.open()
            failpoint("recover.opened")
            last = self._storage.last_revision()
            if last < self.revision:
                raise CorruptLogError(
                    f"the log ends at revision {last}, but {self.revision} was acknowledged"
                )
            rows = list(self._storage.read(self.revision))
            entries = [entry_of(row) for row in rows]
            manifest = self._storage.manifest()
            base = read_base(self._storage)
        except StorageError as error:
            self.error = error
            if self._writing_since_s is None:  # it began on a full disk
                self._writing_since_s = self.monotonic_s()
            self._storage.close()
            if isinstance(error, CorruptLogError):
                self.state = CommitterState.BROKEN
            return result
        failpoint("recover.read")
        nbytes = sum(len(row.payload) for row in rows)
        self._advance(entries, rows[-1].crc32 if rows else 0, nbytes)
        self._tasks.resume(manifest, base)
        self.error = None
        self._writing_since_s = None
        self.state = CommitterState.SERVING
        failpoint("recover.done")
        result.pushed = bool(entries)
        return result
