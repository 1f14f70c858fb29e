"""Queries over gRPC against the sent rows, counted by a plain evaluator."""

from __future__ import annotations

import itertools
import math
import random
import time
from dataclasses import dataclass, replace

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from streameval import Evaluator, compare
from streameval.v1 import ingest_pb2, query_pb2, stream_pb2, types_pb2

from .conftest import Wire, failure, selection, send

Code = grpc.StatusCode
MINUTE, HOUR, DAY = 60, 3_600, 86_400


@dataclass(frozen=True)
class Sent:
    """One prediction and its label, if any."""

    id: str
    score: float
    at_us: int
    country: str
    device: str
    label: bool | None = None
    is_retracted: bool = False

    def is_in(self, segment: tuple[str, str] | None) -> bool:
        return segment is None or getattr(self, segment[0]) == segment[1]


def made(wire: Wire, name: str, **settings) -> None:
    """Make a stream with two segment keys."""
    settings.setdefault("segment_keys", ["country", "device"])
    settings.setdefault("label_ttl", Duration(seconds=25 * DAY))
    stream = stream_pb2.Stream(name=name, settings=stream_pb2.StreamSettings(**settings))
    wire.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=stream), timeout=20)


def column(key: str, values: list[str]) -> ingest_pb2.SegmentColumn:
    distinct = sorted(set(values))
    return ingest_pb2.SegmentColumn(
        key=key, values=distinct, codes=[distinct.index(value) for value in values]
    )


def predict(wire: Wire, name: str, rows: list[Sent]) -> None:
    predictions = ingest_pb2.Predictions(
        ids=[row.id for row in rows],
        scores=[row.score for row in rows],
        event_times_us=[row.at_us for row in rows],
        segments=[
            column("country", [row.country for row in rows]),
            column("device", [row.device for row in rows]),
        ],
    )
    send(wire, name, predictions=predictions)


def label(wire: Wire, name: str, labels: dict[str, bool]) -> int:
    rows = ingest_pb2.Labels(ids=list(labels), positives=list(labels.values()))
    return send(wire, name, labels=rows)


def filled(wire: Wire, name: str, size: int = 400, seed: int = 0) -> list[Sent]:
    """Send predictions of ten days; label, relabel and retract some; return the result."""
    made(wire, name)
    chance = random.Random(seed)
    now = time.time_ns() // 1000
    rows = [
        Sent(
            id=f"{name}-{i}",
            score=chance.choice([0.25, 0.5, round(chance.random(), 3)]),
            at_us=now - int(chance.choice([300, 4 * HOUR, 10 * DAY]) * chance.random() * 1e6),
            country=chance.choice(["US", "US", "DE"]),
            device=chance.choice(["ios", "android"]),
        )
        for i in range(size)
    ]
    early = {row.id: chance.random() < 0.4 for row in rows[: size // 10]}
    label(wire, name, early)
    predict(wire, name, rows)
    late = {row.id: chance.random() < row.score for row in rows if chance.random() < 0.7}
    late = {id_: value for id_, value in late.items() if id_ not in early}
    label(wire, name, late)
    changed = {id_: not value for id_, value in list(late.items())[::9]}
    label(wire, name, changed)
    gone = [row.id for row in rows[::13]]
    send(wire, name, retractions=ingest_pb2.Retractions(ids=gone))
    labels = {**early, **late, **changed}
    return [replace(row, label=labels.get(row.id), is_retracted=row.id in gone) for row in rows]


def counted(rows: list[Sent], resolution: int | None = 12) -> Evaluator:
    """Return the labelled predictions in a plain evaluator."""
    evaluator = Evaluator(resolution=resolution, max_cells=16_384 if resolution else 262_144)
    known = [row for row in rows if row.label is not None and not row.is_retracted]
    if known:
        evaluator.add_cases(
            labels=[row.label for row in known], scores=[row.score for row in known]
        )
    return evaluator


def of_range(rows: list[Sent], window: types_pb2.TimeRange) -> list[Sent]:
    start, end = window.start_time.ToMicroseconds(), window.end_time.ToMicroseconds()
    return [row for row in rows if start <= row.at_us < end]


def ago(first_s: float, last_s: float = 0) -> types_pb2.TimeRange:
    now = time.time_ns() // 1000
    message = types_pb2.TimeRange()
    message.start_time.FromMicroseconds(now - int(first_s * 1e6))
    message.end_time.FromMicroseconds(now - int(last_s * 1e6))
    return message


@pytest.fixture(scope="module")
def history(wire: Wire) -> tuple[str, list[Sent]]:
    """Return a stream with every kind of change to predictions, and the result."""
    return "queries/history", filled(wire, "queries/history")


WINDOWS = {
    "all time": {},
    "last": {"last": Duration(seconds=2 * HOUR)},
    "short": {"last": Duration(seconds=90)},
    "between": {"between": ago(6 * DAY, 2 * HOUR)},
    "last cases": {"last_cases": 50},
    "mature": {"last": Duration(seconds=9 * DAY), "mature_after": Duration(seconds=HOUR)},
}
SEGMENTS = [None, ("country", "DE"), ("device", "ios"), ("country", "FR")]


@pytest.mark.parametrize("window", list(WINDOWS))
@pytest.mark.parametrize("segment", SEGMENTS, ids=str)
def test_figures_and_coverage_of_any_selection(
    wire: Wire, history: tuple, window: str, segment: tuple | None
) -> None:
    """Values, intervals, bounds, counts and coverage are those of the rows in [start, end)."""
    name, rows = history
    chosen = selection(name, segment=segment, **WINDOWS[window])
    request = query_pb2.GetSnapshotRequest(
        selection=chosen, metrics=["auc_roc", "auc_pr", "prevalence", "brier_score"]
    )
    found = wire.query.GetSnapshot(request, timeout=20).snapshot
    assert found.HasField("window") == (window != "all time")
    mine = [row for row in rows if row.is_in(segment)]
    if found.HasField("window"):
        mine = of_range(mine, found.window)
    plain = counted(mine, None if window == "all time" and segment is None else 12)
    assert (found.num_positive_ref, found.num_negative_ref) == (
        plain.num_positive_ref,
        plain.num_negative_ref,
    )
    for metric, value in zip(
        found.metrics, (plain.auc_roc(), plain.auc_pr(), plain.prevalence, plain.brier_score())
    ):
        assert metric.HasField("value") == (not math.isnan(value))
        if metric.HasField("value"):
            assert metric.value == value
            if metric.HasField("interval") and metric.interval.HasField("lower"):
                assert metric.interval.lower == plain.interval(metric.name).lower
    coverage = found.coverage
    assert found.HasField("coverage") == bool(mine)
    if not mine:
        return
    there = [row for row in mine if not row.is_retracted]
    known = [row for row in there if row.label is not None]
    assert coverage.predictions == len(mine)
    assert coverage.labelled == len(known)
    assert coverage.retracted == len(mine) - len(there)
    assert coverage.pending == len(there) - len(known)
    assert (coverage.expired, coverage.orphans) == (0, 0)
    assert coverage.labelled_share == len(known) / len(there)
    assert sum(band.predictions for band in coverage.bands) == len(there)
    for band in coverage.bands:
        inside = [row for row in there if band.lower <= row.score < band.upper]
        assert band.predictions == len(inside)
        assert band.labelled == sum(row.label is not None for row in inside)
    assert [each.quantile for each in coverage.delays] == [0.5, 0.9, 0.99]


def test_states_and_curves_of_windows(wire: Wire, history: tuple) -> None:
    """Any metric can be computed from a window's state; its curve is that state's."""
    name, rows = history
    chosen = selection(name, segment=("country", "US"), last=Duration(seconds=3 * HOUR))
    pieces = list(wire.query.GetState(query_pb2.GetStateRequest(selection=chosen), timeout=20))
    evaluator = Evaluator.from_bytes(b"".join(piece.data for piece in pieces))
    mine = [row for row in of_range(rows, pieces[0].window) if row.country == "US"]
    assert evaluator == counted(mine)
    request = query_pb2.GetCurveRequest(
        selection=chosen, kind=query_pb2.CURVE_KIND_OPERATING_POINTS
    )
    found = wire.query.GetCurve(request, timeout=20)
    assert list(found.curve.tp) == evaluator.operating_points().tp.tolist()
    assert found.window == pieces[0].window
    assert found.coverage.predictions == len(mine)


def series(wire: Wire, name: str, span: types_pb2.TimeRange, step_s: int, **fields):
    """Yield all rows of a series, page by page."""
    request = query_pb2.ListWindowsRequest(
        selection=selection(name, between=span), step=Duration(seconds=step_s), **fields
    )
    while True:
        page = wire.query.ListWindows(request, timeout=20)
        yield from page.snapshots
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return


def test_a_series_is_its_windows(wire: Wire, history: tuple) -> None:
    """Each row counts the cases of its window, page by page, and the rows cover the span."""
    name, rows = history
    found = list(series(wire, name, ago(5 * DAY), 2 * HOUR, page_size=7))
    assert len(found) > 55
    for row, after in itertools.pairwise(found):
        assert row.window.end_time == after.window.start_time
    for row in found:
        plain = counted(of_range(rows, row.window))
        assert row.num_positive_ref == plain.num_positive_ref
        assert row.num_negative_ref == plain.num_negative_ref
        if row.metrics[0].HasField("value"):
            assert row.metrics[0].value == plain.auc_pr()
    every = counted([row for each in found for row in of_range(rows, each.window)])
    assert sum(row.num_positive_ref for row in found) == every.num_positive_ref


def test_many_streams_at_a_glance(wire: Wire, history: tuple, fresh: str) -> None:
    """Each stream's figures equal its snapshot's, and its series equals that of its windows."""
    name, rows = history
    made(wire, fresh)
    request = query_pb2.BatchGetSnapshotsRequest(
        streams=[fresh, "queries/unknown", name], last=Duration(seconds=5 * DAY), steps=24
    )
    found = wire.query.BatchGetSnapshots(request, timeout=20)
    assert list(found.missing) == ["queries/unknown"]
    empty, full = found.snapshots
    assert [empty.snapshot.stream, full.snapshot.stream] == [fresh, name]
    assert not empty.HasField("newest_pane")
    assert {each.undefined_reason for each in empty.series} == {types_pb2.UNDEFINED_REASON_EMPTY}

    single = wire.query.GetSnapshot(
        query_pb2.GetSnapshotRequest(selection=selection(name, between=full.snapshot.window)),
        timeout=20,
    ).snapshot
    assert single.HasField("hull")
    single.ClearField("hull")
    assert full.snapshot == single

    step_s = -(-(single.window.end_time.seconds - single.window.start_time.seconds) // 24)
    windows = [
        row.metrics[0] for row in series(wire, name, single.window, step_s, metrics=["auc_roc"])
    ]
    assert [each.value for each in full.series] == [each.value for each in windows]
    assert 12 < len(windows) <= 24
    newest = max(row.at_us for row in rows)
    assert full.newest_pane.start_time.ToMicroseconds() <= newest
    assert newest < full.newest_pane.end_time.ToMicroseconds()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"streams": ["a", *map(str, range(100))]}, "ask for at most 100 streams, got 101"),
        ({"streams": ["a", "b c"]}, "b c"),
        ({"last": Duration(seconds=-1)}, "last must be positive, got -1 s"),
        ({"last": Duration(seconds=60), "steps": 101}, "steps must be at most 100, got 101"),
        ({"steps": 10}, "all time does not: set last"),
        ({"metrics": ["auc"]}, "no figure is called 'auc'"),
    ],
)
def test_bad_overviews_are_refused(wire: Wire, fields: dict, message: str) -> None:
    """Each error names the invalid field."""
    request = query_pb2.BatchGetSnapshotsRequest(**fields)
    failed = failure(lambda: wire.query.BatchGetSnapshots(request, timeout=20))
    assert failed.code == Code.INVALID_ARGUMENT
    assert message in failed.message
    assert failed.fields[0][0].startswith(list(fields)[-1])


def test_comparisons_take_the_complement(wire: Wire, history: tuple) -> None:
    """A slice against the rest of its window, a window against the rest of all time."""
    name, rows = history
    window = {"last": Duration(seconds=5 * HOUR)}
    request = query_pb2.CompareStreamsRequest(
        a=selection(name, segment=("country", "DE"), **window), b=selection(name, **window)
    )
    found = wire.query.CompareStreams(request, timeout=20).comparison
    assert found.complement
    part = [row for row in of_range(rows, found.window_a) if row.country == "DE"]
    rest = [row for row in of_range(rows, found.window_b) if row.country != "DE"]
    expected = compare(counted(part), counted(rest), metric="auc_pr")
    assert found.difference.value == expected.difference
    assert found.p_value == pytest.approx(expected.p_value, rel=1e-6)
    assert found.coverage_a.predictions == len(part)
    request = query_pb2.CompareStreamsRequest(
        a=selection(name, **window), b=selection(name), metric="auc_roc"
    )
    found = wire.query.CompareStreams(request, timeout=20).comparison
    recent = of_range(rows, found.window_a)
    older = [row for row in rows if row not in recent]
    expected = compare(counted(recent), counted(older), metric="auc_roc")
    assert found.difference.value == expected.difference
    assert not found.HasField("window_b")


def test_slices_are_ranked(wire: Wire, history: tuple) -> None:
    """All values of all keys are compared with the rest."""
    name, rows = history
    request = query_pb2.RankSegmentsRequest(
        selection=selection(name, last=Duration(seconds=9 * DAY)), metric="auc_roc"
    )
    found = wire.query.RankSegments(request, timeout=20)
    names = [(each.segment.key, each.segment.value) for each in found.segments]
    assert sorted(names) == [
        ("country", "DE"),
        ("country", "US"),
        ("device", "android"),
        ("device", "ios"),
    ]
    inside = of_range(rows, found.window)
    for key, each in zip(names, found.segments):
        part = counted([row for row in inside if row.is_in(key)])
        rest = counted([row for row in inside if not row.is_in(key)])
        assert each.difference.value == part.auc_roc() - rest.auc_roc()
        assert each.num_positive_ref == part.num_positive_ref
    uppers = [each.difference.interval.upper for each in found.segments]
    assert uppers == sorted(uppers)


def test_a_label_three_weeks_late_restates_its_pane(wire: Wire, fresh: str) -> None:
    """The time series counts it in the prediction's pane, from the label's revision on."""
    made(wire, fresh)
    now = time.time_ns() // 1000
    then = now - 21 * DAY * 10**6
    rows = [
        Sent(f"{fresh}-{i}", score, at, "US", "ios")
        for i, (score, at) in enumerate(((0.9, then), (0.2, then), (0.7, now), (0.1, now)))
    ]
    predict(wire, fresh, rows)
    before = label(wire, fresh, {rows[0].id: True, rows[2].id: True, rows[3].id: False})
    span = ago(22 * DAY)
    first = list(series(wire, fresh, span, DAY))
    after = label(wire, fresh, {rows[1].id: False})
    second = list(series(wire, fresh, span, DAY))
    assert {row.revision for row in first} == {before}
    assert {row.revision for row in second} == {after}
    changed = []
    for old, new in zip(first, second):
        new.revision = old.revision
        # Labels that may take three weeks are a reason to warn in each answer.
        del old.warnings[:], new.warnings[:]
        if old != new:
            changed.append((old, new))
    ((old, new),) = changed
    assert of_range(rows, new.window) == rows[:2]
    assert (old.num_negative_ref, new.num_negative_ref) == (0, 1)
    assert (old.coverage.pending, new.coverage.pending) == (1, 0)
    assert not old.metrics[1].HasField("value")
    assert new.metrics[1].value == 1.0


def test_answers_warn(wire: Wire, fresh: str) -> None:
    """Expired predictions as negatives, and windows that are younger than their labels."""
    made(wire, fresh, expired=stream_pb2.EXPIRY_POLICY_NEGATIVE)
    now = time.time_ns() // 1000
    rows = [Sent(f"{fresh}-{i}", 0.5, now - 3 * HOUR * 10**6, "US", "ios") for i in range(20)]
    predict(wire, fresh, rows)
    label(wire, fresh, {row.id: True for row in rows})
    predict(wire, fresh, [Sent(f"{fresh}-new", 0.5, now, "US", "ios")])
    request = query_pb2.GetSnapshotRequest(selection=selection(fresh, last=Duration(seconds=HOUR)))
    expired, young = wire.query.GetSnapshot(request, timeout=20).snapshot.warnings
    assert expired.startswith("predictions whose label did not come in time count as negatives")
    assert young.startswith("most of this window is younger than ")
    request.selection.last.FromSeconds(9 * HOUR)
    assert len(wire.query.GetSnapshot(request, timeout=20).snapshot.warnings) == 1


def test_misses_have_their_pane(wire: Wire, fresh: str) -> None:
    """References that were never scored count in the pane of their time."""
    made(wire, fresh)
    then = time.time_ns() // 1000 - 2 * HOUR * 10**6
    misses = ingest_pb2.Misses(positives=3, negatives=2, event_time_us=then)
    send(wire, fresh, misses=misses)
    for hours, positives in ((1, 0), (3, 3)):
        request = query_pb2.GetSnapshotRequest(
            selection=selection(fresh, last=Duration(seconds=hours * HOUR))
        )
        found = wire.query.GetSnapshot(request, timeout=20).snapshot
        assert (found.num_misses, found.num_positive_ref) == (positives, positives)
        assert not found.HasField("coverage")


BAD = {
    "last": ({"last": Duration(seconds=-5)}, "last must be positive, got -5 s"),
    "half_life": ({"half_life": Duration()}, "half_life must be positive, got 0 s"),
    "last_cases": ({"last_cases": 0}, "last_cases must be positive, got 0"),
    "mature_after": (
        {"last": Duration(seconds=5), "mature_after": Duration(seconds=-1)},
        "mature_after must not be negative, got -1 s",
    ),
    "segment.key": (
        {"segment": ("region", "EU")},
        "stream queries/history has no segment key 'region': it declares country, device",
    ),
}


@pytest.mark.parametrize("field", list(BAD))
def test_bad_selections_are_refused_everywhere(wire: Wire, history: tuple, field: str) -> None:
    """INVALID_ARGUMENT with the field's path and the same text, from every query."""
    fields, text = BAD[field]
    chosen = selection(history[0], **fields)
    query = wire.query
    calls = [
        lambda: query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=chosen), timeout=20),
        lambda: query.GetCurve(
            query_pb2.GetCurveRequest(selection=chosen, kind=query_pb2.CURVE_KIND_HULL), timeout=20
        ),
        lambda: list(query.GetState(query_pb2.GetStateRequest(selection=chosen), timeout=20)),
        lambda: list(
            query.WatchSnapshot(query_pb2.WatchSnapshotRequest(selection=chosen), timeout=20)
        ),
        lambda: query.CompareStreams(
            query_pb2.CompareStreamsRequest(a=chosen, b=selection("other")), timeout=20
        ),
    ]
    for call, side in zip(calls, ["selection"] * 4 + ["a"]):
        failed = failure(call)
        assert (failed.code, failed.message) == (Code.INVALID_ARGUMENT, text)
        assert failed.fields == [(f"{side}.{field}", text)]
        assert failed.reason == "INVALID_FIELD"


def test_unknown_streams_are_not_found(wire: Wire) -> None:
    """Every query fails so, before it computes anything."""
    unknown = selection("queries/unknown", last=Duration(seconds=5))
    query = wire.query
    for call in (
        lambda: query.GetSnapshot(query_pb2.GetSnapshotRequest(selection=unknown), timeout=20),
        lambda: list(
            query.WatchSnapshot(query_pb2.WatchSnapshotRequest(selection=unknown), timeout=20)
        ),
        lambda: query.RankSegments(query_pb2.RankSegmentsRequest(selection=unknown), timeout=20),
        lambda: query.ListWindows(
            query_pb2.ListWindowsRequest(
                selection=selection("queries/unknown", between=ago(60)), step=Duration(seconds=60)
            ),
            timeout=20,
        ),
        lambda: query.CompareStreams(
            query_pb2.CompareStreamsRequest(a=unknown, b=unknown), timeout=20
        ),
    ):
        assert failure(call).code == Code.NOT_FOUND


def test_overlaps_end_with_failed_precondition(wire: Wire, history: tuple) -> None:
    """So does a total on the side where only its part may be."""
    name, _ = history
    request = query_pb2.CompareStreamsRequest(
        a=selection(name), b=selection(name, last=Duration(seconds=60))
    )
    failed = failure(lambda: wire.query.CompareStreams(request, timeout=20))
    assert (failed.code, failed.reason) == (Code.FAILED_PRECONDITION, "SELECTIONS_OVERLAP")
    assert failed.message.startswith("a contains b: swap them")


def test_keys_that_are_added_later_have_slices(wire: Wire, fresh: str) -> None:
    """Earlier rows have no value of the key."""
    made(wire, fresh, segment_keys=["country"])
    now = time.time_ns() // 1000
    rows = ingest_pb2.Cases(scores=[0.9, 0.1], positives=[True, False], event_times_us=[now])
    send(wire, fresh, cases=rows)
    settings = stream_pb2.StreamSettings(segment_keys=["country", "shop"])
    wire.streams.UpdateStream(
        stream_pb2.UpdateStreamRequest(
            stream=stream_pb2.Stream(name=fresh, settings=settings),
            update_mask=FieldMask(paths=["settings.segment_keys"]),
        ),
        timeout=20,
    )
    rows.segments.append(column("shop", ["a", "b"]))
    revision = wire.one(ingest_pb2.Batch(stream=fresh, cases=rows)).revision
    chosen = selection(
        fresh, segment=("shop", "a"), last=Duration(seconds=60), min_revision=revision
    )
    found = wire.query.GetSnapshot(
        query_pb2.GetSnapshotRequest(selection=chosen), timeout=20
    ).snapshot
    assert (found.num_positive_ref, found.num_negative_ref) == (1, 0)
