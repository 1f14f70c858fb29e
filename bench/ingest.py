"""Durable acked ingest over gRPC, against a bare server that drops the same batches.

    python bench/ingest.py [--quick]

The peer is a grpc.aio server that parses each batch into arrays, acknowledges
it and forgets it: what is left when validation, the log, the sync to disk and
the counting are taken away. Both servers run as processes of their own; the
client is this process, sends frames that were encoded beforehand, and keeps as
much in flight as the server allows. Rounds alternate between the two servers,
so that both see the same noise; the table shows medians. Rates count a case
when its ack has arrived, and for our server an ack means synced to disk. At
full speed the time to an ack is what is in flight divided by the rate; the row
with an offered rate shows what a user waits.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import numpy as np

from streameval.v1 import ingest_pb2, stream_pb2, stream_pb2_grpc
from streameval_server._process.serve import new_event_loop

INGEST = "/streameval.v1.IngestService/Ingest"
BODIES = 64
BARE_INFLIGHT = 8 << 20


# --- The peer -----------------------------------------------------------------------------------


async def _drop(
    requests: grpc.aio.StreamStreamMultiCallable, context: grpc.aio.ServicerContext
) -> None:
    async for raw in requests:
        message = ingest_pb2.IngestRequest.FromString(raw)
        if message.HasField("open"):
            reply = ingest_pb2.IngestResponse(
                resume=ingest_pb2.Resume(max_inflight_bytes=BARE_INFLIGHT)
            )
        else:
            cases = message.batch.cases
            np.array(cases.scores)
            np.array(cases.positives)
            np.frombuffer(cases.scores_f64le)
            np.unpackbits(np.frombuffer(cases.positives_bits, np.uint8))
            reply = ingest_pb2.IngestResponse(
                ack=ingest_pb2.Ack(last_sequence=message.batch.sequence)
            )
        await context.write(reply.SerializeToString())


async def _bare_server() -> None:
    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(_drop)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("streameval.v1.IngestService", {"Ingest": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"listening on 127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


# --- The client ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """One row of the table.

    Attributes
    ----------
    rows : int
        Cases in a batch.
    packed : bool
        Whether columns travel as bytes, as bulk loaders send them.
    rate : float or None
        Cases offered a second; None is as many as acks allow.
    segments : int
        Segment keys of 10 values each.
    """

    label: str
    rows: int
    streams: int = 1
    packed: bool = False
    rate: float | None = None
    segments: int = 0


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bodies(work: Work, stream: str) -> list[bytes]:
    """Encode batches of random cases, without their sequence numbers."""
    rng = np.random.default_rng(work.rows)
    bodies = []
    for _ in range(BODIES):
        scores, labels = rng.normal(size=work.rows), rng.random(work.rows) < 0.05
        if work.packed:
            bits = np.packbits(labels, bitorder="little").tobytes()
            cases = ingest_pb2.Cases(scores_f64le=scores.tobytes(), positives_bits=bits)
        else:
            cases = ingest_pb2.Cases(scores=scores.tolist(), positives=labels.tolist())
        for key in range(work.segments):
            cases.segments.add(
                key=f"key-{key}",
                values=[f"value-{value}" for value in range(10)],
                codes=rng.integers(0, 10, work.rows).tolist(),
            )
        bodies.append(ingest_pb2.Batch(stream=stream, cases=cases).SerializeToString())
    return bodies


def _frame(body: bytes, sequence: int) -> bytes:
    """Put a sequence number before an encoded batch: fields may come in any order."""
    number = b"\x08" + _varint(sequence)
    return b"\x12" + _varint(len(number) + len(body)) + number + body


@dataclass
class Run:
    """What one Ingest stream saw."""

    cases: int = 0
    seconds: float = 0.0
    ack_seconds: list[float] = field(default_factory=list)


async def _ingest(channel: grpc.aio.Channel, work: Work, name: str, seconds: float) -> Run:
    """Send batches on one stream for a while."""
    rows = work.rows
    rate = work.rate and work.rate / work.streams
    bodies = _bodies(work, name)
    call = channel.stream_stream(INGEST)()
    producer = ingest_pb2.Open(producer=f"{name}-{time.monotonic_ns()}", epoch=1)
    await call.write(ingest_pb2.IngestRequest(open=producer).SerializeToString())
    resume = ingest_pb2.IngestResponse.FromString(await call.read()).resume
    window = max(1, resume.max_inflight_bytes // len(bodies[0]) - 1)
    run = Run()
    sent_at: deque[float] = deque()
    sent = acked = 0
    moved = asyncio.Event()

    async def read_acks() -> None:
        nonlocal acked
        while (raw := await call.read()) is not grpc.aio.EOF:
            message = ingest_pb2.IngestResponse.FromString(raw)
            if not message.HasField("ack"):
                raise SystemExit(f"unexpected answer: {message}")
            now = time.perf_counter()
            for _ in range(message.ack.last_sequence - acked):
                run.ack_seconds.append(now - sent_at.popleft())
            acked = message.ack.last_sequence
            moved.set()

    reader = asyncio.create_task(read_acks())
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        if rate is not None and sent * rows > rate * elapsed:
            await asyncio.sleep(rows / rate / 2)
            continue
        while sent - acked >= window and not reader.done():
            moved.clear()
            await moved.wait()
        sent += 1
        sent_at.append(time.perf_counter())
        await call.write(_frame(bodies[sent % BODIES], sent))
    await call.done_writing()
    await reader
    run.seconds = time.perf_counter() - start
    run.cases = acked * rows
    if acked != sent:
        raise SystemExit(f"{sent} batches were sent and {acked} acknowledged")
    return run


async def _load(address: str, work: Work, seconds: float) -> tuple[float, list[float]]:
    """Return cases a second over all streams, and every batch's time to its ack."""
    async with grpc.aio.insecure_channel(address) as channel:
        runs = await asyncio.gather(
            *(
                _ingest(channel, work, f"bench/{work.segments}/{i}", seconds)
                for i in range(work.streams)
            )
        )
    cases = sum(run.cases for run in runs)
    return cases / max(run.seconds for run in runs), [t for run in runs for t in run.ack_seconds]


# --- The comparison -----------------------------------------------------------------------------


WORKS = (
    Work("1,000-case batches, 1 stream", 1_000),
    Work("10,000-case batches, 1 stream", 10_000),
    Work("10,000-case batches, bytes columns", 10_000, packed=True),
    Work("1,000-case batches, 8 streams", 1_000, streams=8),
    Work("1,000-case batches, 5 segment keys", 1_000, segments=5),
    Work("1 M cases/s offered, 1,000-case batches", 1_000, rate=1e6),
)


def _start(*command: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server process and return it with its address."""
    arguments = [sys.executable, *command]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{command} did not start")
    return process, line.split()[-1]


def _declare_keys(address: str) -> None:
    """Make the streams that have segments."""
    with grpc.insecure_channel(address) as channel:
        service = stream_pb2_grpc.StreamServiceStub(channel)
        for work in WORKS:
            keys = [f"key-{key}" for key in range(work.segments)]
            for i in range(work.streams if keys else 0):
                stream = stream_pb2.Stream(name=f"bench/{work.segments}/{i}")
                stream.settings.segment_keys.extend(keys)
                service.CreateStream(stream_pb2.CreateStreamRequest(stream=stream))


def _sync_seconds(directory: Path) -> list[float]:
    """Return how long it takes to append 4 KiB to a file and sync it."""
    times = []
    with (directory / "sync").open("wb", buffering=0) as file:
        for _ in range(200):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    return times


def _percentiles_ms(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return f"{p50:.2f} / {p99:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds in all")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_bare_server())
        return
    rounds, seconds = (2, 0.8) if arguments.quick else (5, 2.0)
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as name:
        directory = Path(name)
        syncs = _sync_seconds(directory)
        servers = {
            "ours": _start(
                "-m", "streameval_server", "--listen", "127.0.0.1:0", "--data", f"{name}/data"
            ),
            "bare": _start(__file__, "--bare"),
        }
        _declare_keys(servers["ours"][1])
        try:
            _table(rounds, seconds, {key: address for key, (_, address) in servers.items()}, syncs)
        finally:
            for process, _ in servers.values():
                process.terminate()
                process.wait(30)


def _table(rounds: int, seconds: float, addresses: dict[str, str], syncs: list[float]) -> None:
    print(f"append 4 KiB and fdatasync, p50 / p99 ms: {_percentiles_ms(syncs)}")
    print(
        f"{'ingest (median of ' + str(rounds) + ' rounds)':42}{'durable M/s':>12}{'bare M/s':>10}"
        f"{'share':>7}{'ack p50 / p99 ms':>18}{'bare p50 / p99':>16}"
    )
    for work in WORKS:
        rates: dict[str, list[float]] = {key: [] for key in addresses}
        acks: dict[str, list[float]] = {key: [] for key in addresses}
        for _ in range(rounds):
            for key, address in addresses.items():
                rate, times = asyncio.run(_load(address, work, seconds))
                rates[key].append(rate)
                acks[key] += times
        ours, bare = (statistics.median(rates[key]) / 1e6 for key in ("ours", "bare"))
        print(
            f"{work.label:42}{ours:12.2f}{bare:10.2f}{ours / bare:7.0%}"
            f"{_percentiles_ms(acks['ours']):>18}{_percentiles_ms(acks['bare']):>16}",
            flush=True,
        )


if __name__ == "__main__":
    main()
