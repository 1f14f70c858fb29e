"""The SQLite file of a log: its tables, its format numbers, and read-only connections."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from streameval_server._model.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION_ID = 0x53654C67
"""SQLite's field for the program that owns a file: "SeLg"."""
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


def ensure_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of an empty file; refuse a file of another program or format.

    Raises
    ------
    StorageError
        When the file is not a log of this version; it is not changed.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not (application or version or tables):
        connection.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID};"
            f" PRAGMA user_version = {SCHEMA_VERSION}; {_SCHEMA} COMMIT;"
        )
    elif application != APPLICATION_ID:
        raise StorageError(f"{path} is not a streameval log")
    elif version != SCHEMA_VERSION:
        raise StorageError(
            f"{path} has format {version}, this version knows {SCHEMA_VERSION}: "
            "open it with the release that wrote it, or a newer one"
        )


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write and does not create a missing file."""
    uri = f"{path.resolve().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)
