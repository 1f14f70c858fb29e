"""Time and memory of the list of streams: 10, 500 and 10,000 streams of a served log.

    python bench/overview.py                     # 10, 500 and 10,000 streams
    python bench/overview.py --streams 500       # one size

Each stream has 600 cases of 48 hours, in four groups, and a declared threshold. The first look is
taken when the background has computed every stream, as it has some time after a start; "cold"
says how long it takes on its own. Then 1 % of the streams get a case: the time of the answer, and
until nothing is out of date. All by gRPC, with one caller; medians of `--repeats`.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import numpy as np
from google.protobuf.duration_pb2 import Duration

from streameval.client import Client
from streameval.v1 import overview_pb2, query_pb2_grpc
from streameval_server import Settings
from streameval_server.testing import running_service

CASES = 600
HOURS = 48
DAY = Duration(seconds=86_400)
Request = overview_pb2.ListStreamSummariesRequest
Response = overview_pb2.ListStreamSummariesResponse


def fill(client: Client, streams: int) -> list[str]:
    """Create streams and send their cases; one in twenty is worse in its last 24 hours."""
    rng = np.random.default_rng(1)
    now = datetime.now(UTC)
    names = [f"group-{number % 4}/model-{number}" for number in range(streams)]
    ages = np.sort(rng.random(CASES) * HOURS)[::-1]
    at = [now - timedelta(hours=float(age)) for age in ages]
    for number, name in enumerate(names):
        client.create_stream(name, scale="probability", threshold=0.5)
        labels = rng.random(CASES) < 0.2
        distance = np.where((ages < 24) & (number % 20 == 0), 0.5, 2.0)
        scores = 1 / (1 + np.exp(1.5 - rng.normal(size=CASES) - distance * labels))
        client.stream(name).add_cases(labels=labels, scores=scores, at=at)
    client.flush(600)
    return names


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(streams: int, repeats: int) -> None:
    """Print the times of one number of streams."""
    with (
        running_service(Settings(listen="127.0.0.1:0", memory=True)) as addresses,
        Client(addresses.grpc) as client,
        grpc.insecure_channel(addresses.grpc) as channel,
    ):
        stub = query_pb2_grpc.QueryServiceStub(channel)

        def look(**fields: object) -> Response:
            return stub.ListStreamSummaries(Request(last=DAY, **fields), timeout=60)

        def complete() -> int:
            looks = 0
            while True:
                found = look()
                looks += 1
                if not (found.num_pending or found.num_outdated):
                    return looks
                time.sleep(0.05)

        names = fill(client, streams)
        before = resident_bytes()
        processor = time.process_time()
        cold = seconds(complete)
        processor = time.process_time() - processor
        grown = resident_bytes() - before
        print(f"\n{streams:,} streams, {CASES} cases each")
        share = f"{cold:>9.2f} s   {processor / streams * 1e3:6.1f} ms of processor each"
        print(f"  {'all computed':<34}{share}")
        size = f"{grown / streams / 1024:>9.1f} KB a stream, merged panes included"
        print(f"  {'memory':<34}{size}")
        for title, fields in (
            ("unchanged", {}),
            ("another order", {"order_by": "auc_roc"}),
            ("search", {"search": "model-1"}),
            ("groups", {"grouped": True}),
        ):
            first = seconds(lambda fields=fields: look(**fields))
            again = statistics.median(
                seconds(lambda fields=fields: look(**fields)) for _ in range(5)
            )
            print(f"  {title:<34}{first * 1e3:>9.1f} ms, again {again * 1e3:.1f} ms")
        changed = max(1, streams // 100)
        first_times, complete_times = [], []
        rng = np.random.default_rng(2)
        for _ in range(repeats):
            for index in rng.choice(streams, changed, replace=False):
                client.stream(names[index]).add_case(True, 0.9)
            client.flush(60)
            begin = time.perf_counter()
            look()
            first_times.append(time.perf_counter() - begin)
            complete()
            complete_times.append(time.perf_counter() - begin)
        print(
            f"  {f'{changed:,} streams changed: first screen':<34}"
            f"{statistics.median(first_times) * 1e3:>9.1f} ms, all up to date "
            f"{statistics.median(complete_times) * 1e3:.0f} ms"
        )


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def steal_share() -> float:
    """Return the share of the processors' time that the host took since the start."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        ticks = [int(each) for each in file.readline().split()[1:]]
    return ticks[7] / sum(ticks)


def main() -> None:
    """Measure each number of streams."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="*", default=[10, 500, 10_000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for streams in options.streams:
        measure(streams, options.repeats)
    print(f"\nload {os.getloadavg()[0]:.1f}, steal since boot {steal_share():.1%}")


if __name__ == "__main__":
    main()
