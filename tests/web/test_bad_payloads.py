"""What senders get wrong, over each way in: counted by reason, told once, nothing else lost."""

from __future__ import annotations

import gzip
import json
import logging
import re
import signal
import subprocess
import sys
import time
from threading import Thread
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
pytest.importorskip("opentelemetry.proto", reason="needs the extra server")
from streameval.client import Client
from streameval.payloads import PayloadMapping
from streameval_server import Settings
from streameval_server.testing import running_service
from tests.fuzz.payload_attacks import EVENT, LOGS, attacks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAPPING = PayloadMapping.of(
    {"stream": "fraud", "types": ["scored"], "score": "body.p", "id": "body.id"}
)
BODIES: list[tuple[str, Any, dict[str, int]]] = [
    ("scored", {"id": "good", "p": 0.5}, {"counted": 1}),
    ("scored", {"id": "nan", "p": float("nan")}, {"score": 1}),
    ("scored", {"id": "infinite", "p": float("-inf")}, {"score": 1}),
    ("scored", {"id": "two", "p": [[0.1, 0.9]]}, {"several_scores": 1}),
    ("scored", {"id": "elsewhere", "proba": 0.5}, {"nothing_selected": 1}),
    ("scored", {"p": 0.5}, {"id": 1}),
    ("scored", {"id": "x" * 10_000, "p": 0.5}, {"id": 1}),
    ("scored", {"id": "same", "p": 0.5}, {"counted": 1}),
    ("scored", {"id": "same", "p": 0.6}, {"id": 1}),
    ("unheard-of", {"id": "other", "p": 0.5}, {"ignored": 1}),
    (
        "scored",
        {"id": "rows", "p": [0.1, None, 0.3, "0.4"]},
        {"counted": 2, "nothing_selected": 1, "score": 1},
    ),
    ("scored", {"id": "last", "p": 1}, {"counted": 1}),
]
"""Events of one request: their types, bodies, and rows by outcome."""
KEPT = 5


def any_value(value: Any) -> Any:
    """Return a JSON value as OTLP's JSON has it."""
    kinds = {str: "stringValue", int: "intValue", float: "doubleValue"}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(each) for each in value]}}
    if isinstance(value, dict):
        pairs = [{"key": key, "value": any_value(each)} for key, each in value.items()]
        return {"kvlistValue": {"values": pairs}}
    return {} if value is None else {kinds[type(value)]: value}


def cloud_events(events: list[tuple[str, Any, Any]]) -> tuple[str, dict[str, str], bytes]:
    """Return a batch of CloudEvents; NaN as Python's own writer has it."""
    head = {"specversion": "1.0", "source": "test"}
    batch = [
        {**head, "id": str(place), "type": kind, "data": body}
        for place, (kind, body, _) in enumerate(events)
    ]
    headers = {"content-type": "application/cloudevents-batch+json"}
    return "/v1/cloudevents", headers, json.dumps(batch).encode()


def logs_in_json(events: list[tuple[str, Any, Any]]) -> tuple[str, dict[str, str], bytes]:
    """Return a request of logs; NaN as a text, which OTLP's JSON wants."""
    records = [{"eventName": kind, "body": any_value(body)} for kind, body, _ in events]
    text = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
    text = re.sub(r": (NaN|-?Infinity)", r': "\1"', text)
    return "/v1/logs", {"content-type": "application/json"}, text.encode()


def logs_in_protobuf(events: list[tuple[str, Any, Any]]) -> tuple[str, dict[str, str], bytes]:
    """Return the same in the other encoding."""
    from google.protobuf import json_format
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    path, _, text = logs_in_json(events)
    body = json_format.Parse(text, ExportLogsServiceRequest()).SerializeToString()
    return path, {"content-type": "application/x-protobuf"}, body


WAYS = [cloud_events, logs_in_json, logs_in_protobuf]


@pytest.fixture
def served() -> Iterator[tuple[httpx.Client, Client]]:
    """Return clients of HTTP and of gRPC."""
    settings = Settings(listen="127.0.0.1:0", memory=True, ingest=(MAPPING,))
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        assert addresses.http is not None
        with httpx.Client(base_url=addresses.http, timeout=30) as http:
            yield http, client


def counted(http: httpx.Client) -> dict[str, int]:
    """Return the rows by outcome."""
    pattern = r'streameval_payload_rows_total\{.*outcome="(\w+)"\} (\d+)'
    return {name: int(count) for name, count in re.findall(pattern, http.get("/metrics").text)}


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the reasons that the log tells."""
    return [
        # An event of an unknown type has no mapping, and so no reason.
        getattr(record, "fields", {"reason": "ignored"})["reason"]
        for record in caplog.records
        if record.name.startswith("streameval_server._payloads")
    ]


@pytest.mark.parametrize("way", WAYS)
def test_each_is_counted_by_reason_and_told_once(
    way: Any, served: tuple[httpx.Client, Client], caplog: pytest.LogCaptureFixture
) -> None:
    """Also when the sender repeats the request: the rows count once, the refusals again."""
    http, client = served
    path, headers, body = way(BODIES)
    expected: dict[str, int] = {}
    for _, _, outcomes in BODIES:
        for outcome, count in outcomes.items():
            expected[outcome] = expected.get(outcome, 0) + count
    with caplog.at_level(logging.INFO):
        for times in (1, 2, 3):
            answer = http.post(path, headers=headers, content=body)
            assert answer.status_code == (200 if path == "/v1/logs" else 422)
            assert counted(http) == {name: times * count for name, count in expected.items()}
    assert sorted(reasons(caplog)) == sorted(expected.keys() - {"counted"})
    assert "x" * 100 not in caplog.text
    wait = {"selection.minRevision": http.get("/v1/server").json()["durableRevision"]}
    http.get("/v1/streams/fraud:snapshot", params=wait).raise_for_status()
    counters = client.get_stream("fraud").counters
    assert counters is not None
    assert counters.kept_ids == KEPT


@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_unpacks_to_gigabytes(
    way: Any, served: tuple[httpx.Client, Client], caplog: pytest.LogCaptureFixture
) -> None:
    """Refused at the limit, whatever it claims to be; the next request counts."""
    http, client = served
    path, headers, body = way(BODIES[:1])
    # Members of gzip one behind the other: 4 GiB in 4 MB.
    bomb = gzip.compress(bytes(8 << 20)) * 512
    packed = {**headers, "content-encoding": "gzip"}
    with caplog.at_level(logging.INFO):
        for times in (1, 2):
            answer = http.post(path, headers=packed, content=bomb)
            assert answer.status_code == 400
            assert b"unpacks to more than 8388608 bytes" in answer.content
            assert counted(http) == {"length": times}
    assert reasons(caplog) == ["length"]
    assert not client.list_streams()
    answer = http.post(path, headers=packed, content=gzip.compress(body))
    assert answer.status_code == 200
    assert counted(http)["counted"] == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_is_none(
    way: Any, served: tuple[httpx.Client, Client], caplog: pytest.LogCaptureFixture
) -> None:
    """Counted by reason and told once, as one that is too long; the next request counts."""
    http, _ = served
    path, headers, body = way(BODIES[:1])
    with caplog.at_level(logging.INFO):
        for content, status, change in (
            (body[:-3], 400, {}),
            (b"\xff\xff", 400, {}),
            (body, 400, {"content-encoding": "gzip"}),
            (body, 415, {"content-type": "text/plain"}),
            (b" " * (9 << 20), 413, {}),
        ):
            answer = http.post(path, headers={**headers, **change}, content=content)
            assert answer.status_code == status, answer.text
    assert counted(http) == {"unreadable": 4, "length": 1}
    assert sorted(reasons(caplog)) == ["length", "unreadable"]
    assert http.post(path, headers=headers, content=body).status_code == 200
    assert counted(http)["counted"] == 1


def test_a_bad_event_of_a_batch(served: tuple[httpx.Client, Client]) -> None:
    """Its neighbours count; data of a type that no mapping takes need not be JSON."""
    http, client = served
    head = {"specversion": "1.0", "source": "s", "type": "scored"}
    good = [{**head, "id": f"g{row}", "data": {"id": f"g{row}", "p": 0.5}} for row in range(3)]
    batch = [
        good[0],
        {**head, "id": "", "data": {"id": "x", "p": 0.5}},
        {**head, "id": "1", "data": "not JSON"},
        good[1],
        {**head, "id": "2", "type": "chat", "data": "hello"},
        {**head, "id": "3", "data_base64": "%"},
        None,
        good[2],
    ]
    headers = {"content-type": "application/cloudevents-batch+json"}
    answer = http.post("/v1/cloudevents", headers=headers, content=json.dumps(batch))
    assert answer.status_code == 422
    found = answer.json()
    assert (found["rows"], found["ignored"], found["refused"]) == (3, 1, 4)
    assert [each["event"] for each in found["refusals"]] == [1, 2, 5, 6]
    assert {each["reason"] for each in found["refusals"]} == {"unreadable"}
    assert found["refusals"][0]["message"].startswith("the event has no id")
    assert counted(http) == {"counted": 3, "ignored": 1, "unreadable": 4}
    http.get("/v1/streams/fraud:snapshot", params={"selection.minRevision": found["revision"]})
    counters = client.get_stream("fraud").counters
    assert counters is not None
    assert counters.kept_ids == 3


def test_a_batch_of_bad_events_is_bounded(served: tuple[httpx.Client, Client]) -> None:
    """Two bytes each: a refusal takes far more memory, so 100,000 are the most of a request."""
    http, _ = served
    headers = {"content-type": "application/cloudevents-batch+json"}
    answer = http.post("/v1/cloudevents", headers=headers, content=f"[{'1,' * 100_000}1]")
    assert answer.status_code == 400
    assert "more than 100000 rows" in answer.json()["message"]
    assert counted(http) == {"length": 1}


def test_a_single_event_of_another_type(served: tuple[httpx.Client, Client]) -> None:
    """It is ignored whatever its body is: KServe's logger sends requests too, also binary ones."""
    http, _ = served
    head = {"ce-specversion": "1.0", "ce-source": "s", "ce-id": "1", "ce-type": "request"}
    answer = http.post("/v1/cloudevents", headers=head, content=b"\x00\xff tensor")
    assert (answer.status_code, answer.json()["ignored"]) == (200, 1)
    assert counted(http) == {"ignored": 1}


HTTP_ATTACKS = [each for each in attacks(100_000) if each.way in (EVENT, LOGS)]
PATHS = {EVENT: "/v1/cloudevents", LOGS: "/v1/logs"}


def test_no_attack_is_answered_by_what_senders_repeat(served: tuple[httpx.Client, Client]) -> None:
    """Not by 500 or 503, which would send it again for ever; and the next request counts."""
    http, _ = served
    for each in HTTP_ATTACKS:
        headers = dict(each.headers)
        answer = http.post(PATHS[each.way], headers=headers, content=each.body)
        assert answer.status_code in (200, 400, 413, 422), (each.name, answer.text)
    before = counted(http)["counted"]
    path, headers, body = cloud_events([("scored", {"id": "last", "p": 0.25}, {})])
    assert http.post(path, headers=headers, content=body).status_code == 200
    assert counted(http)["counted"] == before + 1


def test_a_stop_does_not_wait_for_what_is_read(tmp_path: Path) -> None:
    """Bodies of 4 MB are in the parsers and wait for them; the process ends within 10 s."""
    config = tmp_path / "streameval.toml"
    config.write_text(
        'listen = "127.0.0.1:0"\nhttp = "127.0.0.1:0"\nmemory = true\n'
        '[[ingest]]\nstream = "s"\nid = "body.id"\nscore = "body.q"\n'
        'class = "z"\nclass_names = "body.names"\n'
    )
    command = [sys.executable, "-m", "streameval_server", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        it.stdout.readline()
        url = it.stdout.readline().split()[-1].rstrip("/")
        batch = f"[{','.join([event(40_000)] * 12)}]"
        answers: list[int | str] = []
        senders = [Thread(target=post, args=(url, batch, answers)) for _ in range(6)]
        for each in senders:
            each.start()
        while psutil.Process(it.pid).cpu_times().user < 1.5:
            assert it.poll() is None
        began = time.monotonic()
        it.send_signal(signal.SIGTERM)
        _, said = it.communicate(timeout=60)
        assert time.monotonic() - began < 10
        for each in senders:
            each.join()
    assert it.returncode == 0, said
    assert "Traceback" not in said
    # A request that ended with the server is to be sent again.
    assert set(answers) <= {200, 422, 400, 503, "no answer"}


def event(rows: int) -> str:
    """Return an event of many rows, each of which is looked up in as many names."""
    data = {"id": "a", "q": [[0]] * rows, "names": ["x"] * rows}
    head = {"specversion": "1.0", "source": "s", "type": "scored", "id": "1"}
    return json.dumps({**head, "data": data}, separators=(",", ":"))


def post(url: str, body: str, answers: list[int | str]) -> None:
    """Send a batch, and note the status of its answer."""
    headers = {"content-type": "application/cloudevents-batch+json"}
    try:
        path = f"{url}/v1/cloudevents"
        answers.append(httpx.post(path, headers=headers, content=body, timeout=90).status_code)
    except httpx.TransportError:
        answers.append("no answer")
