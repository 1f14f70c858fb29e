"""The command line: has the commands on files, and lists other modules' commands in help order.

Commands import in their bodies what is slow: numpy, pyarrow, tables and the client take
longer to import than ``health`` and ``--version`` take to run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streameval import __version__
from streameval._common.errors import StreamEvalError
from streameval.cli._admin import admin
from streameval.cli._alarms import alarms
from streameval.cli._commands import Commands
from streameval.cli._compare import compare
from streameval.cli._connection import DEFAULT_TIMEOUT_S
from streameval.cli._connection_options import connects
from streameval.cli._consume import consume
from streameval.cli._errors import one_line_errors
from streameval.cli._mapping import mapping
from streameval.cli._marks import marks
from streameval.cli._options import (
    AsJson,
    Decimal,
    DecimalSign,
    Delimiter,
    Limit,
    LineFormat,
    ListWindow,
    Order,
    Pane,
    Prefix,
    Rejects,
    Retention,
    Reverse,
    Search,
    StreamResolution,
    TimeUnitOption,
    parse_delimiter,
)
from streameval.cli._pairs import pairs
from streameval.cli._query import query, reliability, report, sample, verdict
from streameval.cli._serve import serve
from streameval.cli._streams import streams

app = Commands("Live, exact evaluation of binary scorers.", name="streameval")

_FILES = (
    "A .csv, .ndjson or .jsonl file (or .gz or .zst of one), a .parquet or .npz file, or a "
    "directory of Parquet, NDJSON or CSV files, read in the order of their names."
)
File = Annotated[
    Path,
    typer.Argument(exists=True, help=_FILES),
]
ScoreColumn = Annotated[
    str, typer.Option("--score", help="Column of the scores, higher = more positive.")
]
LabelColumn = Annotated[str, typer.Option("--label", help="Column of the labels.")]
PositiveLabel = Annotated[
    str | None,
    typer.Option("--positive", help="The label of the positive class. [default: 1 or true]"),
]
NegativeLabel = Annotated[
    str | None,
    typer.Option(
        "--negative",
        help="The label of the negative class. [default: 0 or false; with --positive the first "
        "other one]",
    ),
]
WeightColumn = Annotated[
    str | None,
    typer.Option(
        "--weight",
        metavar="COLUMN",
        help="Column of the weights, from 0 to 2**31. [default: 1 each]",
    ),
]
LabelProbabilityColumn = Annotated[
    str | None,
    typer.Option(
        "--label-probability",
        metavar="COLUMN",
        help="Column of the probabilities with which rows were chosen to be labelled: weights "
        "are divided by it.",
    ),
]


LeastProbability = Annotated[
    float | None,
    typer.Option(
        "--min-label-probability",
        help="The least probability that the design gives a row: limits allow for unseen rows that "
        "weigh 1 over it. [default: twice the largest weight seen]",
        show_default=False,
    ),
]


@app.command()
def evaluate(
    file: File,
    *,
    score: ScoreColumn = "score",
    label: LabelColumn = "label",
    positive: PositiveLabel = None,
    negative: NegativeLabel = None,
    delimiter: Delimiter = ",",
    decimal: Decimal = DecimalSign.POINT,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the ROC and PR curves into this .png, .svg or .pdf.")
    ] = None,
    resolution: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=53,
            help="Significant bits kept of a score: memory is bounded, figures have bounds.",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to group by: one row a group, the worst first. May be repeated.",
            metavar="COLUMN",
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="What groups are ranked by. [default: auc_pr]")
    ] = None,
    weight: WeightColumn = None,
    label_probability: LabelProbabilityColumn = None,
    min_label_probability: LeastProbability = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a file of scores and labels."""
    with one_line_errors():
        from streameval.cli import _evaluate  # noqa: PLC0415 - slow to import
        from streameval.cli._rows import FileColumns  # noqa: PLC0415 - as above

        layout = FileColumns(
            score=score,
            label=label,
            by=tuple(by or ()),
            positive=positive,
            negative=negative,
            delimiter=parse_delimiter(delimiter),
            decimal=decimal.value,
            weight=weight,
            label_probability=label_probability,
        )
        settings = {
            "resolution": resolution,
            "min_label_probability": min_label_probability,
        }
        if by:
            _evaluate.evaluate_by(
                file,
                layout=layout,
                plot=plot,
                metric=metric,
                settings=settings,
                as_json=as_json,
            )
            return
        if metric is not None:
            raise StreamEvalError("--metric is what groups are ranked by: give --by COLUMN")
        _evaluate.evaluate(
            file,
            layout=layout,
            plot=plot,
            settings=settings,
            as_json=as_json,
        )


@app.command(name="auc")
def auc_command(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="A text file, two numbers a line.")
    ],
    *,
    format_: Annotated[
        LineFormat,
        typer.Option("--format", help="list: score label; roc: fpr tpr; pr: recall precision."),
    ] = LineFormat.LIST,
    positives: Annotated[int | None, typer.Option(help="All positives; for roc and pr.")] = None,
    negatives: Annotated[int | None, typer.Option(help="All negatives; for roc and pr.")] = None,
    min_recall: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Integrate AUC-PR from this recall.")
    ] = 0.0,
    curves: Annotated[
        Path | None,
        typer.Option(help="Write the curves to PATH.roc.csv and PATH.pr.csv. [default: FILE]"),
    ] = None,
    weight: Annotated[
        bool, typer.Option("--weight", help="Lines are 'score label weight'; for list.")
    ] = False,
    label_probability: Annotated[
        bool,
        typer.Option(
            "--label-probability",
            help="Lines end with the probability with which the row was chosen to be labelled; "
            "for list.",
        ),
    ] = False,
) -> None:
    """Print AUC-ROC and AUC-PR of a list of scores, or of the points of a curve."""
    with one_line_errors():
        from streameval.cli._auc import auc  # noqa: PLC0415 - slow to import

        auc(
            file,
            format_=format_,
            positives=positives,
            negatives=negatives,
            min_recall=min_recall,
            curves=curves,
            weighting=[
                name
                for name, given in (("weight", weight), ("probability", label_probability))
                if given
            ],
        )


@app.command()
@connects
def push(
    stream: Annotated[
        str | None, typer.Argument(help="Stream to push to, for instance fraud/v3.")
    ] = None,
    file: Annotated[Path | None, typer.Argument(exists=True, help=_FILES)] = None,
    *,
    spool: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The rows that a client could not send, in place of STREAM and FILE.",
        ),
    ] = None,
    score: ScoreColumn = "score",
    label: LabelColumn = "label",
    positive: PositiveLabel = None,
    negative: NegativeLabel = None,
    delimiter: Delimiter = ",",
    decimal: Decimal = DecimalSign.POINT,
    id_: Annotated[
        str | None,
        typer.Option("--id", help="Column of ids: rows are predictions, whose labels come later."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column of event times: ISO 8601, or numbers since 1970. [default: now]"),
    ] = None,
    time_unit: TimeUnitOption = None,
    segment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Column of a declared segment key; may be given several times."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(exists=True, help="Labels by id: a file or a directory, as FILE."),
    ] = None,
    weight: WeightColumn = None,
    label_probability: LabelProbabilityColumn = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the clusters, for instance user_id, of a stream that declares them; "
            "a new stream declares this key.",
        ),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create the stream; refused when it exists.")
    ] = False,
    pane: Pane = None,
    retention: Retention = None,
    resolution: StreamResolution = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of this load. The same name goes on where it was broken off, another one "
            "counts its rows again. [default: by the paths and columns of the files]",
        ),
    ] = None,
    rejects: Rejects = None,
    allow_no_positives: Annotated[
        bool,
        typer.Option("--allow-no-positives", help="Push labels of which none is positive."),
    ] = False,
    allow_no_joins: Annotated[
        bool,
        typer.Option(
            "--allow-no-joins", help="Push labels by id of which none meets a prediction yet."
        ),
    ] = False,
) -> None:
    """Push files of scores and labels to a server, each row once.

    A push that was broken off, killed for instance, goes on where it was when the same command
    is run again within 7 days; run once more when it is done, it adds only the files that are
    new at the end of a directory. A file that was changed, or added before that place, is
    refused.

    Rows older than the stream's retention are refused. To load history, create the stream with a
    longer one: --create --retention 10y. --pane, --retention and --resolution need --create.

    A FILE of scores with their labels; or, with --id, a FILE of predictions, a file of --labels
    to join with them, or both. All files are checked completely before the first row is sent.
    Weights and label probabilities are read from the file that has the labels, clusters from the
    one that has the scores.

    Exits with 1 when --rejects FILE has rows and all others count; when no label is positive, and
    then nothing is pushed; and when no label has met a prediction.
    """
    from streameval.cli import _push  # noqa: PLC0415 - slow to import
    from streameval.cli._rows import FileColumns  # noqa: PLC0415 - as above

    layout = FileColumns(
        score=score,
        label=label,
        id=id_,
        time=time,
        segments=tuple(segment or ()),
        positive=positive,
        negative=negative,
        delimiter=parse_delimiter(delimiter),
        decimal=decimal.value,
        weight=weight,
        label_probability=label_probability,
        cluster=cluster,
        time_unit="" if time_unit is None else time_unit.value,
    )
    is_complete = _push.push_any(
        stream,
        file,
        spool=spool,
        layout=layout,
        labels=labels,
        create=create,
        settings={"pane": pane, "retention": retention, "resolution": resolution},
        source=source,
        rejects=rejects,
        allow_no_positives=allow_no_positives,
        allow_no_joins=allow_no_joins,
    )
    if not is_complete:
        raise typer.Exit(1)


for _command in (query, verdict, reliability, report, sample):
    app.command()(_command)


@app.command()
@connects
def health(
    *,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Seconds to wait.")] = DEFAULT_TIMEOUT_S,
) -> None:
    """Print a server's health; exit code 1 when it does not serve. For probes."""
    from streameval.cli import _health  # noqa: PLC0415 - imports gRPC

    serving = _health.health(timeout_s)
    if not serving:
        raise typer.Exit(1)


@app.command()
@connects
def doctor(*, as_json: AsJson = False) -> None:
    """Check the way to a server, the token, clocks, disk, versions and lag, with what to do.

    Exit code 1 when something is wrong.
    """
    from streameval.cli import _doctor  # noqa: PLC0415 - slow to import

    if not _doctor.doctor(as_json=as_json):
        raise typer.Exit(1)


app.command()(serve)
app.command()(compare)


@app.command()
@connects
def top(
    *,
    order: Order = None,
    reverse: Reverse = False,
    window: ListWindow = None,
    search: Search = "",
    prefix: Prefix = "",
    limit: Limit = None,
    every: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between readings.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and exit.")] = False,
) -> None:
    """Watch a server's streams: open alarms first, then what became worse, as on the page.

    Keys: q quits, s changes the order, w changes the window, / searches.
    """
    from streameval.cli import _list_reading, _top  # noqa: PLC0415 - slow to import

    query = _list_reading.parse_query(
        order, reverse=reverse, window=window, search=search, prefix=prefix, limit=limit
    )
    _top.top(query, every_s=every, once=once)


app.add_typer(streams, name="streams")
app.add_typer(alarms, name="alarms")
app.add_typer(pairs, name="pairs")
app.add_typer(marks, name="marks")
app.add_typer(mapping, name="mapping")
app.add_typer(consume, name="consume")
app.add_typer(admin, name="admin")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
@connects
def _global_options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Live, exact evaluation of binary scorers."""
