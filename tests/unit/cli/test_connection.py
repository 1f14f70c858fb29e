"""Which server the commands ask: options, variables, the profile, the default."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval import StreamEvalError
from streameval._common.addresses import read_address
from streameval.cli._connection import DEFAULT_SERVER, Connection, ConnectionOptions
from streameval_server import Settings
from streameval_server.testing import running_server

from ...commands import outcome, run

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a user without variables; the profile would be in it."""
    for name in ("SERVER", "PROFILE", "TOKEN", "TOKEN_FILE", "TLS", "ROOT_CERTIFICATES"):
        monkeypatch.delenv(f"STREAMEVAL_{name}", raising=False)
    monkeypatch.setenv("APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "streameval").mkdir()
    return tmp_path / "streameval"


def profile(home: Path, text: str) -> Path:
    """Write the user's profile, which only they can read."""
    path = home / "profile.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("text", "address", "is_https"),
    [
        ("eval", "eval:50051", False),
        ("eval:7", "eval:7", False),
        ("127.0.0.1", "127.0.0.1:50051", False),
        ("[::1]", "[::1]:50051", False),
        ("::1", "[::1]:50051", False),
        ("[::1]:7", "[::1]:7", False),
        ("http://eval:8080", "eval:8080", False),
        ("eval:", "eval:50051", False),
        ("http://eval/", "eval:50051", False),
        ("HTTPS://eval:7/#/stream/fraud?window=1h&segment=country:US", "eval:7", True),
        ("grpc://eval", "eval:50051", False),
        ("grpcs://eval", "eval:50051", True),
        (" eval:7\n", "eval:7", False),
        ("fe80::1%eth0", "[fe80::1%eth0]:50051", False),
        ("unix:/run/streameval.sock", "unix:/run/streameval.sock", False),
        ("dns:///eval:7", "dns:///eval:7", False),
    ],
)
def test_what_an_address_means(text: str, address: str, is_https: bool) -> None:
    """As it was copied from a browser, a log or another tool."""
    assert read_address(text, "--server") == (address, is_https)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":7",
        "eval:port",
        "eval:0",
        "eval:65536",
        "a b:7",
        "user@eval:7",
        "[::1]x:7",
        "[eval]:7",
        "eval,other:7",
        "eval/v1",
        "http://",
    ],
)
def test_what_is_no_address(text: str) -> None:
    """The message has the option, the value and an address to give."""
    code, _, errors = outcome("query", "a", "--server", text)
    assert code == 2
    assert errors == (
        f"streameval: --server must be HOST:PORT, got {text!r}: for instance --server "
        "127.0.0.1:50051\n"
    )


def test_a_scheme_that_is_none_of_a_server() -> None:
    """It is named, and so is what to leave out."""
    with pytest.raises(StreamEvalError, match="got 'ftp://eval': leave out ftp://"):
        read_address("ftp://eval", "STREAMEVAL_SERVER")


def test_the_order_of_sources(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option, a variable, the command's own file, the profile, the default."""
    none = ConnectionOptions()
    assert Connection(none).address == DEFAULT_SERVER
    path = profile(home, 'server = "profile"\ntoken = "sv1.profile"\ntls = true\n')
    assert Connection(none).address == "profile:50051"
    assert Connection(none, "configured").address == "configured:50051"
    assert (Connection(none).token(), Connection(none).tls) == ("sv1.profile", True)
    monkeypatch.setenv("STREAMEVAL_SERVER", "variable")
    monkeypatch.setenv("STREAMEVAL_TOKEN", "sv1.variable")
    monkeypatch.setenv("STREAMEVAL_TLS", "false")
    assert Connection(none, "configured").address == "variable:50051"
    assert (Connection(none).token(), Connection(none).tls) == ("sv1.variable", False)
    (home / "token").write_text("sv1.option\n")
    given = ConnectionOptions(server="option", token_file=home / "token", tls=True)
    assert Connection(given).address == "option:50051"
    assert (Connection(given).token(), Connection(given).tls) == ("sv1.option", True)
    other = home / "other.toml"
    other.write_text('token_file = "token"\nroot_certificates = "ca.pem"\n')
    monkeypatch.delenv("STREAMEVAL_TOKEN")
    monkeypatch.setenv("STREAMEVAL_PROFILE", str(other))
    assert Connection(none).token() == "sv1.option"  # the path is beside the profile
    (home / "ca.pem").touch()
    assert Connection(none).client_options()["root_certificates"] == home / "ca.pem"
    assert Connection(ConnectionOptions(profile=path)).token() == "sv1.profile"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("servre = 'eval'", "a profile has no 'servre': did you mean 'server'?"),
        ("colour = 'red'", "a profile has no 'colour': use token, server, token_file, tls"),
        ("server = 7", "server in {path} must be a text in quotes, got 7"),
        ("tls = 'maybe'", "tls in {path} must be true or false, got 'maybe'"),
        ("server", "cannot read the profile {path}: it is not TOML"),
        ("server = 'a b'", "server in {path} must be HOST:PORT, got 'a b'"),
    ],
)
def test_a_profile_that_is_wrong(home: Path, text: str, said: str) -> None:
    """The file, the key and the value are named in one line."""
    path = profile(home, text)
    for command in (("query", "a"), ("health",)):
        code, _, errors = outcome(*command)
        assert (code, errors.count("\n")) == (2, 1)
        assert said.format(path=path) in errors


def test_a_profile_that_is_named_must_exist(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own may be missing."""
    missing = home / "none.toml"
    assert (
        f"--profile: cannot read the profile {missing}"
        in outcome("query", "a", "--profile", missing)[2]
    )
    monkeypatch.setenv("STREAMEVAL_PROFILE", str(missing))
    assert "STREAMEVAL_PROFILE: cannot read the profile" in outcome("query", "a")[2]


@pytest.mark.skipif(sys.platform == "win32", reason="has no modes of files")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_token_that_others_can_read(home: Path, mode: int) -> None:
    """Refused with the command that mends it; a profile without a token may be read by all."""
    path = profile(home, 'token = "sv1.x.y"\n')
    path.chmod(mode)
    code, _, errors = outcome("query", "a")
    assert code == 2
    assert errors == (
        f"streameval: {path}: other users can read the token in it; run: chmod 600 {path}\n"
    )
    path.write_text('server = "eval"\n')
    assert Connection(ConnectionOptions()).address == "eval:50051"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Yield the address of a server with tokens, and a token."""
    tokens = tmp_path / "tokens.toml"
    token = run(
        "admin", "token", "x", "--scope", "admin", "--scope", "query", "--tokens", tokens
    ).stdout.strip()
    with running_server(Settings(listen="127.0.0.1:0", memory=True, tokens=tokens)) as address:
        yield address, token


def test_commands_need_no_address_with_a_profile(home: Path, served: tuple[str, str]) -> None:
    """Server and token in one file; remedies name the server only where an option did."""
    address, token = served
    profile(home, f'server = "http://{address}"\ntoken = "{token}"\n')
    assert outcome("admin", "status")[0] == 0
    assert outcome("health")[:2] == (0, "SERVING\n")
    assert "make one with: streameval pairs create A B\n" in outcome("pairs", "list")[1]
    assert f"A B --server {address}" in outcome("pairs", "list", "--server", address)[1]
