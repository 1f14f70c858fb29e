"""A log cut short or altered anywhere: a clear refusal, or an exact prefix; never a wrong answer.

The write-ahead log is cut at every length, as a crash of the machine may leave
it, and each byte of the files is flipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval_server._core.core import Core, open_core
from streameval_server._core.errors import StorageError
from streameval_server._core.limits import Limits
from streameval_server._core.session import IngestSession
from streameval_server._process.sqlite_log import SqliteStorage

NOW = 1_800_000_000_000_000
LIMITS = Limits()


def produce(core: Core, batches: int, after: int = 0) -> list[str]:
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


def restored(path: Path) -> str | None:
    """Return the hash of what the file restores; None when it is refused."""
    storage = SqliteStorage(path)
    try:
        core = open_core(storage, LIMITS)
    except StorageError:
        return None
    storage.close()
    return core.engine.state_hash()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write 3 entries and a checkpoint, leave 3 more in the write-ahead log; and all hashes."""
    root = tmp_path_factory.mktemp("written")
    storage = SqliteStorage(root / "log.db")
    core = open_core(storage, LIMITS)
    hashes = [core.engine.state_hash(), *produce(core, 3)]
    core.drain(NOW)
    core = open_core(storage, LIMITS)
    hashes += produce(core, 3, after=3)
    copy = root / "copy"
    copy.mkdir()
    for name in ("log.db", "log.db-wal"):
        shutil.copy(root / name, copy / name)
    storage.close()
    return copy, hashes


def damaged(written: Path, tmp_path: Path, name: str, data: bytes) -> str | None:
    for each in ("log.db", "log.db-wal", "log.db-shm"):
        (tmp_path / each).unlink(missing_ok=True)
    for each in ("log.db", "log.db-wal"):
        (tmp_path / each).write_bytes((written / each).read_bytes() if each != name else data)
    return restored(tmp_path / "log.db")


def test_the_undamaged_files_restore_everything(written, tmp_path):
    """What the others are compared with."""
    files, hashes = written
    whole = (files / "log.db-wal").read_bytes()
    assert damaged(files, tmp_path, "log.db-wal", whole) == hashes[-1]
    assert damaged(files, tmp_path, "log.db-wal", b"") == hashes[3]


def test_a_write_ahead_log_cut_anywhere_is_an_exact_prefix(written, tmp_path):
    """Whole transactions, in order; the longer the file, the more of them."""
    files, hashes = written
    whole = (files / "log.db-wal").read_bytes()
    sizes = sorted({*range(0, len(whole), 97), *(len(whole) - back for back in range(40))})
    seen = []
    for size in sizes:
        found = damaged(files, tmp_path, "log.db-wal", whole[:size])
        assert found in hashes[3:]
        seen.append(hashes.index(found))
    assert seen == sorted(seen)
    assert set(seen) == {3, 4, 5, 6}


def flipped(data: bytes, at: int, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    changed[at] ^= int(rng.integers(1, 256))
    return bytes(changed)


@pytest.mark.parametrize("name", ["log.db", "log.db-wal"])
def test_a_flipped_byte_is_a_refusal_or_an_exact_prefix(written, tmp_path, name):
    """A sample of all bytes; `-m heavy` tries each of them."""
    files, hashes = written
    data = (files / name).read_bytes()
    rng = np.random.default_rng(7)
    interesting = [at for at in range(len(data)) if data[at]]
    for at in rng.choice(interesting, 400, replace=False).tolist():
        found = damaged(files, tmp_path, name, flipped(data, at, rng))
        assert found is None or found in hashes, f"byte {at} of {name}"


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["log.db", "log.db-wal"])
def test_any_flipped_byte_is_a_refusal_or_an_exact_prefix(written, tmp_path, name):
    """Each byte of the files, once."""
    files, hashes = written
    data = (files / name).read_bytes()
    rng = np.random.default_rng(11)
    for at in range(len(data)):
        found = damaged(files, tmp_path, name, flipped(data, at, rng))
        assert found is None or found in hashes, f"byte {at} of {name}"


def test_a_database_cut_anywhere_is_refused(written, tmp_path):
    """Pages that are missing are not forgotten."""
    files, hashes = written
    data = (files / "log.db").read_bytes()
    for size in range(0, len(data), 509):
        found = damaged(files, tmp_path, "log.db", data[:size])
        assert found is None or found in hashes, f"cut at {size}"


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path

    from streameval.v1 import ingest_pb2 as pb
    from streameval_server._core.core import open_core
    from streameval_server._core.limits import Limits
    from streameval_server._process.sqlite_log import SqliteStorage
    from streameval_server._core.session import IngestSession

    core = open_core(SqliteStorage(Path(sys.argv[1])), Limits(checkpoint_bytes=5000))
    session = IngestSession(core.committer, core.limits)
    session.feed(pb.IngestRequest(open=pb.Open(producer="p", epoch=1)).SerializeToString(), 0)
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
    """SIGKILL between, during and after commits and checkpoints; one data file, six lives."""
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
