"""Writes and syncs that fail, and a full disk: no acked row is lost, and health reports it.

The faults come from strace, so they hit SQLite's own calls; each test verifies in strace's
output that they did.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from streameval.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
    types_pb2,
)

from ..conftest import refuse
from .faults import DEADLINE_S, Fault
from .test_kill import STREAMS, Load

ROOT = Path(__file__).parent
MODULE = ("-m", "streameval_server", "--listen", "127.0.0.1:0", "--data")
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def strace(require_command):
    """Skip without strace; allow it to trace the processes that this one starts."""
    require_command("strace")
    done = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False)
    if done.returncode:
        refuse(f"strace may not trace here: {done.stderr.decode().strip()}")


# --- Every write and sync of a core's life ---------------------------------------------------


def swept(*options: str) -> dict[tuple[str, str], int]:
    """Run the sweep; return how many faults of each kind were met."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "disk_sweep.py"), *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"^(\w+) (\S+) (\d+) of \d+$", done.stdout, re.MULTILINE)
    return {(call, what): int(times) for call, what, times in lines}


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("strace")
def test_one_call_of_each_kind_fails():
    """After one failure the log is opened again; it holds each acked row once."""
    found = swept("--times", "1")
    assert len(found) == 10
    assert set(found.values()) == {1}


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("strace")
def test_many_calls_of_each_kind_fail():
    """The same at many more calls."""
    found = swept("--times", "15", "--seed", "2")
    assert len(found) == 10
    assert all(
        times == 15 for (call, _), times in found.items() if call in {"fdatasync", "pwrite64"}
    )


# --- A server whose disk keeps failing -------------------------------------------------------


def health(address: str) -> int:
    """Return a server's health."""
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return stub.Check(health_pb2.HealthCheckRequest(), timeout=5).status


def wait_for(condition, what: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def work(load: Load, server, batches: int = 50) -> None:
    """Send until a number of further batches were acked."""
    target = sum(load.acked) + batches
    load.run(
        server.address,
        1,
        lambda: wait_for(lambda: load.problems or sum(load.acked) >= target, "no acks"),
    )
    assert not load.problems


def work_until_not_serving(load: Load, server) -> None:
    """Send until writes fail and health reports it."""
    load.run(
        server.address,
        1,
        lambda: wait_for(
            lambda: load.problems or health(server.address) == NOT_SERVING, "health says nothing"
        ),
    )
    assert not load.problems


def ask(address: str, load: Load) -> None:
    """Query while nothing can be written: the answers include all acked batches."""
    with grpc.insecure_channel(address) as channel:
        stub = query_pb2_grpc.QueryServiceStub(channel)
        for stream in range(STREAMS):
            chosen = types_pb2.Selection(stream=f"kill/{stream}", min_revision=load.revision)
            pieces = stub.GetState(query_pb2.GetStateRequest(selection=chosen), timeout=10)
            assert all(piece.revision >= load.revision for piece in pieces)


@contextlib.contextmanager
def sick(server, disk: Path, call: str, what: str):
    """Fail all calls of a kind within the block."""
    fault = Fault(server.popen.pid, call, what, disk.with_name("strace.txt"))
    try:
        yield
    finally:
        fault.end()
    assert fault.hits > 1


def ill_for_a_while(start, disk: Path, call: str, what: str) -> None:
    """Serve, fail, and serve again."""
    load = Load()
    server = start(*MODULE, str(disk))
    work(load, server)
    with sick(server, disk, call, what):
        work_until_not_serving(load, server)
        ask(server.address, load)
    wait_for(lambda: health(server.address) == SERVING, "it does not recover")
    work(load, server)
    load.check(server.address)
    code, said = server.terminate()
    assert code == 0
    assert "a commit failed, its fate is unknown: cannot write to" in said
    assert "the log is open again, at revision" in said
    assert "Traceback" not in said
    load.check(start(*MODULE, str(disk)).address)


@pytest.mark.usefixtures("strace")
def test_syncs_fail_for_a_while(start, disk):
    """NOT_SERVING until a sync works; queries are answered; producers resume after the last ack."""
    ill_for_a_while(start, disk, "fdatasync", "error=EIO")


@pytest.mark.nightly
@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_writes_and_syncs_fail_for_a_while(start, disk, call, error):
    """Each call with each error."""
    ill_for_a_while(start, disk, call, f"error={error}")


@pytest.mark.usefixtures("strace")
def test_stopped_while_the_disk_fails(start, disk):
    """It still stops gracefully; only rows that were never acked are lost."""
    load = Load()
    server = start(*MODULE, str(disk))
    work(load, server)
    with sick(server, disk, "fdatasync", "error=EIO"):
        work_until_not_serving(load, server)
        code, said = server.terminate()
    assert code == 0
    assert "Traceback" not in said
    load.check(start(*MODULE, str(disk)).address)


@pytest.mark.usefixtures("strace")
def test_a_start_on_a_failing_disk(start, disk):
    """One line that names the file, exit code 1, and no change."""
    load = Load()
    server = start(*MODULE, str(disk))
    work(load, server)
    server.kill()
    log = disk.with_name("strace.txt")
    options = ["-f", "-o", str(log), "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"]
    command = ["strace", *options, sys.executable, *MODULE, str(disk)]
    quiet = {**os.environ, "STREAMEVAL_LOG_LEVEL": "warning"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=quiet
    )
    assert (done.returncode, done.stdout) == (1, "")
    expected = f"streameval_server: cannot open {disk / 'streameval.db'}: disk I/O error\n"
    assert done.stderr == expected
    assert "INJECTED" in log.read_text()
    load.check(start(*MODULE, str(disk)).address)


# --- A full disk -----------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path, require_command):
    """Return a directory on a separate disk of 4 MiB in memory."""
    mount, umount = require_command("mount"), require_command("umount")
    point = tmp_path / "small"
    point.mkdir()
    command = [mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(point)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        refuse(f"mounting a small disk needs root: {done.stderr.strip()}")
    yield point
    subprocess.run([umount, "-l", str(point)], check=True)


def fill(ballast: Path) -> None:
    """Fill the disk, page by page."""
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(ballast.parent).free == 0


def test_a_disk_that_fills(start, small_disk):
    """NOT_SERVING while it is full, also at a start; with free space it serves again."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    data = small_disk / "data"
    load = Load()
    server = start(*MODULE, str(data))
    work_until_not_serving(load, server)
    assert sum(load.acked) > 0
    ask(server.address, load)
    assert shutil.disk_usage(small_disk).free < 1 << 20
    ballast.unlink()
    wait_for(lambda: health(server.address) == SERVING, "it does not recover")
    work(load, server)
    load.check(server.address)
    code, said = server.terminate()
    assert code == 0
    assert "database or disk is full" in said
    assert "Traceback" not in said
    load.check(start(*MODULE, str(data)).address)


def missing_bytes(server) -> int:
    """Return how much space the status of a server that does not serve asks for."""
    with grpc.insecure_channel(server.address) as channel:
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        problem = admin.GetServerStatus(admin_pb2.GetServerStatusRequest(), timeout=10).problem
    found = re.search(r"free at least ([\d,]+) KiB more on its disk", problem)
    assert found, problem
    return int(found[1].replace(",", "")) << 10


def test_a_full_disk_says_how_much_space_is_needed(start, small_disk):
    """With half of it the rest is asked for; with all of it the server serves."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    load = Load()
    server = start(*MODULE, str(small_disk / "data"))
    work_until_not_serving(load, server)
    missing = missing_bytes(server)
    left = (ballast.stat().st_size - missing // 2) & -4096
    os.truncate(ballast, left)
    wait_for(lambda: missing_bytes(server) <= missing // 2 + 4096, "it does not ask for less")
    assert health(server.address) == NOT_SERVING
    error = refusal(server.address)
    assert f"{missing_bytes(server) >> 10:,} KiB more" in error.details()
    os.truncate(ballast, (left - missing_bytes(server)) & -4096)
    wait_for(lambda: health(server.address) == SERVING, "it does not recover")
    work(load, server, 1)
    load.check(server.address)


def refusal(address: str) -> grpc.RpcError:
    """Return the error that a producer gets."""
    with grpc.insecure_channel(address) as channel:
        opening = ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer="late", epoch=1))
        answers = ingest_pb2_grpc.IngestServiceStub(channel).Ingest(iter([opening]), timeout=10)
        with pytest.raises(grpc.RpcError) as caught:
            list(answers)
        return caught.value


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_start_on_a_full_disk(start, small_disk, end):
    """It answers queries, refuses rows, and serves by itself once there is room."""
    data, ballast = small_disk / "data", small_disk / "ballast"
    load = Load()
    server = start(*MODULE, str(data))
    work(load, server)
    if end == "killed":
        server.kill()
    else:
        server.terminate()
    fill(ballast)
    server = start(*MODULE, str(data))
    assert server.address, server.ended()
    assert health(server.address) == NOT_SERVING
    ask(server.address, load)
    error = refusal(server.address)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "disk is full" in error.details()
    assert re.search(r"free at least [\d,]+ KiB more on the disk of its data", error.details())
    code, said = server.terminate()
    assert code == 0
    assert "Traceback" not in said
    server = start(*MODULE, str(data))
    ask(server.address, load)
    ballast.unlink()
    wait_for(lambda: health(server.address) == SERVING, "it does not serve")
    work(load, server, 1)
    load.check(server.address)
    code, said = server.terminate()
    assert code == 0
    assert "started for reading only, ingest is refused until there is room: cannot " in said
    assert "the log is open again, at revision" in said
    assert "Traceback" not in said
    load.check(start(*MODULE, str(data)).address)


def test_a_directory_that_cannot_be_used(start, small_disk):
    """One line and exit code 1: a full disk, a file, a place where no directory can be created."""
    fill(small_disk / "ballast")
    (small_disk / "file").touch()
    for path, reason in (
        (small_disk / "new", "No space left on device"),
        (small_disk / "file", "File exists"),
        (Path("/proc/nothing"), "No such file or directory"),
    ):
        code, said = start(*MODULE, str(path)).ended()
        assert code == 1
        assert said == f"streameval_server: cannot use the data directory {path}: {reason}\n"
