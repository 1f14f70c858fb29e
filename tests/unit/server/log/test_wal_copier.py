"""The write-ahead log is copied between commits, and stays bounded."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING

import pytest

from streameval_server._log.rows import Format, Kind, LogRow, checksum
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.wal_copier import WalCopier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAYLOAD = bytes(range(256)) * 40


def rows(first: int, last: int) -> Iterator[LogRow]:
    """Yield rows of 10 KB."""
    before = 0
    for revision in range(first, last + 1):
        head = (revision, 0, Kind.BATCH, Format.INGEST_REQUEST, "s", "p", 1, revision)
        before = checksum(head, PAYLOAD, before)
        yield LogRow(*head, before, PAYLOAD)


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def small(path: Path) -> SqliteStorage:
    """Return a storage that copies after 100 KB and restarts a log of 100 pages."""
    return SqliteStorage(path, wal_copy_bytes=100_000, max_wal_pages=100)


def test_a_copy_is_made_without_a_commit(tmp_path: Path) -> None:
    """Committed rows reach the database although no further commit follows."""
    path = tmp_path / "log.db"
    storage = small(path)
    storage.open()
    for row in rows(1, 11):
        storage.append([row])
    until(lambda: path.stat().st_size > 100_000)
    storage.close()
    assert not (tmp_path / "log.db-wal").exists()
    assert all(thread.name != "wal copier" for thread in threading.enumerate())


@pytest.mark.slow
def test_the_write_ahead_log_stays_bounded(tmp_path: Path) -> None:
    """30 MB committed without a pause never make it 8 MiB long, and no row is lost."""
    storage = small(tmp_path / "log.db")
    storage.open()
    longest = 0
    for row in rows(1, 3_000):
        storage.append([row])
        longest = max(longest, (tmp_path / "log.db-wal").stat().st_size)
    assert longest < 8 << 20
    storage.close()
    storage.open()
    assert [found.revision for found in storage.read(0)] == list(range(1, 3_001))
    storage.close()


def test_a_closed_storage_opens_again(tmp_path: Path) -> None:
    """Its copying thread is started again, as after a failed commit."""
    storage = small(tmp_path / "log.db")
    written = rows(1, 45)
    for _ in range(3):
        storage.open()
        for _ in range(15):
            storage.append([next(written)])
        storage.close()
    storage.open()
    assert storage.last_revision() == 45
    storage.close()


def test_a_copy_that_fails_is_reported_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a warning only: acknowledged rows do not depend on the copy."""
    path = tmp_path / "log.db"
    path.write_bytes(b"no database" * 1_000)
    copier = WalCopier(path)
    for count in (1, 2):
        copier.request()
        until(lambda count=count: len(caplog.messages) == count)
    copier.close()
    expected = f"cannot copy the write-ahead log into {path}: file is not a database"
    assert caplog.messages == [expected] * 2


def test_a_commit_does_not_copy(tmp_path: Path) -> None:
    """Not before the log has 8 MiB, which are 1,024 pages of a new file."""
    storage = SqliteStorage(tmp_path / "log.db")
    storage.open()
    assert storage._connection is not None
    found = storage._connection.execute("PRAGMA wal_autocheckpoint").fetchone()
    (page_bytes,) = storage._connection.execute("PRAGMA page_size").fetchone()
    assert (found, page_bytes) == ((1_024,), 8_192)
    storage.close()
    # The setting belongs to the connection: other programs keep SQLite's default.
    other = sqlite3.connect(tmp_path / "log.db")
    assert other.execute("PRAGMA wal_autocheckpoint").fetchone() == (1_000,)
    other.close()
