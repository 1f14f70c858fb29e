"""The log and its checkpoints in SQLite: one file, one transaction per group commit.

WAL with ``synchronous=FULL``: a commit returns after the disk has it. Every row
carries a CRC-32 of all its columns and follows the row before without a gap,
so a file that was damaged is refused, or reads as an exact prefix of what was
written; it never reads as something else. Cost: about 25 us a row of 1,000
cases, and one fdatasync a transaction; about 9.3 B a case.
"""

from __future__ import annotations

import os
import sqlite3
from bisect import bisect
from contextlib import contextmanager, suppress
from functools import cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from streameval_server._log.entries import LogRow
from streameval_server._log.failpoints import failpoint
from streameval_server._log.storage import verified
from streameval_server._log.wal_checkpointer import WalCopier
from streameval_server._model.errors import CorruptLogError, StorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from streameval_server._log.storage import PartKey, PartRow

APPLICATION_ID = 0x53654C67
"""SQLite's mark of whose file it is: "SeLg"."""
SCHEMA_VERSION = 1
_PAGE_BYTES = 8_192
"""A batch of 1,000 cases is a little longer: writing it takes a quarter less than with SQLite's
own 4,096, and no more room. Larger pages leave a part of themselves empty."""

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
_INSERT = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERTED_AT_ONCE = 64
"""Rows of one statement. Each lets go of the interpreter, and where other threads are busy it
waits to have it again, which takes longer than writing a row. So no more rows than these are
written by one statement alone: it is a transaction of its own."""
_BASE = ("base", 0)
"""The key of the base's manifest; no part of a checkpoint is called so."""
_MOST_DROPPED = 1_024
_DROPPED_BYTES = 1 << 20
_TYPES = (int, int, int, int, str, str, int, int, int, bytes)


class SqliteStorage:
    """`Storage` in a file.

    May be opened in one thread and used in another, by one at a time.

    Parameters
    ----------
    path
        The database file; made when it does not exist, in a directory that does.
    read_only
        Only look, at what is there when it is opened; a server may be running.
    """

    keeps = True

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._connection: sqlite3.Connection | None = None
        self._copier = WalCopier(path)

    def open(self) -> None:
        """Open the file, and make durable whatever of it is visible.

        Raises
        ------
        StorageError
            When it cannot be opened, or is of an unknown format.
        """
        try:
            with self._errors("open"):
                self._open()
        except StorageError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            failpoint("close.before")
            self._copier.close()
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except sqlite3.Error:
                # The descriptors are gone all the same, and what matters was
                # acknowledged only after its commit.
                return

    def last_revision(self) -> int:
        """Return the newest row's revision; 0 for an empty log."""
        with self._errors("read"):
            connection = self._opened()
            (last,) = connection.execute("SELECT max(revision) FROM log").fetchone()
            return int(last or 0)

    def append(self, rows: Sequence[LogRow]) -> None:
        """Write rows, at least one, in one transaction."""
        with self._errors("write to"):
            connection = self._opened()
            failpoint("disk.append.begin")
            if len(rows) <= _INSERTED_AT_ONCE:
                _insert(connection, rows)  # a transaction of its own
            else:
                connection.execute("BEGIN IMMEDIATE")
                for first in range(0, len(rows), _INSERTED_AT_ONCE):
                    _insert(connection, rows[first : first + _INSERTED_AT_ONCE])
                failpoint("disk.append.insert")
                connection.execute("COMMIT")
            failpoint("disk.append.commit")
            self._copier.wrote(sum(len(row.payload) for row in rows))

    def read(self, after: int) -> Iterator[LogRow]:
        """Yield the rows above a revision, oldest first, each one verified."""
        with self._errors("read"):
            connection = self._opened()
            rows = connection.execute(
                "SELECT * FROM log WHERE revision > ? ORDER BY revision", (after,)
            )
            for expected, columns in enumerate(rows, after + 1):
                if tuple(map(type, columns)) != _TYPES:
                    raise CorruptLogError(
                        f"log row {expected} is not what was written: wrong types"
                    )
                yield verified(LogRow._make(columns), expected)

    def write_parts(self, rows: Sequence[PartRow]) -> None:
        """Write pieces of a checkpoint in one transaction."""
        with self._errors("write to"):
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            failpoint("disk.parts.begin")
            connection.executemany("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?)", rows)
            failpoint("disk.parts.insert")
            connection.execute("COMMIT")
            failpoint("disk.parts.commit")

    def write_manifest(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Make a checkpoint current."""
        with self._errors("write to"):
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            failpoint("disk.manifest.begin")
            connection.execute("INSERT OR REPLACE INTO manifest VALUES (1, ?)", (manifest,))
            failpoint("disk.manifest.insert")
            connection.executemany("DELETE FROM part WHERE part = ? AND revision = ?", superseded)
            failpoint("disk.manifest.delete")
            connection.execute("COMMIT")
            failpoint("disk.manifest.commit")

    def manifest(self) -> bytes | None:
        """Return the current manifest."""
        with self._errors("read"):
            connection = self._opened()
            row = connection.execute("SELECT data FROM manifest").fetchone()
            return None if row is None else _blob(row[0], "manifest")

    def read_part(self, part: str, revision: int) -> bytes:
        """Return a part, joined."""
        with self._errors("read"):
            connection = self._opened()
            rows = connection.execute(
                "SELECT data FROM part WHERE part = ? AND revision = ? ORDER BY piece",
                (part, revision),
            )
            return b"".join(_blob(data, part) for (data,) in rows)

    def part_keys(self) -> list[PartKey]:
        """Return which parts of checkpoints there are, current or not."""
        with self._errors("read"):
            found = self._opened().execute("SELECT DISTINCT part, revision FROM part").fetchall()
            return [key for key in found if key != _BASE]

    def prune(self, keep: Collection[PartKey]) -> None:
        """Drop all parts but these."""
        with self._errors("write to"):
            connection = self._opened()
            stale = [key for key in self.part_keys() if key not in keep]
            if stale:
                connection.execute("BEGIN IMMEDIATE")
                failpoint("disk.prune.begin")
                connection.executemany("DELETE FROM part WHERE part = ? AND revision = ?", stale)
                failpoint("disk.prune.delete")
                connection.execute("COMMIT")
                failpoint("disk.prune.commit")

    def base(self) -> bytes | None:
        """Return the base's manifest, which stands among the parts."""
        return self.read_part(*_BASE) or None

    def write_base(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Make a checkpoint the log's base."""
        with self._errors("write to"):
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            failpoint("disk.base.begin")
            connection.execute(
                "INSERT OR REPLACE INTO part VALUES (?, ?, 0, ?)", (*_BASE, manifest)
            )
            failpoint("disk.base.insert")
            connection.executemany("DELETE FROM part WHERE part = ? AND revision = ?", superseded)
            failpoint("disk.base.delete")
            connection.execute("COMMIT")
            failpoint("disk.base.commit")

    def drop(self, before: int) -> int:
        """Drop rows of about 1 MiB below a revision in one transaction; pages are used again."""
        with self._errors("write to"):
            connection = self._opened()
            rows = connection.execute(
                "SELECT revision, length(payload) FROM log WHERE revision < ?"
                " ORDER BY revision LIMIT ?",
                (before, _MOST_DROPPED),
            ).fetchall()
            if not rows:
                return 0
            sizes = accumulate(size for _, size in rows)
            count = max(1, bisect(list(sizes), _DROPPED_BYTES))
            connection.execute("BEGIN IMMEDIATE")
            failpoint("disk.drop.begin")
            connection.execute("DELETE FROM log WHERE revision <= ?", (rows[count - 1][0],))
            failpoint("disk.drop.delete")
            connection.execute("COMMIT")
            failpoint("disk.drop.commit")
            return count

    def _open(self) -> None:
        if self._read_only:
            self._look()
            return
        # For its owner only; SQLite gives the files beside it the same mode. Only a new one
        # is opened here: to close any other would end the locks of its connections. What
        # is wrong with the path, SQLite says below.
        with suppress(OSError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        failpoint("disk.open.file")
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=5.0
        )
        self._connection = connection
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a new file; others keep theirs
        (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if journal != "wal":
            raise StorageError(f"{self._path}: SQLite cannot keep a write-ahead log there")
        failpoint("disk.open.wal")
        connection.execute("PRAGMA synchronous = FULL")
        self._copier.take_over(connection)
        self._check_format(connection)
        failpoint("disk.open.schema")
        # After a failed sync, pages that never reached the disk may still be
        # read from the system's cache. Copying the write-ahead log into the
        # file writes them anew and syncs them: what is seen below is durable.
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StorageError(f"{self._path}: another process is using it")
        failpoint("disk.open.durable")

    def _look(self) -> None:
        self._connection = connection = connected_to_read(self._path)
        # One transaction, so that everything that is read is of one moment.
        connection.execute("BEGIN")
        self._check_format(connection)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StorageError(f"{self._path} is closed")
        return self._connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new file, or refuse one that is not ours."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not (application or version or tables):
            connection.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID};"
                f" PRAGMA user_version = {SCHEMA_VERSION}; {_SCHEMA} COMMIT;"
            )
        elif application != APPLICATION_ID:
            raise StorageError(f"{self._path} is not a streameval log")
        elif version != SCHEMA_VERSION:
            raise StorageError(
                f"{self._path} has format {version}, this version knows {SCHEMA_VERSION}: "
                "open it with the release that wrote it, or a newer one"
            )

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StorageError(f"cannot {what} {self._path}: {_one_line(error)}") from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # Of damaged text, SQLite's own messages cannot always be decoded.
            raise CorruptLogError(f"cannot {what} {self._path}: {_one_line(error)}") from error


def _insert(connection: sqlite3.Connection, rows: Sequence[LogRow]) -> None:
    connection.execute(_insertion(len(rows)), list(chain.from_iterable(rows)))


@cache
def _insertion(rows: int) -> str:
    """Return the statement that writes so many rows."""
    return _INSERT + ", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" * (rows - 1)


def connected_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write, and makes no file where there is none."""
    uri = f"{path.resolve().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)


def _one_line(error: Exception) -> str:
    """Return what SQLite says, which may quote a damaged file, as a terminal bears it."""
    text = " ".join(str(error).split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _blob(data: object, what: str) -> bytes:
    if not isinstance(data, bytes):
        raise CorruptLogError(f"the checkpoint's {what} is not what was written: wrong type")
    return data
