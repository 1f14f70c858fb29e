"""A log of format 2 replays unchanged: its rows, its producers, its requests, a doubted clock.

`data/server_log_v3` was written by make_server_log_v3.py at version 0.1 and is never written
again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server._core.recovery import open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.acked_revision import AckedRevisionFile
from streameval_server._log.entries import Format, Kind, LogRow, checksum
from streameval_server._log.loss import LostRowsError
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import RequestError

DATA = Path(__file__).parent / "data" / "server_log_v3"
STATE_HASH = "559678a3f9cbaced997952bc25d2a12d16d3c6009e3a9f097987094dc26a3190"
"""The hash of the state that this version computes from that log, as for version 1's."""

FORMATS = set(range(Format.REFUSAL, Format.EXTENDED_INGEST_REQUEST))
"""Those that were written then; version 2's log has the older ones."""
HOLD_REVISION, CHECKPOINT_REVISION, RELEASE_REVISION, LAST_REVISION = 14, 15, 17, 27


@pytest.fixture
def log(tmp_path) -> Path:
    for end in ("", "-acked"):
        shutil.copy(DATA / f"log.db{end}", tmp_path / f"log.db{end}")
    return tmp_path / "log.db"


def changed(log: Path, statement: str) -> None:
    """Change a log."""
    with closing(sqlite3.connect(log)) as connection:
        connection.execute(statement)
        connection.commit()


def test_the_log_has_every_kind_and_format(log):
    """The rows are chained, the checkpoint was taken while the clock was in doubt."""
    with closing(sqlite3.connect(log)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        rows = [LogRow._make(row) for row in connection.execute("SELECT * FROM log")]
        parts = dict(connection.execute("SELECT part, data FROM part WHERE revision > 0"))
    assert {row.kind for row in rows} == {kind for kind in Kind if kind <= Kind.OPEN}
    assert {row.format for row in rows} == FORMATS
    before = 0
    for row in rows:
        head = row[:8]
        assert row.crc32 == checksum(head, row.payload, before), row.revision
        assert row.revision == 1 or row.crc32 != checksum(head, row.payload, 0), row.revision
        before = row.crc32
    kinds = {row.revision: row.kind for row in rows}
    assert kinds[HOLD_REVISION] == Kind.HOLD
    assert kinds[RELEASE_REVISION] == Kind.RELEASE
    assert HOLD_REVISION < CHECKPOINT_REVISION < RELEASE_REVISION
    assert parts.keys() >= {"held", "marks"}
    assert struct.unpack_from("<q", parts["marks"]) == (-3,)
    assert AckedRevisionFile(log).read() == (LAST_REVISION, before)


@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_log_of_version_3_replays(log, log_facts, checkpoint):
    """From its checkpoint and from its first row: every count, mark, refusal and checksum."""
    if not checkpoint:
        changed(log, "DELETE FROM manifest")
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    core = open_core(SqliteStorage(log), log_facts.LIMITS)
    assert core.recovery.checkpoint_error is None
    assert core.recovery.checkpoint_revision == (CHECKPOINT_REVISION if checkpoint else 0)
    found = log_facts.facts(core) | {"delivery": log_facts.delivery_facts(core)}
    log_facts.same(json.loads(json.dumps(found)), expected)
    assert core.engine.held_us is None
    history = core.storage.history()
    assert (history.number > 0, history.chain_start, history.losses) == (True, 0, ())
    assert core.engine.state_hash() == STATE_HASH
    core.storage.close()


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_log_that_ends_in_doubt_is_held(log, log_facts, checkpoint):
    """As far as it goes, the clock's doubt is part of the state."""
    if not checkpoint:
        changed(log, "DELETE FROM manifest")
    changed(log, f"DELETE FROM log WHERE revision >= {RELEASE_REVISION}")
    Path(f"{log}-acked").unlink()
    with closing(sqlite3.connect(log)) as connection:
        (held_us,) = connection.execute(
            f"SELECT received_us FROM log WHERE revision = {HOLD_REVISION}"
        ).fetchone()
    core = open_core(SqliteStorage(log), log_facts.LIMITS)
    assert core.engine.held_us == core.committer.held_us == held_us
    core.storage.close()


@pytest.mark.parametrize("checkpoint", [True, False])
def test_what_was_sent_before_is_known(log, log_facts, checkpoint):
    """A batch and a request are known again, another content under their name is refused."""
    if not checkpoint:
        changed(log, "DELETE FROM manifest")
    core = open_core(SqliteStorage(log), log_facts.LIMITS)
    rows = {row.revision: row for row in core.storage.read(0)}
    revision, now_us = core.engine.revision, rows[LAST_REVISION].received_us
    last = rows[LAST_REVISION]
    session = IngestSession(core.committer, log_facts.LIMITS)
    hello = pb.Open(producer=last.producer, epoch=last.epoch)
    session.feed(pb.IngestRequest(open=hello).SerializeToString(), now_us)
    assert session.replies()[0].resume.last_sequence == last.sequence
    session.feed(last.payload, now_us)
    assert session.replies()[-1].ack.last_sequence == last.sequence
    other = pb.IngestRequest.FromString(last.payload)
    other.batch.labels.ids[0] = "another"
    with pytest.raises(RequestError, match="with another content"):
        session.feed(other.SerializeToString(), now_us)
    fenced = pb.IngestRequest(open=pb.Open(producer=last.producer, epoch=last.epoch - 1))
    lower = IngestSession(core.committer, log_facts.LIMITS)
    with pytest.raises(RequestError) as caught:
        lower.feed(fenced.SerializeToString(), now_us)
    assert caught.value.reason == "EPOCH_FENCED"
    (logged,) = (row for row in rows.values() if row.producer == "request:update-held")
    call = UnaryCall(core.committer, log_facts.LIMITS)
    call.update_stream(logged.payload)
    core.committer.step(now_us).deliver()
    assert call.response().duplicate
    request = stream_pb2.UpdateStreamRequest.FromString(logged.payload)
    request.stream.settings.label_ttl.seconds = 1
    call = UnaryCall(core.committer, log_facts.LIMITS)
    call.update_stream(request.SerializeToString())
    core.committer.step(now_us).deliver()
    with pytest.raises(RequestError, match="'update-held' was used for another request"):
        call.response()
    assert core.committer.revision == revision
    core.storage.close()


def test_a_log_without_its_end_is_refused(log, log_facts):
    """The file of the acknowledged revision says so."""
    changed(log, f"DELETE FROM log WHERE revision = {LAST_REVISION}")
    with pytest.raises(LostRowsError, match=f"revision {LAST_REVISION} was acknowledged"):
        open_core(SqliteStorage(log), log_facts.LIMITS)


def test_the_figures_are_not_trivial():
    """The log has what its version added, with consequences."""
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    assert expected["revision"] == LAST_REVISION
    assert set(expected["streams"]) == {"held", "imported", "replaced"}
    covered = expected["streams"]["held"]["slices"][""]["all_time"]["coverage"]
    # Ten labels arrived hours late while the clock was in doubt; ten predictions expired after.
    assert (covered["labelled"], covered["expired"]) == (14, 20)
    assert expected["streams"]["replaced"]["sources"] == {"edge": 1}
    delivery = expected["delivery"]
    assert all(len(delivery[name]["checksums"]) >= 24 for name in ("edge ü", "unary"))
    assert delivery["unary"]["checksums"][8:16] == "00000000"  # its refused batch
    assert delivery["unary"]["refusals"] == [[2, 9, "id must not be empty at index 0"]]
    assert delivery["opened only"]["mark"][:2] == [9, 0]
