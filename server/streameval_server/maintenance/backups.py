"""Backups: a copy of a log in one file, and a data directory made of it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval.checks import write_atomically
from streameval_server._log.backup import copy_log, sha256_of
from streameval_server._log.data_directory import LOCK_NAME, LOG_NAME, DirectoryLock, log_of
from streameval_server._log.schema import read_history, write_history
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import CorruptLogError, StorageError
from streameval_server.maintenance.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streameval_server._model.limits import Limits
    from streameval_server.maintenance.verification import Verification

_IGNORED_NAMES = frozenset({"lost+found", LOCK_NAME})
"""What an empty data directory may hold: the folder that ext4 makes at the root of a file
system, and the lock of a restore that failed."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was written.

    Attributes
    ----------
    revision : int
        The last revision in it.
    size : int
        In bytes.
    sha256 : str
        The file's checksum, in hexadecimal.
    """

    revision: int
    size: int
    sha256: str


def backup(directory: Path, target: Path) -> Backup:
    """Copy a directory's log to a new file. O(bytes).

    A server may be running on the directory; the copy is of one revision.

    Raises
    ------
    StorageError
        When there is no log, or the file cannot be written.
    CorruptLogError
        When the log has lost acknowledged rows: a backup would not show that. Nothing was
        written.
    StreamEvalError
        When the file exists.
    """
    source = log_of(directory)
    log = SqliteStorage(source, read_only=True)
    log.open()
    try:
        log.refuse_loss()
    finally:
        log.close()
    with write_atomically(target) as partial:
        revision = copy_log(source, partial)
        digest = sha256_of(partial)
    return Backup(revision, target.stat().st_size, digest)


def restore(
    backup: Path,
    directory: Path,
    limits: Limits,
    *,
    progress: Callable[[float], None] = lambda _: None,
) -> Verification:
    """Verify a backup and make a data directory of it. O(bytes of the log and of the state).

    Parameters
    ----------
    backup
        The file.
    directory
        Created when it does not exist; must be empty when it does, except for the
        ``lost+found`` of a fresh file system.
    limits, progress
        As `verify`.

    Returns
    -------
    Verification
        What was found in the backup.

    Raises
    ------
    StorageError
        When the directory is not empty, or the backup cannot be read.
    CorruptLogError
        When the backup is damaged; `streameval admin verify` says where. Nothing
        was written.
    """
    check_empty(directory)
    found = verify(backup, limits, progress=progress)
    if not found.ok:
        damage = "; ".join(finding.detail for finding in found.findings if not finding.ok)
        raise CorruptLogError(f"{backup} is damaged: {damage}")
    lock = DirectoryLock(directory)
    try:
        with write_atomically(directory / LOG_NAME) as partial:
            shutil.copyfile(backup, partial)
            _renew_history(partial)
    finally:
        lock.release()
    return found


def check_empty(directory: Path) -> None:
    """Raise StorageError if there is something in a directory, which may not exist."""
    if directory.exists() and {path.name for path in directory.iterdir()} - _IGNORED_NAMES:
        raise StorageError(
            f"{directory} is not empty: nothing is restored over what is there. "
            "Move it away, or restore to another directory"
        )


def _renew_history(path: Path) -> None:
    """Give a copied log another history: it may lack rows that the original acknowledged since."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            history = read_history(connection)
            write_history(connection, history.renewed())
    except sqlite3.Error as error:
        raise StorageError(f"cannot write {path}: {error}") from error
