"""The work of ``streameval pairs``, by the client."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from streameval._common.spans import format_span
from streameval.cli._connect import connect
from streameval.cli._output import out, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval.client import PairInfo


def create(address: str, a: str, b: str, settings: Mapping[str, Any], *, as_json: bool) -> None:
    """Make a pair; print its settings."""
    with connect(address) as client:
        _print(client.create_pair(a, b, **settings), as_json=as_json)


def print_pairs(address: str, stream: str, *, as_json: bool) -> None:
    """Print the pairs of a server, as a table or as a list in JSON."""
    with connect(address) as client:
        found = client.list_pairs(stream)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    if not found:
        of = f" of {stream}" if stream else ""
        out.print(
            f"there is no pair{of}; make one with: streameval pairs create {address} A B",
            soft_wrap=True,
            markup=False,
        )
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("a", "b", "created", "pane", "retention", "label ttl", "segments"):
        table.add_column(title, no_wrap=title in {"a", "b"})
    for each in found:
        settings = each.settings
        table.add_row(
            Text(each.a),
            Text(each.b),
            f"{each.created_at:%Y-%m-%d %H:%M}",
            format_span(settings.pane),
            format_span(settings.retention),
            format_span(settings.label_ttl),
            Text(", ".join(settings.segment_keys)),
        )
    out.print(table)


def show(address: str, a: str, b: str, *, as_json: bool) -> None:
    """Print a pair's settings and counters."""
    with connect(address) as client:
        _print(client.get_pair(a, b), as_json=as_json)


def delete(address: str, a: str, b: str) -> None:
    """Delete a pair."""
    with connect(address) as client:
        client.delete_pair(a, b)
    out.print(f"the pair of {a} and {b} is deleted", soft_wrap=True, markup=False)


def _print(info: PairInfo, *, as_json: bool) -> None:
    if as_json:
        print_json(info.to_dict())
        return
    out.print(
        f"{info.a} and {info.b}, since {info.created_at:%Y-%m-%d %H:%M:%S} UTC",
        soft_wrap=True,
        markup=False,
    )
    out.print(_table(asdict(info.settings)))
    if info.counters is not None:
        out.print("so far", style="dim")
        out.print(_table(asdict(info.counters)))


def _table(values: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in values.items():
        shown = format_span(value) if isinstance(value, timedelta) else value
        shown = ", ".join(shown) if isinstance(shown, tuple) else shown
        if isinstance(shown, int):
            shown = f"{shown:,}"
        table.add_row(name.replace("_", " "), Text("none" if shown in ("", None) else str(shown)))
    return table
