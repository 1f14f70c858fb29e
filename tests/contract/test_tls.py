"""TLS and mTLS: which connections succeed, and certificates that change at run time."""

from __future__ import annotations

import codecs
import shlex
import socket
import ssl
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from grpc_health.v1 import health_pb2, health_pb2_grpc

from streameval.client import Client
from streameval_server import Server, Settings, SettingsError
from streameval_server.testing import running_service

from ..pages import codes
from .security import Certificates, secure_channel, secured

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "docs" / "server.md"


def works(channel: grpc.Channel) -> bool:
    """Whether a server answers on a channel; closes it."""
    with channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)
        except grpc.RpcError as error:
            return error.code() != grpc.StatusCode.UNAVAILABLE
    return True


def mutual(root: bytes, address: str, pair: tuple[Path, Path]) -> grpc.Channel:
    """Return a channel with a client's certificate."""
    certificate, key = pair
    credentials = grpc.ssl_channel_credentials(root, key.read_bytes(), certificate.read_bytes())
    return grpc.secure_channel(address, credentials, (("grpc.use_local_subchannel_pool", 1),))


def shown(address: str) -> str:
    """Return the certificate that a server presents."""
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)), timeout=20).strip()


def test_clients_without_the_right_certificate_are_not_talked_to(tmp_path: Path) -> None:
    """mTLS: a certificate of the authority is accepted; none, or one of another, is not."""
    made = Certificates.made(tmp_path / "tls")
    root = made.root.read_bytes()
    with secured(made, None, tls_client_ca=made.root) as address:
        assert works(mutual(root, address, made.client()))
        assert not works(mutual(root, address, made.client("evil", trustme.CA())))
        assert not works(secure_channel(made, address))
        assert not works(grpc.insecure_channel(address))


def test_a_server_that_cannot_prove_its_name_is_left(tmp_path: Path) -> None:
    """TLS: clients that trust another authority, or use plain text, get no answer."""
    ours, other = Certificates.made(tmp_path / "a"), Certificates.made(tmp_path / "b")
    with secured(ours, None) as address:
        assert works(secure_channel(ours, address))
        assert not works(secure_channel(other, address))
        assert not works(grpc.insecure_channel(address))


def test_certificates_change_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """New connections get the new certificate, open ones stay; a half-changed pair is ignored."""
    made = Certificates.made(tmp_path / "tls")
    with (
        secured(made, None) as address,
        secure_channel(made, address) as channel,
    ):
        health = health_pb2_grpc.HealthStub(channel)
        health.Check(health_pb2.HealthCheckRequest(), timeout=20)
        first, first_key = made.certificate.read_text().strip(), made.key.read_bytes()
        assert shown(address) == first

        # A new certificate with the old key: the old pair stays.
        made.renew()
        second, second_key = made.certificate.read_text().strip(), made.key.read_bytes()
        made.key.write_bytes(first_key)
        assert shown(address) == first
        assert "the certificates stay as they were: " in caplog.text

        made.key.write_bytes(second_key)
        assert shown(address) == second != first
        assert works(secure_channel(made, address))
        health.Check(health_pb2.HealthCheckRequest(), timeout=20)


def test_the_authority_for_clients_changes_without_a_restart(tmp_path: Path) -> None:
    """Clients with certificates of the old authority are refused from then on."""
    made = Certificates.made(tmp_path / "tls")
    root = made.root.read_bytes()
    other = trustme.CA()
    old, new = made.client("old"), made.client("new", other)
    with secured(made, None, tls_client_ca=made.root) as address:
        assert works(mutual(root, address, old))
        assert not works(mutual(root, address, new))
        other.cert_pem.write_to_path(made.root)
        assert works(mutual(root, address, new))
        assert not works(mutual(root, address, old))


def visit(
    context: ssl.SSLContext, address: str, session: ssl.SSLSession | None = None
) -> tuple[bytes, bool, ssl.SSLSession | None]:
    """Connect and speak; return the answer (none when refused), and the session."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    is_http = address.startswith("https:")
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
    if is_http:
        hello = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    else:
        context.set_alpn_protocols(["h2"])
    raw = socket.create_connection((host, int(port)), 20)
    with context.wrap_socket(
        raw, server_hostname="localhost", do_handshake_on_connect=False, session=session
    ) as tls:
        try:
            tls.do_handshake()
            tls.sendall(hello)
            return tls.recv(1000), bool(tls.session_reused), tls.session
        except OSError:
            return b"", False, None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_end_with_the_authority(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """A session of a client of the old authority is not resumed, on both ports."""
    made = Certificates.made(tmp_path / "tls")
    other = trustme.CA()
    old, new = made.client("old"), made.client("new", other)
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        tls_certificate=made.certificate,
        tls_key=made.key,
        tls_client_ca=made.root,
    )

    def client(pair: tuple[Path, Path]) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=made.ca.cert_pem.bytes().decode())
        context.load_cert_chain(*pair)
        context.minimum_version = context.maximum_version = version
        return context

    with running_service(settings) as addresses:
        ports = (addresses.grpc, addresses.http)
        sessions = []
        for port in ports:
            context = client(old)
            answer, _, session = visit(context, port)
            assert answer
            assert visit(context, port, session)[0]
            sessions.append((context, session))
        other.cert_pem.write_to_path(made.root)
        for port, (context, session) in zip(ports, sessions, strict=True):
            assert visit(context, port, session)[:2] == (b"", False)
            assert visit(client(new), port)[0]


def locked(path: Path) -> None:
    """Put a password on a key."""
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )


def marked(path: Path) -> None:
    """Put a byte order mark before a file's content."""
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())


@pytest.mark.parametrize(
    ("name", "spoil", "problem"),
    [
        ("certificate", lambda path: path.unlink(), r"cannot read .*server\.pem: No such file"),
        ("key", lambda path: path.unlink(), r"cannot read .*server\.key: No such file"),
        ("key", lambda path: path.write_text("x"), "are not a certificate and its private key"),
        ("certificate", lambda path: path.write_text("x"), "are not a certificate and its"),
        ("key", locked, "in PEM and without a password"),
        ("root", lambda path: path.write_text("x"), r"ca\.pem holds no certificates in PEM"),
        ("root", lambda path: path.write_bytes(b"\xff"), r"ca\.pem holds no certificates in PEM"),
        *(
            (name, marked, "begins with a byte order mark: save it without one")
            for name in ("certificate", "key", "root")
        ),
    ],
)
def test_a_server_does_not_start_with_certificates_that_cannot_work(
    tmp_path: Path, name: str, spoil: object, problem: str
) -> None:
    """The error names the file, and the server does not listen."""
    made = Certificates.made(tmp_path / "tls")
    spoil(getattr(made, name))
    settings = Settings(
        memory=True,
        tls_certificate=made.certificate,
        tls_key=made.key,
        tls_client_ca=made.root,
    )
    with pytest.raises(SettingsError, match=problem):
        Server(settings)


def test_the_pages_certificates_work(tmp_path: Path, require_command: Callable[[str], str]) -> None:
    """Made by its commands, they serve gRPC and HTTP, and pass OpenSSL's strict checks."""
    require_command("openssl")
    (block,) = codes(PAGE.read_text(encoding="utf-8"), "console", "openssl")
    lines = [*block.splitlines(), "$ openssl verify -x509_strict -CAfile ca.crt tls.crt"]
    for line in lines:
        command = shlex.split(line.removeprefix("$ "))
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        tls_certificate=tmp_path / "tls.crt",
        tls_key=tmp_path / "tls.key",
    )
    with running_service(settings) as addresses:
        for host in ("localhost", "127.0.0.1"):
            address = addresses.grpc.replace("127.0.0.1", host)
            with Client(address, root_certificates=(tmp_path / "ca.crt").read_bytes()) as client:
                assert client.list_streams() == []
            assert addresses.http is not None
            trusted = ssl.create_default_context(cafile=tmp_path / "ca.crt")
            trusted.verify_flags |= ssl.VERIFY_X509_STRICT
            url = addresses.http.replace("127.0.0.1", host) + "/readyz"
            with urllib.request.urlopen(url, context=trusted, timeout=20) as answer:
                assert answer.status == 200
