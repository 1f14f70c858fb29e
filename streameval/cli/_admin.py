"""``streameval admin``: administers a server, its data directory and its backups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streameval._common.errors import StreamEvalError
from streameval._common.spans import parse_span
from streameval.cli._commands import Commands
from streameval.cli._connection import connection
from streameval.cli._connection_options import connects
from streameval.cli._errors import one_line_errors
from streameval.cli._options import (
    AsJson,
    Config,
    Data,
    DrawIds,
    Export,
    From,
    NewFile,
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
)

admin = Commands("Administer a server.")
clock = Commands("Decide what a server does about a clock in doubt.")
admin.add_typer(clock, name="clock")

Until = Annotated[
    int | None,
    typer.Option(metavar="REVISION", help="Revision of the log. [default: the last]"),
]


@admin.command()
@connects
def status(*, as_json: AsJson = False) -> None:
    """Print a server's status: its log, its memory and disk, warnings.

    Exit code 1 when the server does not commit.
    """
    from streameval.cli import _online  # noqa: PLC0415 - loaded only for a server

    serving = _online.status(as_json=as_json)
    if not serving:
        raise typer.Exit(1)


@admin.command(name="hash")
@connects
def hash_command(
    *,
    until: Annotated[
        int | None,
        typer.Option(
            metavar="REVISION", help="An earlier revision; directories only. [default: the newest]"
        ),
    ] = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Print the revision and the SHA-256 of the whole state.

    A server, its data directory and its restored backup have equal hashes at equal revisions.
    """
    if _is_offline(data, config):
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

        _offline.state_hash(data, config, until)
        return
    if until is not None:
        raise StreamEvalError("a server has only the newest hash: give --data DIRECTORY, too")
    from streameval.cli import _online  # noqa: PLC0415 - as above

    _online.state_hash()


@admin.command()
def verify(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            exists=True,
            dir_okay=False,
            help="A backup. [default: the log in the data directory]",
            show_default=False,
        ),
    ] = None,
    *,
    data: Data = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Check every row of a log, what was acknowledged of it, and its checkpoint against a replay.

    Reads only; a server may be running. Exit code 1 when something is damaged or lost.
    """
    with one_line_errors():
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

        ok = _offline.verify(file, data, config, as_json=as_json)
    if not ok:
        raise typer.Exit(1)


@admin.command()
@connects
def backup(
    file: Annotated[
        Path,
        typer.Argument(help="The file to write, which must not exist yet; - for standard output."),
    ],
    *,
    data: Data = None,
    config: Config = None,
) -> None:
    """Copy the log and its checkpoints to a FILE, at one revision, while the server runs.

    From a server, or with --data from a directory on this machine.
    """
    target = None if str(file) == "-" else file
    if _is_offline(data, config):
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

        _offline.backup(target, data, config)
    else:
        from streameval.cli import _online  # noqa: PLC0415 - as above

        _online.backup(target)


@admin.command()
def restore(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A backup.")],
    *,
    data: Annotated[Path, typer.Option(help="An empty or new directory.")],
    config: Config = None,
) -> None:
    """Verify a backup, then make a data directory from it."""
    with one_line_errors():
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

        _offline.restore(file, data, config)


@admin.command()
@connects
def compact(
    *,
    data: Data = None,
    config: Config = None,
) -> None:
    """Take a checkpoint and drop the log before it.

    Earlier revisions can no longer be replayed: back up first. A running server reuses the
    space; the file becomes smaller only with --data, while no server runs.
    """
    if _is_offline(data, config):
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

        _offline.compact(data, config)
    else:
        from streameval.cli import _online  # noqa: PLC0415 - as above

        _online.compact()


@clock.command()
@connects
def accept() -> None:
    """Confirm that the server's clock is right, after a step or a long stop put it in doubt.

    What is due by that clock then expires, and that cannot be undone: compare the times that
    'streameval admin status' prints with a clock that you trust.
    """
    from streameval.cli import _online  # noqa: PLC0415 - loaded only for a server

    _online.accept_clock()


@admin.command()
def repair(
    data: Annotated[
        Path,
        typer.Argument(exists=True, file_okay=False, help="Data directory of a stopped server."),
    ],
    *,
    to: Annotated[Path, typer.Option(help="An empty or new directory for the mended log.")],
    first: Annotated[
        int | None,
        typer.Option(
            metavar="REVISION",
            help="The first row that was received with a wrong time. [default: the first one "
            "that is later than this machine's clock]",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(metavar="REVISION", help="The last such row. [default: the last of the log]"),
    ] = None,
    config: Config = None,
) -> None:
    """Mend a log that was written while the clock was ahead, from its rows.

    A clock that was set ahead made ids expire and dropped panes. The log still holds all rows:
    each gets the time of its own latest event, or of the row before, and is applied again. The
    directory is only read. This machine's clock must be right.
    """
    with one_line_errors():
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

        _offline.repair(data, to, first, last, config)


@admin.command(name="export")
@connects
def export_command(
    stream: StreamName,
    file: NewFile,
) -> None:
    """Write a whole stream to a FILE: settings, counts, panes, slices, waiting ids."""
    from streameval.cli import _online  # noqa: PLC0415 - loaded only for a server

    _online.export_stream(stream, file)


@admin.command(name="import")
@connects
def import_command(
    file: Export,
    *,
    stream: Annotated[
        str | None,
        typer.Option("--as", metavar="STREAM", help="Name of the stream. [default: its old one]"),
    ] = None,
) -> None:
    """Make a stream from an export.

    An export has neither the log, so earlier revisions cannot be replayed, nor the numbers of
    producers' batches: flush and stop the stream's producers before the export.
    """
    from streameval.cli import _online  # noqa: PLC0415 - loaded only for a server

    _online.import_stream(file, stream)


@admin.command(name="token")
def token_command(
    name: Annotated[str, typer.Argument(metavar="ID", help="Names the token in the log.")],
    *,
    file: Annotated[
        Path,
        typer.Option(
            "--tokens",
            envvar="STREAMEVAL_TOKENS",
            help="The server's tokens file; created when there is none.",
        ),
    ],
    scopes: Annotated[
        list[str],
        typer.Option(
            "--scope",
            metavar="ingest|query|sample|admin",
            help="A scope; may be repeated.",
        ),
    ],
    streams: Annotated[
        list[str] | None,
        typer.Option(
            "--stream",
            help="This stream and those below; may be repeated. [default: all]",
        ),
    ] = None,
    valid_for: Annotated[
        str | None,
        typer.Option("--valid-for", metavar="SPAN", help="Like 12h or 90d. [default: for ever]"),
    ] = None,
) -> None:
    """Make a token, add its hash to the tokens file, and print it; it is stored nowhere else.

    A running server reads the change within a second. Delete the entry to revoke the token.
    """
    with one_line_errors():
        from streameval_server import commands  # noqa: PLC0415 - the extra may be absent

        span = None if valid_for is None else parse_span(valid_for, "--valid-for")
        print(commands.create_token(file, name, scopes, streams or None, valid_for=span))


@admin.command(name="replay")
def replay_command(
    stream: StreamName,
    *,
    until: Until = None,
    data: Data = None,
    config: Config = None,
    window: Window = None,
    segment: SegmentOption = None,
    as_json: AsJson = False,
) -> None:
    """Print a stream's figures as they were at a revision of the log.

    Reads the log only; a server may be running. A window ends at the time of the revision.
    Revisions before a compaction cannot be replayed.
    """
    with one_line_errors():
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

        _offline.replay(
            stream,
            until=until,
            data=data,
            config=config,
            window=window,
            segment=segment,
            as_json=as_json,
        )


@admin.command(name="sample")
def sample_command(
    stream: StreamName,
    *,
    until: Until = None,
    data: Data = None,
    config: Config = None,
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
    """Repeat a draw of 'streameval sample' at the revision of its answer.

    With the same seed, size and other options, and the time that it covered as --from and --to, the
    ids and probabilities are the same. Reads the log only; a server may be running. Revisions
    before a compaction cannot be replayed.
    """
    with one_line_errors():
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent
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
        _offline.sample(stream, options, until=until, data=data, config=config)


def _is_offline(data: Path | None, config: Path | None) -> bool:
    """Whether a command reads a data directory; a server that is named, too, is a mistake."""
    is_offline = data is not None or config is not None
    if is_offline and connection().has_option:
        option = "--config" if data is None else "--data"
        raise StreamEvalError(f"give --server or {option}, not both")
    return is_offline
