"""Connects commands to a server: the certificates and the token, set by global options."""

from __future__ import annotations

import logging
import os
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError
from streameval.client import Client
from streameval.client._wire.credentials import Credentials
from streameval.client._wire.transport import Transport

if TYPE_CHECKING:
    from pathlib import Path

    from streameval.client._buffer.buffer import WhenFull

TOKEN_VARIABLE = "STREAMEVAL_TOKEN"  # noqa: S105 - its name


@dataclass(frozen=True, slots=True)
class Connection:
    """The values of the options before the command."""

    token_file: Path | None = None
    tls: bool = False
    root_certificates: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    def token(self) -> str | None:
        """Return the token; it is not an option, because other users can see those."""
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE) or None
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StreamEvalError(f"cannot read {self.token_file}: {error}") from error


current_connection: ContextVar[Connection] = ContextVar("streameval_connection")
"""The connection options of this command line."""


def transport(address: str) -> Transport:
    """Return a transport to a server, for methods that `Client` does not have."""
    connection = current_connection.get(Connection())
    return Transport(
        address,
        Credentials(
            address,
            token=connection.token(),
            tls=connection.tls,
            root_certificates=connection.root_certificates,
            client_certificate=connection.client_certificate,
            client_key=connection.client_key,
        ),
    )


def connect(address: str, *, when_full: WhenFull = "drop") -> Client:
    """Return a client with the options of this command line."""
    connection = current_connection.get(Connection())
    # The command reports lost rows itself, so the client's log would repeat them.
    logging.getLogger("streameval.client").setLevel(logging.CRITICAL)
    return Client(
        address,
        token=connection.token(),
        tls=connection.tls,
        root_certificates=connection.root_certificates,
        client_certificate=connection.client_certificate,
        client_key=connection.client_key,
        when_full=when_full,
    )
