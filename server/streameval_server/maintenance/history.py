"""What was known then: the state at an earlier revision, from the log.

A label that comes late changes the pane of its prediction; this is how to see
what an answer was before it came.
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
    from streameval_server._log.entries import LogRow
    from streameval_server._log.storage import Storage


def replay_until(
    data_directory: Path, revision: int | None = None, *, limits: Limits | None = None
) -> Engine:
    """Return the engine as it was at a revision. O(bytes of the log up to there).

    The log is only read; a server may be running on it.

    Parameters
    ----------
    data_directory
        The server's.
    revision
        From the log's first (0, which is before anything, unless it was compacted) to its
        last, which is the default.
    limits
        Those of the server; its caps on cells decide what counts hold.

    Raises
    ------
    StorageError
        When there is no such log, it has not come so far, or begins later.
    CorruptLogError
        When it is not what was written.
    """
    storage = SqliteStorage(log_of(data_directory), read_only=True)
    storage.open()
    try:
        return _replayed(storage, revision, limits or Limits())
    finally:
        storage.close()


def _replayed(storage: Storage, revision: int | None, limits: Limits) -> Engine:
    last = storage.last_revision()
    until = last if revision is None else revision
    if not 0 <= until <= last:
        raise StorageError(f"the log has revisions 0 to {last}, and none {until}")
    base = read_base(storage)
    if base is not None and until < base.revision:
        raise StorageError(
            f"the log was compacted and begins at revision {base.revision}: what was known at "
            f"revision {until} is not there any more. A backup from before has it"
        )
    engine, _, _ = engine_at_checkpoint(storage, base, limits)
    if engine.revision > until:
        engine = engine_at_base(storage, base, limits)
    replay(_until(storage.read(engine.revision), until), Applier(engine, limits, keeps=False))
    return engine


def _until(rows: Iterator[LogRow], revision: int) -> Iterator[LogRow]:
    for row in rows:
        if row.revision > revision:
            return
        yield row
