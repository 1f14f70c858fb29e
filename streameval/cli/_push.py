"""``streameval push``: the rows of files, to a server."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streameval._common.errors import StreamEvalError
from streameval._common.redaction import redact_tokens
from streameval.cli._connection import command, transport
from streameval.cli._errors import one_line
from streameval.cli._load import Load, load_name
from streameval.cli._options import parse_settings
from streameval.cli._output import err, out, progress_bar, say
from streameval.cli._pieces import read_pieces
from streameval.cli._push_spool import push_spool
from streameval.cli._rejects import RejectsFile
from streameval.client._delivery.spool import is_spool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from streameval.cli._load import LoadResult
    from streameval.cli._pieces import FilePiece
    from streameval.cli._rejects import RejectedRows
    from streameval.cli._rows import FileColumns


def push_any(stream: str | None, file: Path | None, *, spool: Path | None, **options: Any) -> bool:
    """Push a client's spool, or as `push`; return whether all is as one expects of it."""
    unsent = file if spool is None else spool
    if unsent is not None and is_spool(unsent):
        if stream is not None:
            remedy = command("push", "--spool", unsent)
            raise StreamEvalError(f"{unsent} names the streams of its rows; run: {remedy}")
        return push_spool(unsent)
    if spool is not None:
        remedy = command("push", stream or "STREAM", spool)
        raise StreamEvalError(f"--spool: no client wrote {spool}; to push its columns: {remedy}")
    if stream is None:
        raise StreamEvalError(f"which stream? For instance: {command('push', 'fraud/v3', 'FILE')}")
    if file is None and options["labels"] is None and Path(stream).is_file():
        remedy = command("push", "fraud/v3", stream)
        raise StreamEvalError(f"{stream} is a file: name the stream before it, such as: {remedy}")
    return push(stream, file, **options)


def push(
    stream: str,
    file: Path | None,
    *,
    layout: FileColumns,
    labels: Path | None,
    create: bool = False,
    settings: Mapping[str, Any] | None = None,
    source: str | None = None,
    rejects: Path | None = None,
    allow_no_positives: bool = False,
    allow_no_joins: bool = False,
) -> bool:
    """Check files completely, then push what is not durable; return once all of it is.

    Returns whether every row of the files counts, and is as one expects of a push.

    Parameters
    ----------
    stream : str
    file : Path or None
        Cases, or with an id column predictions.
    layout : FileColumns
        The columns of both files.
    labels : Path or None
        A file of labels by id.
    create : bool
        Whether to create the stream, with the settings that are not None.
    settings : mapping, optional
    source : str, optional
        Name of the load; by default it follows from the files' paths and columns.
    rejects : Path, optional
        File of the rows that cannot be counted; without it, the first one is an error.
    allow_no_positives, allow_no_joins : bool
        Whether a push may have labels of which none is positive (otherwise nothing is sent), and
        labels by id of which none meets a prediction.
    """
    begun_s = time.monotonic()
    given = parse_settings(**(settings or {}))
    if given and not create:
        raise StreamEvalError(_settings_refusal(settings or {}, stream))
    files = _files(file, layout, labels)
    file_of_rejects = None
    if rejects is not None:
        file_of_rejects = RejectsFile(rejects, [path for path, _ in files])
    with _first_pass(file_of_rejects) as rejected:
        checked = [_check(path, columns, stream, rejected) for path, columns in files]
    if rejected is not None and not any(each.rows for each in checked):
        _refuse_if_all_rejected(rejected, rejects)
    if not allow_no_positives and _lacks_positives(files, checked):
        return False
    keys = {"segment_keys": layout.segments, "cluster_key": layout.cluster}
    declared = {name: value for name, value in keys.items() if value}
    again = None if file_of_rejects is None else file_of_rejects.counting()
    connection = transport()
    try:
        load = Load(connection, stream, load_name(stream, files, source))
        oldest = min((each.oldest for each in checked if each.oldest is not None), default=None)
        load.check({**given, **declared}, oldest, create=create)
        if create:
            load.create({**given, **declared})
        else:
            load.create_if_missing(declared)
        with progress_bar(f"pushing to {stream}") as show:
            pieces = _pieces(files, stream, show, again)
            result = load.send(pieces, oldest=oldest, joins=labels is not None)
    finally:
        connection.close()
    if rejected is not None and again is not None:
        _check_unchanged(rejected, again, rejects)
        _report_rejects(rejected, rejects)
    _report(files, checked, stream, result)
    total = 0 if rejected is None else rejected.counts.total()
    _report_facts(checked, result, total, time.monotonic() - begun_s)
    for (path, _), found in zip(files, checked, strict=True):
        if not found.rows:
            _warn(f"{path} has no rows: is it complete?")
    say(f"look at it: {command('query', stream)}")
    if result.sent_labels and not result.joined and not allow_no_joins:
        _warn(
            f"none of {result.sent_labels:,} labels has met a prediction of {stream}: do labels "
            "and predictions have the same ids? The labels wait for later predictions: if that is "
            "meant, give --allow-no-joins"
        )
        return False
    return not total


def _refuse_if_all_rejected(rejected: RejectedRows, rejects: Path | None) -> None:
    """Refuse files of which no row can be counted."""
    if rejected.counts:
        raise StreamEvalError(
            f"no row was pushed: all {rejected.counts.total():,} are in {rejects}, the first for: "
            f"{next(iter(rejected.first.values()))}"
        )


def _check_unchanged(rejected: RejectedRows, again: RejectedRows, rejects: Path | None) -> None:
    """Refuse files that had other rows when they were sent than when they were checked."""
    if rejected.counts != again.counts:
        raise StreamEvalError(
            f"a file was changed while it was pushed: {rejects} may lack rows; run the same "
            "command again"
        )


@dataclass(slots=True)
class _Checked:
    """What a file or directory has.

    Attributes
    ----------
    rows, positives : int
        How many rows, and positive labels.
    oldest : tuple of datetime64 and Path, or None
        The earliest event time, and the file that has it.
    newest : datetime64 or None
        The latest event time.
    """

    rows: int = 0
    positives: int = 0
    oldest: tuple[Any, Path] | None = None
    newest: Any = None


def _lacks_positives(files: list[tuple[Path, FileColumns]], checked: list[_Checked]) -> bool:
    """Return whether there are labels and none is positive; say so."""
    pairs = zip(checked, files, strict=True)
    labelled = [each for each, (_, columns) in pairs if columns.label is not None]
    rows = sum(each.rows for each in labelled)
    if not rows or any(each.positives for each in labelled):
        return False
    _warn(
        f"no row was pushed: none of {rows:,} labels is positive. If that is so, give "
        "--allow-no-positives; else name the positive class with --positive, or the column with "
        "--label"
    )
    return True


def _warn(message: str) -> None:
    err.print(f"streameval: {message}", soft_wrap=True, markup=False)


def _settings_refusal(settings: Mapping[str, Any], stream: str) -> str:
    """Return why settings need --create, with what changes the first one of an existing stream."""
    name, value = next((name, value) for name, value in settings.items() if value is not None)
    message = f"--{name} needs --create"
    if name != "retention":
        return f"{message}: a stream that exists keeps its {name}"
    remedy = command("streams", "update", stream, f"--{name}", value)
    return f"{message}; if the stream exists, run: {remedy}"


def _first_pass(file: RejectsFile | None) -> AbstractContextManager[RejectedRows | None]:
    return nullcontext() if file is None else file.writing()


def _check(
    path: Path, columns: FileColumns, stream: str, rejected: RejectedRows | None
) -> _Checked:
    """Read a whole file or directory."""
    found = _Checked()
    with progress_bar(f"checking {path.name}") as show:
        for piece in read_pieces(path, columns, stream, rejected):
            found.rows += piece.rows
            found.positives += piece.positives
            show(piece.progress, found.rows)
            if piece.oldest is not None and piece.newest is not None:
                oldest = piece.oldest, piece.path
                found.oldest = min(found.oldest or oldest, oldest)
                found.newest = max(found.newest or piece.newest, piece.newest)
    return found


def _report_facts(
    checked: list[_Checked], result: LoadResult, rejected: int, took_s: float
) -> None:
    """Print the span, what the labels are, what does not count, and the seconds."""
    times = [time for each in checked if each.oldest for time in (each.oldest[0], each.newest)]
    positives = sum(each.positives for each in checked)
    facts = [f"{positives:,} positive{'' if positives == 1 else 's'}"]
    if times:
        start, end = (str(each.astype("datetime64[s]")) for each in (min(times), max(times)))
        facts.insert(0, f"from {start}Z to {end}Z")
    if result.sent_labels:
        facts.append(f"{result.joined:,} of {result.sent_labels:,} labels joined")
    facts += [f"{rejected:,} rejected", f"{took_s:.1f} s"]
    out.print(", ".join(facts), soft_wrap=True)


def _pieces(
    files: list[tuple[Path, FileColumns]],
    stream: str,
    show: Callable[..., None],
    rejected: RejectedRows | None,
) -> Iterator[FilePiece]:
    """Yield the pieces of all files in their order."""
    rows = 0
    for number, (path, columns) in enumerate(files):
        for piece in read_pieces(path, columns, stream, rejected):
            yield piece
            rows += piece.rows
            show((number + piece.progress) / len(files), rows)


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
    files: list[tuple[Path, FileColumns]], checked: list[_Checked], stream: str, result: LoadResult
) -> None:
    """Print what is durable; raise what was refused."""
    if result.known_rows:
        out.print(f"{result.known_rows:,} rows were durable before", soft_wrap=True)
    if result.refusals:
        total = sum(each.rows for each in checked)
        raise StreamEvalError(
            f"{result.refused_rows:,} of {total:,} rows do not count, and all others do: "
            f"{result.refusals[0]}; push them again as another load: --source NAME"
        )
    for (path, columns), found in zip(files, checked, strict=True):
        what = (
            "cases" if columns.id is None else "labels" if columns.score is None else "predictions"
        )
        out.print(
            f"{found.rows:,} {what} of {path} are durable in {stream} at revision "
            f"{result.revision}",
            soft_wrap=True,
        )


def _files(
    file: Path | None, layout: FileColumns, labels: Path | None
) -> list[tuple[Path, FileColumns]]:
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
        columns = replace(layout, label=None) if layout.id is not None else layout
        if columns.label is None:
            columns = replace(columns, weight=None, label_probability=None)
        files.append((file, columns))
    if labels is not None:
        files.append((labels, replace(layout, score=None, time=None, segments=(), cluster=None)))
    return files
