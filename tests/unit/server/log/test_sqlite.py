"""The log in SQLite: rows are read as they were written, and damage is refused."""

from __future__ import annotations

import os
import sqlite3
import stat

import numpy as np
import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval_server import Limits
from streameval_server._core import recovery
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._log import checkpoint, sqlite
from streameval_server._log.rows import LogRow, checksum
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.storage import MemoryStorage, NullStorage
from streameval_server._model.errors import CorruptLogError, StorageError

NOW = 1_800_000_000_000_000


def row(revision, payload=b"x", *, before=0, **columns) -> LogRow:
    values = {
        "received_us": NOW,
        "kind": 1,
        "format": 1,
        "stream": "fraud/v3",
        "producer": "pü\0\U0001f600",
        "epoch": 2**63 - 1,
        "sequence": revision,
    } | columns
    head = (revision, *values.values())
    return LogRow(*head, checksum(head, payload, before), payload)


def chained(*rows: LogRow) -> list[LogRow]:
    """Return rows with the checksums that they have one behind the other."""
    found: list[LogRow] = []
    for each in rows:
        before = found[-1].crc32 if found else 0
        found.append(each._replace(crc32=checksum(each[:8], each.payload, before)))
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


def opened(path) -> SqliteStorage:
    storage = SqliteStorage(path)
    storage.open()
    return storage


def altered(path, statement, *values) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def produce(core: ServerCore, batches: int, stream="s", rows=50) -> None:
    """Send batches as a producer would, each in a commit of its own."""
    session = IngestSession(core.committer, core.limits)
    request = pb.IngestRequest(open=pb.Open(producer=f"to {stream}", epoch=1))
    session.feed(request.SerializeToString(), NOW)
    core.committer.step(NOW).deliver()
    last = session.replies()[0].resume.last_sequence
    for sequence in range(last + 1, last + batches + 1):
        rng = np.random.default_rng(sequence)
        cases = pb.Cases(
            scores=rng.random(rows).tolist(), positives=(rng.random(rows) < 0.3).tolist()
        )
        batch = pb.Batch(sequence=sequence, stream=stream, cases=cases)
        session.feed(pb.IngestRequest(batch=batch).SerializeToString(), NOW)
        core.committer.step(NOW + sequence)
    core.applier.finish()


def take_checkpoint(core: ServerCore) -> None:
    core.applier.request_checkpoint()
    core.applier.finish()
    while core.committer.step(NOW).more:
        pass
    assert core.committer.checkpoint_revision == core.engine.revision


def test_rows_come_back_as_they_were(path):
    """After a close, with every unusual value that a column may hold."""
    rows = chained(
        row(1), row(2, b"", producer="", epoch=0, sequence=0), row(3, bytes(range(256)) * 999)
    )
    storage = opened(path)
    assert storage.last_revision() == 0
    storage.append(rows[:2])
    storage.append(rows[2:])
    storage.close()
    storage.close()
    storage.open()
    assert storage.last_revision() == 3
    assert list(storage.read(0)) == rows
    assert list(storage.read(2)) == rows[2:]
    assert list(storage.read(3)) == []
    storage.close()


def test_commits_are_durable(path):
    """WAL with full syncs."""
    storage = opened(path)
    connection = storage._opened()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    storage.close()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_only_the_owner_may_read_the_log(path):
    """Whatever the umask; the files beside it have the same mode."""
    before = os.umask(0o022)
    try:
        storage = opened(path)
        storage.append([row(1)])
        modes = modes_of(path)
        storage.close()
    finally:
        os.umask(before)
    assert modes.keys() >= {f"{path.name}{end}" for end in ("", "-wal", "-shm")}
    modes |= modes_of(path)
    assert f"{path.name}-acked" in modes
    assert set(modes.values()) == {0o600}


def modes_of(path) -> dict[str, int]:
    """Return the mode of each file in the log's directory."""
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}


def test_an_existing_log_keeps_its_mode(path):
    """A mode that an operator has set stays."""
    opened(path).close()
    path.chmod(0o640)
    opened(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_transaction_is_all_or_nothing(path):
    """If one row cannot be written, none is."""
    storage = opened(path)
    with pytest.raises(StorageError):
        storage.append([row(1), row(1)])
    storage.close()
    storage.open()
    assert storage.last_revision() == 0
    storage.close()


def test_a_closed_log_says_so(path):
    """With a StorageError, not an exception of sqlite3."""
    storage = SqliteStorage(path)
    with pytest.raises(StorageError, match="is closed"):
        storage.last_revision()


@pytest.mark.parametrize(
    "column",
    [
        "received_us",
        "kind",
        "format",
        "epoch",
        "sequence",
        "crc32",
        "stream",
        "producer",
        "payload",
    ],
)
def test_every_column_is_covered_by_the_checksum(path, column):
    """A change of any column of a row is detected."""
    storage = opened(path)
    storage.append(chained(row(1), row(2), row(3)))
    storage.close()
    new = {"stream": "fraud/v4", "producer": "q", "payload": b"y"}.get(column, 77)
    altered(path, f"UPDATE log SET {column} = ? WHERE revision = 2", new)
    storage.open()
    with pytest.raises(CorruptLogError, match="log row 2 is not what was written"):
        list(storage.read(0))
    if column != "crc32":
        assert [each.revision for each in storage.read(2)] == [3]
    storage.close()


def test_a_row_of_another_history_is_refused(path, tmp_path):
    """A row that is whole in itself does not fit behind other rows than its own."""
    storage = opened(path)
    storage.append(chained(row(1), row(2), row(3)))
    storage.close()
    other = opened(tmp_path / "other.db")
    other.append(chained(row(1, b"other"), row(2), row(3)))
    (_, second, _) = other.read(0)
    other.close()
    altered(path, "UPDATE log SET crc32 = ? WHERE revision = 2", second.crc32)
    storage.open()
    with pytest.raises(CorruptLogError, match="log row 2 is not what was written"):
        list(storage.read(0))
    storage.close()


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("DELETE FROM log WHERE revision = 1", "row 1 is missing"),
        ("DELETE FROM log WHERE revision = 2", "row 2 is missing"),
        ("UPDATE log SET revision = 9 WHERE revision = 3", "row 3 is missing: row 9 follows"),
    ],
)
def test_missing_rows_are_detected(path, statement, missing):
    """Revisions have no gaps."""
    storage = opened(path)
    storage.append(chained(row(1), row(2), row(3)))
    storage.close()
    altered(path, statement)
    storage.open()
    with pytest.raises(CorruptLogError, match=missing):
        list(storage.read(0))
    storage.close()


def test_files_of_others_are_refused(path, tmp_path):
    """A text file, another program's database, a newer format."""
    text = tmp_path / "notes.txt"
    text.write_text("These are my notes. " * 100)
    with pytest.raises(StorageError, match=r"cannot open .*notes\.txt"):
        SqliteStorage(text).open()
    assert text.read_text().startswith("These are my notes.")
    other = tmp_path / "other.db"
    altered(other, "CREATE TABLE t(x)")
    with pytest.raises(StorageError, match=r"other\.db is not a streameval log"):
        SqliteStorage(other).open()
    opened(path).close()
    altered(path, "PRAGMA user_version = 3")
    with pytest.raises(StorageError, match="has format 3, this version knows 1"):
        SqliteStorage(path).open()
    with pytest.raises(StorageError, match="cannot open"):
        SqliteStorage(tmp_path / "nowhere" / "log.db").open()


@pytest.mark.parametrize(
    "step", ["sqlite.ensure_schema", "sqlite.read_history", "recovery.replay", "recovery.Committer"]
)
@pytest.mark.parametrize("error", [MemoryError, StorageError, KeyboardInterrupt])
def test_a_refused_start_leaves_nothing_open(path, monkeypatch, step, error):
    """Whatever ends it, and however far it has come, the file's connections are closed."""
    opened, connect = [], sqlite3.connect

    def noted(*arguments, **settings):
        opened.append(connect(*arguments, **settings))
        return opened[-1]

    def refused(*_arguments, **_settings):
        raise error("refused")

    module, _, name = step.partition(".")
    monkeypatch.setattr(sqlite3, "connect", noted)
    monkeypatch.setattr({"sqlite": sqlite, "recovery": recovery}[module], name, refused)
    with pytest.raises(error):
        open_core(SqliteStorage(path), Limits())
    assert opened
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


@pytest.mark.parametrize(("kind", "format_"), [(99, 1), (1, 99), (1, 0), (3, 1)])
def test_rows_of_a_newer_version_refuse_to_start(path, kind, format_):
    """Unknown rows are not skipped."""
    storage = opened(path)
    storage.append([row(1, kind=kind, format=format_)])
    storage.close()
    with pytest.raises(StorageError, match=f"log row 1 has kind {kind} and format {format_}"):
        open_core(storage, Limits())


def test_payloads_of_another_format_refuse_to_start(path):
    """Even with a correct checksum."""
    storage = opened(path)
    storage.append([row(1, b"\xff\xff")])
    storage.close()
    with pytest.raises(CorruptLogError, match="log row 1: not a batch"):
        open_core(storage, Limits())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_restart_restores_everything(path, kind):
    """From the log alone, from a checkpoint, and from a checkpoint and the log after it."""
    storage = MemoryStorage() if kind == "memory" else SqliteStorage(path)
    core = open_core(storage, Limits())
    produce(core, 5, "a")
    for revision in (0, 6):
        storage.close()
        again = open_core(storage, Limits())
        assert again.recovery.checkpoint_revision == revision
        assert again.recovery.replayed == 6 - revision
        assert again.engine.state_hash() == core.engine.state_hash()
        core = again
        if not revision:
            take_checkpoint(core)
    produce(core, 2, "b")
    storage.close()
    again = open_core(storage, Limits())
    assert (again.recovery.checkpoint_revision, again.recovery.replayed) == (6, 3)
    assert again.engine.state_hash() == core.engine.state_hash()
    storage.close()


def test_checkpoints_are_written_in_pieces_and_only_where_something_changed(path, monkeypatch):
    """Commits continue between the pieces; the manifest's write deletes the old parts."""
    monkeypatch.setattr(checkpoint, "PIECE_BYTES", 128)
    storage = SqliteStorage(path)
    core = open_core(storage, Limits())
    produce(core, 1, "a")
    produce(core, 1, "b")
    take_checkpoint(core)

    def parts() -> list[tuple[str, int, int]]:
        query = (
            "SELECT part, revision, count(*) FROM part WHERE part <> 'history' "
            "GROUP BY part, revision"
        )
        return storage._opened().execute(query).fetchall()

    pane = f"pane/{NOW}"
    assert [(part, revision) for part, revision, _ in parts()] == [
        ("marks", 4),
        (f"{pane}/a", 4),
        (f"{pane}/b", 4),
        ("stream/a", 4),
        ("stream/b", 4),
        ("verdict/0/a", 4),
        ("verdict/0/b", 4),
    ]
    assert parts()[1][2] > 1
    (longest,) = storage._opened().execute("SELECT max(length(data)) FROM part").fetchone()
    assert longest == 128

    produce(core, 1, "b")
    core.applier.request_checkpoint()
    core.applier.finish()
    assert core.committer.step(NOW).more
    produce(core, 1, "a")  # committed after the checkpoint was taken, so not in it
    while core.committer.step(NOW).more:
        pass
    assert core.committer.checkpoint_revision == 5
    assert [(part, revision) for part, revision, _ in parts()] == [
        ("marks", 5),
        (f"{pane}/a", 4),
        (f"{pane}/b", 5),
        ("stream/a", 4),
        ("stream/b", 5),
        ("verdict/0/a", 4),
        ("verdict/0/b", 5),
    ]
    storage.close()
    again = open_core(storage, Limits())
    assert (again.recovery.checkpoint_revision, again.recovery.replayed) == (5, 1)
    assert again.engine.state_hash() == core.engine.state_hash()
    storage.close()


def test_a_crash_between_the_pieces_leaves_the_checkpoint_before_it(path, monkeypatch):
    """The start deletes the parts of the unfinished one."""
    monkeypatch.setattr(checkpoint, "PIECE_BYTES", 256)
    storage = SqliteStorage(path)
    core = open_core(storage, Limits())
    produce(core, 1)
    take_checkpoint(core)
    produce(core, 1)
    core.applier.request_checkpoint()
    core.applier.finish()
    assert core.committer.step(NOW).more
    storage.close()
    again = open_core(storage, Limits())
    assert (again.recovery.checkpoint_revision, again.recovery.replayed) == (2, 1)
    assert again.engine.state_hash() == core.engine.state_hash()
    assert {revision for _, revision in storage.part_keys()} == {2}
    storage.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE part SET data = zeroblob(length(data)) WHERE part = 'stream/s'",
        "DELETE FROM part WHERE part = 'marks'",
        "UPDATE manifest SET data = substr(data, 1, length(data) - 1)",
        "UPDATE manifest SET data = x''",
    ],
)
def test_a_damaged_checkpoint_is_replaced_by_the_log(path, damage):
    """The whole log gives the same state; the report tells that the checkpoint was not used."""
    storage = SqliteStorage(path)
    core = open_core(storage, Limits())
    produce(core, 3)
    take_checkpoint(core)
    storage.close()
    altered(path, damage)
    again = open_core(storage, Limits())
    assert again.recovery.checkpoint_error is not None
    assert again.recovery.replayed == 4
    assert again.engine.state_hash() == core.engine.state_hash()
    take_checkpoint(again)
    storage.close()
    assert open_core(storage, Limits()).recovery.checkpoint_error is None
    storage.close()


def test_a_log_that_ends_before_its_checkpoint_is_refused(path):
    """It lost acknowledged rows."""
    storage = SqliteStorage(path)
    core = open_core(storage, Limits())
    produce(core, 3)
    take_checkpoint(core)
    storage.close()
    altered(path, "DELETE FROM log WHERE revision = 4")
    with pytest.raises(CorruptLogError, match="revision 4 was acknowledged and is lost"):
        open_core(storage, Limits())


def test_a_checkpoint_of_a_newer_version_refuses_to_start(path, monkeypatch):
    """Its log may hold rows that this version would misread."""
    storage = SqliteStorage(path)
    core = open_core(storage, Limits())
    produce(core, 1)
    known = checkpoint.FORMAT
    monkeypatch.setattr(checkpoint, "FORMAT", known + 1)
    take_checkpoint(core)
    storage.close()
    monkeypatch.undo()
    refusal = f"the checkpoint has format {known + 1}, this version knows {known}"
    with pytest.raises(StorageError, match=refusal):
        open_core(storage, Limits())


def test_checkpoints_are_taken_when_due(path):
    """After a number of bytes of log."""
    storage = SqliteStorage(path)
    core = open_core(storage, Limits(checkpoint_bytes=2000))
    produce(core, 3)
    assert not core.applier.checkpoint_pending
    produce(core, 2)
    assert core.applier.checkpoint_pending
    while core.committer.step(NOW).more:
        pass
    assert 0 < core.committer.checkpoint_revision <= 6
    assert not core.applier.checkpoint_pending
    storage.close()


def test_a_server_without_storage_serves_and_keeps_nothing():
    """Its log does not grow, and it takes no checkpoints."""
    storage = NullStorage()
    core = open_core(storage, Limits(checkpoint_bytes=1))
    produce(core, 3)
    assert core.engine.view("s").evaluator.num_cases == 150
    assert not core.applier.checkpoint_pending
    core.drain(NOW)
    assert storage.manifest() is None


def test_disk_use_per_case(path):
    """At most 10 bytes a case in batches of 1,000."""
    storage = SqliteStorage(path)
    core = open_core(storage, Limits())
    produce(core, 60, rows=1000)
    storage.close()
    assert path.stat().st_size <= 10 * 60_000
