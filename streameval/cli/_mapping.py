"""``streameval mapping``: shows what a mapping of payloads extracts from a sample."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streameval._common.errors import StreamEvalError
from streameval._common.redaction import printable
from streameval._common.text_file import read_toml
from streameval.cli._commands import Commands
from streameval.cli._errors import one_line_errors
from streameval.cli._options import AsJson

if TYPE_CHECKING:
    from streameval.payloads import (
        Event,
        Extraction,
        PayloadMapping,
        PayloadRow,
        UnreadableEvent,
    )

mapping = Commands("Try mappings of payloads to rows.")

NOTHING_EXTRACTED = 1


@mapping.callback()
def _group() -> None:
    """Try mappings of payloads to rows."""


@mapping.command(name="try")
def try_mapping(
    file: Annotated[
        Path, typer.Argument(exists=True, help="A configuration file, TOML, with [[ingest]].")
    ],
    *,
    sample: Annotated[
        Path,
        typer.Option(
            exists=True,
            help="A payload in JSON, a CloudEvent in JSON, a request of OpenTelemetry's logs in "
            "JSON, or .ndjson with one a line; or .gz of one.",
        ),
    ],
    header: Annotated[
        list[str] | None,
        typer.Option(
            help="A header of the payload, for instance ce-id=7. May be repeated.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the rows that the mappings of a file extract from a sample; nothing is sent.

    The first mapping that takes the event counts it. Exits with 1 when a row is refused, or none
    is extracted.
    """
    with one_line_errors():
        mappings = _mappings(file)
        found = [_first(mappings, event) for event in _events(sample, header or [], mappings)]
        if as_json:
            _print_json(found)
        else:
            _print(found)
    if any(each.refusals for _, each in found) or not any(each.rows for _, each in found):
        raise typer.Exit(NOTHING_EXTRACTED)


def _mappings(file: Path) -> list[PayloadMapping]:
    from streameval.payloads import mappings_of  # noqa: PLC0415 - slow to import

    try:
        tables = read_toml(file)
        if "ingest" not in tables:
            raise StreamEvalError(f"{file}: it has no [[ingest]] table, which is a mapping")
        return mappings_of(tables["ingest"])
    except ValueError as error:
        raise StreamEvalError(f"{file}: {error}") from None


def _events(
    sample: Path, header_options: list[str], mappings: list[PayloadMapping]
) -> list[Event | UnreadableEvent]:
    """Return the events of a sample, which is one event, a batch, or one event a line."""
    from streameval.payloads import unpack, wanted_types  # noqa: PLC0415 - slow to import

    headers = {"content-type": "application/json"}
    for option in header_options:
        name, equals, value = option.partition("=")
        if not name or not equals:
            raise StreamEvalError(f"--header must be NAME=VALUE, got {option!r}")
        headers[name.strip().lower()] = value.strip()
    is_packed = sample.suffix == ".gz"
    try:
        body = unpack(sample.read_bytes(), "gzip" if is_packed else "")
        inner = Path(sample.stem) if is_packed else sample
        types = wanted_types(mappings)
        if inner.suffix in (".ndjson", ".jsonl"):
            lines = enumerate(body.splitlines(), start=1)
            return [
                event
                for number, line in lines
                if line.strip()
                for event in _events_of_line(number, headers, line, types)
            ]
        return _events_of(headers, body, types)
    except ValueError as error:
        raise StreamEvalError(f"{sample}: {error}") from None


def _events_of_line(
    number: int, headers: dict[str, str], line: bytes, types: frozenset[str] | None
) -> list[Event | UnreadableEvent]:
    """Return the events of a line; one that cannot be read leaves the other lines."""
    from streameval.payloads import UnreadableEvent  # noqa: PLC0415 - slow to import

    try:
        return _events_of(headers, line, types)
    except ValueError as error:
        return [UnreadableEvent(f"line {number}: {error}")]


def _events_of(
    headers: dict[str, str], body: bytes, types: frozenset[str] | None
) -> list[Event | UnreadableEvent]:
    """Return the events of one message: a log request's records, or what `read_events` returns."""
    from streameval.payloads import (  # noqa: PLC0415 - slow to import
        read_events,
        read_log_records,
    )

    if b'"resourceLogs"' in body:
        return list(read_log_records(body))
    return read_events(_kind(headers, body), body, types)


def _kind(headers: dict[str, str], body: bytes) -> dict[str, str]:
    """Return headers that say that a body is a structured event, where it is one.

    Over HTTP the sender says so; a file has only its content.
    """
    if b'"specversion"' not in body or any(name.startswith("ce-") for name in headers):
        return headers
    batch = "-batch" if body.lstrip().startswith(b"[") else ""
    return {**headers, "content-type": f"application/cloudevents{batch}+json"}


def _first(
    mappings: list[PayloadMapping], event: Event | UnreadableEvent
) -> tuple[int, Extraction]:
    """Return what the first mapping that takes an event extracts, and its place from 1; 0: none."""
    from streameval.payloads import (  # noqa: PLC0415 - slow to import
        Extraction,
        Reason,
        Refusal,
        UnreadableEvent,
        read_rows,
    )

    if isinstance(event, UnreadableEvent):
        return 0, Extraction(refusals=[Refusal(Reason.UNREADABLE, event.message)])

    is_excluded = False
    for number, each in enumerate(mappings, start=1):
        found = read_rows(each, event)
        if not found.is_ignored:
            return number, found
        is_excluded = is_excluded or found.is_excluded
    return 0, Extraction(is_ignored=True, is_excluded=is_excluded)


def _print(found: list[tuple[int, Extraction]]) -> None:
    from rich.table import Table  # noqa: PLC0415 - slow to import
    from rich.text import Text  # noqa: PLC0415 - slow to import

    from streameval.cli._output import out, say  # noqa: PLC0415 - slow to import

    rows = [
        (number, row) for number, (_, extraction) in enumerate(found) for row in extraction.rows
    ]
    optional = [
        name
        for name in ("weight", "cluster", "label_time_us")
        if any(getattr(row, name) is not None for _, row in rows)
    ]
    names = ("stream", "id", "score", "label", "time", "segments")
    table = Table("event", *names, *(name.removesuffix("_us") for name in optional), box=None)
    for number, row in rows:
        columns = _columns(row) | {name: getattr(row, name) for name in optional}
        if "label_time_us" in columns:
            columns["label_time_us"] = _time_text(row.label_time_us)
        # Text: what an id has in brackets is no markup.
        table.add_row(str(number), *(Text(_shown(each)) for each in columns.values()))
    if table.row_count:
        out.print(table)
    for number, (mapping_number, extraction) in enumerate(found):
        if extraction.is_ignored:
            why = "`when` is not true" if extraction.is_excluded else "no mapping takes its type"
            out.print(f"event {number} is ignored: {why}", soft_wrap=True)
        for refusal in extraction.refusals:
            place = "" if refusal.row is None else f", row {refusal.row}"
            by = f" by mapping {mapping_number}" if mapping_number else ""
            say(f"event {number}{place} is refused{by} ({refusal.reason.value}): {refusal.message}")


def _print_json(found: list[tuple[int, Extraction]]) -> None:
    from streameval.cli._output import print_json  # noqa: PLC0415 - slow to import

    print_json(
        [
            {
                "mapping": number or None,
                "rows": [row._asdict() for row in extraction.rows],
                "refusals": [
                    {"row": each.row, "reason": each.reason.value, "message": each.message}
                    for each in extraction.refusals
                ],
            }
            for number, extraction in found
        ]
    )


def _time_text(time_us: int | None) -> str | None:
    if time_us is None:
        return None
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="seconds")


def _columns(row: PayloadRow) -> dict[str, object]:
    segments = " ".join(f"{key}={value}" for key, value in row.segments.items() if value)
    return {
        "stream": row.stream,
        "id": row.id,
        "score": row.score,
        "label": row.label,
        "time": _time_text(row.time_us),
        "segments": segments,
    }


def _shown(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else printable(str(value))
