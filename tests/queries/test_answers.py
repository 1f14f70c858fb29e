"""Answers against a plain evaluator that was given the same events."""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import Evaluator
from streameval._time import window_cache
from streameval.statistics import Place
from streameval.v1 import query_pb2, types_pb2
from streameval_server._queries.convert import points_message
from streameval_server._queries.curves import curve, parse_curve_request, state
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot
from streameval_server._queries.selection import parse_selection

from .conftest import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SETTINGS,
    Event,
    View,
    answers_of,
    counted,
    invalid_field,
)

Reason = types_pb2.UndefinedReason

KNOWN_NAMES = Place.REQUEST.names() + Place.DECISION.names()
COMPUTED = {
    **{name: lambda ev, name=name: getattr(ev, name)() for name in Place.REQUEST.names()},
    "auc_roc_hull": lambda ev: ev.auc_roc(hull=True),
    "auc_pr_hull": lambda ev: ev.auc_pr(hull=True),
    "prevalence": lambda ev: ev.prevalence,
}

EVENTS = st.lists(
    st.builds(
        Event,
        st.booleans(),
        st.one_of(st.floats(0, 1), st.sampled_from([0.25, 0.5, 0.5001])),
        st.integers(0, 40 * 24 * 60).map(lambda age: NOW - age * MINUTE),
        st.sampled_from(["US", "DE"]),
    ),
    max_size=40,
)
WINDOWS = st.sampled_from(
    [
        {},
        {"last": Duration(seconds=3600)},
        {"last": Duration(seconds=86_400 * 3)},
        {"last_cases": 5},
        {"last": Duration(seconds=86_400 * 20), "mature_after": Duration(seconds=86_400)},
    ]
)
SEGMENTS = st.sampled_from([None, ("country", "US"), ("device", "ios"), ("country", "FR")])


def selection(window: dict, segment: tuple | None) -> types_pb2.Selection:
    message = types_pb2.Selection(stream="s", **window)
    if segment is not None:
        message.segment.key, message.segment.value = segment
    return message


def expected_of(view: View, found, segment: tuple | None) -> Evaluator:
    """Return the events of an answer in a new evaluator."""
    if not found.HasField("window"):
        mine = [event for event in view.events if event.is_in(segment)]
        return counted(mine, segment and view.info.settings)
    start = found.window.start_time.ToMicroseconds()
    end = found.window.end_time.ToMicroseconds()
    return counted(view.between(start, end, segment), view.info.settings)


@settings(max_examples=40)
@given(events=EVENTS, window=WINDOWS, segment=SEGMENTS)
def test_every_figure_is_that_of_the_events(events: list, window: dict, segment) -> None:
    """Counts, values, intervals and bounds, for any window and slice; never NaN."""
    view = View(events)
    request = query_pb2.GetSnapshotRequest(
        selection=selection(window, segment), metrics=Place.REQUEST.names(), level=0.9
    )
    found = snapshot(answers_of(view), parse_snapshot_request(request))
    assert (found.revision, found.stream) == (7, "s")
    assert found.HasField("segment") == (segment is not None)
    plain = expected_of(view, found, segment)
    assert found.num_positive_ref == plain.num_positive_ref
    assert found.num_negative_ref == plain.num_negative_ref
    assert (found.resolution or None) == plain.resolution
    assert [metric.name for metric in found.metrics] == list(Place.REQUEST.names())
    for metric in found.metrics:
        value = COMPUTED[metric.name](plain)
        assert metric.HasField("value") == (not math.isnan(value)), metric
        assert bool(metric.undefined_reason) == math.isnan(value)
        if math.isnan(value):
            continue
        assert metric.value == value
        if metric.name in {
            "auc_roc",
            "auc_pr",
            "average_precision",
            "prevalence",
            *Place.CALIBRATION.names(),
        }:
            interval = plain.interval(metric.name, level=0.9)
            assert metric.interval.level == 0.9
            assert metric.interval.HasField("lower") == (not math.isnan(interval.lower))
            if interval.reason is None:
                assert (metric.interval.lower, metric.interval.upper) == (
                    interval.lower,
                    interval.upper,
                )
            else:
                assert metric.interval.undefined_reason == Reason.UNDEFINED_REASON_TOO_FEW
        else:
            assert not metric.HasField("interval")
        if metric.HasField("bounds"):
            assert (metric.bounds.lower, metric.bounds.upper) == plain.bounds(metric.name)
            assert metric.bounds.lower <= value <= metric.bounds.upper
        else:
            assert plain.resolution is None or metric.name in {
                "prevalence",
                "auc_pr_minimum",
                "brier_score",
                "log_loss",
                "ks_statistic",
                *Place.CALIBRATION.names(),
            }
    if plain.num_positive_ref and plain.num_negative_ref:
        hull = plain.roc_hull()
        assert list(found.hull.fp) == hull.fp.tolist()
        assert list(found.hull.tp) == hull.tp.tolist()
        assert list(found.hull.thresholds) == hull.thresholds.tolist()
    else:
        assert not found.HasField("hull")


@settings(max_examples=40)
@given(events=EVENTS, window=WINDOWS, segment=SEGMENTS)
def test_states_and_curves_are_those_of_the_events(events: list, window: dict, segment) -> None:
    """A window's bytes are the merged evaluator's; its points are that evaluator's."""
    view = View(events)
    chosen = selection(window, segment)
    found = state(answers_of(view), parse_selection(chosen))
    (piece,) = found.pieces()
    plain = expected_of(view, piece, segment)
    assert Evaluator.from_bytes(piece.data) == plain
    assert (piece.revision, piece.total_bytes) == (7, len(piece.data))
    for kind, points in (
        (query_pb2.CURVE_KIND_OPERATING_POINTS, plain.operating_points()),
        (query_pb2.CURVE_KIND_HULL, plain.roc_hull()),
    ):
        request = query_pb2.GetCurveRequest(selection=chosen, kind=kind)
        answer = curve(answers_of(view), parse_curve_request(request))
        assert list(answer.curve.fp) == points.fp.tolist()
        assert list(answer.curve.tp) == points.tp.tolist()
        assert answer.num_positive_ref == plain.num_positive_ref
        assert answer.window == piece.window


def spread(size: int = 300) -> list[Event]:
    """Return cases of the last hour, some of each class in each minute."""
    return [
        Event(i % 3 == 0, ((i * 37) % 101) / 101 + (i % 3 == 0) * 0.3, NOW - (i % 60) * MINUTE)
        for i in range(size)
    ]


def of_half_life(seconds: int) -> types_pb2.Selection:
    return types_pb2.Selection(stream="s", half_life=Duration(seconds=seconds))


def test_half_life_weights_panes_and_counts_whole_cases() -> None:
    """Metrics are weighted, counts are not; the interval is wider than that of weighted counts."""
    view = View(spread())
    request = query_pb2.GetSnapshotRequest(selection=of_half_life(600), metrics=["auc_pr"])
    found = snapshot(answers_of(view), parse_snapshot_request(request))
    assert (found.num_positive_ref, found.num_negative_ref) == (100, 200)
    weighted = Evaluator(resolution=12, max_cells=16_384)
    end = found.window.end_time.ToMicroseconds()
    for pane in view.whole.panes:
        weight = round(2**16 * 2 ** (-(end - pane.end_us) / (600 * 10**6)))
        points = pane.evaluator.operating_points()
        for label, column in ((True, points.tp), (False, points.fp)):
            weighted.add_cases(
                labels=[label] * (len(column) - 1),
                scores=points.thresholds[1:],
                counts=np.diff(column) * weight,
            )
    (metric,) = found.metrics
    assert metric.value == weighted.auc_pr()
    naive = weighted.interval("auc_pr")
    assert metric.interval.upper - metric.interval.lower > 3 * naive.width
    assert (
        Evaluator.from_bytes(
            next(state(answers_of(view), parse_selection(of_half_life(600))).pieces()).data
        )
        == weighted
    )


@pytest.mark.parametrize(
    ("fields", "at", "text"),
    [
        (
            {"metrics": ["auc_pr", "accuracy"]},
            "metrics[1]",
            f"no figure is called 'accuracy': choose from {', '.join(KNOWN_NAMES)}",
        ),
        ({"level": 1.0}, "level", "level must be between 0 and 1, got 1"),
        ({"level": -0.5}, "level", "level must be between 0 and 1, got -0.5"),
        ({"level": math.nan}, "level", "level must be between 0 and 1, got nan"),
        (
            {
                "anytime": True,
                "selection": types_pb2.Selection(stream="s", last=Duration(seconds=9)),
            },
            "anytime",
            (
                "anytime intervals hold only for counts since the stream was created: ask for all "
                "time, without a window"
            ),
        ),
    ],
    ids=["metric", "one", "negative", "nan", "anytime"],
)
def test_bad_requests_for_figures(fields: dict, at: str, text: str) -> None:
    """Each is refused with the field at fault."""
    fields.setdefault("selection", types_pb2.Selection(stream="s"))
    for request in (query_pb2.GetSnapshotRequest, query_pb2.WatchSnapshotRequest):
        assert invalid_field(lambda of=request: parse_snapshot_request(of(**fields))) == (at, text)


def test_anytime_intervals_are_wider_and_say_so() -> None:
    """There is one from 50 positives on; below that the reason is TOO_FEW."""
    for size, reason in ((300, Reason.UNDEFINED_REASON_UNSPECIFIED), (90, 4)):
        request = query_pb2.GetSnapshotRequest(
            selection=types_pb2.Selection(stream="s"), metrics=["auc_roc"], anytime=True
        )
        (metric,) = snapshot(
            answers_of(View(spread(size))), parse_snapshot_request(request)
        ).metrics
        assert metric.interval.anytime
        assert metric.interval.undefined_reason == reason


def test_scores_that_are_no_probabilities_have_no_brier_score() -> None:
    """The metric has a reason instead of a value; the others have values."""
    view = View([Event(True, 3.5, NOW), Event(False, 0.5, NOW)])
    request = query_pb2.GetSnapshotRequest(
        selection=types_pb2.Selection(stream="s"), metrics=["brier_score", "log_loss", "auc_roc"]
    )
    brier, loss, auc = snapshot(answers_of(view), parse_snapshot_request(request)).metrics
    for metric in (brier, loss):
        assert not metric.HasField("value")
        assert metric.undefined_reason == Reason.UNDEFINED_REASON_NOT_PROBABILITIES
    assert auc.value == 1.0


def snapshot_of(answers, **fields) -> types_pb2.Snapshot:
    request = query_pb2.GetSnapshotRequest(
        selection=types_pb2.Selection(stream="s", last=Duration(seconds=3600)), **fields
    )
    return snapshot(answers, parse_snapshot_request(request))


def test_answers_are_kept_until_a_pane_is_another(monkeypatch) -> None:
    """Nothing is computed twice; a new revision alone changes only the revision."""
    view = View(spread())
    views = {"s": view}
    answers = answers_of(view)
    answers._view = views.__getitem__
    computed = []
    original = window_cache.merge_states
    monkeypatch.setattr(
        window_cache,
        "merge_states",
        lambda states, **options: computed.append(1) or original(states, **options),
    )
    first = snapshot_of(answers)
    view.revision = 8
    second = snapshot_of(answers)
    assert (first.revision, second.revision, computed) == (7, 8, [1])
    second.revision = 7
    assert first == second
    third = snapshot_of(answers, metrics=["auc_pr_normalized"])  # the same window
    assert (len(third.metrics), computed) == (1, [1])
    views["s"] = View([*view.events, Event(True, 0.9, NOW)])
    assert snapshot_of(answers).num_positive_ref == first.num_positive_ref + 1
    assert computed == [1, 1]


def test_answers_hold_no_panes() -> None:
    """Cached answers do not keep their panes in memory."""
    view = View(spread())
    views = {"s": view}
    answers = QueryEngine(views.__getitem__, lambda: NOW)
    snapshot_of(answers)
    panes = [weakref.ref(pane.evaluator._view()) for pane in view.whole.panes]
    del views["s"], view
    gc.collect()
    assert not any(pane() for pane in panes)


def test_answers_of_empty_windows_go_with_their_stream(monkeypatch) -> None:
    """They are cached like others, and dropped with their stream."""
    views: dict[str, View] = {}
    answers = QueryEngine(views.__getitem__, lambda: NOW)
    computed = []
    original = QueryEngine._compute
    monkeypatch.setattr(
        QueryEngine,
        "_compute",
        lambda self, *asked, **how: computed.append(1) or original(self, *asked, **how),
    )
    for revision in range(1, 200):
        views["s"] = View([])
        views["s"].info.create_revision = revision
        for _ in range(2):
            snapshot_of(answers)
        assert len(computed) == revision
        assert 1 <= len(answers._answers) <= 5


def test_a_stream_made_again_is_another(monkeypatch) -> None:
    """Its windows are empty as the old stream's were, but at another resolution."""
    before = View([], settings=type(SETTINGS)(resolution=12))
    after = View([], settings=type(SETTINGS)(resolution=10))
    after.info.create_revision = 5
    answers = answers_of(before)
    assert snapshot_of(answers).resolution == 12
    monkeypatch.setattr(answers, "_view", {"s": after}.__getitem__)
    assert snapshot_of(answers).resolution == 10


def test_warnings() -> None:
    """Each warning describes its cause in words."""
    settings = type(SETTINGS)(expired="negative", segment_keys=("country",))
    view = View(spread(), settings=settings)
    chosen = types_pb2.Selection(
        stream="s",
        last=Duration(seconds=60 * 86_400),
        segment=types_pb2.Segment(key="country", value="FR"),
    )
    request = query_pb2.GetSnapshotRequest(selection=chosen)
    expired, unseen, clipped = snapshot(answers_of(view), parse_snapshot_request(request)).warnings
    assert expired == (
        "predictions whose label did not come in time count as negatives: labels are not missing "
        "at random, so figures may be off by more than their intervals say"
    )
    assert unseen == "no case of country=FR has been seen"
    assert clipped == (
        "cases are kept for 30 d: what was asked for begins before 2024-09-04T00:00:00Z"
    )
    chosen = types_pb2.Selection(
        stream="s", last=Duration(seconds=60), mature_after=Duration(seconds=3600)
    )
    request = query_pb2.GetSnapshotRequest(selection=chosen)
    found = snapshot(answers_of(View(spread())), parse_snapshot_request(request))
    assert list(found.warnings) == ["mature_after leaves no pane of this window"]
    assert found.metrics[0].undefined_reason == Reason.UNDEFINED_REASON_EMPTY


def test_thinned_resolution_is_said() -> None:
    """Windows with more distinct scores than cells, and all-time counts that are not exact."""
    events = [
        Event(i % 2 == 0, math.sinh(8 * math.sin(i)), NOW - (i // 2 % 50) * MINUTE)
        for i in range(40_000)
    ]
    view = View(events)
    found = snapshot_of(answers_of(view))
    assert found.resolution < 12
    (warning,) = found.warnings
    assert warning == (
        f"scores are kept to {found.resolution} significant bits instead of 12, because they "
        "fell into too many cells: bounds say how much that hides"
    )
    exact = answers_of(view)
    request = query_pb2.GetSnapshotRequest(selection=types_pb2.Selection(stream="s"))
    assert not snapshot(exact, parse_snapshot_request(request)).warnings
    assert not snapshot(exact, parse_snapshot_request(request)).HasField("resolution")


def test_a_thinned_curve_depends_on_ratios_of_weights_only() -> None:
    """Sums of weights below 1 are divided by as those above are."""
    rng = np.random.default_rng(8)
    labels, scores = rng.random(2_000) < 0.3, rng.permutation(2_000) / 2_000
    kept = []
    for unit in (1.0, 2.0**-16):
        evaluator = Evaluator()
        weights = unit * np.where(labels, 1, 2)
        evaluator.add_cases(labels=labels, scores=scores, weights=weights)
        kept.append(list(points_message(evaluator, 200).thresholds))
    assert kept[0] == kept[1]
    assert len(kept[0]) < 300


def test_old_spans_name_what_is_kept() -> None:
    """A partly expired span begins at the oldest pane; a wholly expired one stays as requested."""
    view = View(spread())
    answers = answers_of(view)
    for start, end in ((NOW - 50 * DAY, NOW), (NOW - 50 * DAY, NOW - 45 * DAY)):
        chosen = types_pb2.Selection(stream="s")
        chosen.between.start_time.FromMicroseconds(start)
        chosen.between.end_time.FromMicroseconds(end)
        found = snapshot(
            answers, parse_snapshot_request(query_pb2.GetSnapshotRequest(selection=chosen))
        )
        begins = found.window.start_time.ToMicroseconds()
        assert begins == (view.grid.oldest_us if end == NOW else view.grid.start_of(start))
        assert any("cases are kept for 30 d" in each for each in found.warnings)


def test_points_are_reduced_to_what_was_asked_for() -> None:
    """Thinning keeps all vertices of the hull."""
    events = [
        Event(i % 3 == 0, ((i * 37) % 1009) / 1009 + (i % 3 == 0) * 0.3, NOW - HOUR)
        for i in range(1000)
    ]
    request = query_pb2.GetCurveRequest(
        selection=types_pb2.Selection(stream="s", last=Duration(seconds=7200)),
        kind=query_pb2.CURVE_KIND_OPERATING_POINTS,
        max_points=50,
    )
    found = curve(answers_of(View(events)), parse_curve_request(request))
    hull = counted(events, SETTINGS).roc_hull()
    kept = set(zip(found.curve.fp, found.curve.tp))
    assert len(kept) == max(50, len(hull.fp))
    assert kept >= set(zip(hull.fp.tolist(), hull.tp.tolist()))


def test_an_unknown_curve_is_refused() -> None:
    """The kind must be given."""
    request = query_pb2.GetCurveRequest(selection=types_pb2.Selection(stream="s"))
    assert invalid_field(lambda: parse_curve_request(request)) == (
        "kind",
        "kind must be CURVE_KIND_OPERATING_POINTS or CURVE_KIND_HULL, got 0",
    )
