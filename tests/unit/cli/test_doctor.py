"""`streameval doctor`: each fault with its remedy; and what a call that fails says to run."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
import trustme

from streameval.cli import _doctor
from streameval.cli._connection import ConnectionOptions, current_connection
from streameval.v1 import admin_pb2
from streameval_server import Settings, create_token
from streameval_server.testing import running_server, running_service

from ...commands import outcome


@pytest.fixture(autouse=True)
def no_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run without the user's profile and token."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("SERVER", "PROFILE", "TOKEN", "TOKEN_FILE"):
        monkeypatch.delenv(f"STREAMEVAL_{name}", raising=False)
    current_connection.set(ConnectionOptions())


def checked(*arguments: object) -> tuple[int, dict[str, tuple[bool | None, str, str]]]:
    """Return the exit code, and what was found of each check."""
    code, printed, errors = outcome("doctor", *arguments, "--json")
    assert errors == ""
    found = {
        each["name"]: (each["ok"], each["found"], each["remedy"]) for each in json.loads(printed)
    }
    assert all(remedy for ok, _, remedy in found.values() if not ok)
    return code, found


def test_a_server_that_is_well(tmp_path: Path) -> None:
    """Every check has what it found; nothing is to be done."""
    with running_server(Settings(listen="127.0.0.1:0", data=tmp_path / "data")) as address:
        code, found = checked("--server", address)
        assert code == 0, found
        assert [*found] == ["address", "token", "version", "clock", "disk", "lag"]
        assert all(ok for ok, _, _ in found.values()), found
        assert found["address"][1] == f"{address}, from --server"
        code, printed, _ = outcome("doctor", "--server", address)
        assert (code, "->" in printed) == (0, False)
        assert [line.split()[:2] for line in printed.splitlines()] == [
            ["ok", name] for name in found
        ]


def test_what_is_no_certificate(tmp_path: Path) -> None:
    """A file of authorities that has none is a fault of TLS, not of the output."""
    file = tmp_path / "ca.pem"
    file.write_text("score,label\n")
    code, found = checked("--server", "127.0.0.1:1", "--root-certificates", file)
    assert (code, found["tls"][0]) == (1, False)
    assert "--root-certificates FILE" in found["tls"][2]
    assert "server" not in found  # it was not asked


def test_doctor_does_not_send_to_itself(tmp_path: Path) -> None:
    """Where no command helps, it says what to look at."""
    code, found = checked("--server", f"unix:{tmp_path / 'none'}")
    assert code == 1
    assert found["server"][2].startswith("start the server there")


def test_no_server() -> None:
    """What to start, or where to look; the exit code is 1."""
    code, found = checked("--server", "127.0.0.1:1")
    assert code == 1
    assert found["server"] == (
        False,
        "no server listens on 127.0.0.1:1",
        "run: streameval serve --listen 127.0.0.1:1",
    )


def test_the_page_is_no_server() -> None:
    """Its port is named for what it is, with the command at the port of gRPC; it works."""
    with running_service(Settings(listen="127.0.0.1:0", memory=True)) as addresses:
        said = f"is the port of the web page; gRPC is on {addresses.grpc}"
        for words in (["health"], ["streams", "list", "--json"]):
            code, _, errors = outcome(*words, "--server", addresses.http)
            assert (code, said in errors) == (2, True)
            remedy = shlex.split(errors.partition("; run: streameval ")[2])
            assert remedy == [*words, "--server", addresses.grpc]
            assert outcome(*remedy)[0] == 0
        code, found = checked("--server", addresses.http)
        assert code == 1
        assert found["server"][2] == f"run: streameval doctor --json --server {addresses.grpc}"
        code, _, errors = outcome("health", "--tls", f"--server=https://{addresses.grpc}")
        assert (code, f"the server at {addresses.grpc} has no TLS" in errors) == (2, True)
        assert outcome(*shlex.split(errors.partition("; run: streameval ")[2]))[0] == 0


def test_certificates(tmp_path: Path) -> None:
    """Days that are left; an authority that is not trusted, and the option that names it."""
    authority = trustme.CA()
    root = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(root)
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(tmp_path / "key")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "pem")
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        tls_certificate=tmp_path / "pem",
        tls_key=tmp_path / "key",
    )
    with running_server(settings) as address:
        code, found = checked("--server", address, "--root-certificates", root)
        assert (code, found["tls"][0]) == (0, True)
        assert found["tls"][1].startswith("the certificate is valid for ")
        assert found["disk"][:2] == (None, "the server keeps nothing on disk")
        code, found = checked("--server", f"https://{address}")
        assert (code, found["tls"][0]) == (1, False)
        assert "--root-certificates FILE" in found["tls"][2]
        assert "--root-certificates FILE" in found["server"][2]
        code, _, errors = outcome("query", "a", "--server", address)
        run = f"; run: streameval query a --server {address} --root-certificates FILE\n"
        assert (code, errors.endswith(run)) == (2, True), errors
        _, found = checked("--server", address)
        assert "a server does that has TLS: give its authority" in found["server"][1]
        _, found = checked("--server", f"dns:///{address}", "--root-certificates", root)
        assert (found["tls"][0], found["disk"][0]) == (None, None)


def test_a_client_without_a_certificate(tmp_path: Path) -> None:
    """A server with mTLS closes the connection: what it wants; and files that do not match."""
    authority = trustme.CA()
    root = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(root)
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(tmp_path / "key")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "pem")
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        tls_certificate=tmp_path / "pem",
        tls_key=tmp_path / "key",
        tls_client_ca=root,
    )
    with running_server(settings) as address:
        where = ("--server", address, "--root-certificates", root)
        code, found = checked(*where)
        assert (code, found["tls"][0]) == (1, True)
        assert found["server"][2].endswith("--client-certificate FILE --client-key FILE")
        pem = ("--client-certificate", tmp_path / "pem", "--client-key", tmp_path / "key")
        assert checked(*where, *pem)[0] == 0
        wrong = ("--client-certificate", root, "--client-key", tmp_path / "key")
        code, found = checked(*where, *wrong)
        assert (code, "--client-key FILE" in found["tls"][2]) == (1, True)
        code, _, errors = outcome("query", "a", *where, *wrong)
        assert (code, "are no PEM, or do not match; run: streameval doctor" in errors) == (2, True)


def test_tokens(tmp_path: Path) -> None:
    """None, an unknown one, one without the scope: what it has, and how to make another."""
    tokens = tmp_path / "tokens.toml"
    made: dict[str, Any] = {
        "reader": create_token(tokens, "reader", ["ingest", "query"]),
        "operator": create_token(tokens, "operator", ["admin", "query"]),
        "unknown": "sv1.x.y",
    }
    for name, token in made.items():
        (tmp_path / name).write_text(token)
    with running_server(Settings(listen="127.0.0.1:0", memory=True, tokens=tokens)) as address:
        where = ("--server", address)
        code, found = checked(*where)
        assert (code, found["token"][0]) == (1, False)
        assert found["token"][2].endswith(f"--server {address} --json --token-file FILE")
        code, found = checked(*where, "--token-file", tmp_path / "unknown")
        assert (code, found["token"][0]) == (1, False)
        assert found["token"][2].startswith("run: streameval admin token NAME --tokens")
        code, found = checked(*where, "--token-file", tmp_path / "reader")
        assert (code, found["token"][1]) == (0, "its scopes are ingest, query")
        assert found["server"][0] is None
        code, found = checked(*where, "--token-file", tmp_path / "operator")
        assert (code, found["token"][1]) == (0, "its scopes include admin and query")
        code, _, errors = outcome("admin", "hash", *where, "--token-file", tmp_path / "reader")
        assert code == 2
        assert errors.endswith(
            "on the server's machine; run: streameval admin token NAME --tokens tokens.toml "
            "--scope admin\n"
        )


def test_what_is_wrong_with_a_server() -> None:
    """Versions, clocks, disk, lag, commits and warnings, each with what to do."""
    status = admin_pb2.GetServerStatusResponse(
        version="0.0.1", serving=False, problem="disk full", lag_rows=200_000, clock_in_doubt=True
    )
    status.disk.free_bytes, status.disk.total_bytes = 1, 100
    status.warnings.extend(["the disk has 1% left: make room", "state: 9 of at most 10 (limits.x)"])
    found = {each.name: each for each in _doctor._of_status(status, time.time())}
    assert {name: each.ok for name, each in found.items()} == dict.fromkeys(
        ("version", "clock", "disk", "lag", "commits", "server"), False
    )
    assert found["version"].remedy == "run: pip install 'streameval==0.0.1'"
    assert found["clock"].remedy.endswith("run: streameval admin clock accept")
    assert found["disk"].remedy.endswith("run: streameval admin compact")
    assert found["lag"].remedy.endswith("streameval admin status")
    status.clock_in_doubt = False
    status.time.FromSeconds(100)
    (clock,) = (each for each in _doctor._of_status(status, 40.0) if each.name == "clock")
    assert clock.found == "the server's is 1 min ahead of this machine's"
    assert clock.remedy
