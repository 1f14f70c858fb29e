"""Compaction: the log begins anew at a checkpoint, and what was before it goes.

That checkpoint becomes the log's *base*: its parts are kept for as long as the
log begins there, whatever newer checkpoints supersede. So base and log together
still say everything from there on, and a damaged checkpoint is still replaced by
them. The row of the base's own revision stays: it says how far the log has come.

The base is durable before the first row goes. A crash in between leaves rows
that nobody needs; the next compaction drops them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._core.engine import Engine
from streameval_server._log.checkpoint import Manifest
from streameval_server._log.failpoints import failpoint
from streameval_server._model.errors import CorruptLogError

if TYPE_CHECKING:
    from streameval_server._log.storage import PartKey, Storage
    from streameval_server._model.limits import Limits


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of a compaction.

    Attributes
    ----------
    revision : int
        Where the log begins: the state at this revision is kept.
    dropped : int
        Log rows that are gone.
    """

    revision: int
    dropped: int


class Compaction:
    """Drops the log before a checkpoint, a step at a time, between commits.

    Parameters
    ----------
    manifest
        The current checkpoint's.
    before
        The base's until now; None when the log is whole.

    Attributes
    ----------
    base : Manifest or None
        The log's, now.
    dropped : int
        Rows that are gone.
    """

    def __init__(self, manifest: Manifest, before: Manifest | None) -> None:
        self.base = before
        self.dropped = 0
        self._manifest = manifest
        kept = part_keys(manifest)
        self._superseded = sorted(part_keys(before) - kept)

    def step(self, storage: Storage) -> bool:
        """Do about as much as a commit does; return whether that was all."""
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
        """What became of it."""
        return Compacted(self._manifest.revision, self.dropped)


def part_keys(manifest: Manifest | None) -> set[PartKey]:
    """Return which parts a manifest names."""
    return set() if manifest is None else set(manifest.keys().items())


def read_base(storage: Storage) -> Manifest | None:
    """Return the manifest of the log's base; None when the log is whole.

    Raises
    ------
    CorruptLogError
        When it is not what was written.
    """
    data = storage.base()
    return None if data is None else Manifest.from_bytes(data)


def engine_at_base(storage: Storage, base: Manifest | None, limits: Limits) -> Engine:
    """Return the engine where the log begins: empty when the log is whole. O(bytes).

    Raises
    ------
    CorruptLogError
        When the base is not what was written.
    """
    if base is None:
        return Engine(limits)
    try:
        parts = base.read(storage)
        return Engine.restore(limits, base.revision, base.received_us, parts)
    except CorruptLogError as error:
        raise CorruptLogError(
            f"the log begins at revision {base.revision}, where {error}"
        ) from error
