"""Reads payloads as each way in does, by each preset and by mappings of every key."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from streameval import InvalidInputError
from streameval.kafka._piece import read_piece
from streameval.payloads import (
    PRESETS,
    PayloadMapping,
    UnreadableEvent,
    iter_events,
    read_events,
    read_rows,
    unpack,
    wanted_types,
)
from streameval_server._model.errors import RequestError
from streameval_server._payloads.intake import PayloadIntake
from streameval_server._payloads.log_messages import Encoding, read_logs

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BODY_BYTES = 8 << 20
"""Of a request, as the server has it by default."""

EVENT, LOGS, LINES, MESSAGE = "event", "logs", "lines", "message"
"""The ways in: a request of CloudEvents, one of OTLP's logs, a file of lines, a Kafka message."""

_EVERY_KEY = {
    "stream": "s/{class}",
    "score": "body.p || body.q || body.outputs[0].data",
    "label": "body.y",
    "id": "body.id || headers.id",
    "time": "body.t",
    "segments": {"s": "body.s", "n": "parse_json(body.text)"},
    "cluster": "body.c",
    "class_names": "body.names",
    "classes": ["a", "b"],
}
MAPPINGS = {
    "every key": PayloadMapping.of(_EVERY_KEY),
    "one class": PayloadMapping.of(
        {
            **{key: each for key, each in _EVERY_KEY.items() if key not in ("classes", "cluster")},
            "stream": "s/{source}",
            "class": "z",
        }
    ),
    **{
        name: PayloadMapping.of(
            {
                "stream": "s",
                "id": "body.id || headers.id",
                "score": "body.p",
                "preset": name,
                "types": [],
            }
        )
        for name in PRESETS
    },
}


def read(way: str, headers: Mapping[str, str], content: bytes, mapping: PayloadMapping) -> str:
    """Read a body as its way in does; return what became of it. Raises for a finding only."""
    try:
        if way == MESSAGE:
            given = [(name, value.encode()) for name, value in headers.items()]
            message = SimpleNamespace(
                value=lambda: content,
                headers=lambda: given or None,
                topic=lambda: "t",
                key=lambda: None,
                timestamp=lambda: (1, 1_700_000_000_000),
            )
            piece = read_piece([message], [mapping])
            return f"{sum(map(len, piece.refused.values()))} refused"
        if way == LINES:
            return _read_lines(content, mapping)
        body = unpack(content, headers.get("content-encoding", ""), MAX_BODY_BYTES)
        runtime: Any = SimpleNamespace(calls=SimpleNamespace(stopping=False))
        intake = PayloadIntake([mapping], runtime, auto_create=True)
        if way == LOGS:
            events = read_logs(Encoding(headers["content-type"]), body)
        else:
            events = iter_events(headers, body, intake.types)
        found = intake.read(events)
        return f"{len(found.found)} rows, {found.ignored} ignored"
    except (InvalidInputError, RequestError) as error:
        return f"refused: {error}"


def _read_lines(content: bytes, mapping: PayloadMapping) -> str:
    rows = 0
    for line in filter(None, content.splitlines()):
        try:
            events = read_events({}, line, wanted_types([mapping]))
        except InvalidInputError:
            continue
        for event in events:
            if not isinstance(event, UnreadableEvent):
                rows += len(read_rows(mapping, event).rows)
    return f"{rows} rows"
