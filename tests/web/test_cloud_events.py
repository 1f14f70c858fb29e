"""CloudEvents over HTTP: every mode, durable when answered, refused by row, without tokens."""

from __future__ import annotations

import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
from streameval import Evaluator
from streameval.client import Client
from streameval.payloads import PayloadMapping
from streameval_server import Limits, Settings
from streameval_server._payloads.row_budget import RowBudget
from streameval_server.testing import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESPONSE = "org.kubeflow.serving.inference.response"
FEEDBACK = "io.seldon.serving.feedback"
KSERVE = PayloadMapping.of(
    {
        "preset": "kserve-v2",
        "stream": "fraud/{inferenceservicename}",
        "segments": {"shop": "headers.namespace"},
    }
)
SELDON = PayloadMapping.of({"preset": "seldon", "stream": "fraud/v3"})
REVISIONS: list[int] = []
"""Of the answers of the server that runs."""
HEAD = {
    "ce-specversion": "1.0",
    "ce-type": RESPONSE,
    "ce-source": "http://localhost:9081/",
    "ce-inferenceservicename": "v3",
    "ce-namespace": "eu",
    "content-type": "application/json",
}


@contextmanager
def server(**settings: Any) -> Iterator[tuple[httpx.Client, Client, httpx.Client | None]]:
    """Run a server; yield clients of its page's address, of gRPC, and of the open address."""
    REVISIONS.clear()
    settings = {"listen": "127.0.0.1:0", "memory": True, "ingest": (KSERVE, SELDON), **settings}
    with running_service(Settings(**settings)) as addresses, Client(addresses.grpc) as client:
        assert addresses.http is not None
        with httpx.Client(base_url=addresses.http, timeout=30) as http:
            if addresses.intake is None:
                yield http, client, None
                return
            with httpx.Client(base_url=addresses.intake, timeout=30) as intake:
                yield http, client, intake


def scores(*values: float, event_id: str = "e1", request_id: str = "") -> dict[str, Any]:
    """Return a request of predictions, as KServe's logger sends it."""
    outputs = [{"name": "p", "shape": [len(values)], "datatype": "FP64", "data": list(values)}]
    body = {"model_name": "v3", "id": request_id, "outputs": outputs}
    return {"headers": {**HEAD, "ce-id": event_id}, "content": json.dumps(body)}


def truth(request_id: str, value: object) -> dict[str, Any]:
    """Return a request of feedback, as Seldon's executor sends it."""
    headers = {**HEAD, "ce-id": f"f-{request_id}", "ce-type": FEEDBACK, "ce-requestid": request_id}
    return {"headers": headers, "content": json.dumps({"truth": {"data": {"ndarray": [value]}}})}


def snapshot(http: httpx.Client, client: Client, stream: str = "fraud/v3") -> Any:
    """Return a stream's snapshot, once it has all that was answered."""
    wait = {"selection.minRevision": max(REVISIONS)}
    http.get(f"/v1/streams/{stream}:snapshot", params=wait).raise_for_status()
    return client.stream(stream).snapshot()


def kept_ids(http: httpx.Client, client: Client, stream: str = "fraud/v3") -> int:
    """Return how many predictions wait for their label, once all have that were answered."""
    snapshot(http, client, stream)
    counters = client.get_stream(stream).counters
    assert counters is not None
    return counters.kept_ids


def post(http: httpx.Client, request: dict[str, Any], path: str = "/v1/cloudevents") -> Any:
    """Send a request, and return its answer's JSON with the status."""
    answer = http.post(path, **request)
    found = {"status": answer.status_code, **answer.json()}
    REVISIONS.append(found.pop("revision"))
    return found


COUNTED = {"status": 200, "ignored": 0, "refused": 0, "refusals": []}


def test_predictions_and_labels_of_two_servers_meet() -> None:
    """The figure is that of an evaluator; segments of a stream that was not created before."""
    random = np.random.default_rng(7)
    labels, values = random.random(200) < 0.3, random.random(200)
    with server() as (http, client, _):
        for row, value in enumerate(values.tolist()):
            answer = post(http, scores(value, event_id=f"e{row}", request_id=f"r{row}"))
            assert answer == {**COUNTED, "rows": 1}
        for row, label in enumerate(labels.tolist()):
            assert post(http, truth(f"r{row}", int(label)))["status"] == 200
        found = snapshot(http, client)
        by_shop = client.stream("fraud/v3").rank_segments("shop").segments
        assert [(each.segment, each.num_positive_ref) for each in by_shop] == [
            (("shop", "eu"), int(labels.sum()))
        ]
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=values)
    assert found.num_cases == 200
    assert found.auc_pr == pytest.approx(ev.auc_pr(), abs=1e-12)


def test_the_same_event_counts_once() -> None:
    """A sender that repeats an event, before and after its label, changes nothing."""
    with server() as (http, client, _):
        for _ in range(3):
            assert post(http, scores(0.9, 0.2, event_id="e1"))["rows"] == 2
        for row, label in (("e1/0", 1), ("e1/1", 0)):
            assert post(http, truth(row, label))["rows"] == 1
            assert post(http, truth(row, label))["rows"] == 1
        assert post(http, scores(0.9, 0.2, event_id="e1"))["rows"] == 2
        found = snapshot(http, client)
        assert (found.num_cases, found.auc_roc) == (2, 1.0)


def test_every_mode_and_packing() -> None:
    """Structured, batched with gzip, and what the CloudEvents SDK sends."""
    bindings = pytest.importorskip("cloudevents.core.bindings.http")
    from cloudevents.core.v1.event import CloudEvent

    body = {"outputs": [{"name": "p", "shape": [1], "data": [0.5]}]}
    attributes = {k.removeprefix("ce-"): v for k, v in HEAD.items() if k.startswith("ce-")}
    with server() as (http, client, _):
        batch = [{**attributes, "id": f"b{number}", "data": body} for number in range(50)]
        headers = {
            "content-type": "application/cloudevents-batch+json",
            "content-encoding": "gzip",
        }
        request = {"headers": headers, "content": gzip.compress(json.dumps(batch).encode())}
        assert post(http, request) == {**COUNTED, "rows": 50}
        for number, write in enumerate((bindings.to_binary_event, bindings.to_structured_event)):
            event = CloudEvent(
                attributes={
                    **attributes,
                    "id": f"s{number}",
                    "datacontenttype": "application/json",
                },
                data=body,
            )
            message = write(event)
            request = {"headers": message.headers, "content": message.body}
            assert post(http, request) == {**COUNTED, "rows": 1}
        assert kept_ids(http, client) == 52


def test_bad_rows_leave_the_others() -> None:
    """Refused by row, with reasons, also by the stream; other rows of the request count."""
    with server() as (http, client, _):
        answer = post(http, scores(0.5, float("nan"), 0.7))
        assert (answer["status"], answer["rows"], answer["refused"]) == (422, 2, 1)
        assert [(each["row"], each["reason"]) for each in answer["refusals"]] == [(1, "score")]
        old = {**scores(0.5, event_id="old"), "headers": {**HEAD, "ce-id": "old"}}
        old["headers"]["ce-time"] = "2001-01-01T00:00:00Z"
        attributes = {k.removeprefix("ce-"): v for k, v in HEAD.items() if k.startswith("ce-")}
        body = {"outputs": [{"data": [0.5]}]}
        events = [{**attributes, "id": f"n{number}", "data": body} for number in range(9)]
        events[4]["time"] = "2001-01-01T00:00:00Z"
        headers = {"content-type": "application/cloudevents-batch+json"}
        answer = post(http, {"headers": headers, "content": json.dumps(events)})
        assert (answer["status"], answer["rows"], answer["refused"]) == (422, 8, 1)
        (refusal,) = answer["refusals"]
        assert (refusal["event"], refusal["id"], refusal["reason"]) == (4, "n4", "store")
        assert kept_ids(http, client) == 10
        metrics = http.get("/metrics").text
        mapping = 'mapping="fraud/{inferenceservicename}"'
        for outcome, count in (("counted", 10), ("score", 1), ("store", 1)):
            assert (
                f'streameval_payload_rows_total{{{mapping},outcome="{outcome}"}} {count}.0'
                in metrics
            )


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"headers": {"content-type": "application/json"}}, 415, "the request is no CloudEvent"),
        ({"headers": {**HEAD, "ce-id": ""}}, 400, "the event has no id"),
        ({"content": "{"}, 400, "the body is not JSON"),
        ({"headers": {**HEAD, "ce-id": "1", "content-encoding": "br"}}, 400, "must be gzip"),
        (
            {
                "headers": {**HEAD, "ce-id": "1", "content-encoding": "gzip"},
                "content": gzip.compress(bytes(9 << 20)),
            },
            400,
            "the body unpacks to more than",
        ),
        ({"content": b" " * (9 << 20)}, 413, "the body must be at most 8388608 bytes"),
    ],
)
def test_bad_requests(change: dict[str, Any], status: int, message: str) -> None:
    """One line each; nothing is counted, no stream made."""
    with server() as (http, client, _):
        answer = http.post("/v1/cloudevents", **{**scores(0.5), **change})
        assert answer.status_code == status, answer.text
        assert message in answer.json()["message"]
        assert not client.list_streams()


def test_too_many_rows() -> None:
    """Of one event a refusal, of a request an error: a row takes more memory than its bytes."""
    with server() as (http, client, _):
        answer = post(http, scores(*[0] * 100_001))
        assert (answer["status"], answer["rows"]) == (422, 0)
        assert [each["reason"] for each in answer["refusals"]] == ["length"]
        attributes = {k.removeprefix("ce-"): v for k, v in HEAD.items() if k.startswith("ce-")}
        body = {"outputs": [{"data": [0] * 60_000}]}
        events = [{**attributes, "id": f"n{number}", "data": body} for number in range(2)]
        headers = {"content-type": "application/cloudevents-batch+json"}
        answer = http.post("/v1/cloudevents", headers=headers, content=json.dumps(events))
        assert answer.status_code == 400
        assert "more than 100000 rows" in answer.json()["message"]
        assert not client.list_streams()


def test_other_types_are_ignored() -> None:
    """The requests that KServe's logger sends beside the responses."""
    with server() as (http, client, _):
        request = scores(0.5)
        request["headers"]["ce-type"] = "org.kubeflow.serving.inference.request"
        assert post(http, request) == {**COUNTED, "rows": 0, "ignored": 1}
        assert not client.list_streams()


def test_without_mappings_there_is_no_such_path() -> None:
    """A server that declares none takes none."""
    with server(ingest=()) as (http, _, _):
        assert http.post("/v1/cloudevents", **scores(0.5)).status_code == 404


def test_senders_without_tokens(tmp_path: Path) -> None:
    """An address of their own: only the named streams, nothing to read; the other needs a token."""
    tokens = tmp_path / "tokens.toml"
    tokens.write_text("")
    options = {
        "tokens": tokens,
        "intake": "127.0.0.1:0",
        "intake_streams": ("fraud",),
        "ingest": (KSERVE, PayloadMapping.of({"preset": "ndjson", "stream": "{team}/v1"})),
    }
    with server(**options) as (http, _, intake):
        assert intake is not None
        assert post(intake, scores(0.5)) == {**COUNTED, "rows": 1}
        assert post(intake, scores(0.5, event_id="e2"), "/") == {**COUNTED, "rows": 1}
        assert http.post("/v1/cloudevents", **scores(0.5)).status_code == 401
        other = {
            "headers": {**HEAD, "ce-type": "t", "ce-id": "1", "ce-team": "payments"},
            "content": '{"id": "a", "score": 1}',
        }
        answer = intake.post("/", **other)
        assert answer.status_code == 403
        assert "may write fraud and below, not 'payments/v1'" in answer.json()["message"]
        for path in ("/v1/streams", "/metrics", "/v1/server", "/static/app.js"):
            assert intake.get(path).status_code == 404
        assert intake.get("/healthz").status_code == 200


def test_senders_without_tokens_have_a_rate() -> None:
    """Ten seconds of it at once; then 429 and when to come again."""
    options = {
        "intake": "127.0.0.1:0",
        "intake_streams": ("fraud",),
        "limits": Limits(max_intake_rows_per_s=1),
    }
    with server(**options) as (_, _, intake):
        assert intake is not None
        assert post(intake, scores(*[0.5] * 12))["rows"] == 12
        answer = intake.post("/", **scores(0.5))
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert "more than 1 rows a second" in answer.json()["message"]


def test_ignored_events_and_refused_bodies_use_up_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event counts, and the time of reading: not the request alone."""
    seconds: list[float] = []
    monkeypatch.setattr(RowBudget, "spend_time", lambda _, spent: seconds.append(spent))
    options = {
        "intake": "127.0.0.1:0",
        "intake_streams": ("fraud",),
        "limits": Limits(max_intake_rows_per_s=1),
    }
    head = {"specversion": "1.0", "id": "1", "source": "s", "type": "unheard-of"}
    batch = {"headers": {"content-type": "application/cloudevents-batch+json"}}
    with server(**options) as (_, _, intake):
        assert intake is not None
        assert intake.post("/", **batch, content="[{}" + ",{}" * 100_000 + "]").status_code == 400
        assert [each > 0.01 for each in seconds] == [True]
        assert post(intake, {**batch, "content": json.dumps([head] * 100)})["ignored"] == 100
        assert intake.post("/", **scores(0.5)).status_code == 429


def test_concurrent_senders_have_their_own_answers() -> None:
    """Rows of many requests share batches; a bad row is answered to its sender only."""
    barrier = threading.Barrier(16)
    with server() as (http, client, _):

        def send(sender: int) -> list[int]:
            barrier.wait()
            found = []
            for number in range(20):
                request = scores(0.5, event_id=f"{sender}-{number}")
                if sender == 0:
                    request["headers"]["ce-time"] = "2001-01-01T00:00:00Z"
                found.append(post(http, request)["status"])
            return found

        with ThreadPoolExecutor(16) as pool:
            statuses = list(pool.map(send, range(16)))
        assert statuses == [[422] * 20] + [[200] * 20] * 15
        assert kept_ids(http, client) == 300
