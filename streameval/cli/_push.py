"""``streameval push``: the rows of files, to a server."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from streameval._common.errors import StreamEvalError
from streameval.cli._connect import connect
from streameval.cli._output import out, progress_bar
from streameval.cli._rows import Layout, Rows, read_rows
from streameval.cli._stream_admin import parse_settings
from streameval.client import AlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streameval.client import Client, Stream


def push(
    file: Path | None,
    *,
    layout: Layout,
    labels: Path | None,
    to: str,
    stream: str,
    create: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Check files completely, then push them; return once their rows are durable.

    Parameters
    ----------
    file : Path or None
        Cases, or with an id column predictions.
    layout : Layout
        The columns of both files.
    labels : Path or None
        A file of labels by id.
    create : bool
        Whether to create the stream, with the settings that are not None.
    settings : mapping, optional
    """
    given = parse_settings(**(settings or {}))
    if given and not create:
        raise StreamEvalError(
            f"--{next(iter(given))} needs --create; a stream that exists "
            "changes by 'streameval streams update'"
        )
    files = _files(file, layout, labels)
    counts = []
    for path, columns in files:
        rows = 0
        with progress_bar(f"checking {path.name}", show=True) as progress:
            for chunk in read_rows(path, columns):
                rows += chunk.count
                progress(chunk.progress)
        counts.append(rows)
    with connect(to, when_full="block") as client:
        declared: dict[str, Any] = {"segment_keys": layout.segments}
        if layout.cluster is not None:
            declared["cluster_key"] = layout.cluster
        if create:
            _create(client, stream, {**given, **declared})
        elif layout.segments or layout.cluster is not None:
            # A stream created by its first batch has no segment keys and no clusters.
            with suppress(AlreadyExistsError):
                client.create_stream(stream, **declared)
        target = client.stream(stream)
        for path, columns in files:
            with progress_bar(f"pushing {path.name}", show=True) as progress:
                for chunk in read_rows(path, columns):
                    _send(target, chunk, columns)
                    progress(chunk.progress)
        revision = target.flush(timeout_s=None)
    for (path, columns), rows in zip(files, counts, strict=True):
        what = (
            "cases" if columns.id is None else "labels" if columns.score is None else "predictions"
        )
        out.print(
            f"{rows:,} {what} of {path} are durable in {stream} at revision {revision}",
            soft_wrap=True,
        )


def _create(client: Client, stream: str, settings: dict[str, Any]) -> None:
    try:
        client.create_stream(stream, **settings)
    except AlreadyExistsError as error:
        raise StreamEvalError(f"{error}: leave out --create to add rows to it") from None


def _files(file: Path | None, layout: Layout, labels: Path | None) -> list[tuple[Path, Layout]]:
    """Return each file with its required columns."""
    if file is None and labels is None:
        raise StreamEvalError("give a FILE of scores, or --labels, or both")
    if labels is not None and layout.id is None:
        raise StreamEvalError("--labels are joined by id: name the column with --id")
    # A weight belongs to the label: it is read from the file that has the labels.
    is_weighted = layout.weight is not None or layout.label_probability is not None
    if is_weighted and layout.id is not None and labels is None:
        raise StreamEvalError("--weight and --label-probability belong to labels: give --labels")
    files = []
    if file is not None:
        label = layout.label if layout.id is None else None
        files.append(
            (
                file,
                Layout(
                    score=layout.score,
                    label=label,
                    id=layout.id,
                    time=layout.time,
                    segments=layout.segments,
                    positive=layout.positive,
                    cluster=layout.cluster,
                    weight=None if label is None else layout.weight,
                    label_probability=None if label is None else layout.label_probability,
                ),
            )
        )
    if labels is not None:
        joined = Layout(
            label=layout.label,
            id=layout.id,
            positive=layout.positive,
            weight=layout.weight,
            label_probability=layout.label_probability,
        )
        files.append((labels, joined))
    return files


def _send(target: Stream, rows: Rows, layout: Layout) -> None:
    at = rows.times if layout.time is not None else None
    segments = rows.segments or None
    if layout.id is None:
        target.add_cases(
            labels=rows.labels,
            scores=rows.scores,
            at=at,
            segments=segments,
            clusters=rows.clusters,
            **rows.weighting(),
        )
    elif layout.score is None:
        target.label_cases(ids=rows.ids, labels=rows.labels, **rows.weighting())
    else:
        target.log_cases(
            ids=rows.ids, scores=rows.scores, at=at, segments=segments, clusters=rows.clusters
        )
