"""Weights and clusters of payloads: counted as a client's are, refused where a stream has none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
from streameval import Evaluator
from streameval.client import Client
from streameval.payloads import PayloadMapping
from streameval_server import Settings
from streameval_server.testing import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 400


def mapping(stream: str, **keys: str) -> PayloadMapping:
    """Return the mapping of the lines whose type is the stream's name."""
    return PayloadMapping.of({"preset": "ndjson", "stream": stream, "types": [stream], **keys})


MAPPINGS = (
    mapping("plain"),
    mapping("weighted", weight="body.w", label_probability="body.p"),
    mapping("clustered", cluster="body.user"),
)


@pytest.fixture
def server() -> Iterator[tuple[httpx.Client, Client]]:
    settings = Settings(listen="127.0.0.1:0", memory=True, ingest=MAPPINGS)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        assert addresses.http is not None
        with httpx.Client(base_url=addresses.http, timeout=30) as http:
            yield http, client


def send(http: httpx.Client, type_: str, lines: list[dict[str, Any]]) -> tuple[int, Any]:
    """Send lines as one batch of events; return status and answer, once it is visible."""
    head = {"specversion": "1.0", "source": "t", "type": type_}
    events = [{**head, "id": f"e{number}", "data": line} for number, line in enumerate(lines)]
    answer = http.post(
        "/v1/cloudevents",
        headers={"content-type": "application/cloudevents-batch+json"},
        content=json.dumps(events),
    )
    http.get("/v1/streams")  # waits until all that is durable is visible
    return answer.status_code, answer.json()


def columns() -> dict[str, Any]:
    random = np.random.default_rng(5)
    labels = random.random(ROWS) < 0.4
    return {
        "label": labels,
        "score": np.round(64 * random.random(ROWS) + 16 * labels) / 64,
        "w": random.integers(0, 9, ROWS) / 4,
        "p": random.choice([0.125, 0.5, 1.0], ROWS),
        "user": random.integers(0, 40, ROWS),
    }


def lines_of(values: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    return [
        {"id": f"r{row}", **{name: values[name][row].item() for name in names}}
        for row in range(ROWS)
    ]


def test_weights_and_label_probabilities(server: tuple[httpx.Client, Client]) -> None:
    """Labels weigh what an evaluator's cases do; scores may come before, without a weight."""
    http, client = server
    values = columns()
    assert send(http, "weighted", lines_of(values, "score"))[0] == 200
    status, answer = send(http, "weighted", lines_of(values, "label", "w", "p"))
    assert (status, answer["rows"]) == (200, ROWS)
    ev = Evaluator()
    ev.add_cases(
        labels=values["label"],
        scores=values["score"],
        weights=values["w"],
        label_probability=values["p"],
    )
    found = client.stream("weighted").evaluator()
    assert (found.auc_pr(), found.auc_roc()) == (ev.auc_pr(), ev.auc_roc())
    assert found.weights == ev.weights


def test_clusters(server: tuple[httpx.Client, Client]) -> None:
    """A stream that its first rows create declares them; intervals allow for them."""
    http, client = server
    values = columns()
    lines = lines_of(values, "score", "label", "user")
    for line in lines[::2]:
        line["user"] = str(line["user"])  # an integer is its decimal digits
    assert send(http, "clustered", lines)[0] == 200
    assert client.get_stream("clustered").settings.cluster_groups == 32
    ev = Evaluator(cluster_groups=32)
    ev.add_cases(labels=values["label"], scores=values["score"], clusters=values["user"])
    found = client.stream("clustered").evaluator()
    assert tuple(found.interval("auc_roc")) == tuple(ev.interval("auc_roc"))


@pytest.mark.parametrize(
    ("stream", "settings", "line", "refusal"),
    [
        (
            "clustered",
            {},
            {"score": 0.5, "user": 7},
            ("cluster", "stream clustered declares no clusters: leave the mapping's cluster out"),
        ),
        (
            "plain",
            {"cluster_key": "user_id"},
            {"score": 0.5, "label": 1},
            ("cluster", "stream plain declares clusters, by user_id: give the mapping a cluster"),
        ),
        (
            "weighted",
            {"cluster_key": "user_id"},
            {"label": 1, "w": 2},
            ("weight", "stream weighted declares clusters, so its labels take no weights"),
        ),
        (
            "weighted",
            {},
            {"label": 1, "w": 1e-5},
            ("weight", "weight 1e-05 would change by "),
        ),
        (
            "clustered",
            {"cluster_key": "u"},
            {"score": 1},
            ("cluster", "no cluster is at body.user"),
        ),
    ],
)
def test_what_a_stream_does_not_take(
    server: tuple[httpx.Client, Client],
    stream: str,
    settings: dict[str, Any],
    line: dict[str, Any],
    refusal: tuple[str, str],
) -> None:
    """Each row by its reason, in one line; counted by reason, and no row is stored."""
    http, client = server
    reason, message = refusal
    client.create_stream(stream, **settings)
    status, answer = send(http, stream, [{"id": f"r{row}", **line} for row in range(3)])
    assert (status, answer["rows"], answer["refused"]) == (422, 0, 3)
    assert {each["reason"] for each in answer["refusals"]} == {reason}
    assert all(message in each["message"] for each in answer["refusals"])
    counters = client.get_stream(stream).counters
    assert counters is not None
    assert counters.kept_ids == 0
    series = f'streameval_payload_rows_total{{mapping="{stream}",outcome="{reason}"}} 3.0'
    assert series in http.get("/metrics").text


def test_labels_of_a_clustered_stream_need_none(server: tuple[httpx.Client, Client]) -> None:
    """A cluster belongs to the prediction: labels of another mapping join it."""
    http, client = server
    client.create_stream("clustered", cluster_key="user_id", cluster_groups=16)
    assert send(http, "clustered", [{"id": "a", "score": 0.9, "user": "u1"}])[0] == 200
    assert send(http, "clustered", [{"id": "a", "label": 1}])[0] == 200
    assert client.stream("clustered").snapshot().num_positive_ref == 1
