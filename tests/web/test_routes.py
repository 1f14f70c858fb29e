"""Every route, compared with the same request over gRPC."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from google.protobuf import json_format

from streameval import Evaluator
from streameval.v1 import (
    admin_pb2,
    alarm_pb2,
    ingest_pb2,
    mark_pb2,
    overview_pb2,
    pair_pb2,
    query_pb2,
    stream_pb2,
    types_pb2,
    verdict_pb2,
)
from streameval_server._web.routes import ROUTES, Answer

from .conftest import Site, as_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

QUERY, STREAMS = "streameval.v1.QueryService", "streameval.v1.StreamService"
PAIRS = "streameval.v1.PairService"
NOW_S = int(time.time())
SPAN = {
    "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW_S - 1800)),
    "endTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW_S + 60)),
}


@pytest.fixture(scope="module")
def filled(served: Site) -> Site:
    """Return a server with two streams, one of them with segments and predictions."""
    stream = stream_pb2.Stream(name="fraud/v3")
    stream.settings.segment_keys.append("country")
    served.called(f"{STREAMS}/CreateStream", stream_pb2.CreateStreamRequest(stream=stream))
    at = [str((NOW_S - 300 + i) * 1_000_000) for i in range(20)]
    segments = [{"key": "country", "values": ["US", "DE"], "codes": [i % 2 for i in range(20)]}]
    served.push("fraud/v3", "++-+-+--+---+-+-----", eventTimesUs=at, segments=segments)
    predictions = {"ids": [f"id-{i}" for i in range(8)], "scores": [i / 8 for i in range(8)]}
    labels = {"ids": ["id-1", "id-6"], "positives": [False, True]}
    for rows in ({"predictions": predictions}, {"labels": labels}):
        body = {"batch": rows}
        assert served.http.post("/v1/streams/fraud/v3:ingest", json=body).status_code == 200
    revision = served.push("fraud/v2", "-+-+--+-+-")
    served.called(
        f"{PAIRS}/CreatePair",
        pair_pb2.CreatePairRequest(
            pair=pair_pb2.Pair(a="fraud/v3", b="fraud/v2"), pair_id="fraud/next"
        ),
    )
    wait = {"selection.minRevision": revision}
    assert served.http.get("/v1/streams/fraud/v2:snapshot", params=wait).status_code == 200
    return served


def from_text(message: Message, text: str) -> Message:
    """Return a message from JSON."""
    return json_format.Parse(text, message)


SELECTED = '{"selection": {"stream": "fraud/v3", "between": %s, "segment": %s}, %s}'
BETWEEN = json.dumps(SPAN)
PICKED = {
    "selection.between.startTime": SPAN["startTime"],
    "selection.between.endTime": SPAN["endTime"],
    "selection.segment.key": "country",
    "selection.segment.value": "US",
}


def picked(kind: type[Message], more: str) -> Message:
    """Return a request with the selection that `PICKED` makes."""
    segment = '{"key": "country", "value": "US"}'
    return from_text(kind(), SELECTED % (BETWEEN, segment, more))


QUESTIONS: list[tuple[str, dict, str, Callable[[], Message]]] = [
    ("streams", {"prefix": "fraud/", "pageSize": 1}, f"{STREAMS}/ListStreams",
     lambda: stream_pb2.ListStreamsRequest(prefix="fraud/", page_size=1)),
    ("streams/fraud/v3", {}, f"{STREAMS}/GetStream",
     lambda: stream_pb2.GetStreamRequest(name="fraud/v3")),
    ("streams:snapshots",
     {"streams": ["fraud/v3", "no/such", "fraud/v2"], "last": "3600s", "steps": 3},
     f"{QUERY}/BatchGetSnapshots",
     lambda: from_text(query_pb2.BatchGetSnapshotsRequest(),
                       '{"streams": ["fraud/v3", "no/such", "fraud/v2"], "last": "3600s", '
                       '"steps": 3}')),
    ("streams:summaries",
     {"last": "3600s", "orderBy": "auc_roc", "reverse": "true", "grouped": "true",
      "openGroups": ["fraud", "no"], "page_size": "3", "search": "fraud", "state": "labels"},
     f"{QUERY}/ListStreamSummaries",
     lambda: from_text(overview_pb2.ListStreamSummariesRequest(),
                       '{"last": "3600s", "orderBy": "auc_roc", "reverse": true, '
                       '"grouped": true, "openGroups": ["fraud", "no"], "pageSize": 3, '
                       '"search": "fraud", "state": "labels"}')),
    ("streams/fraud/v3:snapshot",
     PICKED | {"metrics": ["auc_roc", "brier_score"], "level": "0.9"},
     f"{QUERY}/GetSnapshot",
     lambda: picked(query_pb2.GetSnapshotRequest,
                    '"metrics": ["auc_roc", "brier_score"], "level": 0.9')),
    ("streams/fraud/v2:snapshot", {"anytime": "true"}, f"{QUERY}/GetSnapshot",
     lambda: from_text(query_pb2.GetSnapshotRequest(),
                       '{"selection": {"stream": "fraud/v2"}, "anytime": true}')),
    ("streams/fraud/v3:curve", PICKED | {"kind": "CURVE_KIND_HULL"}, f"{QUERY}/GetCurve",
     lambda: picked(query_pb2.GetCurveRequest, '"kind": "CURVE_KIND_HULL"')),
    ("streams/fraud/v3:curve", {"kind": "CURVE_KIND_OPERATING_POINTS", "max_points": "5"},
     f"{QUERY}/GetCurve",
     lambda: from_text(query_pb2.GetCurveRequest(),
                       '{"selection": {"stream": "fraud/v3"}, "maxPoints": 5, '
                       '"kind": "CURVE_KIND_OPERATING_POINTS"}')),
    ("streams/fraud/v3:histogram", PICKED | {"bins": 7, "lower": "-1", "upper": "2.5"},
     f"{QUERY}/GetHistogram",
     lambda: picked(query_pb2.GetHistogramRequest, '"bins": 7, "lower": -1, "upper": 2.5')),
    ("streams/fraud/v3:reliability", PICKED | {"bins": 7, "strategy": "RELIABILITY_BINS_MASS"},
     f"{QUERY}/GetReliability",
     lambda: picked(query_pb2.GetReliabilityRequest,
                    '"bins": 7, "strategy": "RELIABILITY_BINS_MASS"')),
    ("streams/fraud/v3:decision", PICKED | {"costs.falsePositive": 1, "costs.false_negative": 9},
     f"{QUERY}/GetDecision",
     lambda: picked(query_pb2.GetDecisionRequest,
                    '"costs": {"falsePositive": 1, "falseNegative": 9}')),
    ("streams/fraud/v3:decision", {"threshold": "-Infinity"}, f"{QUERY}/GetDecision",
     lambda: from_text(query_pb2.GetDecisionRequest(),
                       '{"selection": {"stream": "fraud/v3"}, "threshold": "-Infinity"}')),
    ("streams/fraud/v3:windows", {**PICKED, "step": "600s"}, f"{QUERY}/ListWindows",
     lambda: picked(query_pb2.ListWindowsRequest, '"step": "600s"')),
    ("streams/fraud/v3:rank", {"key": "country", "metric": "auc_roc"}, f"{QUERY}/RankSegments",
     lambda: from_text(query_pb2.RankSegmentsRequest(),
                       '{"selection": {"stream": "fraud/v3"}, "key": "country", '
                       '"metric": "auc_roc"}')),
    ("streams/fraud/v3:sample",
     {"size": "2", "metric": "auc_roc", "seed": "7", "drawIds": "true"},
     f"{QUERY}/SampleForLabels",
     lambda: from_text(query_pb2.SampleForLabelsRequest(),
                       '{"selection": {"stream": "fraud/v3"}, "size": 2, "metric": "auc_roc", '
                       '"seed": "7", "drawIds": true}')),
    ("alarms", {"prefix": "fraud/", "pageSize": "2"}, f"{STREAMS}/ListAlarms",
     lambda: from_text(alarm_pb2.ListAlarmsRequest(), '{"prefix": "fraud/", "pageSize": 2}')),
    ("alarms", {"stream": "fraud/v3", "openOnly": "true"}, f"{STREAMS}/ListAlarms",
     lambda: from_text(alarm_pb2.ListAlarmsRequest(),
                       '{"stream": "fraud/v3", "openOnly": true}')),
    ("pairs", {"stream": "fraud/v3"}, f"{PAIRS}/ListPairs",
     lambda: from_text(pair_pb2.ListPairsRequest(), '{"stream": "fraud/v3"}')),
    ("pairs/fraud/next", {}, f"{PAIRS}/GetPair",
     lambda: from_text(pair_pb2.GetPairRequest(), '{"name": "fraud/next"}')),
    ("pairs/fraud/next:compare", {"metric": "auc_roc"},
     f"{PAIRS}/GetPairComparison",
     lambda: from_text(pair_pb2.GetPairComparisonRequest(),
                       '{"name": "fraud/next", "metric": "auc_roc"}')),
    ("pairs/fraud/next:windows",
     {"step": "900s",
      "selection.between.startTime": SPAN["startTime"],
      "selection.between.endTime": SPAN["endTime"]},
     f"{PAIRS}/ListPairComparisons",
     lambda: from_text(pair_pb2.ListPairComparisonsRequest(),
                       '{"name": "fraud/next", "step": "900s", '
                       f'"selection": {{"between": {BETWEEN}}}}}')),
    ("streams/fraud/v3:verdict", {}, f"{QUERY}/GetVerdict",
     lambda: from_text(verdict_pb2.GetVerdictRequest(), '{"stream": "fraud/v3"}')),
    ("streams/fraud/v3:marks", {}, f"{STREAMS}/ListMarks",
     lambda: from_text(mark_pb2.ListMarksRequest(), '{"stream": "fraud/v3"}')),
    ("streams:compare", {"a.stream": "fraud/v3", "b.stream": "fraud/v2", "metric": "auc_roc"},
     f"{QUERY}/CompareStreams",
     lambda: from_text(query_pb2.CompareStreamsRequest(),
                       '{"a": {"stream": "fraud/v3"}, "b": {"stream": "fraud/v2"}, '
                       '"metric": "auc_roc"}')),
]  # fmt: skip
ASKED = pytest.mark.parametrize(
    ("path", "parameters", "method", "request_"),
    QUESTIONS,
    ids=[f"{path}-{i}" for i, (path, *_) in enumerate(QUESTIONS)],
)


def test_every_reading_route_is_asked_below() -> None:
    """All with a single answer, except the server's status, which contains times."""
    reading = {
        route.method for route in ROUTES if route.verb == "GET" and route.answer is Answer.JSON
    }
    assert reading - {method for _, _, method, _ in QUESTIONS} == {
        "streameval.v1.AdminService/GetServerStatus"
    }


@ASKED
def test_the_answer_is_grpcs(
    filled: Site, path: str, parameters: dict, method: str, request_: Callable[[], Message]
) -> None:
    """Each request, with parameters in both spellings."""
    # Summaries are completed in the background: the answer lies between two equal ones.
    before, after = None, filled.called(method, request_())
    while before != after:
        before = after
        answer = filled.http.get(f"/v1/{path}", params=parameters)
        after = filled.called(method, request_())
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == as_json(after)


def test_the_servers_status(filled: Site) -> None:
    """Equal to gRPC's, except for times."""
    answer = filled.http.get("/v1/server").json()
    status = as_json(
        filled.called(
            "streameval.v1.AdminService/GetServerStatus", admin_pb2.GetServerStatusRequest()
        )
    )
    assert answer.keys() == status.keys()
    for field in ("version", "startTime", "serving", "streams", "pending"):
        assert answer[field] == status[field]


def test_the_state(filled: Site) -> None:
    """The library reads it; the header has its revision."""
    answer = filled.http.get("/v1/streams/fraud/v2:state")
    assert answer.headers["content-type"] == "application/octet-stream"
    mine = Evaluator(max_cells=262_144)
    mine.add_cases(labels=[c == "+" for c in "-+-+--+-+-"], scores=[1 - i / 10 for i in range(10)])
    assert Evaluator.from_bytes(answer.content) == mine
    assert int(answer.headers["x-streameval-revision"]) >= 4


def test_a_life_of_a_stream(served: Site) -> None:
    """Created, changed, filled, read and deleted, with JSON only."""
    http = served.http
    body = {"stream": {"name": "life/of-1", "settings": {"labelTtl": "86400s"}}}
    made = http.post("/v1/streams", json=body).json()
    assert made["stream"]["settings"]["labelTtl"] == "86400s"
    assert http.post("/v1/streams", json=body).status_code == 409
    change = {
        "stream": {"settings": {"labelTtl": "3600s"}},
        "updateMask": "settings.labelTtl",
    }
    changed = http.patch("/v1/streams/life/of-1", json=change).json()
    assert changed["stream"]["settings"]["labelTtl"] == "3600s"
    asked = stream_pb2.GetStreamRequest(name="life/of-1")
    stream = served.called(f"{STREAMS}/GetStream", asked).stream
    assert stream.settings.label_ttl.seconds == 3600
    revision = served.push("life/of-1", "+-+-")
    found = http.get(
        "/v1/streams/life/of-1:snapshot", params={"selection.minRevision": revision}
    ).json()["snapshot"]
    assert (found["numPositiveRef"], found["numNegativeRef"]) == ("2", "2")
    assert http.delete("/v1/streams/life/of-1").status_code == 200
    assert http.get("/v1/streams/life/of-1").status_code == 404
    assert http.delete("/v1/streams/life/of-1").status_code == 404


def test_a_batch_is_what_grpc_would_have_logged(served: Site) -> None:
    """Counts, misses, bytes and numbers beyond 2^53 mean the same; duplicates are known."""
    path = "/v1/streams/wire/json:ingest"
    batch = {
        "sequence": "1",
        "cases": {
            "scoresF64le": "AAAAAAAA4D8AAAAAAADQPw==",
            "positivesBits": "AQ==",
            "counts": ["9007199254740993", 2],
        },
    }
    request = {"producer": "curl", "epoch": "7", "batch": batch}
    first = served.http.post(path, json=request).json()
    again = served.http.post(path, json=request).json()
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    misses = {"misses": {"positives": "3", "negatives": 4}}
    revision = served.http.post(path, json={"batch": misses}).json()["revision"]
    snapshot = served.called(
        f"{QUERY}/GetSnapshot",
        query_pb2.GetSnapshotRequest(
            selection=types_pb2.Selection(stream="wire/json", min_revision=int(revision))
        ),
    ).snapshot
    assert snapshot.num_positive_ref == 9007199254740993 + 3
    assert (snapshot.num_negative_ref, snapshot.num_negative_misses) == (2 + 4, 4)


def test_names_are_escaped_or_not(filled: Site) -> None:
    """A slash in a name is a slash in the path, plain or as %2F; parameters are decoded."""
    plain, escaped = (
        filled.http.get(f"/v1/streams/{name}:decision", params={"threshold": 0.5}).json()
        for name in ("fraud/v3", "fraud%2Fv3")
    )
    assert plain == escaped
    value = filled.http.get(
        "/v1/streams/fraud/v3:snapshot",
        params={"selection.segment.key": "country", "selection.segment.value": "<b>&ü/ "},
    ).json()
    assert value["snapshot"]["segment"]["value"] == "<b>&ü/ "


def test_a_name_may_stand_in_the_request_too(served: Site) -> None:
    """If it equals the path's; another is refused, naming the field."""
    cases = {"scores": [0.5], "positives": [True]}
    same = {"batch": {"stream": "named/twice", "cases": cases}}
    assert served.http.post("/v1/streams/named/twice:ingest", json=same).status_code == 200
    answer = served.http.post("/v1/streams/named/else:ingest", json=same)
    assert answer.status_code == 400
    assert answer.json()["message"] == (
        "batch.stream is 'named/twice', but the URL's path says 'named/else'"
    )


def test_the_command_in_the_page_works(served: Site, require_command) -> None:
    """Curl can push a batch and read a snapshot."""
    import subprocess

    curl = require_command("curl")
    base = f"{served.addresses.http}/v1/streams/by/curl"
    body = ingest_pb2.IngestBatchRequest()
    body.batch.cases.scores.extend([0.9, 0.2])
    body.batch.cases.positives.extend([True, False])

    def run(*command: str) -> dict:
        return json.loads(subprocess.check_output([curl, "-sS", *command], timeout=30))

    revision = run("--json", json_format.MessageToJson(body), f"{base}:ingest")["revision"]
    snapshot = run(f"{base}:snapshot?selection.minRevision={revision}")["snapshot"]
    assert (snapshot["numPositiveRef"], snapshot["numNegativeRef"]) == ("1", "1")


def test_a_histogram_counts_what_waits(filled: Site) -> None:
    """Where it is asked for; without limits the bins hold those scores, too."""
    path, asked = "/v1/streams/fraud/v3:histogram", {"bins": 2, "waiting": True}
    found = filled.http.get(path, params=asked | {"lower": 0.25, "upper": 0.75}).json()
    assert (found["waitingBelow"], found["waiting"], found["waitingAbove"]) == (
        "1",
        ["2", "2"],
        "1",
    )
    assert filled.http.get(path, params=asked).json()["edges"][0] == 0
    assert filled.http.get(path, params={"bins": 2}).json()["waiting"] == []
    refused = filled.http.get(path, params=asked | {"selection.halfLife": "60s"})
    assert refused.status_code == 400
    assert "have no weight: leave out half_life" in refused.json()["message"]
