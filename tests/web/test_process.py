"""HTTP in a server's process: own port, common stop, same certificates."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
import trustme

from streameval_server import Settings, SettingsError
from streameval_server._runtime.runtime import Runtime
from streameval_server.testing import running_service

from .conftest import Event, events, reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Process:
    """A server's process, with the addresses that it printed; it logs warnings by default."""

    def __init__(self, *arguments: str) -> None:
        command = (sys.executable, "-m", "streameval_server", "--listen", "127.0.0.1:0")
        self.popen = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"STREAMEVAL_LOG_LEVEL": "warning", **os.environ},
        )
        assert self.popen.stdout is not None
        self.grpc = self.popen.stdout.readline().split()[-1]
        self.http = self.popen.stdout.readline().split()[-1].rstrip("/")

    def ended(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and stderr."""
        _, errors = self.popen.communicate(timeout=30)
        return self.popen.returncode, errors


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """Return a server with data on disk."""
    made = Process("--data", str(tmp_path / "data"))
    yield made
    if made.popen.poll() is None:
        made.popen.kill()
        made.popen.communicate(timeout=30)


def batch(size: int = 1) -> dict:
    """Return a batch of positives."""
    return {"batch": {"cases": {"scores": [0.5] * size, "positives": [True] * size}}}


def visible(sent: httpx.Response) -> dict[str, str]:
    """Return parameters of a query that waits for the sent batch."""
    return {"selection.minRevision": sent.json()["revision"]}


def test_a_counter_is_one_series(process: Process) -> None:
    """Without the second one of when it was made."""
    with httpx.Client(base_url=process.http, timeout=20) as http:
        http.get("/v1/streams").raise_for_status()
        series = http.get("/metrics").text
    assert "streameval_http_requests_total{" in series
    assert "_created" not in series


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_http_and_grpc_in_order(process: Process, number: int) -> None:
    """Watches end, acked rows are in a checkpoint, the exit code is 0 and stderr is empty."""
    acked = 0
    refused: list[int] = []
    with httpx.Client(base_url=process.http, timeout=20) as http:
        sent = http.post("/v1/streams/a:ingest", json=batch()).raise_for_status()
        acked = 1
        with http.stream("GET", "/v1/streams/a:watch", params=visible(sent)) as answer:
            coming = events(answer)
            assert isinstance(next(coming), Event)
            going = threading.Event()

            def push() -> None:
                nonlocal acked
                with httpx.Client(base_url=process.http, timeout=20) as sender:
                    while True:
                        try:
                            sent = sender.post("/v1/streams/a:ingest", json=batch())
                        except httpx.TransportError:
                            return  # it no longer listens
                        if sent.status_code != 200:
                            refused.append(sent.status_code)
                            return
                        acked += 1
                        if acked == 20:
                            going.set()

            pushing = threading.Thread(target=push)
            pushing.start()
            assert going.wait(20)
            process.popen.send_signal(number)
            last = [each for each in coming if isinstance(each, Event)][-1]
            assert (last.name, last.data["code"]) == ("error", 14)
            pushing.join(20)
    assert process.ended() == (0, "")
    assert set(refused) <= {503}
    data = process.popen.args[-1]
    again = Process("--data", data)
    try:
        found = httpx.get(f"{again.http}/v1/streams/a:snapshot").json()["snapshot"]
        # One more batch may have been accepted whose answer was lost.
        assert int(found["numPositiveRef"]) - acked in {0, 1}
        status = httpx.get(f"{again.http}/v1/server").json()
        assert status["checkpointRevision"] == status["durableRevision"]
    finally:
        again.popen.terminate()
        assert again.ended() == (0, "")


def test_a_request_that_outlasts_the_grace_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets the error of a server that stops, and no traceback is logged."""
    begun = threading.Event()

    async def endless(*_: object, **_named: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Runtime, "answer", endless)
    settings = Settings(listen="127.0.0.1:0", memory=True, stop_grace="0.1s")
    with ThreadPoolExecutor(1) as pool:
        with running_service(settings) as addresses:
            asked = pool.submit(httpx.get, f"{addresses.http}/v1/streams/a:snapshot", timeout=20)
            assert begun.wait(20)
        answer = asked.result()
    assert (answer.status_code, reason(answer)) == (503, "SERVER_STOPPING")
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []


def test_http_can_be_off() -> None:
    """Then no page is announced, and no port is used."""
    with running_service(Settings(listen="127.0.0.1:0", http="off", memory=True)) as addresses:
        assert addresses.http is None


def test_addresses_that_cannot_be_had(tmp_path: Path) -> None:
    """In use, not HOST:PORT, or not loopback: refused before anything starts."""
    with running_service() as addresses:
        taken = addresses.http.removeprefix("http://")
        data = tmp_path / "data"
        settings = Settings(listen="127.0.0.1:0", http=taken, data=data)
        with pytest.raises(SettingsError, match=f"cannot serve HTTP on {taken}: Address already"):
            running_service(settings).__enter__()
        assert not data.exists()
    with pytest.raises(SettingsError, match="http must be HOST:PORT, for instance"):
        Settings(http="8080")
    with pytest.raises(SettingsError, match=r"refusing to listen on 0\.0\.0\.0"):
        Settings(http="0.0.0.0:8080")
    assert Settings(http="0.0.0.0:8080", insecure=True).http_address() == "0.0.0.0:8080"
    assert Settings().http_address() == "127.0.0.1:8080"
    assert Settings(listen="[::1]:5").http_address() == "[::1]:8080"
    assert Settings(listen="127.0.0.1:0").http_address() == "127.0.0.1:0"


def test_a_grpc_port_that_is_taken_ends_the_process_in_words() -> None:
    """HTTP stops with the server."""
    with running_service() as addresses:
        command = (sys.executable, "-m", "streameval_server", "--memory", "--http", "127.0.0.1:0")
        done = subprocess.run(
            [*command, "--listen", addresses.grpc],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"streameval_server: cannot listen on {addresses.grpc}: ")
    assert "Traceback" not in done.stderr


# --- TLS --------------------------------------------------------------------------------------


class Files:
    """The certificates of a test authority."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificate, self.key = directory / "server.pem", directory / "server.key"
        self.clients = directory / "clients.pem"
        self.ca = trustme.CA()
        self.renew(self.ca)
        self.ca.cert_pem.write_to_path(self.clients)

    def renew(self, ca: trustme.CA) -> None:
        """Give the server another certificate."""
        leaf = ca.issue_cert("localhost", "127.0.0.1")
        leaf.private_key_pem.write_to_path(self.key)
        leaf.cert_chain_pems[0].write_to_path(self.certificate)

    def client(self, ca: trustme.CA, trusts: trustme.CA) -> ssl.SSLContext:
        """Return a client's SSL context."""
        context = ssl.create_default_context()
        trusts.configure_trust(context)
        ca.issue_cert("client").configure_cert(context)
        return context


def answered(url: str, context: ssl.SSLContext) -> int | str:
    """Return the status of an answer on a new connection, or the error."""
    try:
        return httpx.get(f"{url}/healthz", verify=context, timeout=20).status_code
    except httpx.TransportError as error:
        return str(error)


def test_tls_with_clients_certificates_that_change(tmp_path: Path) -> None:
    """The same files as gRPC, read again for the next handshake: the server's and the clients'."""
    files, other = Files(tmp_path), trustme.CA()
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        tls_certificate=files.certificate,
        tls_key=files.key,
        tls_client_ca=files.clients,
    )
    with running_service(settings) as addresses:
        url = addresses.http
        assert url.startswith("https://")
        assert answered(url, files.client(files.ca, trusts=files.ca)) == 200
        assert answered(url, files.client(other, trusts=files.ca)) != 200
        untrusted = ssl.create_default_context()
        files.ca.configure_trust(untrusted)
        assert answered(url, untrusted) != 200
        # New clients are accepted, the old ones are not.
        other.cert_pem.write_to_path(files.clients)
        assert answered(url, files.client(other, trusts=files.ca)) == 200
        assert answered(url, files.client(files.ca, trusts=files.ca)) != 200
        # The server's certificate is now of another authority.
        files.renew(other)
        assert answered(url, files.client(other, trusts=other)) == 200
        assert "CERTIFICATE_VERIFY_FAILED" in answered(url, files.client(other, trusts=files.ca))
        # Files that do not fit together change nothing.
        files.key.write_text("half of a file")
        assert answered(url, files.client(other, trusts=other)) == 200


def test_the_log_of_http_is_the_servers() -> None:
    """One object per line, for any request; without requests' content or invalid requests."""
    server = Process("--memory", "--log-format", "json", "--log-level", "debug")
    sent = httpx.post(f"{server.http}/v1/streams/secret/name:ingest", json=batch())
    url = f"{server.http}/v1/streams/secret/name:watch"
    with httpx.stream("GET", url, params=visible(sent)) as answer:
        next(events(answer))
    httpx.get(f"{server.http}/v1/streams/no/such:snapshot?level=0.123456")
    import socket

    host, port = server.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as raw:
        raw.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        raw.settimeout(10)
        assert raw.recv(100).startswith(b"HTTP/1.1 400 ")
    server.popen.terminate()
    code, said = server.ended()
    assert code == 0
    entries = [json.loads(line) for line in said.splitlines()]
    methods = [
        (entry["method"].rpartition("/")[2], entry["code"])
        for entry in entries
        if "method" in entry
    ]
    assert sorted(methods) == [
        ("GetSnapshot", "NOT_FOUND"),
        ("IngestBatch", "OK"),
        ("WatchSnapshot", "CANCELLED"),
    ]
    assert "secret" not in said
    assert "0.123456" not in said
