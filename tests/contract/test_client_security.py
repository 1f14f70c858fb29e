"""The client against servers with TLS, client certificates and tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from streameval import InvalidInputError
from streameval._common.addresses import is_local
from streameval.client import AccessError, Client, RowsLostError, UnavailableError
from streameval_server import Settings, create_token
from streameval_server.testing import running_server

from .security import Certificates, secured


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    """Return the files of a certificate authority."""
    return Certificates.made(tmp_path / "tls")


def test_a_client_with_all_that_is_wanted_is_served(made: Certificates, tmp_path: Path) -> None:
    """Certificates as files or as bytes, the token with each call."""
    path = tmp_path / "tokens.toml"
    token = create_token(path, "all", ["ingest", "query"])
    certificate, key = made.client()
    with secured(made, path, tls_client_ca=made.root) as address:
        for read in (str, Path, lambda file: file.read_bytes()):
            with Client(
                address,
                token=token,
                root_certificates=read(made.root),
                client_certificate=read(certificate),
                client_key=read(key),
            ) as client:
                stream = client.stream("fraud/v3")
                stream.add_case(True, 0.5)
                stream.flush()
                assert stream.snapshot().num_positive_ref >= 1
        # Any other channel credentials of gRPC.
        channel = grpc.ssl_channel_credentials(
            made.root.read_bytes(), key.read_bytes(), certificate.read_bytes()
        )
        with Client(f"https://{address}", token=token, credentials=channel) as client:
            assert [stream.name for stream in client.list_streams()] == ["fraud/v3"]


def test_a_client_without_them_is_told(made: Certificates, tmp_path: Path) -> None:
    """The error is the server's, without a wait, because waiting cannot help."""
    path = tmp_path / "tokens.toml"
    query = create_token(path, "query", ["query"])
    spam = create_token(path, "spam", ["ingest"], ["spam"])
    with secured(made, path) as address:
        for token, words in (
            (None, "this server requires a token"),
            ("sv1.x.y", "is not known to this server"),
            (query, "this needs the scope ingest; the token query has query"),
        ):
            client = Client(address, token=token, root_certificates=made.root)
            client.stream("fraud").add_case(True, 0.5)
            with pytest.raises(AccessError, match=words):
                client.flush(timeout_s=20)
            with pytest.raises(AccessError):
                client.close(timeout_s=20)
        client = Client(address, token=spam, root_certificates=made.root)
        client.stream("fraud").add_case(True, 0.5)
        client.stream("spam/v1").add_case(True, 0.5)
        with pytest.raises(RowsLostError, match="is not for the stream 'fraud', but for spam"):
            client.flush(timeout_s=20)
        assert client.statistics().acked == 1
        client.close()
        # The system's authorities did not sign the test's certificate.
        client = Client(address, token=query, tls=True, timeout_s=2.0)
        with pytest.raises(UnavailableError):
            client.list_streams()
        client.close()


def test_a_client_survives_the_renewal_of_what_it_shows(made: Certificates, tmp_path: Path) -> None:
    """Certificate and token are read again; a half-changed pair is ignored."""
    path, token = tmp_path / "tokens.toml", tmp_path / "token"
    token.write_text(create_token(path, "old", ["query"]) + "\n")
    made.client()
    with (
        secured(made, path, tls_client_ca=made.root) as address,
        Client(
            address,
            token=token.read_text,
            root_certificates=made.root,
            client_certificate=made.directory / "client.pem",
            client_key=made.directory / "client.key",
        ) as client,
    ):
        client.list_streams()
        first = client.stream("a/b")._connection.transport.channel()
        assert client.stream("a/b")._connection.transport.channel() is first
        made.client()
        client.list_streams()
        second = client.stream("a/b")._connection.transport.channel()
        assert second is not first
        # While the file is missing, its previous content is used.
        (made.directory / "client.pem").unlink()
        client.list_streams()
        # Calls on a replaced channel continue until the client is closed.
        assert len(client.stream("a/b")._connection.transport._replaced) == 2
        token.write_text("sv1.unknown.x")
        with pytest.raises(AccessError, match="is not known"):
            client.list_streams()


def test_a_token_never_travels_in_plain_text(tmp_path: Path) -> None:
    """It may to this machine; for another one the constructor refuses."""
    for address in ("fraud.example.org:50051", "10.0.0.7:50051", "dns:///example.org"):
        with pytest.raises(InvalidInputError) as caught:
            Client(address, token="secret")
        assert str(caught.value) == (
            f"a token must not travel in plain text to {address}: give root_certificates=, "
            "or tls=True to trust the authorities that gRPC knows"
        )
        assert caught.value.field == "token"
        Client(address, token="secret", tls=True).close()
    path = tmp_path / "tokens.toml"
    token = create_token(path, "x", ["query"])
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=path)
    with running_server(settings) as address, Client(address, token=token) as client:
        assert client.list_streams() == []


def test_this_machine_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would send local traffic through another machine."""
    monkeypatch.setenv("http_proxy", "http://192.0.2.7:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with running_server() as address, Client(address) as client:
        assert client.list_streams() == []


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("localhost:1", True),
        ("localhost", True),
        ("127.0.0.53:1", True),
        ("[::1]:1", True),
        ("::1", True),
        ("dns:///localhost:1", True),
        ("dns:localhost:1", True),
        ("ipv4:127.0.0.1:1,127.0.0.2:1", True),
        ("ipv6:[::1]:1", True),
        ("unix:/run/x", True),
        ("unix:///run/x", True),
        ("localhost.example.org:1", False),
        ("dns://192.0.2.7/localhost:1", False),
        ("ipv4:127.0.0.1:1,192.0.2.7:1", False),
        ("[2001:db8::1]:1", False),
        ("0.0.0.0:1", False),
        ("xds:///localhost", False),
        ("localhost%2eexample.org:1", False),
        ("localhost@192.0.2.7:1", False),
        ("", False),
    ],
)
def test_only_what_is_certainly_local_is(address: str, local: bool) -> None:
    """Names are not resolved, and an unknown form of address is not local."""
    assert is_local(address) is local


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"client_certificate": b"x"}, "client_certificate and client_key need each other"),
        ({"client_key": b"x"}, "client_certificate and client_key need each other"),
        ({"root_certificates": "/nowhere/ca.pem"}, "cannot read /nowhere/ca.pem: No such file"),
        ({"root_certificates": "/dev/null"}, "it is a device, not a regular file"),
        (
            {"tls": True, "credentials": grpc.ssl_channel_credentials()},
            "give either credentials or certificates, not both",
        ),
    ],
)
def test_settings_that_cannot_be_are_said_at_once(wrong: dict[str, Any], words: str) -> None:
    """The constructor refuses them, before it opens anything."""
    with pytest.raises(InvalidInputError, match=words):
        Client("localhost:1", **wrong)


def test_a_stranger_is_not_sent_a_token(made: Certificates, tmp_path: Path) -> None:
    """A server that cannot prove its name is sent no token."""
    stranger = trustme.CA()
    with secured(made, None) as address:
        root = tmp_path / "other.pem"
        stranger.cert_pem.write_to_path(root)
        client = Client(address, token="secret", root_certificates=root, timeout_s=2.0)
        with pytest.raises(UnavailableError):
            client.list_streams()
        client.close()
