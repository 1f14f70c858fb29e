"""Callers without a token cannot take the server's memory or time from others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from streameval.client import Client
from streameval_server import create_token
from streameval_server._grpc import open_requests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Process

pytestmark = pytest.mark.heavy

MIB = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
ACK, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4
SERVING = health_pb2.HealthCheckResponse.SERVING
CANCEL = struct.pack(">I", 8)


def frame(kind: int, flags: int = 0, stream: int = 0, content: bytes = b"") -> bytes:
    """Return a frame of HTTP/2."""
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def call_headers(path: str) -> bytes:
    """Return the headers of a call without a token, each a literal of HPACK."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "x",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(
        b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
        for name, value in fields.items()
    )


@pytest.fixture
def guarded(start: Callable[..., Process], tmp_path: Path) -> tuple[Process, str]:
    """Return a server with tokens, and a token."""
    tokens = tmp_path / "tokens.toml"
    token = create_token(tokens, "x", ["ingest", "query"])
    module = ("-m", "streameval_server", "--memory", "--listen", "127.0.0.1:0", "--http", "off")
    return start(*module, "--tokens", str(tokens)), token


def connected(stack: ExitStack, address: str) -> socket.socket:
    """Return a connection that has begun with HTTP/2."""
    host, _, port = address.rpartition(":")
    line = stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
    line.sendall(PREFACE + frame(SETTINGS))
    return line


def checked(address: str) -> int:
    """Return the status that a probe gets, on a connection of its own."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return stub.Check(health_pb2.HealthCheckRequest(), timeout=20).status


def push(address: str, token: str) -> None:
    """Send a case, and wait until it is durable."""
    with Client(address, token=token) as client:
        client.stream("a").add_case(True, 0.5)
        client.flush()
        assert client.statistics().acked == 1


class Unfinished:
    """A connection with calls whose requests never end, sent as fast as the server allows."""

    def __init__(self, path: str, calls: int) -> None:
        self.sent = 0
        self._path = path
        self._windows = dict.fromkeys(range(2 * calls), 65_535)
        self._left = dict.fromkeys(range(1, 2 * calls, 2), 7 * MIB)
        self._begun = struct.pack(">BI", 0, 7 * MIB + 1)

    async def run(self, address: str) -> None:
        """Send until the server grants no more for a second, or everything is sent."""
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(PREFACE + frame(SETTINGS) + frame(SETTINGS, ACK))
        for stream in self._left:
            writer.write(frame(HEADERS, END_HEADERS, stream, call_headers(self._path)))
            writer.write(frame(DATA, 0, stream, self._begun))
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            while self._left:
                for stream in list(self._left):
                    size = min(self._windows[0], self._windows[stream], self._left[stream], 16_384)
                    if size > 5:
                        writer.write(frame(DATA, 0, stream, b"x" * (size - 5)))
                        self._windows[0] -= size
                        self._windows[stream] -= size
                        self._left[stream] -= size
                        self.sent += size
                        if self._left[stream] <= 5:
                            del self._left[stream]
                await asyncio.wait_for(writer.drain(), 1)
                while not self._has_room():
                    await asyncio.wait_for(self._receive(reader, writer), 1)
        self.writer = writer

    def _has_room(self) -> bool:
        return self._windows[0] > 5 and (
            not self._left or any(self._windows[each] > 5 for each in self._left)
        )

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take what a frame grants."""
        head = await reader.readexactly(9)
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        content = await reader.readexactly(int.from_bytes(head[:3], "big"))
        if kind == WINDOW_UPDATE:
            self._windows[stream] += int.from_bytes(content, "big")
        elif kind == PING and not flags & ACK:
            writer.write(frame(PING, ACK, 0, content))
        elif kind == RST_STREAM:
            self._left.pop(stream, None)
        elif kind == SETTINGS:
            for at in range(0, len(content), 6):
                setting, value = struct.unpack_from(">HI", content, at)
                if setting == INITIAL_WINDOW_SIZE:
                    for each in range(1, len(self._windows)):
                        self._windows[each] += value - 65_535


@pytest.mark.parametrize(
    ("path", "connections", "calls"),
    [
        ("/streameval.v1.IngestService/IngestBatch", 10, 10),
        ("/grpc.health.v1.Health/Check", 10, 10),
        ("/grpc.health.v1.Health/Check", 24, 125),
    ],
    ids=["with a token", "open", "open and faster than they are accepted"],
)
def test_unfinished_requests(
    guarded: tuple[Process, str], path: str, connections: int, calls: int
) -> None:
    """100 calls of which 7 MiB would be received: 700 MiB without bounds; then 3,000."""
    server, token = guarded
    process = psutil.Process(server.popen.pid)
    before = process.memory_info().rss

    async def attack() -> int:
        attacks = [Unfinished(path, calls) for _ in range(connections)]
        await asyncio.gather(*(each.run(server.address) for each in attacks))
        resident = process.memory_info().rss - before
        assert await asyncio.to_thread(checked, server.address) == SERVING
        for each in attacks:
            each.writer.close()
        assert sum(each.sent for each in attacks) > connections * 65_535
        return resident

    assert asyncio.run(attack()) < 350 * MIB
    push(server.address, token)
    assert server.terminate()[0] == 0


def test_calls_that_are_cancelled_at_once(guarded: tuple[Process, str]) -> None:
    """20,000 on four connections; a producer and a probe are served meanwhile."""
    server, token = guarded
    path = call_headers("/streameval.v1.IngestService/IngestBatch")
    host, _, port = server.address.rpartition(":")

    async def cancel() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        reading = asyncio.ensure_future(reader.read())
        writer.write(PREFACE + frame(SETTINGS) + frame(SETTINGS, ACK))
        for first in range(1, 10_000, 200):
            for stream in range(first, first + 200, 2):
                writer.write(frame(HEADERS, END_HEADERS, stream, path))
                writer.write(frame(RST_STREAM, 0, stream, CANCEL))
            await writer.drain()
        writer.close()
        await reading

    async def serve() -> None:
        attack = asyncio.gather(*(cancel() for _ in range(4)))
        await asyncio.to_thread(push, server.address, token)
        assert await asyncio.to_thread(checked, server.address) == SERVING
        await asyncio.wait_for(attack, 60)

    asyncio.run(serve())
    push(server.address, token)
    assert server.terminate()[0] == 0


def test_a_probe_is_answered_beside_unfinished_ones(guarded: tuple[Process, str]) -> None:
    """The oldest unfinished request makes room, with a reason."""
    server, _ = guarded
    with ExitStack() as stack:
        line = connected(stack, server.address)
        for stream in range(1, 2 * open_requests.MAX_UNFINISHED + 21, 2):
            line.sendall(
                frame(HEADERS, END_HEADERS, stream, call_headers("/grpc.health.v1.Health/Check"))
                + frame(DATA, 0, stream, b"\x00\x00\x00\x00\x09x")
            )
        for _ in range(20):
            assert checked(server.address) == SERVING
        received = b""
        while b"REQUEST_SLOW" not in received and b"without a token" not in received:
            piece = line.recv(65_536)
            assert piece
            received += piece
    assert server.terminate()[0] == 0
