"""The settings of a server, checked before it starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import platformdirs

from streameval import InvalidInputError, StreamEvalError
from streameval.checks import read_span, stream_name_problem
from streameval.payloads import PayloadMapping  # noqa: TC001 - `configuration` reads the hints
from streameval_server._model.limits import Limits

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

HTTP_OFF = "off"
_HTTP_PORT = 8080
_MAX_WINDOW_S = 366 * 86_400
_MAX_SPAN = timedelta(days=100 * 365)


class SettingsError(StreamEvalError, ValueError):
    """Settings with which a server cannot or should not start."""

    __module__ = "streameval_server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server.

    Raises
    ------
    SettingsError
        When `listen` or `http` is not ``HOST:PORT``, or names an address that
        other machines can reach without both TLS and tokens while `insecure` is
        False; when two settings exclude each other, or one needs another.
    """

    listen: str = "127.0.0.1:50051"
    """Where to listen: ``HOST:PORT``, ``[IPV6]:PORT``; port 0 picks a free one."""

    http: str | None = None
    """Where to serve HTTP: ``HOST:PORT``, or ``off``. None is the host of `listen` and port
    8080, or a free port if the port of `listen` is 0."""

    data: Path | None = None
    """Directory of the log and its checkpoints; None is `default_data_directory`."""

    memory: bool = False
    """Keep everything in memory only: nothing survives a stop."""

    insecure: bool = False
    """Listen on addresses that other machines can reach without TLS and tokens."""

    tls_certificate: Path | None = None
    """The server's certificate and the intermediate certificates, in PEM."""

    tls_key: Path | None = None
    """Its private key, in PEM, without a password."""

    tls_client_ca: Path | None = None
    """The authorities that must have issued each client's certificate (mTLS), in PEM."""

    tokens: Path | None = None
    """The tokens file; without one, every client that reaches the server may do everything."""

    accept_loss: bool = False
    """Start although the log has lost acknowledged rows, and record that: for one start, after
    the operator has decided to go on with what is left."""

    auto_create: bool = True
    """Whether a batch for a stream that does not exist creates it."""

    log_format: LogFormat = "text"
    """Lines of text, or one JSON object a line."""

    log_level: LogLevel = "info"
    """The lowest level that is logged."""

    stop_grace: timedelta | str = "5s"
    """How long a stopping server waits for requests in progress."""

    metrics_window: timedelta | str = "1h"
    """Length of the recent window whose metrics are exported to Prometheus."""

    ingest: tuple[PayloadMapping, ...] = ()
    """Mappings of payloads to rows, in the order in which they are tried; ``[[ingest]]`` in the
    file. Without one no CloudEvents are taken."""

    intake: str | None = None
    """Where to take CloudEvents from senders that have no tokens: ``HOST:PORT``, plain HTTP."""

    intake_streams: tuple[str, ...] = ()
    """The streams that senders without tokens may write, and those below them."""

    webhook: str | None = None
    """Where to send alarms: https, or http to this machine; nowhere else."""

    webhook_secret: Path | None = None
    """The file with the key that signs them, at least 24 bytes."""

    limits: Limits = field(default_factory=Limits)
    """Limits on requests, on streams and on the whole server."""

    def __post_init__(self) -> None:
        listens = (self.listen, self.http_address())
        hosts = [split_address(listen)[0] for listen in listens if listen is not None]
        if self.memory and self.data is not None:
            raise SettingsError("a server in memory has no data directory: give one of the two")
        self._check_numbers()
        self._check_intake()
        self._check_webhook()
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise SettingsError("tls_certificate and tls_key need each other: give both")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise SettingsError("tls_client_ca needs tls_certificate and tls_key")
        secured = self.tls_certificate is not None and self.tokens is not None
        for host in hosts:
            if not (secured or self.insecure or is_loopback(host)):
                raise SettingsError(
                    f"refusing to listen on {host or 'every address'}: other machines could reach "
                    f"it, and there is no {self._missing()}. Give --tls-certificate, --tls-key and "
                    "--tokens, listen on 127.0.0.1, or allow it with --insecure"
                )

    def _check_intake(self) -> None:
        """Raise SettingsError where CloudEvents could not be taken, or everybody could write."""
        for name in self.intake_streams:
            problem = stream_name_problem(name, self.limits.max_stream_name)
            if problem is not None:
                raise SettingsError(f"intake_streams: {problem}")
        if self.intake is None:
            return
        split_address(self.intake, "intake")
        if not self.ingest:
            raise SettingsError("intake needs mappings: give the file an [[ingest]] table")
        if not self.intake_streams:
            raise SettingsError("intake needs intake_streams: the streams that all may write")

    def _check_webhook(self) -> None:
        """Raise SettingsError where alarms would be sent in plain text, or without a signature."""
        if (self.webhook is None) != (self.webhook_secret is None):
            raise SettingsError("webhook and webhook_secret need each other: give both")
        if self.webhook is None:
            return
        try:
            parts = urlsplit(self.webhook)
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise SettingsError(f"webhook must be a URL: {error}") from error
        if parts.username is not None or parts.password is not None:
            raise SettingsError("webhook must have no user or password: they would be in the log")
        if not host or port == 0 or parts.scheme not in {"http", "https"}:
            raise SettingsError(f"webhook must be https://HOST/..., got {self.webhook!r:.80}")
        if parts.scheme != "https" and not is_loopback(host):
            raise SettingsError(f"webhook to {host} must be https: alarms name what you model")
        # What no request can carry would fail with the first alarm, not at the start.
        is_plain = self.webhook.isprintable() and " " not in self.webhook
        if not (is_plain and parts.path.isascii() and parts.query.isascii()):
            raise SettingsError(
                "webhook must have no spaces, and only ASCII after its host, "
                f"got {self.webhook!r:.80}: write other characters as %XX"
            )

    def _check_numbers(self) -> None:
        """Raise SettingsError where a number or a span of time is out of its range."""
        spans = {"stop_grace": self.stop_grace, "metrics_window": self.metrics_window}
        for field_ in fields(self.limits):
            name, value = field_.name, getattr(self.limits, field_.name)
            if isinstance(field_.default, str):
                spans[f"limits.{name}"] = value
                continue
            minimum = 0 if name == "max_state_bytes" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
                raise SettingsError(f"limits.{name} must be at least {minimum}, got {value!r:.80}")
        for name, value in spans.items():
            try:
                span = read_span(value, name)
            except InvalidInputError as error:
                raise SettingsError(str(error)) from None
            if not timedelta(0) < span <= _MAX_SPAN:
                raise SettingsError(f"{name} must be more than 0s and at most 100y, got {value}")
        if not 1 <= self.metrics_window_s <= _MAX_WINDOW_S:
            raise SettingsError(
                f"metrics_window must be from 1s to 366d, got {self.metrics_window}"
            )

    @property
    def stop_grace_s(self) -> float:
        """`stop_grace` in seconds."""
        return read_span(self.stop_grace, "stop_grace").total_seconds()

    @property
    def metrics_window_s(self) -> float:
        """`metrics_window` in seconds."""
        return read_span(self.metrics_window, "metrics_window").total_seconds()

    def _missing(self) -> str:
        missing = []
        if self.tls_certificate is None:
            missing.append("TLS")
        if self.tokens is None:
            missing.append("tokens file")
        return " and no ".join(missing)

    def http_address(self) -> str | None:
        """Return where to serve HTTP, ``HOST:PORT``; None when it is off."""
        if self.http == HTTP_OFF:
            return None
        if self.http is not None:
            split_address(self.http, "http")
            return self.http
        split_address(self.listen)
        host, _, port = self.listen.rpartition(":")
        return f"{host}:{_HTTP_PORT if int(port) else 0}"

    def directory(self) -> Path | None:
        """Return the data directory; None for a server in memory.

        Raises
        ------
        SettingsError
            As `default_data_directory`, where no directory is given.
        """
        if self.memory:
            return None
        return self.data if self.data is not None else default_data_directory()


def default_data_directory() -> Path:
    """Return the server's directory in the user's application data.

    Raises
    ------
    SettingsError
        When the user has no home directory, as many users of containers have none.
    """
    try:
        data = platformdirs.user_data_dir("streameval", appauthor=False)
    except RuntimeError:  # as Path.home raises it
        data = "~"
    if data.startswith("~"):  # or as os.path.expanduser leaves it
        raise SettingsError(
            "this user has no home directory to keep the log in: give --data DIRECTORY or the "
            "variable STREAMEVAL_DATA, or --memory to keep nothing"
        )
    return Path(data) / "server"


def split_address(listen: str, setting: str = "listen") -> tuple[str, int]:
    """Split ``HOST:PORT`` (an IPv6 host stands in brackets).

    Parameters
    ----------
    listen
        The address.
    setting
        The setting's name, for the message.

    Raises
    ------
    SettingsError
        When there is no port, or it is not a number from 0 to 65535.

    Examples
    --------
    >>> split_address("127.0.0.1:0"), split_address("[::1]:50051")
    (('127.0.0.1', 0), ('::1', 50051))
    """
    host, colon, port = listen.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not _is_port(port) or (":" in host and not bracketed):
        raise SettingsError(
            f"{setting} must be HOST:PORT, for instance 127.0.0.1:0, got {listen!r}"
        )
    return (host[1:-1] if bracketed else host), int(port)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= 65535


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`.

    A name other than localhost is not resolved, because its address may change.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
