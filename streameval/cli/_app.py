"""The commands: each parses its arguments and hands over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streameval import __version__
from streameval.cli import _evaluate, _remote, _serve
from streameval.cli._auc import Format, auc
from streameval.cli._output import one_line_errors

app = typer.Typer(
    name="streameval",
    help="Live, exact evaluation of binary scorers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

File = Annotated[
    Path,
    typer.Argument(exists=True, dir_okay=False, help="A .csv, .csv.gz, .parquet or .npz file."),
]
ScoreColumn = Annotated[
    str, typer.Option("--score", help="Column of the scores, higher = more positive.")
]
LabelColumn = Annotated[str, typer.Option("--label", help="Column of the labels.")]
PositiveLabel = Annotated[
    str | None,
    typer.Option("--positive", help="The label that means positive. [default: 1 or true]"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Address = Annotated[str, typer.Argument(metavar="HOST:PORT", help="Address of the server.")]


@app.command()
def evaluate(
    file: File,
    *,
    score: ScoreColumn = "score",
    label: LabelColumn = "label",
    positive: PositiveLabel = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the ROC and PR curves into this .png, .svg or .pdf.")
    ] = None,
    resolution: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=53,
            help="Keep this many significant bits of a score: bounded memory, figures with bounds.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a file of scores and labels."""
    with one_line_errors():
        _evaluate.evaluate(
            file,
            score=score,
            label=label,
            positive=positive,
            plot=plot,
            resolution=resolution,
            as_json=as_json,
        )


@app.command(name="auc")
def auc_command(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="A text file, two numbers a line.")
    ],
    *,
    format_: Annotated[
        Format,
        typer.Option("--format", help="list: score label; roc: fpr tpr; pr: recall precision."),
    ] = Format.LIST,
    positives: Annotated[int | None, typer.Option(help="All positives; with roc and pr.")] = None,
    negatives: Annotated[int | None, typer.Option(help="All negatives; with roc and pr.")] = None,
    min_recall: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Integrate AUC-PR from this recall on.")
    ] = 0.0,
    curves: Annotated[
        Path | None,
        typer.Option(help="Write the curves to PATH.roc.csv and PATH.pr.csv. [default: FILE]"),
    ] = None,
) -> None:
    """Print both areas of a list of scores, or of the points of a curve."""
    with one_line_errors():
        auc(
            file,
            format_=format_,
            positives=positives,
            negatives=negatives,
            min_recall=min_recall,
            curves=curves,
        )


@app.command()
def push(
    file: File,
    *,
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="Address of the server.")],
    stream: Annotated[
        str, typer.Option("--stream", help="Stream to push to, for instance fraud/v3.")
    ],
    score: ScoreColumn = "score",
    label: LabelColumn = "label",
    positive: PositiveLabel = None,
) -> None:
    """Push a file of scores and labels to a server.

    The whole file is checked before the first row is sent.
    """
    with one_line_errors():
        _remote.push(file, to=to, stream=stream, score=score, label=label, positive=positive)


@app.command()
def query(
    address: Address,
    stream: Annotated[str, typer.Argument(help="Stream, for instance fraud/v3.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Print a stream's live figures."""
    with one_line_errors():
        _remote.query(address, stream, as_json=as_json)


@app.command()
def serve(
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 picks a free one.")
    ] = "127.0.0.1:50051",
    data: Annotated[
        Path | None, typer.Option(help="Directory of the log. [default: the user's data directory]")
    ] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Keep nothing on disk.")] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on addresses that are not loopback.")
    ] = False,
) -> None:
    """Run the server until SIGTERM or Ctrl-C."""
    with one_line_errors():
        _serve.serve(listen=listen, data=data, memory=memory, insecure=insecure)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass
