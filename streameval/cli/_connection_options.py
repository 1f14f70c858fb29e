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

from streameval.cli._connection import (
    ConnectionOptions,
    current_connection,
    option_name,
    variable_name,
)
from streameval.cli._errors import one_line_errors

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

_PANEL = "ConnectionOptions"
_HELP = {
    "token_file": "File with the token for a server. [default: the token in STREAMEVAL_TOKEN]",
    "tls": "Connect with TLS.",
    "root_certificates": "Certificate authorities to trust, in PEM.",
    "client_certificate": "For servers that require one (mTLS).",
    "client_key": "Its private key.",
}

_TYPES: dict[str, Any] = {"tls": bool | None}
"""Types of the options that are not paths."""


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
                    option_name(name),
                    envvar=variable_name(name) if before_command else None,
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
    """Give a command the options of a connection, recorded before it runs, and one-line errors.

    Parameters
    ----------
    function : callable
        The command, for use as a decorator.
    before_command : bool
        Whether the function runs before the command. Then environment variables can set its
        options. The command's own options take none: a variable would override an option that
        stands before the command.
    """
    if function is None:
        return functools.partial(connects, before_command=before_command)
    added = _parameters(before_command=before_command)

    @functools.wraps(function)
    def run(**values: Any) -> R:
        given = {each.name: values.pop(each.name) for each in added}
        given = {name: value for name, value in given.items() if value is not None}
        before = (
            ConnectionOptions() if before_command else current_connection.get(ConnectionOptions())
        )
        current_connection.set(replace(before, **given))
        with one_line_errors():
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
