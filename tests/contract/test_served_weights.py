"""Weighted rows of a stream: windows and slices, labels by id, merges, restarts, refusals."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import Evaluator, Snapshot, WindowedEvaluator
from streameval.client import Client
from streameval.statistics import Place
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import query_pb2, stream_pb2, types_pb2
from streameval_server import Settings
from streameval_server.testing import running_server

from .conftest import Wire, failure, selection, send

if TYPE_CHECKING:
    from pathlib import Path

UNIT = 2**16
HOUR = timedelta(hours=1)


def sample(seed: int, size: int = 1_500) -> dict[str, np.ndarray]:
    """Return labels, scores and weights with ties and with unequal weights."""
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < 0.3
    # A grid of quarters of 1/256: a stream keeps every score of it.
    scores = np.clip(np.round((rng.normal(size=size) + labels) * 40 + 400) / 1024, 0, 1)
    return {"labels": labels, "scores": scores, "weights": rng.integers(1, 2**18, size) / UNIT}


def local(columns: dict[str, Any]) -> Evaluator:
    evaluator = Evaluator()
    evaluator.add_cases(**columns)
    return evaluator


def same_figures(found: Snapshot, expected: Evaluator) -> None:
    """Compare every figure, interval and count with those of the library."""
    theirs = expected.snapshot()
    assert (found.num_positive_ref, found.num_negative_ref, found.num_misses) == (
        theirs.num_positive_ref,
        theirs.num_negative_ref,
        theirs.num_misses,
    )
    assert found.weights == theirs.weights
    for name, value in theirs.figures.items():
        assert found.figures[name] == pytest.approx(value, rel=1e-9, nan_ok=True), name
    for name, interval in theirs.intervals.items():
        ours = found.intervals[name]
        assert (ours.reason, ours.refused) == (interval.reason, interval.refused)
        assert ours.design_effect == pytest.approx(interval.design_effect, rel=1e-9)
        for side in ("lower", "upper"):
            assert getattr(ours, side) == pytest.approx(
                getattr(interval, side), abs=1e-6, nan_ok=True
            )


def test_figures_are_those_of_scikit_learn(client: Client, fresh: str, require: Any) -> None:
    """All-time, window and slice, from several batches: to 1e-9."""
    metrics = require("sklearn.metrics")
    client.create_stream(fresh, segment_keys=["country"], resolution=20)
    columns, now = sample(1), datetime.now(UTC)
    country = np.where(np.arange(1_500) % 3 == 0, "US", "DE")
    stream = client.stream(fresh)
    for part in np.array_split(np.arange(1_500), 7):
        rows = {name: column[part] for name, column in columns.items()}
        stream.add_cases(**rows, at=now, segments={"country": country[part].tolist()})
    client.flush()
    for chosen, kept in (
        ({}, np.ones(1_500, dtype=np.bool_)),
        ({"window": HOUR}, np.ones(1_500, dtype=np.bool_)),
        ({"segment": ("country", "US")}, country == "US"),
        ({"segment": ("country", "DE"), "window": HOUR}, country == "DE"),
    ):
        labels, scores, weights = (each[kept] for each in columns.values())
        found = stream.snapshot(**chosen, metrics=Place.REQUEST.names())
        given = {"sample_weight": weights}
        for name, value in (
            ("auc_roc", metrics.roc_auc_score(labels, scores, **given)),
            ("average_precision", metrics.average_precision_score(labels, scores, **given)),
            ("brier_score", metrics.brier_score_loss(labels, scores, **given)),
            ("prevalence", np.average(labels, weights=weights)),
        ):
            assert found.figures[name] == pytest.approx(value, rel=1e-9), (chosen, name)
        assert found.num_cases == kept.sum()
        assert found.weights.positives == weights[labels].sum()
        points = stream.operating_points(**chosen)
        fpr, tpr, _ = metrics.roc_curve(labels, scores, drop_intermediate=False, **given)
        np.testing.assert_allclose(points.fpr, fpr, atol=1e-12)
        np.testing.assert_allclose(points.tpr, tpr, atol=1e-12)
        same_figures(stream.snapshot(**chosen), stream.evaluator(**chosen))
        assert not found.reasons


def test_answers_say_what_they_assume_of_weights(client: Client, fresh: str) -> None:
    """Snapshots, comparisons and rankings, where no least label probability is declared."""
    client.create_stream(fresh, segment_keys=["country"])
    stream = client.stream(fresh)
    for seed, country in enumerate(("DE", "US")):
        stream.add_cases(**sample(seed), segments={"country": country})
    client.flush()
    (text,) = stream.snapshot().warnings
    assert text.startswith("no least label probability bounds the weights")
    german, american = (stream.select(segment=("country", each)) for each in ("DE", "US"))
    found = client.compare(german, american)
    assert [each[:5] for each in found.warnings] == ["a: no", "b: no"]
    assert stream.rank_segments("country").warnings == (text,)


def test_labels_carry_weights(client: Client, fresh: str) -> None:
    """A weight of the label, in either order; changed, repeated and retracted exactly."""
    client.create_stream(fresh, expired="negative")
    stream = client.stream(fresh)
    columns, now = sample(2, 400), datetime.now(UTC)
    ids = [f"id {number}" for number in range(400)]
    half = slice(0, 200)
    stream.label_cases(
        ids=ids[half], labels=columns["labels"][half], weights=columns["weights"][half], at=now
    )
    stream.log_cases(ids=ids, scores=columns["scores"], at=now)
    stream.label_cases(
        ids=ids[200:], labels=columns["labels"][200:], weights=columns["weights"][200:], at=now
    )
    client.flush()
    same_figures(stream.snapshot(), local(columns))
    # The other class, with the same weights; then a weight of its own, which changes nothing.
    changed = ~columns["labels"]
    stream.label_cases(ids=ids, labels=changed, weights=columns["weights"])
    stream.label_cases(ids=ids[:50], labels=changed[:50], weights=np.full(50, 0.25))
    stream.retract_cases(ids=ids[350:])
    client.flush()
    left = {name: column[:350] for name, column in columns.items()} | {"labels": changed[:350]}
    same_figures(stream.snapshot(), local(left))
    assert client.get_stream(fresh).counters.duplicate_labels == 50


def test_a_decayed_window_is_the_librarys(client: Client, fresh: str) -> None:
    """Each case weighs its weight times its pane's weight, by age; slices have rankings."""
    client.create_stream(fresh, segment_keys=["country"])
    columns, now = sample(3), datetime.now(UTC)
    country = np.where(np.arange(1_500) % 2 == 0, "US", "DE").tolist()
    times = [now - number % 30 * HOUR for number in range(1_500)]
    stream = client.stream(fresh)
    stream.add_cases(**columns, at=times, segments={"country": country})
    client.flush()
    windowed = WindowedEvaluator()
    windowed.add_cases(**columns, at=times)
    found = stream.snapshot(half_life=6 * HOUR)
    window = windowed.decayed(6 * HOUR)
    for name in ("auc_roc", "average_precision"):
        assert found.figures[name] == pytest.approx(window.interval(name).estimate, rel=1e-3)
    assert found.num_cases == 1_500
    ranked = stream.rank_segments("country", metric="auc_roc", half_life=6 * HOUR)
    assert len(ranked.segments) == 2
    assert all(each.value.estimate > 0.6 and each.p_value <= 1 for each in ranked.segments)
    assert stream.evaluator(half_life=6 * HOUR).weights is not None


def test_states_with_weights_are_merged(client: Client, fresh: str) -> None:
    """An edge's weighted evaluator counts as its rows; a stream's state comes back the same."""
    stream, columns = client.stream(fresh), sample(4, 600)
    first = {name: column[:300] for name, column in columns.items()}
    rest = {name: column[300:] for name, column in columns.items()}
    stream.add_cases(**first)
    client.flush()
    stream.merge(local(rest), source="edge", epoch=1)
    same_figures(stream.snapshot(), local(columns))
    assert stream.evaluator() == local(columns) + Evaluator(max_cells=stream.evaluator().max_cells)


def test_a_restart_keeps_weights(tmp_path: Path) -> None:
    """From the log, and from a checkpoint; an exported stream has the same state elsewhere."""
    columns, settings = sample(5, 800), Settings(listen="127.0.0.1:0", data=tmp_path)
    half = {name: column[:400] for name, column in columns.items()}
    ids = [f"id {number}" for number in range(400)]
    now = datetime.now(UTC)
    with running_server(settings) as address, Client(address) as client:
        stream = client.stream("s")
        stream.add_cases(**half)
        stream.log_cases(ids=ids, scores=columns["scores"][400:], at=now)
        stream.label_cases(ids=ids[:200], labels=columns["labels"][400:600],
                           weights=columns["weights"][400:600])  # fmt: skip
        client.flush()
        before = stream.evaluator()
    with running_server(settings) as address, Client(address) as client:
        stream = client.stream("s")
        assert stream.evaluator() == before
        stream.label_cases(ids=ids[200:], labels=columns["labels"][600:],
                           weights=columns["weights"][600:])  # fmt: skip
        client.flush()
        same_figures(stream.snapshot(), local(columns))


def test_histograms_and_decisions_have_both_counts(wire: Wire, fresh: str) -> None:
    """Numbers of cases stay numbers of cases; what they weigh stands beside them."""
    cases = pb.Cases(
        scores=[0.125, 0.25, 0.5, 0.75], positives=[0, 1, 0, 1], weights=[2, 0.5, 4, 8]
    )
    revision = send(wire, fresh, cases=cases)
    send(wire, fresh, misses=pb.Misses(positives=1))
    chosen = selection(fresh, revision)
    found = wire.query.GetHistogram(
        query_pb2.GetHistogramRequest(selection=chosen, bins=2, lower=0.2, upper=0.6)
    )
    assert (list(found.positives), list(found.negatives)) == ([1, 0], [0, 1])
    assert list(found.weighted_positives) == [0.5, 0]
    assert list(found.weighted_negatives) == [0, 4]
    assert (found.positives_above, found.weighted_positives_above) == (1, 8)
    assert (found.negatives_below, found.weighted_negatives_below) == (1, 2)
    decided = wire.query.GetDecision(query_pb2.GetDecisionRequest(selection=chosen, threshold=0.5))
    assert (decided.tp, decided.fp, decided.fn, decided.tn) == (1, 1, 2, 1)
    sums = decided.weighted
    assert (sums.tp, sums.fp, sums.fn, sums.tn) == (8, 4, 1.5, 2)
    assert {each.name: each.value for each in decided.metrics}["precision"] == 8 / 12
    curve = wire.query.GetCurve(
        query_pb2.GetCurveRequest(
            selection=chosen, kind=query_pb2.CURVE_KIND_OPERATING_POINTS, max_points=100
        )
    )
    assert (curve.num_positive_ref, curve.num_negative_ref) == (3, 2)
    assert not curve.curve.fp
    assert (curve.curve.weighted_tp[-1], curve.curve.weighted_fp[-1]) == (9.5, 6)
    found = wire.query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=chosen)).snapshot
    assert (found.weights.positives, found.weights.negatives) == (9.5, 6)
    roc = next(each for each in found.metrics if each.name == "auc_roc")
    assert roc.interval.undefined_reason == types_pb2.UNDEFINED_REASON_TOO_FEW_EFFECTIVE
    ranked = query_pb2.GetSnapshotRequest(selection=chosen, metrics=["precision_at"])
    assert "no figure is called" in failure(lambda: wire.query.GetSnapshot(ranked)).message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weights": [1, -1]}, "weight must be finite, from 0 to 2\\*\\*31, got -1.0 at index 1"),
        ({"weights": [1, float("nan")]}, "weight must be finite"),
        ({"weights": [1, float("inf")]}, "weight must be finite"),
        ({"weights": [1, 1e-3]}, "would change by more than a thousandth"),
        ({"weights": [1, 2, 3]}, "weights must have one row for each"),
        ({"label_probabilities": [0]}, "label probability must be above 0 and at most 1"),
        ({"label_probabilities": [0.5, 1.5]}, "label probability must be above 0"),
    ],
)
def test_bad_weights_are_refused_whole(wire: Wire, fresh: str, fields: dict, message: str) -> None:
    """One clear line, and nothing of the batch counts."""
    for rows in (
        {"cases": pb.Cases(scores=[0.5, 0.25], positives=[1, 0], **fields)},
        {"labels": pb.Labels(ids=["a", "b"], positives=[1, 0], **fields)},
    ):
        failed = failure(lambda rows=rows: send(wire, fresh, **rows))
        assert failed.code.name == "INVALID_ARGUMENT"
        assert re.search(message, failed.message), failed.message


def test_a_stream_whose_orphans_are_misses_takes_no_weights_of_labels(
    wire: Wire, fresh: str
) -> None:
    """A miss weighs 1."""
    settings = stream_pb2.StreamSettings(orphans=stream_pb2.ORPHAN_POLICY_MISS)
    stream = stream_pb2.Stream(name=fresh, settings=settings)
    wire.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=stream))
    labels = pb.Labels(ids=["a"], positives=[1], weights=[2])
    assert "a miss weighs 1" in failure(lambda: send(wire, fresh, labels=labels)).message


def test_more_weight_than_can_be_summed_is_refused(wire: Wire, fresh: str) -> None:
    """Sums stay exact: a stream that would weigh 2**46 refuses the batch."""
    heavy = pb.Cases(scores=[0.5], positives=[1], counts=[2**14], weights=[2.0**31])
    send(wire, fresh, cases=heavy)
    failed = failure(lambda: send(wire, fresh, cases=heavy))
    assert failed.code.name == "RESOURCE_EXHAUSTED"
    assert "with weights, the most are 2**38 - 1 and less than 2**46" in failed.message
