"""Copies of a log, consistent at one revision, while a server writes to it.

SQLite's online backup reads within one transaction, so the copy has the state of one moment
while commits continue. Meanwhile the write-ahead log grows by what they write.
"""

from __future__ import annotations

import hashlib
import logging
import re
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

_log = logging.getLogger(__name__)

_PAGES_PER_STEP = 256
"""Pages that are copied between two checks for cancellation: 2 MiB, or 1 MiB of an old log
with pages of 4 KiB."""
_RESERVED_BYTES = 256 << 20
"""Free space in bytes that a copy on the log's own disk leaves to the log."""
_PREFIX = ".streameval-copy-"
"""Begins the names of folders of temporary copies: hidden, and no name a person would choose."""
_FOLDER = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}\Z")
"""The names that `tempfile.mkdtemp` makes with the prefix."""
_COPY_FILES = frozenset({LOG_NAME, *(f"{LOG_NAME}-{end}" for end in ("journal", "wal", "shm"))})
"""The files that a copy may leave in its folder: the log and SQLite's temporary files for it."""


class BackupStoppedError(StorageError):
    """The copy was cancelled."""


def copy_log(
    source: Path, target: Path, cancelled: threading.Event | None = None, *, reserve: int = 0
) -> int:
    """Copy a log to a new file; return the last revision in the copy. O(bytes).

    Parameters
    ----------
    source, target
        The log's file and the new one.
    cancelled
        Set to stop the copy.
    reserve
        Bytes that must stay free on the target's disk.

    Raises
    ------
    StorageError
        When a file cannot be used, or the target's disk has too little space.
    BackupStoppedError
        When `cancelled` was set.
    """

    def check_cancelled(_status: int, _remaining: int, _total: int) -> None:
        if cancelled is not None and cancelled.is_set():
            raise BackupStoppedError("the backup was cancelled")

    try:
        with (
            closing(connect_read_only(source)) as log,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            # One read transaction for all pages: else each commit would restart the backup.
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
            # Opening the copy then creates no further files; a server switches back to WAL.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise StorageError(f"cannot copy {source} to {target}: {error}") from error
    return int(last or 0)


class LogCopy:
    """A temporary copy of a directory's log, readable by its owner only, until `close`.

    Attributes
    ----------
    revision : int
        The last revision in it.
    size : int
        In bytes.

    Raises
    ------
    StorageError
        As `copy_log`.
    """

    def __init__(self, directory: Path, cancelled: threading.Event | None = None) -> None:
        source = log_of(directory)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=directory))
        try:
            path = folder / LOG_NAME
            self.revision = copy_log(source, path, cancelled, reserve=_RESERVED_BYTES)
            self.size = path.stat().st_size
            self._file = path.open("rb")
            self._read_bytes = 0
            self._digest = hashlib.sha256()
        except BaseException:
            shutil.rmtree(folder)
            raise
        self._folder = folder

    def read(self, max_bytes: int) -> bytes:
        """Return the next bytes; b"" at the end."""
        data = self._file.read(max_bytes)
        self._read_bytes += len(data)
        self._digest.update(data)
        return data

    @property
    def ended(self) -> bool:
        """Whether all bytes were read."""
        return self._read_bytes == self.size

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes that were read, in hexadecimal."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Delete the copy."""
        self._file.close()
        shutil.rmtree(self._folder)


def remove_leftovers(directory: Path) -> None:
    """Delete copies that a killed server left in its directory, and nothing else.

    Only a folder with the name of a copy that holds only a copy's files is deleted. One
    that cannot be deleted is logged: it does not prevent the start.
    """
    for folder in directory.glob(f"{_PREFIX}*"):
        if _FOLDER.match(folder.name) is None or folder.is_symlink() or not folder.is_dir():
            continue
        try:
            files = list(folder.iterdir())
            if _COPY_FILES.issuperset(file.name for file in files):
                for file in files:
                    file.unlink()
                folder.rmdir()
        except OSError as error:
            _log.warning("cannot delete the unfinished copy %s: %s", folder, error.strerror)


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal. O(bytes)."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
