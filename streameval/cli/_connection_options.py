"""The options of a connection as parameters of the commands.

They may stand before the command or after it; those after it take precedence.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from streameval.cli._commands import CONNECTION
from streameval.cli._connection import (
    DEFAULT_SERVER,
    OPTIONS,
    ConnectionOptions,
    current_connection,
    option_name,
)
from streameval.cli._errors import one_line_errors

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

_HELP: dict[str, tuple[Any, str, str]] = {
    "server": (
        str,
        "HOST:PORT",
        f"The server. [default: STREAMEVAL_SERVER, the profile's, or {DEFAULT_SERVER}]",
    ),
    "profile": (
        Path,
        "FILE",
        "TOML file with these and token. [default: ~/.config/streameval/profile.toml]",
    ),
    "token_file": (Path, "FILE", "The token. [default: the token in STREAMEVAL_TOKEN]"),
    "tls": (bool, "", "Connect with TLS."),
    "root_certificates": (Path, "FILE", "Certificate authorities to trust, in PEM."),
    "client_certificate": (Path, "FILE", "For servers that require one (mTLS)."),
    "client_key": (Path, "FILE", "Its private key."),
}
"""The type of each option, what its value is, and its help."""

_PARAMETERS = [
    inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            kind | None,
            typer.Option(
                option_name(name),
                metavar=metavar or None,
                help=text,
                rich_help_panel=CONNECTION,
                show_default=False,
            ),
        ],
    )
    for name, (kind, metavar, text) in _HELP.items()
]


def connects(function: Callable[..., R]) -> Callable[..., Any]:
    """Give a command the options of a connection, recorded before it runs, and one-line errors."""

    @functools.wraps(function)
    def run(**values: Any) -> R:
        given = {name: values.pop(name) for name in OPTIONS}
        given = {name: value for name, value in given.items() if value is not None}
        before = current_connection.get(ConnectionOptions())
        current_connection.set(replace(before, **given))
        with one_line_errors():
            return function(**values)

    # Typer reads both, and cannot resolve the names of annotations in another module.
    hints = get_type_hints(function, include_extras=True)
    own = [
        each.replace(annotation=hints[each.name])
        for each in inspect.signature(function).parameters.values()
    ]
    signature = inspect.Signature([*own, *_PARAMETERS])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    return run
