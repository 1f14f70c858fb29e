"""The options that say how to connect to a server; imports nothing slow, for ``health``.

They may stand before the command or after it; those after it take precedence.
"""

from __future__ import annotations

import functools
import inspect
import os
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from streameval._common.addresses import is_local
from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

TOKEN_VARIABLE = "STREAMEVAL_TOKEN"  # noqa: S105 - its name

_PANEL = "Connection"
_HELP = {
    "token_file": "File with the token for a server. [default: the token in STREAMEVAL_TOKEN]",
    "tls": "Connect with TLS.",
    "root_certificates": "Certificate authorities to trust, in PEM.",
    "client_certificate": "For servers that require one (mTLS).",
    "client_key": "Its private key.",
}

_TYPES: dict[str, Any] = {"tls": bool | None}
"""Types of the options that are not paths."""


@dataclass(frozen=True, slots=True)
class Connection:
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
            token = self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
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
            return path.read_bytes()
        except OSError as error:
            raise StreamEvalError(
                f"{_option(name)}: cannot read {path}: {error.strerror}"
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


current_connection: ContextVar[Connection] = ContextVar("streameval_connection")
"""The connection options of this command line."""


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _parameters(*, before_command: bool) -> list[inspect.Parameter]:
    """Return the options as parameters of a function; each is None when it was not given."""
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                _TYPES.get(name, Path | None),
                typer.Option(
                    _option(name),
                    envvar=f"STREAMEVAL_{name.upper()}" if before_command else None,
                    help=text,
                    rich_help_panel=_PANEL,
                    show_default=False,
                ),
            ],
        )
        for name, text in _HELP.items()
    ]


def connects(
    function: Callable[..., R] | None = None, *, before_command: bool = False
) -> Callable[..., Any]:
    """Give a command the options of a connection; they are recorded before it runs.

    Parameters
    ----------
    function : callable
        The command, for use as a decorator.
    before_command : bool
        Whether the function runs before the command. Its options can also be given by
        environment variables; with those of the command, a variable would override an option
        before it.
    """
    if function is None:
        return functools.partial(connects, before_command=before_command)
    added = _parameters(before_command=before_command)

    @functools.wraps(function)
    def run(**values: Any) -> R:
        given = {each.name: values.pop(each.name) for each in added}
        given = {name: value for name, value in given.items() if value is not None}
        before = Connection() if before_command else current_connection.get(Connection())
        current_connection.set(replace(before, **given))
        return function(**values)

    # Typer reads both, and cannot resolve the names of annotations in another module.
    hints = get_type_hints(function, include_extras=True)
    own = [
        each.replace(annotation=hints[each.name])
        for each in inspect.signature(function).parameters.values()
    ]
    signature = inspect.Signature([*own, *added])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    return run
