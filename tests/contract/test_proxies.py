"""Clients behind nginx, HAProxy and Caddy: as docs/proxies.md sets them up, and as they come."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest
from google.protobuf import duration_pb2

from streameval import Evaluator
from streameval.client import AsyncClient, Client, DeadlineError, UnavailableError, _stream_verbs
from streameval.v1 import query_pb2, query_pb2_grpc, types_pb2
from streameval_server._runtime import watch
from streameval_server.testing import running_service

from ..pages import codes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval_server import Addresses

PAGE = Path(__file__).parents[2] / "docs" / "proxies.md"
PAGE_SERVER = "127.0.0.1:50051"
START = {
    "nginx": ("127.0.0.1:50052", "nginx", ("-p", "{folder}", "-c", "{config}")),
    "haproxy": ("127.0.0.1:50053", "haproxy", ("-db", "-f", "{config}")),
    "caddyfile": (
        "127.0.0.1:50054",
        "caddy",
        ("run", "--adapter", "caddyfile", "--config", "{config}"),
    ),
}
NGINX = """daemon off; master_process off; error_log error.log; pid pid; events {{}}
http {{ access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c;
uwsgi_temp_path d; scgi_temp_path e; {} }}"""
CADDY = """{{
    admin off
    auto_https off
    servers {{
        protocols h1 h2 h2c
    }}
}}
{}"""
WRAP = {"nginx": NGINX, "haproxy": "{}", "caddyfile": CADDY}

Proxy = "Callable[[str, str], str]"


def page(kind: str) -> str:
    """Return the page's configuration of a proxy."""
    (code,) = codes(PAGE.read_text(), kind)
    return code


def accepts(address: str) -> bool:
    """Whether something listens."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


@pytest.fixture
def served() -> Iterator[Addresses]:
    """Return the addresses of a server with its page."""
    with running_service() as addresses:
        yield addresses


@pytest.fixture
def proxy(
    served: Addresses,
    tmp_path: Path,
    free_port: Callable[[], int],
    require_command: Callable[[str], str],
) -> Iterator[Proxy]:
    """Return a function that starts a proxy with a configuration, and returns its address."""
    with contextlib.ExitStack() as running:

        def start(kind: str, config: str) -> str:
            listens, command, arguments = START[kind]
            address = f"127.0.0.1:{free_port()}"
            config = config.replace(listens, address).replace(PAGE_SERVER, served.grpc)
            file = tmp_path / "config"
            file.write_text(WRAP[kind].format(config))
            names = {"folder": str(tmp_path), "config": str(file)}
            process = subprocess.Popen(
                [require_command(command), *(each.format(**names) for each in arguments)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/sbin:/usr/bin:/bin", "HOME": str(tmp_path)},
            )
            running.callback(process.wait)
            running.callback(process.kill)
            while not accepts(address):
                assert process.poll() is None, f"{command} has ended"
            return address

        yield start


def log_cases(client: Client, rows: int) -> int:
    """Send predictions with ids of 100 bytes; return how many are durable."""
    stream = client.stream("a")
    stream.log_cases(ids=[f"{i:06}" + "x" * 94 for i in range(rows)], scores=[0.5] * rows)
    stream.flush(timeout_s=60)
    return client.statistics().acked


@pytest.mark.parametrize("kind", START)
def test_the_pages_proxies_pass_everything(proxy: Proxy, kind: str) -> None:
    """Rows on one call, a large state, and a watch."""
    with Client(proxy(kind, page(kind))) as client:
        assert log_cases(client, 40_000) == 40_000
        assert client.statistics().connections == 1
        state = Evaluator()
        scores = np.random.default_rng(1).random(200_000)
        state.add_cases(labels=np.arange(200_000) % 2, scores=scores)
        assert len(state.to_bytes()) > 1 << 20
        stream = client.stream("m")
        stream.merge(state, source="x", epoch=1)
        watching = stream.watch()
        assert next(watching).num_cases == 200_000
        stream.add_case(True, 0.5)
        stream.flush()
        assert next(watching).num_cases == 200_001


@pytest.mark.parametrize("limit", ["", "client_max_body_size 100k;"], ids=["1 MiB", "100 KiB"])
def test_no_row_is_lost_behind_a_proxy_with_a_limit(proxy: Proxy, limit: str) -> None:
    """It counts all bytes of a call, and cuts without a reason."""
    config = page("nginx").replace("client_max_body_size 0;", limit)
    with Client(proxy("nginx", config), batch_rows=16_000) as client:
        assert log_cases(client, 16_000) == 16_000
        statistics = client.statistics()
        assert (statistics.refused, statistics.dropped) == (0, 0)
        assert statistics.connections > 1
        client.stream("a").snapshot(metrics=["prevalence"])  # waits for the rows
        counters = client.get_stream("a").counters
        assert (counters.kept_ids, counters.duplicate_predictions) == (16_000, 0)


IDLE = {
    "nginx": ("grpc_read_timeout 1h;", "grpc_read_timeout 1s;"),
    "haproxy": ("timeout server 1h", "timeout server 1s"),
}


@pytest.mark.parametrize("kind", IDLE)
def test_heartbeats_keep_a_quiet_watch(
    proxy: Proxy, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty answers for twice the time after which the proxy ends a silent call."""
    monkeypatch.setattr(watch, "MIN_HEARTBEAT_S", 0.1)
    monkeypatch.setattr(_stream_verbs, "_HEARTBEAT_MS", 200)
    address = proxy(kind, page(kind).replace(*IDLE[kind]))
    with Client(address) as client, grpc.insecure_channel(address) as channel:
        stream = client.stream("a")
        stream.add_case(True, 0.9)
        stream.flush()
        watching = stream.watch()
        assert next(watching).num_cases == 1
        request = query_pb2.WatchSnapshotRequest(
            selection=types_pb2.Selection(stream="a"),
            heartbeat=duration_pb2.Duration(nanos=200_000_000),
        )
        answers = query_pb2_grpc.QueryServiceStub(channel).WatchSnapshot(request, timeout=30)
        assert next(answers).snapshot.num_cases == 1
        assert [next(answers).ByteSize() for _ in range(10)] == [0] * 10
        stream.add_case(True, 0.8)
        stream.flush()
        assert next(watching).num_cases == 2


@pytest.mark.parametrize("kind", IDLE)
def test_a_quiet_watch_that_is_cut_is_unavailable(
    proxy: Proxy, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without heartbeats: a watch of one kind of client, then of the other."""
    monkeypatch.setattr(_stream_verbs, "_HEARTBEAT_MS", 0)
    address = proxy(kind, page(kind).replace(*IDLE[kind]))
    with Client(address) as client:
        stream = client.stream("a")
        stream.add_case(True, 0.9)
        stream.flush()
        watching = stream.watch()
        next(watching)
        with pytest.raises(UnavailableError, match=r"docs/proxies\.md") as caught:
            next(watching)
        assert caught.value.reason == "CONNECTION_CUT"

    async def watch_one() -> None:
        async with AsyncClient(address) as client:
            async for _ in client.stream("a").watch():
                pass

    with pytest.raises(UnavailableError, match=r"docs/proxies\.md"):
        asyncio.run(watch_one())


BUFFERING = """server {{
    listen 127.0.0.1:50052 http2;
    location / {{ proxy_pass {}; }}
}}"""


def test_a_call_that_is_not_answered_says_so(proxy: Proxy, served: Addresses) -> None:
    """A proxy that passes HTTP/1 on waits for the end of the request, which never comes."""
    address = proxy("nginx", BUFFERING.format(served.http))
    client = Client(address, timeout_s=0.5)
    stream = client.stream("a")
    stream.add_case(True, 0.9)
    with pytest.raises(DeadlineError, match=r"not answered within .*docs/proxies\.md"):
        stream.flush(timeout_s=0.2)
    deadline = time.monotonic() + 30
    while "not answered within 0.5 s" not in (client.statistics().last_error or ""):
        assert time.monotonic() < deadline
    with pytest.raises(DeadlineError):
        client.close(timeout_s=0)

    async def flush() -> None:
        client = AsyncClient(address, timeout_s=0.5)
        client.stream("a").add_case(True, 0.9)
        try:
            await client.flush(timeout_s=3)
        finally:
            with contextlib.suppress(DeadlineError):
                await client.close(timeout_s=0)

    with pytest.raises(DeadlineError, match=r"not answered within 0\.5 s"):
        asyncio.run(flush())
