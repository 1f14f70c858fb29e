"""Looking after a data directory without its server."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common import write_atomically
from streameval_server._core.recovery import open_core
from streameval_server._log.backup import copy_log, sha256_of
from streameval_server._log.data_directory import DataDirectoryInUseError, DirectoryLock, log_of
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import RequestError, StorageError
from streameval_server.maintenance.history import replay_until

if TYPE_CHECKING:
    from pathlib import Path

    from streameval_server._core.checkpoint_tasks import Compacted
    from streameval_server._model.limits import Limits


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup that was made.

    Attributes
    ----------
    revision : int
        The last in it.
    size : int
        In bytes.
    sha256 : str
    """

    revision: int
    size: int
    sha256: str


def backup(directory: Path, target: Path) -> BackedUp:
    """Copy a directory's log to a file that is not there yet; a server may be running.

    Raises
    ------
    StorageError
        When there is no log, or the file cannot be written.
    """
    source = log_of(directory)
    with write_atomically(target) as partial:
        revision = copy_log(source, partial)
        digest = sha256_of(partial)
    return BackedUp(revision, target.stat().st_size, digest)


def state_hash(directory: Path, revision: int | None, limits: Limits) -> tuple[int, str]:
    """Return a revision and the hash of its state; a server may be running. O(bytes of the log).

    Raises
    ------
    StorageError
        As `replay_until`.
    """
    engine = replay_until(directory, revision, limits=limits)
    return engine.revision, engine.state_hash()


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A log that was compacted, and its file's size before and after, in bytes."""

    compacted: Compacted
    before: int
    after: int


def compact(directory: Path, limits: Limits) -> Shrunk:
    """Take a checkpoint, drop the log before it, and give the space back. O(bytes).

    Raises
    ------
    DataDirectoryInUseError
        While a server runs on it: ask that server.
    StorageError
        When there is no log, or the disk fails.
    """
    path = log_of(directory)
    try:
        lock = DirectoryLock(directory)
    except DataDirectoryInUseError as error:
        raise DataDirectoryInUseError(
            f"a server runs on {directory}: stop it, or have it compact its log itself "
            "(give its HOST:PORT instead of --data)"
        ) from error
    try:
        before = path.stat().st_size
        compacted = _compacted(path, limits)
        _vacuum(path)
        return Shrunk(compacted, before, path.stat().st_size)
    finally:
        lock.release()


def _compacted(path: Path, limits: Limits) -> Compacted:
    core = open_core(SqliteStorage(path), limits)
    committer, now_us = core.committer, core.engine.received_us
    told: list[Compacted | RequestError] = []
    core.applier.request_checkpoint()
    committer.compact(told.append)
    while committer.compacting:
        core.applier.finish()
        committer.step(now_us)
    if committer.error is not None:
        raise committer.error
    core.drain(now_us)
    (outcome,) = told
    if isinstance(outcome, RequestError):
        raise outcome
    return outcome


def _vacuum(path: Path) -> None:
    """Write the file anew, without the pages that are free."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise StorageError(
            f"{path} was compacted, but cannot be written anew: {error}. It is whole, and as "
            "large as before"
        ) from error
