"""``streameval marks``: annotates the time of streams, as with deployments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from streameval.cli._commands import Commands
from streameval.cli._connection import command, connect
from streameval.cli._connection_options import connects
from streameval.cli._options import AsJson, From, StreamName, To, parse_time

if TYPE_CHECKING:
    from streameval.client import StreamMark

_SOON = timedelta(minutes=5)
"""Clocks may differ by this long."""

marks = Commands("Annotate the time of streams: deployments.")


@marks.command()
@connects
def add(
    stream: StreamName,
    text: Annotated[str, typer.Argument(help="What happened, in one line.")],
    *,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When: ISO 8601; now by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Mark a time of a stream. Repeated with the same time and text, it changes nothing."""
    from streameval.cli._output import print_json, say  # noqa: PLC0415 - slow to import

    time = None if at is None else parse_time(at, "--at")
    with connect() as client:
        made = client.create_mark(stream, text, at=time)
    if as_json:
        print_json(made.to_dict())
    else:
        say(_line(made))
        if made.time > datetime.now(UTC) + _SOON:
            remove = command("marks", "delete", stream, made.number)
            say(f"note: this time is still to come; to delete the mark, run: {remove}")


@marks.command(name="list")
@connects
def list_command(
    stream: StreamName,
    *,
    start: From = None,
    end: To = None,
    as_json: AsJson = False,
) -> None:
    """Print the marks of a stream, in order of their times."""
    from streameval.cli._output import print_json, say  # noqa: PLC0415 - slow to import

    first = None if start is None else parse_time(start, "--from")
    last = None if end is None else parse_time(end, "--to")
    with connect() as client:
        found = client.list_marks(stream, start=first, end=last)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    if not found:
        say(f"{stream} has no marks")
    for each in found:
        say(_line(each))


@marks.command()
@connects
def delete(
    stream: StreamName,
    number: Annotated[int, typer.Argument(min=1, help="The mark's number.")],
) -> None:
    """Delete a mark."""
    from streameval.cli._output import say  # noqa: PLC0415 - slow to import

    with connect() as client:
        client.delete_mark(stream, number)
    say(f"mark {number} of {stream} is deleted")


def _line(mark: StreamMark) -> str:
    return f"{mark.number}  {mark.time:%Y-%m-%d %H:%M:%S}  {mark.text}"
