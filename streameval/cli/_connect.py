"""How the commands reach a server: certificates and the token, given once for all of them."""

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
    """What the options before the command say."""

    token_file: Path | None = None
    tls: bool = False
    root_certificates: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    def token(self) -> str | None:
        """Return the token; not an option, because others see a command's options."""
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE) or None
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StreamEvalError(f"cannot read {self.token_file}: {error}") from error


current_connection: ContextVar[Connection] = ContextVar("streameval_connection")
"""What the options of this command line say."""


def transport(address: str) -> Transport:
    """Return the bare way to a server, for what a client has no verbs for."""
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
    """Return a client as the options say."""
    connection = current_connection.get(Connection())
    # The command says itself, once, what the client would log of losses.
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
