"""``streameval pairs`` and ``compare``: two models, on the same ids where there is a pair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streameval._common.errors import StreamEvalError
from streameval.cli._connection_options import connects
from streameval.cli._errors import one_line_errors
from streameval.cli._options import Address, AsJson, Pane, Prevalence, Retention, Window

pairs = typer.Typer(
    help="Create, list, show, move and delete pairs: two streams compared on the same ids.",
    no_args_is_help=True,
)

DEFAULT_SERVER = "localhost:50051"

First = Annotated[str, typer.Argument(metavar="A", help="Stream, the champion as a rule.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The other stream.")]


@pairs.command()
@connects
def create(
    address: Address,
    a: First,
    b: Second,
    *,
    max_cells: Annotated[
        int | None,
        typer.Option(
            min=1, help="Pairs of scores that a pane keeps of each class. [default: 4096]"
        ),
    ] = None,
    max_pending: Annotated[
        int | None, typer.Option(min=1, help="The most ids that are kept. [default: 2000000]")
    ] = None,
    prevalence: Annotated[
        float | None,
        typer.Option(
            help="To rescale figures of precision and recall to. [default: that of the shared ids]"
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
    with one_line_errors():
        from streameval.cli import _pair_admin, _stream_admin  # noqa: PLC0415 - slow to import

        settings = _stream_admin.parse_settings(
            max_cells=max_cells,
            max_pending=max_pending,
            prevalence=prevalence,
            pane=pane,
            retention=retention,
            label_ttl=label_ttl,
            relabel_ttl=relabel_ttl,
        )
        _pair_admin.create(address, a, b, settings, as_json=as_json)


@pairs.command(name="list")
@connects
def list_command(
    address: Address,
    *,
    stream: Annotated[str, typer.Option(help="Only pairs of this stream.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print the pairs of a server."""
    with one_line_errors():
        from streameval.cli import _pair_admin  # noqa: PLC0415 - slow to import

        _pair_admin.print_pairs(address, stream, as_json=as_json)


@pairs.command()
@connects
def show(address: Address, a: First, b: Second, *, as_json: AsJson = False) -> None:
    """Print a pair's settings, what it keeps, and what arrived without effect."""
    with one_line_errors():
        from streameval.cli import _pair_admin  # noqa: PLC0415 - slow to import

        _pair_admin.show(address, a, b, as_json=as_json)


@pairs.command(name="export")
@connects
def export_command(
    address: Address,
    a: First,
    b: Second,
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")],
) -> None:
    """Write a whole pair to a FILE: settings, counts, evidence, waiting ids.

    Its streams are not in it: export both of them with ``streameval admin export``, after their
    producers were flushed and stopped.
    """
    with one_line_errors():
        from streameval.cli import _online  # noqa: PLC0415 - loaded only for a server

        _online.export_pair(address, a, b, file)


@pairs.command(name="import")
@connects
def import_command(
    address: Address,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An export.")],
    *,
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
    with one_line_errors():
        from streameval.cli import _online  # noqa: PLC0415 - loaded only for a server

        _online.import_pair(address, file, a, b)


@pairs.command()
@connects
def delete(
    address: Address,
    a: First,
    b: Second,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a pair and all that was counted in it; its streams stay."""
    if not yes:
        typer.confirm(f"Delete the pair of {a} and {b} and all its counts?", abort=True)
    with one_line_errors():
        from streameval.cli import _pair_admin  # noqa: PLC0415 - slow to import

        _pair_admin.delete(address, a, b)


@connects
def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[HOST:PORT] A B",
            help=f"Two streams. The server is {DEFAULT_SERVER} unless its address is before them.",
            show_default=False,
        ),
    ],
    *,
    paired: Annotated[
        bool, typer.Option("--paired", help="On the ids that both have scored, by their pair.")
    ] = False,
    create_pair: Annotated[
        bool, typer.Option("--create", help="With --paired: make the pair where there is none.")
    ] = False,
    metric: Annotated[str, typer.Option(help="auc_pr, average_precision or auc_roc.")] = "auc_pr",
    prevalence: Prevalence = None,
    level: Annotated[float, typer.Option(help="Nominal coverage of the intervals.")] = 0.95,
    window: Window = None,
    segment: Annotated[
        str | None, typer.Option(help="One slice, for instance country=US. [default: all]")
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="KEY", help="With --paired: also each value of a segment key.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Compare two streams: which is better, and how sure that is.

    Without --paired the cases of the two are taken as independent, which two models on the
    same ids are not: then the interval is several times too wide.
    """
    with one_line_errors():
        if len(names) not in {2, 3}:
            raise StreamEvalError(
                "compare takes two streams, or the server's address and two streams: "
                "streameval compare localhost:50051 fraud/v3 fraud/v4 --paired"
            )
        if (create_pair or by) and not paired:
            option = "--create" if create_pair else "--by"
            raise StreamEvalError(f"{option} is of pairs: give --paired, too")
        from streameval.cli import _compare  # noqa: PLC0415 - slow to import

        address, a, b = [DEFAULT_SERVER, *names][-3:]
        chosen = _compare.Chosen(
            metric=metric, prevalence=prevalence, level=level, window=window, segment=segment
        )
        if paired:
            _compare.print_paired(
                address, (a, b), chosen, by=by, may_create=create_pair, as_json=as_json
            )
        else:
            _compare.print_independent(address, (a, b), chosen, as_json=as_json)
