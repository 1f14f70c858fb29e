"""``streameval marks``: annotates the time of streams, as with deployments."""

from __future__ import annotations

from typing import Annotated

import typer

from streameval.cli._connection_options import connects
from streameval.cli._errors import one_line_errors
from streameval.cli._options import Address, AsJson, From, To
from streameval.cli._streams import StreamName

marks = typer.Typer(help="Annotate the time of streams: deployments.", no_args_is_help=True)


@marks.command()
@connects
def add(
    address: Address,
    stream: StreamName,
    text: Annotated[str, typer.Argument(help="What happened, in one line.")],
    *,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When: ISO 8601; now by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Mark a time of a stream. Repeated with the same time and text, it changes nothing."""
    with one_line_errors():
        from streameval.cli import _mark_admin  # noqa: PLC0415 - slow to import

        _mark_admin.add(address, stream, text, at, as_json=as_json)


@marks.command(name="list")
@connects
def list_command(
    address: Address,
    stream: StreamName,
    *,
    start: From = None,
    end: To = None,
    as_json: AsJson = False,
) -> None:
    """Print the marks of a stream, in order of their times."""
    with one_line_errors():
        from streameval.cli import _mark_admin  # noqa: PLC0415 - slow to import

        _mark_admin.print_marks(address, stream, start, end, as_json=as_json)


@marks.command()
@connects
def delete(
    address: Address,
    stream: StreamName,
    number: Annotated[int, typer.Argument(min=1, help="The mark's number.")],
) -> None:
    """Delete a mark."""
    with one_line_errors():
        from streameval.cli import _mark_admin  # noqa: PLC0415 - slow to import

        _mark_admin.delete(address, stream, number)
