"""The committer: the one authority on what is in the log, and in which order.

A step drains the queue into one transaction; only after it is durable do
marks and revision advance and outcomes say so. A failed commit's fate is
unknown, so everything stops there: FAILED until the storage was opened again
and what it holds was read back::

    SERVING --StorageError--> FAILED --recover()--> SERVING
                                └─ an acked entry is gone --> BROKEN

`submit` runs in one thread, `step` and `recover` in one other. Cost: about
10 us a batch, besides the storage's.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval_server._core.capacity import (
    RETRY_AFTER_S,
    check_memory,
    check_producers,
    check_queue,
)
from streameval_server._core.compaction import Compacted, Compaction, read_base
from streameval_server._core.replay import entry_of
from streameval_server._core.transaction import Transaction
from streameval_server._log.catalog import record as record_facts
from streameval_server._log.checkpoint import CheckpointWriter, Manifest
from streameval_server._log.entries import Outcome, Status
from streameval_server._log.failpoints import NOTED, failpoint
from streameval_server._model.errors import Code, CorruptLogError, RequestError, StorageError
from streameval_server._model.rows import BATCH_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval_server._core.applier import Applier
    from streameval_server._log.catalog import Catalog
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
    """The storage lost what was acknowledged: stop."""


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
        Whether the applier's lag holds the queue up: step again after it applied.
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
        What is known of each stream at that revision.
    revision, received_us : int
        Of the last durable entry.
    manifest : Manifest or None
        The current checkpoint's.
    base : Manifest or None
        Where the log begins; None when it is whole.
    auto_create : bool
        Whether a batch for an unknown stream makes it.

    Attributes
    ----------
    batch_rows : dict of str to int
        Rows of batches that became durable here, by kind. Safe to read from any thread.
    refused_batches : int
        Batches whose refusal became durable here. Safe to read from any thread.
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
        self.marks = marks
        self.auto_create = auto_create
        self.batch_rows = dict.fromkeys(BATCH_KINDS, 0)
        self.refused_batches = 0
        self._storage = storage
        self._applier = applier
        self._limits = limits
        self.catalog = catalog
        self._revision = revision
        self._received_us = received_us
        self._manifest = manifest
        self._base = base
        self._writer: CheckpointWriter | None = None
        self._unsure: Manifest | None = None
        self._compaction: Compaction | None = None
        self._when_compacted: Callable[[Compacted | RequestError], None] | None = None
        self._state = State.SERVING
        self._error: StorageError | None = None
        self._queue: deque[Item] = deque()
        # Each has one writer, so that their difference needs no lock.
        self._submitted_bytes = 0
        self._drained_bytes = 0

    @property
    def state(self) -> State:
        """Whether it serves. Safe to read from any thread."""
        return self._state

    @property
    def error(self) -> StorageError | None:
        """Why it does not serve."""
        return self._error

    @property
    def revision(self) -> int:
        """The last durable revision. Safe to read from any thread."""
        return self._revision

    @property
    def queued_bytes(self) -> int:
        """Bytes submitted and not drained. Safe to read from any thread."""
        return self._submitted_bytes - self._drained_bytes

    @property
    def queued(self) -> int:
        """Items that wait to be drained. Safe to read from any thread."""
        return len(self._queue)

    @property
    def checkpoint_revision(self) -> int:
        """Revision of the current checkpoint; 0 when there is none."""
        return 0 if self._manifest is None else self._manifest.revision

    @property
    def log_start(self) -> int:
        """The revision at which the log begins; 0 when it is whole."""
        return 0 if self._base is None else self._base.revision

    @property
    def compacting(self) -> bool:
        """Whether the log is being compacted, or will be."""
        return self._when_compacted is not None

    def compact(self, done: Callable[[Compacted | RequestError], None]) -> None:
        """Drop the log before the checkpoint that is current once none is pending.

        Steps do it, between commits; to be called in the thread of `submit`, when
        `compacting` is False. `done` is told what became of it, in the thread of
        `step`: an error when the disk failed, and then rows below `log_start`
        may be left.
        """
        self.check_serving()
        self._when_compacted = done

    def check_serving(self) -> None:
        """Raise RequestError (UNAVAILABLE) unless it serves."""
        if self._state is not State.SERVING:
            raise _unavailable()

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
        check_queue(item, self.queued_bytes, self._limits)
        check_producers(item, self.marks, self._limits)
        check_memory(item, self._applier.engine, self._limits)
        self._submitted_bytes += item.nbytes
        self._queue.append(item)

    def step(self, now_us: int) -> StepResult:
        """Drain, commit, hand over to the applier; write a bit of a waiting checkpoint.

        Never raises for what the disk does: look at `state` afterwards.
        """
        result = StepResult()
        if self._state is not State.SERVING:
            return result
        if self._applier.lag_rows >= self._limits.max_lag_rows:
            result.blocked = bool(self._queue)
        elif self._queue or self._wants_tick(now_us):
            self._commit(now_us, result)
        if self._state is State.SERVING:
            self._write_checkpoint(result)
        if self._state is State.SERVING and self._when_compacted is not None:
            self._compact(result)
        if self._state is State.SERVING:
            result.more = (
                self._writer is not None
                or self._compaction is not None
                or (bool(self._queue) and not result.blocked)
            )
        return result

    def _wants_tick(self, now_us: int) -> bool:
        """Whether something is due, and no entry has come for a while to let it happen."""
        applier = self._applier
        if now_us - self._received_us < self._limits.tick_us or applier.lag_rows:
            return False
        return applier.engine.due_us <= now_us or self._wants_room(now_us)

    def _wants_room(self, now_us: int) -> bool:
        """Whether producers that are idle keep others out, which no entry may ever end."""
        due_us = self.marks.due_us
        is_full = len(self.marks) >= self._limits.max_producers
        return is_full and due_us is not None and due_us <= now_us

    def _commit(self, now_us: int, result: StepResult) -> None:
        draft = Transaction(
            marks=self.marks,
            catalog=self.catalog,
            limits=self._limits,
            revision=self._revision,
            received_us=max(now_us, self._received_us),
            auto_create=self.auto_create,
        )
        queue = self._queue
        drained = 0
        if not queue:
            draft.tick()
        while queue and drained < self._limits.max_commit_bytes:
            item = queue.popleft()
            drained += item.nbytes
            draft.add(item)
        self._drained_bytes += drained
        result.outcomes = draft.outcomes
        if draft.rows:
            try:
                failpoint("commit.before")
                self._storage.append(draft.rows)
                failpoint("commit.after")
            except StorageError as error:
                failpoint("commit.failed")
                result.outcomes = [_failed(outcome.item) for outcome in draft.outcomes]
                self._fail(error, result)
                return
            self._advance(draft.entries, draft.nbytes)
            result.pushed = True

    def _advance(self, entries: Sequence[Entry], nbytes: int) -> None:
        """Note that entries are durable, and hand them over."""
        if not entries:
            return
        # First, so that who reads a mark and then the revision has one that includes it.
        self._revision = entries[-1].revision
        self._received_us = entries[-1].received_us
        record, batch_rows = self.marks.record, self.batch_rows
        for entry in entries:
            failpoint("mark.before")
            record(
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

    def _write_checkpoint(self, result: StepResult) -> None:
        try:
            if self._writer is None:
                checkpoint = self._applier.take_checkpoint()
                if checkpoint is None:
                    return
                self._writer = CheckpointWriter(checkpoint, self._manifest, self._base)
                failpoint("checkpoint.begin")
            manifest = self._writer.step(self._storage)
        except StorageError as error:
            self._fail(error, result)
            return
        if manifest is not None:
            self._writer = None
            self._manifest = manifest
            self._applier.checkpoint_done(manifest.revision)
            failpoint("checkpoint.done")

    def _compact(self, result: StepResult) -> None:
        if self._compaction is None:
            if self._writer is not None or self._applier.checkpoint_pending:
                return
            if self._manifest is None:  # nothing was ever logged
                self._compacted(Compacted(0, 0))
                return
            self._compaction = Compaction(self._manifest, self._base)
        try:
            done = self._compaction.step(self._storage)
        except StorageError as error:
            self._fail(error, result)
            return
        # At once: the next checkpoint must leave the base's parts alone.
        self._base = self._compaction.base
        if done:
            failpoint("compact.done")
            self._compacted(self._compaction.result)

    def _compacted(self, outcome: Compacted | RequestError) -> None:
        done, self._when_compacted, self._compaction = self._when_compacted, None, None
        if done is not None:
            done(outcome)

    def give_up_compaction(self) -> None:
        """Leave the log as it is: the server stops. In the thread of `step`."""
        self._compacted(_unavailable())

    def _fail(self, error: StorageError, result: StepResult) -> None:
        """Stop: what the storage holds is unknown until it was read back."""
        self._state = State.FAILED
        self._error = error
        self._unsure = None if self._writer is None else self._writer.tried
        self._writer = None
        self._compacted(_unavailable())
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
        if self._state is not State.FAILED:
            return result
        try:
            failpoint("recover.begin")
            self._storage.open()
            failpoint("recover.opened")
            last = self._storage.last_revision()
            if last < self._revision:
                raise CorruptLogError(
                    f"the log ends at revision {last}, but {self._revision} was acknowledged"
                )
            rows = list(self._storage.read(self._revision))
            entries = [entry_of(row) for row in rows]
            manifest = self._storage.manifest()
            base = read_base(self._storage)
        except StorageError as error:
            self._error = error
            self._storage.close()
            if isinstance(error, CorruptLogError):
                self._state = State.BROKEN
            return result
        failpoint("recover.read")
        self._advance(entries, sum(len(row.payload) for row in rows))
        if self._unsure is not None and manifest == self._unsure.to_bytes():
            # Any other was current before, or was found damaged at the start.
            self._manifest = self._unsure
        self._base = base
        self._applier.checkpoint_done(self.checkpoint_revision)
        self._error = None
        self._state = State.SERVING
        failpoint("recover.done")
        result.pushed = bool(entries)
        return result


def _unavailable() -> RequestError:
    return RequestError(
        Code.UNAVAILABLE,
        "the server's disk failed and what was not acknowledged may be lost: "
        "connect again and go on from where it says",
        reason="STORAGE_FAILED",
        retry_after_s=RETRY_AFTER_S,
    )


def _failed(item: Item) -> Outcome:
    return Outcome(item, Status.FAILED, error=_unavailable())
