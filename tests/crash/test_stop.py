"""The server as a process: graceful stops, one server per directory, loopback by default."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from streameval.client import Client
from streameval_server._core.recovery import open_core
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.limits import Limits

from .test_kill import Load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Process

MODULE = ("-m", "streameval_server", "--listen", "127.0.0.1:0")


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
        assert client.flush() == 1
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


def test_a_port_has_one_server(start: Callable[..., Process]) -> None:
    """A second server on a port is an error, not half of the requests."""
    first = start(*MODULE, "--memory")
    command = ("-m", "streameval_server", "--listen", first.address, "--memory", "--http", "off")
    code, errors = start(*command).ended()
    assert code == 1
    # gRPC itself logs a line before.
    said = errors.splitlines()[-1]
    assert said.startswith(f"streameval_server: cannot listen on {first.address}: ")


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_both_signals_stop_in_order(start: Callable[..., Process], number: str) -> None:
    """Ctrl-C and a service manager's stop have the same effect."""
    import signal

    server = start(*MODULE, "--memory")
    server.popen.send_signal(getattr(signal, number))
    assert server.ended() == (0, "")
