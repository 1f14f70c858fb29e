"""TLS for the server: certificates that may change while it runs.

gRPC and HTTP ask for the certificates at each handshake; they are read again when
their files have changed. When the files do not fit together (a new certificate with
an old key, half of a file), the certificates in use stay and the log says so. Open
connections keep the certificates that they were opened with.

A TLS session is resumed without looking at the client's certificate again, so sessions
must not outlive the authorities under which they were made. OpenSSL keeps the keys of
session tickets and the cache of sessions in the context: connections are made by the
newest context from their first byte, and a context ends with the files it was read from.
gRPC makes a context for each handshake, and so never resumes a session.
"""

from __future__ import annotations

import codecs
import logging
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from streameval.checks import read_file
from streameval_server._model.server_settings import SettingsError
from streameval_server._security.file_signature import file_signature

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streameval_server._security.file_signature import Signature

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of the certificates, all in PEM.

    Attributes
    ----------
    certificate : Path
        The server's certificate, followed by its intermediate ones.
    key : Path
        Its private key, without a password.
    client_ca : Path or None
        Authorities that must have issued clients' certificates (mTLS); None
        asks clients for no certificate.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def signature(self) -> Signature:
        """Return a value that differs once a file has changed."""
        paths = (self.certificate, self.key, self.client_ca)
        return file_signature(*(path for path in paths if path is not None))

    def read(self) -> _Credentials:
        """Read the files and check that they fit together.

        Raises
        ------
        SettingsError
            When a file cannot be read, holds no PEM of its kind, or the key is
            not the certificate's.
        """
        key, certificate = _read(self.key), _read(self.certificate)
        roots = None if self.client_ca is None else _read(self.client_ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without `password`, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, ValueError) as error:
            raise SettingsError(
                f"{self.certificate} and {self.key} are not a certificate and its private key, "
                f"in PEM and without a password: {error}"
            ) from error
        if roots is not None:
            try:
                context.load_verify_locations(cadata=roots.decode("ascii"))
            except (ssl.SSLError, ValueError) as error:
                raise SettingsError(
                    f"{self.client_ca} holds no certificates in PEM: {error}"
                ) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return _Credentials(
            grpc.ssl_server_certificate_configuration([(key, certificate)], roots), context
        )


@dataclass(frozen=True, slots=True)
class _Credentials:
    """The files' content, for gRPC and for Python's ssl."""

    grpc: grpc.ServerCertificateConfiguration
    context: ssl.SSLContext


def _read(path: Path) -> bytes:
    try:
        data = read_file(path)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    if data.startswith(codecs.BOM_UTF8 + b"-----"):  # OpenSSL would not see this line
        raise SettingsError(f"{path} begins with a byte order mark: save it without one")
    return data


class _NewestContext(ssl.SSLContext):
    """Creates each connection of an asyncio server with the newest context.

    A callback for the server's name (`sni_callback`) could also change the context of a
    connection, but OpenSSL would resume sessions by the keys of the first context.
    """

    newest: Callable[[], ssl.SSLContext]

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Return a connection of the newest context; asyncio calls this for each one."""
        return self.newest().wrap_bio(*args, **options)


class Certificates:
    """The certificates in use, for gRPC's threads and the event loop.

    Raises
    ------
    SettingsError
        As `TlsFiles.read`.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._signature = files.signature()
        self._current = files.read()

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials to open a port with."""
        return grpc.dynamic_ssl_server_credentials(
            self._current.grpc,
            lambda: self._newest().grpc,
            require_client_authentication=self._files.client_ca is not None,
        )

    def ssl_context(self) -> ssl.SSLContext:
        """Return the context for a socket: each connection takes the newest certificates."""
        context = _NewestContext(ssl.PROTOCOL_TLS_SERVER)
        context.newest = lambda: self._newest().context
        return context

    def _newest(self) -> _Credentials:
        """Return the certificates for the next handshake. Never raises."""
        with self._lock:
            signature = self._files.signature()
            if signature != self._signature:
                try:
                    read = self._files.read()
                except (SettingsError, OSError) as error:
                    _log.error("the certificates stay as they were: %s", error)
                    self._signature = signature
                    return self._current
                # The signature is older than the content: files that changed while they
                # were read are read again at the next handshake.
                self._signature = signature
                self._current = read
                _log.warning("the certificates were read again")
            return self._current
