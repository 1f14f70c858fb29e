"""``streameval health`` as probes call it, parsed without typer.

Typer and what it validates options with take a third of the command's memory and half of
its time, and probes run it every few seconds in the server's container. Whatever this
module cannot parse, help and mistakes among them, is left to the complete command line.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from streameval._common.variables import check_variables
from streameval.cli._connection import (
    DEFAULT_TIMEOUT_S,
    OPTIONS,
    CalledCommand,
    ConnectionOptions,
    current_arguments,
    current_command,
    current_connection,
    option_name,
)
from streameval.cli._errors import one_line_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

_SWITCH = "tls"
"""The field of `ConnectionOptions` whose option has no value."""

_INTERRUPTED = 130


class _UnparsedError(Exception):
    """The complete command line has to read these arguments."""


class _ProbeParser(argparse.ArgumentParser):
    def error(self, _message: str) -> NoReturn:
        raise _UnparsedError


def run_probe(arguments: Sequence[str]) -> None:
    """Run ``health`` and exit; return if the complete command line has to read the arguments."""
    try:
        given = _parser().parse_args(arguments)
    except _UnparsedError:
        return
    if not 0.1 <= given.timeout_s < math.inf:
        return
    current_connection.set(ConnectionOptions(**{name: getattr(given, name) for name in OPTIONS}))
    current_arguments.set(arguments)
    current_command.set(CalledCommand(("health",)))
    with one_line_errors():
        check_variables(os.environ)
        from streameval.cli import _health  # noqa: PLC0415 - imports gRPC

        try:
            serving = _health.health(given.timeout_s)
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
    sys.exit(0 if serving else 1)


def _parser() -> _ProbeParser:
    parser = _ProbeParser(add_help=False, allow_abbrev=False)
    _add_connection(parser, before_command=True)
    commands = parser.add_subparsers(required=True)
    health = commands.add_parser("health", add_help=False, allow_abbrev=False)
    health.add_argument("--timeout-s", type=float, default=DEFAULT_TIMEOUT_S)
    _add_connection(health, before_command=False)
    return parser


def _add_connection(parser: argparse.ArgumentParser, *, before_command: bool) -> None:
    """Options after the command leave what stands before it as it is unless they are given."""
    default = None if before_command else argparse.SUPPRESS
    for name in OPTIONS:
        option = option_name(name)
        if name == _SWITCH:
            parser.add_argument(option, action="store_true", default=default)
        else:
            kind = str if name == "server" else Path
            parser.add_argument(option, type=kind, default=default)
