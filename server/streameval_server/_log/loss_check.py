"""Compares a log's file with the witnesses of what was acknowledged, before it is opened.

Opening a log ends what its write-ahead log can tell, so a loss is searched for first, and a log
whose loss is not accepted is left as it is.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from streameval_server._log.acked_revision import AckedRevision
from streameval_server._log.loss import LostRowsError, loss_of
from streameval_server._log.schema import (
    connect_read_only,
    ensure_schema,
    is_empty,
    refuse_special_files,
    write_history,
)
from streameval_server._log.wal_scan import find_wal_damage
from streameval_server._model.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streameval_server._log.acked_revision import AckedRevisionFile
    from streameval_server._log.history import History
    from streameval_server._log.loss import Loss


def find_loss(
    path: Path,
    acked: AckedRevision | None,
    connect: Callable[[Path], sqlite3.Connection] = connect_read_only,
) -> Loss | None:
    """Return what a log has lost; None when nothing contradicts it. O(write-ahead log).

    A server may be writing to the log: the witnesses are read before the log itself.

    Parameters
    ----------
    path
        The database, which need not exist.
    acked
        As `AckedRevisionFile.read` returned it.
    connect
        Returns a connection that only reads.

    Raises
    ------
    StorageError
        When a file cannot be read, or is not a log.
    sqlite3.Error
        When SQLite cannot read it.
    """
    refuse_special_files(path)
    if not path.exists() or not path.stat().st_size:
        return loss_of(acked, None, 0, None)
    try:
        damage = find_wal_damage(path)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    if path.with_name(f"{path.name}-journal").exists():
        _roll_back(path)
    with closing(connect(path)) as connection:
        if is_empty(connection):
            return loss_of(acked, damage, 0, None)
        ensure_schema(connection, path)
        connection.execute("BEGIN")
        (last,) = connection.execute("SELECT max(revision) FROM log").fetchone()
        found = None
        if acked is not None:
            found = connection.execute(
                "SELECT crc32 FROM log WHERE revision = ?", (acked.revision,)
            ).fetchone()
    return loss_of(acked, damage, int(last or 0), None if found is None else found[0])


def _roll_back(path: Path) -> None:
    """Undo the transaction that a crash has interrupted while the log's file was made.

    It was not in WAL mode yet, and nothing was acknowledged. A connection that may only read
    cannot undo it.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def check_loss(path: Path, file: AckedRevisionFile, *, accept: bool) -> Loss | None:
    """Return what is lost and accepted; None when nothing is lost.

    An accepted loss is noticed again until `record_loss` and a write of the file: what the
    write-ahead log tells of it is written to the file first.

    Parameters
    ----------
    path, file
        The database, and the file of its acknowledged revision.
    accept
        Whether the operator accepts a loss.

    Raises
    ------
    LostRowsError
        When it is not accepted; nothing was changed.
    StorageError, sqlite3.Error
        As `find_loss`.
    """
    acked = file.read()
    loss = find_loss(path, acked)
    if loss is None:
        return None
    if not accept:
        raise lost_rows(path, loss)
    if acked is None or acked.revision < loss.acked_revision:
        file.write(AckedRevision(loss.acked_revision, 0))
    return loss


def lost_rows(path: Path, loss: Loss) -> LostRowsError:
    """Return the error of a loss that is not accepted."""
    return LostRowsError(
        f"{path}: {loss}. Nothing was changed: restore a backup, or start once with "
        "--accept-loss to go on with what is left",
        loss,
    )


def record_loss(connection: sqlite3.Connection, history: History, loss: Loss) -> History:
    """Record an accepted loss in the log; return the history that begins with it."""
    after = history.after(loss)
    connection.execute("BEGIN IMMEDIATE")
    write_history(connection, after)
    connection.execute("COMMIT")
    return after
