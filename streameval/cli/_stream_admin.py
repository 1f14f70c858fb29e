"""The work of ``streameval streams``, by the client."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from streameval._common.errors import StreamEvalError
from streameval._common.spans import format_span, parse_span
from streameval.cli._connect import connect, transport
from streameval.cli._list_reading import read_complete
from streameval.cli._list_table import FrameState, frame
from streameval.cli._output import out, print_json
from streameval.client._wire.selection import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval.cli._list_reading import ListQuery
    from streameval.client import StreamInfo

_SPANS = frozenset({"pane", "retention", "label_ttl", "relabel_ttl"})


def parse_settings(**options: Any) -> dict[str, Any]:
    """Return the options that were given as settings of the client."""
    settings: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or value == []:
            continue
        option = "--" + name.replace("_", "-")
        settings[name] = parse_span(value, option) if name in _SPANS else value
    return settings


def print_streams(address: str, query: ListQuery, *, as_json: bool) -> None:
    """Print ranked streams, as a table or as a list in JSON."""
    with closing(transport(address)) as server:
        reading = read_complete(server, query)
    if as_json:
        print_json([summary.to_dict() for summary in reading.ranked.summaries])
    else:
        out.print(frame(reading, FrameState(address, query), out.width))


def print_settings(address: str, prefix: str, *, as_json: bool) -> None:
    """Print the settings of streams, as a table or as a list in JSON."""
    with connect(address) as client:
        found = client.list_streams(prefix)
    if as_json:
        print_json([plain_values(info) for info in found])
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("stream", "created", "pane", "retention", "label ttl", "bits", "segments"):
        table.add_column(title, no_wrap=title == "stream")
    for info in found:
        settings = info.settings
        table.add_row(
            Text(info.name),
            f"{info.create_time:%Y-%m-%d %H:%M}",
            format_span(settings.pane),
            format_span(settings.retention),
            format_span(settings.label_ttl),
            str(settings.resolution),
            Text(", ".join(settings.segment_keys)),
        )
    out.print(table)


def create(address: str, name: str, settings: Mapping[str, Any], *, as_json: bool) -> None:
    """Create a stream; print its settings."""
    with connect(address) as client:
        _print(client.create_stream(name, **settings), as_json=as_json)


def update(address: str, name: str, settings: dict[str, Any], *, as_json: bool) -> None:
    """Change settings of a stream; print all of them."""
    if not settings:
        raise StreamEvalError("give at least one setting to change, for instance --retention 90d")
    with connect(address) as client:
        if added := settings.get("segment_keys"):
            present = client.get_stream(name).settings.segment_keys
            settings["segment_keys"] = list(dict.fromkeys([*present, *added]))
        _print(client.update_stream(name, **settings), as_json=as_json)


def delete(address: str, name: str) -> None:
    """Delete a stream."""
    with connect(address) as client:
        client.delete_stream(name)
    out.print(f"{name} is deleted", soft_wrap=True, markup=False)


def plain_values(info: StreamInfo) -> dict[str, Any]:
    """Return a description as plain values, with the names and durations of JSON over HTTP."""
    settings = {
        name: duration(value, field=name).ToJsonString() if isinstance(value, timedelta) else value
        for name, value in asdict(info.settings).items()
    }
    if info.settings.alarms is not None:
        settings["alarms"] = info.settings.alarms.to_dict()
    return {
        "name": info.name,
        "create_time": info.create_time.isoformat(),
        "create_revision": info.create_revision,
        "settings": {**settings, "segment_keys": list(info.settings.segment_keys)},
    }


def _print(info: StreamInfo, *, as_json: bool) -> None:
    if as_json:
        print_json(plain_values(info))
        return
    out.print(info.name, soft_wrap=True, markup=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in asdict(replace(info.settings, alarms=None)).items():
        if name == "alarms":  # `streameval alarms show` has them
            continue
        shown = format_span(value) if isinstance(value, timedelta) else value
        shown = ", ".join(shown) if isinstance(shown, tuple) else shown
        table.add_row(name.replace("_", " "), Text("none" if shown in ("", None) else str(shown)))
    out.print(table)
