"""The number of HTTP connections is bounded; strangers cannot keep others, or probes, out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx
import pytest
import trustme
import uvicorn
from uvicorn.server import ServerState

from streameval_server._model import connections
from streameval_server._web.connection_limits import LimitedProtocol

from .conftest import events, reason, site

if TYPE_CHECKING:
    from pathlib import Path

WATCH = "/v1/streams/{}:watch"


def test_too_many_at_once_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of connections is bounded; existing ones continue."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
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
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 20)
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


@pytest.mark.skipif(sys.platform == "win32", reason="limits open files")
@pytest.mark.parametrize("port", ["http", "grpc", "both"])
def test_probes_are_answered_where_the_system_allows_few_files(tmp_path: Path, port: str) -> None:
    """With 256 descriptors and 500 connections; the server says how many it serves."""
    allowed = 256
    command = [sys.executable, "-m", "streameval_server", "--data", str(tmp_path / "data")]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            ["sh", "-c", f'ulimit -n {allowed}; exec "$@"', "sh", *command],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
        ExitStack() as stack,
    ):
        assert server.stdout is not None
        grpc_url, http_url = (server.stdout.readline().split()[-1] for _ in range(2))
        http = httpx.URL(http_url)
        host, _, grpc_port = grpc_url.rpartition(":")
        ports = {"http": [http.port], "grpc": [int(grpc_port)]}
        try:
            for number in range(500):
                chosen = ports.get(port) or [*ports["http"], *ports["grpc"]]
                line = stack.enter_context(socket.socket())
                line.setblocking(False)  # where the queue is full, it is tried again later
                line.connect_ex((host, chosen[number % len(chosen)]))
            for path in ("healthz", "readyz", "readyz"):
                assert httpx.get(f"{http_url}{path}", timeout=20).status_code == 200
        finally:
            server.terminate()
        assert server.wait(60) == 0
    text = (tmp_path / "log").read_text()
    assert "the system allows few open files, so each port serves 70 connections" in text


@pytest.mark.skipif(sys.platform == "win32", reason="limits open files")
@pytest.mark.parametrize(
    "sent", [None, b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"]
)
def test_connections_of_tls_count_from_their_first_byte_to_their_last(
    tmp_path: Path, sent: bytes | None
) -> None:
    """Those that never begin a handshake make room, and those that never agree to the end."""
    authority, pem = trustme.CA(), tmp_path / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    verify = ssl.create_default_context()
    authority.configure_trust(verify)
    command = [sys.executable, "-m", "streameval_server", "--data", str(tmp_path / "data")]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["--tls-certificate", str(pem), "--tls-key", str(pem)]
    with (
        subprocess.Popen(
            ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server,
        ExitStack() as stack,
    ):
        assert server.stdout is not None
        url = httpx.URL([server.stdout.readline().split()[-1] for _ in range(2)][1])
        try:
            for _ in range(300):
                try:
                    line = socket.create_connection((url.host, url.port), 5)
                    if sent is not None:
                        line = verify.wrap_socket(line, server_hostname=url.host)
                        line.sendall(sent)
                    stack.enter_context(line)
                except OSError:  # the server took no more
                    break
            for path in ("healthz", "readyz", "readyz"):
                answer = httpx.get(url.join(path), timeout=20, verify=verify)
                assert answer.status_code == 200
        finally:
            server.terminate()
        assert server.wait(60) == 0


@pytest.mark.parametrize("http_ports", [0, 1, 2])
@pytest.mark.parametrize("allowed", [256, 300, 512, 1_024, 2_048, 4_096, 65_536])
def test_all_limits_together_fit_into_the_open_files(allowed: int, http_ports: int) -> None:
    """With the log's files, the connections that wait, and those for probes."""
    found = connections.limits_within(allowed, http_ports)
    taken = found.connections + http_ports * (found.connections + found.probes + found.backlog)
    assert taken + 64 <= allowed or found == connections.ConnectionLimits()
    assert found.connections >= allowed // 8 or found.connections == connections.MAX_CONNECTIONS


def test_the_address_with_the_most_connections_makes_room() -> None:
    """An address that has few connections keeps them, also older ones."""
    state = ServerState()
    config = uvicorn.Config(lambda *_: None, lifespan="off")
    loop = asyncio.new_event_loop()
    made = []
    limits = connections.ConnectionLimits(10)
    for number in range(limits.connections + 5):
        address = "10.0.0.1" if number < 3 else "10.0.0.2"
        line = LimitedProtocol(config, state, {}, loop, limits=limits)
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
