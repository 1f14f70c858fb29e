"""How to connect to a server: by options, then variables, then the profile, then defaults.

Imports nothing slow, for ``health``; the client is imported by the functions that return one.
"""

from __future__ import annotations

import difflib
import logging
import os
import shlex
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streameval._common.addresses import is_local, read_address
from streameval._common.errors import StreamEvalError
from streameval._common.text_file import read_file, read_text, read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streameval.client import Client
    from streameval.client._wire.transport import Transport

DEFAULT_SERVER = "127.0.0.1:50051"

DEFAULT_TIMEOUT_S = 4.0
"""How long ``health`` waits: less than the 5 s that probes give it."""

_TOKEN_NAMES = frozenset({"token", "token_file"})
_SWITCHES = {"1": True, "true": True, "yes": True, "on": True} | dict.fromkeys(
    ("0", "false", "no", "off"), False
)


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The values of the options; None where an option was not given."""

    server: str | None = None
    profile: Path | None = None
    token_file: Path | None = None
    tls: bool | None = None
    root_certificates: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None


OPTIONS = tuple(each.name for each in fields(ConnectionOptions))

_PROFILE_KEYS = ("token", *(name for name in OPTIONS if name != "profile"))

current_connection: ContextVar[ConnectionOptions] = ContextVar("streameval_connection")
"""The connection options of this command line."""


current_arguments: ContextVar[Sequence[str]] = ContextVar("streameval_arguments", default=())
"""The arguments of this command line."""


class CalledCommand(NamedTuple):
    """The words of a command's name, such as ``marks``, ``add``, and the values it was given."""

    words: tuple[str, ...] = ()
    values: Mapping[str, Any] = {}


_NOT_YET = CalledCommand()
current_command: ContextVar[CalledCommand] = ContextVar("streameval_command", default=_NOT_YET)
"""The command of this command line, once its options are understood."""


def option_name(name: str) -> str:
    """Return the option of a field of `ConnectionOptions`."""
    return "--" + name.replace("_", "-")


def variable_name(name: str) -> str:
    """Return the environment variable of a field of `ConnectionOptions`, or of ``token``."""
    return f"STREAMEVAL_{name.upper()}"


class _Given(NamedTuple):
    """A value, and the option, variable or key of the profile that it comes from."""

    value: Any
    source: str


class Connection:
    """The settings of a connection, each from the first source that has it.

    Parameters
    ----------
    given : ConnectionOptions
    configured : str, optional
        The server in a command's own file, which is nearer than the profile.

    Attributes
    ----------
    address : str
        ``host:port``.
    source : str
        The option, variable or key that the address comes from.
    is_encrypted : bool
        Whether to connect with TLS: https:// and each certificate option turn it on.
    has_option : bool
        Whether an option names the server, so that another command needs it, too.

    Raises
    ------
    StreamEvalError
        For an address or a profile that cannot be understood.
    """

    def __init__(self, given: ConnectionOptions, configured: str | None = None) -> None:
        found = {"server": _Given(DEFAULT_SERVER, "")}
        variables = _from_variables()
        profile = _from_profile(given, variables)
        if configured is not None:
            profile["server"] = _Given(configured, "server")
        for layer in (profile, variables, _from_options(given)):
            if _TOKEN_NAMES & layer.keys():
                found = {name: each for name, each in found.items() if name not in _TOKEN_NAMES}
            found |= layer
        self._found = found
        self.has_option = given.server is not None
        server = found["server"]
        self.source = server.source or "the default"
        self.address, is_https = read_address(server.value, server.source or "--server")
        self.tls = is_https or bool(self._value("tls"))
        pems = map(self._value, ("root_certificates", "client_certificate", "client_key"))
        self.is_encrypted = self.tls or any(pem is not None for pem in pems)

    def _value(self, name: str) -> Any:
        given = self._found.get(name)
        return None if given is None else given.value

    def token(self) -> str | None:
        """Return the token; it is not an option, because other users can see those."""
        file = self._found.get("token_file")
        if file is None:
            token = self._value("token")
            return None if token is None else str(token)
        try:
            token = read_text(file.value).strip()
        except (OSError, ValueError) as error:
            raise StreamEvalError(f"{file.source}: cannot read {file.value}: {error}") from None
        if not token:
            raise StreamEvalError(f"{file.source}: {file.value} is empty")
        return token

    def pem(self, name: str) -> bytes | None:
        """Return the content of the file of an option; None when it was not given."""
        given = self._found.get(name)
        if given is None:
            return None
        try:
            return read_file(given.value)
        except OSError as error:
            message = f"{given.source}: cannot read {given.value}: {error.strerror}"
            raise StreamEvalError(message) from None

    def check_certificates(self) -> None:
        """Refuse a certificate without its key, and files that cannot be read."""
        if ("client_certificate" in self._found) != ("client_key" in self._found):
            raise StreamEvalError(
                "--client-certificate and --client-key need each other: give both"
            )
        for name in ("root_certificates", "client_certificate", "client_key"):
            self.pem(name)

    def client_options(self) -> dict[str, Any]:
        """Return the arguments of `Client` and `Credentials`, refused here by their sources."""
        self.check_certificates()
        token = self.token()
        if token is not None and not self.is_encrypted and not is_local(self.address):
            source = (self._found.get("token_file") or self._found["token"]).source
            raise StreamEvalError(
                f"{source}: a token must not travel in plain text to {self.address}: give "
                "--root-certificates, or --tls to trust the authorities that gRPC knows"
            )
        names = ("root_certificates", "client_certificate", "client_key")
        return {"token": token, "tls": self.tls, **{name: self._value(name) for name in names}}


def connection(configured: str | None = None) -> Connection:
    """Return the connection of this command line; parameters as of `Connection`."""
    return Connection(current_connection.get(ConnectionOptions()), configured)


def command(*words: object) -> str:
    """Return a command on the same server, as it can be pasted."""
    current = connection()
    server = ["--server", current.address] if current.has_option else []
    return shlex.join(["streameval", *map(str, words), *server])


def transport(current: Connection | None = None) -> Transport:
    """Return a transport to the server, for methods that `Client` does not have."""
    from streameval.client._wire.credentials import Credentials  # noqa: PLC0415 - slow to import
    from streameval.client._wire.transport import Transport  # noqa: PLC0415 - as above

    current = current or connection()
    options = current.client_options()
    return Transport(current.address, Credentials(current.address, **options))


def connect(*, timeout_s: float = 10.0) -> Client:
    """Return a client with the options of this command line; a query waits for `timeout_s`."""
    from streameval.client import Client  # noqa: PLC0415 - slow to import

    current = connection()
    options = current.client_options()
    # The command reports lost rows itself, so the client's log would repeat them.
    logging.getLogger("streameval.client").setLevel(logging.CRITICAL)
    return Client(current.address, **options, timeout_s=timeout_s)


def _from_options(given: ConnectionOptions) -> dict[str, _Given]:
    values = ((name, getattr(given, name)) for name in OPTIONS)
    return {name: _Given(value, option_name(name)) for name, value in values if value is not None}


def _from_variables() -> dict[str, _Given]:
    texts = ((name, os.environ.get(variable_name(name))) for name in ("token", *OPTIONS))
    return {name: _typed(name, text, variable_name(name)) for name, text in texts if text}


def _typed(name: str, value: Any, source: str) -> _Given:
    """Return a value from a variable or a profile as the option's type."""
    if name == "tls":
        switch = _SWITCHES.get(str(value).lower())
        if switch is None:
            raise StreamEvalError(f"{source} must be true or false, got {value!r}")
        return _Given(switch, source)
    if not isinstance(value, str):
        raise StreamEvalError(f"{source} must be a text in quotes, got {value!r}")
    if name in {"server", "token"}:
        return _Given(value, source)
    return _Given(Path(value).expanduser(), source)


def profile_path() -> Path | None:
    """Return where the user's profile is looked for; None for a user without a home."""
    variable = "APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME"
    try:
        base = Path(os.environ.get(variable) or Path.home() / ".config")
    except RuntimeError:
        return None
    return base / "streameval" / "profile.toml"


def _from_profile(given: ConnectionOptions, variables: Mapping[str, _Given]) -> dict[str, _Given]:
    """Return the settings of the profile that was named, or of the user's own if there is one."""
    named = _from_options(given).get("profile") or variables.get("profile")
    path = named.value if named is not None else profile_path()
    if path is None or (named is None and not path.is_file()):
        return {}
    try:
        table = read_toml(path)
        others_read = os.name == "posix" and path.stat().st_mode & 0o077
    except (OSError, ValueError) as error:
        source = "" if named is None else f"{named.source}: "
        raise StreamEvalError(f"{source}cannot read the profile {path}: {error}") from None
    for key in table:
        if key not in _PROFILE_KEYS:
            close = difflib.get_close_matches(key, _PROFILE_KEYS, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"use {', '.join(_PROFILE_KEYS)}"
            raise StreamEvalError(f"{path}: a profile has no {key!r}: {hint}")
    if "token" in table and others_read:
        raise StreamEvalError(
            f"{path}: other users can read the token in it; run: chmod 600 {shlex.quote(str(path))}"
        )
    found = {key: _typed(key, value, f"{key} in {path}") for key, value in table.items()}
    # A path is relative to the profile, which is read from any directory.
    return {
        key: each._replace(value=path.parent / each.value) if isinstance(each.value, Path) else each
        for key, each in found.items()
    }
