"""The write-ahead log is copied beside the commits, and stays bounded."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING

import pytest

from streameval_server._log import wal_checkpointer as wal_copier
from streameval_server._log.entries import Format, Kind, LogRow, checksum
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.wal_checkpointer import WalCopier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAYLOAD = bytes(range(256)) * 40


def row(revision: int) -> LogRow:
    """Return a row of 10 KB."""
    head = (revision, 0, Kind.BATCH, Format.INGEST_REQUEST, "s", "p", 1, revision)
    return LogRow(*head, checksum(head, PAYLOAD), PAYLOAD)


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let copies be due after 100 KB, and a log be long with 100 pages."""
    monkeypatch.setattr(wal_copier, "_COPY_BYTES", 100_000)
    monkeypatch.setattr(wal_copier, "_MOST_PAGES", 100)


@pytest.mark.usefixtures("small")
def test_a_copy_is_made_without_a_commit(tmp_path: Path) -> None:
    """What was written gets into the database while nothing more is committed."""
    path = tmp_path / "log.db"
    storage = SqliteStorage(path)
    storage.open()
    for revision in range(1, 12):
        storage.append([row(revision)])
    until(lambda: path.stat().st_size > 100_000)
    storage.close()
    assert not (tmp_path / "log.db-wal").exists()
    assert all(thread.name != "wal copier" for thread in threading.enumerate())


@pytest.mark.usefixtures("small")
def test_the_write_ahead_log_stays_bounded(tmp_path: Path) -> None:
    """30 MB that are committed without a pause leave a log of a fraction; all is there."""
    storage = SqliteStorage(tmp_path / "log.db")
    storage.open()
    longest = 0
    for revision in range(1, 3_001):
        storage.append([row(revision)])
        longest = max(longest, (tmp_path / "log.db-wal").stat().st_size)
    assert longest < 8 << 20
    storage.close()
    storage.open()
    assert [found.revision for found in storage.read(0)] == list(range(1, 3_001))
    storage.close()


@pytest.mark.usefixtures("small")
def test_a_closed_storage_opens_again(tmp_path: Path) -> None:
    """Its copier starts anew, as after a failed commit."""
    storage = SqliteStorage(tmp_path / "log.db")
    revision = 0
    for _ in range(3):
        storage.open()
        for _ in range(15):
            revision += 1
            storage.append([row(revision)])
        storage.close()
    storage.open()
    assert storage.last_revision() == 45
    storage.close()


def test_a_copy_that_fails_is_reported_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing that was acknowledged depends on it."""
    path = tmp_path / "log.db"
    path.write_bytes(b"no database" * 1_000)
    copier = WalCopier(path)
    for count in (1, 2):
        copier.wrote(4 << 20)
        until(lambda count=count: len(caplog.messages) == count)
    copier.close()
    expected = f"cannot copy the write-ahead log into {path}: file is not a database"
    assert caplog.messages == [expected] * 2


def test_a_commit_does_not_copy(tmp_path: Path) -> None:
    """Until the log has 8 MiB, in the pages of a new file."""
    storage = SqliteStorage(tmp_path / "log.db")
    storage.open()
    assert storage._connection is not None
    found = storage._connection.execute("PRAGMA wal_autocheckpoint").fetchone()
    (page_bytes,) = storage._connection.execute("PRAGMA page_size").fetchone()
    assert (found, page_bytes) == ((1_024,), 8_192)
    storage.close()
    # The database says nothing of it: other programs have their own way.
    other = sqlite3.connect(tmp_path / "log.db")
    assert other.execute("PRAGMA wal_autocheckpoint").fetchone() == (1_000,)
    other.close()
