"""Every query has an answer for every kind of stream: weights, clusters, ids, one class, none."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration

from streameval.cli._report.answers import read_answers
from streameval.cli._report.document import document
from streameval.client import Client
from streameval.v1 import query_pb2, types_pb2, verdict_pb2
from streameval_server.testing import running_server

from ..commands import report_of
from .conftest import Wire, selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from streameval.client import Stream

SEED = 33
ROWS = 400
HOUR = Duration(seconds=3600)
SEGMENT = types_pb2.Segment(key="country", value="DE")


def columns() -> dict[str, Any]:
    """Return cases with a country each; a third of them positive."""
    rng = np.random.default_rng(SEED)
    labels = rng.random(ROWS) < 1 / 3
    scores = np.clip(rng.random(ROWS) / 2 + labels * 0.4, 0, 1)
    return {
        "labels": labels,
        "scores": scores,
        "segments": {"country": np.where(np.arange(ROWS) % 3, "DE", "")},
    }


def with_ids(stream: Stream, **more: Any) -> None:
    """Send predictions; all but 50 get their labels, some of them without a prediction."""
    rows = columns()
    ids = [f"id {number}" for number in range(ROWS)]
    stream.log_cases(ids=ids, scores=rows["scores"], segments=rows["segments"])
    stream.label_cases(ids=ids[50:], labels=rows["labels"][50:], **more)


WEIGHTS = np.arange(ROWS) % 7 / 4 + 0.25
KINDS: dict[str, tuple[dict[str, Any], Callable[[Stream], object]]] = {
    # name: (settings, what fills it)
    "empty": ({}, lambda _: None),
    "plain": ({}, lambda s: s.add_cases(**columns())),
    "weights": ({}, lambda s: s.add_cases(**columns(), weights=WEIGHTS)),
    "heavy": ({}, lambda s: s.add_cases(**columns(), weights=WEIGHTS * 1e9)),
    "costs": (
        {"scale": "probability", "threshold": 0.5, "cost_fp": 1.0, "cost_fn": 5.0},
        lambda s: s.add_cases(**columns(), weights=WEIGHTS),
    ),
    "clusters": (
        {"cluster_key": "user", "threshold": 0.5},
        lambda s: s.add_cases(**columns(), clusters=[f"u{n % 90}" for n in range(ROWS)]),
    ),
    "ids": ({}, with_ids),
    "id weights": ({}, lambda s: with_ids(s, weights=WEIGHTS[50:])),
    "one class": (
        {},
        lambda s: s.add_cases(**columns() | {"labels": np.ones(ROWS, bool)}, weights=WEIGHTS),
    ),
    "one case": ({}, lambda s: s.add_cases(labels=[1], scores=[0.5], weights=[2.0])),
    "misses": ({}, lambda s: s.add_misses(12)),
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the address of a server with a stream of each kind."""
    with running_server() as address, Client(address) as client:
        for name, (settings, fill) in KINDS.items():
            key = name.replace(" ", "_")
            client.create_stream(key, segment_keys=["country"], **settings)
            fill(client.stream(key))
        client.flush()
        yield address


@pytest.fixture(scope="module")
def filled(address: str) -> Iterator[Wire]:
    """Return the stubs of that server."""
    with grpc.insecure_channel(address) as channel:
        yield Wire(channel)


def asked(wire: Wire, chosen: types_pb2.Selection) -> Iterator[Callable[[], Any]]:
    """Yield calls of every query about one selection."""
    query, costs = wire.query, query_pb2.Costs(false_positive=1.0, false_negative=5.0)
    for method, requests in {
        query.GetSnapshot: [query_pb2.GetSnapshotRequest(selection=chosen, projection=True)],
        query.GetCurve: [
            query_pb2.GetCurveRequest(selection=chosen, kind=kind)
            for kind in (
                query_pb2.CURVE_KIND_OPERATING_POINTS,
                query_pb2.CURVE_KIND_HULL,
            )
        ],
        query.GetHistogram: [query_pb2.GetHistogramRequest(selection=chosen)],
        query.GetReliability: [
            query_pb2.GetReliabilityRequest(selection=chosen, strategy=strategy)
            for strategy in query_pb2.ReliabilityBins.values()
        ],
        query.GetDecision: [
            query_pb2.GetDecisionRequest(selection=chosen, costs=costs),
            query_pb2.GetDecisionRequest(selection=chosen, threshold=0.5, error_costs=costs),
        ],
        query.ListWindows: [query_pb2.ListWindowsRequest(selection=chosen, step=HOUR)],
        query.CompareStreams: [
            query_pb2.CompareStreamsRequest(a=chosen, b=selection("plain"), metric="auc_roc")
        ],
        query.RankSegments: [query_pb2.RankSegmentsRequest(selection=chosen, key="country")],
        query.SampleForLabels: [
            query_pb2.SampleForLabelsRequest(selection=chosen, size=5, draw_ids=draw)
            for draw in (False, True)
        ],
        query.BatchGetSnapshots: [
            query_pb2.BatchGetSnapshotsRequest(streams=[chosen.stream], last=HOUR, steps=3)
        ],
    }.items():
        for request in requests:
            yield lambda method=method, request=request: method(request, timeout=60)
    request = verdict_pb2.GetVerdictRequest(stream=chosen.stream)
    yield lambda: query.GetVerdict(request, timeout=60)
    yield lambda: list(query.GetState(query_pb2.GetStateRequest(selection=chosen), timeout=60))


@pytest.mark.parametrize("kind", KINDS)
def test_every_query_has_an_answer_or_a_reason(filled: Wire, kind: str) -> None:
    """None fails inside; what cannot be answered is the caller's to know."""
    stream = kind.replace(" ", "_")
    codes = {
        code_of(call)
        for fields in ({}, {"last": HOUR}, {"half_life": HOUR}, {"segment": SEGMENT})
        for call in asked(filled, types_pb2.Selection(stream=stream, **fields))
    }
    status = grpc.StatusCode
    assert codes <= {status.OK, status.INVALID_ARGUMENT, status.FAILED_PRECONDITION}


def code_of(call: Callable[[], Any]) -> grpc.StatusCode:
    """Return how a call ends."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("kind", KINDS)
def test_every_report_says_what_cases_weigh(
    filled: Wire, address: str, tmp_path: Path, kind: str
) -> None:
    """Its prevalence is the snapshot's, also where the curves are drawn."""
    stream = kind.replace(" ", "_")
    html = report_of(address, stream, tmp_path)
    request = query_pb2.GetSnapshotRequest(selection=selection(stream), metrics=["prevalence"])
    snapshot = filled.query.GetSnapshot(request).snapshot
    said = re.findall(r"prevalence (?:is taken from the labelled cases, )?([0-9.]+) %", html)
    has_curves = snapshot.num_positive_ref > 0 and snapshot.num_negative_ref > 0
    shares = [
        f"{100 * metric.value:.1f}" for metric in snapshot.metrics if metric.HasField("value")
    ]
    assert said == shares * (1 + has_curves)


def test_a_report_names_its_revisions(address: str) -> None:
    """Rows that arrive between its answers are in the later ones, and it says so."""
    with Client(address) as client:
        found = read_answers(client, client.stream("plain"), timedelta(hours=1), None)
    revision = found.snapshot.revision
    assert f"at revision {revision} by streameval" in document(found)
    later = [replace(each, revision=revision + 3) for each in found.rows]
    text = f"at revisions {revision} to {revision + 3}, as rows arrived meanwhile, by"
    assert text in document(replace(found, rows=later))
