"""Comparisons: with the complement where one side contains the other; other overlaps refused."""

from __future__ import annotations

import itertools
import math

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import compare, holm
from streameval.statistics import Place
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import Code
from streameval_server._queries.comparison import comparison, parse_comparison_request
from streameval_server._queries.ranking import parse_ranking_request, ranking

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
    refused,
)

HOUR_AGO = types_pb2.Selection(stream="s", last=Duration(seconds=3600))


def selection(stream: str = "s", segment: str = "", **fields) -> types_pb2.Selection:
    message = types_pb2.Selection(stream=stream, **fields)
    if segment:
        message.segment.key, message.segment.value = segment.split("=")
    return message


def minutes(first: int, last: int) -> types_pb2.TimeRange:
    """Return the span between two ages in minutes."""
    message = types_pb2.TimeRange()
    message.start_time.FromMicroseconds(NOW - first * MINUTE)
    message.end_time.FromMicroseconds(NOW - last * MINUTE)
    return message


def many(size: int = 400) -> list[Event]:
    """Return cases of an hour, worse in DE and on android."""
    events = []
    for i in range(size):
        positive, is_german, is_android = i % 3 == 0, i % 5 == 0, i % 7 == 0
        noise = (i * 7919 % 1000) / 1000
        gain = 0.1 if is_german else 0.3 if is_android else 0.5
        events.append(
            Event(
                positive,
                noise + gain * positive,
                NOW - (i % 60) * MINUTE,
                "DE" if is_german else "US",
                "android" if is_android else "ios",
            )
        )
    return events


def compared(view: View, a, b, other: View | None = None, **fields):
    request = query_pb2.CompareStreamsRequest(a=a, b=b, **fields)
    views = (view, other) if other else (view,)
    return comparison(answers_of(*views), parse_comparison_request(request))


def check(found, a, b, metric: str, prevalence) -> None:
    """Compare an answer with the library's of two plain evaluators."""
    expected = compare(a, b, metric=metric, prevalence=prevalence)
    assert found.difference.value == pytest.approx(expected.difference, abs=1e-15)
    assert found.difference.interval.lower == pytest.approx(expected.lower, abs=1e-12)
    assert found.difference.interval.upper == pytest.approx(expected.upper, abs=1e-12)
    assert found.p_value == pytest.approx(expected.p_value, rel=1e-9)
    assert found.a.value == expected.a.estimate
    assert found.b.value == expected.b.estimate
    assert (found.a.interval.lower, found.b.interval.upper) == (
        expected.a.lower,
        expected.b.upper,
    )
    for side in (found.a, found.b):
        if side.HasField("bounds"):
            assert side.bounds.lower <= side.value <= side.bounds.upper


METRICS = pytest.mark.parametrize("metric", ["auc_pr", "average_precision", "auc_roc"])


@METRICS
def test_a_slice_is_compared_with_the_rest(metric: str) -> None:
    """The whole without the slice, in the window and for all time."""
    view = View(many())
    german = [event for event in view.events if event.country == "DE"]
    others = [event for event in view.events if event.country != "DE"]
    for window in ({"last": Duration(seconds=7200)}, {}):
        found = compared(
            view, selection(segment="country=DE", **window), selection(**window), metric=metric
        )
        assert found.complement
        assert found.HasField("prevalence") == (metric != "auc_roc")
        check(found, counted(german, SETTINGS), counted(others, SETTINGS), metric, "common")
        assert found.difference.value < 0
        assert found.HasField("window_a") == found.HasField("window_b") == bool(window)


@METRICS
def test_a_window_is_compared_with_the_rest_of_its_stream(metric: str) -> None:
    """Within a longer window, and within all time, at the resolution of panes."""
    view = View([*many(), *(event._replace(at_us=event.at_us - DAY) for event in many(300))])
    recent = [event for event in view.events if event.at_us > NOW - HOUR]
    earlier = [event for event in view.events if event.at_us <= NOW - HOUR]
    for b in (selection(last=Duration(seconds=86_400 * 5)), selection()):
        found = compared(view, HOUR_AGO, b, metric=metric, own_prevalence=True)
        assert found.complement
        assert not found.HasField("prevalence")
        check(found, counted(recent, SETTINGS), counted(earlier, SETTINGS), metric, "own")


def test_a_slice_of_a_window_within_all_time() -> None:
    """Both a narrower segment and a shorter time."""
    view = View([*many(), *(event._replace(at_us=event.at_us - DAY) for event in many(300))])
    part = [e for e in view.events if e.country == "DE" and e.at_us > NOW - HOUR]
    rest = [e for e in view.events if e not in part]
    a = selection(segment="country=DE", last=Duration(seconds=3600))
    found = compared(view, a, selection(), prevalence=0.1)
    assert (found.complement, found.prevalence) == (True, 0.1)
    check(found, counted(part, SETTINGS), counted(rest, SETTINGS), "auc_pr", 0.1)


def test_what_shares_nothing_is_compared_as_it_is() -> None:
    """Other streams, windows apart, other values of one key."""
    view, other = View(many()), View(many(200), stream="t", revision=5)
    found = compared(view, selection(), selection("t"), other)
    assert (found.complement, found.revision) == (False, 5)
    check(found, counted(view.events), counted(other.events), "auc_pr", "common")
    apart = compared(view, selection(between=minutes(20, 5)), selection(between=minutes(50, 30)))
    assert not apart.complement
    spans = [
        view.between(span.start_time.ToMicroseconds(), span.end_time.ToMicroseconds())
        for span in (apart.window_a, apart.window_b)
    ]
    check(apart, *(counted(events, SETTINGS) for events in spans), "auc_pr", "common")
    values = compared(view, selection(segment="country=DE"), selection(segment="country=US"))
    assert not values.complement
    sides = [[e for e in view.events if e.country == country] for country in ("DE", "US")]
    check(values, *(counted(side, SETTINGS) for side in sides), "auc_pr", "common")


def test_windows_with_one_half_life_are_complements() -> None:
    """The weighted rest of the weighted whole."""
    view = View(many())
    decayed = {"half_life": Duration(seconds=1200)}
    found = compared(view, selection(segment="country=DE", **decayed), selection(**decayed))
    assert found.complement
    others = View([event for event in view.events if event.country != "DE"])
    apart = compared(
        view,
        selection(segment="country=DE", **decayed),
        selection("t", **decayed),
        View(others.events, stream="t"),
    )
    assert found.difference.value == apart.difference.value
    assert found.difference.interval.lower == pytest.approx(apart.difference.interval.lower)


OVERLAPS = [
    (selection(), selection(), "a and b are the same cases"),
    (
        selection(half_life=Duration(seconds=60)),
        selection(half_life=Duration(seconds=90)),
        "a and b are the same cases, weighted differently",
    ),
    (
        selection(),
        HOUR_AGO,
        "a contains b: swap them, so that a is compared with the rest of b",
    ),
    (
        selection(segment="country=US"),
        selection(segment="device=ios"),
        (
            "slices of two keys may share cases: country=US and device=ios; compare two values "
            "of one key, or one with the whole"
        ),
    ),
    (
        selection(between=minutes(30, 10)),
        selection(between=minutes(20, 5)),
        (
            "a and b share some of their time: a is from 2024-10-04T11:30:00Z to "
            "2024-10-04T11:51:00Z, b is from 2024-10-04T11:40:00Z to 2024-10-04T11:56:00Z; choose "
            "windows apart, or one within the other"
        ),
    ),
    (
        selection(segment="country=US"),
        HOUR_AGO,
        (
            "a and b share cases, and neither contains the other: a is country=US of all time, b "
            "is the whole from 2024-10-04T11:00:00Z to 2024-10-04T12:01:00Z"
        ),
    ),
    (
        HOUR_AGO,
        selection(half_life=Duration(seconds=60)),
        "a and b share cases that they weight differently: give both the same half_life, or none",
    ),
]


@pytest.mark.parametrize(("a", "b", "text"), OVERLAPS, ids=itertools.count())
def test_overlaps_are_refused_by_name(a, b, text: str) -> None:
    """Sides that share cases are refused: they are not independent."""
    error = refused(lambda: compared(View(many(60)), a, b))
    assert (error.code, error.reason) == (Code.FAILED_PRECONDITION, "SELECTIONS_OVERLAP")
    assert error.message == text


@pytest.mark.parametrize(
    ("fields", "at", "text"),
    [
        (
            {"metric": "prevalence"},
            "metric",
            f"metric must be one of {', '.join(Place.RANKING.names())}, got 'prevalence'",
        ),
        (
            {"metric": "auc_roc", "prevalence": 0.5},
            "prevalence",
            "auc_roc does not depend on a prevalence",
        ),
        ({"prevalence": 1.5}, "prevalence", "prevalence must be between 0 and 1, got 1.5"),
        (
            {"prevalence": 0.5, "own_prevalence": True},
            "own_prevalence",
            "give a prevalence or own_prevalence, not both",
        ),
        ({"level": 2}, "level", "level must be between 0 and 1, got 2"),
        (
            {"a": selection(last_cases=0)},
            "a.last_cases",
            "last_cases must be positive, got 0",
        ),
    ],
    ids=["metric", "useless", "range", "both", "level", "a"],
)
def test_bad_requests(fields: dict, at: str, text: str) -> None:
    """Each is refused with the field at fault."""
    fields = {"a": HOUR_AGO, "b": selection(), **fields}
    request = query_pb2.CompareStreamsRequest(**fields)
    assert invalid_field(lambda: parse_comparison_request(request)) == (at, text)


def test_undefined_sides_have_reasons() -> None:
    """No value, no p-value, and why."""
    view = View([Event(False, 0.5, NOW, "DE"), *many(30)])
    found = compared(view, selection(segment="country=FR"), selection())
    assert found.a.undefined_reason == types_pb2.UNDEFINED_REASON_EMPTY
    assert found.difference.undefined_reason == types_pb2.UNDEFINED_REASON_EMPTY
    for side in (found.a, found.difference):
        assert side.interval.undefined_reason == types_pb2.UNDEFINED_REASON_EMPTY
        assert side.interval.level == 0.95
    assert not found.HasField("p_value")
    assert found.b.HasField("value")
    assert found.warnings[0] == "a: no case of country=FR has been seen"
    one_each = [Event(True, 0.5, NOW, "DE"), Event(False, 0.4, NOW, "DE")]
    few = View([*one_each, *(e._replace(country="US") for e in many(30))])
    found = compared(few, selection(segment="country=DE"), selection())
    assert found.difference.HasField("value")
    assert not found.difference.interval.HasField("lower")
    assert found.difference.interval.undefined_reason == types_pb2.UNDEFINED_REASON_TOO_FEW


def ranked(view: View, **fields):
    fields.setdefault("selection", HOUR_AGO)
    return ranking(answers_of(view), parse_ranking_request(query_pb2.RankSegmentsRequest(**fields)))


@METRICS
def test_slices_are_ranked_against_their_rests(metric: str) -> None:
    """The worst first, each with its difference from the rest; p-values by Holm over all."""
    view = View(many())
    found = ranked(view, metric=metric)
    recent = view.between(
        found.window.start_time.ToMicroseconds(), found.window.end_time.ToMicroseconds()
    )
    parts = {}
    for key, value in (
        ("country", "DE"),
        ("country", "US"),
        ("device", "android"),
        ("device", "ios"),
    ):
        rest = [event for event in recent if not event.is_in((key, value))]
        parts[key, value] = [event for event in recent if event.is_in((key, value))], rest
    counts = {name: [counted(each, SETTINGS) for each in sides] for name, sides in parts.items()}
    greatest = max(part.prevalence for part, _ in counts.values())
    at = "own" if metric == "auc_roc" else greatest
    expected = {
        name: compare(*sides, metric=metric, prevalence=at) for name, sides in counts.items()
    }
    assert (found.prevalence if found.HasField("prevalence") else "own") == at
    adjusted = dict(zip(expected, holm([each.p_value for each in expected.values()])))
    names = [(each.segment.key, each.segment.value) for each in found.segments]
    assert names == sorted(expected, key=lambda name: expected[name].upper)
    for name, each in zip(names, found.segments):
        assert each.difference.value == pytest.approx(expected[name].difference, abs=1e-15)
        assert each.value.value == expected[name].a.estimate
        assert each.p_value == pytest.approx(adjusted[name], rel=1e-9)
        part = [event for event in recent if event.is_in(name)]
        assert each.num_positive_ref == sum(event.positive for event in part)
        assert each.num_negative_ref == sum(not event.positive for event in part)
    assert names[0] == ("country", "DE")


def test_small_slices_are_left_out_and_not_adjusted_for() -> None:
    """With fewer positives or negatives than asked for; Holm's number is of those that remain."""
    view = View([*many(), Event(True, 0.1, NOW, "FR"), Event(False, 0.9, NOW, "FR")])
    every = ranked(view, key="country")
    found = ranked(view, key="country", min_references=2)
    sizes = [(each.num_positive_ref, each.num_negative_ref) for each in found.segments]
    assert {each.segment.value for each in every.segments} == {"DE", "US", "FR"}
    assert {each.segment.value for each in found.segments} == {"DE", "US"}
    assert min(map(min, sizes)) >= 2
    assert (every.num_left_out, found.num_left_out) == (0, 1)
    start_us, end_us = found.window.start_time, found.window.end_time
    recent = view.between(start_us.ToMicroseconds(), end_us.ToMicroseconds())
    alone = []
    for each in found.segments:
        part, rest = [], []
        for event in recent:
            is_in = event.is_in((each.segment.key, each.segment.value))
            (part if is_in else rest).append(event)
        sides = counted(part, SETTINGS), counted(rest, SETTINGS)
        alone.append(compare(*sides, prevalence=found.prevalence).p_value)
    adjusted = [each.p_value for each in found.segments]
    assert adjusted == pytest.approx(holm(alone).tolist(), rel=1e-9)
    assert found.prevalence < every.prevalence == 0.5  # of FR, which has one case of each class
    assert not ranked(view, metric="auc_roc").HasField("prevalence")


def test_ranking_takes_the_panes_of_the_whole() -> None:
    """The newest cases of the whole, not of each slice; slices without any are left out."""
    old = [Event(i % 2 == 0, i / 50, NOW - HOUR, "FR") for i in range(50)]
    found = ranked(View([*many(), *old]), selection=selection(last_cases=30), key="country")
    assert {each.segment.value for each in found.segments} == {"DE", "US"}
    assert sum(each.num_positive_ref + each.num_negative_ref for each in found.segments) >= 30


def test_slices_without_a_difference_come_last() -> None:
    """One class only, and too few for an interval."""
    one = [Event(True, 0.9, NOW, "FR")]
    found = ranked(View([*many(), *one]), key="country")
    assert [each.segment.value for each in found.segments] == ["DE", "US", "FR"]
    last = found.segments[-1]
    assert not last.HasField("p_value")
    assert last.difference.undefined_reason == types_pb2.UNDEFINED_REASON_NO_NEGATIVES
    assert found.prevalence < 0.5  # FR has no figure to rescale


def test_bad_rankings() -> None:
    """An unknown key by name, a segment, no keys at all."""
    view = View(many(20))
    assert invalid_field(lambda: ranked(view, key="region")) == (
        "key",
        "stream s has no segment key 'region': it declares country, device",
    )
    assert invalid_field(lambda: ranked(view, selection=selection(segment="country=US"))) == (
        "selection.segment",
        "slices are ranked within the whole: leave segment out",
    )
    without = View([], settings=type(SETTINGS)())
    assert invalid_field(lambda: ranked(without)) == ("key", "stream s declares no segment keys")


@settings(max_examples=30)
@given(
    events=st.lists(
        st.builds(
            Event,
            st.booleans(),
            st.floats(0, 1),
            st.integers(0, 200).map(lambda age: NOW - age * MINUTE),
            st.sampled_from(["US", "DE"]),
        ),
        max_size=60,
    ),
    hours=st.integers(1, 3),
)
def test_any_complement_is_the_other_events(events: list, hours: int) -> None:
    """Never NaN on the wire, and the numbers of the rest."""
    view = View(events)
    a = selection(segment="country=DE", last=Duration(seconds=3600))
    found = compared(view, a, selection(last=Duration(seconds=3600 * hours)))
    part = view.between(
        found.window_a.start_time.ToMicroseconds(),
        found.window_a.end_time.ToMicroseconds(),
        ("country", "DE"),
    )
    whole = view.between(
        found.window_b.start_time.ToMicroseconds(), found.window_b.end_time.ToMicroseconds()
    )
    rest = [event for event in whole if event not in part]
    expected = compare(counted(part, SETTINGS), counted(rest, SETTINGS), metric="auc_pr")
    assert found.difference.HasField("value") == (not math.isnan(expected.difference))
    assert found.HasField("p_value") == (not math.isnan(expected.p_value))
    if found.HasField("p_value"):
        assert found.p_value == pytest.approx(expected.p_value, rel=1e-6)
