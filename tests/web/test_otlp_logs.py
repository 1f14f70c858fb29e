"""OTLP logs over HTTP: what OpenTelemetry's own exporter sends, durable when answered."""

from __future__ import annotations

import gzip
import json
import logging
import re
import time
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
pytest.importorskip("opentelemetry.proto", reason="needs the extra server")
from google.protobuf import json_format
from google.rpc import status_pb2
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_service

from streameval import Evaluator
from streameval.client import Client
from streameval.payloads import PayloadMapping
from streameval_server import Limits, Settings
from streameval_server._model.errors import Code, RequestError
from streameval_server._web.otlp_logs import OTLP_LOGS
from streameval_server.testing import running_service
from tests.fuzz.payload_attacks import field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BENTO = PayloadMapping.of({"preset": "bentoml-otlp", "stream": "fraud/v3"})
JUDGE = PayloadMapping.of(
    {
        "preset": "genai-evaluation",
        "stream": "judges/{gen_ai.evaluation.name}",
        "when": "resource.\"service.name\" == 'judge'",
    }
)
REVIEW = PayloadMapping.of(
    {
        "types": ["gen_ai.evaluation.result"],
        "stream": "judges/{gen_ai.evaluation.name}",
        "id": 'attributes."gen_ai.response.id"',
        "label": 'attributes."gen_ai.evaluation.score.label"',
        "positive": "pass",
        "negative": "fail",
    }
)
PROTOBUF = {"content-type": "application/x-protobuf"}


@contextmanager
def server(**settings: Any) -> Iterator[tuple[httpx.Client, Client, str | None]]:
    """Run a server; yield clients of HTTP and gRPC, and the open address."""
    settings = {
        "listen": "127.0.0.1:0",
        "memory": True,
        "ingest": (BENTO, JUDGE, REVIEW),
        **settings,
    }
    with running_service(Settings(**settings)) as addresses, Client(addresses.grpc) as client:
        assert addresses.http is not None
        with httpx.Client(base_url=addresses.http, timeout=30) as http:
            yield http, client, addresses.intake


def any_value(value: Any) -> Any:
    """Return a JSON value as OTLP's JSON has it."""
    kinds = {bool: "boolValue", str: "stringValue", int: "intValue", float: "doubleValue"}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {} if value is None else {kinds[type(value)]: value}


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(each)} for key, each in values.items()]


def request_of(*bodies: Any, **record: Any) -> dict[str, Any]:
    """Return a request in JSON with a record of each body."""
    records = [{"timeUnixNano": str(time.time_ns()), "body": any_value(b)} for b in bodies]
    records = [{**each, **record} for each in records]
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}


def bento(proba: Any, request_id: str = "r1", **more: Any) -> dict[str, Any]:
    """Return the body of a record of BentoML's monitoring."""
    columns = {
        "amount": {"name": "amount", "role": "feature", "type": "numerical"},
        "class": {"name": "class", "role": "prediction", "type": "categorical"},
        "proba": {"name": "proba", "role": "prediction", "type": "numerical"},
        "truth": {"name": "truth", "role": "target", "type": "numerical"},
    }
    meta = {"bento_name": "fraud", "monitor_name": "m", "schema": columns}
    return {
        "amount": 12.5,
        "class": "yes",
        "proba": proba,
        "timestamp": time.time(),
        "request_id": request_id,
        "bento_meta": meta,
        **more,
    }


def snapshot(http: httpx.Client, client: Client, stream: str = "fraud/v3") -> Any:
    """Return a stream's snapshot when everything that is durable is visible."""
    wait = {"selection.minRevision": http.get("/v1/server").json()["durableRevision"]}
    http.get(f"/v1/streams/{stream}:snapshot", params=wait).raise_for_status()
    return client.stream(stream).snapshot()


def kept_ids(http: httpx.Client, client: Client, stream: str = "fraud/v3") -> int:
    """Return how many predictions wait for their label, once all is visible."""
    snapshot(http, client, stream)
    counters = client.get_stream(stream).counters
    assert counters is not None
    return counters.kept_ids


@pytest.mark.filterwarnings("ignore:.*LoggingHandler.*:DeprecationWarning")
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_bento_with_opentelemetrys_exporter(compression: str) -> None:
    """As BentoML does it: a map through a logger, in batches; the truth as a target, later."""
    sdk = pytest.importorskip("opentelemetry.sdk._logs")
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.http._log_exporter")
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    random = np.random.default_rng(3)
    labels, values = random.random(300) < 0.3, random.random(300)
    with server() as (http, client, _):
        exporter = exporters.OTLPLogExporter(
            endpoint=f"{http.base_url}/v1/logs", compression=Compression(compression)
        )
        provider = sdk.LoggerProvider(resource=Resource.create({"service.name": "fraud:m"}))
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
        logger = logging.getLogger("bentoml_monitor_data")
        handler = sdk.LoggingHandler(logger_provider=provider)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            for row, value in enumerate(values.tolist()):
                logger.info(bento(value, f"r{row}"))
            for row, label in enumerate(labels.tolist()):
                logger.info(bento(None, f"r{row}", truth=int(label)))
            logger.info("an ordinary line of the same process")
            provider.force_flush()
        finally:
            logger.removeHandler(handler)
            provider.shutdown()
        found = snapshot(http, client, "fraud/v3")
        metrics = http.get("/metrics").text
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=values)
    assert found.num_cases == 300
    assert found.auc_pr == pytest.approx(ev.auc_pr(), abs=1e-12)
    assert 'streameval_payload_rows_total{mapping="fraud/v3",outcome="counted"} 600.0' in metrics
    assert 'outcome="ignored"} 1.0' in metrics


def test_a_judge_of_answers_with_opentelemetrys_exporter() -> None:
    """Evaluations by name, people's verdicts as labels; the same batch again changes nothing."""
    sdk = pytest.importorskip("opentelemetry.sdk._logs")
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.http._log_exporter")
    from opentelemetry._logs import LogRecord
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    class Twice(exporters.OTLPLogExporter):
        """Sends every batch twice, as after a lost answer."""

        def export(self, batch: Any) -> Any:
            super().export(batch)
            return super().export(batch)

    with server() as (http, client, _):

        def emit(service: str, **attributes: Any) -> None:
            provider = sdk.LoggerProvider(resource=Resource.create({"service.name": service}))
            exporter = Twice(endpoint=f"{http.base_url}/v1/logs")
            provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
            names = {f"gen_ai.{k.replace('__', '.')}": v for k, v in attributes.items()}
            logger = provider.get_logger("evals")
            logger.emit(
                LogRecord(
                    timestamp=time.time_ns(),
                    event_name="gen_ai.evaluation.result",
                    attributes=names,
                )
            )
            provider.shutdown()

        for row, (value, verdict) in enumerate([(0.9, "pass"), (0.2, "fail"), (0.7, "pass")]):
            given = {"response__id": f"chat-{row}", "evaluation__name": "Relevance"}
            emit("judge", **given, evaluation__score__value=value)
            emit("people", **given, evaluation__score__label=verdict)
        found = snapshot(http, client, "judges/Relevance")
        assert (found.num_cases, found.auc_roc) == (3, 1.0)


def test_the_exporter_repeats_what_passes() -> None:
    """A batch that is above the rate gets 429 and is sent again after `retry-after`."""
    sdk = pytest.importorskip("opentelemetry.sdk._logs")
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.http._log_exporter")
    from opentelemetry._logs import LogRecord
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor

    options = {
        "intake": "127.0.0.1:0",
        "intake_streams": ("fraud",),
        "limits": Limits(max_intake_rows_per_s=10),
    }
    with server(**options) as (http, client, intake):
        many = request_of(*(bento(0.5, f"r{row}") for row in range(105)))
        assert httpx.post(f"{intake}/v1/logs", json=many).json() == {}
        provider = sdk.LoggerProvider()
        exporter = exporters.OTLPLogExporter(endpoint=f"{intake}/v1/logs")
        provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
        record = LogRecord(timestamp=time.time_ns(), body=bento(0.5, "late"))
        provider.get_logger("bentoml_monitor_data").emit(record)
        provider.shutdown()
        assert kept_ids(http, client) == 106
        calls = re.findall(
            r'streameval_http_requests_total\{code="(\w+)",method="otlp_logs"\} (\d+)',
            http.get("/metrics").text,
        )
        assert dict(calls) == {"OK": "2", "ResourceExhausted": "1"}


def test_json() -> None:
    """The other encoding, and its answer; a span stands for an answer without an id."""
    with server() as (http, client, _):
        body = json.dumps(request_of(bento(0.5), bento([0.7], "r2")))
        answer = http.post("/v1/logs", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()) == (200, {})
        assert answer.headers["content-type"] == "application/json"
        assert kept_ids(http, client) == 2
        packed = gzip.compress(body.encode())
        headers = {"content-type": "application/json; charset=utf-8", "content-encoding": "gzip"}
        assert http.post("/v1/logs", content=packed, headers=headers).status_code == 200
        assert kept_ids(http, client) == 2
        judged = request_of(
            None,
            eventName="gen_ai.evaluation.result",
            spanId="eee19b7ec3c1b174",
            attributes=pairs(
                {"gen_ai.evaluation.name": "Relevance", "gen_ai.evaluation.score.value": 4}
            ),
        )
        judged["resourceLogs"][0]["resource"] = {"attributes": pairs({"service.name": "judge"})}
        assert http.post("/v1/logs", json=judged).json() == {}
        assert kept_ids(http, client, "judges/Relevance") == 1


def test_partial_success() -> None:
    """It says how many records are not counted and why; the others are."""
    with server() as (http, client, _):
        records = [
            bento(0.5),
            bento(float("inf"), "r2"),
            bento([0.1, "x", 0.3], "r3"),
            bento([0.1, "x", "y"], "r4"),
        ]
        # JSON has no infinity; OTLP writes it as a text.
        content = json.dumps(request_of(*records)).replace("Infinity", '"Infinity"')
        headers = {"content-type": "application/json"}
        answer = http.post("/v1/logs", content=content, headers=headers)
        assert answer.status_code == 200
        partial = answer.json()["partialSuccess"]
        assert int(partial["rejectedLogRecords"]) == 3
        for part in (
            "3 log records are not counted: record 1: score must be finite, got inf (score)",
            "record 2, row 1: score must be a number, got 'x' (score)",
            "record 3, row 2: score must be a number, got 'y' (score)",
        ):
            assert part in partial["errorMessage"]
        assert kept_ids(http, client) == 4


@pytest.mark.parametrize(
    ("headers", "content", "status", "message"),
    [
        ({"content-type": "text/plain"}, b"", 415, "must be an ExportLogsServiceRequest"),
        (PROTOBUF, b"\x0a\xff", 400, "the body is no message of protobuf"),
        (
            {**PROTOBUF, "content-encoding": "gzip"},
            gzip.compress(bytes(9 << 20)),
            400,
            "the body unpacks to more than",
        ),
        (PROTOBUF, bytes(9 << 20), 413, "the body must be at most 8388608 bytes"),
        # Empty records: two bytes each.
        (
            PROTOBUF,
            logs_service.ExportLogsServiceRequest(
                resource_logs=[{"scope_logs": [{"log_records": [{}] * 100_001}]}]
            ).SerializeToString(),
            400,
            "more than 100000 log records",
        ),
    ],
)
def test_bad_requests(headers: dict[str, str], content: bytes, status: int, message: str) -> None:
    """A status of the encoding of the request; nothing is counted, no stream made."""
    with server() as (http, client, _):
        answer = http.post("/v1/logs", headers=headers, content=content)
        assert answer.status_code == status
        if headers["content-type"] == PROTOBUF["content-type"]:
            assert answer.headers["content-type"] == PROTOBUF["content-type"]
            assert message in status_pb2.Status.FromString(answer.content).message
        else:
            assert message in answer.json()["message"]
        assert not client.list_streams()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"body": 7}', "a value must be an object, got 7"),
        ('{"body": {"intValue": "x"}}', "intValue must be an integer"),
        ('{"body": {"intValue": "%s"}}' % ("9" * 5_000), "intValue must be an integer"),
        ('{"body": {"intValue": %s}}' % ("9" * 5_000), "intValue must be an integer"),
        ('{"timeUnixNano": true}', "timeUnixNano must be an integer"),
        ('{"timeUnixNano": "%s"}' % ("9" * 5_000), "timeUnixNano must be an integer"),
        ('{"timeUnixNano": 1e400}', "timeUnixNano must be an integer"),
        ('{"eventName": {}}', "eventName must be a text"),
        ('{"attributes": [{"value": {"bytesValue": "%"}}]}', "bytesValue must be base64"),
        ('{"body": %s}' % ('{"arrayValue": {"values": [' * 5_000 + "]}}" * 5_000), "too deeply"),
        ("7", "logRecords must be an object, got 7"),
    ],
)
def test_a_bad_record_leaves_the_others(bad: str, message: str) -> None:
    """It is rejected alone, whatever in it cannot be read."""
    good = json.dumps({"body": any_value(bento(0.5))})
    body = f'{{"resourceLogs": [{{"scopeLogs": [{{"logRecords": [{good}, {bad}]}}]}}]}}'
    with server() as (http, client, _):
        headers = {"content-type": "application/json"}
        answer = http.post("/v1/logs", headers=headers, content=body)
        partial = answer.json()["partialSuccess"]
        assert (answer.status_code, partial["rejectedLogRecords"]) == (200, "1")
        assert message in partial["errorMessage"]
        assert kept_ids(http, client) == 1


def test_a_bad_record_leaves_the_others_in_protobuf() -> None:
    """One that is no message, or no UTF-8, or is nested too deeply; or whose resource is bad."""
    good = json_format.ParseDict(request_of(bento(0.5)), logs_service.ExportLogsServiceRequest())
    deep = b""
    for _ in range(150):
        deep = field(5, field(1, deep))
    records = field(2, b"\xff"), field(2, field(12, b"\xff")), field(2, field(5, deep))
    of_bad_resource = field(1, field(1, field(1, b"\xff")) + field(2, field(2, b"")))
    body = good.SerializeToString() + field(1, field(2, b"".join(records))) + of_bad_resource
    with server() as (http, client, _):
        answer = http.post("/v1/logs", headers=PROTOBUF, content=body)
        found = logs_service.ExportLogsServiceResponse.FromString(answer.content).partial_success
        assert (answer.status_code, found.rejected_log_records) == (200, 4)
        assert "record 1: the body has no LogRecord" in found.error_message
        assert "record 4: the body has no Resource" in found.error_message
        assert kept_ids(http, client) == 1


@pytest.mark.parametrize("encoding", ["deflate", "zlib", "gzip"])
def test_each_encoding_of_zlib_is_read(encoding: str) -> None:
    """The Collector has names of its own for them."""
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    with server() as (http, client, _):
        headers = {"content-type": "application/json", "content-encoding": encoding}
        body = json.dumps(request_of(bento(0.5))).encode()
        answer = http.post("/v1/logs", headers=headers, content=pack(body))
        assert (answer.status_code, answer.json()) == (200, {})
        assert kept_ids(http, client) == 1


@pytest.mark.parametrize("encoding", ["zstd", "snappy", "x-snappy-framed", "lz4", "br"])
def test_another_encoding_is_kept_by_its_sender(encoding: str) -> None:
    """With 415 or 400 the Collector drops the logs; with 503 it sends them again, and says why."""
    with server() as (http, client, _):
        headers = {**PROTOBUF, "content-encoding": encoding}
        answer = http.post("/v1/logs", headers=headers, content=b"\x28\xb5\x2f\xfd")
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        message = status_pb2.Status.FromString(answer.content).message
        assert f"got {encoding!r}: set the exporter's compression to gzip" in message
        assert 'outcome="unreadable"} 1' in http.get("/metrics").text
        assert not client.list_streams()


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[]",
        '{"resourceLogs": {}}',
        '{"resourceLogs": 7}',
        '{"resourceLogs": [{"scopeLogs": [{"logRecords": [' + "[" * 5_000,
    ],
)
def test_bad_json(body: str) -> None:
    """What is no request is refused as a whole: where its records are is not known."""
    with server() as (http, client, _):
        headers = {"content-type": "application/json"}
        answer = http.post("/v1/logs", headers=headers, content=body)
        assert answer.status_code == 400, answer.text
        assert not client.list_streams()


def test_a_bad_record_costs_itself() -> None:
    """A value that is null is absent, as protobuf's JSON has it; the other record counts."""
    records = [
        {
            "timeUnixNano": str(time.time_ns()),
            "eventName": "gen_ai.evaluation.result",
            "attributes": [
                {"key": "gen_ai.evaluation.name", "value": {"stringValue": "Rel"}},
                {"key": "gen_ai.evaluation.score.value", "value": value},
                {"key": "gen_ai.response.id", "value": {"stringValue": id_}},
            ],
        }
        for id_, value in (
            *(("c1", {"doubleValue": 0.5}), ("c2", {"doubleValue": None})),
            *(("c3", {"doubleValue": {}}), ("c4", {"intValue": "1"})),
        )
    ]
    mapping = {"preset": "genai-evaluation", "stream": "judges/{gen_ai.evaluation.name}"}
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    with server(ingest=(PayloadMapping.of(mapping),)) as (http, client, _):
        answer = http.post("/v1/logs", json=request)
        assert answer.status_code == 200
        partial = answer.json()["partialSuccess"]
        assert partial["rejectedLogRecords"] == "2"
        assert "record 1: nothing is at" in partial["errorMessage"]
        assert "record 2: doubleValue must be a number, got {}" in partial["errorMessage"]
        assert kept_ids(http, client, "judges/Rel") == 2


def test_senders_without_tokens(tmp_path: Path) -> None:
    """The open address takes logs for its streams, at its rate; the other wants a token."""
    tokens = tmp_path / "tokens.toml"
    tokens.write_text("")
    options = {
        "tokens": tokens,
        "intake": "127.0.0.1:0",
        "intake_streams": ("fraud",),
        "limits": Limits(max_intake_rows_per_s=1),
    }
    with server(**options) as (http, _, intake):
        assert intake is not None
        body = request_of(bento(0.5))
        assert http.post("/v1/logs", json=body).status_code == 401
        with httpx.Client(base_url=intake) as sender:
            assert sender.post("/v1/logs", json=body).json() == {}
            judged = request_of(
                None,
                eventName="gen_ai.evaluation.result",
                attributes=pairs(
                    {
                        "gen_ai.evaluation.name": "x",
                        "gen_ai.response.id": "a",
                        "gen_ai.evaluation.score.label": "pass",
                    }
                ),
            )
            answer = sender.post("/v1/logs", json=judged)
            assert answer.status_code == 403
            assert "may write fraud and below, not 'judges/x'" in answer.json()["message"]
            many = request_of(*(bento(0.5, f"n{row}") for row in range(20)))
            assert sender.post("/v1/logs", json=many).json() == {}
            answer = sender.post("/v1/logs", content=b"", headers=PROTOBUF)
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) >= 1
            assert status_pb2.Status.FromString(answer.content).code == Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (RequestError(Code.UNAVAILABLE, "m", reason="R", retry_after_s=7), 503, "7"),
        (RequestError(Code.RESOURCE_EXHAUSTED, "m", reason="R", retry_after_s=2), 429, "2"),
        (RequestError(Code.ABORTED, "m", reason="R"), 503, "1"),
        (RequestError(Code.INTERNAL, "m", reason="R"), 503, "1"),
        (RequestError(Code.PERMISSION_DENIED, "m", reason="R"), 403, None),
    ],
)
def test_what_passes_has_a_status_that_senders_repeat(
    error: RequestError, status: int, retry_after: str | None
) -> None:
    """They repeat 429, 502, 503 and 504 only."""
    from starlette.requests import Request

    scope = {"type": "http", "headers": [(b"content-type", b"application/x-protobuf")]}
    response = OTLP_LOGS.respond_to_error(Request(scope), error)
    assert (response.status_code, response.headers.get("retry-after")) == (status, retry_after)
    assert status_pb2.Status.FromString(response.body).message == "m"
