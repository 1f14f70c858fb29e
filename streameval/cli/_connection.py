"""How to connect to a server, from options and variables.

Imports nothing slow, for ``health``; the client is imported by the functions that return one.
"""

from __future__ import annotations

import logging
import os
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streameval._common.addresses import is_local
from streameval._common.errors import StreamEvalError
from streameval._common.text_file import read_file, read_text

if TYPE_CHECKING:
    from streameval.client import Client
    from streameval.client._wire.transport import Transport

TOKEN_VARIABLE = "STREAMEVAL_TOKEN"  # noqa: S105 - its name

DEFAULT_TIMEOUT_S = 4.0
"""How long ``health`` waits: less than the 5 s that probes give it."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The values of the options."""

    token_file: Path | None = None
    tls: bool = False
    root_certificates: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether to connect with TLS: each certificate option turns it on."""
        pems = (self.root_certificates, self.client_certificate, self.client_key)
        return self.tls or any(pem is not None for pem in pems)

    def token(self) -> str | None:
        """Return the token; it is not an option, because other users can see those."""
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE) or None
        try:
            token = read_text(self.token_file).strip()
        except (OSError, ValueError) as error:
            raise StreamEvalError(f"--token-file: cannot read {self.token_file}: {error}") from None
        if not token:
            raise StreamEvalError(f"--token-file: {self.token_file} is empty")
        return token

    def pem(self, name: str) -> bytes | None:
        """Return the content of the file of an option; None when it was not given."""
        path: Path | None = getattr(self, name)
        if path is None:
            return None
        try:
            return read_file(path)
        except OSError as error:
            raise StreamEvalError(
                f"{option_name(name)}: cannot read {path}: {error.strerror}"
            ) from None

    def check_certificates(self) -> None:
        """Refuse a certificate without its key, and files that cannot be read."""
        if (self.client_certificate is None) != (self.client_key is None):
            raise StreamEvalError(
                "--client-certificate and --client-key need each other: give both"
            )
        for name in ("root_certificates", "client_certificate", "client_key"):
            self.pem(name)

    def check(self, address: str) -> None:
        """Refuse the options as `Credentials` does, by their names on the command line."""
        self.check_certificates()
        if self.token() is not None and not self.is_encrypted and not is_local(address):
            option = TOKEN_VARIABLE if self.token_file is None else "--token-file"
            raise StreamEvalError(
                f"{option}: a token must not travel in plain text to {address}: give "
                "--root-certificates, or --tls to trust the authorities that gRPC knows"
            )


current_connection: ContextVar[ConnectionOptions] = ContextVar("streameval_connection")
"""The connection options of this command line."""


def option_name(name: str) -> str:
    """Return the option of a field of `ConnectionOptions`."""
    return "--" + name.replace("_", "-")


def variable_name(name: str) -> str:
    """Return the environment variable of a field of `ConnectionOptions`."""
    return f"STREAMEVAL_{name.upper()}"


def transport(address: str) -> Transport:
    """Return a transport to a server, for methods that `Client` does not have."""
    from streameval.client._wire.credentials import Credentials  # noqa: PLC0415 - slow to import
    from streameval.client._wire.transport import Transport  # noqa: PLC0415 - as above

    return Transport(address, Credentials(address, **_checked_options(address)))


def connect(address: str, *, timeout_s: float = 10.0) -> Client:
    """Return a client with the options of this command line; a query waits for `timeout_s`."""
    from streameval.client import Client  # noqa: PLC0415 - slow to import

    options = _checked_options(address)
    # The command reports lost rows itself, so the client's log would repeat them.
    logging.getLogger("streameval.client").setLevel(logging.CRITICAL)
    return Client(address, **options, timeout_s=timeout_s)


def _checked_options(address: str) -> dict[str, Any]:
    """Return the options of this command line as arguments of `Client` and `Credentials`."""
    connection = current_connection.get(ConnectionOptions())
    connection.check(address)
    return {
        "token": connection.token(),
        "tls": connection.tls,
        "root_certificates": connection.root_certificates,
        "client_certificate": connection.client_certificate,
        "client_key": connection.client_key,
    }
