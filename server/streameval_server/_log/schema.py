"""The SQLite file of a log: its tables, its format numbers, and read-only connections."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from streameval_server._log.history import History
from streameval_server._model.errors import CorruptLogError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION_ID = 0x5345564C
"""SQLite's field for the program that owns a file: "SEVL"."""
UNRELEASED_ID = 0x53654C67
"""The mark of logs that were written before 0.1.0; they are refused, and never read as format 1."""
SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE log (
    revision    INTEGER PRIMARY KEY,
    received_us INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    format      INTEGER NOT NULL,
    stream      TEXT NOT NULL,
    producer    TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    crc32       INTEGER NOT NULL,
    payload     BLOB NOT NULL
) STRICT;
CREATE TABLE part (
    part        TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    piece       INTEGER NOT NULL,
    data        BLOB NOT NULL,
    PRIMARY KEY (part, revision, piece)
) STRICT;
CREATE TABLE manifest (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    data        BLOB NOT NULL
) STRICT;
"""
HISTORY = ("history", 0)
"""The part and revision under which the history is stored; no checkpoint has such a part."""


def ensure_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of an empty file; refuse any file that is no log of this version.

    Raises
    ------
    StorageError
        When the file is not a log of this version; it is not changed.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if is_empty(connection):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        write_history(connection, History.begin())
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    elif application == UNRELEASED_ID:
        raise StorageError(
            f"{path} was written by a development version from before 0.1.0, whose log no release "
            "reads: move it away, or export its streams with the version that wrote it"
        )
    elif application != APPLICATION_ID:
        raise StorageError(f"{path} is not a streameval log")
    elif version != SCHEMA_VERSION:
        raise StorageError(
            f"{path} has format {version}, this version knows {SCHEMA_VERSION}: "
            "open it with the release that wrote it, or a newer one"
        )


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether a database has no tables and belongs to no program yet."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return not (application or version or tables)


def read_history(connection: sqlite3.Connection) -> History:
    """Return the log's history.

    Raises
    ------
    CorruptLogError
        When it is not what was written.
    """
    row = connection.execute(
        "SELECT data FROM part WHERE part = ? AND revision = ?", HISTORY
    ).fetchone()
    if row is None or not isinstance(row[0], bytes):
        raise CorruptLogError("the log's history is missing")
    return History.from_bytes(row[0])


def write_history(connection: sqlite3.Connection, history: History) -> None:
    """Replace the log's history."""
    connection.execute(
        "INSERT OR REPLACE INTO part VALUES (?, ?, 0, ?)", (*HISTORY, history.to_bytes())
    )


def refuse_special_files(database: Path) -> None:
    """Refuse a FIFO, device or directory in the place of a log's file, before SQLite opens it.

    SQLite would wait for ever for what a FIFO's writer writes.

    Raises
    ------
    StorageError
        With the path.
    """
    for suffix in ("", "-wal", "-shm", "-journal"):
        path = database.with_name(database.name + suffix)
        if path.exists() and not path.is_file():
            raise StorageError(f"cannot open {path}: it is not a regular file; move it away")


def connect_unchanged(path: Path) -> sqlite3.Connection:
    """Return a connection that reads a log on a full disk; only its directory's owner may.

    SQLite shares an index of the write-ahead log between processes, in a file of 32 KiB. Without
    a write-ahead log the database alone is the log, and is read without that file: no other
    process may write to it meanwhile. With one, the index is used that a crash has left.
    """
    refuse_special_files(path)
    wal = path.with_name(f"{path.name}-wal")
    has_wal = wal.exists() and wal.stat().st_size > 0
    uri = f"{path.resolve().as_uri()}?mode=ro{'' if has_wal else '&immutable=1'}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write and does not create a missing file.

    Raises as `refuse_special_files`.
    """
    refuse_special_files(path)
    uri = f"{path.resolve().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)
