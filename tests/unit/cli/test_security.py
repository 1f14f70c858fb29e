"""Commands that create tokens, and commands that send them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
import trustme
import typer.main

from streameval_server import Settings
from streameval_server._security.tokens import read_tokens
from streameval_server._service.configuration import FLAGS, flag_of
from streameval_server.testing import running_server

from ...commands import CommandRunner, app

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def run(*arguments: object, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a command; return its exit code and what it printed."""
    result = CommandRunner().invoke(app, [str(argument) for argument in arguments], env=env)
    return result.exit_code, result.stdout, result.stderr


def test_serve_has_the_servers_flags() -> None:
    """The two commands that start a server have the same flags."""
    command = typer.main.get_command(app).commands["serve"]
    flags = {option for parameter in command.params for option in parameter.opts}
    assert flags == {flag_of(name) for name in FLAGS} | {"--config", "--print-config"}


def test_serve_prints_its_settings_with_their_sources(tmp_path: Path) -> None:
    """A file, the environment and flags; an invalid setting gives one line and exit code 2."""
    file = tmp_path / "streameval.toml"
    file.write_text("log_format = 'json'\n[limits]\nmax_streams = 3\n")
    code, printed, _ = run(
        *("serve", "--print-config", "--config", file, "--memory", "--max-state-bytes", 0),
        env={"STREAMEVAL_LISTEN": "127.0.0.1:7"},
    )
    assert code == 0
    content = tomllib.loads(printed)
    assert (content["memory"], content["listen"]) == (True, "127.0.0.1:7")
    assert (content["limits"]["max_streams"], content["limits"]["max_state_bytes"]) == (3, 0)
    sources = dict(line.rsplit(" # ", 1) for line in printed.splitlines() if " # " in line)
    assert {source for source in sources.values() if source != "default"} == {
        str(file),
        "STREAMEVAL_LISTEN",
        "--memory",
        "--max-state-bytes",
    }
    code, printed, errors = run("serve", "--print-config", "--listen", "0.0.0.0:1")
    assert (code, printed) == (2, "")
    assert "refusing to listen on 0.0.0.0" in errors


def test_tokens_are_made_by_a_command(tmp_path: Path) -> None:
    """It prints the token and nothing else; the file, also from the environment, keeps a hash."""
    path = tmp_path / "tokens.toml"
    code, printed, _ = run(
        *("admin", "token", "web-1", "--tokens", path),
        *("--scope", "ingest", "--scope", "query", "--stream", "fraud"),
    )
    assert code == 0
    token = printed.strip()
    assert token.startswith("sv1.web-1.")
    assert token not in path.read_text()
    code, _, _ = run(
        *("admin", "token", "b", "--scope", "admin", "--valid-for", "90d"),
        env={"STREAMEVAL_TOKENS": str(path)},
    )
    assert code == 0
    first, second = tomllib.loads(path.read_text())["token"]
    assert "expires" not in first
    assert (second["expires"] - second["created"]).days == 90
    assert (first["id"], first["scopes"], first["streams"]) == (
        "web-1",
        ["ingest", "query"],
        ["fraud"],
    )
    assert (second["id"], "streams" in second) == ("b", False)
    for wrong in (
        ("web-1", "--scope", "query"),
        ("c", "--scope", "all"),
        ("c", "--scope", "query", "--stream", "/"),
    ):
        code, printed, errors = run("admin", "token", *wrong, "--tokens", path)
        assert (code, printed) == (2, "")
        assert len(errors.strip().splitlines()) == 1


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a file of two cases."""
    path = tmp_path / "scores.csv"
    path.write_text("label,score\n1,0.9\n0,0.1\n")
    return path


def test_push_and_query_show_what_a_server_wants_to_see(tmp_path: Path, table: Path) -> None:
    """Certificates and a token by options before the command, or by the environment."""
    authority = trustme.CA()
    root, path = tmp_path / "ca.pem", tmp_path / "tokens.toml"
    authority.cert_pem.write_to_path(root)
    for name in ("server", "client"):
        leaf = authority.issue_cert("localhost", "127.0.0.1")
        leaf.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        leaf.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    _, token, _ = run(
        "admin", "token", "x", "--scope", "ingest", "--scope", "query", "--tokens", path
    )
    file = tmp_path / "token"
    file.write_text(token)
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        tls_certificate=tmp_path / "server.pem",
        tls_key=tmp_path / "server.key",
        tls_client_ca=root,
        tokens=path,
    )
    tls = ("--root-certificates", root)
    tls += (
        "--client-certificate",
        tmp_path / "client.pem",
        "--client-key",
        tmp_path / "client.key",
    )
    environment = {
        "STREAMEVAL_ROOT_CERTIFICATES": str(root),
        "STREAMEVAL_CLIENT_CERTIFICATE": str(tmp_path / "client.pem"),
        "STREAMEVAL_CLIENT_KEY": str(tmp_path / "client.key"),
        "STREAMEVAL_TOKEN": token.strip(),
    }
    with running_server(settings) as address:
        code, _, errors = run(*tls, "push", "a/b", table, "--server", address)
        assert code == 2
        assert "this server requires a token" in errors
        code, _, errors = run(*tls, "--token-file", file, "push", "a/b", table, "--server", address)
        assert (code, errors) == (0, "")
        code, printed, _ = run("query", "--server", address, "a/b", "--json", env=environment)
        assert code == 0
        assert json.loads(printed)["num_positive_ref"] == 1
        code, _, errors = run(
            *tls, "--token-file", tmp_path / "none", "query", "--server", address, "a/b"
        )
        assert code == 2
        assert "cannot read" in errors


@pytest.mark.parametrize(
    "line",
    [
        "{} query a/b --server localhost:1",
        "--{} query a/b --server localhost:1",
        "--token-file {} query a/b --server localhost:1",
        "query a/b {}",
        "query a/b --server localhost:1 {}",
        "query a/b --server localhost:1 --window {}",
        "streams {}",
        "push a {} --server localhost:1",
        "top --server localhost:1 --every {}",
        "serve --memory --listen {}",
        "admin token x --scope {}",
    ],
)
def test_a_token_in_the_wrong_place_is_not_printed(line: str) -> None:
    """An error names what was wrong with it, without its secret."""
    code, printed, errors = run(*line.format("sv1.web-1.S3cret-S3cret").split())
    assert code == 2
    assert "S3cret" not in printed + errors
    assert errors


@pytest.mark.slow
def test_the_server_does_not_print_a_token_in_the_wrong_place() -> None:
    """The command without the cli extra, for an argument and for a value."""
    for arguments in (("sv1.web-1.S3cret",), ("--listen", "sv1.web-1.S3cret")):
        command = [sys.executable, "-m", "streameval_server", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0
        assert "sv1.web-1...." in done.stderr
        assert "S3cret" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_tokens_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    """The command in the server's message makes a file that the server accepts."""
    tokens = tmp_path / "tokens.toml"
    options = ("--memory", "--listen", "127.0.0.1:0", "--tokens", str(tokens))
    command = [sys.executable, "-m", "streameval", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    named = re.search(r"does not exist; streameval (.+) creates it", done.stderr)
    assert done.returncode == 2
    assert named is not None
    assert run(*named[1].split())[0] == 0
    assert read_tokens(tokens).grants.keys() == {"NAME"}


def test_a_token_is_no_option() -> None:
    """Other users could read it in the list of processes."""
    code, _, errors = run("--token", "sv1.x.y", "query", "--server", "localhost:1", "a/b")
    assert code == 2
    assert "No such option" in errors
    code, _, errors = run(
        "query", "--server", "example.org:1", "a/b", env={"STREAMEVAL_TOKEN": "sv1.x.y"}
    )
    assert code == 2
    assert "a token must not travel in plain text to example.org:1" in errors


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the address of a server with tokens, and a token's file."""
    file, tokens = tmp_path / "token", tmp_path / "tokens.toml"
    file.write_text(run("admin", "token", "x", "--scope", "admin", "--tokens", tokens)[1])
    with running_server(Settings(listen="127.0.0.1:0", memory=True, tokens=tokens)) as address:
        yield address, file


def test_a_connection_has_its_options_before_or_after_the_command(
    guarded: tuple[str, Path], tmp_path: Path
) -> None:
    """Both places mean the same; the later one, and any of them over a variable, wins."""
    address, file = guarded
    wrong = tmp_path / "wrong"
    wrong.write_text("sv1.x.y")
    hashed = ("admin", "hash", "--server", address)
    assert run("--token-file", file, *hashed)[0] == 0
    assert run(*hashed, "--token-file", file)[0] == 0
    assert run("--token-file", wrong, *hashed, "--token-file", file)[0] == 0
    assert run("--token-file", file, *hashed, "--token-file", wrong)[0] == 2
    variable = {"STREAMEVAL_TOKEN_FILE": str(wrong)}
    assert run(*hashed, "--token-file", file, env=variable)[0] == 0
    assert run("--token-file", file, *hashed, env=variable)[0] == 0


def test_every_command_that_connects_has_the_options() -> None:
    """No command that connects lacks an option of the connection."""
    options = {
        "--profile",
        "--token-file",
        "--tls",
        "--root-certificates",
        "--client-certificate",
        "--client-key",
    }
    groups, connecting = [typer.main.get_command(app)], []
    for group in groups:
        for command in group.commands.values():
            if hasattr(command, "commands"):
                groups.append(command)
            elif "server" in {parameter.name for parameter in command.params}:
                connecting.append(command)
    assert len(connecting) >= 30
    for command in connecting:
        found = {option for parameter in command.params for option in parameter.opts}
        assert options <= found, command.name


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            (),
            "this server requires a token: give --token-file, or STREAMEVAL_TOKEN; run: streameval",
        ),
        (("--token-file", "{tmp}/none"), "--token-file: cannot read {tmp}/none"),
        (("--token-file", "{tmp}/empty"), "--token-file: {tmp}/empty is empty"),
        (("--root-certificates", "{tmp}/none"), "--root-certificates: cannot read {tmp}/none: No"),
        (("--client-key", "{tmp}/empty"), "--client-certificate and --client-key need each other"),
    ],
)
def test_errors_of_a_connection_name_the_option(
    guarded: tuple[str, Path], table: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    """They speak of the command line, not of HTTP headers or arguments in Python."""
    address, _ = guarded
    (tmp_path / "empty").write_text("")
    given = [option.format(tmp=tmp_path) for option in options]
    for command in (
        ("query", "--server", address, "a/1"),
        ("push", "a/1", table, "--server", address),
        ("admin", "status", "--server", address),
        ("top", "--server", address, "--once"),
    ):
        code, printed, errors = run(*command, *given)
        assert (code, printed) == (2, ""), command
        assert errors.startswith("streameval: " + said.format(tmp=tmp_path)), command
        assert errors.count("\n") == 1


def test_a_token_in_plain_text_is_refused_by_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To another machine only with TLS: the message names the options to give."""
    file = tmp_path / "token"
    file.write_text("sv1.x.y")
    code, _, errors = run("query", "--server", "192.0.2.1:1", "a/1", "--token-file", file)
    assert code == 2
    assert "--token-file: a token must not travel in plain text to 192.0.2.1:1" in errors
    assert "--root-certificates, or --tls" in errors
    monkeypatch.setenv("STREAMEVAL_TOKEN", "sv1.x.y")
    assert "STREAMEVAL_TOKEN: a token must not" in run("query", "--server", "192.0.2.1:1", "a/1")[2]
