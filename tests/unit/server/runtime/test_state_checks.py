"""The state in memory is compared with the log, and a difference raises an alarm."""

from __future__ import annotations

import random
import sqlite3
import time
from datetime import timedelta
from pathlib import Path

import grpc
import numpy as np
import pytest

from streameval.client import Client
from streameval.v1 import admin_pb2, admin_pb2_grpc
from streameval_server import Limits, Settings
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._grpc import server
from streameval_server._log import checkpoint
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.threads import FairLock
from streameval_server._runtime import state_checks
from streameval_server._runtime.state_checks import StateChecks
from streameval_server.testing import running_server

CRASH = Path(__file__).parents[3] / "crash"


@pytest.fixture
def core(tmp_path, monkeypatch) -> ServerCore:
    """Return a core that has worked through operations of every kind, with a checkpoint within."""
    monkeypatch.syspath_prepend(str(CRASH))
    # The module sets it for its own process.
    monkeypatch.setattr(checkpoint, "PIECE_BYTES", checkpoint.PIECE_BYTES)
    workload = __import__("workload")
    core = open_core(SqliteStorage(tmp_path / "log.db"), workload.LIMITS)
    workload.Run(core, workload.Workload()).to_the_end()
    yield core
    core.storage.close()


def checks_of(core: ServerCore, path: Path, limits: Limits | None = None) -> StateChecks:
    return StateChecks(core.engine, FairLock(), limits or core.limits, path / "log.db")


def test_every_stream_is_what_the_log_gives(core, tmp_path):
    """Cases, ids, slices, merges, deleted streams; from the checkpoint, in the order of names."""
    checks = checks_of(core, tmp_path)
    names = [info.name for info in core.engine.streams()]
    assert len(names) > 2
    assert core.committer.checkpoint_revision > 0
    for _ in range(2 * len(names)):
        checks.step()
    assert (checks.checked, checks.problems) == (2 * len(names), {})


def test_damage_in_memory_is_an_alarm(core, tmp_path, caplog):
    """A count that the log does not give; the other streams are right."""
    names = [info.name for info in core.engine.streams()]
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    broken = random.Random(seed).choice(names)
    core.engine._streams[broken].total += 1
    checks = checks_of(core, tmp_path)
    for _ in names:
        checks.step()
    assert set(checks.problems) == {broken}
    assert "is not the one that the log gives" in checks.problems[broken]
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]


def test_a_row_that_cannot_be_read_back_is_an_alarm(core, tmp_path):
    """Long before a start would depend on it."""
    connection = sqlite3.connect(tmp_path / "log.db")
    with connection:
        connection.execute(
            "UPDATE log SET crc32 = crc32 + 1 WHERE revision = ?", (core.engine.revision,)
        )
    connection.close()
    checks = checks_of(core, tmp_path)
    checks.step()
    (problem,) = checks.problems.values()
    assert "cannot be read back: log row" in problem


def test_a_stream_that_is_too_large_is_left_out(core, tmp_path):
    """The check would take its memory again; a check that is stopped says nothing."""
    checks = checks_of(core, tmp_path, Limits(max_state_bytes=16))
    checks.step()
    assert checks.checked == 0
    checks = checks_of(core, tmp_path)
    checks.stop()
    checks.step()
    assert (checks.checked, checks.problems) == (0, {})


def status_of(address: str) -> admin_pb2.GetServerStatusResponse:
    """Return a server's status."""
    with grpc.insecure_channel(address) as channel:
        service = admin_pb2_grpc.AdminServiceStub(channel)
        return service.GetServerStatus(admin_pb2.GetServerStatusRequest())


def test_a_busy_server_raises_no_false_alarm(tmp_path, monkeypatch):
    """Batches, ids that expire and checkpoints while it checks; then an alarm in its status."""
    monkeypatch.setattr(server, "_STATE_CHECK_INTERVAL_S", 0.001)
    limits = Limits(checkpoint_bytes=10_000)
    settings = Settings(listen="127.0.0.1:0", data=tmp_path, limits=limits)
    rng = np.random.default_rng(5)
    with running_server(settings) as address, Client(address) as client:
        client.create_stream("s", label_ttl=timedelta(seconds=1))
        deadline, sent = time.monotonic() + 60, 0
        while not (
            sent > 50
            and (status := status_of(address)).state_checks > 20
            and status.checkpoint_revision
        ):
            assert time.monotonic() < deadline
            client.stream("t").add_cases(labels=rng.random(300) < 0.3, scores=rng.random(300))
            ids = [f"{sent}/{n}" for n in range(50)]
            client.stream("s").log_cases(ids=ids, scores=rng.random(50))
            sent += 1
            client.flush()
        assert status.state_problems == 0, status.warnings
        monkeypatch.setattr(state_checks, "replayed_stream_hash", lambda *_: "other")
        while not (status := status_of(address)).state_problems:
            assert time.monotonic() < deadline
        assert any("is not the one that the log gives" in each for each in status.warnings)
