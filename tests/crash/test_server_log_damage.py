"""A truncated or altered log is refused with a clear message, or read to its last row.

The write-ahead log is cut at every length, as a crash of the machine can leave it, and each
byte of the files is flipped. An exact prefix that lacks acknowledged rows is refused too; it is
read when an operator accepts the loss, or when nothing says that more was acknowledged.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import StorageError

NOW = 1_800_000_000_000_000
LIMITS = Limits()


def produce(core: ServerCore, batches: int, after: int = 0) -> list[str]:
    """Commit batches one by one; return the state's hash after each."""
    session = IngestSession(core.committer, core.limits)
    request = pb.IngestRequest(open=pb.Open(producer="p", epoch=1))
    session.feed(request.SerializeToString(), NOW)
    hashes = []
    for sequence in range(after + 1, after + batches + 1):
        rng = np.random.default_rng(sequence)
        cases = pb.Cases(scores=rng.random(20).tolist(), positives=(rng.random(20) < 0.3).tolist())
        batch = pb.Batch(sequence=sequence, stream="s", cases=cases)
        session.feed(pb.IngestRequest(batch=batch).SerializeToString(), NOW)
        core.committer.step(NOW + sequence)
        core.applier.finish()
        hashes.append(core.engine.state_hash())
    return hashes


def restored(path: Path, *, accept_loss: bool = False) -> str | None:
    """Return the hash of the restored state; None when the file is refused in one line."""
    storage, message = SqliteStorage(path, accept_loss=accept_loss), None
    try:
        core = open_core(storage, LIMITS)
    except StorageError as error:
        message = str(error)
    if message is not None:
        assert 10 < len(message) < 400
        assert message.isprintable()
        return None
    storage.close()
    return core.engine.state_hash()


class LogFiles(NamedTuple):
    """The files of a log, and the hashes of the state after each of its entries."""

    files: dict[str, bytes]
    hashes: list[str]

    def damaged(
        self, directory: Path, name: str, data: bytes, *, acked: bool = True, accept: bool = False
    ) -> str | None:
        """Return the restored hash after replacing one of the files.

        Parameters
        ----------
        directory, name, data
            Where the files are written; which one is replaced, and by what.
        acked
            Whether the file of the acknowledged revision is there.
        accept
            Whether a loss is accepted.
        """
        for each in directory.glob("log.db*"):
            each.unlink()
        for each, whole in self.files.items():
            (directory / each).write_bytes(data if each == name else whole)
        if not acked:
            (directory / ACKED).unlink()
        return restored(directory / "log.db", accept_loss=accept)


def write(root: Path, *, page_bytes: int = 4096, compacted: bool = False) -> LogFiles:
    """Write 3 entries and a checkpoint, and leave 3 more in the write-ahead log."""
    path = root / "log.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {page_bytes}")
    connection.execute("VACUUM")
    connection.close()
    storage = SqliteStorage(path)
    core = open_core(storage, LIMITS)
    hashes = [core.engine.state_hash(), *produce(core, 3)]
    core.drain(NOW)
    core = open_core(storage, LIMITS)
    if compacted:
        core.committer.compact(lambda _outcome: None)
        while core.committer.compacting:
            core.committer.step(NOW)
        assert core.committer.log_start == 4  # the first is the start of the producer
        storage.close()
        core = open_core(storage, LIMITS)
    hashes += produce(core, 3, after=3)
    files = {name: (root / name).read_bytes() for name in FILES}
    storage.close()  # this writes the acknowledged revision
    return LogFiles(files | {ACKED: (root / ACKED).read_bytes()}, hashes)


FILES = ("log.db", "log.db-wal")
ACKED = "log.db-acked"


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "compacted"])
def written(request, tmp_path_factory) -> LogFiles:
    """Return a log: a whole one, and a compacted one."""
    return write(tmp_path_factory.mktemp("written"), compacted=request.param)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> LogFiles:
    """Return a log with pages of 512 bytes: small enough to try every byte."""
    return write(tmp_path_factory.mktemp("small"), page_bytes=512)


def test_the_undamaged_files_restore_everything(written, small, memory):
    """The whole log gives the last state; without its write-ahead log, that of the third entry."""
    for each in (written, small):
        whole = each.files["log.db-wal"]
        assert each.damaged(memory, "log.db-wal", whole) == each.hashes[-1]
        assert each.damaged(memory, "log.db-wal", whole, acked=False) == each.hashes[-1]
        assert each.damaged(memory, "log.db-wal", b"") is None
        assert each.damaged(memory, "log.db-wal", b"", accept=True) == each.hashes[3]
        assert each.damaged(memory, "log.db-wal", b"", acked=False) == each.hashes[3]
    assert sum(map(len, small.files.values())) < 20_000


def cut(written: LogFiles, memory: Path, sizes: Iterable[int]) -> None:
    """Cut the write-ahead log: whole transactions are left, more of them the longer it is.

    Where a power cut has left it so, nothing says that more was acknowledged: it is read. Where
    more was acknowledged it is refused, and read when that is accepted.
    """
    whole, last = written.files["log.db-wal"], len(written.hashes) - 1
    seen = []
    for size in sizes:
        left = whole[:size]
        found = written.hashes.index(written.damaged(memory, "log.db-wal", left, acked=False))
        refused = written.damaged(memory, "log.db-wal", left) is None
        assert refused == (found < last), f"cut at {size}"
        if refused:
            accepted = written.damaged(memory, "log.db-wal", left, accept=True)
            assert accepted == written.hashes[found], f"cut at {size}"
        seen.append(found)
    assert seen == sorted(seen)
    assert set(seen) == {3, 4, 5, 6}


def cut_database(written: LogFiles, memory: Path, sizes: Iterable[int]) -> None:
    """Cut the database: missing pages are detected."""
    data = written.files["log.db"]
    for size in sizes:
        found = written.damaged(memory, "log.db", data[:size])
        assert found is None or found == written.hashes[-1], f"cut at {size}"


def flip(written: LogFiles, memory: Path, name: str, places: Iterable[int], seed: int) -> None:
    """Change single bytes: a refusal, or the last state.

    Without the acknowledged revision only the last transaction may be missed: it looks as if a
    power cut had torn it. So do the last two, if the head of the frame between them is damaged.
    """
    data, rng = written.files[name], np.random.default_rng(seed)
    frame = 24 + int.from_bytes(written.files["log.db"][16:18], "big")
    refused = 0
    for at in places:
        changed = bytearray(data)
        changed[at] ^= int(rng.integers(1, 256))
        found = written.damaged(memory, name, bytes(changed))
        assert found is None or found == written.hashes[-1], f"byte {at} of {name}"
        refused += found is None
        if name == "log.db":
            continue
        found = written.damaged(memory, name, bytes(changed), acked=False)
        may_miss = 2 if (at - 32) % frame < 24 else 1
        assert found is None or found in written.hashes[-1 - may_miss :], f"byte {at} of {name}"
    assert refused


def test_a_write_ahead_log_cut_anywhere_is_an_exact_prefix(written, memory):
    """A sample of all sizes, the last ones among them; `-m nightly` tries each."""
    whole = len(written.files["log.db-wal"])
    cut(written, memory, sorted({*range(0, whole, 197), *(whole - back for back in range(20))}))


def test_a_database_cut_anywhere_is_refused(written, memory):
    """A sample of all sizes."""
    cut_database(written, memory, range(0, len(written.files["log.db"]), 1009))


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_is_a_refusal_or_changes_nothing(written, memory, name):
    """A sample of the bytes that are not zero; `-m nightly` tries every byte."""
    data = written.files[name]
    full = [at for at in range(len(data)) if data[at]]
    places = np.random.default_rng(7).choice(full, 150, replace=False).tolist()
    flip(written, memory, name, places, seed=7)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FILES)
def test_any_flipped_byte_is_a_refusal_or_changes_nothing(small, memory, name):
    """Each byte of the files, once."""
    flip(small, memory, name, range(len(small.files[name])), seed=11)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_files_of_any_size_are_refused_or_an_exact_prefix(small, memory):
    """Each size of both files."""
    cut(small, memory, range(len(small.files["log.db-wal"]) + 1))
    cut_database(small, memory, range(len(small.files["log.db"])))


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path

    from streameval.v1 import ingest_pb2 as pb
    from streameval_server._core.recovery import open_core
    from streameval_server._model.limits import Limits
    from streameval_server._log.sqlite import SqliteStorage
    from streameval_server._ingest.session import IngestSession

    core = open_core(SqliteStorage(Path(sys.argv[1])), Limits(checkpoint_bytes=5000))
    session = IngestSession(core.committer, core.limits)
    session.feed(pb.IngestRequest(open=pb.Open(producer="p", epoch=1)).SerializeToString(), 0)
    core.committer.step(0).deliver()
    sequence = session.replies()[0].resume.last_sequence
    while True:
        for _ in range(3):
            sequence += 1
            cases = pb.Cases(scores=[float(sequence)] * 9, positives=[True, False, False] * 3)
            batch = pb.Batch(sequence=sequence, stream="s", cases=cases)
            session.feed(pb.IngestRequest(batch=batch).SerializeToString(), 0)
        core.committer.step(sequence).deliver()
        for reply in session.replies():
            print(reply.ack.last_sequence, flush=True)
        core.applier.step()
    """
)


def test_kill_at_any_moment(tmp_path):
    """SIGKILL between, during and after commits and checkpoints: one log, six processes."""
    rng = np.random.default_rng(3)
    path = tmp_path / "log.db"
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        lines = [process.stdout.readline() for _ in range(int(rng.integers(2, 60)))]
        os.kill(process.pid, signal.SIGKILL)
        rest, _ = process.communicate()
        acked = int([*lines, *rest.split("\n")[:-1]][-1])
        storage = SqliteStorage(path)
        core = open_core(storage, LIMITS)
        last = core.committer.marks.last_sequence("p", 1)
        assert acked <= last <= acked + 3
        view = core.engine.view("s")
        assert view.evaluator.num_cases == 9 * last
        points = view.evaluator.operating_points()
        assert points.thresholds[1:].tolist() == [float(n) for n in range(last, 0, -1)]
        assert core.recovery.checkpoint_error is None
        storage.close()
    assert core.recovery.checkpoint_revision > 0
