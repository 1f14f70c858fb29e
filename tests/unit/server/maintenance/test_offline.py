"""Maintenance of a data directory: verify, backup, restore, compact."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from streameval import StreamEvalError
from streameval.checks import write_atomically
from streameval.v1 import ingest_pb2 as pb
from streameval_server import DataDirectoryInUseError, Limits
from streameval_server._core.recovery import open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.backup import LogCopy
from streameval_server._log.checkpoint import Manifest
from streameval_server._log.data_directory import DirectoryLock
from streameval_server._log.loss import LostRowsError
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import CorruptLogError, StorageError
from streameval_server.maintenance import (
    LOG_NAME,
    backup,
    compact,
    repair,
    replay_until,
    restore,
    state_hash,
    verify,
)

NOW = 1_800_000_000_000_000
LIMITS = Limits()


def sent(core, number: int) -> None:
    """Log one batch."""
    call = UnaryCall(core.committer, LIMITS)
    rows = pb.Cases(scores=[number / 64, 0.5], positives=[True, False])
    batch = pb.Batch(stream=f"s/{number % 3}", cases=rows)
    call.ingest_batch(pb.IngestBatchRequest(batch=batch).SerializeToString(), NOW)
    core.committer.step(NOW).deliver()
    core.applier.finish()


def logged(directory: Path, numbers: range, *, stop: bool = False) -> str:
    """Log batches, with a checkpoint half-way; return the state's hash."""
    directory.mkdir(exist_ok=True)
    core = open_core(SqliteStorage(directory / LOG_NAME), LIMITS)
    for number in numbers:
        sent(core, number)
        if number == numbers[len(numbers) // 2]:
            core.applier.request_checkpoint()
            core.applier.finish()
            while core.committer.step(NOW).more:
                pass
    digest = core.engine.state_hash()
    if stop:
        core.drain(NOW)
    else:
        core.storage.close()
    return digest


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a data directory of 20 revisions with a checkpoint at 11."""
    logged(tmp_path / "data", range(20))
    return tmp_path / "data"


def spoiled(directory: Path, *statements: str) -> Path:
    """Change a log with SQL; return its path."""
    with closing(sqlite3.connect(directory / LOG_NAME)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return directory / LOG_NAME


def details(path: Path) -> list[tuple[str, bool, str]]:
    """Return the findings of `verify`."""
    return [(each.what, each.ok, each.detail) for each in verify(path, LIMITS).findings]


# --- verify -----------------------------------------------------------------------------------


def test_a_sound_log(directory: Path) -> None:
    """Everything is checked, nothing is written."""
    before = (directory / LOG_NAME).read_bytes()
    shares: list[float] = []
    found = verify(directory / LOG_NAME, LIMITS, progress=shares.append)
    assert found.ok
    assert [each.what for each in found.findings] == ["file", "acked", "log", "checkpoint"]
    assert found.findings[1].detail == "revision 20, and the log reaches it"
    assert found.findings[2].detail.startswith("revisions 1 to 20: ")
    assert found.findings[3].detail == "revision 11: the log gives the same state, bit by bit"
    assert (found.revision, found.state_hash) == state_hash(directory, None, LIMITS)
    assert (directory / LOG_NAME).read_bytes() == before
    with pytest.raises(StorageError, match="there is no log at"):
        verify(directory / "none", LIMITS)


@pytest.mark.parametrize(
    ("statement", "problem", "follows"),
    [
        (
            "UPDATE log SET payload = x'00' WHERE revision = 7",
            "log row 7 is not what was written: its checksum differs",
            "a server goes on from the checkpoint of revision 11",
        ),
        (
            "DELETE FROM log WHERE revision = 15",
            "log row 15 is missing: row 16 follows instead",
            "the state after it is unknown",
        ),
        (
            "UPDATE log SET received_us = received_us + 1 WHERE revision = 3",
            "log row 3 is not what was written: its checksum differs",
            "a server goes on from the checkpoint of revision 11",
        ),
    ],
)
def test_a_damaged_row_is_named(
    directory: Path, statement: str, problem: str, follows: str
) -> None:
    """With the consequence; a checkpoint is sound if the log is, up to its revision."""
    found = details(spoiled(directory, statement))
    assert ("log", False, f"{problem}: {follows}; restore a backup") in found
    assert found[-1][:2] == ("checkpoint", "unknown" in follows)


def test_a_damaged_checkpoint_is_named(directory: Path) -> None:
    """The log is sound and gives the same state."""
    path = spoiled(directory, "UPDATE part SET data = x'00' WHERE part = 'marks'")
    assert details(path)[2] == (
        "checkpoint",
        False,
        "part marks of the checkpoint is not what was written: a start replays the whole log",
    )
    assert verify(path, LIMITS).revision == 20


def test_a_checkpoint_of_another_log_is_found(directory: Path, tmp_path: Path) -> None:
    """Each part has a correct checksum; only the replay shows that they belong to another log."""
    other, mine = tmp_path / "other", replay_until(directory, 11).state_hash()
    logged(other, range(40, 60))
    with closing(sqlite3.connect(directory / LOG_NAME)) as connection:
        connection.execute("ATTACH ? AS other", (str(other / LOG_NAME),))
        for table in ("part", "manifest"):
            connection.execute(f"DELETE FROM {table}")
            connection.execute(f"INSERT INTO {table} SELECT * FROM other.{table}")
        connection.commit()
    what, ok, detail = details(directory / LOG_NAME)[-1]
    assert (what, ok) == ("checkpoint", False)
    assert "revision 11: its state is " in detail
    assert f", and the log gives {mine}." in detail


def changed_format(path: Path, part: str) -> str:
    """Give the manifest or a part of the checkpoint another format, soundly; name it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        (data,) = connection.execute("SELECT data FROM manifest").fetchone()
        fields = json.loads(data[4:])
        if part == "manifest":
            fields["format"] += 1
        else:
            ((name, old),) = connection.execute(
                "SELECT part, data FROM part WHERE part GLOB ?", (f"{part}/*",)
            ).fetchmany(1)
            at = old.index(b"SVE") + 4
            new = old[:at] + b"\x63\x00" + old[at + 2 :]
            connection.execute("UPDATE part SET data = ? WHERE part = ?", (new, name))
            fields["parts"][name][2] = zlib.crc32(new)
        body = json.dumps(fields).encode()
        whole = zlib.crc32(body).to_bytes(4, "little") + body
        connection.execute("UPDATE manifest SET data = ?", (whole,))
    return f"format {fields['format']}" if part == "manifest" else "format 99"


@pytest.mark.parametrize("part", ["manifest", "pane"])
def test_a_format_that_is_not_known_is_no_damage(directory: Path, part: str) -> None:
    """One error with the format and the remedy, and no finding of damage."""
    path = directory / LOG_NAME
    wanted = changed_format(path, part)
    with pytest.raises(StorageError) as caught:
        verify(path, LIMITS)
    assert not isinstance(caught.value, CorruptLogError)
    assert wanted in str(caught.value)
    assert "the release that wrote it, or a newer one" in str(caught.value)


def test_leftovers_do_no_harm(directory: Path) -> None:
    """They are parts of an unfinished checkpoint; the next start deletes them."""
    path = spoiled(directory, "INSERT INTO part VALUES ('stream/x', 12, 0, x'00')")
    what, ok, detail = details(path)[-1]
    assert (what, ok) == ("leftovers", True)
    assert detail.startswith("1 parts of a checkpoint that was not finished")
    logged(directory, range(20, 21))
    assert [each[0] for each in details(path)] == ["file", "acked", "log", "checkpoint"]


def test_a_damaged_file_is_found(directory: Path) -> None:
    """On any page: by SQLite, by a row's checksum or by a part's."""
    path = directory / LOG_NAME
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    sound = path.read_bytes()
    pages = range(0, len(sound), 4096)
    assert len(pages) >= 5
    for start in pages:
        path.write_bytes(sound[: start + 24] + b"\xa5" * 64 + sound[start + 88 :])
        try:
            found = verify(path, LIMITS)
        except StorageError:
            continue  # no longer a log
        unused = sound[start + 24 : start + 88] == bytes(64)
        assert not found.ok or unused, start


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("DELETE FROM log WHERE revision = 20", "revision 20 was acknowledged and is lost"),
        ("DELETE FROM log WHERE revision > 15", "revisions 16 to 20 were acknowledged and are"),
        ("DELETE FROM log", "revisions 1 to 20 were acknowledged and are lost: the log ends at"),
    ],
)
def test_a_missing_end_is_found(directory: Path, statement: str, lost: str) -> None:
    """What is left is sound in itself; only the acknowledged revision contradicts it."""
    path = spoiled(directory, statement)
    files = (path, path.with_name(f"{LOG_NAME}-acked"))
    before = [file.read_bytes() for file in files]
    found = verify(path, LIMITS)
    assert not found.ok
    (acked,) = (each for each in found.findings if each.what == "acked")
    assert acked.detail.startswith(lost)
    assert "restore a backup, or start once with --accept-loss" in acked.detail
    assert [file.read_bytes() for file in files] == before
    with pytest.raises(LostRowsError, match=lost):
        SqliteStorage(path).open()
    storage = SqliteStorage(path, accept_loss=True)
    storage.open()
    storage.close()
    assert details(path)[1][:2] == ("acked", True)


def test_a_log_with_losses_is_not_read_as_whole(directory: Path, tmp_path: Path) -> None:
    """Backup, hash, replay and repair refuse it, as a start does; not what was before the loss."""
    before = state_hash(directory, 15, LIMITS)
    path = spoiled(directory, "DELETE FROM log WHERE revision > 15")
    content = path.read_bytes()
    lost = "revisions 16 to 20 were acknowledged and are lost: .* restore a backup, or start once"
    with pytest.raises(LostRowsError, match=lost):
        backup(directory, tmp_path / "backup.db")
    for revision in (None, 16, 20):
        with pytest.raises(LostRowsError, match=lost):
            state_hash(directory, revision, LIMITS)
    with pytest.raises(LostRowsError, match=lost):
        replay_until(directory)
    with pytest.raises(LostRowsError, match=lost):
        repair(directory, tmp_path / "mended", LIMITS, now_us=NOW)
    assert {each.name for each in tmp_path.iterdir()} == {"data"}
    assert path.read_bytes() == content
    assert state_hash(directory, 15, LIMITS) == before
    # Once the loss is accepted, it is recorded in the log.
    storage = SqliteStorage(path, accept_loss=True)
    storage.open()
    storage.close()
    assert state_hash(directory, None, LIMITS) == before
    assert backup(directory, tmp_path / "backup.db").revision == 15


def test_a_missing_log_is_found(directory: Path) -> None:
    """Its file is gone or empty, and the one of the acknowledged revision is left."""
    path = directory / LOG_NAME
    for change in (lambda: path.write_bytes(b""), path.unlink):
        change()
        (finding,) = verify(path, LIMITS).findings
        assert (finding.what, finding.ok) == ("acked", False)
        assert finding.detail.startswith("revisions 1 to 20 were acknowledged and are lost: ")
    path.with_name(f"{LOG_NAME}-acked").unlink()
    with pytest.raises(StorageError, match="there is no log at"):
        verify(path, LIMITS)


def test_another_log_of_the_same_length_is_found(directory: Path, tmp_path: Path) -> None:
    """Every row of it is sound, and none is the one that was acknowledged."""
    logged(tmp_path / "other", range(40, 60))
    shutil.copy(tmp_path / "other" / LOG_NAME, directory / LOG_NAME)
    wrong = [each for each in details(directory / LOG_NAME) if not each[1]]
    assert [each[0] for each in wrong] == ["acked"]
    assert "row 20 of the log is not the one acknowledged" in wrong[0][2]


def test_a_damaged_write_ahead_log_is_found(directory: Path, tmp_path: Path) -> None:
    """Transactions behind a damaged frame were acknowledged, also where no file says so."""
    core = open_core(SqliteStorage(directory / LOG_NAME), LIMITS)
    for number in range(20, 30):
        sent(core, number)
    copy = tmp_path / LOG_NAME
    for end in ("", "-wal"):
        shutil.copy(directory / f"{LOG_NAME}{end}", f"{copy}{end}")
    core.storage.close()
    assert details(copy)[1] == (
        "acked",
        True,
        "no file says how far: a missing end of the log would not be noticed",
    )
    wal = Path(f"{copy}-wal")
    data = bytearray(wal.read_bytes())
    data[len(data) // 2] ^= 16
    wal.write_bytes(data)
    what, ok, detail = details(copy)[1]
    assert (what, ok) == ("acked", False)
    assert "to 30 were acknowledged and are lost: the log ends at revision 2" in detail
    assert "of its write-ahead log is damaged" in detail


def test_an_unreadable_witness_is_no_proof(directory: Path) -> None:
    """What it says is not known, so the log is not called intact."""
    acked = directory / f"{LOG_NAME}-acked"
    acked.unlink()
    acked.mkdir()
    what, ok, detail = details(directory / LOG_NAME)[1]
    assert (what, ok) == ("acked", False)
    assert detail.startswith(f"cannot read {acked}: ")
    assert detail.endswith("whether rows are missing is not known")


# --- backup and restore -----------------------------------------------------------------------


def test_a_witness_without_its_log_is_kept(directory: Path, tmp_path: Path) -> None:
    """A restore beside it would be a log that has lost rows, and would hide that."""
    backup(directory, tmp_path / "backup.db")
    (directory / LOG_NAME).unlink()
    left = {path.name for path in directory.iterdir()}
    assert f"{LOG_NAME}-acked" in left
    with pytest.raises(StorageError, match="is not empty: nothing is restored over what is there"):
        restore(tmp_path / "backup.db", directory, LIMITS)
    assert {path.name for path in directory.iterdir()} == left


def test_a_fresh_volume_is_empty(directory: Path, tmp_path: Path) -> None:
    """A file system's own lost+found does not count; anything beside it does."""
    backup(directory, tmp_path / "b.db")
    (tmp_path / "new" / "lost+found").mkdir(parents=True)
    (tmp_path / "new" / "other").touch()
    with pytest.raises(StorageError, match="is not empty"):
        restore(tmp_path / "b.db", tmp_path / "new", LIMITS)
    (tmp_path / "new" / "other").unlink()
    assert restore(tmp_path / "b.db", tmp_path / "new", LIMITS).revision == 20
    assert (tmp_path / "new" / "lost+found").is_dir()


def test_a_failed_restore_can_be_tried_again(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk leaves nothing in the way of the next attempt."""
    backup(directory, tmp_path / "b.db")

    def full(_source: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", full)
        with pytest.raises(OSError, match="No space"):
            restore(tmp_path / "b.db", tmp_path / "new", LIMITS)
    assert restore(tmp_path / "b.db", tmp_path / "new", LIMITS).revision == 20


def test_a_backup_is_restored(directory: Path, tmp_path: Path) -> None:
    """To a new directory, with the same state; never to one that is not empty."""
    made = backup(directory, tmp_path / "b.db")
    assert (made.revision, made.size) == (20, (tmp_path / "b.db").stat().st_size)
    assert (tmp_path / "b.db").stat().st_mode & 0o777 == 0o600
    found = restore(tmp_path / "b.db", tmp_path / "new", LIMITS)
    assert (found.revision, found.state_hash) == state_hash(directory, None, LIMITS)
    assert (tmp_path / "new" / LOG_NAME).stat().st_mode & 0o777 == 0o600
    assert logged(tmp_path / "new", range(20, 25)) == logged(directory, range(20, 25))
    with pytest.raises(StorageError, match="is not empty: nothing is restored over what is there"):
        restore(tmp_path / "b.db", tmp_path / "new", LIMITS)
    with pytest.raises(StreamEvalError, match="exists: move it"):
        backup(directory, tmp_path / "b.db")
    with pytest.raises(StorageError, match="there is no log at"):
        backup(tmp_path / "nothing", tmp_path / "c.db")
    assert not (tmp_path / "c.db.partial").exists()


def test_a_damaged_backup_is_not_restored(directory: Path, tmp_path: Path) -> None:
    """And the attempt leaves nothing behind."""
    path = spoiled(directory, "UPDATE log SET payload = x'00' WHERE revision = 7")
    with pytest.raises(CorruptLogError, match="is damaged: log row 7 is not what was written"):
        restore(path, tmp_path / "new", LIMITS)
    assert not (tmp_path / "new").exists()


def test_a_copy_needs_room(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little space is an error before the copy begins; nothing is left behind."""
    usage = shutil.disk_usage(directory)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StorageError, match=r"a copy of .* takes .* bytes, and .* has 1,000 left"):
        LogCopy(directory)
    assert list(directory.glob(".*")) == []


def test_files_are_whole_or_not_there(tmp_path: Path) -> None:
    """An error in between leaves nothing behind."""
    target = tmp_path / "file"

    def failing() -> None:
        with write_atomically(target) as partial:
            partial.write_text("half")
            raise InterruptedError

    with pytest.raises(InterruptedError):
        failing()
    assert list(tmp_path.iterdir()) == []
    with write_atomically(target) as partial:
        assert not target.exists()
        partial.write_text("whole")
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


# --- compact ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_compacted_directory_is_smaller_and_the_same(tmp_path: Path) -> None:
    """The state is bit for bit the same; asking for an earlier one is an error."""
    directory = tmp_path / "data"
    logged(directory, range(600), stop=True)
    before = state_hash(directory, None, LIMITS)
    early = replay_until(directory, 300).state_hash()
    done = compact(directory, LIMITS)
    assert (done.compacted.revision, done.compacted.dropped) == (600, 599)
    assert done.after < done.before
    assert state_hash(directory, None, LIMITS) == before
    assert [each[0] for each in details(directory / LOG_NAME)] == [
        "file",
        "acked",
        "base",
        "log",
        "checkpoint",
    ]
    with pytest.raises(StorageError, match="begins at revision 600: the state at revision 300"):
        replay_until(directory, 300)
    logged(directory, range(600, 640))
    middle = replay_until(directory, 610).state_hash()
    # The log from its base gives the same state as the later checkpoint.
    spoiled(directory, "UPDATE manifest SET data = x'00'")
    assert replay_until(directory, 610).state_hash() == middle != early
    core = open_core(SqliteStorage(directory / LOG_NAME), LIMITS)
    assert core.recovery.checkpoint_error is not None
    assert (core.recovery.checkpoint_revision, core.recovery.replayed) == (600, 40)
    core.drain(NOW)
    assert verify(directory / LOG_NAME, LIMITS).ok


def test_a_damaged_beginning_is_reported(tmp_path: Path) -> None:
    """A compacted log is useless without its base, unless a newer checkpoint is sound."""
    directory = tmp_path / "data"
    logged(directory, range(30))
    compact(directory, LIMITS)
    logged(directory, range(30, 60))
    manifest = SqliteStorage(directory / LOG_NAME, read_only=True)
    manifest.open()
    base = Manifest.from_bytes(manifest.base() or b"")
    manifest.close()
    assert base.revision == 30
    path = spoiled(
        directory,
        "UPDATE part SET data = x'00' WHERE part = 'marks' AND revision = 30",
    )
    what, ok, detail = details(path)[-1]
    assert (what, ok) == ("log", False)
    assert detail == (
        "the log begins at revision 30, where part marks of the checkpoint is not what was "
        "written: restore a backup"
    )
    # The newer checkpoint is sound, so a server starts.
    open_core(SqliteStorage(path), LIMITS).storage.close()
    spoiled(directory, "UPDATE manifest SET data = x'00'")
    with pytest.raises(CorruptLogError, match="the log begins at revision 30, where part marks"):
        open_core(SqliteStorage(path), LIMITS)


def test_a_running_servers_log_is_not_compacted(directory: Path) -> None:
    """The message says to use that server's own compaction."""
    lock = DirectoryLock(directory)
    try:
        with pytest.raises(DataDirectoryInUseError, match="have it compact its log itself"):
            compact(directory, LIMITS)
    finally:
        lock.release()


# --- commit times -----------------------------------------------------------------------------


def test_commits_are_timed(tmp_path: Path) -> None:
    """The last 1,024, and the time at which a checkpoint became current."""
    storage = SqliteStorage(tmp_path / LOG_NAME)
    core = open_core(storage, LIMITS)
    assert storage.durations.last() is None
    for number in range(3):
        sent(core, number)
    times = storage.durations.last()
    assert times is not None
    assert times.count == 3
    assert 0 < times.p50_s <= times.p99_s <= times.max_s
    every = storage.durations.histogram()
    assert every.total == 3
    assert times.max_s <= every.sum_s <= 3 * times.max_s
    assert storage.checkpoint_s is None
    core.drain(NOW)
    assert storage.checkpoint_s is not None
