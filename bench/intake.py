"""CloudEvents over HTTP: one row a request, and batches, beside bare parsing of the same messages.

    python bench/intake.py [--quick]

The server is a process of its own with a log on disk; an answer means that the rows are
durable. Clients are this process: connections that are kept open, each with one request under
way. Rates are rows a second of the clock, and a second of the server's processor time, which is
what one core takes. Bare parsing is `json.loads` of the same bodies in this process, in the
same rounds; the table shows medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import psutil
from load import Process, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAD = {"specversion": "1.0", "type": "t", "source": "bench"}
CONFIGURATION = '[[ingest]]\npreset = "kserve-v2"\nstream = "fraud/v3"\ntypes = []\n'


@dataclass(frozen=True)
class Load:
    """Requests of one size.

    Attributes
    ----------
    label : str
    events, rows : int
        Events of a request, and rows of an event.
    connections, requests : int
        Of a round.
    floor : int
        Rows a second that are wanted.
    """

    label: str
    events: int
    rows: int
    connections: int
    requests: int
    floor: int


LOADS = (
    Load("one row a request", 1, 1, 64, 6_000, 3_000),
    Load("1,000 events a request, a row each", 1_000, 1, 4, 40, 100_000),
    Load("10 events a request, 1,000 rows each", 10, 1_000, 4, 16, 100_000),
)


class Rates(NamedTuple):
    """Rows a second of the clock, of the server's processor time, and of bare parsing."""

    clock: float
    core: float
    parsed: float


def body_of(load: Load, number: int) -> bytes:
    """Return the body of a request; ids differ in every one."""
    scores = [(number + row) % 1_000 / 1_000 for row in range(load.rows)]
    outputs = [{"name": "p", "shape": [load.rows], "datatype": "FP64", "data": scores}]
    events = [
        {**HEAD, "id": f"{number}-{event}", "data": {"model_name": "v3", "outputs": outputs}}
        for event in range(load.events)
    ]
    return json.dumps(events if load.events > 1 else events[0]).encode()


def requests_of(load: Load, first: int, count: int) -> list[bytes]:
    """Return HTTP requests as they are sent."""
    kind = f"application/cloudevents{'-batch' if load.events > 1 else ''}+json"
    head = f"POST /v1/cloudevents HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n"
    bodies = [body_of(load, number) for number in range(first, first + count)]
    return [f"{head}content-length: {len(body)}\r\n\r\n".encode() + body for body in bodies]


async def _connection(port: int, requests: list[bytes]) -> None:
    """Send requests one after the other; every answer has to be 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while requests:
        writer.write(requests.pop())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"refused: {head.decode()}")
        lines = head.lower().split(b"\r\n")
        (size,) = (int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(size)
    writer.close()


async def _send(port: int, load: Load, requests: list[bytes]) -> None:
    await asyncio.gather(*(_connection(port, requests) for _ in range(load.connections)))


@contextmanager
def _served(directory: Path) -> Iterator[tuple[psutil.Process, int]]:
    """Run our server; yield its process and its HTTP port."""
    configuration = directory / "server.toml"
    configuration.write_text(CONFIGURATION)
    options = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config", str(configuration))
    server = Process("-m", "streameval_server", *options, "--data", str(directory / "data"))
    try:
        assert server.popen.stdout is not None
        page = server.popen.stdout.readline()
        yield psutil.Process(server.pid), int(page.strip().rstrip("/").rpartition(":")[2])
    finally:
        server.stop()


def _round(server: psutil.Process, port: int, load: Load, first: int, count: int) -> Rates:
    """Send requests, and parse their bodies here."""
    requests = requests_of(load, first, count)
    bodies = [request.partition(b"\r\n\r\n")[2] for request in requests]
    rows = count * load.events * load.rows
    before = server.cpu_times()
    start = time.perf_counter()
    asyncio.run(_send(port, load, requests))
    elapsed_s = time.perf_counter() - start
    after = server.cpu_times()
    start = time.perf_counter()
    for body in bodies:
        json.loads(body)
    parsing_s = time.perf_counter() - start
    core_s = after.user + after.system - before.user - before.system
    return Rates(rows / elapsed_s, rows / core_s, rows / parsing_s)


def _table(server: psutil.Process, port: int, rounds: int, share: float) -> None:
    seen: dict[Load, list[Rates]] = {load: [] for load in LOADS}
    first = 0
    for _ in range(rounds):
        for load, found in seen.items():
            count = max(load.connections, int(load.requests * share))
            found.append(_round(server, port, load, first, count))
            first += count
    title = f"rows/s (median of {rounds} rounds)"
    print(f"{title:38}{'clock':>10}{'a core':>10}{'parsed':>12}{'wanted':>10}")
    for load, found in seen.items():
        clock, core, parsed = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"{load.label:38}{clock:10,.0f}{core:10,.0f}{parsed:12,.0f}{load.floor:10,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds in total")
    quick = parser.parse_args().quick
    with scratch() as directory, _served(directory) as (server, port):
        _table(server, port, *((2, 0.25) if quick else (5, 1.0)))


if __name__ == "__main__":
    main()
