"""TLS and mTLS: which connections succeed, and certificates that change at run time."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import grpc
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from grpc_health.v1 import health_pb2, health_pb2_grpc

from streameval_server import Server, Settings, SettingsError

from .security import Certificates, secure_channel, secured

if TYPE_CHECKING:
    from pathlib import Path


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
