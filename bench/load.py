"""Server processes, and a load of batches that were encoded beforehand.

Shared by `client.py`, `ingest.py`, `latency.py`, `merges.py`, `operate.py`,
`recovery.py`, `scale.py` and `soak.py`. The bare server, the peer in comparisons, is
a grpc.aio server that parses each batch into arrays, acknowledges it and drops it, as
it drops merges: no validation, log, sync to disk or counting.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np

from streameval.v1 import ingest_pb2
from streameval_server._service.serve import new_event_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

INGEST = "/streameval.v1.IngestService/Ingest"
DISTINCT = 640_000
"""Distinct scores that a producer sends: more than a stream counts exactly, as models do."""
BARE_INFLIGHT_BYTES = 8 << 20


# --- The peer -----------------------------------------------------------------------------------


async def _drop(
    requests: grpc.aio.StreamStreamMultiCallable, context: grpc.aio.ServicerContext
) -> None:
    async for raw in requests:
        message = ingest_pb2.IngestRequest.FromString(raw)
        if message.HasField("open"):
            reply = ingest_pb2.IngestResponse(
                resume=ingest_pb2.Resume(max_inflight_bytes=BARE_INFLIGHT_BYTES)
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


async def _drop_merge(
    requests: AsyncIterator[ingest_pb2.MergeRequest], _context: grpc.aio.ServicerContext
) -> ingest_pb2.MergeResponse:
    async for _ in requests:
        pass
    return ingest_pb2.MergeResponse(revision=1)


async def _bare_server() -> None:
    server = grpc.aio.server()
    handlers = {
        "Ingest": grpc.stream_stream_rpc_method_handler(_drop),
        "Merge": grpc.stream_unary_rpc_method_handler(
            _drop_merge,
            request_deserializer=ingest_pb2.MergeRequest.FromString,
            response_serializer=ingest_pb2.MergeResponse.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("streameval.v1.IngestService", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"listening on 127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


# --- Processes ----------------------------------------------------------------------------------


class Process:
    """A server process and its address."""

    def __init__(self, *command: str) -> None:
        arguments = [sys.executable, *command]
        # A start and a stop are not told; what goes wrong is.
        quiet = {"STREAMEVAL_LOG_LEVEL": "warning", **os.environ}
        self.popen = subprocess.Popen(  # noqa: S603 - our own
            arguments, stdout=subprocess.PIPE, text=True, env=quiet
        )
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(command)} did not start")
        self.address = line.split()[-1]

    @property
    def pid(self) -> int:
        """The process id."""
        return self.popen.pid

    def stop(self) -> float:
        """Terminate the process, and return the seconds until it ended."""
        begin = time.perf_counter()
        self.popen.terminate()
        self.popen.wait(60)
        return time.perf_counter() - begin


def serve(data: Path) -> Process:
    """Start our server on a data directory."""
    return Process("-m", "streameval_server", "--listen", "127.0.0.1:0", "--data", str(data))


@contextmanager
def served_beside_bare() -> Iterator[tuple[dict[str, Process], Path]]:
    """Run our server and the bare one; yield them and a directory on the disk."""
    with scratch() as directory, ExitStack() as stack:
        servers = {"ours": serve(directory / "data"), "bare": Process(__file__)}
        for server in servers.values():
            stack.callback(server.stop)
        yield servers, directory


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary directory inside the current one, so that it is on a disk."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as name:
        yield Path(name)


# --- Batches ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """The parameters of a load.

    Attributes
    ----------
    rows : int
        Cases in a batch.
    packed : bool
        Whether columns travel as bytes, as `streameval.client` sends them.
    rate : float or None
        Cases sent per second; None sends as fast as acks allow.
    segments : int
        Segment keys of 10 values each.
    distinct : int
        Distinct scores: this number of cases is sent repeatedly.
    clusters : int
        Clusters that the cases are of; 0 is a stream without.
    """

    label: str
    rows: int
    streams: int = 1
    packed: bool = False
    rate: float | None = None
    segments: int = 0
    distinct: int = DISTINCT
    clusters: int = 0

    def stream(self, number: int) -> str:
        """Return the name of one stream of the load."""
        return f"bench/{self.segments}/{self.distinct}/{self.clusters}/{number}"


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def bodies(work: Work, stream: str) -> list[bytes]:
    """Return encoded batches of random cases, without sequence numbers."""
    return _bodies(work, stream)


@lru_cache(maxsize=32)
def _bodies(work: Work, stream: str) -> list[bytes]:
    rows, packed = work.rows, work.packed
    rng = np.random.default_rng(rows)
    checksums = rng.integers(0, 2**32, work.clusters, dtype=np.uint32)
    encoded = []
    for _ in range(work.distinct // rows):
        scores, labels = rng.normal(size=rows), rng.random(rows) < 0.05
        if packed:
            bits = np.packbits(labels, bitorder="little").tobytes()
            cases = ingest_pb2.Cases(scores_f64le=scores.tobytes(), positives_bits=bits)
        else:
            cases = ingest_pb2.Cases(scores=scores.tolist(), positives=labels.tolist())
        if work.clusters:
            clusters = rng.choice(checksums, rows)
            if packed:
                cases.clusters_u32le = clusters.astype("<u4").tobytes()
            else:
                cases.clusters.extend(clusters.tolist())
        for key in range(work.segments):
            codes = rng.integers(0, 10, rows)
            column = cases.segments.add(
                key=f"key-{key}", values=[f"value-{value}" for value in range(10)]
            )
            if packed:
                column.codes_u16le = codes.astype("<u2").tobytes()
            else:
                column.codes.extend(codes.tolist())
        encoded.append(ingest_pb2.Batch(stream=stream, cases=cases).SerializeToString())
    return encoded


def frame(body: bytes, sequence: int) -> bytes:
    """Prepend a sequence number to an encoded batch: the order of fields is free."""
    number = b"\x08" + _varint(sequence)
    return b"\x12" + _varint(len(number) + len(body)) + number + body


# --- The client ---------------------------------------------------------------------------------


@dataclass
class Run:
    """The result of one Ingest stream."""

    cases: int = 0
    seconds: float = 0.0
    ack_seconds: list[float] = field(default_factory=list)


async def _ingest(channel: grpc.aio.Channel, work: Work, name: str, seconds: float) -> Run:
    """Send batches on one stream for `seconds`."""
    rows = work.rows
    rate = work.rate and work.rate / work.streams
    encoded = bodies(work, name)
    call = channel.stream_stream(INGEST)()
    producer = ingest_pb2.Open(producer=f"{name}-{time.monotonic_ns()}", epoch=1)
    await call.write(ingest_pb2.IngestRequest(open=producer).SerializeToString())
    resume = ingest_pb2.IngestResponse.FromString(await call.read()).resume
    window = max(1, resume.max_inflight_bytes // len(encoded[0]) - 1)
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
        await call.write(frame(encoded[sent % len(encoded)], sent))
    await call.done_writing()
    await reader
    run.seconds = time.perf_counter() - start
    run.cases = acked * rows
    if acked != sent:
        raise SystemExit(f"{sent} batches were sent and {acked} acknowledged")
    return run


async def ingest(address: str, work: Work, seconds: float) -> tuple[float, list[float]]:
    """Return cases per second over all streams, and every batch's time to its ack."""
    async with grpc.aio.insecure_channel(address) as channel:
        runs = await asyncio.gather(
            *(_ingest(channel, work, work.stream(i), seconds) for i in range(work.streams))
        )
    cases = sum(run.cases for run in runs)
    return cases / max(run.seconds for run in runs), [t for run in runs for t in run.ack_seconds]


# --- Measurements -------------------------------------------------------------------------------


def sync_seconds(directory: Path, count: int = 200) -> list[float]:
    """Return the seconds of each of `count` appends of 4 KiB with a sync."""
    times = []
    with (directory / "sync").open("wb", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    return times


def percentiles_ms(seconds: list[float]) -> str:
    """Return p50 / p99 in milliseconds."""
    if not seconds:
        return "-"
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return f"{p50:.2f} / {p99:.2f}"


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_bare_server())
