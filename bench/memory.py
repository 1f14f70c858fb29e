"""Memory of a server against what it counts, over shapes of data.

    python bench/memory.py [--shape NAME ...] [--scale 1.0]

`limits.max_state_bytes` holds only if the server counts what it takes. Each shape is sent to
a server of its own, over gRPC. The server's start-up, which is subtracted, is its resident
memory after a warm-up: a small stream was filled and queried. Then the benchmark reads
resident memory and `state_bytes` ten times a second while the shape is sent and asked.

- *counted*, *resident*: at the end, the latter over start-up; *share* is their quotient.
- *worst share*: the largest share while more than 64 MB were resident over start-up; the
  kernel's high-water mark, also over start-up, divides by what was counted at the end.
- *replayed*: the server is killed and started again, from its log alone where no checkpoint
  was due; its high-water mark over the same start-up, and as a share of the mark before.

The budget is 1.25 for each share. The disk is that of the current directory.
"""

from __future__ import annotations

import argparse
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
import psutil
from host import print_host_at_exit
from load import Process, scratch
from rich.console import Console
from rich.table import Table

from streameval import Evaluator
from streameval.client import Client, DeadlineError, MergeState, ResourceExhaustedError
from streameval.v1 import admin_pb2, admin_pb2_grpc, ingest_pb2, ingest_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable

MB = 1e6
BUDGET = 1.25
MIN_JUDGED_BYTES = 64e6
"""Smaller growth is not judged: it is less than what the allocator keeps."""
READ_S = 0.1
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Shape:
    """A shape of data: what is sent to a server, and what is then asked."""

    fill: Callable[[Client, float], None]
    ask: Callable[[Client], None] = lambda _client: None
    limits: tuple[str, ...] = ()


def cases(
    client: Client,
    name: str,
    rows: int,
    *,
    keys: int = 0,
    values: int = 0,
    hours: float = 0.0,
    seed: int = 1,
    values_bytes: int = 6,
    clusters: int = 0,
    wait_s: float | None = None,
    block: int = 50_000,
) -> None:
    """Send cases with random segments and clusters, their times spread over the last hours."""
    stream, rng = client.stream(name), np.random.default_rng(seed)
    now = np.datetime64(datetime.now(UTC).replace(tzinfo=None), "us")
    texts = np.array([f"{value:0{values_bytes}}" for value in range(max(values, 1))])
    for begin in range(0, rows, block):
        size = min(block, rows - begin)
        labels = rng.random(size) < 0.2
        ages = (rng.random(size) * hours * 3.6e9).astype("timedelta64[us]")
        stream.add_cases(
            labels=labels,
            scores=rng.normal(size=size) + labels,
            at=now - ages if hours else None,
            segments={f"key-{key}": rng.choice(texts, size) for key in range(keys)} or None,
            clusters=rng.integers(0, clusters, size) if clusters else None,
        )
        stream.flush(timeout_s=wait_s)


def _keys(count: int) -> list[str]:
    return [f"key-{key}" for key in range(count)]


def attack(client: Client, scale: float) -> None:
    """Fill all slices of all panes with a few cases each."""
    client.create_stream("attack", segment_keys=_keys(8))
    cases(client, "attack", int(400_000 * scale), keys=8, values=100, hours=2.9)


def all_time(client: Client, scale: float) -> None:
    """Fill exact all-time counts."""
    for number in range(int(20 * scale)):
        cases(client, f"scores-{number}", 250_000, seed=number)


def wide_panes(client: Client, scale: float) -> None:
    """Fill panes of many cells."""
    for number in range(int(3 * scale)):
        cases(client, f"wide-{number}", 1_000_000, hours=2.9, seed=number)


def clustered_panes(client: Client, scale: float) -> None:
    """Fill panes of many cells, by 32 groups of clusters."""
    for number in range(int(3 * scale)):
        client.create_stream(f"clustered-{number}", cluster_key="user")
        cases(client, f"clustered-{number}", 1_000_000, hours=2.9, clusters=20_000, seed=number)


def thin_panes(client: Client, scale: float) -> None:
    """Fill panes of a few cases."""
    for number in range(int(200 * scale)):
        cases(client, f"thin-{number}", 4_000, hours=2.9, seed=number)


def one_pane(client: Client, scale: float) -> None:
    """Fill the slices of the current pane."""
    client.create_stream("keys", segment_keys=_keys(8))
    cases(client, "keys", int(600_000 * scale), keys=8, values=100)


def one_key(client: Client, scale: float) -> None:
    """Fill the slices of one key, in many panes."""
    client.create_stream("values", segment_keys=_keys(1))
    cases(client, "values", int(1_200_000 * scale), keys=1, values=100, hours=2.9)


def long_values(client: Client, scale: float) -> None:
    """Send long segment values, each once."""
    for number in range(int(40 * scale)):
        client.create_stream(f"long-{number}", segment_keys=_keys(8))
        cases(client, f"long-{number}", 500, keys=8, values=100, values_bytes=128, seed=number)


def many_streams(client: Client, scale: float) -> None:
    """Create many streams of a few cases."""
    for number in range(int(3_000 * scale)):
        client.stream(f"many-{number}").add_cases(labels=[1, 0], scores=[0.9, 0.1])
    client.stream("many-0").flush(timeout_s=None)


def waiting_ids(client: Client, scale: float) -> None:
    """Send predictions whose labels never arrive."""
    size = int(300_000 * scale)
    rng = np.random.default_rng(3)
    for number in range(2):
        stream = client.stream(f"ids-{number}")
        for begin in range(0, size, 50_000):
            ids = [f"order-{begin + row:0{12 + 24 * number}}" for row in range(50_000)]
            stream.log_cases(ids=ids, scores=rng.random(50_000))
        stream.flush(timeout_s=None)


def labelled_ids(client: Client, scale: float) -> None:
    """Send predictions and labels by id, in slices and panes."""
    client.create_stream("joined", segment_keys=_keys(2))
    stream, rng = client.stream("joined"), np.random.default_rng(4)
    now = np.datetime64(datetime.now(UTC).replace(tzinfo=None), "us")
    texts = np.array([f"value-{value}" for value in range(50)])
    for begin in range(0, int(50_000 * scale), 50_000):
        ids = [f"order-{begin + row}" for row in range(50_000)]
        ages = (rng.random(50_000) * 2.9 * 3.6e9).astype("timedelta64[us]")
        stream.log_cases(
            ids=ids,
            scores=rng.normal(size=50_000),
            at=now - ages,
            segments={key: rng.choice(texts, 50_000) for key in _keys(2)},
        )
        stream.label_cases(ids=ids, labels=rng.random(50_000) < 0.1)
        stream.flush(timeout_s=None)


def producers(client: Client, scale: float) -> None:
    """Send one batch of each of many producers."""
    _batches_of_producers(client.addresses[0], int(6_000 * scale), refused=False)


def refusals(client: Client, scale: float) -> None:
    """Send batches that are refused, with long texts."""
    _batches_of_producers(client.addresses[0], int(4_000 * scale), refused=True)


def _batches_of_producers(address: str, count: int, *, refused: bool) -> None:
    with grpc.insecure_channel(address) as channel:
        stub = ingest_pb2_grpc.IngestServiceStub(channel)
        window = threading.Semaphore(64)
        calls = []
        for number in range(count):
            rows = ingest_pb2.Cases(scores=[0.5], positives=[True])
            if refused:
                rows.segments.add(key="x" * 64, values=["y" * 2_000], codes=[0])
            batch = ingest_pb2.Batch(sequence=1, stream="producers", cases=rows)
            window.acquire()
            call = stub.IngestBatch.future(
                ingest_pb2.IngestBatchRequest(producer=f"{number:0100}", epoch=1, batch=batch)
            )
            call.add_done_callback(lambda _call: window.release())
            calls.append(call)
        for call in calls:
            if not refused:
                call.result()
            else:
                call.exception()


def merges(client: Client, scale: float) -> None:
    """Merge states that were aggregated elsewhere."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    rng = np.random.default_rng(5)
    found = []
    for pane in range(60):
        ev = Evaluator(resolution=12)
        labels = rng.random(1_000) < 0.05
        ev.add_cases(labels=labels, scores=rng.normal(size=1_000) + labels)
        found.append(MergeState(ev, hour - timedelta(minutes=pane + 1)))
    for number in range(int(75 * scale)):
        client.stream(f"merged-{number}").merge(found, source="fill", epoch=1)


def asked(client: Client, scale: float) -> None:
    """Fill slices with cells, to be asked."""
    client.create_stream("asked", segment_keys=_keys(4))
    cases(client, "asked", int(300_000 * scale), keys=4, values=20, hours=2.9)


def ask_everything(client: Client) -> None:
    """Ask for series, windows, states and rankings of all slices."""
    stream = client.stream("asked")
    now = datetime.now(UTC)
    span = (now - timedelta(hours=2.9), now)
    for key in _keys(2):
        for value in range(20):
            segment = (key, f"{value:06}")
            for hours in (1, 2, 3):
                stream.snapshot(window=timedelta(hours=hours), segment=segment)
            stream.series(*span, timedelta(minutes=5), segment=segment)
    stream.rank_segments(window=timedelta(hours=3))
    stream.series(*span, timedelta(minutes=1))


def overfill(client: Client, scale: float) -> None:
    """Fill slices and panes until rows are refused."""
    client.create_stream("attack", segment_keys=_keys(8))
    cases(client, "kept", int(50_000 * scale))
    # A client of its own, because it still has rows to send when it is closed.
    with suppress(DeadlineError):
        sender = Client(client.addresses[0], when_full="block")
        try:
            for seed in range(40):
                cases(
                    sender, "attack", 50_000, keys=8, values=100, hours=2.9, seed=seed, wait_s=3,
                    block=2_000,
                )  # fmt: skip
            raise SystemExit("rows were never refused")
        finally:
            sender.close(0.1)


def work_when_full(client: Client) -> None:
    """Query, compact and delete while rows are refused."""
    now = datetime.now(UTC)
    stream = client.stream("attack")
    stream.snapshot()
    stream.rank_segments("key-0", window=3 * HOUR)
    stream.series(now - timedelta(hours=2.9), now, timedelta(minutes=1))
    with grpc.insecure_channel(client.addresses[0]) as channel:
        admin_pb2_grpc.AdminServiceStub(channel).CompactLog(admin_pb2.CompactLogRequest())
    client.delete_stream("kept")


def rank_attack(client: Client) -> None:
    """Rank the slices of some keys, and all slices until that is refused."""
    stream = client.stream("attack")
    stream.rank_segments("key-0", window=3 * HOUR)
    with suppress(ResourceExhaustedError):
        stream.rank_segments(window=3 * HOUR)


SHAPES = {
    "8 keys x 100 values, 3 h": Shape(attack),
    "the same, all slices ranked": Shape(attack, rank_attack),
    "8 keys x 100 values, one pane": Shape(one_pane),
    "1 key x 100 values, 3 h": Shape(one_key),
    "long values": Shape(long_values),
    "all-time scores": Shape(all_time),
    "panes of many cells": Shape(wide_panes),
    "the same, by groups of clusters": Shape(clustered_panes),
    "panes of few cases": Shape(thin_panes),
    "small streams": Shape(many_streams),
    "waiting ids": Shape(waiting_ids),
    "labelled ids, slices, 3 h": Shape(labelled_ids),
    "producers": Shape(producers),
    "refusals": Shape(refusals),
    "merged states": Shape(merges),
    "queries of all slices": Shape(asked, ask_everything),
    "full at 200 MB, asked, compacted": Shape(
        overfill, work_when_full, ("--max-state-bytes", "200000000")
    ),
}


class Reader:
    """Reads a server's resident memory and what it counts, in a thread."""

    def __init__(self, server: Process) -> None:
        self._process = psutil.Process(server.pid)
        self._channel = grpc.insecure_channel(server.address)
        self._admin = admin_pb2_grpc.AdminServiceStub(self._channel)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.start_up = self._process.memory_info().rss
        self.readings: list[tuple[float, float]] = []
        self._thread.start()

    def now(self) -> tuple[float, float]:
        """Return what is counted, and the resident memory over start-up."""
        status = self._admin.GetServerStatus(admin_pb2.GetServerStatusRequest())
        return status.state_bytes, self._process.memory_info().rss - self.start_up

    def wait_applied(self) -> None:
        """Wait until everything that is durable has been applied."""
        while True:
            status = self._admin.GetServerStatus(admin_pb2.GetServerStatusRequest())
            if status.applied_revision >= status.durable_revision:
                return
            time.sleep(READ_S)

    def _read(self) -> None:
        while not self._ended.wait(READ_S):
            self.readings.append(self.now())

    def end(self) -> tuple[float, float]:
        """Stop reading; return the last reading."""
        self._ended.set()
        self._thread.join()
        found = self.now()
        self._channel.close()
        return found


def peak(pid: int) -> float:
    """Return a process's high-water mark of resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) * 1024
    raise SystemExit("this kernel reports no high-water mark")


def warm_up(client: Client) -> None:
    """Use what a server loads at its first use."""
    client.create_stream("warm", segment_keys=["key-0"])
    cases(client, "warm", 2_000, keys=1, values=3, hours=2.0)
    stream = client.stream("warm")
    stream.log_cases(ids=["a", "b"], scores=[0.1, 0.2])
    stream.label_cases(ids=["a", "b"], labels=[True, False])
    stream.flush(timeout_s=None)
    stream.snapshot(window=HOUR)
    stream.rank_segments(window=HOUR)


def serve(directory: Path, limits: tuple[str, ...]) -> Process:
    """Start a server without a page."""
    return Process("-m", "streameval_server", "--listen", "127.0.0.1:0", "--http", "off",
                   "--data", str(directory), *limits)  # fmt: skip


def measure(shape: Shape, scale: float) -> tuple[list[str], bool]:
    """Return a row of the table, and whether it keeps the budget."""
    with scratch() as directory, ExitStack() as stack:
        server = serve(directory / "data", shape.limits)
        stack.callback(server.popen.kill)
        with Client(server.address, when_full="block", timeout_s=120.0) as client:
            warm_up(client)
            reader = Reader(server)
            begin = time.perf_counter()
            shape.fill(client, scale)
            reader.wait_applied()
            shape.ask(client)
            seconds = time.perf_counter() - begin
            time.sleep(3 * READ_S)
            counted, resident = reader.end()
        highest = peak(server.pid) - reader.start_up
        server.popen.kill()
        server.popen.wait()
        begin = time.perf_counter()
        again = serve(directory / "data", shape.limits)
        stack.callback(again.popen.kill)
        start = time.perf_counter() - begin
        replayed = peak(again.pid) - reader.start_up
        again.popen.kill()
        again.popen.wait()
    shares = [was / said for said, was in reader.readings if said and was > MIN_JUDGED_BYTES]
    worst = max([*shares, 0.0])
    # A server that takes little is replayed with the arrays of any replay.
    replayed_share = replayed / max(highest, MIN_JUDGED_BYTES)
    kept = max(worst, resident / counted, highest / counted, replayed_share) <= BUDGET
    cells = (
        f"{counted / MB:,.0f}",
        f"{resident / MB:,.0f}",
        f"{resident / counted:.2f}",
        f"{worst:.2f}",
        f"{highest / MB:,.0f}",
        f"{highest / counted:.2f}",
        f"{replayed / MB:,.0f}",
        f"{replayed / highest:.2f}",
        f"{seconds:.1f} s",
        f"{start:.1f} s",
        "kept" if kept else "MISSED",
    )
    return list(cells), kept


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", action="append", help="only shapes whose names contain this")
    parser.add_argument("--scale", type=float, default=1.0, help="size of each shape")
    arguments = parser.parse_args()
    table = Table("shape", "counted", "resident", "share", "worst share", "highest", "of counted",
                  "replayed", "of highest", "sent", "start", "budget")  # fmt: skip
    missed = []
    console = Console(width=150)
    for name, shape in SHAPES.items():
        if arguments.shape and not any(each in name for each in arguments.shape):
            continue
        row, kept = measure(shape, arguments.scale)
        table.add_row(name, *row)
        print(name, *row, sep="  ", flush=True)
        if not kept:
            missed.append(name)
    console.print(table)
    if missed:
        raise SystemExit(f"above the budget of {BUDGET}: {', '.join(missed)}")


if __name__ == "__main__":
    main()
