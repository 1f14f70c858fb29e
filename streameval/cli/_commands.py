"""How all commands are declared: a group's help, and what errors of a command line print.

Help is plain text: names and the kinds of their values are whole on any terminal.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
import typer.core

from streameval._common.redaction import redact_tokens
from streameval._common.variables import check_variables
from streameval.cli._connection import (
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
    from collections.abc import Callable, Iterator

CONNECTION = "Connection"
"""The heading of the options of a connection."""

_VALUES = {
    f"--{option}": value
    for value, options in {
        "SPAN": "label-ttl label-wait maturity mean-time metrics-window pane relabel-ttl retention "
        "stop-grace window",
        "COLUMN": "id label score time",
        "FILE": "config csv labels plot sample spool tls-certificate tls-client-ca tls-key tokens",
        "DIRECTORY": "data to",
        "PATH": "curves",
        "SECONDS": "every timeout-s",
        "COUNT": "bins cluster-groups limit max-cells max-pending negatives positives size",
        "BITS": "resolution",
        "BYTES": "max-state-bytes",
        "NUMBER": "cost-fn cost-fp level min-label-probability min-recall prevalence seed "
        "threshold",
        "LABEL": "negative positive",
        "KEY": "cluster-key",
        "KEY=VALUE": "segment",
        "NAME": "metric stream",
        "NAME=TOLERANCE": "watch",
        "START..END": "reference",
        "TEXT": "prefix search",
        ".|,": "decimal",
        "list|roc|pr": "format",
        "drop|miss": "orphans",
        "drop|negative": "expired",
        "plain|probability": "scale",
        "s|ms|us|ns": "time-unit",
    }.items()
    for option in options.split()
}
"""What the value of an option is, for options whose declaration does not say it."""

_RANGE = re.compile(r"[-\d.<=]*x[-\d.<>=]*")
"""A range as typer adds it to a help; the error of a value outside of it says it, too."""

_ADDRESS = re.compile(r"([\w.+-]+://\S+|(\[[\da-fA-F:.]+\]|[\w.-]+):\d{1,5})")

_UsageError: Any = typer.BadParameter.__base__
"""The error of a wrong command line: click's, or of the copy of click in newer typers."""


class _Command(typer.core.TyperCommand):
    """A command whose help says what a value is, such as SPAN or COLUMN, in place of its type."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        parameters: list[Any] = self.params
        for each in parameters:
            if each.param_type_name == "argument":
                each.metavar = each.metavar or each.name.upper()
            elif not each.is_flag:
                each.metavar = each.metavar or _VALUES[each.opts[0]]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments, in brackets where they may be left out."""
        parameters: list[Any] = self.get_params(ctx)
        arguments = [each for each in parameters if each.param_type_name == "argument"]
        return [
            "[OPTIONS]",
            *(each.metavar if each.required else f"[{each.metavar}]" for each in arguments),
        ]

    def invoke(self, ctx: Any) -> Any:
        """Run the command, which its errors name, unless it would ignore options before it."""
        given = [name for name in OPTIONS if getattr(current_connection.get(), name) is not None]
        if given and given[0] not in ctx.params:
            option = option_name(given[0])
            raise _UsageError(f"{ctx.command_path} asks no server: leave out {option}", ctx)
        with one_line_errors():
            check_variables(os.environ)
        current_command.set(CalledCommand(tuple(ctx.command_path.split()[1:]), ctx.params))
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the options, and the options of the connection."""
        _write_parameters(self, ctx, formatter)


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for each in command.get_params(ctx):
        record = each.get_help_record(ctx)
        if record is None:
            continue
        is_option = each.param_type_name == "option"
        title = getattr(each, "rich_help_panel", None)
        title = title or ("Options" if is_option else "Arguments")
        name = ", ".join([*each.opts, *each.secondary_opts]) if is_option else ""
        value = "" if is_option and each.is_flag else each.metavar
        row = f"{name} {value}".strip(), _help(record[1])
        sections.setdefault(title, []).append(row)
    for title, rows in sorted(sections.items(), key=lambda each: each[0] == CONNECTION):
        with formatter.section(title):
            formatter.write_dl(rows)


def _help(text: str) -> str:
    """Return a help without the range among what typer adds in brackets."""
    own, added, facts = text.rpartition("  [")
    if not added:
        return text
    kept = [each for each in facts.removesuffix("]").split("; ") if not _RANGE.fullmatch(each)]
    return f"{own}  [{'; '.join(kept)}]" if kept else own


class _Group(typer.core.TyperGroup):
    """A group of commands. Its errors quote arguments, which may hold a mistyped token."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, with the whole first sentence of each, then the options."""
        names = self.list_commands(ctx)
        rows = [(name, self.commands[name].get_short_help_str(limit=1000)) for name in names]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
        _write_parameters(self, ctx, formatter)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the options before the command; the first ones begin a command line."""
        if options.get("parent") is None:
            current_connection.set(ConnectionOptions())
            current_arguments.set([*arguments[1]])
            current_command.set(CalledCommand())
        with _redacted_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Parse and run a command."""
        with _redacted_errors():
            return super().invoke(ctx)


@contextmanager
def _redacted_errors() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        is_of_argument = error.ctx is not None and not _is_of_option(error)
        hint = _address_as_option(error.ctx) if is_of_argument else ""
        if not error.message.endswith(hint):  # else it comes from an inner group
            error.message += hint
        error.message = redact_tokens(error.message)
        raise


def _is_of_option(error: Any) -> bool:
    """Whether an error is of an option, so that no argument is wrong."""
    parameter = getattr(error, "param", None)
    return hasattr(error, "option_name") or getattr(parameter, "param_type_name", "") == "option"


def _address_as_option(ctx: Any) -> str:
    """Return the command line with an address that stands alone as an option; empty without one."""
    options = [option for each in ctx.command.params for option in each.opts]
    option = "--server"
    if isinstance(ctx.command, _Command) and option not in options:
        option = "--listen"
        if option not in options:
            return ""
    words = list(current_arguments.get())
    for place, word in enumerate(words):
        is_value = place > 0 and words[place - 1].startswith("-")
        if _ADDRESS.fullmatch(word) and not is_value:
            rest = [*words[:place], *words[place + 1 :], option, word]
            return f" The address is an option; run: {shlex.join(['streameval', *rest])}"
    return ""


class Commands(typer.Typer):
    """A group of commands.

    Parameters
    ----------
    text : str
        What they do.
    name : str, optional
    """

    def __init__(self, text: str, *, name: str | None = None) -> None:
        super().__init__(
            name=name,
            cls=_Group,
            help=text,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[..., Any]:
        """Return the decorator of a command."""
        return super().command(name, cls=_Command, **options)
