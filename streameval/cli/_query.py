"""``streameval query``, ``verdict``, ``reliability``, ...: a server's answers of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streameval._common.atomic_file import write_atomically
from streameval._common.errors import StreamEvalError
from streameval._common.extras import needs_extra
from streameval.cli._connection import connect
from streameval.cli._connection_options import connects
from streameval.cli._options import (
    AsJson,
    By,
    DrawIds,
    From,
    Prevalence,
    SampleFile,
    SampleMetric,
    Seed,
    SegmentOption,
    Size,
    StreamName,
    Threshold,
    To,
    Window,
    parse_part,
)


@connects
def query(
    stream: StreamName,
    *,
    window: Window = None,
    segment: SegmentOption = None,
    by: By = None,
    projection: Annotated[
        bool,
        typer.Option("--projection", help="Also what the window will read once its labels are in."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print a stream's figures."""
    if by is not None:
        from streameval.cli._segments import query_by  # noqa: PLC0415 - slow to import

        if segment is not None or projection:
            other = "--projection" if projection else "--segment"
            raise StreamEvalError(f"--by is all segments of a key: leave out {other}")
        query_by(stream, by, window=window, as_json=as_json)
        return
    from streameval.cli._output import print_json, print_snapshot  # noqa: PLC0415 - slow to import

    with connect() as client:
        snapshot = client.stream(stream).snapshot(
            **parse_part(window, segment), projection=projection
        )
    if as_json:
        print_json(snapshot.to_dict())
        return
    covers = _covered(window, segment)
    print_snapshot(snapshot, heading=f"{stream}{covers} at revision {snapshot.revision}")


@connects
def verdict(stream: StreamName, *, as_json: AsJson = False) -> None:
    """Print whether a stream became worse, since when, because of whom, and how sure that is."""
    from streameval.cli._output import print_json, say  # noqa: PLC0415 - slow to import

    with connect() as client:
        found = client.stream(stream).verdict()
    if as_json:
        print_json(found.to_dict())
    else:
        say(str(found))


@connects
def reliability(
    stream: StreamName,
    *,
    bins: Annotated[int, typer.Option(min=1, max=100, help="How many bins of equal width.")] = 10,
    window: Window = None,
    segment: SegmentOption = None,
    as_json: AsJson = False,
) -> None:
    """Print whether a stream's scores are probabilities: mean score and observed rate by bin."""
    from streameval.cli._output import print_json, print_reliability  # noqa: PLC0415 - slow to import

    with connect() as client:
        found = client.stream(stream).reliability(bins, **parse_part(window, segment))
    if as_json:
        print_json(found.to_dict())
        return
    covers = _covered(window, segment)
    print_reliability(found, heading=f"{stream}{covers} at revision {found.revision}")


@connects
def report(
    stream: StreamName,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")
    ],
    window: Window = None,
    start: From = None,
    end: To = None,
    segment: SegmentOption = None,
) -> None:
    """Write a printable report of a stream: one HTML file that opens without a server.

    Figures with intervals, curves, metrics over time, segments, alarms, and all that they
    assume. Needs matplotlib.
    """
    from streameval.cli._output import out  # noqa: PLC0415 - slow to import

    with needs_extra("plot"):
        from streameval.cli._report.document import document  # noqa: PLC0415 - as above
    from streameval.cli._report.answers import read_answers  # noqa: PLC0415 - as above

    part = parse_part(window, segment, start, end)
    with connect() as client:
        found = read_answers(client, client.stream(stream), **part)
    with write_atomically(output) as partial:
        partial.write_text(document(found), encoding="utf-8")
    out.print(str(output), soft_wrap=True, markup=False, highlight=False)


@connects
def sample(
    stream: StreamName,
    *,
    size: Size,
    metric: SampleMetric = "auc_pr",
    threshold: Threshold = None,
    prevalence: Prevalence = None,
    seed: Seed = None,
    csv: SampleFile = None,
    ids: DrawIds = False,
    window: Window = None,
    start: From = None,
    end: To = None,
    segment: SegmentOption = None,
    as_json: AsJson = False,
) -> None:
    """Print which predictions to label next, so that a figure is known best.

    How many of each band of score; with --csv FILE also which ids, drawn with these
    probabilities, and an empty column for their labels.
    """
    from streameval.cli._sample import SampleOptions  # noqa: PLC0415 - slow to import

    options = SampleOptions(
        size=size,
        metric=metric,
        threshold=threshold,
        prevalence=prevalence,
        seed=seed,
        csv=csv,
        ids=ids,
        as_json=as_json,
        window=window,
        start=start,
        end=end,
        segment=segment,
    )
    selection, draw_ids = options.selection(stream), options.draw_ids
    with connect() as client:
        found = client.stream(stream).sample_for_labels(
            size,
            metric=metric,
            threshold=threshold,
            prevalence=prevalence,
            seed=seed,
            draw_ids=draw_ids,
            window=selection.window,
            segment=selection.segment,
        )
    options.write(stream, found)


def _covered(window: str | None, segment: str | None) -> str:
    """Return the part of a heading that says which cases are covered."""
    covers = "" if window is None else f", the last {window}"
    return covers + ("" if segment is None else f", {segment}")
