"""The number of HTTP connections is bounded; strangers cannot keep others, or probes, out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from contextlib import ExitStack

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from streameval_server._web import connection_limits

from .conftest import events, reason, site

WATCH = "/v1/streams/{}:watch"


def test_too_many_at_once_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of connections is bounded; existing ones continue."""
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 3)
    with site() as one:
        one.show("a", "+")
        with (
            one.http.stream("GET", WATCH.format("a")) as first,
            one.http.stream("GET", WATCH.format("a")) as second,
        ):
            assert (first.status_code, second.status_code) == (200, 200)
            with one.http.stream("GET", WATCH.format("a")) as third:
                assert third.status_code == 200
                told = httpx.get(f"{one.addresses.http}/v1/streams")
                assert (told.status_code, reason(told)) == (503, "CONNECTIONS_FULL")
                assert "retry-after" in told.headers
                for probe in ("/healthz", "/readyz"):
                    assert httpx.get(f"{one.addresses.http}{probe}").status_code == 200
        deadline = time.monotonic() + 20
        while httpx.get(f"{one.addresses.http}/v1/streams").status_code != 200:
            assert time.monotonic() < deadline


def test_silent_connections_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest one is closed for each new one, so others and probes are served at once."""
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 20)
    with site() as one, ExitStack() as stack:
        url = one.http.base_url
        one.show("a", "+")
        with one.http.stream("GET", WATCH.format("a")) as watched:
            silent = []
            for _ in range(60):
                silent.append(socket.create_connection((url.host, url.port), 10))
                stack.enter_context(silent[-1])
                silent[-1].sendall(b"GET /healthz HT")
            for path in ("/healthz", "/readyz", "/v1/streams", "/"):
                assert httpx.get(f"{one.addresses.http}{path}").status_code == 200
            for line in silent[:40]:
                line.settimeout(20)
                with contextlib.suppress(ConnectionResetError):
                    assert line.recv(1) == b""
            # A request that is in progress is not closed.
            one.show("a", "+")
            assert next(events(watched))


def test_the_address_with_the_most_connections_makes_room() -> None:
    """An address that has few connections keeps them, also older ones."""
    state = ServerState()
    config = uvicorn.Config(lambda *_: None, lifespan="off")
    loop = asyncio.new_event_loop()
    made = []
    for number in range(connection_limits.MAX_CONNECTIONS + 5):
        address = "10.0.0.1" if number < 3 else "10.0.0.2"
        line = connection_limits.LimitedProtocol(config, state, {}, loop)
        line.connection_made(Transport(address))
        made.append(line)
    loop.close()
    aborted = [number for number, line in enumerate(made) if line.transport.is_closing()]
    assert aborted == [3, 4, 5, 6, 7]


class Transport(asyncio.Transport):
    """The transport of a connection from an address; not connected."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1)})
        self._closing = False

    def is_closing(self) -> bool:
        return self._closing

    def abort(self) -> None:
        self._closing = True
