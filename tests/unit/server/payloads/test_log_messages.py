"""Log records in both encodings of OTLP give the same events."""

from __future__ import annotations

import base64
import json
import math
import re
import time
from typing import Any

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
pytest.importorskip("opentelemetry.proto", reason="needs the extra server")
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from streameval import InvalidInputError
from streameval.payloads import (
    MAX_FIELDS,
    MAX_LOG_RECORDS,
    Event,
    UnreadableEvent,
    read_log_records,
)
from streameval_server._payloads.log_messages import Encoding, read_logs, response_bytes
from tests.fuzz.payload_attacks import JSON, LOGS, PROTOBUF, Attack, attacks, field

TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.binary(max_size=4)
)
VALUES = st.recursive(
    LEAVES,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXT, each, max_size=3),
    max_leaves=12,
)
PAIRS = st.dictionaries(TEXT, VALUES, max_size=3)


def number(value: float) -> Any:
    """Return a number as protobuf's JSON has it."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def any_value(value: Any) -> dict[str, Any]:
    """Return a value as OTLP's JSON has it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    plain = {
        int: lambda: {"intValue": str(value)},
        float: lambda: {"doubleValue": number(value)},
        str: lambda: {"stringValue": value},
        bytes: lambda: {"bytesValue": base64.b64encode(value).decode()},
    }
    return {} if value is None else plain[type(value)]()


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(each)} for key, each in values.items()]


def seen(value: Any) -> Any:
    """Return a value as an event has it: bytes in base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [seen(each) for each in value]
    if isinstance(value, dict):
        return {key: seen(each) for key, each in value.items()}
    return value


def protobuf_of(request: dict[str, Any]) -> bytes:
    """Return a request in protobuf; ids of traces, which differ, are put in afterwards."""
    from google.protobuf import json_format

    text = json.loads(json.dumps(request))
    for sender in text["resourceLogs"]:
        for logger in sender["scopeLogs"]:
            for record in logger["logRecords"]:
                for name in ("traceId", "spanId"):
                    raw = bytes.fromhex(record.get(name, ""))
                    record[name] = base64.b64encode(raw).decode()
    return json_format.ParseDict(text, ExportLogsServiceRequest()).SerializeToString()


@given(body=VALUES, attributes=PAIRS, resource=PAIRS, time_ns=st.integers(0, 2**64 - 1))
def test_both_encodings_give_the_same_events(
    body: Any, attributes: dict[str, Any], resource: dict[str, Any], time_ns: int
) -> None:
    """Every kind of value, at any depth; times beyond what a date has."""
    record = {
        "timeUnixNano": str(time_ns),
        "body": any_value(body),
        "attributes": pairs(attributes),
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
    }
    request = {
        "resourceLogs": [
            {
                "resource": {"attributes": pairs(resource)},
                "scopeLogs": [{"scope": {"name": "logger"}, "logRecords": [record, record]}],
            }
        ]
    }
    events = list(read_log_records(json.dumps(request).encode()))
    assert events == list(read_logs(Encoding.PROTOBUF, protobuf_of(request)))
    assert len(events) == 2
    assert (events[0].body, events[0].attributes) == (seen(body), seen(attributes))
    assert events[0].resource == seen(resource)
    assert events[0].named("scope") == "logger"
    assert events[0].headers["spanid"] == "eee19b7ec3c1b174"
    assert ("time" in events[0].headers) == (time_ns > 0)


def test_what_becomes_headers() -> None:
    """The event's name as an attribute, which older senders have; when it was observed."""
    record = {
        "observedTimeUnixNano": 1_500_000_000,
        "attributes": pairs({"event.name": "scored", "time": "mine"}),
    }
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record, {}]}]}]})
    named, empty = read_log_records(body.encode())
    assert named.headers == {"type": "scored", "time": "1970-01-01T00:00:01.500000+00:00"}
    assert named.named("time") == named.headers["time"]
    assert empty == Event(None)
    assert empty.named("time") is None


@pytest.mark.parametrize(
    ("rejected", "text"),
    [
        (0, b"{}"),
        (2, b'{"partialSuccess": {"rejectedLogRecords": "2", "errorMessage": "why"}}'),
    ],
)
def test_responses(rejected: int, text: bytes) -> None:
    """Complete success has no fields."""
    assert response_bytes(Encoding.JSON, rejected, "why") == text
    data = response_bytes(Encoding.PROTOBUF, rejected, "why")
    assert bool(data) == bool(rejected)
    partial = ExportLogsServiceResponse.FromString(data).partial_success
    assert (partial.rejected_log_records, partial.error_message) == (
        (rejected, "why") if rejected else (0, "")
    )


WAYS = {JSON: Encoding.JSON, PROTOBUF: Encoding.PROTOBUF}
LOG_ATTACKS = [each for each in attacks(2 << 20) if each.way == LOGS and len(each.headers) == 1]


@pytest.mark.parametrize("attack", LOG_ATTACKS, ids=[each.name for each in LOG_ATTACKS])
def test_what_a_request_can_become_is_known_before_it_is_decoded(attack: Attack) -> None:
    """Empty records, groups and values: no more are decoded than there may be."""
    began, count, problem = time.thread_time(), 0, ""
    try:
        for _ in read_logs(WAYS[attack.headers["content-type"]], attack.body):
            count += 1
    except InvalidInputError as error:
        problem = str(error)
    assert time.thread_time() - began < 10  # seconds; as a rule, 1
    assert count <= MAX_LOG_RECORDS
    assert re.match("$|more than 100000 log|the body (has [0-9]+ commas|is no)", problem), problem


@pytest.mark.parametrize("holder", [b"\x32", b"\x2a"])
def test_the_fields_of_a_record_are_counted(holder: bytes) -> None:
    """Attributes, and values of a list in its body; the record beside it is read."""
    many = holder + b"\x00"
    record = many * (MAX_FIELDS + 1)
    body = field(1, field(2, field(2, record) + field(2, b"")))
    found = list(read_logs(Encoding.PROTOBUF, body))
    assert isinstance(found[0], UnreadableEvent)
    assert "more than 1000000 fields" in found[0].message
    assert found[1:] == [Event(None)]
