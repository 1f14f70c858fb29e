"""The server as a process: graceful stops, one server per directory, loopback by default."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import trustme

from streameval.client import Client
from streameval_server import Limits, Settings
from streameval_server._core.recovery import open_core
from streameval_server._log.sqlite import SqliteStorage

from .test_kill import Load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Process

MODULE = ("-m", "streameval_server", "--listen", "127.0.0.1:0")


@pytest.fixture
def start(start_python: Callable[..., Process]) -> Callable[..., Process]:
    """Return a function that starts ``python``: here a server is no fork."""
    return start_python


def test_sigterm_under_load(start: Callable[..., Process], disk: Path) -> None:
    """Exit code 0 and no output; acked rows are in a checkpoint, and nothing is replayed."""
    ended: list[tuple[int, str]] = []
    server = start(*MODULE, "--data", str(disk))
    load = Load()
    load.run(server.address, 300, lambda: ended.append(server.terminate()))
    assert ended == [(0, "")]
    assert not load.problems
    core = open_core(SqliteStorage(disk / "streameval.db"), Limits())
    assert core.recovery.replayed == 0
    assert core.recovery.checkpoint_revision == core.recovery.revision >= load.revision > 0
    core.storage.close()
    load.check(start(*MODULE, "--data", str(disk)).address)


def test_two_servers_cannot_share_a_directory(start: Callable[..., Process], disk: Path) -> None:
    """The second says why it does not start; the first keeps serving."""
    first = start(*MODULE, "--data", str(disk))
    code, errors = start(*MODULE, "--data", str(disk)).ended()
    assert code == 1
    assert errors == (
        f"streameval_server: {disk} is in use by another server (process {first.popen.pid}): "
        "stop it, or give this one a directory of its own with --data\n"
    )
    with Client(first.address) as client:
        client.stream("a").add_case(True, 0.5)
        assert client.flush() == 2  # after the entry of the client's start
    assert first.terminate() == (0, "")
    # A killed server leaves no lock behind.
    start(*MODULE, "--data", str(disk)).kill()
    assert start(*MODULE, "--data", str(disk)).terminate() == (0, "")


def test_other_machines_are_let_in_only_when_told(start: Callable[..., Process]) -> None:
    """Listening for other machines without encryption needs --insecure."""
    command = ("-m", "streameval_server", "--listen", "0.0.0.0:0", "--memory")
    code, errors = start(*command).ended()
    assert code == 1
    assert errors.startswith("streameval_server: refusing to listen on 0.0.0.0: other machines")
    server = start(*command, "--insecure")
    assert server.address.startswith("0.0.0.0:")
    code, said = server.terminate()
    assert code == 0
    assert [line.partition("this machine ")[2] for line in said.splitlines()] == [
        "without TLS: its traffic can be read",
        "without tokens: any client may do anything",
    ]


def test_the_log_of_a_process_is_one_object_a_line(start: Callable[..., Process]) -> None:
    """From every package, at the lowest level, from the start to the stop."""
    server = start(*MODULE, "--memory", "--log-format", "json", "--log-level", "debug")
    with Client(server.address) as client:
        client.stream("a").add_case(True, 0.5)
        client.flush()
    code, said = server.terminate()
    assert code == 0
    entries = [json.loads(line) for line in said.splitlines()]
    assert {"streameval_server._runtime.runtime", "streameval_server.calls"} <= {
        entry["logger"] for entry in entries
    }
    methods = [entry["method"] for entry in entries if "method" in entry]
    assert methods == ["streameval.v1.IngestService/Ingest"]


def test_start_and_stop_are_in_the_log(start: Callable[..., Process], disk: Path) -> None:
    """At the default level: what was restored, how long it took, where it serves, the end."""
    command = (*MODULE, "--data", str(disk), "--log-format", "json", "--log-level", "info")
    server = start(*command)
    with Client(server.address) as client:
        stream = client.stream("a")
        stream.add_case(True, 0.5)
        revision = stream.flush()
    code, said = server.terminate()
    assert code == 0
    again = start(*command)
    _, second = again.terminate()
    first, entries = ([json.loads(line) for line in text.splitlines()] for text in (said, second))
    assert [entry["message"] for entry in first] == [
        *("starting", "restored", "serving", "stopping", "stopped")
    ]
    starting, restored, serving, stopping, stopped = entries
    assert (starting["data"], starting["pid"]) == (str(disk), again.popen.pid)
    assert first[-1]["revision"] == restored["revision"] == stopped["revision"] >= revision
    assert restored["replayed_entries"] == 0
    assert restored["seconds"] >= 0
    assert (serving["grpc"], stopping["signal"]) == (again.address, "SIGTERM")
    assert Settings().log_level == "info"


def test_a_failure_is_an_object_too(start: Callable[..., Process], disk: Path) -> None:
    """A server that cannot start says why in the log's format."""
    first = start(*MODULE, "--data", str(disk))
    code, said = start(*MODULE, "--data", str(disk), "--log-format", "json").ended()
    entry = json.loads(said)
    assert (code, entry["level"]) == (1, "critical")
    assert f"(process {first.popen.pid})" in entry["message"]


def test_strangers_cannot_fill_the_log(start: Callable[..., Process], tmp_path: Path) -> None:
    """What does not speak TLS to a TLS port leaves no line, neither gRPC's nor HTTP's."""
    authority = trustme.CA()
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(key)
    certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    tls = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    server = start(*MODULE, *tls, "--memory", "--log-format", "json", "--log-level", "info")
    assert server.popen.stdout is not None
    http = server.popen.stdout.readline().rstrip("/\n").rpartition("//")[2]
    for address in (server.address, http):
        host, port = address.split(":")
        for words in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01 no hello", b"") * 10:
            with socket.create_connection((host, int(port)), 10) as stranger:
                stranger.sendall(words)
                stranger.shutdown(socket.SHUT_WR)
                with suppress(ConnectionResetError):
                    while stranger.recv(1000):  # until the server has ended the handshake
                        pass
    code, said = server.terminate()
    assert code == 0
    messages = [json.loads(line)["message"] for line in said.splitlines()]
    assert messages == ["starting", "restored", "serving", "stopping", "stopped"]


def test_a_port_has_one_server(start: Callable[..., Process]) -> None:
    """A second server on a port is an error, not half of the requests."""
    first = start(*MODULE, "--memory")
    command = ("-m", "streameval_server", "--listen", first.address, "--memory", "--http", "off")
    code, errors = start(*command).ended()
    assert code == 1
    assert errors.startswith(f"streameval_server: cannot listen on {first.address}: ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_both_signals_stop_in_order(start: Callable[..., Process], number: str) -> None:
    """Ctrl-C and a service manager's stop have the same effect."""
    import signal

    server = start(*MODULE, "--memory")
    server.popen.send_signal(getattr(signal, number))
    assert server.ended() == (0, "")
