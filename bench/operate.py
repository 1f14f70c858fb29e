"""Duration of administrative operations, and their effect on concurrent ingest.

    python bench/operate.py [--cases N]

The benchmark writes a log of 10,000-case batches (bytes columns) without a checkpoint and
starts a server on it; one more stream has ids that wait for labels. Then each operation runs
once, while a producer sends a batch of 100 cases every 10 ms by separate calls. The last
columns are the producer's times to an ack; the first row shows them without an operation.
Offline operations follow, on the same directory.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
from load import Process, Work, scratch, serve
from recovery import log

from streameval.client import Client
from streameval.v1 import admin_pb2, admin_pb2_grpc, ingest_pb2, ingest_pb2_grpc
from streameval_server import Limits
from streameval_server._log.data_directory import LOG_NAME
from streameval_server.maintenance import compact, verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 10_000
IDS = 200_000
PIECE_BYTES = 1 << 20
INTERVAL_S = 0.01
IDLE_S = 5.0


class Producer:
    """Sends batches in a thread until ended, and records the time of each ack."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.waits: list[float] = []
        self._stub = ingest_pb2_grpc.IngestServiceStub(channel)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        rng = np.random.default_rng(1)
        cases = ingest_pb2.Cases(
            scores=rng.random(100).tolist(), positives=(rng.random(100) < 0.1).tolist()
        )
        batch = ingest_pb2.Batch(stream="meanwhile", cases=cases)
        request = ingest_pb2.IngestBatchRequest(batch=batch)
        while not self._ended.is_set():
            begin = time.perf_counter()
            self._stub.IngestBatch(request)
            took = time.perf_counter() - begin
            self.waits.append(took)
            time.sleep(max(INTERVAL_S - took, 0))

    def during(self, work: Callable[[], Any]) -> tuple[Any, float, list[float]]:
        """Return the result of `work`, its seconds, and the ack times during it."""
        first, begin = len(self.waits), time.perf_counter()
        done = work()
        return done, time.perf_counter() - begin, self.waits[first:]

    def end(self) -> None:
        """Stop sending."""
        self._ended.set()
        self._thread.join()


def row(what: str, seconds: float, size: str, waits: list[float] | None = None) -> None:
    """Print a line of the table."""
    times = ""
    if waits:
        p50, p99 = np.quantile(waits, (0.5, 0.99))
        times = f"{p50 * 1e3:10.2f}{p99 * 1e3:10.2f}{max(waits) * 1e3:10.2f}"
    print(f"{what:<22}{seconds:9.2f}  {size:<24}{times}", flush=True)


def fill_ids(address: str) -> None:
    """Send predictions whose labels never arrive."""
    with Client(address, when_full="block") as client:
        stream = client.stream("ids")
        stream.log_cases(
            ids=[f"order-{number:012}" for number in range(IDS)],
            scores=np.random.default_rng(2).random(IDS),
        )
        stream.flush(timeout_s=None)


def online(server: Process) -> None:
    """Measure the operations of a running server."""
    with grpc.insecure_channel(
        server.address, (("grpc.max_receive_message_length", 64 << 20),)
    ) as channel:
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        producer = Producer(channel)
        try:
            _, seconds, waits = producer.during(lambda: time.sleep(IDLE_S))
            row("none", seconds, "", waits)
            status, seconds, waits = producer.during(
                lambda: admin.GetServerStatus(admin_pb2.GetServerStatusRequest())
            )
            row("status", seconds, f"{status.disk.used_bytes / 1e6:,.0f} MB on disk")
            _, seconds, waits = producer.during(
                lambda: admin.GetStateHash(admin_pb2.GetStateHashRequest())
            )
            row("hash", seconds, f"{status.state_bytes / 1e6:,.0f} MB of state", waits)
            size, seconds, waits = producer.during(lambda: backup(admin))
            row("backup", seconds, f"{size / 1e6:,.0f} MB", waits)
            data, seconds, waits = producer.during(lambda: export(admin))
            row("export", seconds, f"{IDS:,} ids, {len(data) / 1e6:,.0f} MB", waits)
            _, seconds, waits = producer.during(lambda: admin.ImportStream(imported(data)))
            row("import", seconds, f"{IDS:,} ids", waits)
            done, seconds, waits = producer.during(
                lambda: admin.CompactLog(admin_pb2.CompactLogRequest())
            )
            row("compact", seconds, f"{done.dropped_rows:,} rows", waits)
        finally:
            producer.end()


def backup(admin: admin_pb2_grpc.AdminServiceStub) -> int:
    """Receive a backup; return its size."""
    digest, size, told = hashlib.sha256(), 0, ""
    for piece in admin.Backup(admin_pb2.BackupRequest()):
        digest.update(piece.data)
        size, told = size + len(piece.data), piece.sha256
    if told != digest.hexdigest():
        raise SystemExit("the backup is not what was sent")
    return size


def export(admin: admin_pb2_grpc.AdminServiceStub) -> bytes:
    """Export a stream; return its bytes."""
    pieces = admin.ExportStream(admin_pb2.ExportStreamRequest(name="ids"))
    return b"".join(piece.data for piece in pieces)


def imported(data: bytes) -> Any:
    """Yield the messages of an import."""
    header = admin_pb2.ImportStreamHeader(name="again", total_bytes=len(data))
    yield admin_pb2.ImportStreamRequest(header=header)
    for start in range(0, len(data), PIECE_BYTES):
        yield admin_pb2.ImportStreamRequest(data=data[start : start + PIECE_BYTES])


def offline(data: Path) -> None:
    """Measure the operations on a data directory."""
    limits = Limits()
    size = (data / LOG_NAME).stat().st_size
    begin = time.perf_counter()
    found = verify(data / LOG_NAME, limits)
    if not found.ok:
        raise SystemExit(f"damaged: {found.findings}")
    row("verify", time.perf_counter() - begin, f"{size / 1e6:,.0f} MB")
    begin = time.perf_counter()
    done = compact(data, limits)
    sizes = f"{done.before / 1e6:,.0f} to {done.after / 1e6:,.0f} MB"
    row("compact, offline", time.perf_counter() - begin, sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000_000, help="cases in the log")
    arguments = parser.parse_args()
    with scratch() as directory:
        data = directory / "data"
        data.mkdir()
        log(data / LOG_NAME, Work("", ROWS, packed=True), arguments.cases)
        print(f"{arguments.cases:,} cases logged; {os.cpu_count()} cores for both ends")
        print(f"{'':<22}{'seconds':>9}  {'':<24}{'ack p50':>10}{'p99':>10}{'max, ms':>10}")
        begin = time.perf_counter()
        found = verify(data / LOG_NAME, Limits())
        row("verify", time.perf_counter() - begin, f"{arguments.cases:,} cases")
        if not found.ok:
            raise SystemExit(f"damaged: {found.findings}")
        server = serve(data)
        try:
            fill_ids(server.address)
            online(server)
        finally:
            server.stop()
        offline(data)


if __name__ == "__main__":
    main()
