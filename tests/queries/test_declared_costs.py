"""The expected cost at a declared threshold and costs, against counting and the library."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from google.protobuf.duration_pb2 import Duration

from streameval import compare
from streameval.statistics import Place
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import Code
from streameval_server._queries.comparison import comparison, parse_comparison_request
from streameval_server._queries.decision import decision, parse_decision_request
from streameval_server._queries.overview import overview, parse_overview_request
from streameval_server._queries.ranking import parse_ranking_request, ranking
from streameval_server._queries.series import parse_series_request, series

from .conftest import MINUTE, NOW, SETTINGS, Event, View, answers_of, counted, refused
from .test_comparison import many, minutes, selection
from .test_operating_point import asked, tried

Reason = types_pb2.UndefinedReason
AT = replace(SETTINGS, threshold=0.6)
PRICED = replace(AT, cost_fp=2.0, cost_fn=7.5)
LAST_HOUR = Duration(seconds=3600)
NAME = "expected_cost"
POINT_NAMES = Place.POINT.names(["threshold"])
RATE_NAMES = Place.DECISION.names(["threshold"])


def mean_cost(events, threshold: float, cost_fp: float = 2.0, cost_fn: float = 7.5) -> float:
    """Return what a case costs, case by case in exact fractions."""
    each = [
        Fraction(cost_fp if event.score >= threshold else cost_fn)
        for event in events
        if (event.score >= threshold) is not event.positive
    ]
    return float(sum(each, Fraction(0)) / len(events))


def check(metric: types_pb2.Metric, events, threshold: float, **costs: float) -> None:
    """Compare the value with counting, and the interval with the library's of the same cases."""
    assert metric.name == NAME
    assert metric.value == mean_cost(events, threshold, **costs)
    given = {"cost_fp": 2.0, "cost_fn": 7.5, **costs}
    expected = counted(events).interval(NAME, threshold=threshold, **given)
    assert (metric.interval.lower, metric.interval.upper) == pytest.approx(
        tuple(expected), rel=1e-12
    )


def test_a_stream_that_declares_costs_has_them_in_every_snapshot() -> None:
    """Unasked after its rates, by name, in a window, and with the costs beside the counts."""
    events = many()
    view = View(events, settings=PRICED)
    found = asked(view)
    assert [each.name for each in found.metrics] == [*Place.SNAPSHOT.names(), *POINT_NAMES, NAME]
    check(found.metrics[-1], events, 0.6)
    point = found.operating_point
    assert (point.tp, point.fp, point.fn, point.tn) == tried(events, 0.6)
    assert (point.cost_fp, point.cost_fn) == (2.0, 7.5)
    (named,) = asked(view, metrics=[NAME]).metrics
    assert named == found.metrics[-1]
    window = asked(view, selection=selection(last=LAST_HOUR))
    span = window.window.start_time.ToMicroseconds(), window.window.end_time.ToMicroseconds()
    edge = window.operating_point.lowest_score
    assert window.metrics[-1].value == mean_cost(view.between(*span), edge)
    anytime = asked(view, metrics=[NAME], anytime=True).metrics[0].interval
    assert anytime.anytime
    decayed = asked(
        view, selection=selection(half_life=Duration(seconds=3600)), metrics=[NAME]
    ).metrics[0]
    assert decayed.interval.lower < decayed.value < decayed.interval.upper


def test_without_costs_there_is_a_reason() -> None:
    """None are shown unasked; named, it says what is missing."""
    found = asked(View(many(), settings=AT))
    assert [each.name for each in found.metrics] == [*Place.SNAPSHOT.names(), *POINT_NAMES]
    assert not found.operating_point.HasField("cost_fp")
    (named,) = asked(View(many(), settings=AT), metrics=[NAME]).metrics
    assert named.undefined_reason == Reason.UNDEFINED_REASON_NO_COSTS
    (bare,) = asked(View(many()), metrics=[NAME]).metrics
    assert bare.undefined_reason == Reason.UNDEFINED_REASON_NO_THRESHOLD
    (empty,) = asked(View([], settings=PRICED), metrics=[NAME]).metrics
    assert empty.undefined_reason == Reason.UNDEFINED_REASON_EMPTY
    (one,) = asked(View([Event(True, 0.1, NOW)], settings=PRICED), metrics=[NAME]).metrics
    assert one.value == 7.5
    assert one.interval.undefined_reason == Reason.UNDEFINED_REASON_TOO_FEW


def test_series_and_overviews_have_it() -> None:
    """Each row's own cases; a request's threshold and costs replace the stream's."""
    events = many()
    view = View(events, settings=PRICED)
    rows = {"selection": selection(between=minutes(60, 0)), "step": Duration(seconds=1200)}
    request = query_pb2.ListWindowsRequest(**rows)
    plain = series(answers_of(view), parse_series_request(request)).snapshots
    request = query_pb2.ListWindowsRequest(
        **rows,
        metrics=[NAME],
        threshold=0.3,
        error_costs=query_pb2.Costs(false_positive=1, false_negative=0),
    )
    other = series(answers_of(view), parse_series_request(request)).snapshots
    checked = 0
    for row, tried_row in zip(plain, other, strict=True):
        here = view.between(
            row.window.start_time.ToMicroseconds(), row.window.end_time.ToMicroseconds()
        )
        if not here:
            continue
        assert [each.name for each in row.metrics][-1] == NAME
        edge = row.operating_point.lowest_score
        assert row.metrics[-1].value == mean_cost(here, edge)
        edge = tried_row.operating_point.lowest_score
        assert tried_row.metrics[0].value == mean_cost(here, edge, 1, 0)
        assert (tried_row.operating_point.cost_fp, tried_row.operating_point.cost_fn) == (1, 0)
        checked += 1
    assert checked >= 3
    request = query_pb2.BatchGetSnapshotsRequest(streams=["s", "t"], metrics=[NAME])
    both = overview(answers_of(view, View(many(), stream="t")), parse_overview_request(request))
    assert [each.snapshot.metrics[0].HasField("value") for each in both.snapshots] == [True, False]


def test_slices_are_ranked_by_their_cost() -> None:
    """The costliest first, each against its rest, as the library compares them."""
    events = many()
    view = View(events, settings=PRICED)
    request = query_pb2.RankSegmentsRequest(selection=selection(), key="country", metric=NAME)
    found = ranking(answers_of(view), parse_ranking_request(request))
    lowers = [each.difference.interval.lower for each in found.segments]
    assert lowers == sorted(lowers, reverse=True)
    for each in found.segments:
        sides = [
            counted([e for e in events if (e.country == each.segment.value) is inside])
            for inside in (True, False)
        ]
        expected = compare(*sides, metric=NAME, threshold=0.6, cost_fp=2.0, cost_fn=7.5)
        assert each.value.value == pytest.approx(expected.a.estimate, rel=1e-12)
        assert each.difference.value == pytest.approx(expected.difference, abs=1e-12)
        assert each.difference.interval.lower == pytest.approx(expected.lower, abs=1e-12)
        assert each.difference.interval.upper == pytest.approx(expected.upper, abs=1e-12)
    assert len(found.segments) >= 2


def test_streams_of_the_same_costs_are_compared() -> None:
    """Each at its own threshold; without costs, and at other ones, there is a refusal."""
    a = View(many(), settings=PRICED)
    b = View(many(300), stream="t", settings=replace(PRICED, threshold=0.4))
    request = query_pb2.CompareStreamsRequest(a=selection(), b=selection("t"), metric=NAME)
    found = comparison(answers_of(a, b), parse_comparison_request(request))
    expected = compare(
        counted(a.events),
        counted(b.events),
        metric=NAME,
        threshold=(0.6, 0.4),
        cost_fp=2.0,
        cost_fn=7.5,
    )
    assert (found.a.value, found.b.value) == (expected.a.estimate, expected.b.estimate)
    assert (found.difference.value, found.p_value) == (expected.difference, expected.p_value)
    for settings, reason, text in (
        (AT, "NO_COSTS", "stream t declares no costs, and expected_cost needs what errors cost: "),
        (
            replace(PRICED, cost_fn=8.0),
            "COSTS_DIFFER",
            "the streams declare different costs of a false positive and of a false negative (s 2 ",
        ),
    ):
        other = View(many(300), stream="t", settings=settings)
        error = refused(
            lambda other=other: comparison(answers_of(a, other), parse_comparison_request(request))
        )
        assert (error.code, error.reason) == (Code.FAILED_PRECONDITION, reason)
        assert error.message.startswith(text)
    ranked = query_pb2.RankSegmentsRequest(selection=selection("t"), metric=NAME)
    bare = answers_of(View([], stream="t", settings=AT))
    assert refused(lambda: ranking(bare, parse_ranking_request(ranked))).reason == "NO_COSTS"


def decided(view: View, **wanted) -> query_pb2.GetDecisionResponse:
    request = query_pb2.GetDecisionRequest(selection=selection(), **wanted)
    return decision(answers_of(view), parse_decision_request(request))


def test_a_decision_has_the_cost_at_its_costs() -> None:
    """Those of the request, of the condition, of the stream; else there is none."""
    events = many()
    view, bare = View(events, settings=PRICED), View(events)
    costs = query_pb2.Costs(false_positive=1, false_negative=20)
    declared = decided(view, threshold=0.45)
    assert [each.name for each in declared.metrics] == [*RATE_NAMES, NAME]
    check(declared.metrics[-1], events, 0.45)
    given = decided(view, threshold=0.45, error_costs=costs)
    check(given.metrics[-1], events, 0.45, cost_fp=1.0, cost_fn=20.0)
    chosen = decided(bare, costs=costs)
    assert chosen.metrics[-1].value == mean_cost(events, chosen.threshold, 1, 20)
    reason = chosen.metrics[-1].interval.undefined_reason
    assert reason == Reason.UNDEFINED_REASON_CHOSEN_ON_SAME_CASES
    # The cheapest of all thresholds, none of which costs less.
    assert chosen.metrics[-1].value == min(
        mean_cost(events, cut, 1, 20) for cut in {*(e.score for e in events), math.inf}
    )
    assert [each.name for each in decided(bare, threshold=0.45).metrics] == list(RATE_NAMES)


@pytest.mark.parametrize(
    ("costs", "field", "text"),
    [
        ((-1, 1), "error_costs.false_positive", "must be finite and 0 or more, got -1"),
        ((1, math.inf), "error_costs.false_negative", "must be finite and 0 or more, got inf"),
        ((math.nan, 1), "error_costs.false_positive", "must be finite and 0 or more, got nan"),
        ((0, 0), "error_costs.false_negative", "error_costs must not both be 0"),
    ],
)
def test_bad_costs_are_refused(costs: tuple[float, float], field: str, text: str) -> None:
    """With the field, by a decision and by a series."""
    message = query_pb2.Costs(false_positive=costs[0], false_negative=costs[1])
    error = refused(lambda: decided(View(many()), threshold=0.5, error_costs=message))
    assert (error.code, error.violations[0][0]) == (Code.INVALID_ARGUMENT, field)
    assert text in error.message
    request = query_pb2.ListWindowsRequest(
        selection=selection(between=minutes(60, 0)),
        step=Duration(seconds=MINUTE // 1_000_000),
        error_costs=message,
    )
    assert refused(lambda: parse_series_request(request)).violations == error.violations
