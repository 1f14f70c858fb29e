"""A client may ping every 10 s, the least that gRPC for Go and Java allow, whether idle or not."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc._cython import cygrpc

from streameval.client._wire.transport import _OPTIONS
from streameval_server import Server, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, GOAWAY = 4, 6, 7
ACK = 1


def test_pings_are_allowed_well_below_10_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10 s exactly, two of three pings come early by jitter, and the client is sent away."""
    given: dict[str, object] = {}
    make = grpc.aio.server

    def record(*, options: Sequence[tuple[str, object]], **others: object) -> grpc.aio.Server:
        given.update(options)
        return make(options=options, **others)

    async def serve() -> None:
        server = Server(Settings(listen="127.0.0.1:0", memory=True))
        await server.start()
        await server.stop()

    monkeypatch.setattr(grpc.aio, "server", record)
    asyncio.run(serve())
    assert given["grpc.http2.min_ping_interval_without_data_ms"] <= 5_000
    assert given["grpc.keepalive_permit_without_calls"] == 1
    # gRPC ignores an option whose name it does not know.
    library = Path(cygrpc.__file__).read_bytes()
    names = {*given, *(name for name, _ in _OPTIONS)}
    assert [name for name in names if name.encode() not in library] == []


def frames(received: bytes) -> list[tuple[int, int]]:
    """Return the kind and flags of each whole frame."""
    found, at = [], 0
    while at + 9 <= len(received):
        found.append((received[at + 3], received[at + 4]))
        at += 9 + int.from_bytes(received[at : at + 3], "big")
    return found


@pytest.mark.heavy
@pytest.mark.timeout(120)
def test_an_idle_connection_with_pings_stays(address: str) -> None:
    """Five pings, each 5.5 s after the one before: the fourth was answered with GOAWAY."""
    host, _, port = address.rpartition(":")
    ping = struct.pack(">I", 8)[1:] + struct.pack(">BBI", PING, 0, 0) + bytes(8)
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(PREFACE + bytes(3) + struct.pack(">BBI", SETTINGS, 0, 0))
        line.sendall(bytes(3) + struct.pack(">BBI", SETTINGS, ACK, 0))
        received = b""
        for number in range(1, 6):
            line.sendall(ping)
            while frames(received).count((PING, ACK)) < number:
                piece = line.recv(65_536)
                assert piece, "the server has closed the connection"
                received += piece
            time.sleep(5.5)
    assert GOAWAY not in {kind for kind, _ in frames(received)}
