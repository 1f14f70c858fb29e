"""Pairs of a running server, against the library's evaluators of the same ids."""

from __future__ import annotations

import json
import math
import urllib.request
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from streameval import PairedEvaluator, compare_paired
from streameval.v1 import ingest_pb2, pair_pb2, pair_pb2_grpc, stream_pb2, types_pb2
from streameval_server import Settings
from streameval_server._state.pairs import pair_panes
from streameval_server.testing import running_service

from .conftest import Failure, Wire, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from google.protobuf.message import Message

METRICS = ("auc_pr", "average_precision", "auc_roc")
SIZE = 600
MINUTE_US = 60_000_000


class Cases:
    """Ids with two models' scores, labels and countries."""

    def __init__(self, seed: int, size: int = SIZE, *, offset: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.ids = [f"{seed}-{row}" for row in range(size)]
        self.labels = rng.random(size) < 0.3
        shared = rng.normal(1.2 * self.labels)
        self.a = offset + np.round(shared + rng.normal(0, 0.9, size), 2)
        self.b = np.round(shared + rng.normal(0, 0.2, size), 2)
        self.country = rng.integers(0, 2, size)

    def predictions(self, model: str, rows: slice | None = None) -> ingest_pb2.Predictions:
        chosen = rows or slice(None)
        return ingest_pb2.Predictions(
            ids=self.ids[chosen],
            scores=getattr(self, model)[chosen].tolist(),
            segments=[
                ingest_pb2.SegmentColumn(
                    key="country", values=["DE", "FR"], codes=self.country[chosen].tolist()
                )
            ],
        )

    def told(self, rows: slice | None = None) -> ingest_pb2.Labels:
        chosen = rows or slice(None)
        return ingest_pb2.Labels(ids=self.ids[chosen], positives=self.labels[chosen].tolist())

    def compared(self, metric: str, rows: object = slice(None), **options: object):
        return compare_paired(
            labels=self.labels[rows],
            scores_a=self.a[rows],
            scores_b=self.b[rows],
            metric=metric,
            **options,
        )


@pytest.fixture
def pair(wire: Wire, fresh: str) -> tuple[str, str]:
    """Return the names of two streams of a new pair."""
    a, b = f"{fresh}/a", f"{fresh}/b"
    made(wire, a, b)
    return a, b


def made(
    wire: Wire, a: str, b: str, least: tuple[float | None, ...] = (None, None), **settings: object
) -> pair_pb2.Pair:
    for name, threshold, probability in zip((a, b), (0.5, 0.25), least):
        stream = stream_pb2.Stream(name=name)
        if probability is not None:
            stream.settings.min_label_probability = probability
        stream.settings.segment_keys.append("country")
        stream.settings.threshold = threshold
        wire.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=stream), timeout=20)
    given = pair_pb2.Pair(a=a, b=b, settings=pair_pb2.PairSettings(**settings))
    return wire.pairs.CreatePair(pair_pb2.CreatePairRequest(pair=given), timeout=20).pair


def name_of(a: str, b: str) -> str:
    """Return the name of a pair that was made without one."""
    return f"{a}-vs-{b}"


def failed(method: Callable[..., object], request: Message) -> Failure:
    """Return the error of a call."""
    return failure(lambda: method(request, timeout=20))


def put(wire: Wire, stream: str, **rows: object) -> int:
    return wire.one(ingest_pb2.Batch(stream=stream, **rows)).revision


def asked(wire: Wire, pair: tuple[str, str], revision: int = 0, **fields: object):
    chosen = fields.pop("selection", types_pb2.Selection())
    chosen.min_revision = revision
    request = pair_pb2.GetPairComparisonRequest(name=name_of(*pair), selection=chosen, **fields)
    return wire.pairs.GetPairComparison(request, timeout=20)


def agrees(found: pair_pb2.PairComparison, expected: object) -> None:
    """Assert that an answer is the library's comparison."""
    assert found.compared.a.value == pytest.approx(expected.a.estimate, abs=1e-12)
    assert found.compared.b.value == pytest.approx(expected.b.estimate, abs=1e-12)
    assert found.compared.difference.value == pytest.approx(expected.difference, abs=1e-12)
    assert found.compared.difference.interval.lower == pytest.approx(expected.lower, abs=1e-9)
    assert found.compared.difference.interval.upper == pytest.approx(expected.upper, abs=1e-9)
    assert found.compared.p_value == pytest.approx(expected.p_value, rel=1e-6)
    if math.isnan(expected.e_value):
        assert not found.HasField("e_value")
    else:
        assert found.e_value == pytest.approx(expected.e_value, rel=1e-6)


def test_predictions_and_labels_meet_in_any_order(wire: Wire, pair: tuple[str, str]) -> None:
    """Labels before, between and after the predictions, to either stream: one answer."""
    cases, (a, b) = Cases(1), pair
    thirds = [slice(0, 200), slice(200, 400), slice(400, 600)]
    put(wire, a, labels=cases.told(thirds[0]))
    put(wire, a, predictions=cases.predictions("a"))
    put(wire, b, labels=cases.told(thirds[1]))
    put(wire, b, predictions=cases.predictions("b"))
    revision = put(wire, b, labels=cases.told(thirds[2]))
    for metric in METRICS:
        found = asked(wire, pair, revision, metric=metric).comparison
        agrees(found, cases.compared(metric))
        assert (found.a, found.b) == pair
    coverage = found.coverage
    assert (coverage.predictions_a, coverage.predictions_b, coverage.shared) == (600, 600, 600)
    assert coverage.labelled == 600
    assert coverage.shared_share == 1.0
    by_prevalence = asked(wire, pair, revision, prevalence=0.05).comparison
    agrees(by_prevalence, cases.compared("auc_pr", prevalence=0.05))
    assert by_prevalence.compared.prevalence == 0.05


def test_ids_of_one_stream_alone_lower_the_share(wire: Wire, pair: tuple[str, str]) -> None:
    """Only shared ids are compared; the share of those with both is said, with a warning."""
    cases, (a, b) = Cases(2), pair
    put(wire, a, predictions=cases.predictions("a"))
    put(wire, b, predictions=cases.predictions("b", slice(0, 200)))
    revision = put(wire, a, labels=cases.told())
    found = asked(wire, pair, revision, metric="auc_roc").comparison
    agrees(found, cases.compared("auc_roc", slice(0, 200)))
    assert found.coverage.shared_share == pytest.approx(1 / 3)
    assert found.coverage.labelled == 200
    assert "33.3 % of the ids have both" in found.compared.warnings[0]


def test_relabels_and_retractions_count_for_the_pair(wire: Wire, pair: tuple[str, str]) -> None:
    """A changed label moves the id; a retraction to either stream takes it out; all counted."""
    cases, (a, b) = Cases(3), pair
    put(wire, a, predictions=cases.predictions("a"))
    put(wire, b, predictions=cases.predictions("b"))
    put(wire, a, labels=cases.told())
    put(wire, b, labels=cases.told(slice(0, 50)))  # each repeats a label
    cases.labels[:100] = ~cases.labels[:100]
    put(wire, b, labels=cases.told(slice(0, 100)))
    put(wire, a, predictions=cases.predictions("b", slice(0, 7)))  # refused: the first counts
    revision = put(wire, b, retractions=ingest_pb2.Retractions(ids=cases.ids[500:]))
    found = asked(wire, pair, revision).comparison
    agrees(found, cases.compared("auc_pr", slice(0, 500)))
    got = wire.pairs.GetPair(pair_pb2.GetPairRequest(name=name_of(a, b)), timeout=20).pair
    counters = got.counters
    assert counters.repeated_predictions == 7
    assert counters.repeated_labels == 50
    assert counters.relabelled == 100
    assert counters.retracted == 100
    assert counters.kept_ids == 500
    assert counters.state_bytes > 0
    assert found.coverage.shared == 500


def test_disagreements_at_the_declared_thresholds(wire: Wire, pair: tuple[str, str]) -> None:
    """Counted one by one, each model at its own threshold, with who was right."""
    cases, (a, b) = Cases(4), pair
    put(wire, a, predictions=cases.predictions("a"))
    put(wire, b, predictions=cases.predictions("b"))
    revision = put(wire, b, labels=cases.told())
    found = asked(wire, pair, revision).comparison.disagreement
    by_a, by_b = cases.a >= 0.5, cases.b >= 0.25
    differ = by_a != by_b
    assert found.share == pytest.approx(differ.mean())
    assert found.only_a_positives == (by_a & ~by_b & cases.labels).sum()
    assert found.only_a_negatives == (by_a & ~by_b & ~cases.labels).sum()
    assert found.only_b_positives == (~by_a & by_b & cases.labels).sum()
    assert found.only_b_negatives == (~by_a & by_b & ~cases.labels).sum()
    assert found.neither_negatives == (~by_a & ~by_b & ~cases.labels).sum()
    assert found.both_flag_positives == (by_a & by_b & cases.labels).sum()
    assert found.a_right == (differ & (by_a == cases.labels)).sum()
    assert found.b_right == (differ & (by_b == cases.labels)).sum()
    assert not found.is_approximate


def test_values_of_a_segment_that_are_left_out_are_told(wire: Wire, pair: tuple[str, str]) -> None:
    """An answer compares 100 values at most, and says how many others there are."""
    for size in (100, 103):
        column = ingest_pb2.SegmentColumn(
            key="country", values=[f"{number:03}" for number in range(size)], codes=range(size)
        )
        ids = [f"{size}-{number}".encode() for number in range(size)]
        for side in pair:
            rows = ingest_pb2.Predictions(ids=ids, scores=[0.5] * size, segments=[column])
            revision = put(wire, side, predictions=rows)
        answer = asked(wire, pair, revision, by_segment="country")
        assert len(answer.segments) == 100
        assert len(answer.comparison.compared.warnings) == (size > 100)
    [told] = answer.comparison.compared.warnings
    assert told.startswith("100 of 101 values of country are compared")  # one is of all others
    assert "--segment country=VALUE" in told


def test_each_segment_is_compared(wire: Wire, pair: tuple[str, str]) -> None:
    """By segment, one at a time and all together; of the first prediction."""
    cases, (a, b) = Cases(5), pair
    put(wire, a, predictions=cases.predictions("a"))
    put(wire, b, predictions=cases.predictions("b"))
    revision = put(wire, b, labels=cases.told())
    answer = asked(wire, pair, revision, by_segment="country")
    assert {part.segment.value for part in answer.segments} == {"DE", "FR"}
    for part in answer.segments:
        rows = cases.country == ["DE", "FR"].index(part.segment.value)
        agrees(part, cases.compared("auc_pr", rows))
        chosen = types_pb2.Selection(segment=part.segment)
        assert asked(wire, pair, revision, selection=chosen).comparison == part
    chosen = types_pb2.Selection(segment=types_pb2.Segment(key="plan", value="x"))
    error = failed(
        wire.pairs.GetPairComparison,
        pair_pb2.GetPairComparisonRequest(name=name_of(a, b), selection=chosen),
    )
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "no segment key 'plan'; both streams declared country" in error.message


def test_a_window_and_a_series_are_of_first_predictions(wire: Wire, pair: tuple[str, str]) -> None:
    """Ids count in the pane of the prediction that came first, whenever the rest came."""
    cases, (a, b) = Cases(6), pair
    now = Timestamp()
    now.GetCurrentTime()
    start_us = (now.ToMicroseconds() // MINUTE_US - 30) * MINUTE_US
    at = [start_us + row * 2_000_000 for row in range(SIZE)]  # over 20 minutes
    late = [time + 20 * MINUTE_US // 4 for time in at]
    for name, model, times in ((a, "a", at), (b, "b", late)):
        rows = cases.predictions(model)
        rows.event_times_us.extend(times)
        put(wire, name, predictions=rows)
    revision = put(wire, a, labels=cases.told())
    between = types_pb2.TimeRange()
    between.start_time.FromMicroseconds(start_us)
    between.end_time.FromMicroseconds(start_us + 10 * MINUTE_US)
    found = asked(wire, pair, revision, selection=types_pb2.Selection(between=between)).comparison
    agrees(found, cases.compared("auc_pr", slice(0, 300)))
    assert found.compared.window_a == found.compared.window_b == between
    between.end_time.FromMicroseconds(start_us + 20 * MINUTE_US)
    for cumulative in (False, True):
        series = wire.pairs.ListPairComparisons(
            pair_pb2.ListPairComparisonsRequest(
                name=name_of(a, b),
                selection=types_pb2.Selection(between=between),
                step=Duration(seconds=300),
                metric="auc_roc",
                cumulative=cumulative,
            ),
            timeout=20,
        ).comparisons
        assert len(series) == 4
        for step, part in enumerate(series):
            first = 0 if cumulative else step * 150
            agrees(part, cases.compared("auc_roc", slice(first, (step + 1) * 150)))
    last = types_pb2.Selection(last_cases=60)
    recent = asked(wire, pair, revision, selection=last).comparison
    assert recent.coverage.labelled == 60
    assert "this window moves" in recent.compared.warnings[0]


def test_refusals_say_what_to_do(wire: Wire, pair: tuple[str, str]) -> None:
    """No labels, too few, weights, half-lives, unknown pairs: an enum or a code, and words."""
    cases, (a, b) = Cases(7), pair
    put(wire, a, predictions=cases.predictions("a"))
    revision = put(wire, b, predictions=cases.predictions("b"))
    found = asked(wire, pair, revision).comparison
    assert found.refusal == pair_pb2.PAIR_REFUSAL_NO_LABELS
    assert "wait, or label some" in found.reason
    assert not found.compared.difference.HasField("value")
    first = np.flatnonzero(cases.labels)[:1].tolist() + np.flatnonzero(~cases.labels)[:4].tolist()
    few = ingest_pb2.Labels(
        ids=[cases.ids[row] for row in first], positives=[cases.labels[row] for row in first]
    )
    found = asked(wire, pair, put(wire, a, labels=few)).comparison
    assert found.refusal == pair_pb2.PAIR_REFUSAL_TOO_FEW_LABELS
    assert found.compared.difference.HasField("value")
    assert "two positives and two negatives" in found.reason
    chosen = types_pb2.Selection(half_life=Duration(seconds=60))
    for fields, text in (
        ({"selection": chosen}, "rows of equal weight"),
        ({"metric": "recall"}, "pairs are compared by"),
        ({"prevalence": 2.0}, "between 0 and 1"),
        ({"by_segment": "plan"}, "no segment key"),
    ):
        error = failed(
            wire.pairs.GetPairComparison,
            pair_pb2.GetPairComparisonRequest(name=name_of(a, b), **fields),
        )
        assert error.code is grpc.StatusCode.INVALID_ARGUMENT
        assert text in error.message, error.message
    error = failed(wire.pairs.GetPairComparison, pair_pb2.GetPairComparisonRequest(name="no/such"))
    assert error.code is grpc.StatusCode.NOT_FOUND
    assert error.message == (
        "there is no pair no/such: ListPairs (streameval pairs list) has the names, CreatePair "
        "(streameval pairs create) makes one of two streams, before both score the same ids"
    )


def test_cells_that_hide_the_order_are_refused(
    wire: Wire, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of an hour that were cut where other scores were: no limits, and what to do."""
    monkeypatch.setattr(pair_panes, "MAX_WAITING_ROWS", 100)  # counted before the next entry
    a, b = f"{fresh}/a", f"{fresh}/b"
    made(wire, a, b, max_cells=64)
    first, later = Cases(13, 200), Cases(14, 2_000, offset=6.0)
    later.b += 6.0
    for cases in (first, later):
        put(wire, a, predictions=cases.predictions("a"))
        put(wire, b, predictions=cases.predictions("b"))
        revision = put(wire, a, labels=cases.told())
    hour = types_pb2.Selection(last=Duration(seconds=3_600))
    found = asked(wire, (a, b), revision, selection=hour, metric="auc_pr").comparison
    assert found.in_cells
    assert found.refusal == pair_pb2.PAIR_REFUSAL_GRID_TOO_COARSE
    assert "more max_cells, or start a new one" in found.reason
    assert found.sentence.endswith(found.reason)
    for limits in (found.compared.difference.interval, found.anytime):
        assert limits.undefined_reason == types_pb2.UNDEFINED_REASON_TOO_COARSE
        assert not limits.HasField("lower")
    assert not found.HasField("e_value")
    assert found.verdict == pair_pb2.PAIR_VERDICT_UNSPECIFIED
    columns = {
        name: np.concatenate((getattr(first, column), getattr(later, column)))
        for name, column in (("labels", "labels"), ("scores_a", "a"), ("scores_b", "b"))
    }
    expected = compare_paired(metric="auc_pr", **columns)
    assert found.compared.difference.value == pytest.approx(expected.difference, abs=0.05)
    agrees(asked(wire, (a, b), revision, metric="auc_pr").comparison, expected)


def test_labels_of_few_clusters_are_refused(wire: Wire, fresh: str) -> None:
    """Three clusters hardly say how they vary; as many as there are other ids do."""
    a, b = f"{fresh}/a", f"{fresh}/b"
    for name in (a, b):
        stream = stream_pb2.Stream(name=name)
        stream.settings.cluster_key, stream.settings.cluster_groups = "user", 8
        wire.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=stream), timeout=20)
    pair = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=a, b=b))
    assert wire.pairs.CreatePair(pair, timeout=20).pair.settings.cluster_groups == 8
    cases = Cases(14)
    for users, refusal in (
        ([row % 3 for row in range(60)], pair_pb2.PAIR_REFUSAL_TOO_FEW_CLUSTERS),
        (list(range(3, 543)), pair_pb2.PAIR_REFUSAL_UNSPECIFIED),
    ):
        rows = slice(0, 60) if refusal else slice(60, 600)
        for name, scores in ((a, "a"), (b, "b")):
            predictions = cases.predictions(scores, rows)
            del predictions.segments[:]
            predictions.clusters.extend(users)
            put(wire, name, predictions=predictions)
        revision = put(wire, a, labels=cases.told(rows))
        found = asked(wire, (a, b), revision, metric="auc_roc").comparison
        assert found.refusal == refusal
        assert found.compared.difference.HasField("value")
        assert found.compared.difference.interval.HasField("lower") == (not refusal)
        if refusal:
            few = types_pb2.UNDEFINED_REASON_TOO_FEW_CLUSTERS
            assert found.compared.difference.interval.undefined_reason == few
            assert found.compared.a.interval.undefined_reason == few
            assert "20 effective clusters" in found.reason
            assert "wait for more" in found.sentence
            assert not found.HasField("e_value")


@pytest.mark.parametrize("least", [(None, None), (0.25, None), (0.2, 0.05), (0.3, 0.5)])
def test_weights_count_as_in_the_library(
    wire: Wire, fresh: str, least: tuple[float | None, ...]
) -> None:
    """Label probabilities of an audit, of which both streams declare the least, or not.

    Neither a bound of one stream alone nor one that a weight exceeds bounds the weights.
    """
    cases, (a, b) = Cases(11), (pair := (f"{fresh}/a", f"{fresh}/b"))
    declared = made(wire, a, b, least).settings
    bound = None if None in least else min(least)
    assert declared.HasField("min_label_probability") == (bound is not None)
    assert declared.min_label_probability == (bound or 0.0)
    put(wire, a, predictions=cases.predictions("a"))
    put(wire, b, predictions=cases.predictions("b"))
    shares = [(0.25, 0.5, 1.0)[row % 3] for row in range(SIZE)]
    told = cases.told()
    told.label_probabilities.extend(shares)
    revision = put(wire, b, labels=told)
    for metric in METRICS:
        found = asked(wire, pair, revision, metric=metric).comparison
        expected = cases.compared(metric, label_probability=shares, min_label_probability=bound)
        agrees(found, expected)
        told = [f"{each}, on both streams before the pair is made" for each in expected.warnings]
        assert list(found.compared.warnings) == told
        assert bool(told) == (bound in {None, 0.3})
    heavy, few = slice(0, 4), ingest_pb2.Labels()
    other = Cases(12)
    for side, scores in ((a, "a"), (b, "b")):
        put(wire, side, predictions=other.predictions(scores, heavy))
    few.CopyFrom(other.told(heavy))
    few.weights.extend([100_000.0] * 4)
    found = asked(wire, pair, put(wire, a, labels=few)).comparison
    assert found.refusal == pair_pb2.PAIR_REFUSAL_TOO_FEW_EFFECTIVE
    assert found.compared.difference.HasField("value")
    assert (
        found.compared.difference.interval.undefined_reason
        == types_pb2.UNDEFINED_REASON_TOO_FEW_EFFECTIVE
    )
    assert "one case may have more than a fifth" in found.reason


def test_a_pair_is_made_listed_and_deleted(wire: Wire, pair: tuple[str, str], fresh: str) -> None:
    """Once, of two existing streams; they stay undeletable until it is gone."""
    a, b = pair
    got = wire.pairs.GetPair(pair_pb2.GetPairRequest(name=name_of(a, b)), timeout=20).pair
    assert got.settings.max_cells == 4_096
    assert list(got.settings.segment_keys) == ["country"]
    listed = wire.pairs.ListPairs(pair_pb2.ListPairsRequest(stream=b), timeout=20)
    assert [(each.a, each.b) for each in listed.pairs] == [pair]
    for pair_id in ("", "another"):
        again = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=b, b=a), pair_id=pair_id)
        error = failed(wire.pairs.CreatePair, again)
        assert (error.code, error.reason) == (grpc.StatusCode.ALREADY_EXISTS, "PAIR_EXISTS")
        assert error.message == (
            f"there is a pair of {b} and {a} already: {name_of(a, b)}; GetPair (streameval pairs "
            "show) shows it, DeletePair (streameval pairs delete) ends it"
        )
    missing = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=a, b=f"{fresh}/none"))
    assert failed(wire.pairs.CreatePair, missing).code is grpc.StatusCode.NOT_FOUND
    same = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=a, b=a))
    assert failed(wire.pairs.CreatePair, same).code is grpc.StatusCode.INVALID_ARGUMENT
    error = failed(wire.streams.DeleteStream, stream_pb2.DeleteStreamRequest(name=b))
    assert error.code is grpc.StatusCode.FAILED_PRECONDITION
    assert error.message == (
        f"stream {b} is in 1 pair ({name_of(a, b)}): delete the pair first with DeletePair "
        "(streameval pairs delete)"
    )
    deletion = pair_pb2.DeletePairRequest(name=name_of(a, b), request_id="gone")
    wire.pairs.DeletePair(deletion, timeout=20)
    assert wire.pairs.DeletePair(deletion, timeout=20).duplicate
    error = failed(wire.pairs.GetPair, pair_pb2.GetPairRequest(name=name_of(a, b)))
    assert error.code is grpc.StatusCode.NOT_FOUND
    wire.streams.DeleteStream(stream_pb2.DeleteStreamRequest(name=b), timeout=20)


def test_a_name_is_one_that_a_stream_may_have(wire: Wire, fresh: str) -> None:
    """Given or made of both streams' names; one name is of one pair, until it is deleted."""
    long, other = f"{fresh}/" + "a" * 70, f"{fresh}/" + "b" * 70
    for name in (long, other, f"{fresh}/c"):
        made = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
        wire.streams.CreateStream(made, timeout=20)
    request = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=long, b=other, name="ignored"))
    for pair_id, problem in (
        ("a b", "must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got 'a b'"),
        ("a/..", "must have no segment '.' or '..', got 'a/..'"),
        ("a" * 129, "must be at most 128 characters, got 129"),
        ("", f"must be at most 128 characters, got {len(long + other) + 4}"),
    ):
        request.pair_id = pair_id
        error = failed(wire.pairs.CreatePair, request)
        assert error.code is grpc.StatusCode.INVALID_ARGUMENT
        assert error.fields == [("pair_id", f"pair_id (--name), or A-vs-B without one, {problem}")]
    request.pair_id = f"{fresh}/c"  # as a stream's: they are told apart
    assert wire.pairs.CreatePair(request, timeout=20).pair.name == request.pair_id
    second = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=long, b=f"{fresh}/c"))
    second.pair_id = request.pair_id
    error = failed(wire.pairs.CreatePair, second)
    assert (error.code, error.reason) == (grpc.StatusCode.ALREADY_EXISTS, "PAIR_NAME_TAKEN")
    wire.pairs.DeletePair(pair_pb2.DeletePairRequest(name=request.pair_id), timeout=20)
    assert wire.pairs.CreatePair(second, timeout=20).pair.b == f"{fresh}/c"
    for method, kind in (
        (wire.pairs.GetPair, pair_pb2.GetPairRequest),
        (wire.pairs.DeletePair, pair_pb2.DeletePairRequest),
        (wire.pairs.GetPairComparison, pair_pb2.GetPairComparisonRequest),
    ):
        error = failed(method, kind())
        assert error.fields == [("name", "pair name must not be empty")]


def test_pages_of_pairs_are_in_order_of_their_names(wire: Wire, fresh: str) -> None:
    """Each pair comes once; a token is of its list."""
    for number in range(4):
        made(wire, f"{fresh}/{number}/a", f"{fresh}/{number}/b")
    names, token = [], ""
    while True:
        request = pair_pb2.ListPairsRequest(page_size=3, page_token=token)
        page = wire.pairs.ListPairs(request, timeout=20)
        names += [each.name for each in page.pairs]
        token = page.next_page_token
        if not token:
            break
    assert names == sorted(set(names))
    assert sum(name.startswith(f"{fresh}/") for name in names) == 4


def test_scores_with_an_offset_are_compared_in_cells(wire: Wire, fresh: str) -> None:
    """`1000 + x` in few cells: the figures are exact, the interval near that of all pairs."""
    a, b = f"{fresh}/a", f"{fresh}/b"
    made(wire, a, b, max_cells=256)
    cases = Cases(8, 4_000, offset=1_000.0)
    put(wire, a, predictions=cases.predictions("a"))
    put(wire, b, predictions=cases.predictions("b"))
    put(wire, a, labels=cases.told())
    revision = put(wire, b, labels=cases.told(slice(0, 1)))
    chosen = types_pb2.Selection(last=Duration(seconds=3600))
    found = asked(wire, (a, b), revision, selection=chosen).comparison
    expected = cases.compared("auc_pr")
    assert found.compared.a.value == pytest.approx(expected.a.estimate, abs=2e-3)
    width = found.compared.difference.interval.upper - found.compared.difference.interval.lower
    assert 0.95 < width / (expected.upper - expected.lower) < 1.3
    agrees(asked(wire, (a, b), revision).comparison, expected)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


def stubs(directory: Path) -> Iterator[tuple[Wire, str]]:
    settings = Settings(listen="127.0.0.1:0", http="127.0.0.1:0", data=directory)
    with (
        running_service(settings) as addresses,
        grpc.insecure_channel(addresses.grpc) as channel,
    ):
        yield Wire(channel), addresses.http


def test_a_restart_changes_nothing_and_http_says_the_same(directory: Path) -> None:
    """The same answer after a restart, from the checkpoint and the log, and as JSON."""
    cases, pair = Cases(9), ("fraud/v3", "fraud/v4")
    for wire, _ in stubs(directory):
        made(wire, *pair, prevalence=0.1)
        put(wire, pair[0], predictions=cases.predictions("a"))
        put(wire, pair[1], predictions=cases.predictions("b"))
        before = asked(wire, pair, put(wire, pair[0], labels=cases.told(slice(0, 400)))).comparison
    for wire, http in stubs(directory):
        after = asked(wire, pair).comparison
        before.compared.revision = after.compared.revision
        assert after == before
        found = asked(wire, pair, put(wire, pair[1], labels=cases.told())).comparison
        agrees(found, cases.compared("auc_pr", prevalence=0.1))
        path = f"{http}/v1/pairs/{name_of(*pair)}:compare?bySegment=country"
        with urllib.request.urlopen(path, timeout=20) as response:
            answer = json.load(response)
        assert (
            answer["comparison"]["compared"]["difference"]["value"]
            == found.compared.difference.value
        )
        assert answer["comparison"]["sentence"] == found.sentence
        assert len(answer["segments"]) == 2


def test_the_sentence_is_that_of_the_library(wire: Wire, pair: tuple[str, str]) -> None:
    """The verdict, and how many more labels decide where it is open."""
    cases, (a, b) = Cases(10), pair
    put(wire, a, predictions=cases.predictions("a"))
    put(wire, b, predictions=cases.predictions("b"))
    evaluator = PairedEvaluator()
    for rows in (slice(0, 300), slice(300, 600)):
        revision = put(wire, a, labels=cases.told(rows))
        evaluator.add_cases(
            labels=cases.labels[rows], scores_a=cases.a[rows], scores_b=cases.b[rows]
        )
        found = asked(wire, pair, revision, metric="auc_roc").comparison
        known = evaluator.verdict(metric="auc_roc", names=(a, b))
        assert found.sentence.startswith(known.replace(" cases", " shared ids"))
        if found.verdict == pair_pb2.PAIR_VERDICT_NOT_DECIDED:
            assert found.labels_needed > 0
        else:
            assert found.verdict == pair_pb2.PAIR_VERDICT_B_BETTER
            assert found.e_value >= 20


def test_the_stubs_of_pairs_are_those_of_the_service() -> None:
    """Every method of the contract has a stub."""
    names = [method.name for method in pair_pb2.DESCRIPTOR.services_by_name["PairService"].methods]
    assert all(hasattr(pair_pb2_grpc.PairServiceServicer, name) for name in names)
