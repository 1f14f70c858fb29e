"""The committer: decides what is in the log, and in which order.

A step drains the queue into one transaction. Only after it is durable do the marks and the
revision advance and the outcomes become true. The fate of a failed commit is unknown, so the
committer stops until the storage was opened again and its content was read back::

    SERVING --StorageError--> FAILED --recover()--> SERVING
                                └─ an acked entry is gone --> BROKEN

`submit` runs in one thread, `step` and `recover` in one other. Cost: about 10 us a batch,
besides the storage's.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval_server._core.checkpoint_tasks import CheckpointTasks
from streameval_server._core.replay import entry_of
from streameval_server._core.transaction import Transaction
from streameval_server._log.catalog import record as record_facts
from streameval_server._log.checkpoint import read_base
from streameval_server._log.entries import Kind, Outcome, Status
from streameval_server._log.failpoints import NOTED, failpoint
from streameval_server._model.errors import (
    CorruptLogError,
    RequestError,
    StorageError,
    queue_full,
    state_full,
    storage_failed,
    too_many_ids,
    too_many_producers,
)
from streameval_server._model.rows import BATCH_KINDS, LabelRows, PredictionRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval_server._core.applier import Applier
    from streameval_server._core.checkpoint_tasks import Compacted
    from streameval_server._log.catalog import Catalog
    from streameval_server._log.checkpoint import Manifest
    from streameval_server._log.entries import Entry, Item
    from streameval_server._log.producer_marks import Marks
    from streameval_server._log.storage import Storage
    from streameval_server._model.limits import Limits


class State(enum.Enum):
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
            failpoint("ack.before")
            outcome.item.owner.settle(outcome)
            failpoint("ack.after")


class Committer:
    """Orders, logs and acknowledges.

    Parameters
    ----------
    storage, applier, limits
        The server's.
    marks : Marks
        Of all durable entries; the committer's own copy. Sessions read it.
    catalog : Catalog
        The facts about each stream at that revision.
    revision, received_us : int
        Of the last durable entry.
    manifest : Manifest or None
        The current checkpoint's.
    base : Manifest or None
        Where the log begins; None when it is whole.
    auto_create : bool
        Whether a batch for an unknown stream creates it.

    Attributes
    ----------
    state : State
        Safe to read from any thread, as all attributes here.
    error : StorageError or None
        Why it does not serve.
    revision : int
        The last durable revision.
    batch_rows : dict of str to int
        Rows of batches that became durable here, by kind.
    refused_batches : int
        Batches whose refusal became durable here.
    """

    def __init__(
        self,
        storage: Storage,
        applier: Applier,
        limits: Limits,
        *,
        marks: Marks,
        catalog: Catalog,
        revision: int,
        received_us: int,
        manifest: Manifest | None,
        base: Manifest | None = None,
        auto_create: bool = True,
    ) -> None:
        self.state = State.SERVING
        self.error: StorageError | None = None
        self.revision = revision
        self.marks = marks
        self.catalog = catalog
        self.auto_create = auto_create
        self.batch_rows = dict.fromkeys(BATCH_KINDS, 0)
        self.refused_batches = 0
        self._storage = storage
        self._applier = applier
        self._limits = limits
        self._received_us = received_us
        self._tasks = CheckpointTasks(storage, applier, manifest, base)
        self._queue: deque[Item] = deque()
        # Each has a single writer, so their difference needs no lock.
        self._submitted_bytes = 0
        self._drained_bytes = 0

    @property
    def queued_bytes(self) -> int:
        """Bytes submitted and not drained. Safe to read from any thread."""
        return self._submitted_bytes - self._drained_bytes

    @property
    def queued(self) -> int:
        """Items submitted and not drained. Safe to read from any thread."""
        return len(self._queue)

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
        if self.state is not State.SERVING:
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
        # Entries that are not applied yet are not counted, so the limits on producers,
        # memory and ids can be exceeded a little. An empty queue takes any item.
        limits, marks, engine = self._limits, self.marks, self._applier.engine
        queued_bytes = self._submitted_bytes - self._drained_bytes
        if queued_bytes and queued_bytes + item.nbytes > limits.max_queue_bytes:
            raise queue_full(queued_bytes)
        producer = item.producer
        if producer and len(marks) >= limits.max_producers and marks.get(producer) is None:
            raise too_many_producers(limits)
        rows, is_import = item.rows, item.kind == Kind.IMPORT_STREAM
        if rows is not None or is_import:
            if limits.max_state_bytes and engine.memory_bytes > limits.max_state_bytes:
                raise state_full(limits)
            has_ids = is_import or isinstance(rows, PredictionRows | LabelRows)
            if has_ids and engine.kept_ids > limits.max_pending_total:
                raise too_many_ids(engine.kept_ids, limits)
        self._submitted_bytes += item.nbytes
        self._queue.append(item)

    def step(self, now_us: int) -> StepResult:
        """Drain the queue, commit, push to the applier; then do a part of the checkpoint tasks.

        Never raises for a disk that fails: look at `state` afterwards.
        """
        result = StepResult()
        if self.state is not State.SERVING:
            return result
        applier, tasks = self._applier, self._tasks
        if applier.lag_rows >= self._limits.max_lag_rows:
            result.blocked = bool(self._queue)
        elif self._queue or self._wants_tick(now_us):
            self._commit(now_us, result)
            if self.state is not State.SERVING:
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
        result.more = more or (bool(self._queue) and not result.blocked)
        return result

    def _wants_tick(self, now_us: int) -> bool:
        """Whether something is due that no entry has triggered for a while."""
        applier = self._applier
        if now_us - self._received_us < self._limits.tick_us or applier.lag_rows:
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

    def _commit(self, now_us: int, result: StepResult) -> None:
        transaction = Transaction(
            marks=self.marks,
            catalog=self.catalog,
            limits=self._limits,
            revision=self.revision,
            received_us=max(now_us, self._received_us),
            auto_create=self.auto_create,
        )
        queue = self._queue
        drained = 0
        if not queue:
            transaction.tick()
        while queue and drained < self._limits.max_commit_bytes:
            item = queue.popleft()
            drained += item.nbytes
            transaction.add(item)
        self._drained_bytes += drained
        result.outcomes = transaction.outcomes
        if transaction.rows:
            try:
                failpoint("commit.before")
                self._storage.append(transaction.rows)
                failpoint("commit.after")
            except StorageError as error:
                failpoint("commit.failed")
                result.outcomes = [_failed(outcome.item) for outcome in transaction.outcomes]
                self._fail(error, result)
                return
            self._advance(transaction.entries, transaction.nbytes)
            result.pushed = True

    def _advance(self, entries: Sequence[Entry], nbytes: int) -> None:
        """Record that entries are durable, and push them to the applier."""
        if not entries:
            return
        # Before the marks: a thread that reads a mark and then the revision must get a
        # revision that includes the mark.
        self.revision = entries[-1].revision
        self._received_us = entries[-1].received_us
        record_mark, batch_rows = self.marks.record, self.batch_rows
        for entry in entries:
            failpoint("mark.before")
            record_mark(
                entry.producer,
                entry.epoch,
                entry.sequence,
                entry.received_us,
                revision=entry.revision,
                refused=entry.refused,
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
        self.state = State.FAILED
        self.error = error
        self._tasks.abort(storage_failed())
        self._storage.close()
        while self._queue:
            item = self._queue.popleft()
            self._drained_bytes += item.nbytes
            result.outcomes.append(_failed(item))

    def recover(self) -> StepResult:
        """Open the storage again, read what proved durable, and serve; FAILED if it cannot.

        Entries whose commit had failed may turn out durable: they count, and
        their producers learn it when they resume.
        """
        result = StepResult()
        if self.state is not State.FAILED:
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
            self._storage.close()
            if isinstance(error, CorruptLogError):
                self.state = State.BROKEN
            return result
        failpoint("recover.read")
        self._advance(entries, sum(len(row.payload) for row in rows))
        self._tasks.resume(manifest, base)
        self.error = None
        self.state = State.SERVING
        failpoint("recover.done")
        result.pushed = bool(entries)
        return result


def _failed(item: Item) -> Outcome:
    return Outcome(item, Status.FAILED, error=storage_failed())
