"""Altered log rows and checkpoints with correct checksums.

Damage by a disk is tested in tests/crash/test_server_log_damage.py; here the content
itself is wrong, as a bug in some version or an attacker would leave it. A server
refuses to start with a message, or has a state that it can continue with.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import zlib

import pytest

from streameval.v1 import stream_pb2
from streameval_server import Limits
from streameval_server._core.recovery import open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.checkpoint import FORMAT, Manifest
from streameval_server._log.rows import LogRow, checksum
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import StorageError

LIMITS = Limits()
INTEGERS = (0, 1, 2, 3, 4, 5, 6, 7, 99, -1, 2**31, 2**62, 2**63 - 1, -(2**63))


@pytest.fixture(scope="module")
def written(tmp_path_factory, exemplars):
    """Write every kind of entry, half of them below a checkpoint; return the file."""
    path = tmp_path_factory.mktemp("rows") / "log.db"
    now_us = exemplars.NOW * 1_000_000
    for life in range(2):
        storage = SqliteStorage(path)
        core = open_core(storage, LIMITS)
        for name in ("s", "gone"):
            call = UnaryCall(core.committer, LIMITS)
            request = stream_pb2.CreateStreamRequest(stream=exemplars.stream(f"{name}{life}"))
            call.create_stream(request.SerializeToString())
            core.committer.step(now_us + life).deliver()
        session = IngestSession(core.committer, LIMITS)
        for frame in exemplars.session_frames(f"p{life}", f"s{life}"):
            session.feed(frame.SerializeToString(), now_us + life)
            core.committer.step(now_us + life).deliver()
        call = UnaryCall(core.committer, LIMITS)
        request = stream_pb2.DeleteStreamRequest(name=f"gone{life}")
        call.delete_stream(request.SerializeToString())
        core.committer.step(now_us + life).deliver()
        core.applier.finish()
        if life == 0:
            core.drain(now_us)
        else:
            storage.close()
    return path


def restored(path) -> str | None:
    """Start, apply one step, and return the state's hash; None when the start is refused."""
    storage = SqliteStorage(path)
    message = ""
    try:
        core = open_core(storage, LIMITS)
    except StorageError as error:
        message = str(error)
    if message:
        assert 10 < len(message) < 600
        return None
    found = core.engine.state_hash()
    for info in core.engine.streams():
        view = core.engine.view(info.name)
        assert view is not None
    core.drain(core.engine.received_us)
    return found


def altered(written, memory, statement: str, *values: object):
    """Return a copy of the file after an SQL statement."""
    path = memory / "log.db"
    for each in memory.glob("log.db*"):
        each.unlink()
    shutil.copy(written, path)
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()
    return path


def rows_of(written) -> list[LogRow]:
    connection = sqlite3.connect(written)
    rows = [LogRow(*row) for row in connection.execute("SELECT * FROM log ORDER BY revision")]
    connection.close()
    return rows


def seal(path, rows: list[LogRow], before: int) -> None:
    """Give rows the checksums that follow another row's."""
    with sqlite3.connect(path) as connection:
        for row in rows:
            before = checksum(row[:8], row.payload, before)
            connection.execute(
                "UPDATE log SET crc32 = ? WHERE revision = ?", (before, row.revision)
            )
    connection.close()


def assault_rows(written, memory, hostile, texts, times: int) -> int:
    """Alter rows and correct their checksums; return how many were refused."""
    rows, rng, refused = rows_of(written), hostile.rng, 0
    sealed = (
        "UPDATE log SET received_us = ?, kind = ?, format = ?, stream = ?, producer = ?, "
        "epoch = ?, sequence = ?, crc32 = ?, payload = ? WHERE revision = ?"
    )
    for _ in range(times):
        row = rng.choice(rows)
        column = rng.choice(LogRow._fields[1:8] + ("payload",) * 5)
        if column == "payload":
            value: object = hostile.mutated(row.payload)
            if rng.random() < 0.2:
                value = rng.choice(rows).payload
        elif column in {"stream", "producer"}:
            value = rng.choice(texts)
        else:
            value = rng.choice((*INTEGERS, rng.choice(rows).received_us))
        changed = row._replace(**{column: value})
        place = rows.index(row)
        before = rows[place - 1].crc32 if place else 0
        try:
            crc32 = checksum(changed[:8], changed.payload, before)
        except Exception:  # noqa: BLE001 - a number beyond SQLite's integers
            continue
        changed = changed._replace(crc32=crc32)
        path = altered(written, memory, sealed, *changed[1:], changed.revision)
        seal(path, rows[place + 1 :], crc32)
        try:
            refused += restored(path) is None
        except Exception:
            print(column, row[:8], row.payload[:200], "->", value)
            raise
    return refused


def test_altered_rows_with_right_checksums(written, memory, hostile, texts):
    """Every column of every kind of row is altered."""
    assert assault_rows(written, memory, hostile, texts, 100) > 10


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_many_altered_rows(written, memory, hostile, texts, seed):  # noqa: ARG001 - a part of the test's name
    """The same with many more alterations."""
    assault_rows(written, memory, hostile, texts, 700)


@pytest.mark.parametrize("column", [name for name in LogRow._fields if name != "revision"])
def test_altered_rows_with_their_old_checksums_are_refused(written, memory, column):
    """A checksum covers all columns: a row is never read as another row."""
    last = rows_of(written)[-3]
    value = getattr(last, column)
    other = (
        value + 1
        if isinstance(value, int)
        else value + type(value)(b"x" if isinstance(value, bytes) else "x")
    )
    path = altered(
        written, memory, f"UPDATE log SET {column} = ? WHERE revision = ?", other, last.revision
    )
    assert restored(path) is None


def sealed_manifest(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4, "little") + body


def manifest_of(written) -> bytes:
    connection = sqlite3.connect(written)
    (data,) = connection.execute("SELECT data FROM manifest").fetchone()
    connection.close()
    return bytes(data)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"null",
        b"{" * 5000,
        b'{"format": FORMAT}',
        b'{"format": FORMAT, "revision": "1", "received_us": 0, "parts": {}}',
        b'{"format": FORMAT, "revision": 1, "received_us": 0, "parts": []}',
        b'{"format": FORMAT, "revision": 1, "received_us": 0, "parts": {"marks": 1}}',
        b'{"format": FORMAT, "revision": 1, "received_us": 0, "parts": {"marks": [1]}}',
        b'{"format": FORMAT, "revision": 1, "received_us": 0, "parts": {"marks": ["a", [], {}]}}',
        b'{"format": FORMAT, "revision": -1, "received_us": 0, "parts": {}}',
        b'{"format": FORMAT, "revision": 1e999, "received_us": 0, "parts": {}}',
        b'{"format": FORMAT, "revision": 99999999999999999999, "received_us": 0, "parts": {}}',
    ],
)
def test_a_manifest_of_nonsense_is_replaced_by_the_log(written, memory, body):
    """The log has the same content, so only time is lost."""
    body = body.replace(b"FORMAT", str(FORMAT).encode())
    path = altered(written, memory, "UPDATE manifest SET data = ?", sealed_manifest(body))
    assert restored(path) == restored(altered(written, memory, "DELETE FROM manifest"))


def assault_parts(written, memory, hostile, times: int) -> int:
    """Alter checkpoint parts and correct their checksums; return how many were not used."""
    connection = sqlite3.connect(written)
    parts = connection.execute("SELECT part, revision, data FROM part WHERE piece = 0").fetchall()
    connection.close()
    fields = json.loads(manifest_of(written)[4:])
    whole = restored(altered(written, memory, "DELETE FROM manifest"))
    unused = 0
    for _ in range(times):
        part, revision, data = hostile.rng.choice(parts)
        changed = hostile.resealed(hostile.mutated(data))
        path = altered(written, memory, "UPDATE part SET data = ? WHERE part = ?", changed, part)
        fields["parts"][part] = [revision, len(changed), zlib.crc32(changed)]
        body = json.dumps(fields).encode()
        assert Manifest.from_bytes(sealed_manifest(body)).parts
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE manifest SET data = ?", (sealed_manifest(body),))
        connection.close()
        fields["parts"][part] = [revision, len(data), zlib.crc32(data)]
        try:
            unused += restored(path) in {None, whole}
        except Exception:
            print(part, data[:300], "->", changed[:300])
            raise
    return unused


def test_altered_parts_with_right_checksums(written, memory, hostile):
    """A part that cannot be decoded is replaced from the log; any other is a valid state."""
    assert assault_parts(written, memory, hostile, 60) > 20


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_many_altered_parts(written, memory, hostile, seed):  # noqa: ARG001 - a part of the test's name
    """The same with many more alterations."""
    assault_parts(written, memory, hostile, 500)
