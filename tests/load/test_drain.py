"""A stop under load: nothing acked is lost, and clients that do not read cannot delay it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import grpc
import pytest

from streameval.v1 import ingest_pb2, ingest_pb2_grpc, query_pb2, query_pb2_grpc, types_pb2
from streameval_server import Limits
from streameval_server._core.recovery import open_core
from streameval_server._log.sqlite import SqliteStorage

from .conftest import batch, counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Process

pytestmark = pytest.mark.heavy

MODULE = ("-m", "streameval_server", "--listen", "127.0.0.1:0", "--http", "off")
ROWS = 10_000
PRODUCERS = 4


class Producer:
    """Sends as fast as it is allowed to until its stream ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.acked = 0
        self.code: grpc.StatusCode | None = None

    async def run(self, channel: grpc.aio.Channel) -> None:
        """Send, and record the acks until the server ends the stream."""
        call = ingest_pb2_grpc.IngestServiceStub(channel).Ingest()
        reading = asyncio.create_task(self._read(call))
        opened = ingest_pb2.Open(producer=self.name, epoch=1)
        one = batch(f"drained/{self.name}", 1, rows=ROWS)
        try:
            await call.write(ingest_pb2.IngestRequest(open=opened))
            while True:
                one.sequence += 1
                await call.write(ingest_pb2.IngestRequest(batch=one))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            self.code = await call.code()
        await reading

    async def _read(self, call: grpc.aio.StreamStreamCall) -> None:
        try:
            while (answer := await call.read()) is not grpc.aio.EOF:
                self.acked = max(self.acked, answer.ack.last_sequence)
        except grpc.aio.AioRpcError:
            return  # `run` checks how it ended


async def stand_still(channel: grpc.aio.Channel, taken: list[grpc.aio.Call]) -> None:
    """Watch and ingest without ever reading an answer."""
    stub = query_pb2_grpc.QueryServiceStub(channel)
    for number in range(PRODUCERS):
        chosen = types_pb2.Selection(stream=f"drained/{number}")
        taken += [
            stub.WatchSnapshot(query_pb2.WatchSnapshotRequest(selection=chosen)) for _ in range(10)
        ]
    for number in range(10):
        call = ingest_pb2_grpc.IngestServiceStub(channel).Ingest()
        opened = ingest_pb2.Open(producer=f"deaf-{number}", epoch=1)
        await call.write(ingest_pb2.IngestRequest(open=opened))
        one = batch("deaf", 1, rows=10)
        for sequence in range(1, 100):
            one.sequence = sequence
            await call.write(ingest_pb2.IngestRequest(batch=one))
        taken.append(call)


def test_a_stop_under_load(start: Callable[..., Process], disk: Path) -> None:
    """The server ends within ten seconds, and its checkpoint has everything that was acked."""
    server = start(*MODULE, "--data", str(disk))
    ended: list[tuple[int, str]] = []
    took: list[float] = []

    def stop() -> None:
        begin = time.monotonic()
        ended.append(server.terminate())
        took.append(time.monotonic() - begin)

    producers = [Producer(str(number)) for number in range(PRODUCERS)]

    async def scenario() -> None:
        async with grpc.aio.insecure_channel(server.address) as channel:
            idle: list[grpc.aio.Call] = []
            running = asyncio.gather(*(each.run(channel) for each in producers))
            await stand_still(channel, idle)
            while min(each.acked for each in producers) < 20:
                await asyncio.sleep(0.01)
            stopping = threading.Thread(target=stop)
            stopping.start()
            await running
            await asyncio.to_thread(stopping.join, 30)

    asyncio.run(scenario())
    assert ended == [(0, "")]
    assert took[0] < 10
    # grpc.aio reports INTERNAL for a write after the end (grpc/grpc#36066).
    ends = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL}
    assert {each.code for each in producers} <= ends
    core = open_core(SqliteStorage(disk / "streameval.db"), Limits())
    assert core.recovery.replayed == 0
    durable = [core.engine.marks.get(each.name) for each in producers]
    core.storage.close()
    again = start(*MODULE, "--data", str(disk))
    for each, mark in zip(producers, durable, strict=True):
        assert mark is not None
        assert mark.last_sequence >= each.acked >= 20
        assert counted(again.address, f"drained/{each.name}") == ROWS * mark.last_sequence
    assert again.terminate() == (0, "")
