"""Work on the storage between commits: writing checkpoints and compacting the log.

Compaction makes a checkpoint the *base* of the log and drops the rows before it. The base's
parts are kept for as long as the log begins there, whichever newer checkpoints supersede
them, so base and log together still give every later state, and a damaged checkpoint can
still be replaced by them. The row of the base's own revision stays: it tells how far the log
has come.

The base is durable before the first row is dropped. A crash in between leaves rows that are
not needed; the next compaction drops them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._log.checkpoint import CheckpointWriter, part_keys
from streameval_server._log.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._core.applier import Applier
    from streameval_server._log.checkpoint import Manifest
    from streameval_server._log.storage import Storage
    from streameval_server._model.errors import RequestError


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction.

    Attributes
    ----------
    revision : int
        Where the log begins: the state at this revision is kept.
    dropped : int
        Log rows that were deleted.
    """

    revision: int
    dropped: int


class Compaction:
    """Drops the log before a checkpoint, a step at a time.

    Parameters
    ----------
    manifest
        The current checkpoint's, which becomes the base.
    before
        The present base's; None when the log is whole.

    Attributes
    ----------
    base : Manifest or None
        The base at the moment.
    dropped : int
        Rows that were deleted so far.
    """

    def __init__(self, manifest: Manifest, before: Manifest | None) -> None:
        self.base = before
        self.dropped = 0
        self._manifest = manifest
        self._superseded = sorted(part_keys(before) - part_keys(manifest))

    def step(self, storage: Storage) -> bool:
        """Write about as much as one commit does; return whether the compaction is done."""
        revision = self._manifest.revision
        if self.base is not self._manifest:
            failpoint("compact.base.before")
            storage.write_base(self._manifest.to_bytes(), self._superseded)
            failpoint("compact.base.after")
            self.base = self._manifest
            return False
        dropped = storage.drop(revision)
        failpoint("compact.dropped")
        self.dropped += dropped
        return not dropped

    @property
    def result(self) -> Compacted:
        """The result, once `step` has returned True."""
        return Compacted(self._manifest.revision, self.dropped)


class StorageWork:
    """Writes the applier's checkpoints, and compacts the log when asked to.

    Only the committing thread may call its methods, except for `compact`.

    Parameters
    ----------
    storage, applier
        The server's.
    manifest : Manifest or None
        The current checkpoint's.
    base : Manifest or None
        Where the log begins; None when it is whole.

    Attributes
    ----------
    manifest, base : Manifest or None
        As they are now.
    writer : CheckpointWriter or None
        Writes the checkpoint in progress; None while there is none.
    when_compacted : callable or None
        Receives the result of the compaction that was asked for; None without one.
    """

    def __init__(
        self, storage: Storage, applier: Applier, manifest: Manifest | None, base: Manifest | None
    ) -> None:
        self.manifest = manifest
        self.base = base
        self.writer: CheckpointWriter | None = None
        self.when_compacted: Callable[[Compacted | RequestError], None] | None = None
        self._storage = storage
        self._applier = applier
        self._compaction: Compaction | None = None
        # Tried to become current when the write failed: its fate is unknown.
        self._uncertain: Manifest | None = None

    def step(self) -> bool:
        """Do a part of the work; return whether there is more to do at once.

        Raises
        ------
        StorageError
            When the disk fails: `abort` is to follow.
        """
        self._write_checkpoint()
        if self.when_compacted is not None:
            self._compact()
        return self.writer is not None or self._compaction is not None

    def _write_checkpoint(self) -> None:
        if self.writer is None:
            checkpoint = self._applier.take_checkpoint()
            if checkpoint is None:
                return
            self.writer = CheckpointWriter(checkpoint, self.manifest, self.base)
            failpoint("checkpoint.begin")
        manifest = self.writer.step(self._storage)
        if manifest is not None:
            self.writer = None
            self.manifest = manifest
            self._applier.checkpoint_done(manifest.revision, manifest.written_bytes)
            failpoint("checkpoint.done")

    def _compact(self) -> None:
        if self._compaction is None:
            if self.writer is not None or self._applier.checkpoint_pending:
                return
            if self.manifest is None:  # nothing was ever logged
                self.end_compaction(Compacted(0, 0))
                return
            self._compaction = Compaction(self.manifest, self.base)
        done = self._compaction.step(self._storage)
        # Updated at once: the next checkpoint must not delete the new base's parts.
        self.base = self._compaction.base
        if done:
            failpoint("compact.done")
            self.end_compaction(self._compaction.result)

    def end_compaction(self, outcome: Compacted | RequestError) -> None:
        """Report the outcome of the compaction that was asked for, if there is one."""
        done, self.when_compacted, self._compaction = self.when_compacted, None, None
        if done is not None:
            done(outcome)

    def abort(self, error: RequestError) -> None:
        """Give up what is in progress, after a failed write."""
        self._uncertain = None if self.writer is None else self.writer.tried
        self.writer = None
        self.end_compaction(error)

    def resume(self, manifest: bytes | None, base: Manifest | None) -> None:
        """Continue with what the storage holds after a failed write.

        Parameters
        ----------
        manifest
            The current one, as it was read back.
        base
            As `read_base` returned it.
        """
        if self._uncertain is not None and manifest == self._uncertain.to_bytes():
            # Any other manifest was current before the failure, or damaged at the start.
            self.manifest = self._uncertain
        self.base = base
        self._applier.checkpoint_done(0 if self.manifest is None else self.manifest.revision)
