"""Compaction of the log in a data directory whose server is stopped."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._core.recovery import open_core
from streameval_server._log.data_directory import DataDirectoryInUseError, DirectoryLock, log_of
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import RequestError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from streameval_server._core.storage_work import Compacted
    from streameval_server._model.limits import Limits


@dataclass(frozen=True, slots=True)
class CompactedLog:
    """A log that was compacted.

    Attributes
    ----------
    compacted : Compacted
        Where the log begins now, and how many rows were dropped.
    before, after : int
        Sizes of its file, in bytes.
    """

    compacted: Compacted
    before: int
    after: int


def compact(directory: Path, limits: Limits) -> CompactedLog:
    """Take a checkpoint, drop the log before it, and shrink the file. O(bytes).

    Raises
    ------
    DataDirectoryInUseError
        While a server runs on the directory: ask that server to compact its log.
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
        compacted = _drop_rows(path, limits)
        _vacuum(path)
        return CompactedLog(compacted, before, path.stat().st_size)
    finally:
        lock.release()


def _drop_rows(path: Path, limits: Limits) -> Compacted:
    core = open_core(SqliteStorage(path), limits)
    committer, now_us = core.committer, core.engine.received_us
    outcomes: list[Compacted | RequestError] = []
    core.applier.request_checkpoint()
    committer.compact(outcomes.append)
    while committer.compacting:
        core.applier.finish()
        committer.step(now_us)
    if committer.error is not None:
        raise committer.error
    core.drain(now_us)
    (outcome,) = outcomes
    if isinstance(outcome, RequestError):
        raise outcome
    return outcome


def _vacuum(path: Path) -> None:
    """Rewrite the file without its free pages."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise StorageError(
            f"{path} was compacted, but cannot be rewritten: {error}. It is complete, and as "
            "large as before"
        ) from error
