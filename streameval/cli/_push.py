"""``streameval push``: the rows of files, to a server."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from streameval._common.errors import StreamEvalError
from streameval._common.redaction import redact_tokens
from streameval.cli._connect import transport
from streameval.cli._errors import one_line
from streameval.cli._load import Load, load_name
from streameval.cli._load_bar import load_bar
from streameval.cli._output import err, out
from streameval.cli._pieces import read_pieces
from streameval.cli._rejects import RejectsFile
from streameval.cli._rows import Layout
from streameval.cli._stream_admin import parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from streameval.cli._load import LoadResult
    from streameval.cli._load_bar import LoadProgress
    from streameval.cli._pieces import Piece
    from streameval.cli._rejects import RejectedRows


def push(
    file: Path | None,
    *,
    layout: Layout,
    labels: Path | None,
    to: str,
    stream: str,
    create: bool = False,
    settings: Mapping[str, Any] | None = None,
    source: str | None = None,
    rejects: Path | None = None,
) -> bool:
    """Check files completely, then push what is not durable; return once all of it is.

    Returns whether every row of the files counts.

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
    source : str, optional
        Name of the load; by default that of the files' paths and columns.
    rejects : Path, optional
        File of the rows that cannot be counted; without it, the first one is an error.
    """
    given = parse_settings(**(settings or {}))
    if given and not create:
        raise StreamEvalError(
            f"--{next(iter(given))} needs --create; a stream that exists "
            "changes by 'streameval streams update'"
        )
    files = _files(file, layout, labels)
    file_of_rejects = None
    if rejects is not None:
        file_of_rejects = RejectsFile(rejects, [path for path, _ in files])
    with _first_pass(file_of_rejects) as rejected:
        counts, oldest = _check(files, stream, rejected)
    if rejected is not None and rejected.counts and not any(counts):
        raise StreamEvalError(
            f"no row was pushed: all {rejected.counts.total():,} are in {rejects}, the first for: "
            f"{next(iter(rejected.first.values()))}"
        )
    declared: dict[str, Any] = {}
    if layout.segments:
        declared["segment_keys"] = layout.segments
    if layout.cluster is not None:
        declared["cluster_key"] = layout.cluster
    connection = transport(to)
    try:
        load = Load(connection, stream, load_name(stream, files, source))
        if create:
            load.create({**given, **declared})
        else:
            load.create_if_missing(declared)
        again = None if file_of_rejects is None else file_of_rejects.counting()
        with load_bar(f"pushing to {stream}") as progress:
            result = load.send(
                _pieces(files, stream, progress, again),
                oldest=oldest,
                on_piece=progress.count,
            )
    finally:
        connection.close()
    if rejected is not None and again is not None:
        if rejected.counts != again.counts:
            raise StreamEvalError(
                f"a file was changed while it was pushed: {rejects} may lack rows; run the same "
                "command again"
            )
        _report_rejects(rejected, rejects)
    _report(files, counts, stream, result)
    return rejected is None or not rejected.counts


def _first_pass(file: RejectsFile | None) -> AbstractContextManager[RejectedRows | None]:
    return nullcontext() if file is None else file.writing()


def _check(
    files: list[tuple[Path, Layout]], stream: str, rejected: RejectedRows | None
) -> tuple[list[int], tuple[Any, Path] | None]:
    """Read everything; return each file's rows, and the earliest event time with its file."""
    counts = []
    oldest: tuple[Any, Path] | None = None
    for path, columns in files:
        rows = 0
        with load_bar(f"checking {path.name}") as progress:
            for piece in read_pieces(path, columns, stream, rejected):
                rows += piece.rows
                progress.count(piece)
                progress.show(piece.progress)
                if piece.oldest is not None and (oldest is None or piece.oldest < oldest[0]):
                    oldest = piece.oldest, piece.path
        counts.append(rows)
    return counts, oldest


def _pieces(
    files: list[tuple[Path, Layout]],
    stream: str,
    progress: LoadProgress,
    rejected: RejectedRows | None,
) -> Iterator[Piece]:
    """Yield the pieces of all files in their order."""
    for number, (path, columns) in enumerate(files):
        for piece in read_pieces(path, columns, stream, rejected):
            yield piece
            progress.show((number + piece.progress) / len(files))


def _report_rejects(rejected: RejectedRows, file: Path | None) -> None:
    """Tell how many rows do not count: each reason once, with its first row."""
    total = rejected.counts.total()
    if not total:
        return
    rows = "1 row does not count, it is" if total == 1 else f"{total:,} rows do not count, they are"
    err.print(f"{rows} in {file}:", soft_wrap=True, markup=False)
    for reason, count in sorted(rejected.counts.items(), key=lambda each: each[0].value):
        # Values of the file may hold control characters, and a mistyped token.
        first = one_line(redact_tokens(rejected.first[reason]))
        err.print(f"{count:,} for {reason.value}, the first {first}", soft_wrap=True, markup=False)


def _report(
    files: list[tuple[Path, Layout]], counts: list[int], stream: str, result: LoadResult
) -> None:
    """Print what is durable; raise what was refused."""
    if result.known_rows:
        out.print(f"{result.known_rows:,} rows were durable before", soft_wrap=True)
    if result.refusals:
        raise StreamEvalError(
            f"{result.refused_rows:,} of {sum(counts):,} rows do not count, and all others do: "
            f"{result.refusals[0]}; push them again as another load: --source NAME"
        )
    for (path, columns), rows in zip(files, counts, strict=True):
        what = (
            "cases" if columns.id is None else "labels" if columns.score is None else "predictions"
        )
        out.print(
            f"{rows:,} {what} of {path} are durable in {stream} at revision {result.revision}",
            soft_wrap=True,
        )


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
