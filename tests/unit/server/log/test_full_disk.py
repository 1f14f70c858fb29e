"""A log on a full disk is read without a write, and opened for writing later.

What a disk without a free block does is in tests/crash/test_disk_faults.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streameval_server import Limits
from streameval_server._core.committer import Committer, CommitterState
from streameval_server._core.recovery import open_core_on_full_disk
from streameval_server._log.acked_revision import AckedRevision, AckedRevisionFile
from streameval_server._log.loss import LostRowsError
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import DiskFullError, RequestError

from .test_loss import flipped, rows

FULL = DiskFullError("cannot open log.db: database or disk is full")


@pytest.fixture
def path(tmp_path) -> Path:
    """Return a log that a stopped server left, of ten rows."""
    path = tmp_path / "log.db"
    storage = SqliteStorage(path)
    storage.open()
    storage.append(rows(10))
    storage.close()
    return path


@pytest.fixture
def killed(path, tmp_path) -> Path:
    """Return the same log with five more rows in the write-ahead log that a kill left."""
    storage = SqliteStorage(path)
    storage.open()
    for row in rows(5, storage.checksum_at(10), 11):
        storage.append([row])
    copy = tmp_path / "copy" / "log.db"
    copy.parent.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{copy}{end}")
    storage.close()
    return copy


def files(path: Path) -> dict[str, bytes]:
    """Return what must not change: the index beside the write-ahead log is not part of it."""
    found = {file.name: file.read_bytes() for file in path.parent.glob("log.db*")}
    found.pop("log.db-shm", None)
    return found


def started(path: Path, *, accept_loss: bool = False) -> Committer:
    """Return the committer of a core on a full disk; check that the files are as they were."""
    before = files(path)
    try:
        storage = SqliteStorage(path, accept_loss=accept_loss)
        return open_core_on_full_disk(storage, Limits(), FULL).committer
    finally:
        assert files(path) == before


@pytest.mark.parametrize(("log", "last"), [("path", 10), ("killed", 15)])
def test_it_is_read_and_later_written(request, log, last):
    """Every row is there, nothing is accepted, and `recover` goes on behind the last row."""
    path = request.getfixturevalue(log)
    committer = started(path)
    assert committer.state is CommitterState.FAILED
    assert committer.revision == last
    with pytest.raises(RequestError, match=r"disk is full.*free some space"):
        committer.check_serving()
    committer.recover()
    committer.check_serving()
    storage = SqliteStorage(path, read_only=True)
    storage.open()
    assert [row.revision for row in storage.read(0)] == list(range(1, last + 1))
    assert storage.history().number == committer.history
    storage.close()
    committer._storage.close()


def test_it_stops_when_what_it_read_is_gone(killed):
    """Rows were served that the disk does not give back: nothing may be acknowledged on top."""
    committer = started(killed)
    Path(f"{killed}-wal").unlink()
    committer.recover()
    assert committer.state is CommitterState.BROKEN


def test_a_loss_is_refused_and_its_witness_stays(killed):
    """In the write-ahead log, and in the file of the acknowledged revision."""
    flipped(killed, 32 + 24 + 100)
    for _ in range(2):
        with pytest.raises(LostRowsError, match="write-ahead log is damaged"):
            started(killed)
    with pytest.raises(DiskFullError):  # to accept it is to record it
        started(killed, accept_loss=True)


def test_a_log_that_lost_its_end_is_refused(path):
    """Its database is whole, but shorter than what was acknowledged."""
    file = AckedRevisionFile(path)
    file.write(AckedRevision(12, 1))
    file.close()
    with pytest.raises(LostRowsError, match="revisions 11 to 12"):
        started(path)


def test_what_has_to_be_changed_first_is_refused(tmp_path):
    """A log that does not exist, and an empty one: with the first error."""
    for name in ("missing", "empty"):
        path = tmp_path / name / "log.db"
        path.parent.mkdir()
        if name == "empty":
            path.touch()
        with pytest.raises(DiskFullError) as caught:
            started(path)
        assert caught.value is FULL


def test_no_room_is_an_error_of_its_own(path):
    """SQLite's own error, at a limit of pages in place of a disk."""
    storage = SqliteStorage(path)
    storage.open()
    connection = storage._opened()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DiskFullError, match="database or disk is full"):
        storage.append(rows(60, storage.checksum_at(10), 11))
    storage.close()
