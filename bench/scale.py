"""Measurements for a plan with several servers: size of states, merges per second, memory.

    python bench/scale.py [--quick]

Prints the four tables of docs/evidence-scale.md: the bytes of a serialised state; the durable
merges that a server accepts per second; the memory of many small streams; and the time
to read the parts of one stream from several servers.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import numpy as np
import psutil
from load import Process, scratch, serve
from rich.console import Console
from rich.table import Table

from streameval import Evaluator
from streameval.client import Client, MergeState
from streameval.client._delivery.routing import owner


def state(rows: int, seed: int, resolution: int | None = 12) -> Evaluator:
    """Return an evaluator of `rows` cases, 5 % positive, with almost only distinct scores."""
    rng = np.random.default_rng(seed)
    labels = rng.random(rows) < 0.05
    ev = Evaluator(resolution=resolution)
    ev.add_cases(labels=labels, scores=rng.normal(size=rows) + 1.5 * labels)
    return ev


def sizes() -> Table:
    """Measure the bytes of serialised states."""
    table = Table("cases in a state", "exact, bytes", "at 12 bits, bytes", "at 8 bits, bytes")
    for rows in (10, 100, 1_000, 10_000, 100_000, 1_000_000):
        found = (len(state(rows, 1, bits).to_bytes()) for bits in (None, 12, 8))
        table.add_row(f"{rows:,}", *(f"{size:,}" for size in found))
    return table


def merges(address: str, merges_each: int) -> Table:
    """Measure durable merges, from one client and from eight concurrent ones."""
    table = Table("durable merges of", "clients", "merges per second", "cases per second")
    for rows in (10, 1_000, 100_000):
        ev = state(rows, 2)
        for clients in (1, 8):
            begun = time.perf_counter()
            with ThreadPoolExecutor(clients) as pool:
                works = [(address, ev, f"rate-{rows}/{n}", f"{clients}", merges_each)
                         for n in range(clients)]  # fmt: skip
                list(pool.map(lambda work: _merge_again(*work), works))
            rate = clients * merges_each / (time.perf_counter() - begun)
            table.add_row(f"{rows:,} cases", str(clients), f"{rate:,.0f}", f"{rate * rows:,.0f}")
    return table


def _merge_again(address: str, ev: Evaluator, stream: str, source: str, times: int) -> None:
    with Client(address) as client:
        for epoch in range(1, times + 1):
            client.stream(stream).merge(ev, source=source, epoch=epoch)


def memory(server: Process, streams: int, panes: int) -> Table:
    """Measure the memory of a server with many small streams."""
    process = psutil.Process(server.pid)
    table = Table(
        "streams",
        "panes each",
        "cases per pane",
        "memory",
        "per stream",
        "per pane",
        "per cell",
        "to fill",
    )
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with Client(server.address) as client:
        for rows in (10, 100, 1_000):
            before, begun = process.memory_info().rss, time.perf_counter()
            found = [
                MergeState(state(rows, pane), hour - timedelta(minutes=pane + 1))
                for pane in range(panes)
            ]
            for number in range(streams):
                client.stream(f"small-{rows}/{number}").merge(found, source="fill", epoch=1)
            client.stream(f"small-{rows}/0").snapshot()
            cells = streams * sum(each.evaluator.num_cells for each in found)
            taken, grown = time.perf_counter() - begun, process.memory_info().rss - before
            table.add_row(
                f"{streams:,}",
                str(panes),
                str(rows),
                f"{grown / 1e6:,.0f} MB",
                f"{grown / streams / 1e3:,.1f} KB",
                f"{grown / streams / panes:,.0f} B",
                f"{grown / cells:,.1f} B",
                f"{taken:.1f} s",
            )
    return table


def reading(addresses: list[str], repeats: int) -> Table:
    """Measure one query over the parts of a stream on several servers."""
    table = Table("servers", "cases each", "one exact query", "bytes moved")
    for rows in (10_000, 250_000):
        with Client(addresses) as client:
            for number, shard in enumerate(client.shards(f"read/{rows}")):
                shard.merge(state(rows, number, None), source="fill", epoch=1)
            times, moved = [], 0
            for _ in range(repeats):
                begun = time.perf_counter()
                whole = client.evaluator(f"read/{rows}")
                whole.auc_pr()
                times.append(time.perf_counter() - begun)
                moved = len(whole.to_bytes())
        took = f"{statistics.median(times) * 1e3:.0f} ms"
        table.add_row(str(len(addresses)), f"{rows:,}", took, f"{moved:,}")
    names = [f"model-{number}/v1" for number in range(10_000)]
    begun = time.perf_counter()
    for name in names:
        owner(name, addresses)
    table.caption = f"finding a stream's server: {(time.perf_counter() - begun) / 1e4 * 1e6:.1f} us"
    return table


def _discard(server: Process) -> None:
    """Kill a server, which avoids the last checkpoint of an orderly stop."""
    server.popen.kill()
    server.popen.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer streams and repeats")
    quick = parser.parse_args().quick
    console = Console(width=110)
    console.print(sizes())
    with ExitStack() as stack:
        servers = []
        for _ in range(3):
            directory = stack.enter_context(scratch())
            servers.append(serve(directory))
            stack.callback(_discard, servers[-1])
        console.print(merges(servers[0].address, 50 if quick else 300))
        console.print(memory(servers[1], 200 if quick else 1_000, 60))
        console.print(reading([server.address for server in servers], 3 if quick else 9))


if __name__ == "__main__":
    main()
