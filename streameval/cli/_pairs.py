"""``streameval pairs``: pairs of streams, which are compared on the same ids."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streameval._common.spans import format_span
from streameval.cli._commands import Commands
from streameval.cli._connection import command, connect
from streameval.cli._connection_options import connects
from streameval.cli._options import (
    AsJson,
    Export,
    MaxPending,
    NewFile,
    Pane,
    Retention,
    Yes,
    parse_settings,
)

if TYPE_CHECKING:
    from streameval.client import PairInfo

pairs = Commands("Create, list, show, move and delete pairs: two streams compared on the same ids.")

First = Annotated[str, typer.Argument(metavar="A", help="Stream, the champion as a rule.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The other stream.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The pair's name, as in its list.")]


@pairs.command()
@connects
def create(
    a: First,
    b: Second,
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="Its own name. [default: A-vs-B]")] = "",
    max_cells: Annotated[
        int | None,
        typer.Option(
            min=1, help="Pairs of scores that a pane keeps of each class. [default: 4096]"
        ),
    ] = None,
    max_pending: MaxPending = None,
    prevalence: Annotated[
        float | None,
        typer.Option(
            help="Prevalence that figures of precision and recall are rescaled to. "
            "[default: the shared ids' own]"
        ),
    ] = None,
    pane: Pane = None,
    retention: Retention = None,
    label_ttl: Annotated[
        str | None,
        typer.Option(
            help="How long an id waits for the other prediction and its label. "
            "[default: the longer one of the streams]"
        ),
    ] = None,
    relabel_ttl: Annotated[
        str | None,
        typer.Option(
            help="How long a counted id can be relabelled. [default: the longer one of the streams]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a pair: from now on predictions of both streams meet by id.

    What was predicted before is not counted. Settings cannot change.
    """
    settings = parse_settings(
        max_cells=max_cells,
        max_pending=max_pending,
        prevalence=prevalence,
        pane=pane,
        retention=retention,
        label_ttl=label_ttl,
        relabel_ttl=relabel_ttl,
    )
    with connect() as client:
        _print(client.create_pair(a, b, name=name, **settings), as_json=as_json)


@pairs.command(name="list")
@connects
def list_command(
    *,
    stream: Annotated[str, typer.Option(help="Only pairs of this stream.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print the pairs of a server."""
    from streameval.cli._output import print_json, print_table, say  # noqa: PLC0415 - slow to import

    with connect() as client:
        found = client.list_pairs(stream)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    if not found:
        of = f" of {stream}" if stream else ""
        say(f"there is no pair{of}; make one with: {command('pairs', 'create', 'A', 'B')}")
        return
    titles = ("name", "a", "b", "created", "pane", "retention", "label ttl", "segments")
    print_table(titles, map(_row, found), names=3)


@pairs.command()
@connects
def show(name: Name, *, as_json: AsJson = False) -> None:
    """Print a pair's settings, what it keeps, and what arrived without effect."""
    with connect() as client:
        _print(client.get_pair(name), as_json=as_json)


@pairs.command(name="export")
@connects
def export_command(
    name: Name,
    file: NewFile,
) -> None:
    """Write a whole pair to a FILE: settings, counts, evidence, waiting ids.

    Its streams are not in it: export both of them with ``streameval admin export``, after their
    producers were flushed and stopped.
    """
    from streameval.cli import _online  # noqa: PLC0415 - loaded only for a server

    _online.export_pair(name, file)


@pairs.command(name="import")
@connects
def import_command(
    file: Export,
    *,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The pair's name. [default: its old name]")
    ] = "",
    a: Annotated[
        str, typer.Option("--a", metavar="STREAM", help="The first stream. [default: its old name]")
    ] = "",
    b: Annotated[
        str, typer.Option("--b", metavar="STREAM", help="The other one. [default: its old name]")
    ] = "",
) -> None:
    """Make a pair from an export, once both of its streams are imported.

    It answers as on the server that it comes from, and goes on with the rows that come.
    """
    from streameval.cli import _online  # noqa: PLC0415 - loaded only for a server

    _online.import_pair(file, name=name, a=a, b=b)


@pairs.command()
@connects
def delete(
    name: Name,
    *,
    yes: Yes = False,
) -> None:
    """Delete a pair and all that was counted in it; its streams stay."""
    if not yes:
        typer.confirm(f"Delete the pair {name} and all its counts?", abort=True)
    from streameval.cli._output import say  # noqa: PLC0415 - slow to import

    with connect() as client:
        client.delete_pair(name)
    say(f"the pair {name} is deleted")


def _row(info: PairInfo) -> tuple[str, ...]:
    settings = info.settings
    return (
        info.name,
        info.a,
        info.b,
        f"{info.create_time:%Y-%m-%d %H:%M}",
        format_span(settings.pane),
        format_span(settings.retention),
        format_span(settings.label_ttl),
        ", ".join(settings.segment_keys),
    )


def _print(info: PairInfo, *, as_json: bool) -> None:
    """Print a pair's settings and counters."""
    from streameval.cli._output import out, print_json, print_values, say  # noqa: PLC0415 - slow to import

    if as_json:
        print_json(info.to_dict())
        return
    say(f"{info.name}: {info.a} and {info.b}, since {info.create_time:%Y-%m-%d %H:%M:%S} UTC")
    print_values(_grouped(asdict(info.settings)))
    if info.counters is not None:
        out.print("so far", style="dim")
        print_values(_grouped(asdict(info.counters)))


def _grouped(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with the thousands of whole numbers apart."""
    return {
        name: f"{value:,}" if isinstance(value, int) else value for name, value in values.items()
    }
