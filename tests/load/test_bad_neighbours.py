"""Clients that read slowly or never, or send incomplete data, do not affect other clients."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc
import pytest

from streameval.client import Client
from streameval.v1 import ingest_pb2, ingest_pb2_grpc, query_pb2, query_pb2_grpc, types_pb2
from streameval_server import Limits, Settings
from streameval_server._grpc import server as grpc_server
from streameval_server._model import connections
from streameval_server.testing import running_server

from .conftest import batch, counted, resident_while, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .conftest import Process

pytestmark = pytest.mark.heavy

MODULE = ("-m", "streameval_server", "--listen", "127.0.0.1:0", "--http", "off")
MIB = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
HALF_A_FRAME = b"\x00\x40\x00\x00\x00\x00\x00\x00\x01" + b"x" * 100
"""A DATA frame of 16 KiB of which only 100 bytes are sent."""


def test_stalled_readers_of_watch(start: Callable[..., Process], disk: Path) -> None:
    """100 readers never read, and one does: it sees the last revision, and memory stays flat."""
    server = start(*MODULE, "--data", str(disk))
    request = query_pb2.WatchSnapshotRequest(selection=types_pb2.Selection(stream="watched"))
    request.min_interval.FromMilliseconds(100)
    rounds = 300

    async def scenario(channel: grpc.aio.Channel) -> None:
        stub = query_pb2_grpc.QueryServiceStub(channel)
        ingest = ingest_pb2_grpc.IngestServiceStub(channel)
        last = 0

        async def add(number: int) -> None:
            nonlocal last
            one = batch("watched", number, rows=20)
            last = (await ingest.IngestBatch(ingest_pb2.IngestBatchRequest(batch=one))).revision

        await add(0)
        still = [stub.WatchSnapshot(request) for _ in range(100)]
        await asyncio.gather(*(call.initial_metadata() for call in still))
        reader = stub.WatchSnapshot(request)
        seen = (await reader.read()).snapshot.revision
        for number in range(1, rounds):
            await add(number)
        while seen < last:
            seen = (await asyncio.wait_for(reader.read(), 30)).snapshot.revision
        for call in (*still, reader):
            call.cancel()

    async def measured() -> list[int]:
        async with grpc.aio.insecure_channel(server.address) as channel:
            work = asyncio.ensure_future(scenario(channel))
            return await resident_while(server.popen.pid, work)

    memory = asyncio.run(measured())
    assert memory[-1] - memory[len(memory) // 4] < 16 * MIB
    assert counted(server.address, "watched") == 20 * rounds
    assert server.terminate() == (0, "")


def test_a_client_that_never_reads_its_acks(start: Callable[..., Process], disk: Path) -> None:
    """Its batches are counted, other clients are acked meanwhile, and the server does not wait."""
    server = start(*MODULE, "--data", str(disk))
    count = 3_000

    async def deaf(channel: grpc.aio.Channel) -> None:
        call = ingest_pb2_grpc.IngestServiceStub(channel).Ingest()
        opened = ingest_pb2.Open(producer="deaf", epoch=1)
        await call.write(ingest_pb2.IngestRequest(open=opened))
        one = batch("deaf", 0, rows=100)
        for sequence in range(1, count + 1):
            one.sequence = sequence
            await call.write(ingest_pb2.IngestRequest(batch=one))

    async def measured() -> list[int]:
        async with grpc.aio.insecure_channel(server.address) as channel:
            work = asyncio.ensure_future(deaf(channel))
            memory = await resident_while(server.popen.pid, work)
            with Client(server.address) as client:
                client.stream("other").add_case(True, 0.5)
                revision = await asyncio.to_thread(client.flush)
            assert counted(server.address, "other", revision) == 1
            await asyncio.to_thread(until, lambda: counted(server.address, "deaf") == 100 * count)
            return memory

    memory = asyncio.run(measured())
    assert max(memory) - memory[0] < 64 * MIB
    assert server.terminate() == (0, "")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a server that soon closes silent connections."""
    for name in ("_HANDSHAKE_MS", "_PING_AFTER_MS", "_PING_TIMEOUT_MS"):
        monkeypatch.setattr(grpc_server, name, 1_000)
    settings = Settings(listen="127.0.0.1:0", http="off", memory=True, limits=Limits())
    with running_server(settings) as address:
        yield address


def is_closed(line: socket.socket) -> bool:
    """Return whether the other side has closed a connection; received bytes are dropped."""
    try:
        while line.recv(65_536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    return True


@pytest.mark.parametrize(
    "said",
    [b"", PREFACE[:10], PREFACE, PREFACE + SETTINGS[:5], PREFACE + SETTINGS + HALF_A_FRAME],
    ids=["nothing", "half a preface", "no settings", "half of them", "half a frame"],
)
def test_half_open_connections(hasty: str, said: bytes) -> None:
    """100 connections stop in mid-request: others are served, and these are closed later."""
    host, _, port = hasty.rpartition(":")
    with ExitStack() as stack:
        lines = [socket.create_connection((host, int(port)), timeout=10) for _ in range(100)]
        for line in lines:
            stack.enter_context(line)
            line.sendall(said)
            line.settimeout(0.01)
        with Client(hasty) as client:
            client.stream("served").add_case(True, 0.5)
            revision = client.flush(timeout_s=20)
        assert counted(hasty, "served", revision) > 0
        deadline = time.monotonic() + 30
        while open_lines := [line for line in lines if not is_closed(line)]:
            assert time.monotonic() < deadline, f"{len(open_lines)} are still open"
            lines = open_lines


MAX_CONCURRENT_STREAMS = 3
"""The number of the setting in HTTP/2."""


def first_settings(line: socket.socket) -> dict[int, int]:
    """Return the settings of the frame that a server begins with; empty when it closes."""
    try:
        line.sendall(PREFACE + SETTINGS)
        head = line.recv(9, socket.MSG_WAITALL)
        content = line.recv(int.from_bytes(head[:3], "big"), socket.MSG_WAITALL)
    except ConnectionError:
        return {}
    return dict(struct.iter_unpack(">HI", content))


def test_connections_and_their_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One above the limit is closed, the others stay, and one that ends makes room."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    settings = Settings(listen="127.0.0.1:0", http="off", memory=True)
    with running_server(settings) as address, ExitStack() as stack:
        host, _, port = address.rpartition(":")

        def connected() -> socket.socket:
            line = socket.create_connection((host, int(port)), timeout=20)
            return stack.enter_context(line)

        lines = [connected() for _ in range(3)]
        for line in lines:
            assert first_settings(line)[MAX_CONCURRENT_STREAMS] == 128
        assert first_settings(connected()) == {}
        lines[0].close()
        until(lambda: first_settings(connected()).get(MAX_CONCURRENT_STREAMS) == 128)
        for line in lines[1:]:
            line.settimeout(0.01)
            assert not is_closed(line)
