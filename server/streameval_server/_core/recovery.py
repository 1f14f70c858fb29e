"""The server's core, put together: open a storage, restore its state, run.

A `ServerCore` has no threads. Its parts are called from three places that may be three threads:

- the sessions' thread: ``IngestSession(core.committer, core.limits, wake)``,
  `feed`, `replies`; `UnaryCall`; ``StepResult.deliver``
- the committing thread: ``core.committer.step(now_us)`` whenever an item was
  submitted or the result before said `more`; ``core.committer.recover()`` while FAILED
- the applying thread: ``core.applier.step()`` while it returns True, under the
  lock that queries take for ``core.engine.view(name)``, and after each step
  ``core.applier.finish_step()`` without the lock; then it wakes the committing
  thread, which may be blocked by the lag or have a checkpoint to write
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._core.applier import Applier
from streameval_server._core.committer import Committer, CommitterState
from streameval_server._core.replay import engine_at_checkpoint, replay
from streameval_server._log.checkpoint import part_keys, read_base
from streameval_server._log.failpoints import failpoint
from streameval_server._model.errors import CorruptLogError, DiskFullError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval_server._core.engine import Engine
    from streameval_server._log.acked_revision import AckedRevision
    from streameval_server._log.history import History
    from streameval_server._log.sqlite import SqliteStorage
    from streameval_server._log.storage import Storage
    from streameval_server._model.limits import Limits


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """How the state was restored at the start.

    Attributes
    ----------
    checkpoint_revision : int
        Revision of the checkpoint that was used; 0 when none was.
    checkpoint_error : str or None
        Why the current checkpoint could not be used and the log was replayed
        from its beginning; None when it could, or there was none.
    replayed : int
        Log entries that were replayed.
    revision : int
        The last durable revision.
    history : History
        The log's history, with the losses that operators have accepted.
    """

    checkpoint_revision: int
    checkpoint_error: str | None
    replayed: int
    revision: int
    history: History


@dataclass(frozen=True, slots=True)
class ServerCore:
    """The parts of one server below its threads and sockets."""

    limits: Limits
    storage: Storage
    engine: Engine
    applier: Applier
    committer: Committer
    recovery: RecoveryReport

    def drain(self, now_us: int) -> AckedRevision | None:
        """Commit and apply everything queued, write a checkpoint, close the storage.

        For a graceful stop, when no other thread uses the core any more. Delivers the
        outcomes. Returns the last row of the log, which is applied; None of a storage that
        failed, which the committer has closed.
        """
        committer, applier = self.committer, self.applier
        committer.give_up_compaction()
        self._settle(now_us)
        failpoint("stop.settled")
        applier.request_checkpoint()
        self._settle(now_us)
        if committer.state is not CommitterState.SERVING:
            return None
        self.storage.close()
        failpoint("stop.closed")
        return committer.last_row

    def _settle(self, now_us: int) -> None:
        """Commit and apply until nothing is left to do."""
        more = True
        while more:
            result = self.committer.step(now_us)
            result.deliver()
            self.applier.finish()
            more = result.more or result.blocked or self._has_checkpoint()

    def _has_checkpoint(self) -> bool:
        return self.applier.checkpoint_pending and self.committer.state is CommitterState.SERVING


def open_core(storage: Storage, limits: Limits, *, auto_create: bool = True) -> ServerCore:
    """Open a storage and restore its state. O(bytes).

    It loads the current checkpoint and applies the log after it; when the checkpoint is damaged,
    it applies the whole log.

    Raises
    ------
    StorageError
        When the storage cannot be opened, or a newer version wrote to it.
    CorruptLogError
        When the log is not what was written.
    """
    storage.open()
    try:
        failpoint("start.opened")
        return _recover(storage, limits, auto_create=auto_create)
    except BaseException:
        storage.close()
        raise


def open_core_on_full_disk(
    storage: SqliteStorage, limits: Limits, error: DiskFullError, *, auto_create: bool = True
) -> ServerCore:
    """Restore the state of a log that cannot be written for want of room. O(bytes).

    The committer is FAILED: queries are answered, and its `recover` opens the storage for
    writing once there is room. Parts of an abandoned checkpoint are left for the next start.

    Parameters
    ----------
    storage, limits, auto_create
        As for `open_core`, which failed; the caller owns the log's directory.
    error
        The error that it raised.

    Raises
    ------
    CorruptLogError
        When the log is not what was written, or has lost acknowledged rows.
    DiskFullError
        When the log cannot be read without a write either: `error`.
    """
    try:
        storage.open_unchanged()
    except CorruptLogError:
        raise
    except StorageError as reason:
        raise error from reason
    try:
        return _recover(storage, limits, auto_create=auto_create, full=error)
    finally:
        storage.close()


_MIN_FROZEN_OBJECTS = 100_000
"""Objects of a checkpoint that are taken from Python's collector of cycles: some 1,000 streams."""


@contextmanager
def _without_collector() -> Iterator[None]:
    """Stop Python's collector of cycles: the objects of a checkpoint stay, and are in no cycle.

    It would look at all of them again and again, a third of the time that ten thousand streams
    take. A replay makes garbage, so it is not for that. Many objects are frozen, because the
    collector would look at them three more times before it counts them as old, each time for
    longer than a start with few; what is frozen leaves memory as before once nothing refers to it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] >= _MIN_FROZEN_OBJECTS:
            gc.freeze()
        if was_enabled:
            gc.enable()


_REPLAY_OBJECTS = 100_000
"""Objects made in a replay before Python's collector of cycles looks for garbage among them."""


@contextmanager
def _with_rare_collections() -> Iterator[None]:
    """Have Python's collector of cycles look rarely: what a replay makes mostly stays.

    With ten thousand streams a sixth of the time would go into looking at their objects.
    """
    before = gc.get_threshold()
    gc.set_threshold(_REPLAY_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _recover(
    storage: Storage, limits: Limits, *, auto_create: bool, full: DiskFullError | None = None
) -> ServerCore:
    base = read_base(storage)
    with _without_collector():
        engine, manifest, error = engine_at_checkpoint(storage, base, limits)
    failpoint("start.restored")
    checkpoint_revision = engine.revision
    last = storage.last_revision()
    if last < checkpoint_revision:
        raise CorruptLogError(
            f"the log ends at revision {last}, before its checkpoint at {checkpoint_revision}"
        )
    applier = Applier(
        engine,
        limits,
        checkpoint_revision=checkpoint_revision,
        checkpoints=storage.can_restore,
    )
    with _with_rare_collections():
        replayed = replay(storage.read(checkpoint_revision), applier)
    if engine.revision != last:
        raise CorruptLogError(f"the log ends at revision {engine.revision}, not at {last}")
    failpoint("start.replayed")
    if full is None:
        storage.prune(part_keys(manifest) | part_keys(base))
    failpoint("start.pruned")
    committer = Committer(
        storage,
        applier,
        limits,
        history=storage.history().number,
        marks=engine.marks.copy(),
        catalog=engine.catalog(),
        revision=engine.revision,
        received_us=engine.received_us,
        crc32=storage.checksum_at(engine.revision),
        held_us=engine.held_us,
        manifest=manifest,
        base=base,
        auto_create=auto_create,
        error=full,
    )
    report = RecoveryReport(
        checkpoint_revision, error, replayed, engine.revision, storage.history()
    )
    return ServerCore(limits, storage, engine, applier, committer, report)
