"""The metrics compared with queries' answers: values, tokens, limits, cost."""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from streameval.statistics import Place
from streameval.v1 import (
    admin_pb2,
    overview_pb2,
    pair_pb2,
    query_pb2,
    stream_pb2,
    types_pb2,
    verdict_pb2,
)
from streameval_server import Limits, Settings, create_token
from streameval_server._model.errors import Code, RequestError
from streameval_server._queries import stream_verdicts
from streameval_server._queries.query_engine import QueryEngine
from streameval_server._queries.stream_summaries import StreamSummaries
from streameval_server._queries.stream_verdicts import KnownVerdict, Verdicts
from streameval_server._web import metrics, pair_metrics, stream_metrics
from streameval_server._web.pair_metrics import SERIES_A_PAIR, PairReadings, pair_families
from streameval_server._web.projection_metrics import SERIES_A_PROJECTION
from streameval_server._web.verdict_metrics import QUALITIES, SERIES_A_VERDICT

from ..late_labels import write_late_labels
from .conftest import IN_MEMORY, Site, reason, site

if TYPE_CHECKING:
    from pathlib import Path

POINT_NAMES = Place.POINT.names(["threshold"])
QUERY = "streameval.v1.QueryService"
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each scrape collect for itself, and wait until it has all."""
    monkeypatch.setattr(metrics, "_MAX_AGE_S", 0.0)
    monkeypatch.setattr(metrics, "_MAX_WAIT_S", 20.0)


def scraped(one: Site, **more: Any) -> Series:
    """Return all series of a scrape."""
    answer = one.http.get("/metrics", **more)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def at(series: Series, name: str, **labels: str) -> float | None:
    """Return one series' value; None when there is none."""
    return series.get((f"streameval_{name}", frozenset(labels.items())))


def fill(one: Site, stream: str, *, seed: int, rows: int = 400, **more: Any) -> None:
    """Send predictions and most of their labels, and wait until answers include them."""
    rng = random.Random(seed)
    truth = [rng.random() < 0.3 for _ in range(rows)]
    ids = [f"{seed}-{i}" for i in range(rows)]
    scores = [rng.gauss(1.5 * label, 1.0) for label in truth]
    known = rows - rows // 10
    for batch in (
        {"predictions": {"ids": ids, "scores": scores}},
        {"labels": {"ids": ids[:known], "positives": truth[:known]}},
    ):
        sent = one.http.post(f"/v1/streams/{stream}:ingest", json={"batch": batch}, **more)
        assert sent.status_code == 200, sent.text
    wait = {"selection.minRevision": sent.json()["revision"]}
    one.http.get(f"/v1/streams/{stream}:snapshot", params=wait, **more)


def test_figures_are_the_snapshots() -> None:
    """Values, limits, counts and delays of both windows, exactly."""
    with site() as one:
        fill(one, "fraud/v3", seed=1)
        old = {"eventTimesUs": [str(hours_ago(5))]}
        one.show("fraud/v3", "+-+--+---+" * 20, **old)
        series = scraped(one)
        for window, selection, anytime in (
            ("recent", types_pb2.Selection(stream="fraud/v3", last=Duration(seconds=3600)), False),
            ("all", types_pb2.Selection(stream="fraud/v3"), True),
        ):
            request = query_pb2.GetSnapshotRequest(selection=selection, anytime=anytime)
            snapshot = one.called(f"{QUERY}/GetSnapshot", request).snapshot
            for metric in snapshot.metrics:
                if metric.name in Place.MONITOR.names():
                    labels = {"stream": "fraud/v3", "window": window}
                    assert at(series, metric.name, **labels) == metric.value
                    assert at(series, f"{metric.name}_lower", **labels) == metric.interval.lower
                    assert at(series, f"{metric.name}_upper", **labels) == metric.interval.upper
            labels = {"stream": "fraud/v3", "window": window}
            positive = at(series, "references", **labels, **{"class": "positive"})
            assert positive == snapshot.num_positive_ref > 100
            assert at(series, "coverage", **labels) == snapshot.coverage.labelled_share == 0.9
        for state, count in (("labelled", 360), ("pending", 40), ("expired", 0)):
            assert at(series, state, stream="fraud/v3") == count
        assert at(series, "predictions_total", stream="fraud/v3") == 400
        delays = snapshot.coverage.delay_histogram
        assert delays.total == 360
        assert_histogram(series, "label_delay_seconds", delays, stream="fraud/v3")


def test_a_scrape_waits_for_no_projection_of_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows none: who asks for the verdict waits for it."""
    projected: list[str] = []
    monkeypatch.setattr(
        stream_verdicts, "projected_since", lambda view, *_: projected.append(view.info.name)
    )
    with site() as one:
        fill(one, "fraud/v3", seed=1)
        assert at(scraped(one), "verdict", stream="fraud/v3", quality="immature") == 1
        assert not projected
        one.called(f"{QUERY}/GetVerdict", verdict_pb2.GetVerdictRequest(stream="fraud/v3"))
        assert projected == ["fraud/v3"]


def test_a_scrape_takes_the_verdicts_that_a_list_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """While they are the ones of now, as after a start; else it finds them for itself."""
    changed = verdict_pb2.Verdict(quality=verdict_pb2.VERDICT_QUALITY_STEADY).SerializeToString()
    with site() as one:
        for name in ("fraud/v3", "fraud/v4"):
            fill(one, name, seed=1)
        ends = time.monotonic() + 20
        listed = overview_pb2.ListStreamSummariesRequest(last=Duration(seconds=86_400))
        while True:
            found = one.called(f"{QUERY}/ListStreamSummaries", listed)
            if not any(each.outdated for each in found.summaries):
                break
            assert time.monotonic() < ends
        monkeypatch.setattr(StreamSummaries, "step", lambda _summaries: 3_600.0)
        monkeypatch.setattr(
            Verdicts, "of", lambda *_, **__: KnownVerdict((), changed, 0, 1 << 62, 1 << 62)
        )
        one.show("fraud/v4", "+-")
        series = scraped(one)
        for name, quality in (("fraud/v3", "immature"), ("fraud/v4", "steady")):
            assert at(series, "verdict", stream=name, quality=quality) == 1


def test_rates_at_the_declared_threshold() -> None:
    """Values and limits of both windows and the threshold; without one there are no series."""
    with site() as one:
        settings = {"name": "fraud/v3", "settings": {"threshold": 0.75}}
        assert one.http.post("/v1/streams", json={"stream": settings}).status_code == 200
        fill(one, "fraud/v3", seed=1)
        fill(one, "fraud/v4", seed=2)
        series = scraped(one)
        windows = (
            ("recent", types_pb2.Selection(stream="fraud/v3", last=Duration(seconds=3600)), False),
            ("all", types_pb2.Selection(stream="fraud/v3"), True),
        )
        for window, selection, anytime in windows:
            request = query_pb2.GetSnapshotRequest(selection=selection, anytime=anytime)
            metrics = one.called(f"{QUERY}/GetSnapshot", request).snapshot.metrics
            rates = [metric for metric in metrics if metric.name in POINT_NAMES]
            assert len(rates) == len(POINT_NAMES)
            for metric in rates:
                labels = {"stream": "fraud/v3", "window": window}
                assert at(series, metric.name, **labels) == metric.value
                assert at(series, f"{metric.name}_lower", **labels) == metric.interval.lower
                assert at(series, f"{metric.name}_upper", **labels) == metric.interval.upper
        assert at(series, "threshold", stream="fraud/v3") == 0.75
        of_both = {
            stream: sum(
                f'stream="{stream}"' in line for line in one.http.get("/metrics").text.split("\n")
            )
            for stream in ("fraud/v3", "fraud/v4")
        }
        assert (
            of_both["fraud/v3"]
            == of_both["fraud/v4"] + len(POINT_NAMES) * stream_metrics.SERIES_A_METRIC + 1
        )
        change = {"stream": {"settings": {"costFp": 2, "costFn": 9}}}
        mask = {"updateMask": "settings.costFp,settings.costFn"}
        one.http.patch("/v1/streams/fraud/v3", json={**change, **mask}).raise_for_status()
        series = scraped(one)
        for window, selection, anytime in windows:
            request = query_pb2.GetSnapshotRequest(
                selection=selection, anytime=anytime, metrics=["expected_cost"]
            )
            (cost,) = one.called(f"{QUERY}/GetSnapshot", request).snapshot.metrics
            labels = {"stream": "fraud/v3", "window": window}
            assert at(series, "expected_cost", **labels) == cost.value
            for end in ("lower", "upper"):
                limit = getattr(cost.interval, end) if cost.interval.HasField(end) else None
                assert at(series, f"expected_cost_{end}", **labels) == limit
            # Of all time it needs 50 of the costlier errors, and there are fewer.
            assert cost.interval.HasField("lower") is not anytime
        lines = one.http.get("/metrics").text.split("\n")
        priced = sum('stream="fraud/v3"' in line for line in lines)
        assert priced == of_both["fraud/v3"] + stream_metrics.SERIES_A_METRIC - 2


def test_calibration_of_streams_on_the_probability_scale() -> None:
    """Values and limits of both windows; other streams have no such series."""
    with site() as one:
        settings = {"name": "prob/v1", "settings": {"scale": "SCALE_PROBABILITY"}}
        assert one.http.post("/v1/streams", json={"stream": settings}).status_code == 200
        rng = random.Random(4)
        scores = [rng.random() for _ in range(400)]
        batch = {"cases": {"scores": scores, "positives": [rng.random() < s for s in scores]}}
        sent = one.http.post("/v1/streams/prob/v1:ingest", json={"batch": batch}).json()
        one.http.post("/v1/streams/plain/v1:ingest", json={"batch": batch})
        wait = {"selection.minRevision": sent["revision"]}
        one.http.get("/v1/streams/prob/v1:snapshot", params=wait)
        series = scraped(one)
        for window, selection, anytime in (
            ("recent", types_pb2.Selection(stream="prob/v1", last=Duration(seconds=3600)), False),
            ("all", types_pb2.Selection(stream="prob/v1"), True),
        ):
            request = query_pb2.GetSnapshotRequest(
                selection=selection, anytime=anytime, metrics=Place.CALIBRATION.names()
            )
            for metric in one.called(f"{QUERY}/GetSnapshot", request).snapshot.metrics:
                labels = {"stream": "prob/v1", "window": window}
                assert at(series, metric.name, **labels) == metric.value
                assert at(series, f"{metric.name}_lower", **labels) == metric.interval.lower
                assert at(series, f"{metric.name}_upper", **labels) == metric.interval.upper
        text = one.http.get("/metrics").text
        assert not [
            line for line in text.split("\n") if "plain/v1" in line and "calibration" in line
        ]


def test_projections_are_the_snapshots(tmp_path: Path) -> None:
    """Of streams whose labels come by id, in turn; refused figures have the reason and limits."""
    write_late_labels(tmp_path, "late/v1")
    settings = replace(IN_MEMORY, memory=False, data=tmp_path, metrics_window="3d")
    with site(settings) as one:
        fill(one, "young/v1", seed=1)
        one.show("cases/v1", "+-+--+---+" * 20)
        first, second = scraped(one), scraped(one)
        for name in ("late/v1", "young/v1"):
            request = query_pb2.GetSnapshotRequest(
                selection=types_pb2.Selection(stream=name, last=Duration(seconds=3 * 86_400)),
                projection=True,
            )
            metrics = one.called(f"{QUERY}/GetSnapshot", request).snapshot.projection.metrics
            assert len(metrics) == (3 if name == "late/v1" else 2)
            for metric in metrics:
                labels = {
                    "stream": name,
                    "prevalence": "reference" if metric.HasField("prevalence") else "own",
                }
                projected = f"{metric.name}_projected"
                assert at(second, f"{projected}_least", **labels) == metric.limits.lower
                assert at(second, f"{projected}_greatest", **labels) == metric.limits.upper
                assert (at(first, f"{projected}_least", **labels) is None) is (name == "young/v1")
                why = labels | {"metric": metric.name, "reason": "too_few_mature"}
                refused = at(second, "projection_refused", **why)
                if name == "young/v1":
                    assert refused == 1
                    assert at(second, projected, **labels) is None
                else:
                    assert refused is None
                    # The clock has moved on since the scrape.
                    for series, value in (
                        ("", metric.projected),
                        ("_lower", metric.interval.lower),
                        ("_upper", metric.interval.upper),
                    ):
                        assert at(second, projected + series, **labels) == pytest.approx(
                            value, rel=1e-3
                        )
        assert at(second, "auc_pr", stream="cases/v1", window="all") is not None
        of_projections = {labels for name, labels in second if "project" in name}
        assert not any(("stream", "cases/v1") in labels for labels in of_projections)
        labels = {"stream": "late/v1", "prevalence": "own"}
        one.called(
            "streameval.v1.StreamService/DeleteStream",
            stream_pb2.DeleteStreamRequest(name="late/v1"),
        )
        assert at(second, "auc_roc_projected", **labels) is not None
        assert at(scraped(one), "auc_roc_projected", **labels) is None


def test_projections_take_what_the_limit_leaves(tmp_path: Path) -> None:
    """Without room for theirs, streams keep the series that they had."""
    write_late_labels(tmp_path, "late/v1")
    room = stream_metrics.SERIES_A_STREAM + 2 * stream_metrics.SERIES_A_METRIC + SERIES_A_PROJECTION
    for most, wanted in ((room, True), (room - 1, False)):
        settings = replace(
            IN_MEMORY, memory=False, data=tmp_path, limits=Limits(max_metric_series=most)
        )
        with site(settings) as one:
            series = scraped(one)
            assert at(series, "streams_left_out") == 0
            assert any("project" in name for name, _ in series) is wanted


def pair_of(one: Site, a: str, b: str, rows: int = 400) -> None:
    """Make a pair of two streams, of which both have predicted all ids but b's last tenth."""
    for name in (a, b):
        one.called(
            "streameval.v1.StreamService/CreateStream",
            stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name)),
        )
    made = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=a, b=b), pair_id=f"{a}/{b}")
    one.called("streameval.v1.PairService/CreatePair", made)
    rng = random.Random(a + b)
    truth = [rng.random() < 0.3 for _ in range(rows)]
    ids = [f"{a}-{row}" for row in range(rows)]
    for name, gap, size in ((a, 0.5, rows), (b, 3.0, rows - rows // 10)):
        scores = [rng.gauss(gap * label, 1.0) for label in truth][:size]
        for batch in (
            {"predictions": {"ids": ids[:size], "scores": scores}},
            {"labels": {"ids": ids, "positives": truth}},
        ):
            sent = one.http.post(f"/v1/streams/{name}:ingest", json={"batch": batch})
            assert sent.status_code == 200, sent.text
    wait = {"selection.minRevision": sent.json()["revision"]}
    one.http.get(f"/v1/streams/{b}:snapshot", params=wait)


def test_pairs_are_the_comparisons() -> None:
    """Difference with limits at all looks, evidence, shared ids; deleted pairs are gone."""
    with site() as one:
        pair_of(one, "v3", "v4")
        series = scraped(one)
        assert at(series, "pairs_left_out") == 0
        for metric in Place.MONITOR.names():
            request = pair_pb2.GetPairComparisonRequest(name="v3/v4", metric=metric)
            found = one.called("streameval.v1.PairService/GetPairComparison", request).comparison
            labels, name = {"pair": "v3/v4", "a": "v3", "b": "v4"}, f"pair_{metric}_difference"
            assert at(series, name, **labels) == found.compared.difference.value < 0
            assert at(series, f"{name}_lower", **labels) == found.anytime.lower
            assert at(series, f"{name}_upper", **labels) == found.anytime.upper
            assert at(series, "pair_evidence", **labels, metric=metric) == 1.0
            assert found.e_value > 20
        assert at(series, "pair_shared_ids", pair="v3/v4", a="v3", b="v4") == 360
        assert at(series, "pair_shared_share", pair="v3/v4", a="v3", b="v4") == 0.9
        classes = ("positive", "negative")
        labelled = [
            at(series, "pair_labelled_ids", pair="v3/v4", a="v3", b="v4", **{"class": each})
            for each in classes
        ]
        assert labelled == [found.coverage.positives, found.coverage.negatives]
        gone = pair_pb2.DeletePairRequest(name="v3/v4")
        one.called("streameval.v1.PairService/DeletePair", gone)
        assert not any("pair" in name for name, _ in scraped(one))


def test_since_when_a_pair_is_decided_and_why_it_is_refused() -> None:
    """A decision has its time; an answer without limits has the reason and no evidence."""
    decided = pair_pb2.PairComparison(e_value=20**0.5)
    decided.compared.difference.name = "auc_pr"
    decided.decided_since.FromMicroseconds(1_795_000_000_500_000)
    refused = pair_pb2.PairComparison(refusal=pair_pb2.PAIR_REFUSAL_TOO_FEW_CLUSTERS)
    refused.compared.difference.name = "auc_roc"
    families = pair_families(PairReadings({("pair", "a", "b"): [decided, refused]}, left_out=2))
    found = {
        (sample.name, sample.labels.get("metric"), sample.labels.get("reason")): sample.value
        for family in families
        for sample in family.samples
    }
    assert found["streameval_pair_decided_timestamp_seconds", "auc_pr", None] == 1_795_000_000.5
    assert found["streameval_pair_evidence", "auc_pr", None] == pytest.approx(0.5)
    assert found["streameval_pair_refused", "auc_roc", "too_few_clusters"] == 1
    assert ("streameval_pair_evidence", "auc_roc", None) not in found
    assert found["streameval_pairs_left_out", None, None] == 2


def test_pairs_take_turns_and_what_the_limit_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape compares some, those that wait the longest; streams come before pairs."""
    monkeypatch.setattr(pair_metrics, "MAX_NEW_PAIRS", 1)
    room = 4 * stream_metrics.SERIES_A_STREAM + SERIES_A_PAIR
    for most, expected in ((room + SERIES_A_PAIR, [1, 2, 2]), (room, [1, 1, 1])):
        settings = replace(IN_MEMORY, limits=Limits(max_metric_series=most))
        with site(settings) as one:
            pair_of(one, "v1", "v2", rows=40)
            pair_of(one, "v3", "v4", rows=40)
            for size in expected:
                series = scraped(one)
                names = {labels for name, labels in series if name.endswith("pair_shared_ids")}
                assert len(names) == size
                assert at(series, "pairs_left_out") == 2 - max(expected)


def hours_ago(hours: int) -> int:
    """Return a time in microseconds."""
    return (int(time.time()) - hours * 3600) * 1_000_000


def test_what_is_undefined_has_no_series() -> None:
    """No value and no limits, rather than 0 or NaN."""
    with site() as one:
        one.show("a", "++")
        series = scraped(one)
        labels = {"stream": "a", "window": "all"}
        assert at(series, "auc_pr", **labels) == 1.0
        assert at(series, "auc_roc", **labels) is None
        assert at(series, "auc_pr_lower", **labels) is None
        assert at(series, "coverage", **labels) is None
        assert at(series, "references", **labels, **{"class": "negative"}) == 0


def test_the_server_and_its_calls() -> None:
    """Log, queue, memory; each call by its method and status, over gRPC and HTTP."""
    with site() as one:
        before = scraped(one)
        revision = one.push("a", "+-")
        one.http.get("/v1/streams/no/such:snapshot")
        asked = types_pb2.Selection(stream="a", min_revision=revision)
        request = query_pb2.GetSnapshotRequest(selection=asked)
        one.called(f"{QUERY}/GetSnapshot", request)
        with one.http.stream("GET", "/v1/streams/a:watch") as answer:
            next(answer.iter_lines())
        series = scraped(one)
        for method, code, count in (
            ("IngestBatch", "OK", 1),
            ("GetSnapshot", "NotFound", 1),
            ("GetSnapshot", "OK", None),
        ):
            assert at(before, "http_requests_total", method=method, code=code) is None
            assert at(series, "http_requests_total", method=method, code=code) == count
        seconds = "http_request_duration_seconds"
        assert at(series, f"{seconds}_count", method="GetSnapshot") == 1
        assert 0 < at(series, f"{seconds}_sum", method="IngestBatch") < 20
        assert at(series, f"{seconds}_count", method="WatchSnapshot") is None
        assert at(series, "serving") == 1
        assert at(series, "log_entries_total") == at(series, "applied_revision") == 1
        assert at(series, "streams") == 1
        for kind in ("cases", "predictions", "labels", "retractions", "misses"):
            assert at(before, "rows_total", kind=kind) == 0
            assert at(series, "rows_total", kind=kind) == (2 if kind == "cases" else 0)
        for name in ("lag_rows", "queue_bytes", "checkpoint_revision", "streams_left_out"):
            assert at(series, name) == 0
        assert at(series, "expired_early_total") == 0
        for reason in ("disk", "lag", "memory", "queue"):
            assert at(series, "ack_wait_seconds", reason=reason) == 0
        assert at(series, "state_bytes") > 0
        assert at(series, "window_seconds") == 3600
        assert at(series, "log_bytes") is None  # the server is in memory


def test_calls_of_grpc_have_the_names_of_its_ecosystem(tmp_path: Path) -> None:
    """Started, handled by code in Go's spelling, and the seconds; of methods that exist."""
    path = tmp_path / "tokens.toml"
    token = create_token(path, "all", ["query"], None)
    with site(replace(IN_MEMORY, tokens=path)) as one:
        request = query_pb2.GetSnapshotRequest(selection=types_pb2.Selection(stream="none"))
        for given, code in ((token, "NOT_FOUND"), (None, "UNAUTHENTICATED")):
            with pytest.raises(grpc.RpcError, match=code):
                one.called(f"{QUERY}/GetSnapshot", request, given)
        with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
            one.channel.unary_unary("/no.such.Service/Method")(b"", timeout=20)
        watch = one.channel.unary_stream(
            f"/{QUERY}/WatchSnapshots", lambda message: message.SerializeToString()
        )
        answers = watch(
            query_pb2.WatchSnapshotsRequest(), metadata=(("authorization", f"Bearer {token}"),)
        )
        next(answers)
        header = {"authorization": f"Bearer {token}"}
        of = {"grpc_service": QUERY, "grpc_type": "unary", "grpc_method": "GetSnapshot"}
        watched = of | {"grpc_type": "server_stream", "grpc_method": "WatchSnapshots"}

        def found(name: str, **labels: str) -> float | None:
            return series.get((f"grpc_server_{name}", frozenset(labels.items())))

        series = scraped(one, headers=header)
        assert found("started_total", **of) == 2
        assert found("handled_total", **of, grpc_code="NotFound") == 1
        assert found("handled_total", **of, grpc_code="Unauthenticated") == 1
        assert found("handling_seconds_count", **of) == 2
        assert 0 < found("handling_seconds_sum", **of) < 20
        assert found("handling_seconds_bucket", **of, le="+Inf") == 2
        assert found("started_total", **watched) == 1
        assert found("handling_seconds_count", **watched) is None
        answers.cancel()
        ends = time.monotonic() + 20
        while found("handled_total", **watched, grpc_code="Canceled") != 1:
            assert time.monotonic() < ends
            series = scraped(one, headers=header)
        methods = {dict(labels).get("grpc_method") for _, labels in series} - {None}
        assert methods == {"GetSnapshot", "WatchSnapshots"}


def test_batches_that_were_refused_are_counted() -> None:
    """Those of producers; without a producer a refusal counts as a failed call only."""
    with site() as one:
        wrong = {"stream": "a", "cases": {"scores": [0.5], "positives": []}}
        for sequence, producer in ((1, {"producer": "p", "epoch": 1}), (0, {})):
            body = {"batch": {**wrong, "sequence": sequence}, **producer}
            assert one.http.post("/v1/streams/a:ingest", json=body).status_code == 400
        series = scraped(one)
        assert at(series, "refused_batches_total") == 1
        assert at(series, "http_requests_total", method="IngestBatch", code="InvalidArgument") == 2
        assert at(series, "rows_total", kind="cases") == 0


def test_a_log_on_disk_is_measured(tmp_path: Path) -> None:
    """Its size, the free space, and the durations of commits."""
    settings = replace(IN_MEMORY, memory=False, data=tmp_path / "data")
    with site(settings) as one:
        one.show("a", "+-")
        series = scraped(one)
        assert at(series, "log_bytes") > 0
        assert at(series, "disk_free_bytes") > 0
        before = at(series, "commit_seconds_count")
        one.show("a", "+-" * 3)
        status = one.called(
            "streameval.v1.AdminService/GetServerStatus", admin_pb2.GetServerStatusRequest()
        )
        assert status.commits.histogram.total > before > 0
        assert_histogram(scraped(one), "commit_seconds", status.commits.histogram)


def assert_histogram(
    series: Series, name: str, durations: types_pb2.DurationHistogram, **labels: str
) -> None:
    """Assert that a histogram's series are the message's, ascending as Prometheus wants them."""
    buckets = {
        float(dict(of)["le"]): value
        for (each, of), value in series.items()
        if each == f"streameval_{name}_bucket" and labels.items() <= dict(of).items()
    }
    bounds = [*durations.upper_bounds_s, float("inf")]
    counts = [*durations.counts, durations.total]
    assert buckets == dict(zip(bounds, counts, strict=True))
    assert len(bounds) > 10
    assert (bounds, counts) == (sorted(bounds), sorted(counts))
    assert at(series, f"{name}_count", **labels) == durations.total
    assert at(series, f"{name}_sum", **labels) == durations.sum_s > 0


class Clock:
    """A clock for the metrics that tests advance; it counts its readers."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.looks: queue.SimpleQueue[float] = queue.SimpleQueue()

    def monotonic(self) -> float:
        """Return the time and report the reading."""
        self.looks.put(self.now_s)
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that the metrics use."""
    clock = Clock()
    monkeypatch.setattr(metrics, "time", clock)
    monkeypatch.setattr(metrics, "_MAX_AGE_S", 18.0)
    return clock


def test_figures_are_found_once_an_interval(clock: Clock) -> None:
    """Scrapes an interval apart, even slightly early, get new figures; others in between do not."""
    labels = {"stream": "a", "window": "all", "class": "positive"}
    # Two scrapers, each every 20 s, one with jitter: each gets one more case every time.
    scrapes = ((0, 1), (7, 1), (20, 3), (27, 3), (39, 5), (47, 5), (60, 7), (67, 7), (78.1, 9))
    with site() as one:
        for at_s, found in scrapes:
            clock.now_s = at_s
            one.show("a", "+-")
            assert at(scraped(one), "references", **labels) == found, at_s


def test_who_comes_while_figures_are_found_waits(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures are no older than the scrape: one scrape collects, the other shares its result."""
    go_on = threading.Event()
    asked = 0
    real = stream_metrics.StreamMetrics.read

    async def slow(self, *given):
        nonlocal asked
        asked += 1
        await asyncio.to_thread(go_on.wait, 20)
        await real(self, *given)

    monkeypatch.setattr(stream_metrics.StreamMetrics, "read", slow)
    with (
        site(IN_MEMORY) as one,
        ThreadPoolExecutor(3) as pool,
    ):
        first = pool.submit(scraped, one)
        # On arrival, and when it begins to read.
        assert [clock.looks.get(timeout=20) for _ in range(2)] == [0.0, 0.0]
        clock.now_s = 19.0
        others = [pool.submit(scraped, one) for _ in range(2)]
        assert [clock.looks.get(timeout=20) for _ in range(2)] == [19.0, 19.0]
        go_on.set()
        assert at(first.result(20), "metrics_seconds") == 19.0
        assert [at(other.result(20), "metrics_seconds") for other in others] == [0.0, 0.0]
        assert asked == 2


def test_a_stream_is_one_computation_and_only_what_changed_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of a stream comes of one question to a query thread; an unchanged snapshot is kept."""
    asked: list[str] = []
    made: list[str] = []
    real, compute = stream_metrics._read, QueryEngine._compute

    def read(engine, name, *more):
        asked.append(name)
        return real(engine, name, *more)

    def computed(self, resolved, *given, **more):
        made.append(resolved.selection.stream)
        return compute(self, resolved, *given, **more)

    monkeypatch.setattr(stream_metrics, "_read", read)
    monkeypatch.setattr(QueryEngine, "_compute", computed)
    with site() as one:
        for name in ("a", "b"):
            one.push(name, "+-+-", eventTimesUs=[str(hours_ago(5))])
        started = at(scraped(one), "streams_missing")
        assert started == 0
        known = len(made)
        asked.clear()
        scraped(one)
        assert (sorted(asked), len(made)) == (["a", "b"], known)
        one.show("b", "-", eventTimesUs=[str(hours_ago(5))])
        del made[:]
        scraped(one)
        assert set(made) == {"b"}


def test_a_slow_collection_goes_on_and_scrapes_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first scrape after a start has the streams that are known then; later ones have all."""
    go_on = threading.Event()
    real = stream_metrics.StreamMetrics._stream
    read: list[str] = []

    async def slow(self, name, *more):
        if read:
            await asyncio.to_thread(go_on.wait, 20)
        read.append(name)
        return await real(self, name, *more)

    monkeypatch.setattr(stream_metrics.StreamMetrics, "_stream", slow)
    monkeypatch.setattr(metrics, "_MAX_WAIT_S", 0.2)
    monkeypatch.setattr(metrics, "_MAX_AGE_S", 9.0)

    def names(series: Series) -> set[str]:
        return {
            dict(labels)["stream"] for name, labels in series if name == "streameval_references"
        }

    def is_first(series: Series) -> bool:
        return names(series) == {"c"} and at(series, "streams_missing") == 2

    with site() as one:
        for name in ("a", "b", "c"):
            one.show(name, "+-+-")
        ends = time.monotonic() + 20
        while not is_first(series := scraped(one)):  # shares the collection that goes on
            assert names(series) <= {"c"}
            assert time.monotonic() < ends
        assert at(series, "serving") == 1
        go_on.set()
        while at(series, "streams_missing"):
            assert time.monotonic() < ends
            series = scraped(one)
        assert names(series) == {"a", "b", "c"}
        assert read == ["c", "b", "a"]


def test_a_collection_that_fails_is_told_and_begun_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By the scrape that waits for it, and in the log; the next scrape has all figures."""
    real = stream_metrics.StreamMetrics._stream
    failures = [RequestError(Code.RESOURCE_EXHAUSTED, "too much", reason="QUERY_TOO_LARGE")]

    async def broken(self, *given):
        if failures:
            raise failures.pop()
        return await real(self, *given)

    monkeypatch.setattr(stream_metrics.StreamMetrics, "_stream", broken)
    labels = {"stream": "a", "window": "all", "class": "positive"}
    with site() as one:
        one.show("a", "+-+-")
        assert one.http.get("/metrics").status_code == 429
        assert "the metrics of streams were not collected: too much" in caplog.text
        assert at(scraped(one), "references", **labels) == 2


def test_a_scrape_chooses_streams_by_their_label() -> None:
    """The parameter `stream` names them and those below, the first ones first."""
    limits = Limits(max_metric_series=stream_metrics.SERIES_A_STREAM)
    with site(replace(IN_MEMORY, limits=limits)) as one:
        for name in ("ads", "fraud/v3", "fraudulent"):
            one.show(name, "+-+-")
        for chosen, shown, left_out in (
            ("", {"fraudulent"}, 2),
            ("?stream=fraud", {"fraud/v3"}, 0),
            ("?stream=fraudulent&stream=none", {"fraudulent"}, 0),
            ("?stream=fraud&stream=ads", {"fraud/v3"}, 1),
            ("?stream=ads&stream=fraud", {"ads"}, 1),
            ("?stream=none", set(), 0),
        ):
            answer = one.http.get(f"/metrics{chosen}")
            found = {
                sample.labels["stream"]
                for family in text_string_to_metric_families(answer.text)
                for sample in family.samples
                if "stream" in sample.labels
            }
            assert found == shown
            assert f"streameval_streams_left_out {left_out}.0" in answer.text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("streams=fraud", "a scrape has no parameter 'streams': choose streams by ?stream=NAME"),
        ("stream=", "stream name must not be empty"),
        ("stream=ads&stream=fraud/", "stream name must be "),
    ],
)
def test_a_scrape_that_can_choose_nothing_is_refused(query: str, said: str) -> None:
    """It would have all streams, or none, and Prometheus would show no fault."""
    with site() as one:
        answer = one.http.get(f"/metrics?{query}")
        assert (answer.status_code, said in answer.json()["message"]) == (400, True), answer.text


def test_series_are_limited() -> None:
    """The newest streams have series, the others are counted; all are within the limit."""
    most = 2 * stream_metrics.SERIES_A_STREAM + 1
    limits = Limits(max_metric_series=most)
    with site(replace(IN_MEMORY, limits=limits)) as one:
        for seed, name in enumerate(("c", "a", "d", "b")):
            fill(one, name, seed=seed)
            one.show(name, "+-+--+---+" * 5, eventTimesUs=[str(hours_ago(5))])
        series = scraped(one)
        of_streams = [dict(labels)["stream"] for _, labels in series if "stream" in dict(labels)]
        assert sorted(set(of_streams)) == ["b", "d"]
        # Without a base a verdict has a quality, and no since and difference.
        assert len(of_streams) == most - 1 - 2 * (SERIES_A_VERDICT - len(QUALITIES))
        assert at(series, "streams_left_out") == 2
        assert at(series, "streams") == 4


def test_streams_with_alarms_come_first_and_none_loses_its_series() -> None:
    """Declared alarms count more than the name; a stream that is made later displaces none."""
    limits = Limits(max_metric_series=2 * stream_metrics.SERIES_A_STREAM + 20)
    with site(replace(IN_MEMORY, limits=limits)) as one:

        def shown() -> set[str]:
            series = scraped(one)
            return {dict(labels)["stream"] for _, labels in series if "stream" in dict(labels)}

        for name in ("z", "m", "n"):
            one.show(name, "+-" * 20)
        assert shown() == {"m", "n"}
        one.show("a", "+-" * 20)
        assert shown() == {"m", "n"}
        later = (datetime.fromtimestamp(time.time() + hours * 3_600, UTC) for hours in (1, 9))
        start, end = (f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in later)
        alarms = {
            "reference": {"startTime": start, "endTime": end},
            "watches": [{"name": "ranking", "tolerance": 0.01}],
        }
        changed = {"stream": {"settings": {"alarms": alarms}}, "updateMask": "settings.alarms"}
        answer = one.http.patch("/v1/streams/z", json=changed)
        assert answer.status_code == 200, answer.text
        assert shown() == {"z", "n"}


def test_tokens(tmp_path: Path) -> None:
    """The scope query is required; a limited token gets its streams only."""
    path = tmp_path / "tokens.toml"
    tokens = {
        name: {"authorization": f"Bearer {create_token(path, name, scopes, streams)}"}
        for name, scopes, streams in (
            ("all", ["ingest", "query"], None),
            ("ingest", ["ingest"], None),
            ("fraud", ["query"], ["fraud"]),
        )
    }
    with site(Settings(listen="127.0.0.1:0", memory=True, tokens=path)) as one:
        for name in ("fraud/v1", "spam/v1"):
            fill(one, name, seed=1, rows=20, headers=tokens["all"])
        assert reason(one.http.get("/metrics")) == "TOKEN_MISSING"
        answer = one.http.get("/metrics", headers=tokens["ingest"])
        assert reason(answer) == "SCOPE_MISSING"
        for name, streams in (("all", {"fraud/v1", "spam/v1"}), ("fraud", {"fraud/v1"})):
            for _ in range(2):
                series = scraped(one, headers=tokens[name])
                assert streams == {
                    dict(labels)["stream"] for _, labels in series if "stream" in dict(labels)
                }


def test_open_metrics_where_they_are_asked_for(served: Site) -> None:
    """With the Accept header of Prometheus."""
    accept = {"accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    answer = served.http.get("/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = {family.name for family in open_metrics.text_string_to_metric_families(answer.text)}
    assert {"streameval_http_requests", "streameval_log_entries", "streameval"} <= families


def test_names_of_streams_are_labels_whatever_they_are() -> None:
    """Every allowed character is kept."""
    names = ("a", "A.b-c_d/1", "x" * 128)
    with site() as one:
        for name in names:
            one.show(name, "+-")
        series = scraped(one)
        shown = {dict(labels).get("stream") for _, labels in series} - {None}
        assert shown == set(names)
