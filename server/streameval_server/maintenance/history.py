"""The state at an earlier revision, restored from the log.

A label that arrives late changes the pane of its prediction. Here is how to see what an
answer was before it arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval_server._core.applier import Applier
from streameval_server._core.replay import engine_at_base, engine_at_checkpoint, replay
from streameval_server._log.checkpoint import read_base
from streameval_server._log.data_directory import log_of
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import StorageError
from streameval_server._model.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streameval_server._core.engine import Engine
    from streameval_server._log.rows import LogRow
    from streameval_server._log.storage import Storage


def replay_until(
    data_directory: Path, revision: int | None = None, *, limits: Limits | None = None
) -> Engine:
    """Return the engine as it was at a revision. O(bytes of the log up to that revision).

    The log is only read; a server may be running on it. If the log has lost acknowledged rows, only
    states before the first lost row are returned.

    Parameters
    ----------
    data_directory
        The server's.
    revision
        From the beginning of the log (0, before its first row, unless it was compacted) to
        its last revision, which is the default.
    limits
        Those of the server: its limits on cells decide to which resolution counts are kept.

    Raises
    ------
    StorageError
        When there is no log, or the revision is not between its beginning and its end.
    CorruptLogError
        When it is not what was written, or has lost acknowledged rows up to the revision.
    """
    storage = SqliteStorage(log_of(data_directory), read_only=True)
    storage.open()
    try:
        storage.refuse_loss(revision)
        return _replay_until(storage, revision, limits or Limits())
    finally:
        storage.close()


def state_hash(directory: Path, revision: int | None, limits: Limits) -> tuple[int, str]:
    """Return a revision and the hash of its state. O(bytes of the log up to that revision).

    A server may be running on the directory.

    Parameters
    ----------
    directory, revision, limits
        As `replay_until`.

    Raises
    ------
    StorageError, CorruptLogError
        As `replay_until`.
    """
    engine = replay_until(directory, revision, limits=limits)
    return engine.revision, engine.state_hash()


def _replay_until(storage: Storage, revision: int | None, limits: Limits) -> Engine:
    last = storage.last_revision()
    until = last if revision is None else revision
    if not 0 <= until <= last:
        raise StorageError(f"the log has revisions 0 to {last}, and none {until}")
    base = read_base(storage)
    if base is not None and until < base.revision:
        raise StorageError(
            f"the log was compacted and begins at revision {base.revision}: the state at "
            f"revision {until} is gone. Use a backup from before the compaction"
        )
    engine, _, _ = engine_at_checkpoint(storage, base, limits)
    if engine.revision > until:
        engine = engine_at_base(storage, base, limits)
    replay(
        _rows_until(storage.read(engine.revision), until),
        Applier(engine, limits, checkpoints=False),
    )
    return engine


def _rows_until(rows: Iterator[LogRow], revision: int) -> Iterator[LogRow]:
    for row in rows:
        if row.revision > revision:
            return
        yield row
