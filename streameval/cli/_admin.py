"""``streameval admin``: looking after a server, and after what it leaves on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streameval._common.errors import StreamEvalError
from streameval.cli._options import (
    Address,
    AddressOrData,
    AsJson,
    Config,
    Data,
    SegmentOption,
    Window,
)
from streameval.cli._output import one_line_errors

admin = typer.Typer(help="Look after a server.", no_args_is_help=True)


@admin.command()
def status(address: Address, *, as_json: AsJson = False) -> None:
    """Print how a server is: how far it has come, what it holds, what to look into.

    Exit code 1 when it does not commit.
    """
    with one_line_errors():
        from streameval.cli import _online  # noqa: PLC0415 - only where a server is asked

        serving = _online.status(address, as_json=as_json)
    if not serving:
        raise typer.Exit(1)


@admin.command(name="hash")
def hash_command(
    address: AddressOrData = None,
    *,
    until: Annotated[
        int | None,
        typer.Option(
            metavar="REVISION", help="Of an earlier revision; only of a directory. [default: now]"
        ),
    ] = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Print the revision and the SHA-256 of the whole state.

    Equal logs have equal hashes: of a server, of its directory, of its backup once restored.
    """
    with one_line_errors():
        _either(address, data)
        if address is None:
            from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

            _offline.state_hash(data, config, until)
            return
        if until is not None:
            raise StreamEvalError(
                "a server has the hash of now only: give --data instead of HOST:PORT"
            )
        from streameval.cli import _online  # noqa: PLC0415 - as above

        _online.state_hash(address)


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
    """Check every row of a log, and its checkpoint against a replay.

    Only reads; a server may be running. Exit code 1 when something is damaged.
    """
    with one_line_errors():
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

        ok = _offline.verify(file, data, config, as_json=as_json)
    if not ok:
        raise typer.Exit(1)


@admin.command()
def backup(
    file: Annotated[Path, typer.Argument(help="Where to write; must not be there yet.")],
    address: AddressOrData = None,
    *,
    data: Data = None,
    config: Config = None,
) -> None:
    """Copy the log and its checkpoints to a FILE here, of one moment, while a server goes on.

    From the server at HOST:PORT, or from a data directory on this machine.
    """
    with one_line_errors():
        _either(address, data)
        if address is None:
            from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

            _offline.backup(file, data, config)
        else:
            from streameval.cli import _online  # noqa: PLC0415 - as above

            _online.backup(file, address)


@admin.command()
def restore(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A backup.")],
    *,
    data: Annotated[Path, typer.Option(help="A directory that is empty, or not there yet.")],
    config: Config = None,
) -> None:
    """Make a data directory of a backup, which is verified first."""
    with one_line_errors():
        from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

        _offline.restore(file, data, config)


@admin.command()
def compact(
    address: AddressOrData = None,
    *,
    data: Data = None,
    config: Config = None,
) -> None:
    """Take a checkpoint and drop the log before it.

    What was known before that can no longer be replayed: back up first. A server uses the space
    again; only without one, on its data directory, does the file become smaller.
    """
    with one_line_errors():
        _either(address, data)
        if address is None:
            from streameval.cli import _offline  # noqa: PLC0415 - the extra may be absent

            _offline.compact(data, config)
        else:
            from streameval.cli import _online  # noqa: PLC0415 - as above

            _online.compact(address)


@admin.command(name="export")
def export_command(
    address: Address,
    stream: Annotated[str, typer.Argument(help="Stream, for instance fraud/v3.")],
    file: Annotated[Path, typer.Argument(help="Where to write; must not be there yet.")],
) -> None:
    """Write everything about a stream to a FILE: settings, counts, panes, slices, waiting ids."""
    with one_line_errors():
        from streameval.cli import _online  # noqa: PLC0415 - only where a server is asked

        _online.export_stream(address, stream, file)


@admin.command(name="import")
def import_command(
    address: Address,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An export.")],
    *,
    stream: Annotated[
        str | None,
        typer.Option("--as", metavar="STREAM", help="Under this name. [default: the one it had]"),
    ] = None,
) -> None:
    """Make a stream of what 'export' wrote.

    The log of what was sent is not in an export, so what was known before cannot be replayed; nor
    are the numbers of producers' batches: stop and flush those that send to the stream first.
    """
    with one_line_errors():
        from streameval.cli import _online  # noqa: PLC0415 - only where a server is asked

        _online.import_stream(address, file, stream)


@admin.command(name="token")
def token_command(
    name: Annotated[str, typer.Argument(metavar="ID", help="What the token is called in the log.")],
    *,
    file: Annotated[
        Path,
        typer.Option(
            "--tokens",
            envvar="STREAMEVAL_TOKENS",
            help="The server's tokens file; made when there is none.",
        ),
    ],
    scopes: Annotated[
        list[str], typer.Option("--scope", metavar="ingest|query|admin", help="What it is for.")
    ],
    streams: Annotated[
        list[str] | None,
        typer.Option("--stream", help="Only this stream and those below it. [default: all]"),
    ] = None,
) -> None:
    """Make a token, add it to the tokens file as a hash, and print it: nothing else keeps it.

    A running server takes it up within a second. Delete its entry to take it away.
    """
    with one_line_errors():
        try:
            from streameval_server import create_token  # noqa: PLC0415 - the extra may be absent
        except ModuleNotFoundError as error:
            message = f"{error.name} is missing; pip install 'streameval[server]'"
            raise StreamEvalError(message) from error
        print(create_token(file, name, scopes, streams or None))


@admin.command(name="replay")
def replay_command(
    stream: Annotated[str, typer.Argument(help="Stream, for instance fraud/v3.")],
    *,
    until: Annotated[
        int | None,
        typer.Option(metavar="REVISION", help="Revision of the log. [default: the last]"),
    ] = None,
    data: Data = None,
    config: Config = None,
    window: Window = None,
    segment: SegmentOption = None,
    as_json: AsJson = False,
) -> None:
    """Print what was known then: a stream's figures at a revision of the log.

    The log is only read; a server may be running on it. A window ends with the time of that
    revision. What was compacted away is not there any more.
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


def _either(address: str | None, data: Path | None) -> None:
    if address is not None and data is not None:
        raise StreamEvalError("give HOST:PORT or --data, not both")
