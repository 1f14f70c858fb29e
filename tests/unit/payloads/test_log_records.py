"""Log records in JSON: what protobuf's JSON may write, and what one bad value costs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streameval import InvalidInputError
from streameval.payloads import Event, UnreadableEvent, read_log_records


def read(*records: Any, **sender: Any) -> list[Event | UnreadableEvent]:
    """Return the events of records of one sender."""
    request = {"resourceLogs": [{**sender, "scopeLogs": [{"logRecords": list(records)}]}]}
    return list(read_log_records(json.dumps(request).encode()))


@pytest.mark.parametrize(
    ("value", "found"),
    # Met in public reports: opentelemetry-collector-contrib#44217 (integers as texts),
    # Necmttn/ax#850 (integers as numbers), opentelemetry-proto#476 and remote_logger#22 (names of
    # the proto), opentelemetry-collector#7008 (empty messages).
    [
        ({"doubleValue": None}, None),
        ({"stringValue": None, "doubleValue": 0.5}, 0.5),
        ({"boolValue": None}, None),
        ({"intValue": None}, None),
        ({"arrayValue": None}, None),
        ({"arrayValue": {"values": None}}, []),
        ({"arrayValue": {"values": [None, {"intValue": 1}]}}, [None, 1]),
        ({"kvlistValue": {"values": None}}, {}),
        ({"kvlistValue": {"values": [{"key": "a", "value": None}]}}, {"a": None}),
        ({"kvlistValue": {"values": [{"key": None, "value": {"intValue": 1}}]}}, {"": 1}),
        ({"intValue": "7"}, 7),
        ({"intValue": 83729}, 83729),  # Necmttn/ax#850: a bare number, which emptied a signal
        ({"intValue": "-7"}, -7),  # langfuse/langfuse#14047: a text, which became nan
        ({"intValue": 7.0}, 7),
        ({"intValue": "7.0"}, 7),
        ({"intValue": "7e2"}, 700),
        ({"intValue": "9223372036854775807"}, 2**63 - 1),
        ({"doubleValue": "0.5"}, 0.5),
        ({"doubleValue": "Infinity"}, float("inf")),
        ({"doubleValue": 1}, 1.0),
        ({"boolValue": False}, False),
        ({"stringValue": ""}, ""),
        ({"bytesValue": "_-8"}, "/+8="),
        ({"double_value": 0.5}, 0.5),
        ({"array_value": {"values": [{"string_value": "a"}]}}, ["a"]),
        ({"newValue": 1}, None),
        (None, None),
        ({}, None),
    ],
)
def test_values_of_protobufs_json(value: Any, found: Any) -> None:
    """Null is absent in every field; integers are texts or whole floats; names of the proto."""
    (event,) = read({"body": value})
    assert event == Event(found)


def test_fields_that_are_null_are_absent() -> None:
    """As if they were not there."""
    names = ("body", "attributes", "eventName", "timeUnixNano", "traceId", "severityNumber")
    assert read(dict.fromkeys(names), resource=None) == [Event(None)]
    assert read({}, resource={"attributes": None}) == [Event(None)]
    assert list(read_log_records(b'{"resourceLogs": null}')) == []
    assert list(read_log_records(b'{"resourceLogs": [null, {"scopeLogs": [null]}]}')) == []
    request = {"resource_logs": [{"scope_logs": [{"log_records": [{"event_name": "e"}]}]}]}
    assert list(read_log_records(json.dumps(request).encode())) == [Event(None, {"type": "e"})]
    # rajudandigam/agent-inspect#128: nanoseconds as a JSON number.
    (event,) = read({"timeUnixNano": 1.5e9, "eventName": "e"})
    assert event == Event(None, {"type": "e", "time": "1970-01-01T00:00:01.500000+00:00"})


@pytest.mark.parametrize(
    ("record", "message"),
    # Met in public reports: anthropics/claude-code#82365 ({} for a number, which cost the batch),
    # Logflare#3683 (one bad id cost the batch), contrib#35739 (JSON that is no OTLP).
    [
        ({"body": 7}, "a value must be an object, got 7"),
        ({"body": {"intValue": "x"}}, "intValue must be an integer, got 'x'"),
        ({"body": {"intValue": 0.5}}, "intValue must be an integer, got 0.5"),
        ({"body": {"intValue": "1_0"}}, "intValue must be an integer, got '1_0'"),
        ({"body": {"doubleValue": "1_0"}}, "doubleValue must be a number, got '1_0'"),
        ({"body": {"doubleValue": " 1"}}, "doubleValue must be a number, got ' 1'"),
        ({"body": {"intValue": "\u0661"}}, "intValue must be an integer, got '\u0661'"),
        ({"body": {"intValue": True}}, "intValue must be an integer, got True"),
        ({"body": {"intValue": float("nan")}}, "intValue must be an integer, got nan"),
        ({"body": {"intValue": "1" * 30}}, "intValue must be an integer, got '111"),
        ({"body": {"doubleValue": "high"}}, "doubleValue must be a number, got 'high'"),
        ({"body": {"doubleValue": {}}}, "doubleValue must be a number, got {}"),
        ({"body": {"boolValue": "true"}}, "boolValue must be true or false, got 'true'"),
        ({"body": {"stringValue": 7}}, "stringValue must be a text, got 7"),
        ({"body": {"bytesValue": "%"}}, "bytesValue must be base64, got '%'"),
        ({"body": {"arrayValue": []}}, "arrayValue must be an object, got []"),
        ({"attributes": {}}, "attributes must be an array, got {}"),
        ({"attributes": [7]}, "attributes must be an object, got 7"),
        # open-telemetry/opentelemetry-js#4309: nanoseconds taken as milliseconds once more
        ({"timeUnixNano": "1700344572441000936000000"}, "timeUnixNano must be an integer, got '17"),
        # PostHog/posthog-js#4571: an integer that 64 bits do not hold
        ({"body": {"intValue": 10**30}}, "intValue must be an integer, got 1000"),
        # jjatria/perl-opentelemetry#15: an integer where a text must be
        ({"attributes": [{"key": 7, "value": None}]}, "key must be a text, got 7"),
        ({"timeUnixNano": True}, "timeUnixNano must be an integer, got True"),
        ({"timeUnixNano": -1}, "timeUnixNano must be nanoseconds since 1970, got -1"),
        ({"eventName": 7}, "eventName must be a text, got 7"),
        (7, "logRecords must be an object, got 7"),
    ],
)
def test_a_bad_record_costs_itself(record: Any, message: str) -> None:
    """Its neighbours are read."""
    good = {"body": {"intValue": 1}}
    before, bad, after = read(good, record, good)
    assert before == after == Event(1)
    assert isinstance(bad, UnreadableEvent)
    assert message in bad.message


def test_ids_of_spans_are_hexadecimal_in_either_case() -> None:
    """As the collector writes them (opentelemetry-proto#579), so that one span is one id."""
    (event,) = read({"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174"})
    assert event == Event(
        None, {"traceid": "5b8efff798038103d269b633813fc60c", "spanid": "eee19b7ec3c1b174"}
    )


def test_a_bad_resource_costs_its_records() -> None:
    """Each of them is named; records of other resources are read."""
    bad = {"resource": {"attributes": 7}, "scopeLogs": [{"logRecords": [{}, {}]}]}
    worse = {"scopeLogs": 7}
    good = {"scopeLogs": [{"scope": 7, "logRecords": [{}]}, {"logRecords": [{}]}]}
    found = list(read_log_records(json.dumps({"resourceLogs": [bad, 7, worse, good]}).encode()))
    assert [getattr(each, "message", None) for each in found] == [
        *["attributes must be an array, got 7"] * 2,
        "resourceLogs must be an object, got 7",
        "scopeLogs must be an array, got 7",
        "scope must be an object, got 7",
        None,
    ]


def test_a_value_that_is_nested_too_deeply_costs_its_record() -> None:
    """The others of its request are read."""
    deep = '{"arrayValue": {"values": [' * 5_000 + "]}}" * 5_000
    records = f'[{{}}, {{"body": {deep}}}, {{"attributes": null}}]'
    request = f'{{"resourceLogs": [{{"scopeLogs": [{{"logRecords": {records}}}]}}]}}'
    before, bad, after = list(read_log_records(request.encode()))
    assert before == after == Event(None)
    assert isinstance(bad, UnreadableEvent)


@pytest.mark.parametrize("body", [b"[]", b"7", b'{"resourceLogs": {}}', b"{"])
def test_what_is_no_request(body: bytes) -> None:
    """There is no record to refuse."""
    with pytest.raises(InvalidInputError):
        list(read_log_records(body))
