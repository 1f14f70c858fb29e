"""Copies of a log: consistent, of one revision, while a server writes to it.

SQLite's own online backup reads within one transaction, so the copy is of one
moment, and commits go on; the write-ahead log grows meanwhile by what they write.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from streameval_server._log.data_directory import LOG_NAME, log_of
from streameval_server._log.schema import connect_read_only
from streameval_server._model.errors import StorageError

if TYPE_CHECKING:
    import threading

_PAGES_PER_STEP = 256
"""So many pages (2 MiB; of a log that began with pages of 4 KiB, 1 MiB) are copied before
anybody looks whether it is still wanted."""
_RESERVED_BYTES = 256 << 20
"""So much is left to the log beside which a copy is made."""
_PREFIX = "backup-"


class BackupStoppedError(StorageError):
    """Nobody wants the copy any more."""


def copy_log(
    source: Path, target: Path, cancelled: threading.Event | None = None, *, reserve: int = 0
) -> int:
    """Copy a log as it is at one moment into a new file; return its last revision. O(bytes).

    `reserve` bytes of the target's disk are left for others.

    Raises
    ------
    StorageError
        When either cannot be used, or the target's disk has no room.
    BackupStoppedError
        When `cancelled` was set.
    """

    def check_cancelled(_status: int, _remaining: int, _total: int) -> None:
        if cancelled is not None and cancelled.is_set():
            raise BackupStoppedError("the backup was given up")

    try:
        with (
            closing(connect_read_only(source)) as log,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            # One transaction from the first page to the last: no restart when somebody commits.
            log.execute("BEGIN")
            (last,) = log.execute("SELECT max(revision) FROM log").fetchone()
            (size,) = log.execute(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            ).fetchone()
            free = shutil.disk_usage(target.parent).free
            if size + reserve > free:
                raise StorageError(
                    f"a copy of {source} takes {size:,} bytes, "
                    f"and {target.parent} has {free:,} left"
                )
            log.backup(copy, pages=_PAGES_PER_STEP, progress=check_cancelled)
            # One file, and nothing beside it, whoever opens it; a server turns that back.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise StorageError(f"cannot copy {source} to {target}: {error}") from error
    return int(last or 0)


class LogCopy:
    """A copy of a directory's log in a file beside it, its owner's alone, until `close`.

    Attributes
    ----------
    revision : int
        The last in it.
    size : int
        Its length in bytes.

    Raises
    ------
    StorageError
        As `copy_log`.
    """

    def __init__(self, directory: Path, cancelled: threading.Event | None = None) -> None:
        source = log_of(directory)
        place = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=directory))
        try:
            path = place / LOG_NAME
            self.revision = copy_log(source, path, cancelled, reserve=_RESERVED_BYTES)
            self.size = path.stat().st_size
            self._file = path.open("rb")
            self._read_bytes = 0
            self._digest = hashlib.sha256()
        except BaseException:
            shutil.rmtree(place)
            raise
        self._place = place

    def read(self, most: int) -> bytes:
        """Return the next bytes; none at the end."""
        data = self._file.read(most)
        self._read_bytes += len(data)
        self._digest.update(data)
        return data

    @property
    def ended(self) -> bool:
        """Whether all of it was read."""
        return self._read_bytes == self.size

    @property
    def sha256(self) -> str:
        """Of what was read, as hexadecimal digits."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Remove it."""
        self._file.close()
        shutil.rmtree(self._place)


def remove_leftovers(directory: Path) -> None:
    """Remove copies that a killed server left in its directory."""
    for place in directory.glob(f"{_PREFIX}*"):
        shutil.rmtree(place)


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256, as hexadecimal digits. O(bytes)."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
