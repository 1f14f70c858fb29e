"""Durable acked ingest over gRPC, compared with a bare server that drops the same batches.

    python bench/ingest.py [--quick]

The bare server parses each batch into arrays, acknowledges it and drops it
(bench/load.py). Both servers run as separate processes. The client is this process; it
sends frames that were encoded beforehand, and keeps as much in flight as the server
allows. Each round measures every row of the table on both servers, so that all see the
same noise; the table shows medians. A case counts when its ack has arrived, and for our
server an ack means synced to disk. Most streams eventually exceed the number of distinct
scores that they count exactly; until then, and always in the last row, scores are sorted
and counted exactly. At full speed the time to an ack is the amount in flight divided by
the rate; bench/latency.py measures the latency of a user.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics

import grpc
from host import print_host_at_exit
from load import Work, ingest, percentiles_ms, served_beside_bare, sync_seconds

from streameval.v1 import stream_pb2, stream_pb2_grpc

CLUSTER_GROUPS = 32
PLAIN = Work("1,000-case batches, 1 stream", 1_000)
SEGMENTED = Work("1,000-case batches, 5 segment keys", 1_000, segments=5)
PACKED = Work("1,000-case batches, bytes columns", 1_000, packed=True)
PACKED_SEGMENTED = Work("1,000-case batches, bytes columns, 5 keys", 1_000, packed=True, segments=5)
CLUSTERED = Work("1,000-case batches, 32 groups of clusters", 1_000, clusters=20_000)
PACKED_CLUSTERED = Work(
    "1,000-case batches, bytes columns, clusters", 1_000, packed=True, clusters=20_000
)
WORKS = (
    PLAIN,
    SEGMENTED,
    CLUSTERED,
    PACKED,
    PACKED_SEGMENTED,
    PACKED_CLUSTERED,
    Work("10,000-case batches, 1 stream", 10_000),
    Work("10,000-case batches, bytes columns", 10_000, packed=True),
    Work("1,000-case batches, 8 streams", 1_000, streams=8),
    Work("1,000-case batches, 64,000 scores", 1_000, distinct=64_000),
)


def _declare(address: str) -> None:
    """Create the streams that have segments or clusters."""
    with grpc.insecure_channel(address) as channel:
        service = stream_pb2_grpc.StreamServiceStub(channel)
        works = {work.stream(i): work for work in WORKS for i in range(work.streams)}
        for name, work in works.items():
            if work.segments or work.clusters:
                stream = stream_pb2.Stream(name=name)
                stream.settings.segment_keys.extend(f"key-{key}" for key in range(work.segments))
                stream.settings.cluster_groups = CLUSTER_GROUPS if work.clusters else 0
                service.CreateStream(stream_pb2.CreateStreamRequest(stream=stream))


def _table(rounds: int, seconds: float, addresses: dict[str, str]) -> None:
    print(
        f"{'ingest (median of ' + str(rounds) + ' rounds)':42}{'durable M/s':>12}{'bare M/s':>10}"
        f"{'share':>7}"
    )
    rates: dict[tuple[Work, str], list[float]] = {(w, key): [] for w in WORKS for key in addresses}
    for _ in range(rounds):
        for (work, key), seen in rates.items():
            rate, _ = asyncio.run(ingest(addresses[key], work, seconds))
            seen.append(rate)
    for work in WORKS:
        ours, bare = (statistics.median(rates[work, key]) / 1e6 for key in addresses)
        print(f"{work.label:42}{ours:12.2f}{bare:10.2f}{ours / bare:7.0%}")
    for plain, more, budget in (
        (PLAIN, SEGMENTED, 0.5),
        (PACKED, PACKED_SEGMENTED, 0.5),
        (PLAIN, CLUSTERED, 0.8),
        (PACKED, PACKED_CLUSTERED, 0.8),
    ):
        pairs = zip(rates[plain, "ours"], rates[more, "ours"], strict=True)
        shares = [with_more / without for without, with_more in pairs]
        print(
            f"{more.label}: {statistics.median(shares):.0%} of the rate without "
            f"(rounds {', '.join(f'{share:.0%}' for share in shares)}; budget {budget:.0%})"
        )


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds in total")
    arguments = parser.parse_args()
    rounds, seconds = (2, 0.8) if arguments.quick else (5, 2.0)
    with served_beside_bare() as (servers, directory):
        print(
            f"append 4 KiB and fdatasync, p50 / p99 ms: {percentiles_ms(sync_seconds(directory))}"
        )
        _declare(servers["ours"].address)
        _table(rounds, seconds, {key: each.address for key, each in servers.items()})


if __name__ == "__main__":
    main()
