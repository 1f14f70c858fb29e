"""Twice a server's capacity: it refuses the excess, memory stays flat, nothing acked is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from streameval.client import AsyncClient, Client, RowsLostError
from streameval.v1 import ingest_pb2, ingest_pb2_grpc, query_pb2, query_pb2_grpc, types_pb2

from .conftest import batch, counted, resident_while, retry_delay_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Process

pytestmark = pytest.mark.heavy

SLOW_SERVER = str(Path(__file__).parent / "serve_slow.py")
CAPACITY = 8_000_000
"""Speed of the slow server's disk, in bytes per second."""

SECONDS = 10
BOUND = 40 << 20
"""Memory of the queue and of the applier's backlog, and what an allocator keeps."""


class Outcome:
    """What the server answered."""

    def __init__(self) -> None:
        self.offered_bytes = 0
        self.acked_rows = 0
        self.revision = 0
        self.codes: set[grpc.StatusCode] = set()
        self.delays: list[float | None] = []

    async def call(self, stub: ingest_pb2_grpc.IngestServiceStub, one: ingest_pb2.Batch) -> None:
        """Send one batch, and record its answer."""
        request = ingest_pb2.IngestBatchRequest(batch=one)
        self.offered_bytes += request.ByteSize()
        try:
            answer = await stub.IngestBatch(request)
        except grpc.aio.AioRpcError as error:
            self.codes.add(error.code())
            self.delays.append(retry_delay_s(error.trailing_metadata()))
        else:
            self.acked_rows += 10_000
            self.revision = max(self.revision, answer.revision)


async def offer(address: str, found: Outcome) -> None:
    """Send twice the capacity on a timetable, with queries beside it."""
    bodies = [batch("crowded", number, rows=10_000) for number in range(8)]
    pause = bodies[0].ByteSize() / (2 * CAPACITY)
    async with grpc.aio.insecure_channel(address) as channel:
        stub = ingest_pb2_grpc.IngestServiceStub(channel)
        health = health_pb2_grpc.HealthStub(channel)
        query = query_pb2_grpc.QueryServiceStub(channel)
        chosen = types_pb2.Selection(stream="quiet")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        calls: list[asyncio.Task[None]] = []
        while loop.time() < begun + SECONDS:
            calls.append(asyncio.create_task(found.call(stub, bodies[len(calls) % 8])))
            if len(calls) % 50 == 0:
                checked = await health.Check(health_pb2.HealthCheckRequest(), timeout=10)
                assert checked.status == health_pb2.HealthCheckResponse.SERVING
                request = query_pb2.GetSnapshotRequest(selection=chosen)
                answer = await query.GetSnapshot(request, timeout=10)
                assert answer.snapshot.num_positive_ref == 1
            await asyncio.sleep(begun + len(calls) * pause - loop.time())
        await asyncio.gather(*calls)


def test_twice_the_capacity(start: Callable[..., Process], disk: Path) -> None:
    """Memory stays flat, callers get a retry delay, and exactly what was acked is counted."""
    server = start(SLOW_SERVER, str(disk), str(CAPACITY))
    with Client(server.address) as client:
        client.stream("quiet").add_case(True, 0.5)
    found = Outcome()

    async def scenario() -> list[int]:
        work = asyncio.ensure_future(offer(server.address, found))
        return await resident_while(server.popen.pid, work)

    memory = asyncio.run(scenario())
    assert found.offered_bytes > 1.5 * SECONDS * CAPACITY
    assert found.codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert set(found.delays) == {1.0}
    assert counted(server.address, "crowded", found.revision) == found.acked_rows > 0
    # The excess does not fit into memory; the first quarter of it fills the queue.
    assert max(memory) - memory[len(memory) // 4] < BOUND < 0.6 * SECONDS * CAPACITY
    assert server.terminate() == (0, "")


def test_streams_that_fill_the_queue_together(start: Callable[..., Process], disk: Path) -> None:
    """Streams that find the queue full end with a retry delay, then resume: all rows count once."""
    server = start(SLOW_SERVER, str(disk), str(CAPACITY // 8))
    batches = [batch("shared", number) for number in range(60)]
    for number, each in enumerate(batches, 1):
        each.sequence = number

    async def produce(channel: grpc.aio.Channel, producer: str) -> tuple[int, int]:
        stub = ingest_pb2_grpc.IngestServiceStub(channel)
        refused = acked = revision = 0
        opened = ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer=producer, epoch=1))
        while acked < len(batches):
            call = stub.Ingest()
            try:
                await call.write(opened)
                resume = (await call.read()).resume
                last, revision = resume.last_sequence, resume.revision
                assert last >= acked
                for each in batches[last:]:
                    await call.write(ingest_pb2.IngestRequest(batch=each))
                await call.done_writing()
                while (answer := await call.read()) is not grpc.aio.EOF:
                    acked, revision = answer.ack.last_sequence, answer.ack.revision
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                code = await call.code()
                if code is grpc.StatusCode.INTERNAL:
                    # grpc.aio's error for a write after the end (grpc/grpc#36066).
                    continue
                assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert retry_delay_s(await call.trailing_metadata()) == 1.0
                refused += 1
                await asyncio.sleep(0.2)  # sooner than the delay says, which a client may do
        return refused, revision

    async def scenario() -> list[tuple[int, int]]:
        async with grpc.aio.insecure_channel(server.address) as channel:
            return await asyncio.gather(*(produce(channel, f"p{i}") for i in range(8)))

    refused, revisions = zip(*asyncio.run(scenario()), strict=True)
    assert sum(refused) > 0
    assert counted(server.address, "shared", max(revisions)) == 8 * 60 * 1_000
    assert server.terminate() == (0, "")


@pytest.mark.parametrize("when_full", ["drop", "block"])
def test_the_client_drops_and_counts_or_slows_down(
    start: Callable[..., Process], disk: Path, when_full: str
) -> None:
    """Rows that the client accepted become durable; rows that it dropped are counted as such."""
    server = start(SLOW_SERVER, str(disk), str(CAPACITY))
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=5_000), rng.random(5_000) < 0.1
    rounds = 100  # 4.5 MB, more than the client may buffer and the server can take meanwhile
    with Client(server.address, when_full=when_full, max_buffered_rows=100_000) as client:
        stream = client.stream("kept")
        for _ in range(rounds):
            stream.add_cases(labels=labels, scores=scores)
        if when_full == "drop":
            with pytest.raises(RowsLostError):
                client.flush(timeout_s=60)
        revision = client.flush(timeout_s=60)
        counts = client.statistics()
    assert counts.added + counts.dropped == rounds * 5_000
    assert counts.acked == counts.added
    assert (counts.dropped == 0) == (when_full == "block")
    assert counted(server.address, "kept", revision) == counts.acked
    assert server.terminate() == (0, "")


def test_asyncio_clients_that_fill_the_queue_together(
    start: Callable[..., Process], disk: Path
) -> None:
    """A stream that ends during a write loses no batch: every row is counted once."""
    server = start(SLOW_SERVER, str(disk), str(CAPACITY // 32))
    scores = np.random.default_rng(1).normal(size=28_000)
    labels = scores > 1

    async def produce() -> tuple[int, int]:
        async with AsyncClient(server.address) as client:
            client.stream("async").add_cases(labels=labels, scores=scores)
            revision = await client.flush(timeout_s=60)
            return client.statistics().connections, revision

    async def scenario() -> list[tuple[int, int]]:
        return await asyncio.gather(*(produce() for _ in range(8)))

    connections, revisions = zip(*asyncio.run(scenario()), strict=True)
    assert sum(connections) > 8
    assert counted(server.address, "async", max(revisions)) == 8 * scores.size
    assert server.terminate() == (0, "")
