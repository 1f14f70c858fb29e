"""Latency of acks, and of queries with and without concurrent ingest.

    python bench/latency.py [--quick]

Acks: batches of 1,000 cases are sent at 1 M cases/s, on a schedule that does not wait for
acks. They go in turn to our server, to a server whose log is on a file system in memory (if
/dev/shm exists and has room), and to a bare server that drops them (bench/load.py). The
first line shows the time that the idle disk takes to append 4 KiB and sync, measured between
the rounds: our ack includes that, the others do not. It also shows the steal: the share of
CPU time that the machine's host gave to others. A run before the first round does not count:
a new stream counts exactly until it has 262,144 distinct scores, and then converts to cells
once.

Queries: whole snapshots of a stream of 100,000 cases in 60 panes, once unchanged and once
right after a case was added, with the wait for that case (`min_revision`). Rounds alternate
between an idle server and one that ingests on another stream, from another process, at half
of the maximum rate just measured. Each number is the median over the rounds, as with acks;
beside it are the ratios of all rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
from google.protobuf.duration_pb2 import Duration
from host import Steal
from load import Work, ingest, percentiles_ms, serve, served_beside_bare, sync_seconds

from streameval.v1 import ingest_pb2, ingest_pb2_grpc, query_pb2, query_pb2_grpc, types_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OFFERED = Work("acks at 1 M cases/s offered", 1_000, rate=1e6)
BUDGET_MS = (1.5, 6.0)
STREAM = "bench/asked"
CASES = 100_000
BETWEEN_S = 0.005
"""Seconds between two queries."""
SYNCS = 2_000
"""Syncs per round: about half a second, enough to see a disk that stalls often."""
MEMORY = Path("/dev/shm")  # noqa: S108 - only a temporary directory in it is used
MEMORY_BYTES = 1 << 30
"""Free space needed for all batches and the write-ahead log."""


def pushed(address: str, work: Work, seconds: float) -> tuple[float, list[float]]:
    """Run a load; called in a separate process."""
    return asyncio.run(ingest(address, work, seconds))


# --- Acks ---------------------------------------------------------------------------------------


def acks(addresses: dict[str, str], directory: Path, rounds: int, seconds: float) -> None:
    """Print the latency of acks: the median over rounds, and the best round."""
    times: dict[str, list[list[float]]] = {key: [] for key in addresses}
    syncs: list[float] = []
    for address in addresses.values():
        pushed(address, OFFERED, 0.5)
    steal = Steal()
    for _ in range(rounds):
        syncs += sync_seconds(directory, SYNCS)
        for key, address in addresses.items():
            times[key].append(pushed(address, OFFERED, seconds)[1])
    print(
        f"append 4 KiB and fdatasync, p50 / p99 / slowest ms: {percentiles_ms(syncs)} / "
        f"{max(syncs) * 1e3:.0f}"
    )
    print(f"steal, of the CPU time demanded: {steal}")
    print(f"{OFFERED.label:<44}{'p50':>8}{'p99':>8}{'best round p50 / p99, ms':>28}")
    for key, runs in times.items():
        each = [np.percentile(run, [50, 99]) * 1e3 for run in runs]
        p50, p99 = (statistics.median(column) for column in zip(*each, strict=True))
        best = percentiles_ms(min(runs, key=lambda run: float(np.percentile(run, 99))))
        print(f"{'  ' + key:<44}{p50:8.2f}{p99:8.2f}{best:>28}")
    print(f"{'  our budget':<44}{BUDGET_MS[0]:8.2f}{BUDGET_MS[1]:8.2f}", flush=True)


@contextmanager
def served_in_memory() -> Iterator[dict[str, str]]:
    """Yield the address of a server whose log is in memory; nothing without such a file system."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        yield {}
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        server = serve(Path(name))
        try:
            yield {"ours, log in memory": server.address}
        finally:
            server.stop()


# --- Queries ------------------------------------------------------------------------------------


class Reader:
    """Queries the last hour of one stream."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._ingest = ingest_pb2_grpc.IngestServiceStub(channel)
        self._query = query_pb2_grpc.QueryServiceStub(channel)
        self._revision = 0

    def fill(self) -> None:
        """Spread the stream's cases over its panes."""
        rng = np.random.default_rng(0)
        labels = rng.random(CASES) < 0.05
        scores = rng.logistic(size=CASES) + 2.0 * labels
        now_us = time.time_ns() // 1000
        times = now_us - rng.integers(0, 60 * 60_000_000, CASES)
        for rows in np.array_split(np.arange(CASES), CASES // 10_000):
            cases = ingest_pb2.Cases(
                scores=scores[rows].tolist(),
                positives=labels[rows].tolist(),
                event_times_us=times[rows].tolist(),
            )
            self._add(ingest_pb2.Batch(stream=STREAM, cases=cases))

    def _add(self, batch: ingest_pb2.Batch) -> None:
        request = ingest_pb2.IngestBatchRequest(batch=batch)
        self._revision = self._ingest.IngestBatch(request).revision

    def change(self) -> None:
        """Add a case."""
        cases = ingest_pb2.Cases(scores=[0.5], positives=[True])
        self._add(ingest_pb2.Batch(stream=STREAM, cases=cases))

    def ask(self) -> None:
        """Query a snapshot that includes every added case."""
        chosen = types_pb2.Selection(
            stream=STREAM, last=Duration(seconds=3600), min_revision=self._revision
        )
        self._query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=chosen))

    def times(self, count: int, before: Callable[[], None]) -> list[float]:
        """Return the seconds of `count` queries, calling `before` ahead of each."""
        taken = []
        for _ in range(count):
            before()
            begin = time.perf_counter()
            self.ask()
            taken.append(time.perf_counter() - begin)
            time.sleep(BETWEEN_S)
        return taken


def _p50_p99_ms(seconds: list[float]) -> tuple[float, float]:
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return float(p50), float(p99)


def queries(address: str, rounds: int, count: int) -> None:
    """Print the latency of queries on an idle server and on one that ingests."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool, grpc.insecure_channel(address) as line:
        peak, _ = pool.submit(pushed, address, Work("peak", 1_000), 2.0).result()
        half = Work("half", 1_000, rate=peak / 2)
        reader = Reader(line)
        reader.fill()
        works = {"unchanged": lambda: None, "after a case was added": reader.change}
        idle: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
        busy: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
        rates: list[float] = []
        steal = Steal()
        for _ in range(rounds):
            for name, before in works.items():
                idle[name].append(_p50_p99_ms(reader.times(count, before)))
                load = pool.submit(pushed, address, half, 0.02 * count)
                time.sleep(0.3)  # until the load has started
                taken: list[float] = []
                while not load.done():
                    taken += reader.times(10, before)
                rates.append(load.result()[0])
                busy[name].append(_p50_p99_ms(taken))
    print(
        f"\npeak {peak / 1e6:.2f} M cases/s; half offered, {np.median(rates) / 1e6:.2f} accepted; "
        f"steal: {steal}"
    )
    print(f"{'snapshot of the last hour, p50 / p99 ms':<44}{'idle':>16}{'ingesting':>18}{'p99':>7}")
    for name in works:
        ratios = [each[1] / still[1] for each, still in zip(busy[name], idle[name], strict=True)]
        shown = [
            f"{p50:.2f} / {p99:.2f}"
            for p50, p99 in (np.median(rounds_ms[name], axis=0) for rounds_ms in (idle, busy))
        ]
        print(
            f"{'  ' + name:<44}{shown[0]:>16}{shown[1]:>18}{statistics.median(ratios):6.1f}x"
            f"  ({', '.join(f'{ratio:.1f}' for ratio in sorted(ratios))})"
        )
    print(f"{'  budget':<44}{'':>34}{5:6.1f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="half a minute in total")
    arguments = parser.parse_args()
    rounds, seconds, count = (3, 1.0, 100) if arguments.quick else (9, 2.0, 300)
    with served_beside_bare() as (servers, directory), served_in_memory() as in_memory:
        addresses = {key: each.address for key, each in servers.items()}
        acks({**addresses, **in_memory}, directory, rounds, seconds)
        queries(addresses["ours"], min(rounds, 5), count)


if __name__ == "__main__":
    main()
