"""Connects commands to a server: the certificates and the token, set by global options."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from streameval.cli._connection import Connection, current_connection
from streameval.client import Client
from streameval.client._wire.credentials import Credentials
from streameval.client._wire.transport import Transport

if TYPE_CHECKING:
    from streameval.client._buffer.buffer import WhenFull


def transport(address: str) -> Transport:
    """Return a transport to a server, for methods that `Client` does not have."""
    connection = _checked_connection(address)
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


def connect(address: str, *, when_full: WhenFull = "drop", timeout_s: float = 10.0) -> Client:
    """Return a client with the options of this command line; `timeout_s` is that of a query."""
    connection = _checked_connection(address)
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
        timeout_s=timeout_s,
    )


def _checked_connection(address: str) -> Connection:
    connection = current_connection.get(Connection())
    connection.check(address)
    return connection
