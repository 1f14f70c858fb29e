"""The log and its checkpoints in SQLite: one file, one transaction per group commit.

The file is in WAL mode with ``synchronous=FULL``: a commit returns after the disk has it.
Every row carries a CRC-32 of all its columns, computed on from the previous row's, and revisions
have no gaps. So a damaged file is refused, or reads as an exact prefix of what was written,
never as anything else. A prefix that lacks acknowledged rows is refused too (`loss`), unless an
operator accepts the loss. Cost: about 25 us a row of 1,000 cases,
one fdatasync a transaction, a look at the two files a commit (about 10 us); about 9.3 B a
case on disk.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from bisect import bisect
from contextlib import contextmanager, suppress
from functools import cache
from itertools import accumulate, chain
from time import perf_counter, time
from typing import TYPE_CHECKING

from streameval_server._log.acked_revision import AckedRevision, AckedRevisionFile
from streameval_server._log.commit_times import CommitDurations
from streameval_server._log.failpoints import failpoint
from streameval_server._log.history import History
from streameval_server._log.loss_check import check_loss, find_loss, lost_rows, record_loss
from streameval_server._log.rows import LogRow
from streameval_server._log.schema import (
    HISTORY,
    connect_read_only,
    connect_unchanged,
    ensure_schema,
    read_history,
)
from streameval_server._log.storage import verified
from streameval_server._log.wal_copier import (
    MAX_WAL_PAGES,
    WAL_COPY_BYTES,
    WalCopier,
)
from streameval_server._log.wal_scan import copy_growth_bytes
from streameval_server._model.errors import CorruptLogError, DiskFullError, StorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from streameval_server._log.storage import PartKey, PartRow

_PAGE_BYTES = 8_192
"""Page size of a new file. A batch of 1,000 cases is a little longer than a page: writing it
takes a quarter less time than with SQLite's default of 4,096 and no more room; in larger
pages more room stays empty."""
_INSERT = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MAX_INSERT_ROWS = 64
"""Rows of one INSERT statement. Each statement releases the interpreter's lock, and while other
threads are busy, getting it back takes longer than writing a row. A commit of up to this many
rows is a single statement, which is a transaction of its own."""
_MAX_SELECT_PARTS = 64
"""Parts that one query reads."""
_BASE = ("base", 0)
"""The part and revision under which the base's manifest is stored; no part has that name."""
_MAX_DROP_ROWS = 1_024
_MAX_DROP_BYTES = 1 << 20
"""Log rows, and bytes of their payloads, that one `drop` deletes at most."""
_DISK_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
"""SQLite's codes of a write without room, and of no room for the index of the write-ahead log."""
_MIN_ROOM_BYTES = 1 << 16
"""Room that a log needs to be opened and to take a small commit: some pages, and the index of the
write-ahead log."""
_TYPES = (int, int, int, int, str, str, int, int, int, bytes)
"""The types of a log row's columns."""


class SqliteStorage:
    """`Storage` in a file.

    May be opened in one thread and used in another, by one at a time.

    Parameters
    ----------
    path
        The database file; created when it does not exist, in a directory that does.
    read_only
        Read the file as it is when opened; a server may be writing to it.
    wal_copy_bytes
        Bytes of rows after which the write-ahead log is copied into the database.
    max_wal_pages
        Pages of the write-ahead log from which a commit restarts it.
    accept_loss
        Go on with what is left when acknowledged rows are lost: at the first `open` only.

    Attributes
    ----------
    checkpoint_s : float or None
        When a checkpoint last became current, in seconds since 1970; None before.
    """

    can_restore = True

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        wal_copy_bytes: int = WAL_COPY_BYTES,
        max_wal_pages: int = MAX_WAL_PAGES,
        accept_loss: bool = False,
    ) -> None:
        self.checkpoint_s: float | None = None
        self._path = path
        self._read_only = read_only
        self._connection: sqlite3.Connection | None = None
        self._copier = WalCopier(path, max_wal_pages)
        self._wal_copy_bytes = wal_copy_bytes
        self._max_wal_pages = max_wal_pages
        # Bytes of rows that were committed since the last copy was requested.
        self._uncopied_bytes = 0
        self._files: list[tuple[int, int]] = []
        # Payloads of the rows that were to be written last.
        self._append_bytes = 0
        self.durations = CommitDurations()
        self._acked = AckedRevisionFile(path)
        self._accepts_loss = accept_loss
        self._history = History(0)  # until it is opened

    def open(self) -> None:
        """Open the file, and make everything that can be read from it durable.

        Raises
        ------
        StorageError
            When it cannot be opened, or is of an unknown format.
        LostRowsError
            When acknowledged rows are lost and that is not accepted. Nothing was changed.
        """
        try:
            with self._errors("open"):
                self._open()
        except BaseException:
            self.close()
            raise

    def open_unchanged(self) -> None:
        """Open the file for reading on a full disk, without a write, while nothing writes to it.

        The owner of its directory may call it after `open` has failed, and calls `close` before
        the next `open`. What can be read is synced: a write-ahead log that a killed server left
        may be in the system's cache only.

        Raises
        ------
        StorageError
            When it cannot be read so, or has to be changed first: an empty file, an
            accepted loss.
        LostRowsError
            When acknowledged rows are lost and that is not accepted. Nothing was changed.
        """
        try:
            with self._errors("read"):
                self._open_unchanged()
        except OSError as error:
            self.close()
            raise StorageError(f"cannot read {self._path}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def refuse_loss(self, until: int | None = None) -> None:
        """Refuse a file of which acknowledged rows are lost. O(write-ahead log).

        For readers: `open` refuses it itself unless it is read-only.

        Parameters
        ----------
        until
            The last row that will be read; None for the newest.

        Raises
        ------
        LostRowsError
            When rows up to `until` are lost. Nothing was changed.
        StorageError
            When it cannot be read.
        """
        with self._errors("read"):
            loss = find_loss(self._path, self._acked.read())
        if loss is not None and (until is None or until > loss.kept_revision):
            raise lost_rows(self._path, loss)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            failpoint("close.before")
            self._copier.close()
            connection, self._connection = self._connection, None
            # The file is closed nevertheless, and nothing was acknowledged before its commit.
            with suppress(sqlite3.Error):
                connection.close()
        self._acked.close()

    def last_revision(self) -> int:
        """Return the newest row's revision; 0 for an empty log."""
        with self._errors("read"):
            connection = self._opened()
            (last,) = connection.execute("SELECT max(revision) FROM log").fetchone()
            return int(last or 0)

    def checksum_at(self, revision: int) -> int:
        """Return a row's checksum; 0 for revision 0."""
        if not revision:
            return 0
        with self._errors("read"):
            row = (
                self._opened()
                .execute("SELECT crc32 FROM log WHERE revision = ?", (revision,))
                .fetchone()
            )
        if row is None:
            raise CorruptLogError(f"log row {revision} is missing")
        return int(row[0])

    def history(self) -> History:
        """Return the log's history."""
        self._opened()
        return self._history

    @property
    def acked_problem(self) -> str:
        """Why the file of the acknowledged revision cannot be written; empty when it can."""
        return self._acked.problem

    def append(self, rows: Sequence[LogRow]) -> None:
        """Write rows, at least one, in one transaction."""
        began = perf_counter()
        self._append_bytes = sum(len(row.payload) for row in rows)
        with self._errors("write to"):
            connection = self._opened()
            failpoint("disk.append.begin")
            if len(rows) <= _MAX_INSERT_ROWS:
                _insert(connection, rows)  # a transaction of its own
            else:
                connection.execute("BEGIN IMMEDIATE")
                for first in range(0, len(rows), _MAX_INSERT_ROWS):
                    _insert(connection, rows[first : first + _MAX_INSERT_ROWS])
                failpoint("disk.append.insert")
                connection.execute("COMMIT")
            failpoint("disk.append.commit")
        self._check_files()
        self._acked.record(rows[-1].revision, rows[-1].crc32)
        self._uncopied_bytes += self._append_bytes
        if self._uncopied_bytes >= self._wal_copy_bytes:
            self._uncopied_bytes = 0
            self._copier.request()
        self.durations.record(perf_counter() - began)

    def read(self, after: int) -> Iterator[LogRow]:
        """Yield the rows above a revision, oldest first, each one verified."""
        with self._errors("read"):
            connection = self._opened()
            rows = connection.execute(
                "SELECT * FROM log WHERE revision > ? ORDER BY revision", (after,)
            )
            before = None
            for expected, columns in enumerate(rows, after + 1):
                if tuple(map(type, columns)) != _TYPES:
                    raise CorruptLogError(
                        f"log row {expected} is not what was written: wrong types"
                    )
                if before is None:
                    before = self.checksum_at(after)
                row = LogRow._make(columns)
                yield verified(row, expected, before)
                before = row.crc32

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
        self.checkpoint_s = time()

    def manifest(self) -> bytes | None:
        """Return the current manifest."""
        with self._errors("read"):
            connection = self._opened()
            row = connection.execute("SELECT data FROM manifest").fetchone()
            return None if row is None else _blob(row[0], "manifest")

    def read_parts(self, keys: Sequence[PartKey]) -> list[bytes]:
        """Return parts, each joined."""
        found: list[bytes] = []
        with self._errors("read"):
            connection = self._opened()
            for start in range(0, len(keys), _MAX_SELECT_PARTS):
                wanted = keys[start : start + _MAX_SELECT_PARTS]
                whole = [b""] * len(wanted)
                # Nearly all parts are of one piece.
                pieces: dict[int, list[tuple[int, bytes]]] = {}
                rows = connection.execute(_selection(len(wanted)), list(chain(*wanted)))
                for place, piece, data in rows:
                    blob = _blob(data, wanted[place][0])
                    if piece:
                        pieces.setdefault(place, []).append((piece, blob))
                    else:
                        whole[place] = blob
                for place, others in pieces.items():
                    whole[place] += b"".join(data for _, data in sorted(others))
                found += whole
        return found

    def part_keys(self) -> list[PartKey]:
        """Return the keys of all stored parts, of the current checkpoint or not."""
        with self._errors("read"):
            found = self._opened().execute("SELECT DISTINCT part, revision FROM part").fetchall()
            return [key for key in found if key not in {_BASE, HISTORY}]

    def prune(self, keep: Collection[PartKey]) -> None:
        """Delete all parts but these."""
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
        """Return the base's manifest, which is stored as a part."""
        return self.read_parts([_BASE])[0] or None

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
        """Delete about 1 MiB of the rows below a revision; their pages are reused."""
        with self._errors("write to"):
            connection = self._opened()
            rows = connection.execute(
                "SELECT revision, length(payload) FROM log WHERE revision < ?"
                " ORDER BY revision LIMIT ?",
                (before, _MAX_DROP_ROWS),
            ).fetchall()
            if not rows:
                return 0
            sizes = accumulate(size for _, size in rows)
            count = max(1, bisect(list(sizes), _MAX_DROP_BYTES))
            connection.execute("BEGIN IMMEDIATE")
            failpoint("disk.drop.begin")
            connection.execute("DELETE FROM log WHERE revision <= ?", (rows[count - 1][0],))
            failpoint("disk.drop.delete")
            connection.execute("COMMIT")
            failpoint("disk.drop.commit")
            return count

    def _open(self) -> None:
        if self._read_only:
            self._open_read_only()
            return
        # Readable by its owner only; SQLite gives the -wal and -shm files the same mode. Only a
        # new file is opened here: closing an existing one would release the locks of other
        # connections of this process. SQLite reports a bad path below.
        with suppress(OSError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        failpoint("disk.open.file")
        loss = check_loss(self._path, self._acked, accept=self._accepts_loss)
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=5.0
        )
        self._connection = connection
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # has no effect on an existing file
        (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if journal != "wal":
            raise StorageError(f"{self._path}: SQLite cannot keep a write-ahead log there")
        failpoint("disk.open.wal")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {self._max_wal_pages}")
        ensure_schema(connection, self._path)
        failpoint("disk.open.schema")
        # After a failed sync the system's cache may still return pages that never
        # reached the disk. Copying the write-ahead log into the file writes and syncs
        # them again, so everything that is read from here on is durable.
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StorageError(f"{self._path}: another process is using it")
        failpoint("disk.open.durable")
        self._files = _files(self._path)
        self._history = read_history(connection)
        if loss is not None:
            self._history = record_loss(connection, self._history, loss)
            last = self.last_revision()
            self._acked.write(AckedRevision(last, self.checksum_at(last)))
        self._accepts_loss = False

    def _open_read_only(self) -> None:
        self._connection = connection = connect_read_only(self._path)
        # One transaction, so that all reads see the same state of the file.
        connection.execute("BEGIN")
        ensure_schema(connection, self._path)
        self._history = read_history(connection)

    def _open_unchanged(self) -> None:
        loss = find_loss(self._path, self._acked.read(), connect_unchanged)
        if loss is not None and self._accepts_loss:
            raise StorageError(f"{self._path}: {loss}. To record that there must be room")
        if loss is not None:
            raise lost_rows(self._path, loss)
        with suppress(FileNotFoundError):
            descriptor = os.open(self._path.with_name(f"{self._path.name}-wal"), os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self._connection = connection = connect_unchanged(self._path)
        connection.execute("BEGIN")
        ensure_schema(connection, self._path)
        self._history = read_history(connection)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StorageError(f"{self._path} is closed")
        return self._connection

    def _check_files(self) -> None:
        """Refuse files that were removed or replaced: what is written to them is lost. O(1)."""
        with suppress(FileNotFoundError):
            if _files(self._path) == self._files:
                return
        raise StorageError(
            f"{self._path} or its -wal was removed or replaced while the server used it"
        )

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn SQLite's errors into StorageError and CorruptLogError."""
        try:
            yield
        except sqlite3.OperationalError as error:
            problem = f"cannot {what} {self._path}: {_one_line(error)}"
            if getattr(error, "sqlite_errorcode", 0) in _DISK_FULL:
                raise DiskFullError(problem, self._missing_bytes()) from error
            raise StorageError(problem) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # A message of SQLite that quotes damaged text may not be valid UTF-8.
            raise CorruptLogError(f"cannot {what} {self._path}: {_one_line(error)}") from error

    def _missing_bytes(self) -> int:
        """Return how much room the disk lacks until the log takes its next commit; 0 if unknown.

        To be opened, it copies the write-ahead log into the database, whose room is then free
        for the next one.
        """
        try:
            needed = copy_growth_bytes(self._path)
            wal = self._path.with_name(f"{self._path.name}-wal")
            freed = wal.stat().st_size if wal.exists() else 0
            needed += max(self._append_bytes + _MIN_ROOM_BYTES - freed, 0)
            return max(needed - shutil.disk_usage(self._path.parent).free, 0)
        except OSError:
            return 0


def _files(path: Path) -> list[tuple[int, int]]:
    """Return which files are a log and its write-ahead log."""
    found = [path.stat(), path.with_name(f"{path.name}-wal").stat()]
    return [(status.st_dev, status.st_ino) for status in found]


def _insert(connection: sqlite3.Connection, rows: Sequence[LogRow]) -> None:
    connection.execute(_insertion(len(rows)), list(chain.from_iterable(rows)))


@cache
def _insertion(rows: int) -> str:
    """Return the statement that inserts `rows` rows."""
    return _INSERT + ", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" * (rows - 1)


@cache
def _selection(parts: int) -> str:
    """Return the statement that selects the pieces of `parts` parts, with the part's place."""
    keys = ", ".join(f"({place}, ?, ?)" for place in range(parts))
    # A cross join keeps the order of the tables: each part is looked up in the index.
    return (
        f"SELECT wanted.column1, piece, data FROM (VALUES {keys}) AS wanted CROSS JOIN part "  # noqa: S608 - no values
        "ON part.part = wanted.column2 AND part.revision = wanted.column3"
    )


def _one_line(error: Exception) -> str:
    """Return SQLite's message, which may quote a damaged file, as one printable line."""
    text = " ".join(str(error).split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _blob(data: object, what: str) -> bytes:
    if not isinstance(data, bytes):
        raise CorruptLogError(f"the checkpoint's {what} is not what was written: wrong type")
    return data
