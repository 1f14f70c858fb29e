"""Histograms compared with counting each case, for any bins."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.v1 import query_pb2, types_pb2
from streameval_server._queries.histogram import histogram, parse_histogram_request

from .conftest import HOUR, MINUTE, NOW, Event, View, answers_of, invalid_field, lazy


def asked(**fields):
    """Return a checked request for the stream s."""
    fields.setdefault("selection", types_pb2.Selection(stream="s"))
    return parse_histogram_request(query_pb2.GetHistogramRequest(**fields))


def of(view: View, **fields) -> query_pb2.GetHistogramResponse:
    """Return the answer about a view."""
    return histogram(answers_of(view), asked(**fields))


def check(answer, events) -> None:
    """Compare an answer with its events, one by one."""
    edges = list(answer.edges)
    assert edges == sorted(edges)
    for positive, counts, below, above in (
        (True, answer.positives, answer.positives_below, answer.positives_above),
        (False, answer.negatives, answer.negatives_below, answer.negatives_above),
    ):
        scores = [event.score for event in events if event.positive == positive]
        assert below == sum(score < edges[0] for score in scores)
        assert above == sum(score > edges[-1] for score in scores)
        assert below + above + sum(counts) == len(scores)
        for left, right, count in list(zip(edges, edges[1:], counts, strict=False))[:-1]:
            assert count == sum(left <= score < right for score in scores)
        assert counts[-1] == sum(edges[-2] <= score <= edges[-1] for score in scores)


SCORES = st.floats(allow_nan=False, allow_infinity=False)
EVENTS = st.lists(st.builds(Event, st.booleans(), SCORES, st.just(NOW)), min_size=1, max_size=30)


@given(EVENTS, st.integers(1, 60))
def test_every_case_is_in_its_bin(events: list[Event], bins: int) -> None:
    """All finite scores, denormals and the largest among them; bins end where scores do."""
    answer = of(View(events), bins=bins)
    assert len(answer.edges) == bins + 1
    scores = [event.score for event in events]
    if len(set(scores)) > 1:
        assert (answer.edges[0], answer.edges[-1]) == (min(scores), max(scores))
    else:
        assert answer.edges[0] <= scores[0] <= answer.edges[-1]
        assert answer.edges[0] < answer.edges[-1]
    check(answer, events)


@given(EVENTS, SCORES, SCORES)
def test_limits_that_are_given(events: list[Event], one: float, other: float) -> None:
    """Cases beyond the limits are counted apart; a limit may lie beyond all scores."""
    lower, upper = sorted((one, other))
    if lower < upper:
        answer = of(View(events), bins=7, lower=lower, upper=upper)
        assert (answer.edges[0], answer.edges[-1]) == (lower, upper)
        check(answer, events)
    check(of(View(events), bins=7, lower=one), events)
    check(of(View(events), bins=7, upper=one), events)


def test_windows_slices_and_misses() -> None:
    """Counts the selection and its misses, in 40 bins by default."""
    rng = random.Random(3)
    events = [
        Event(rng.random() < 0.3, rng.random(), NOW - rng.randrange(3 * HOUR), rng.choice("AB"))
        for _ in range(300)
    ]
    view = View(events)
    counts = view.whole.all_time
    counts.add_misses(3)
    counts.add_negative_misses(4)
    view._slices[None] = replace(view.whole, counts=lazy(counts))
    answer = of(view)
    assert (len(answer.positives), answer.num_misses, answer.num_negative_misses) == (40, 3, 4)
    assert not answer.HasField("resolution")
    check(answer, events)
    window = types_pb2.Selection(stream="s", segment=types_pb2.Segment(key="country", value="A"))
    window.last.FromSeconds(3600)
    part = of(view, selection=window, bins=10)
    start_us = part.window.start_time.ToMicroseconds()
    within = view.between(start_us, NOW + MINUTE, ("country", "A"))
    assert 0 < len(within) < 150
    assert sum(part.positives) + sum(part.negatives) == len(within)
    assert part.resolution == 12


def test_nothing_has_no_bins() -> None:
    """Without cases there are no edges, unless the request gives both limits."""
    answer = of(View([]))
    assert not answer.edges
    assert not answer.positives
    given_both = of(View([]), lower=0.0, upper=1.0, bins=4)
    assert list(given_both.edges) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert list(given_both.positives) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"bins": 501}, ("bins", "bins must be at most 500, got 501")),
        ({"lower": math.inf}, ("lower", "lower must be finite, got inf")),
        ({"upper": math.nan}, ("upper", "upper must be finite, got nan")),
        (
            {"lower": 1.0, "upper": 1.0},
            ("upper", "upper must be above lower, got 1 and 1"),
        ),
    ],
)
def test_refusals(fields, expected) -> None:
    """The error names the field."""
    assert invalid_field(lambda: asked(**fields)) == expected
