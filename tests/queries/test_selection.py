"""Selections: which are refused, with their messages, and which panes they cover."""

from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from streameval.v1 import types_pb2
from streameval_server._queries.resolved_selection import resolve
from streameval_server._queries.selection import parse_selection

from .conftest import DAY, HOUR, MINUTE, NOW, SETTINGS, Event, View, invalid_field


def seconds(value: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(value * 1e6))
    return duration


def time(us: int) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMicroseconds(us)
    return stamp


def between(start_us: int, end_us: int) -> types_pb2.TimeRange:
    return types_pb2.TimeRange(start_time=time(start_us), end_time=time(end_us))


@pytest.mark.parametrize(
    ("fields", "at", "text"),
    [
        ({"last": seconds(0)}, "last", "last must be positive, got 0 s"),
        ({"last": seconds(-90)}, "last", "last must be positive, got -90 s"),
        ({"half_life": seconds(0)}, "half_life", "half_life must be positive, got 0 s"),
        ({"last_cases": 0}, "last_cases", "last_cases must be positive, got 0"),
        (
            {"between": types_pb2.TimeRange(end_time=time(5))},
            "between.start_time",
            "between needs a start_time",
        ),
        (
            {"between": types_pb2.TimeRange(start_time=time(5))},
            "between.end_time",
            "between needs a end_time",
        ),
        (
            {"between": between(-1, 5)},
            "between.start_time",
            "start_time must lie between 1970 and 9999, got -1 us",
        ),
        (
            {"between": between(7 * 10**6, 7 * 10**6)},
            "between.end_time",
            "start_time must be before end_time, got 1970-01-01T00:00:07Z and 1970-01-01T00:00:07Z",
        ),
        (
            {"last": seconds(60), "mature_after": seconds(-1)},
            "mature_after",
            "mature_after must not be negative, got -1 s",
        ),
        (
            {"mature_after": seconds(60)},
            "mature_after",
            (
                "mature_after leaves out panes, and all time does not consist of panes: set a "
                "window, for instance last or between"
            ),
        ),
        (
            {"segment": types_pb2.Segment(value="US")},
            "segment.key",
            "segment.key must not be empty",
        ),
        (
            {"segment": types_pb2.Segment(key="k" * 65, value="US")},
            "segment.key",
            f"segment.key must be [A-Za-z0-9._-]+ and at most 64 characters, got {'k' * 65!r}",
        ),
        (
            {"segment": types_pb2.Segment(key="country", value="é" * 64 + "x")},
            "segment.value",
            "segment.value must be at most 128 bytes of UTF-8, got 129",
        ),
    ],
)
def test_bad_selections(fields: dict, at: str, text: str) -> None:
    """The error names the field and its problem."""
    message = types_pb2.Selection(stream="s", **fields)
    assert invalid_field(lambda: parse_selection(message)) == (f"selection.{at}", text)
    assert invalid_field(lambda: parse_selection(message, "a"))[0] == f"a.{at}"


@pytest.mark.parametrize(
    ("key", "value"), [("k" * 64, ""), ("k" * 64 + "*b", ""), ("country", "é" * 64)]
)
def test_any_slice_that_can_exist_may_be_selected(key: str, value: str) -> None:
    """Key and value may be as long as in a batch."""
    segment = types_pb2.Segment(key=key, value=value)
    assert parse_selection(types_pb2.Selection(stream="s", segment=segment)).segment == (key, value)


def test_an_undeclared_key_is_refused_by_name() -> None:
    """Otherwise a typing error in a key would look like a slice without cases."""
    chosen = parse_selection(
        types_pb2.Selection(stream="s", segment=types_pb2.Segment(key="region", value="EU"))
    )
    view = View([])
    assert invalid_field(lambda: resolve(chosen, view, NOW)) == (
        "selection.segment.key",
        "stream s has no segment key 'region': it declares country, device",
    )
    without = View([], settings=type(SETTINGS)())
    assert invalid_field(lambda: resolve(chosen, without, NOW))[1] == (
        "stream s has no segment key 'region': it declares none"
    )


def test_a_value_never_seen_is_empty() -> None:
    """Values are not declared, so an unknown one is no error."""
    chosen = parse_selection(
        types_pb2.Selection(
            stream="s", last=seconds(60), segment=types_pb2.Segment(key="country", value="FR")
        )
    )
    found = resolve(chosen, View([Event(True, 0.5, NOW)]), NOW)
    assert found.panes == ()
    assert found.slice.all_time.num_cases == 0


AGES = st.one_of(st.integers(0, 200), st.integers(0, 12_000), st.integers(0, 50_000))
EVENTS = st.lists(st.builds(lambda age: Event(True, 0.5, NOW - age * MINUTE), AGES), max_size=25)


def starts(found) -> list[int]:
    return [event.at_us for event in found.view.between(*found.span_us)]


def held(found) -> int:
    return sum(pane.evaluator.num_cases for pane in found.panes)


@given(events=EVENTS, minutes=st.integers(1, 45_000), late_s=st.integers(0, 120))
def test_last_ends_with_the_clocks_pane(events: list, minutes: int, late_s: int) -> None:
    """It covers all of its span and ends just after the clock, with the cases in [start, end)."""
    view = View(events)
    clock = NOW + late_s * 1_000_000
    found = resolve(
        parse_selection(types_pb2.Selection(stream="s", last=seconds(60 * minutes))), view, clock
    )
    start, end = found.span_us
    assert clock < end <= clock + MINUTE
    assert start <= max(clock - minutes * MINUTE, view.grid.oldest_us)
    assert found.is_clipped == (clock - minutes * MINUTE < view.grid.oldest_us)
    assert held(found) == len(starts(found))


@given(events=EVENTS, start=AGES, length=st.integers(1, 45_000))
def test_between_widens_to_whole_panes(events: list, start: int, length: int) -> None:
    """The requested time is covered as far as it is kept, in whole panes."""
    view = View(events)
    asked = NOW - start * MINUTE, NOW - start * MINUTE + length * MINUTE
    found = resolve(
        parse_selection(types_pb2.Selection(stream="s", between=between(*asked))), view, NOW
    )
    begin, end = found.span_us
    assert end >= asked[1]
    assert begin <= asked[0] or begin == view.grid.oldest_us
    for boundary in (begin, end):
        assert view.grid.start_of(boundary) == boundary
    if asked[1] > view.grid.oldest_us:
        assert held(found) == len(starts(found))
    else:
        assert found.panes == ()
        assert found.is_clipped


@given(events=EVENTS, count=st.integers(1, 30))
def test_last_cases_are_the_newest(events: list, count: int) -> None:
    """The newest panes with enough cases, if there are enough, and none more than needed."""
    view = View(events)
    found = resolve(parse_selection(types_pb2.Selection(stream="s", last_cases=count)), view, NOW)
    kept = [event for event in events if event.at_us >= view.grid.oldest_us]
    assert held(found) == len(starts(found)) >= min(count, len(kept))
    if found.panes:
        assert held(found) - found.panes[0].evaluator.num_cases < count
    newest = sorted(kept, key=lambda event: -event.at_us)[:count]
    assert all(found.span_us[0] <= event.at_us < found.span_us[1] for event in newest)


@given(events=EVENTS, mature=st.integers(0, 3_000), kind=st.integers(0, 3))
def test_mature_after_cuts_what_is_young(events: list, mature: int, kind: int) -> None:
    """It covers exactly the panes of the window that end early enough."""
    view = View(events)
    window = [
        {"last": seconds(100_000)},
        {"between": between(NOW - 9 * DAY, NOW + HOUR)},
        {"last_cases": 10_000},
        {"half_life": seconds(60)},
    ][kind]
    plain = resolve(parse_selection(types_pb2.Selection(stream="s", **window)), view, NOW)
    found = resolve(
        parse_selection(
            types_pb2.Selection(stream="s", mature_after=seconds(60 * mature), **window)
        ),
        view,
        NOW,
    )
    cut = NOW - mature * MINUTE
    assert list(found.panes) == [pane for pane in plain.panes if pane.end_us <= cut]
    assert found.span_us[1] <= max(cut, found.span_us[0])
    assert held(found) == len(starts(found))


def test_the_clock_never_runs_behind_the_log() -> None:
    """A clock that was set back does not move windows before the log's time."""
    view = View([Event(True, 0.5, NOW)])
    found = resolve(
        parse_selection(types_pb2.Selection(stream="s", last=seconds(60))), view, NOW - DAY
    )
    assert held(found) == 1


def test_half_life_takes_all_that_is_kept() -> None:
    """From the oldest pane that is kept to the clock's."""
    view = View([Event(True, 0.5, NOW - age) for age in (0, HOUR, 29 * DAY, 39 * DAY)])
    found = resolve(
        parse_selection(types_pb2.Selection(stream="s", half_life=seconds(60))), view, NOW
    )
    assert found.span_us == (view.grid.oldest_us, view.grid.end_of(NOW))
    assert held(found) == 3
