"""Credentials of one connection: TLS, certificates, tokens.

Certificate files that have changed are read again at the next call, and a token can
come from a function, so a long-running client survives the renewal of both.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from streameval._common.addresses import is_local
from streameval._common.errors import InvalidInputError
from streameval._common.text_file import read_file

if TYPE_CHECKING:
    from collections.abc import Callable

    Pem = str | os.PathLike[str] | bytes
    """A PEM file's path, or its content as bytes."""
    Token = str | Callable[[], str]
    """A token, or a function that returns it, called for each call."""

Metadata = tuple[tuple[str, str], ...]

Signature = tuple[tuple[int, int, int] | None, ...]
"""Modification time in ns, size and inode of each file; None for one that is missing."""


class Credentials:
    """Credentials for the server at one address.

    Parameters
    ----------
    address : str
        ``host:port``.
    token : str or callable or None
        Sent with each call.
    tls : bool
        Encrypt, and check the server's certificate, also without the next three.
    root_certificates : path or bytes or None
        Authorities to trust instead of gRPC's own list.
    client_certificate, client_key : path or bytes or None
        For a server that requires client certificates (mTLS); both or neither.
    channel : grpc.ChannelCredentials or None
        Any other channel credentials of gRPC, instead of the parameters above.
    is_https : bool
        Whether the address is written as ``https://``: as `tls`, also with other credentials.

    Attributes
    ----------
    is_local : bool
        Whether the traffic stays on this machine.
    is_encrypted : bool
    has_files : bool
        Whether certificates or keys are in files, which can change.

    Raises
    ------
    InvalidInputError
        When parameters exclude or require each other, a file cannot be read, or
        a token would travel in plain text to another machine.
    """

    def __init__(
        self,
        address: str,
        *,
        token: Token | None = None,
        tls: bool = False,
        root_certificates: Pem | None = None,
        client_certificate: Pem | None = None,
        client_key: Pem | None = None,
        channel: grpc.ChannelCredentials | None = None,
        is_https: bool = False,
    ) -> None:
        pems = (root_certificates, client_key, client_certificate)
        if (client_certificate is None) != (client_key is None):
            raise InvalidInputError(
                "client_certificate and client_key need each other: give both", field="client_key"
            )
        if channel is not None and (tls or any(pem is not None for pem in pems)):
            raise InvalidInputError(
                "give either credentials or certificates, not both", field="credentials"
            )
        self.is_local = is_local(address)
        has_pem = any(pem is not None for pem in pems)
        self.is_encrypted = channel is not None or tls or is_https or has_pem
        if token is not None and not self.is_encrypted and not self.is_local:
            raise InvalidInputError(
                f"a token must not travel in plain text to {address}: give root_certificates=, "
                "or tls=True to trust the authorities that gRPC knows",
                field="token",
            )
        self._token = token
        self._channel_credentials = channel
        self._pems = pems
        self.has_files = any(pem is not None and not isinstance(pem, bytes) for pem in pems)
        self._signature = self._file_signature()
        self._contents = self._read_contents()  # refuses unreadable files at once

    def metadata(self) -> Metadata:
        """Return the metadata of a call: the token, if there is one."""
        if self._token is None:
            return ()
        token = self._token if isinstance(self._token, str) else self._token()
        return (("authorization", f"Bearer {token.strip()}"),)

    @property
    def changed(self) -> bool:
        """Whether a file has changed since `channel` was last called. O(files) system calls."""
        return self._file_signature() != self._signature

    def channel(self) -> grpc.ChannelCredentials | None:
        """Return the credentials to open a channel with; None for plain text.

        If a changed file cannot be read, perhaps in the middle of the change, the
        previous contents stay in use.
        """
        if self._channel_credentials is not None or not self.is_encrypted:
            return self._channel_credentials
        now = self._file_signature()
        if now != self._signature:
            self._signature = now
            with contextlib.suppress(InvalidInputError):
                self._contents = self._read_contents()
        roots, key, certificate = self._contents
        return grpc.ssl_channel_credentials(roots, key, certificate)

    def _read_contents(self) -> list[bytes | None]:
        return [None if pem is None else _content(pem) for pem in self._pems]

    def _file_signature(self) -> Signature:
        return tuple(
            _stat(Path(pem)) for pem in self._pems if pem is not None and not isinstance(pem, bytes)
        )


def _content(pem: Pem) -> bytes:
    if isinstance(pem, bytes):
        return pem
    try:
        return read_file(Path(pem))
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {os.fspath(pem)}: {error.strerror}", field="certificates"
        ) from error


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
