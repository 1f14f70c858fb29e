"""The whole core, put together: open a storage, recover, and run.

A shell calls, from three places that may be three threads:

- the sessions' thread: ``IngestSession(core.committer, core.limits, wake)``,
  `feed`, `replies`; `UnaryCall`; ``StepResult.deliver``
- the committing thread: ``core.committer.step(now_us)`` whenever something was
  submitted, or `more` was said; ``core.committer.recover()`` while FAILED
- the applying thread: ``core.applier.step()`` while it returns True, under the
  lock that queries take for ``core.engine.view(name)``, and without the lock
  ``core.applier.finish_step()`` after each; then the committing thread once more,
  which may have waited for it, or have a checkpoint to write
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._core.applier import Applier
from streameval_server._core.committer import Committer, State
from streameval_server._core.compaction import engine_at_base, part_keys, read_base
from streameval_server._core.engine import Engine
from streameval_server._core.replay import replay
from streameval_server._log.checkpoint import Manifest
from streameval_server._log.failpoints import failpoint
from streameval_server._model.errors import CorruptLogError, StorageError

if TYPE_CHECKING:
    from streameval_server._log.storage import Storage
    from streameval_server._model.limits import Limits


@dataclass(frozen=True, slots=True)
class Recovery:
    """How the state was restored.

    Attributes
    ----------
    checkpoint_revision : int
        The checkpoint that was used; 0 when none was.
    checkpoint_error : str or None
        Why the current checkpoint could not be used; the log replaced it.
    replayed : int
        Log entries that were replayed.
    revision : int
        The last durable revision.
    """

    checkpoint_revision: int
    checkpoint_error: str | None
    replayed: int
    revision: int


@dataclass(frozen=True, slots=True)
class Core:
    """A server's sans-I/O parts."""

    limits: Limits
    storage: Storage
    engine: Engine
    applier: Applier
    committer: Committer
    recovery: Recovery

    def drain(self, now_us: int) -> None:
        """Commit and apply all that is queued, write a checkpoint, close the storage.

        For a graceful stop, when no other thread runs the core any more.
        Outcomes are delivered. A storage that failed is closed as it is.
        """
        committer, applier = self.committer, self.applier
        committer.give_up_compaction()
        self._settle(now_us)
        failpoint("stop.settled")
        applier.request_checkpoint()
        self._settle(now_us)
        if committer.state is State.SERVING:
            self.storage.close()
            failpoint("stop.closed")

    def _settle(self, now_us: int) -> None:
        """Step until nothing is left to do."""
        more = True
        while more:
            result = self.committer.step(now_us)
            result.deliver()
            self.applier.finish()
            more = result.more or result.blocked or self._has_checkpoint()

    def _has_checkpoint(self) -> bool:
        return self.applier.checkpoint_pending and self.committer.state is State.SERVING


def open_core(storage: Storage, limits: Limits, *, auto_create: bool = True) -> Core:
    """Open a storage and restore what it holds.

    From the checkpoint and the log after it; from the log's beginning where the
    checkpoint is damaged. O(bytes).

    Raises
    ------
    StorageError
        When the storage cannot be opened or holds what this version does not know.
    CorruptLogError
        When the log is not what was written.
    """
    storage.open()
    failpoint("start.opened")
    try:
        return _recovered(storage, limits, auto_create=auto_create)
    except StorageError:
        storage.close()
        raise


def _recovered(storage: Storage, limits: Limits, *, auto_create: bool) -> Core:
    base = read_base(storage)
    engine, manifest, error = from_checkpoint(storage, base, limits)
    failpoint("start.restored")
    checkpoint_revision = engine.revision
    last = storage.last_revision()
    if last < checkpoint_revision:
        raise CorruptLogError(
            f"the log ends at revision {last}, before its checkpoint at {checkpoint_revision}"
        )
    applier = Applier(engine, limits, checkpoint_revision=checkpoint_revision, keeps=storage.keeps)
    replayed = replay(storage.read(checkpoint_revision), applier)
    if engine.revision != last:
        raise CorruptLogError(f"the log ends at revision {engine.revision}, not at {last}")
    failpoint("start.replayed")
    storage.prune(part_keys(manifest) | part_keys(base))
    failpoint("start.pruned")
    committer = Committer(
        storage,
        applier,
        limits,
        marks=engine.marks.copy(),
        catalog=engine.catalog(),
        revision=engine.revision,
        received_us=engine.received_us,
        manifest=manifest,
        base=base,
        auto_create=auto_create,
    )
    recovery = Recovery(checkpoint_revision, error, replayed, engine.revision)
    return Core(limits, storage, engine, applier, committer, recovery)


def from_checkpoint(
    storage: Storage, base: Manifest | None, limits: Limits
) -> tuple[Engine, Manifest | None, str | None]:
    """Return the engine of the current checkpoint, or where the log begins when there is none.

    `base` is where it begins, as `read_base` gives it.

    Raises
    ------
    CorruptLogError
        When neither is what was written.
    """
    try:
        data = storage.manifest()
        if data is None:
            return engine_at_base(storage, base, limits), base, None
        manifest = Manifest.from_bytes(data)
        parts = manifest.read(storage)
        engine = Engine.restore(limits, manifest.revision, manifest.received_us, parts)
    except CorruptLogError as error:
        # From its beginning on the log says the same.
        return engine_at_base(storage, base, limits), base, str(error)
    return engine, manifest, None
