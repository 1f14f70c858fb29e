"""The applier: the queue of durable entries between the committer and the engine.

The committing thread calls `push`, `take_checkpoint` and `checkpoint_done`, the applying
thread `step` and `finish_step`. Each counter has a single writer, so no lock is needed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from streameval_server._log.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streameval_server._core.engine import Engine
    from streameval_server._core.entries import Entry
    from streameval_server._log.checkpoint import Checkpoint
    from streameval_server._model.limits import Limits

_MAX_DUE_IDS = 4_096
"""Most ids that expire in one step, which takes a few milliseconds."""

_MIN_GROWTH = 4
"""A checkpoint is not due before the log has grown by this many times the size of the last."""


class Applier:
    """Feeds durable entries to the engine in chunks, and takes checkpoints when they are due.

    Parameters
    ----------
    engine, limits
        The server's.
    checkpoint_revision : int
        Revision of the current checkpoint; 0 when there is none.
    checkpoints : bool
        Whether to take checkpoints; False when they could never be read.

    Attributes
    ----------
    applied_revision : int
        The last applied revision that the engine's memory includes. Safe to read from any thread.
    must_count : bool
        Whether to count what streams have deferred once the queue is empty: the committing
        thread sets it when the memory left is too small, the applying thread clears it.
    replays : bool
        Whether a replay is under way, in which nothing reads the engine's memory: most streams
        are measured once, at its end.
    copied_checkpoint : Checkpoint or None
        The checkpoint that is to be written next.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        *,
        checkpoint_revision: int = 0,
        checkpoints: bool = True,
    ) -> None:
        self.engine = engine
        self._limits = limits
        self._has_checkpoints = checkpoints
        self.applied_revision = engine.revision
        self.must_count = False
        self.replays = False
        self._queue: deque[Entry] = deque()
        self._pushed_rows = 0
        self._applied_rows = 0
        self._pushed_bytes = 0
        self._pushed_memory = self._applied_memory = 0
        self._checkpoint_revision = checkpoint_revision
        self._checkpoint_size = 0
        self._checkpointed_bytes = 0
        self._requested = False
        self._taking = False
        self._begun: Iterator[Callable[[], Checkpoint] | None] | None = None
        self._copy: Callable[[], Checkpoint] | None = None
        self.copied_checkpoint: Checkpoint | None = None

    @property
    def lag_rows(self) -> int:
        """Rows pushed and not applied yet. Safe to read from any thread."""
        return self._pushed_rows - self._applied_rows

    @property
    def memory_bytes(self) -> int:
        """Memory of the state and of entries that are not applied yet. Safe in any thread."""
        return self.engine.memory_bytes + self._pushed_memory - self._applied_memory

    @property
    def checkpoint_pending(self) -> bool:
        """Whether a checkpoint was requested or taken and is not written yet."""
        return self._requested or self._taking

    def push(self, entries: Sequence[Entry], nbytes: int) -> None:
        """Queue entries that are durable; `nbytes` is their size in the log. O(entries)."""
        self._pushed_bytes += nbytes
        self._pushed_rows += sum(map(_cost, entries))
        self._pushed_memory += sum(entry.memory_bytes for entry in entries)
        self._queue.extend(entries)

    def step(self) -> bool:
        """Apply about `Limits.apply_rows` rows at most; return whether entries are left.

        When more ids expire before the next entry than one step may handle, steps of
        their own do it first. When a checkpoint is due, this step begins it; a large one
        takes further steps, before the next entry. Must not run at the
        same time as the engine's `view`. An exception means that an entry of the log
        cannot be applied: the server must stop.
        """
        queue, engine = self._queue, self.engine
        self.finish_step()
        if self._begun is not None:
            self._continue_checkpoint(self._begun)
            return True
        if queue and engine.pass_time(engine.due_before(queue[0]), _MAX_DUE_IDS):
            return True
        self._apply_chunk()
        if self._checkpoint_is_due():
            self._take()
        if not queue and self.must_count:
            if engine.has_uncounted:
                engine.count_deferred()
            self.must_count = engine.has_uncounted
        return bool(queue) or self.must_count or self._begun is not None

    def _apply_chunk(self) -> None:
        """Apply entries of about `Limits.apply_rows` rows, before anything else falls due."""
        queue, engine = self._queue, self.engine
        chunk: list[Entry] = []
        rows = 0
        while queue and rows < self._limits.apply_rows:
            if chunk and queue[0].received_us >= engine.due_us:
                break
            entry = queue.popleft()
            chunk.append(entry)
            rows += _cost(entry)
        failpoint("apply.before")
        engine.apply(chunk, measured=not self.replays)
        failpoint("apply.after")
        self.applied_revision = engine.revision
        self._applied_rows += rows
        self._applied_memory += sum(entry.memory_bytes for entry in chunk)

    def finish_step(self) -> None:
        """Finish the work that `step` deferred: merge counts, copy a checkpoint's parts.

        Runs in the thread of `step`, but the engine's `view` may run at the same time. If
        it was not called, the next `step` does this work first.
        """
        self.engine.merge()
        if self._copy is not None:
            copy, self._copy = self._copy, None
            self.copied_checkpoint = copy()
            failpoint("checkpoint.copied")

    @property
    def has_collected(self) -> bool:
        """Whether many applied rows are not counted yet."""
        return self.engine.has_collected

    def count(self) -> None:
        """Count applied rows now, in idle time. Called like `step`; `finish_step` is to follow."""
        self.engine.count()

    def finish(self) -> None:
        """Apply everything that was pushed."""
        more = True
        while more:
            more = self.step()
            self.finish_step()

    def _checkpoint_is_due(self) -> bool:
        if (
            not self._has_checkpoints
            or self._taking
            or self.engine.revision == self._checkpoint_revision
        ):
            self._requested = False
            return False
        grown = self._pushed_bytes - self._checkpointed_bytes
        due = max(self._limits.checkpoint_bytes, _MIN_GROWTH * self._checkpoint_size)
        return self._requested or grown >= due

    def _take(self) -> None:
        self._taking = True
        self._requested = False
        self._checkpointed_bytes = self._pushed_bytes
        self._continue_checkpoint(self.engine.begin_checkpoint(self._checkpoint_revision))

    def _continue_checkpoint(self, steps: Iterator[Callable[[], Checkpoint] | None]) -> None:
        self._copy = next(steps)
        self._begun = steps if self._copy is None else None
        if self._copy is not None:
            failpoint("checkpoint.taken")

    def request_checkpoint(self) -> None:
        """Make the next `step` take a checkpoint even if none is due."""
        self._requested = True

    def take_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint to be written, once; None when there is none."""
        checkpoint = self.copied_checkpoint
        if checkpoint is not None:
            self.copied_checkpoint = None
        return checkpoint

    def checkpoint_done(self, revision: int, written_bytes: int | None = None) -> None:
        """Learn which checkpoint is current: the one that was taken, or an older one.

        `written_bytes` is its size, if it is the one that was taken.
        """
        self._checkpoint_revision = revision
        if written_bytes is not None:
            self._checkpoint_size = written_bytes
        self.copied_checkpoint = None
        self._taking = False


def _cost(entry: Entry) -> int:
    """Return the work to apply an entry, in rows."""
    return 1 if entry.rows is None else entry.rows.size
