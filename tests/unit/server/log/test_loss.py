"""What witnesses against a log that lost its end, and what does not."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

from streameval_server import Limits, Settings
from streameval_server._core.recovery import open_core
from streameval_server._log import acked_revision, wal_scan
from streameval_server._log import sqlite as sqlite_log
from streameval_server._log.acked_revision import AckedRevision, AckedRevisionFile
from streameval_server._log.history import History
from streameval_server._log.loss import Loss, LostRowsError
from streameval_server._log.rows import LogRow, checksum
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.wal_scan import find_wal_damage
from streameval_server._model.errors import CorruptLogError, StorageError
from streameval_server.maintenance import LOG_NAME
from streameval_server.testing import running_server


def rows(count: int, before: int = 0, first: int = 1, size: int = 500) -> list[LogRow]:
    """Return rows, each with the checksum that follows the one before."""
    found = []
    for revision in range(first, first + count):
        head = (revision, 0, 6, 0, "", "", 0, 0)
        before = checksum(head, bytes(size), before)
        found.append(LogRow(*head, before, bytes(size)))
    return found


def until(holds) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def copies(path, tmp_path) -> Path:
    """Return the log of a machine that stops after ten commits: copies of its files, not synced."""
    storage = SqliteStorage(path)
    storage.open()
    for row in rows(10):
        storage.append([row])
    copy = tmp_path / "copy" / "log.db"
    copy.parent.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{copy}{end}")
    storage.close()
    return copy


def refused(path: Path) -> Loss:
    """Return the loss for which a log is refused; check that nothing changes."""
    before = {file: file.read_bytes() for file in path.parent.glob("log.db*")}
    before.pop(Path(f"{path}-shm"), None)
    with pytest.raises(LostRowsError) as caught:
        SqliteStorage(path).open()
    assert {file: file.read_bytes() for file in before} == before
    return caught.value.loss


def flipped(path: Path, at: int) -> None:
    """Flip a bit of a log's write-ahead log."""
    wal = Path(f"{path}-wal")
    data = bytearray(wal.read_bytes())
    data[at] ^= 16
    wal.write_bytes(data)


# -- the acknowledged revision


def test_what_was_recorded_is_read(path):
    """After `close`, and without it after a moment."""
    file = AckedRevisionFile(path)
    assert file.read() is None
    file.record(7, 8)
    until(lambda: AckedRevisionFile(path).read() == (7, 8))
    file.record(9, 2**32 - 1)
    file.close()
    assert AckedRevisionFile(path).read() == (9, 2**32 - 1)
    again = AckedRevisionFile(path)
    again.write(AckedRevision(3, 4))  # a lower one after an accepted loss
    again.close()
    assert AckedRevisionFile(path).read() == (3, 4)


def test_a_torn_write_leaves_the_revision_before(path):
    """At every length, and with every byte of a slot wrong: one of the two that were written."""
    file = AckedRevisionFile(path)
    for revision in (1, 2):
        file.write(AckedRevision(revision, 5))
    file.close()
    whole = Path(f"{path}-acked").read_bytes()
    seen = set()
    for at in range(len(whole)):
        if not whole[at]:
            continue
        Path(f"{path}-acked").write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        seen.add(AckedRevisionFile(path).read())
        Path(f"{path}-acked").write_bytes(whole[:at])
        seen.add(AckedRevisionFile(path).read())
    assert seen <= {None, (1, 5), (2, 5)}
    assert (1, 5) in seen
    Path(f"{path}-acked").write_bytes(b"")
    assert AckedRevisionFile(path).read() is None


def test_a_commit_does_not_depend_on_the_file(path, monkeypatch, caplog):
    """A failing write is a warning, and ends when writes work again."""
    storage = SqliteStorage(path)
    storage.open()
    write = os.write
    monkeypatch.setattr(acked_revision.os, "write", lambda *_: write(-1, b""))
    first, *more = rows(3)
    storage.append([first])
    until(lambda: storage.acked_problem)
    assert "would not be noticed" in caplog.text
    monkeypatch.undo()
    storage.append(more)
    until(lambda: not storage.acked_problem)
    storage.close()
    assert AckedRevisionFile(path).read() == (3, more[-1].crc32)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a file in use cannot be removed")
@pytest.mark.parametrize(
    ("removed", "kept"),
    [(["-wal"], 2), ([""], 0), (["", "-wal"], 0), (["", "-wal", "-shm", "-acked"], 0)],
)
def test_no_commit_goes_into_files_that_were_removed(path, removed, kept):
    """Its revision is refused; what was acknowledged before is read back, or its loss is said."""
    storage = SqliteStorage(path)
    storage.open()
    first, second = rows(2)
    storage.append([first])
    until(lambda: AckedRevisionFile(path).read() == (1, first.crc32))
    for end in removed:
        Path(f"{path}{end}").unlink()
    with pytest.raises(StorageError, match="removed or replaced while the server used it"):
        storage.append([second])
    storage.close()
    if kept:
        storage.open()
        assert storage.last_revision() == kept
        storage.close()
    else:
        with pytest.raises(LostRowsError, match="revision 1 was acknowledged and is lost"):
            storage.open()


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a file in use cannot be removed")
def test_the_acknowledged_revision_is_written_again(path, caplog):
    """Where its file was removed, or a copy has replaced it."""
    file = AckedRevisionFile(path)
    at = Path(f"{path}-acked")
    file.record(1, 5)
    until(lambda: AckedRevisionFile(path).read() == (1, 5))
    at.unlink()
    file.record(2, 5)
    until(lambda: AckedRevisionFile(path).read() == (2, 5))
    shutil.copy(at, path)
    path.replace(at)
    file.record(3, 5)
    file.close()
    assert AckedRevisionFile(path).read() == (3, 5)
    assert caplog.text.count("was removed or replaced: it is written again") == 2


def test_a_log_that_ends_too_soon_is_refused_until_it_is_accepted(path, copies):
    """The loss is recorded, begins another history, and is accepted once."""
    AckedRevisionFile(copies).write(AckedRevision(12, 1))
    assert refused(copies) == Loss(10, 12, "the log ends at revision 10")
    storage = SqliteStorage(copies, accept_loss=True)
    storage.open()
    history = storage.history()
    (loss,) = history.losses
    assert loss[:2] == (10, 12)
    assert loss.accepted_us > 0
    storage.append(rows(3, storage.checksum_at(10), 11))
    storage.close()
    storage.open()  # the flag is spent
    assert storage.history() == history
    assert [row.revision for row in storage.read(0)] == list(range(1, 14))
    AckedRevisionFile(copies).write(AckedRevision(99, 1))
    storage.close()
    assert refused(copies)[:2] == (13, 99)
    with pytest.raises(LostRowsError):
        storage.open()
    del path


def test_a_row_that_is_not_the_acknowledged_one_is_a_loss(copies):
    """Another log of the same length is in its place."""
    AckedRevisionFile(copies).write(AckedRevision(9, rows(9)[-1].crc32))
    reading = SqliteStorage(copies, read_only=True)
    reading.open()
    reading.close()
    AckedRevisionFile(copies).write(AckedRevision(9, rows(9, 1)[-1].crc32))
    assert refused(copies) == Loss(0, 9, "row 9 of the log is not the one acknowledged")


@pytest.mark.parametrize("step", ["record_loss", "read_history"])
def test_a_start_that_is_killed_while_it_accepts_is_refused_again(copies, monkeypatch, step):
    """Before the loss is recorded, opening has already ended what the write-ahead log tells."""
    flipped(copies, Path(f"{copies}-wal").stat().st_size // 2)
    loss = refused(copies)
    with monkeypatch.context() as patched:

        def killed(*_arguments) -> None:
            raise StorageError("killed")

        patched.setattr(sqlite_log, step, killed)
        with pytest.raises(StorageError, match="killed"):
            SqliteStorage(copies, accept_loss=True).open()
    assert refused(copies)[:2] == loss[:2]
    storage = SqliteStorage(copies, accept_loss=True)
    storage.open()
    assert [each[:2] for each in storage.history().losses] == [loss[:2]]
    storage.close()
    storage = SqliteStorage(copies)
    storage.open()
    storage.close()


def test_a_loss_that_is_accepted_twice_is_one(path):
    """A start may be killed after it has recorded the loss."""
    del path
    history = History.begin()
    once = history.after(Loss(3, 5, "x"))
    twice = once.after(Loss(3, 5, "y"))
    assert [loss.cause for loss in twice.losses] == ["y"]
    assert len({history.number, once.number, twice.number}) == 3
    assert History.from_bytes(twice.to_bytes()) == twice


# -- behind a damaged frame


@pytest.mark.parametrize("big", [False, True])
def test_checksums_are_those_of_sqlite(big):
    """Compared with the loop of SQLite's documentation."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (5, 64), np.uint8)
    seeds = rng.integers(0, 1 << 32, (5, 2), np.uint32)
    found = wal_scan._checksums(data.view(">u4" if big else "<u4"), seeds)
    for frame, before, sums in zip(data, seeds.tolist(), found.tolist(), strict=True):
        s, t = before
        words = frame.view(">u4" if big else "<u4").tolist()
        for x, y in zip(words[::2], words[1::2], strict=True):
            s = (s + x + t) & 0xFFFFFFFF
            t = (t + y + s) & 0xFFFFFFFF
        assert sums == [s, t]


def test_a_damaged_frame_is_found_wherever_it_is(copies):
    """In the header and in every frame but the last one, which a power cut may tear."""
    assert find_wal_damage(copies) is None
    whole = Path(f"{copies}-wal").read_bytes()
    frames = (len(whole) - 32) // (24 + 8192)
    for at, frame in [(5, 0), (20, 0), (30, 0)] + [
        (32 + number * 8216 + 1_000, number + 1) for number in range(frames)
    ]:
        Path(f"{copies}-wal").write_bytes(whole)
        flipped(copies, at)
        damage = find_wal_damage(copies)
        if frame < frames:
            assert damage == (frame, frames, 10), at
            assert refused(copies).acked_revision == 10
        else:
            assert damage is None


def test_what_a_restart_left_behind_is_no_loss(path, tmp_path):
    """The file restarts at its beginning; old frames behind the new ones are in the database."""
    storage = SqliteStorage(path, max_wal_pages=20)
    storage.open()
    written, restarts, longest = rows(300), 0, 0
    for row in written:
        storage.append([row])
        salts = Path(f"{path}-wal").read_bytes()[16:24]
        restarts += salts != longest
        longest = salts
        assert find_wal_damage(path) is None, row.revision
    assert restarts > 5
    # A torn last transaction is not one that was synced.
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    data = Path(f"{path}-wal").read_bytes()
    for cut in range(0, len(data), 997):
        Path(f"{copy}-wal").write_bytes(data[:cut])
        assert find_wal_damage(copy) is None, cut
    storage.close()


def test_pieces_of_a_transaction_that_was_not_synced_are_no_loss(path, tmp_path):
    """A power cut may keep the later pages of the last transaction and lose the first."""
    storage = SqliteStorage(path)
    storage.open()
    first, *more = rows(8, size=20_000)
    storage.append([first])
    before = Path(f"{path}-wal").stat().st_size
    storage.append(more)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    data = Path(f"{path}-wal").read_bytes()
    storage.close()
    assert len(data) - before > 10 * 8216
    for lost in range(before, len(data), 8216):
        torn = data[:lost] + bytes(8216) + data[lost + 8216 :]
        Path(f"{copy}-wal").write_bytes(torn)
        assert find_wal_damage(copy) is None, lost


# -- the format


def test_a_damaged_history_is_refused(path):
    """A log is not served without it; the start says which log, and what to do."""
    storage = SqliteStorage(path)
    storage.open()
    storage.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE part SET data = x'00' WHERE part = 'history'")
    connection.close()
    with pytest.raises(CorruptLogError, match="history is not what was written"):
        open_core(SqliteStorage(path), Limits())
    shutil.copy(path, path.parent / LOG_NAME)
    settings = Settings(listen="127.0.0.1:0", data=path.parent)
    with pytest.raises(CorruptLogError) as caught, running_server(settings):
        pass
    assert str(caught.value) == (
        f"the log in {path.parent} is damaged: the log's history is not what was written: restore "
        f"a backup; 'streameval admin verify --data {path.parent}' says what is left"
    )
