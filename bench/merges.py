"""Durable merges of small states per second, by concurrent senders, and what each costs.

    python bench/merges.py [--quick]

States of 1,000 cases are merged into a stream of each sender, one after the other, each
call answered when its merge is durable and visible. "clients" are threads with a
`streameval.client.Client` each; "calls" are gRPC calls of one event loop with requests that were
encoded beforehand, so that the sender costs less. Processor time of the server says what a
machine with cores to spare reaches; the rate of the clock shares two cores with the sender. The
peer is a grpc.aio server that reads each merge and drops it: no log, check or count. Rounds
alternate; the table shows medians.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import grpc
import psutil
from host import print_host_at_exit
from load import Process, served_beside_bare
from rich.console import Console
from rich.table import Table
from scale import state

from streameval.client import Client
from streameval.client._delivery.merge_upload import Upload
from streameval.v1 import ingest_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from streameval import Evaluator

SENDERS = (1, 8)
_sources = (f"source-{number}" for number in itertools.count())


def in_threads(senders: int, send: Callable[[str, str], None]) -> None:
    """Run each sender in a thread; `send` takes its stream's name and its source."""
    with ThreadPoolExecutor(senders) as pool:
        list(pool.map(lambda each: send(*each), _streams_and_sources(senders)))


def in_one_loop(
    address: str,
    senders: int,
    send: Callable[[ingest_pb2_grpc.IngestServiceStub, str, str], Awaitable[None]],
) -> None:
    """Run the senders as tasks of one event loop, over one connection."""

    async def send_all() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = ingest_pb2_grpc.IngestServiceStub(channel)
            await asyncio.gather(*(send(stub, *each) for each in _streams_and_sources(senders)))

    asyncio.run(send_all())


def _streams_and_sources(senders: int) -> list[tuple[str, str]]:
    return [(f"merges/{number}", next(_sources)) for number in range(senders)]


def by_clients(address: str, ev: Evaluator, senders: int, each: int) -> None:
    """Merge with a client for each sender."""

    def send(name: str, source: str) -> None:
        with Client(address) as client:
            stream = client.stream(name)
            for epoch in range(1, each + 1):
                stream.merge(ev, source=source, epoch=epoch)

    in_threads(senders, send)


def by_calls(address: str, ev: Evaluator, senders: int, each: int) -> None:
    """Merge with encoded requests, from one event loop."""

    async def send(stub: ingest_pb2_grpc.IngestServiceStub, name: str, source: str) -> None:
        uploads = [
            list(Upload(name, ev, source=source, epoch=epoch, at=None, segments=None).requests())
            for epoch in range(1, each + 1)
        ]
        for requests in uploads:
            await stub.Merge(iter(requests))

    in_one_loop(address, senders, send)


WAYS = {
    "clients": by_clients,
    "calls": by_calls,
}


def cpu_s(process: psutil.Process) -> float:
    """Return the processor time of a process, in seconds."""
    times = process.cpu_times()
    return times.user + times.system


def measure(server: Process, work: Callable[[], None], count: int) -> tuple[float, float, float]:
    """Return merges per second, and the processor time of server and sender for each, in us."""
    process = psutil.Process(server.pid)
    before, mine, begun = cpu_s(process), time.process_time(), time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    spent, own = cpu_s(process) - before, time.process_time() - mine
    return count / seconds, spent / count * 1e6, own / count * 1e6


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer merges and rounds")
    quick = parser.parse_args().quick
    each, rounds = (40, 3) if quick else (150, 5)
    ev = state(1_000, 2)
    found: dict[tuple[str, int, str], list[tuple[float, float, float]]] = {}
    with served_beside_bare() as (servers, _):
        for server in servers.values():
            by_calls(server.address, ev, 8, 20)
        for _ in range(rounds):
            for senders, name, by in product(SENDERS, WAYS, servers):
                work = partial(WAYS[name], servers[by].address, ev, senders, each)
                measured = measure(servers[by], work, senders * each)
                found.setdefault((name, senders, by), []).append(measured)
    table = Table("senders", "server", "merges/s", "server, CPU us each", "sender, CPU us each")
    for (name, senders, by), rows in found.items():
        medians = (f"{statistics.median(column):,.0f}" for column in zip(*rows))
        table.add_row(f"{senders} {name}", by, *medians)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
