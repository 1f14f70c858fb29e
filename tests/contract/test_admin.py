"""AdminService over gRPC: status, backup, export, import and compaction."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

import streameval
from streameval.kernel import Frame
from streameval.v1 import admin_pb2, ingest_pb2, query_pb2, stream_pb2, types_pb2
from streameval_server import Limits, Settings
from streameval_server.maintenance import LOG_NAME, replay_until, verify
from streameval_server.testing import running_server

from .conftest import Wire, failure, selection

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


@contextmanager
def serving(directory: Path | None = None, **limits: int) -> Iterator[Wire]:
    """Run a server on a directory, or in memory; yield its stubs."""
    settings = Settings(
        listen="127.0.0.1:0",
        data=directory,
        memory=directory is None,
        limits=Limits(**limits),
    )
    # Pieces that are not read yet stay at the server: a call whose caller waits is not over.
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
    with running_server(settings) as address, grpc.insecure_channel(address, options) as channel:
        yield Wire(channel)


def cases(stream: str, rows: int = 200, seed: int = 0) -> ingest_pb2.Batch:
    """Return a batch of cases with segments."""
    scores = [(seed * 37 + row * row) % 997 / 997 for row in range(rows)]
    segment = ingest_pb2.SegmentColumn(
        key="country", values=["US", "DE"], codes=[row % 2 for row in range(rows)]
    )
    return ingest_pb2.Batch(
        stream=stream,
        cases=ingest_pb2.Cases(
            scores=scores, positives=[score > 0.8 for score in scores], segments=[segment]
        ),
    )


def filled(wire: Wire, stream: str) -> int:
    """Send cases, predictions, labels and misses; return the last revision."""
    settings = stream_pb2.StreamSettings(segment_keys=["country"], max_pending=50)
    wire.streams.CreateStream(
        stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=stream, settings=settings)),
        timeout=20,
    )
    wire.one(cases(stream))
    ids = [f"id-{row}" for row in range(50)]
    predictions = ingest_pb2.Predictions(ids=ids, scores=[row / 50 for row in range(50)])
    wire.one(ingest_pb2.Batch(stream=stream, predictions=predictions))
    labels = ingest_pb2.Labels(ids=ids[:20], positives=[row % 3 == 0 for row in range(20)])
    wire.one(ingest_pb2.Batch(stream=stream, labels=labels))
    return wire.one(ingest_pb2.Batch(stream=stream, misses=ingest_pb2.Misses(positives=2))).revision


def state_hash(wire: Wire, revision: int = 0) -> admin_pb2.GetStateHashResponse:
    """Return the hash."""
    return wire.admin.GetStateHash(admin_pb2.GetStateHashRequest(min_revision=revision), timeout=20)


def backup(wire: Wire, target: Path) -> admin_pb2.BackupResponse:
    """Write a backup to a file; return the last piece."""
    pieces = list(wire.admin.Backup(admin_pb2.BackupRequest(), timeout=60))
    data = b"".join(piece.data for piece in pieces)
    assert {len(data)} == {piece.total_bytes for piece in pieces}
    assert {piece.revision for piece in pieces} == {pieces[-1].revision}
    assert all(len(piece.data) <= MIB for piece in pieces)
    assert [piece.sha256 for piece in pieces[:-1]] == [""] * (len(pieces) - 1)
    assert pieces[-1].sha256 == hashlib.sha256(data).hexdigest()
    target.write_bytes(data)
    return pieces[-1]


def exported(wire: Wire, stream: str) -> bytes:
    """Return a stream's export."""
    pieces = list(wire.admin.ExportStream(admin_pb2.ExportStreamRequest(name=stream), timeout=20))
    data = b"".join(piece.data for piece in pieces)
    assert {len(data)} == {piece.total_bytes for piece in pieces}
    return data


def requests_of(
    data: bytes, name: str = "", total: int | None = None
) -> Iterator[admin_pb2.ImportStreamRequest]:
    """Yield the messages of an import."""
    header = admin_pb2.ImportStreamHeader(
        name=name, total_bytes=len(data) if total is None else total
    )
    yield admin_pb2.ImportStreamRequest(header=header)
    for start in range(0, len(data), MIB):
        yield admin_pb2.ImportStreamRequest(data=data[start : start + MIB])


def imported(wire: Wire, data: bytes, name: str = "") -> admin_pb2.ImportStreamResponse:
    """Import a stream."""
    return wire.admin.ImportStream(requests_of(data, name), timeout=60)


def answers(wire: Wire, stream: str, *, delays: bool = True) -> list[object]:
    """Return the answers of a stream, without names and revisions."""
    found: list[object] = []
    for key in (None, "US", "DE"):
        for last_s in (0, 3600):
            chosen = selection(stream)
            if key is not None:
                chosen.segment.key, chosen.segment.value = "country", key
            if last_s:
                chosen.last.seconds = last_s
            request = query_pb2.GetSnapshotRequest(selection=chosen)
            snapshot = wire.query.GetSnapshot(request, timeout=20).snapshot
            snapshot.ClearField("revision")
            snapshot.ClearField("stream")
            snapshot.ClearField("window")
            if not delays:
                snapshot.coverage.ClearField("delays")
                snapshot.coverage.ClearField("delay_histogram")
            found.append(snapshot)
    described = wire.streams.GetStream(stream_pb2.GetStreamRequest(name=stream), timeout=20).stream
    return [*found, described.settings, described.create_time, described.counters.kept_ids]


# --- Status and hash --------------------------------------------------------------------------


def test_status_says_what_is_so(tmp_path: Path) -> None:
    """Revisions, streams, ids, the disk, and the commits that were made."""
    with serving(tmp_path) as wire:
        revision = filled(wire, "s")
        state_hash(wire, revision)
        status = wire.admin.GetServerStatus(admin_pb2.GetServerStatusRequest(), timeout=20)
        assert status.version == streameval.__version__
        assert re.fullmatch(r"127\.0\.0\.1:\d+", status.grpc_address)
        assert (status.serving, status.problem) == (True, "")
        assert status.start_time.ToMicroseconds() <= status.time.ToMicroseconds()
        assert (status.durable_revision, status.applied_revision) == (revision, revision)
        assert (status.checkpoint_revision, status.log_start_revision) == (0, 0)
        assert not status.HasField("checkpoint_time")
        assert (status.streams, status.pending, status.lag_rows) == (1, 50, 0)
        rows = admin_pb2.RowCounts(cases=200, predictions=50, labels=20, misses=1)
        assert (status.batch_rows, status.refused_batches) == (rows, 0)
        assert 0 < status.state_bytes < status.max_state_bytes
        assert status.open_calls == 1
        assert status.disk.directory == str(tmp_path)
        files = [path for path in tmp_path.iterdir() if path.name.startswith(LOG_NAME)]
        assert status.disk.used_bytes == sum(path.stat().st_size for path in files)
        assert status.commits.count == revision
        commits = status.commits
        times = [each.ToNanoseconds() for each in (commits.p50, commits.p99, commits.max)]
        assert times == sorted(times)
        assert times[0] > 0
        wire.admin.CompactLog(admin_pb2.CompactLogRequest(), timeout=20)
        status = wire.admin.GetServerStatus(admin_pb2.GetServerStatusRequest(), timeout=20)
        assert status.checkpoint_revision == status.log_start_revision == revision
        assert status.start_time.ToMicroseconds() < status.checkpoint_time.ToMicroseconds()


def test_status_warns() -> None:
    """Warnings of limits that are nearly reached, and of a server in memory."""
    with serving(max_streams=2, max_pending_total=50) as wire:
        filled(wire, "a")
        one = ingest_pb2.Batch(stream="b", misses=ingest_pb2.Misses(positives=1))
        revision = wire.one(one).revision
        state_hash(wire, revision)
        status = wire.admin.GetServerStatus(admin_pb2.GetServerStatusRequest(), timeout=20)
        assert list(status.warnings) == [
            "nothing is kept on disk: all data is lost when the process ends (--memory)",
            "waiting ids: 50 of at most 50 (limits.max_pending_total)",
            "streams: 2 of at most 2 (limits.max_streams)",
        ]
        assert not status.HasField("disk")
        assert not status.HasField("commits")


def test_the_hash_is_that_of_the_log(tmp_path: Path) -> None:
    """The hash is equal for a server, a replay, and a server restarted from its checkpoint."""
    with serving(tmp_path) as wire:
        revision = filled(wire, "s")
        first = state_hash(wire, revision)
        assert first.revision == revision
        assert first.sha256 == replay_until(tmp_path, revision).state_hash()
        assert len(first.sha256) == 64
        later = wire.one(cases("s", seed=1)).revision
        assert state_hash(wire, later).sha256 != first.sha256
        last = state_hash(wire)
        future = failure(lambda: state_hash(wire, later + 1))
        assert future.code == grpc.StatusCode.OUT_OF_RANGE
    with serving(tmp_path) as wire:
        assert state_hash(wire) == last


# --- Backup -----------------------------------------------------------------------------------


def test_a_backup_is_whole_while_batches_come(tmp_path: Path) -> None:
    """It is one revision of the log, bit for bit, while commits continue."""
    with serving(tmp_path / "data") as wire:
        filled(wire, "s")
        stop = threading.Event()
        sent: list[int] = []

        def send() -> None:
            while not stop.is_set():
                sent.append(wire.one(cases("s", seed=len(sent))).revision)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            made = [backup(wire, tmp_path / f"{number}.db") for number in range(3)]
        finally:
            stop.set()
            sender.join()
        assert sent
        for number, last in enumerate(made):
            found = verify(tmp_path / f"{number}.db", Limits())
            assert found.ok
            assert found.revision == last.revision
            then = replay_until(tmp_path / "data", last.revision)
            assert found.state_hash == then.state_hash()
        assert [path.name for path in (tmp_path / "data").glob(".*")] == []


def test_a_server_in_memory_has_nothing_to_back_up(wire: Wire) -> None:
    """The error says so; compaction is not an error, because there is no log."""
    ended = failure(lambda: list(wire.admin.Backup(admin_pb2.BackupRequest(), timeout=20)))
    assert ended.code == grpc.StatusCode.FAILED_PRECONDITION
    assert ended.message == "this server keeps nothing on disk: there is nothing to back up"


def test_what_a_killed_backup_left_is_removed(tmp_path: Path) -> None:
    """The next server removes it at its start."""
    left = tmp_path / ".streameval-copy-k1ll_ed8"
    left.mkdir()
    (left / LOG_NAME).write_bytes(b"half")
    (left / f"{LOG_NAME}-journal").write_bytes(b"")
    with serving(tmp_path):
        assert not left.exists()


def test_the_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """Whatever they are called; and none of them prevents the start."""
    kept = {
        "backup-2026-11/notes.txt": "mine",
        "backup-2026-11/streameval.db": "mine",
        "backup-abcd1234/streameval.db": "mine",
        "backup-monday.db": "mine",
        ".streameval-copy-monday/streameval.db": "mine",
        ".streameval-copy-abcd1234/notes.txt": "mine",
        ".streameval-copy-abcd1235": "a file",
        "elsewhere/streameval.db": "mine",
    }
    for name, text in kept.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".streameval-copy-linked12").symlink_to(tmp_path / "elsewhere")
    with serving(tmp_path):
        pass
    assert {name: (tmp_path / name).read_text() for name in kept} == kept
    assert (tmp_path / ".streameval-copy-linked12").is_symlink()


def until_free(wire: Wire) -> None:
    """Wait until the server has noticed that the caller is gone."""
    ends = time.monotonic() + 20
    while wire.admin.GetServerStatus(admin_pb2.GetServerStatusRequest(), timeout=20).open_calls > 1:
        assert time.monotonic() < ends


def test_a_caller_that_goes_leaves_nothing(tmp_path: Path) -> None:
    """The copy is removed with the call, and the next backup works."""
    with serving(tmp_path / "data") as wire:
        filled(wire, "s")
        for seed in range(8):  # several pieces
            wire.one(cases("s", rows=60_000, seed=seed))
        call = wire.admin.Backup(admin_pb2.BackupRequest(), timeout=20)
        assert next(call).total_bytes > 2 * MIB
        second = failure(lambda: list(wire.admin.Backup(admin_pb2.BackupRequest(), timeout=20)))
        assert (second.code, second.reason) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "BACKUP_IN_PROGRESS",
        )
        call.cancel()
        until_free(wire)
        last = backup(wire, tmp_path / "b.db")
        assert verify(tmp_path / "b.db", Limits()).revision == last.revision


# --- Export and import ------------------------------------------------------------------------


def test_a_stream_moves_with_everything(tmp_path: Path) -> None:
    """Answers, slices, panes, waiting ids and settings move; later labels join them."""
    with serving() as origin, serving(tmp_path) as target:
        state_hash(origin, filled(origin, "s"))
        wire_answers = answers(origin, "s")
        data = exported(origin, "s")
        assert imported(target, data).name == "s"
        assert imported(target, data, "moved/s").name == "moved/s"
        assert answers(target, "s") == answers(target, "moved/s") == wire_answers
        labels = ingest_pb2.Labels(
            ids=[f"id-{row}" for row in range(20, 50)], positives=[True] * 30
        )
        for wire, stream in ((origin, "s"), (target, "moved/s")):
            wire.one(ingest_pb2.Batch(stream=stream, labels=labels))
            revision = wire.one(cases(stream, seed=3)).revision
            state_hash(wire, revision)
        # The labels reached one of the two streams a few milliseconds later.
        moved, stayed = (
            answers(wire, stream, delays=False)
            for wire, stream in ((target, "moved/s"), (origin, "s"))
        )
        assert moved == stayed != wire_answers
        last = state_hash(target)
    # What was imported is in the log, and in checkpoints.
    assert replay_until(tmp_path, last.revision).state_hash() == last.sha256
    assert verify(tmp_path / LOG_NAME, Limits()).ok
    with serving(tmp_path) as again:
        assert state_hash(again) == last


def test_an_import_that_cannot_be_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """An existing name, altered or truncated bytes, limits, and an unknown stream."""
    with serving() as origin, serving(tmp_path) as wire:
        filled(origin, "s")
        data = exported(origin, "s")
        imported(wire, data)
        before = state_hash(wire)

        def refused(
            data: bytes, name: str = "new", total: int | None = None
        ) -> tuple[grpc.StatusCode, str]:
            ended = failure(
                lambda: wire.admin.ImportStream(requests_of(data, name, total), timeout=20)
            )
            return ended.code, ended.message

        invalid = grpc.StatusCode.INVALID_ARGUMENT
        assert refused(data, "s") == (
            grpc.StatusCode.ALREADY_EXISTS,
            "there is a stream s already",
        )
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 1
        assert refused(bytes(flipped)) == (
            invalid,
            "the exported stream's bytes were altered: their checksum does not match",
        )
        assert refused(data[:-9], total=len(data)) == (
            invalid,
            f"{len(data)} bytes are announced, got {len(data) - 9}: truncated?",
        )
        assert refused(data, total=10)[1] == "the data has more than the 10 bytes announced"
        assert refused(b"")[1] == "0 bytes are too few for an exported stream: truncated?"
        assert refused(data, "a//b")[0] == invalid
        newer = Frame(b"SVEX", 5, "an exported stream").sealed(data[7:-4])
        assert refused(newer)[1] == (
            "exported stream format 5 is unknown; this version reads format 1"
        )
        ended = failure(lambda: wire.admin.ImportStream(iter([]), timeout=20))
        assert ended.message == "the first message must be header"
        ended = failure(lambda: exported(wire, "unknown"))
        assert (ended.code, ended.message) == (
            grpc.StatusCode.NOT_FOUND,
            (
                "there is no stream unknown: ListStreams (streameval streams list) has the names; "
                "a first batch or CreateStream (streameval streams create) makes it"
            ),
        )
        assert state_hash(wire) == before
    with serving(max_import_bytes=100) as small:
        ended = failure(lambda: imported(small, data))
        assert (ended.code, ended.reason) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "IMPORT_TOO_LARGE",
        )
    with serving(max_streams=1) as full:
        full.one(ingest_pb2.Batch(stream="a", misses=ingest_pb2.Misses(positives=1)))
        assert failure(lambda: imported(full, data)).reason == "TOO_MANY_STREAMS"


# --- Compaction -------------------------------------------------------------------------------


def test_a_compacted_log_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    """During ingest: no row is lost, space is reused, and restarts find everything."""
    with serving(tmp_path) as wire:
        filled(wire, "s")
        stop = threading.Event()
        sent: list[int] = []

        def send() -> None:
            while not stop.is_set():
                sent.append(wire.one(cases("s", rows=5_000, seed=len(sent))).revision)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            done = [
                wire.admin.CompactLog(admin_pb2.CompactLogRequest(), timeout=60) for _ in range(3)
            ]
        finally:
            stop.set()
            sender.join()
        starts = [each.log_start_revision for each in done]
        assert starts == sorted(starts)
        assert sum(each.dropped_rows for each in done) == starts[-1] - 1
        last = state_hash(wire, sent[-1])
        with closing(sqlite3.connect(f"file:{tmp_path / LOG_NAME}?mode=ro", uri=True)) as log:
            (first,) = log.execute("SELECT min(revision) FROM log").fetchone()
        assert first == starts[-1]
        assert replay_until(tmp_path, starts[-1]).revision == starts[-1]
        with pytest.raises(streameval.StreamEvalError, match="from before the compaction"):
            replay_until(tmp_path, starts[-1] - 1)
    with serving(tmp_path) as wire:
        assert state_hash(wire) == last
        again = wire.admin.CompactLog(admin_pb2.CompactLogRequest(), timeout=60)
        assert again.log_start_revision == last.revision
        assert state_hash(wire) == last
    found = verify(tmp_path / LOG_NAME, Limits())
    assert found.ok
    assert (found.revision, found.state_hash) == (last.revision, last.sha256)


def test_what_was_done_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Copies, imports and compactions are logged, without their content."""
    caplog.set_level("INFO")
    with serving(tmp_path / "data") as wire:
        filled(wire, "s")
        imported(wire, exported(wire, "s"), "moved")
        backup(wire, tmp_path / "b.db")
        wire.admin.CompactLog(admin_pb2.CompactLogRequest(), timeout=20)
    told = [each.getMessage() for each in caplog.records if "admin_service" in each.name]
    assert told == [
        "moved was imported at revision 6",
        "a backup of the whole log, revision 6, was sent",
        "the log begins at revision 6 now, 5 rows were dropped",
    ]
    assert "id-7" not in caplog.text


def test_an_empty_log_has_nothing_to_drop(tmp_path: Path) -> None:
    """On disk and in memory."""
    for directory in (tmp_path, None):
        with serving(directory) as wire:
            done = wire.admin.CompactLog(admin_pb2.CompactLogRequest(), timeout=20)
            assert (done.log_start_revision, done.dropped_rows) == (0, 0)


def test_early_expiry_is_said_where_it_is_looked_for(caplog: pytest.LogCaptureFixture) -> None:
    """In the log, in the status, and in the stream's answers."""
    with serving() as wire:
        stream = stream_pb2.Stream(name="s")
        stream.settings.max_pending = 3
        wire.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=stream), timeout=20)
        sent = ingest_pb2.Predictions(ids=list("abcdef"), scores=[0.5] * 6)
        revision = wire.one(ingest_pb2.Batch(stream="s", predictions=sent)).revision
        state_hash(wire, revision)
        status = wire.admin.GetServerStatus(admin_pb2.GetServerStatusRequest(), timeout=20)
        asked = query_pb2.GetSnapshotRequest(selection=types_pb2.Selection(stream="s"))
        snapshot = wire.query.GetSnapshot(asked, timeout=20).snapshot
    assert status.expired_early == 6
    text = "stream s: 6 predictions expired before their label_ttl"
    assert [each.startswith(text) for each in status.warnings].count(True) == 1
    assert [each.startswith(text) for each in caplog.messages].count(True) == 1
    assert list(snapshot.warning_kinds) == [types_pb2.WARNING_KIND_EXPIRED_EARLY]
    assert snapshot.warnings[0].startswith("6 predictions of the stream expired before")
