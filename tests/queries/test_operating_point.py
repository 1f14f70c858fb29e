"""Rates at a declared threshold, against counting, Wilson's formula and scipy's."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from google.protobuf.duration_pb2 import Duration
from scipy import stats

from streameval import Evaluator, compare
from streameval.statistics import Place
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import Code
from streameval_server._queries.comparison import comparison, parse_comparison_request
from streameval_server._queries.decision import decision, parse_decision_request
from streameval_server._queries.overview import overview, parse_overview_request
from streameval_server._queries.query_engine import parse_snapshot_request, snapshot
from streameval_server._queries.ranking import parse_ranking_request, ranking
from streameval_server._queries.series import parse_series_request, series

from .conftest import (
    HOUR,
    MINUTE,
    NOW,
    SETTINGS,
    Event,
    View,
    answers_of,
    counted,
    invalid_field,
    refused,
)
from .test_comparison import many, minutes, selection

Reason = types_pb2.UndefinedReason
POINT_NAMES = Place.POINT.names(["threshold"])
RATE_NAMES = Place.DECISION.names(["threshold"])
AT = replace(SETTINGS, threshold=0.6)
LAST_HOUR = Duration(seconds=3600)


def asked(view: View, **fields) -> types_pb2.Snapshot:
    fields.setdefault("selection", selection())
    request = query_pb2.GetSnapshotRequest(**fields)
    return snapshot(answers_of(view), parse_snapshot_request(request))


def tried(events, threshold: float) -> tuple[int, int, int, int]:
    """Return tp, fp, fn and tn."""
    called = [event.positive for event in events if event.score >= threshold]
    rest = [event.positive for event in events if event.score < threshold]
    return sum(called), len(called) - sum(called), sum(rest), len(rest) - sum(rest)


def share_limits(hits: int, cases: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return Wilson's limits, |p - t| = z sqrt(t (1 - t)/n), or scipy's exact one-sided ones.

    Each is the one further out.
    """
    a, b, c = cases + z * z, -(2 * hits + z * z), hits * hits / cases
    root = math.sqrt(b * b - 4 * a * c)
    least = stats.beta(hits, cases - hits + 1).ppf(0.05) if hits else 0.0
    greatest = stats.beta(hits + 1, cases - hits).ppf(0.95) if hits < cases else 1.0
    return min((-b - root) / (2 * a), least), max((-b + root) / (2 * a), greatest)


def limit_errors(hits: int, cases: int) -> tuple[float, float]:
    """Return how far each limit may be from `share_limits`: rounding, of Wilson's.

    An exact one is further out only of at most ten hits, or misses. Ours is Paulson's
    approximation of it, which is within 0.012 cases.
    """
    return tuple(0.012 / cases if few <= 10 else 1e-12 for few in (hits, cases - hits))


def shares(events, threshold: float) -> dict[str, tuple[int, int]]:
    """Return the hits and the cases of each rate's share."""
    tp, fp, fn, tn = tried(events, threshold)
    return {
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "fpr": (fp, fp + tn),
        "specificity": (tn, fp + tn),
        "f_measure": (tp, tp + fp + fn),
        "flagged_share": (tp + fp, tp + fp + fn + tn),
    }


def check(metrics, events, threshold: float) -> None:
    """Compare values and intervals with those of counting."""
    of = shares(events, threshold)
    for metric in metrics:
        hits, cases = of[metric.name]
        rate = (lambda j: 2 * j / (1 + j)) if metric.name == "f_measure" else float
        assert metric.value == pytest.approx(rate(hits / cases), rel=1e-14)
        limits = metric.interval.lower, metric.interval.upper
        for found, limit, error in zip(
            limits, share_limits(hits, cases), limit_errors(hits, cases), strict=True
        ):
            # The derivative of 2j/(1 + j) is at most 2.
            assert found == pytest.approx(rate(limit), abs=2 * error)


def test_a_stream_that_declares_a_threshold_has_its_rates() -> None:
    """Unasked after the figures of a snapshot, by name in any order, with the counts."""
    events = many()
    view = View(events, settings=AT)
    found = asked(view)
    assert [each.name for each in found.metrics] == [*Place.SNAPSHOT.names(), *POINT_NAMES]
    check(found.metrics[len(Place.SNAPSHOT.names()) :], events, 0.6)
    point = found.operating_point
    assert (point.threshold, point.lowest_score) == (0.6, 0.6)
    assert (point.tp, point.fp, point.fn, point.tn) == tried(events, 0.6)
    named = asked(view, metrics=reversed(RATE_NAMES))
    assert [each.name for each in named.metrics] == list(reversed(RATE_NAMES))
    check(named.metrics, events, 0.6)


def test_windows_call_the_whole_cell_of_the_threshold_positive() -> None:
    """Scores that equal it are in that cell, below it by rounding: they are called positive."""
    events = [Event(i % 3 == 0, round(0.05 * (i % 20), 2), NOW - i * 1_000) for i in range(200)]
    view = View(events, settings=AT)
    found = asked(view, selection=selection(last=LAST_HOUR), metrics=POINT_NAMES)
    assert found.resolution == 12
    assert 0.5998 < found.operating_point.lowest_score < 0.6
    assert found.operating_point.tp + found.operating_point.fp == sum(
        e.score >= 0.6 for e in events
    )
    check(found.metrics, events, 0.6)


def test_a_stream_without_a_threshold_says_so() -> None:
    """Named rates have a reason; nothing else changes."""
    found = asked(View(many()))
    assert [each.name for each in found.metrics] == list(Place.SNAPSHOT.names())
    assert not found.HasField("operating_point")
    for metric in asked(View(many()), metrics=RATE_NAMES).metrics:
        assert not metric.HasField("value")
        assert metric.undefined_reason == Reason.UNDEFINED_REASON_NO_THRESHOLD


def test_rates_without_cases_have_reasons() -> None:
    """Each by the class it needs; of nothing called positive the precision is 1, unlimited."""
    negatives = View([Event(False, 0.1, NOW)] * 3, settings=AT)
    found = {each.name: each for each in asked(negatives, metrics=RATE_NAMES).metrics}
    for name in ("recall", "f_measure"):
        assert found[name].undefined_reason == Reason.UNDEFINED_REASON_NO_POSITIVES
    assert found["precision"].value == 1.0
    assert found["precision"].interval.undefined_reason == Reason.UNDEFINED_REASON_TOO_FEW
    assert (found["fpr"].value, found["flagged_share"].value) == (0.0, 0.0)
    for metric in asked(View([], settings=AT), metrics=("recall", "flagged_share")).metrics:
        assert metric.undefined_reason == Reason.UNDEFINED_REASON_EMPTY


def test_answers_follow_a_changed_threshold() -> None:
    """A cached answer is that of its threshold."""
    events = many()
    view = View(events, settings=AT)
    engine = answers_of(view)
    request = parse_snapshot_request(query_pb2.GetSnapshotRequest(selection=selection()))
    assert snapshot(engine, request).operating_point.threshold == 0.6
    view.info.settings = replace(SETTINGS, threshold=0.3)
    found = snapshot(engine, request)
    assert found.operating_point.threshold == 0.3
    check(found.metrics[len(Place.SNAPSHOT.names()) :], events, 0.3)


@pytest.mark.parametrize("threshold", [0.3, 0.6, -math.inf, math.inf])
def test_a_series_at_another_threshold(threshold: float) -> None:
    """What would have happened: each step's rates and counts are those of the request's."""
    events = many()
    span = minutes(60, 0)
    for settings in (AT, SETTINGS):
        view = View(events, settings=settings)
        request = query_pb2.ListWindowsRequest(
            selection=selection(between=span), step=Duration(seconds=1200), threshold=threshold
        )
        rows = series(answers_of(view), parse_series_request(request)).snapshots
        assert sum(each.num_positive_ref + each.num_negative_ref for each in rows) > 100
        for row in rows:
            start, end = (
                each.ToMicroseconds() for each in (row.window.start_time, row.window.end_time)
            )
            inside = [event for event in events if start <= event.at_us < end]
            point = row.operating_point
            assert point.threshold == threshold
            assert (point.tp, point.fp, point.fn, point.tn) == tried(inside, threshold)
            named = [each for each in row.metrics if each.name in POINT_NAMES]
            assert [each.name for each in named] == list(POINT_NAMES)
            if all(cases for _, cases in shares(inside, threshold).values()):
                check(named, inside, threshold)


@pytest.mark.parametrize("threshold", [-math.inf, -0.5, 1.5, math.inf])
def test_a_threshold_beyond_the_scale_calls_none_or_all(threshold: float) -> None:
    """A point that flags no case is at +inf, also where scores are probabilities."""
    events = [event._replace(score=event.score / 2) for event in many()]
    view = View(events, settings=replace(SETTINGS, scale="probability"))
    request = query_pb2.ListWindowsRequest(
        selection=selection(between=minutes(60, 0)),
        step=Duration(seconds=3600),
        threshold=threshold,
    )
    rows = series(answers_of(view), parse_series_request(request)).snapshots
    found = [sum(getattr(row.operating_point, name) for row in rows) for name in ("tp", "fp")]
    assert tuple(found) == tried(events, threshold)[:2]


def test_a_series_at_no_number_is_refused() -> None:
    """NaN is no threshold."""
    request = query_pb2.ListWindowsRequest(
        selection=selection(between=minutes(60, 0)),
        step=Duration(seconds=1200),
        threshold=math.nan,
    )
    assert invalid_field(lambda: parse_series_request(request)) == (
        "threshold",
        "threshold must not be NaN, got nan",
    )


def test_series_and_overviews_have_the_rates() -> None:
    """By default, for each step and each stream; streams without a threshold have none."""
    view = View(many(), settings=AT)
    chosen = selection(between=minutes(60, 0))
    request = query_pb2.ListWindowsRequest(selection=chosen, step=Duration(seconds=600))
    rows = series(answers_of(view), parse_series_request(request)).snapshots
    checked = 0
    for row in rows:
        events = view.between(
            row.window.start_time.ToMicroseconds(), row.window.end_time.ToMicroseconds()
        )
        if all(cases for _, cases in shares(events, 0.6).values()):
            check([each for each in row.metrics if each.name in POINT_NAMES], events, 0.6)
            checked += 1
    assert checked >= 4
    other = View(many(), stream="t")
    request = query_pb2.BatchGetSnapshotsRequest(streams=["s", "t"], metrics=["precision"])
    answer = overview(answers_of(view, other), parse_overview_request(request))
    values = [each.snapshot.metrics[0].HasField("value") for each in answer.snapshots]
    assert values == [True, False]


def test_an_overview_of_all_metrics_has_a_series_of_the_first() -> None:
    """The rates that a declared threshold adds are no part of the series."""
    request = query_pb2.BatchGetSnapshotsRequest(
        streams=["s", "t"], last=Duration(seconds=3600), steps=3
    )
    views = View(many(), settings=AT), View(many(), stream="t")
    declared, other = overview(answers_of(*views), parse_overview_request(request)).snapshots
    assert {each.name for each in declared.snapshot.metrics} > set(POINT_NAMES)
    assert len(declared.series) >= 3
    assert declared.series == other.series


@pytest.mark.parametrize("metric", [name for name in RATE_NAMES if name in Place.RANKING.names()])
def test_slices_are_ranked_by_a_rate(metric: str) -> None:
    """The worst first; differences by Newcombe's method 10, from Wilson's limits."""
    view = View(many(), settings=AT)
    request = query_pb2.RankSegmentsRequest(selection=selection(last=LAST_HOUR), metric=metric)
    found = ranking(answers_of(view), parse_ranking_request(request))
    recent = view.between(
        found.window.start_time.ToMicroseconds(), found.window.end_time.ToMicroseconds()
    )
    lowest = Evaluator(resolution=12)
    lowest.add_case(True, 0.6)
    edge = lowest.operating_points().thresholds[1]
    rate = (lambda j: 2 * j / (1 + j)) if metric == "f_measure" else float
    for each in found.segments:
        key = (each.segment.key, each.segment.value)
        sides = [
            shares([event for event in recent if event.is_in(key) is inside], edge)[metric]
            for inside in (True, False)
        ]
        (a, (low_a, high_a)), (b, (low_b, high_b)) = (
            (rate(hits / cases), map(rate, share_limits(hits, cases))) for hits, cases in sides
        )
        assert each.value.value == pytest.approx(a, abs=1e-14)
        assert each.difference.value == pytest.approx(a - b, abs=1e-14)
        assert each.difference.interval.lower == pytest.approx(
            a - b - math.hypot(a - low_a, high_b - b), abs=1e-12
        )
        assert each.difference.interval.upper == pytest.approx(
            a - b + math.hypot(high_a - a, b - low_b), abs=1e-12
        )
    names = [(each.segment.key, each.segment.value) for each in found.segments]
    assert len(names) == 4
    limits = [each.difference.interval for each in found.segments]
    if metric == "fpr":
        assert [each.lower for each in limits] == sorted((e.lower for e in limits), reverse=True)
    else:
        assert [each.upper for each in limits] == sorted(each.upper for each in limits)


def test_streams_are_compared_each_at_its_own_threshold() -> None:
    """As the library compares them at two thresholds."""
    a = View(many(), settings=AT)
    b = View(many(300), stream="t", settings=replace(SETTINGS, threshold=0.4))
    request = query_pb2.CompareStreamsRequest(
        a=selection(), b=selection("t"), metric="precision", level=0.9
    )
    found = comparison(answers_of(a, b), parse_comparison_request(request))
    expected = compare(
        counted(a.events), counted(b.events), metric="precision", threshold=(0.6, 0.4), level=0.9
    )
    assert (found.a.value, found.b.value) == (expected.a.estimate, expected.b.estimate)
    assert found.difference.value == expected.difference
    assert found.p_value == expected.p_value
    assert not found.HasField("prevalence")


def test_rates_of_streams_without_a_threshold_are_refused() -> None:
    """In a ranking and in a comparison, on either side."""
    view, other = View(many(), settings=AT), View(many(), stream="t")
    for a, b in (("s", "t"), ("t", "s")):
        request = query_pb2.CompareStreamsRequest(a=selection(a), b=selection(b), metric="recall")
        error = refused(
            lambda request=request: comparison(
                answers_of(view, other), parse_comparison_request(request)
            )
        )
        assert (error.code, error.reason) == (Code.FAILED_PRECONDITION, "NO_THRESHOLD")
        assert error.message == (
            "stream t declares no threshold, and recall is a rate at one: set it with "
            "UpdateStream, or compare another figure"
        )
    request = query_pb2.RankSegmentsRequest(selection=selection("t"), metric="recall")
    error = refused(lambda: ranking(answers_of(other), parse_ranking_request(request)))
    assert error.reason == "NO_THRESHOLD"


def test_nothing_called_positive_has_no_precision_to_compare() -> None:
    """Both classes are there, so the reason is that too few cases count."""
    quiet = [Event(i % 2 == 0, 0.1, NOW - MINUTE, "FR") for i in range(20)]
    view = View([*many(), *quiet], settings=AT)
    request = query_pb2.RankSegmentsRequest(
        selection=selection(), key="country", metric="precision"
    )
    last = ranking(answers_of(view), parse_ranking_request(request)).segments[-1]
    assert last.segment.value == "FR"
    assert last.difference.undefined_reason == Reason.UNDEFINED_REASON_TOO_FEW
    assert last.value.undefined_reason == Reason.UNDEFINED_REASON_TOO_FEW


def decided(view: View, **wanted) -> query_pb2.GetDecisionResponse:
    request = query_pb2.GetDecisionRequest(selection=selection(), **wanted)
    return decision(answers_of(view), parse_decision_request(request))


def test_a_decision_has_intervals_at_a_given_threshold() -> None:
    """At a threshold that was chosen on these cases there are values, and the reason."""
    events = many()
    given = decided(View(events), threshold=0.45)
    assert [each.name for each in given.metrics] == list(RATE_NAMES)
    check(given.metrics, events, 0.45)
    wide = decided(View(events), threshold=0.45, level=0.99)
    for narrow, each in zip(given.metrics, wide.metrics):
        assert each.interval.level == 0.99
        assert each.interval.lower < narrow.interval.lower
    chosen = decided(View(events), recall=0.5)
    for each in chosen.metrics:
        assert each.HasField("value")
        assert not each.interval.HasField("lower")
        reason = each.interval.undefined_reason
        assert reason == Reason.UNDEFINED_REASON_CHOSEN_ON_SAME_CASES
    assert (
        refused(lambda: decided(View(events), threshold=0.5, level=2)).violations[0][0] == "level"
    )
    unreachable = decided(View([Event(True, 0.1, NOW), Event(False, 0.9, NOW)]), precision=0.9)
    assert not unreachable.metrics


def test_decayed_windows_weigh_the_counts() -> None:
    """Old cases count less in the operating point, and in the rates."""
    old = [Event(True, 0.9, NOW - 2 * HOUR)] * 40 + [Event(False, 0.9, NOW - 2 * HOUR)] * 60
    new = [Event(True, 0.9, NOW - MINUTE)] * 80 + [Event(False, 0.9, NOW - MINUTE)] * 20
    found = asked(
        View([*old, *new], settings=AT),
        selection=selection(half_life=Duration(seconds=600)),
        metrics=["precision"],
    )
    (precision,) = found.metrics
    assert 0.79 < precision.value < 0.8
    point = found.operating_point
    assert precision.value == pytest.approx(point.tp / (point.tp + point.fp))
    assert precision.interval.lower < precision.value < precision.interval.upper
