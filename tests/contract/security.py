"""Certificates, tokens and a secured server, for tests of access control."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
import trustme

from streameval_server import Settings, create_token
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Certificates:
    """The certificate files of a test authority."""

    directory: Path
    ca: trustme.CA

    @classmethod
    def made(cls, directory: Path) -> Certificates:
        """Create an authority and a server certificate for this machine."""
        directory.mkdir(exist_ok=True)
        made = cls(directory, trustme.CA())
        made.ca.cert_pem.write_to_path(made.root)
        made.renew()
        return made

    @property
    def root(self) -> Path:
        """The authority's certificate."""
        return self.directory / "ca.pem"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.directory / "server.pem"

    @property
    def key(self) -> Path:
        """The server's key."""
        return self.directory / "server.key"

    def renew(self) -> None:
        """Give the server another certificate."""
        self._write(self.ca, "server")

    def client(self, name: str = "client", ca: trustme.CA | None = None) -> tuple[Path, Path]:
        """Return the certificate and the key of a client."""
        return self._write(ca or self.ca, name)

    def _write(self, ca: trustme.CA, name: str) -> tuple[Path, Path]:
        leaf = ca.issue_cert("localhost", "127.0.0.1")
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        leaf.private_key_pem.write_to_path(key)
        leaf.cert_chain_pems[0].write_to_path(certificate)
        return certificate, key


@contextmanager
def secured(certificates: Certificates, tokens: Path | None, **more: object) -> Iterator[str]:
    """Run a server in memory with TLS; yield its address."""
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        tls_certificate=certificates.certificate,
        tls_key=certificates.key,
        tokens=tokens,
        **more,
    )
    with running_server(settings) as address:
        yield address


def secure_channel(certificates: Certificates, address: str) -> grpc.Channel:
    """Return a channel that trusts the test authority, on a connection of its own."""
    credentials = grpc.ssl_channel_credentials(certificates.root.read_bytes())
    return grpc.secure_channel(address, credentials, (("grpc.use_local_subchannel_pool", 1),))


def bearer(token: str) -> tuple[tuple[str, str]]:
    """Return the metadata that carries a token."""
    return (("authorization", f"Bearer {token}"),)


def tokens_for(path: Path, **wanted: tuple[str, ...]) -> dict[str, str]:
    """Create one token for each name, with its scopes."""
    return {name: create_token(path, name, scopes) for name, scopes in wanted.items()}
