"""GetReliability, against counting in exact fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from google.protobuf.duration_pb2 import Duration

from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import Code
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._queries.reliability import parse_reliability_request, reliability

from .conftest import HOUR, NOW, Event, View, answers_of, counted, invalid_field, refused
from .test_comparison import selection
from .test_operating_point import limit_errors, share_limits

SCALE = StreamSettings(segment_keys=("country", "device"), scale="probability", resolution=53)


def made(seed: int, size: int = 300) -> list[Event]:
    """Return cases with scores in sixteenths, which are exact, two hours of them."""
    rng = random.Random(seed)
    scores = [rng.randrange(17) / 16 for _ in range(size)]
    return [
        Event(rng.random() < 0.8 * score, score, NOW - rng.randrange(2) * HOUR) for score in scores
    ]


def asked(view: View, **fields) -> query_pb2.GetReliabilityResponse:
    fields.setdefault("selection", selection())
    request = query_pb2.GetReliabilityRequest(**fields)
    return reliability(answers_of(view), parse_reliability_request(request))


def bins_of(events: list[Event], bins: int) -> dict[int, list[Event]]:
    """Return the events of each bin: scores above its lower edge, 0 in the first."""
    found: dict[int, list[Event]] = {}
    for event in events:
        place = max(math.ceil(Fraction(event.score) * bins) - 1, 0)
        found.setdefault(place, []).append(event)
    return dict(sorted(found.items()))


@pytest.mark.parametrize("bins", [0, 1, 8, 16])
def test_the_table_is_that_of_counting(bins: int) -> None:
    """Counts, means, rates and limits of each bin; totals of all."""
    events = made(3)
    found = asked(View(events, settings=SCALE), bins=bins, level=0.95)
    expected = bins_of(events, bins or 10)
    assert len(found.bins) == len(expected)
    for each, (place, held) in zip(found.bins, expected.items()):
        positives = sum(event.positive for event in held)
        assert (each.cases, each.positives) == (len(held), positives)
        assert each.lower == pytest.approx(place / (bins or 10))
        assert each.upper == pytest.approx((place + 1) / (bins or 10))
        mean = sum(Fraction(event.score) for event in held) / len(held)
        assert each.mean_score == pytest.approx(float(mean), rel=1e-14)
        assert each.observed_rate == pytest.approx(positives / len(held), rel=1e-15)
        for limit, expected, error in zip(
            (each.interval.lower, each.interval.upper),
            share_limits(positives, len(held)),
            limit_errors(positives, len(held)),
            strict=True,
        ):
            assert limit == pytest.approx(expected, abs=error)
    assert found.expected_positives == pytest.approx(sum(event.score for event in events))
    assert found.observed_positives == sum(event.positive for event in events)


def test_the_metrics_are_those_of_the_definition() -> None:
    """Of ten bins, whatever the bins of the table; ratio and Brier score."""
    events = made(5)
    found = asked(View(events, settings=SCALE), bins=3)
    error, ratio, brier = found.metrics
    gaps = [
        abs(sum(Fraction(event.score) - event.positive for event in held))
        for held in bins_of(events, 10).values()
    ]
    assert error.value == pytest.approx(float(sum(gaps) / len(events)), rel=1e-12)
    assert 0 <= error.interval.lower < error.value < error.interval.upper <= 1
    expected = sum(Fraction(event.score) for event in events)
    observed = sum(event.positive for event in events)
    assert ratio.value == pytest.approx(float(observed / expected), rel=1e-14)
    mean = float(expected) / len(events)
    limits = [limit / mean for limit in share_limits(observed, len(events))]
    assert [ratio.interval.lower, ratio.interval.upper] == pytest.approx(limits, rel=1e-10)
    squares = sum((Fraction(event.score) - event.positive) ** 2 for event in events)
    assert brier.value == pytest.approx(float(squares / len(events)), rel=1e-12)
    assert [each.name for each in found.metrics] == [
        *("calibration_error", "observed_expected_ratio", "brier_score")
    ]


def test_bins_of_equal_counts_and_windows() -> None:
    """The library's bins, of the last hour's cases."""
    view = View(made(9), settings=SCALE)
    chosen = selection(last=Duration(seconds=1800))
    found = asked(view, selection=chosen, bins=5, strategy=query_pb2.RELIABILITY_BINS_MASS)
    recent = [event for event in view.events if event.at_us == NOW]
    table = counted(recent).reliability(5, strategy="mass")
    assert [each.cases for each in found.bins] == table.counts.tolist()
    assert [each.upper for each in found.bins] == table.upper.tolist()
    assert found.window.end_time.ToMicroseconds() > NOW


def test_without_cases_there_is_nothing() -> None:
    """No bins, and metrics with their reason."""
    found = asked(View([], settings=SCALE))
    assert not found.bins
    assert (found.expected_positives, found.observed_positives) == (0, 0)
    for metric in found.metrics:
        assert metric.undefined_reason == types_pb2.UNDEFINED_REASON_EMPTY


def test_refusals() -> None:
    """Scores that are no probabilities, and fields out of range."""
    error = refused(lambda: asked(View([Event(True, 1.5, NOW)])))
    assert (error.code, error.reason) == (Code.FAILED_PRECONDITION, "NOT_PROBABILITIES")
    assert error.message == (
        "scores of stream s are no probabilities: score must be between 0 and 1 to be read as a "
        "probability, got 1.5"
    )
    view = View(made(1))
    for fields, field, text in (
        ({"bins": 101}, "bins", "bins must be at most 100, got 101"),
        ({"strategy": 7}, "strategy", "strategy has the unknown value 7"),
        ({"level": 1.5}, "level", "level must be between 0 and 1, got 1.5"),
    ):
        assert invalid_field(lambda fields=fields: asked(view, **fields)) == (field, text)
