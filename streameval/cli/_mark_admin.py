"""The work of ``streameval marks``, by the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.cli._connect import connect
from streameval.cli._options import parse_time
from streameval.cli._output import out, print_json

if TYPE_CHECKING:
    from streameval.client import StreamMark


def add(address: str, stream: str, text: str, at: str | None, *, as_json: bool) -> None:
    """Make a mark and print it."""
    time = None if at is None else parse_time(at, "--at")
    with connect(address) as client:
        made = client.create_mark(stream, text, at=time)
    if as_json:
        print_json(made.to_dict())
    else:
        _print(made)


def print_marks(
    address: str, stream: str, start: str | None, end: str | None, *, as_json: bool
) -> None:
    """Print a stream's marks, one a line, or as a list in JSON."""
    first = None if start is None else parse_time(start, "--from")
    last = None if end is None else parse_time(end, "--to")
    with connect(address) as client:
        found = client.list_marks(stream, start=first, end=last)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    if not found:
        out.print(f"{stream} has no marks", soft_wrap=True, markup=False)
    for each in found:
        _print(each)


def delete(address: str, stream: str, number: int) -> None:
    """Delete a mark."""
    with connect(address) as client:
        client.delete_mark(stream, number)
    out.print(f"mark {number} of {stream} is deleted", soft_wrap=True, markup=False)


def _print(mark: StreamMark) -> None:
    line = f"{mark.number}  {mark.time:%Y-%m-%d %H:%M:%S}  {mark.text}"
    out.print(line, soft_wrap=True, markup=False)
