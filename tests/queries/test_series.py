"""Time series: every step has a row, rows are whole panes, pages fit together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.v1 import query_pb2, types_pb2
from streameval_server._queries.series import parse_series_request, series

from .conftest import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    SETTINGS,
    Event,
    View,
    answers_of,
    counted,
    invalid_field,
)


def request_of(start_us: int, end_us: int, step_us: int, **fields) -> query_pb2.ListWindowsRequest:
    request = query_pb2.ListWindowsRequest(**fields)
    request.selection.stream = "s"
    request.selection.between.start_time.FromMicroseconds(start_us)
    request.selection.between.end_time.FromMicroseconds(end_us)
    request.step.FromMicroseconds(step_us)
    return request


def spans(response) -> list[tuple[int, int]]:
    return [
        (row.window.start_time.ToMicroseconds(), row.window.end_time.ToMicroseconds())
        for row in response.snapshots
    ]


def moment(time_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


def asked(view: View, request) -> query_pb2.ListWindowsResponse:
    return series(answers_of(view), parse_series_request(request))


EVENTS = st.lists(
    st.builds(
        lambda positive, score, age: Event(positive, score, NOW - age * MINUTE),
        st.booleans(),
        st.floats(0, 1),
        st.one_of(st.integers(0, 300), st.integers(0, 29 * 24 * 60)),
    ),
    max_size=30,
)


@settings(max_examples=40)
@given(
    events=EVENTS,
    start=st.integers(1, 28 * 24 * 60),
    share=st.floats(0.01, 1),
    rows=st.integers(1, 60),
    page=st.integers(1, 20),
)
def test_rows_follow_one_another_and_count_their_events(
    events: list, start: int, share: float, rows: int, page: int
) -> None:
    """Rows have no gaps or overlap, are at least a step wide, and equal for any page size."""
    view = View(events)
    begin, length = NOW - start * MINUTE, max(1, int(start * share)) * MINUTE
    step = max(MINUTE // 2, length // rows)
    request = request_of(begin, begin + length, step, page_size=1000)
    found = asked(view, request)
    assert not found.next_page_token
    cut = spans(found)
    grid = view.grid
    assert cut[0][0] == grid.start_of(begin)
    assert cut[-1][1] == min(grid.end_of(begin + length - 1), grid.end_of(NOW))
    for (from_us, to_us), (next_us, _) in pairwise(cut):
        assert to_us == next_us
        assert to_us - from_us >= step
        assert to_us - from_us < step + grid.end_of(to_us - 1) - grid.start_of(to_us - 1)
    for row, span in zip(found.snapshots, cut):
        plain = counted(view.between(*span), view.info.settings)
        assert row.num_positive_ref == plain.num_positive_ref
        assert row.num_negative_ref == plain.num_negative_ref
        assert [metric.name for metric in row.metrics] == ["auc_pr", "auc_roc"]
        if plain.num_positive_ref:
            assert row.metrics[0].value == plain.auc_pr()
        assert row.revision == 7
        assert not row.HasField("hull")
    request.page_size = page
    paged = []
    while True:
        answer = asked(view, request)
        paged += answer.snapshots
        assert len(answer.snapshots) <= page
        request.page_token = answer.next_page_token
        if not request.page_token:
            break
        assert len(answer.snapshots) == page
    assert paged == list(found.snapshots)


@settings(max_examples=40)
@given(events=EVENTS, least=st.integers(1, 8), page=st.integers(1, 7), steps=st.integers(1, 40))
def test_steps_are_merged_until_they_have_their_positives(
    events: list, least: int, page: int, steps: int
) -> None:
    """Each row is the shortest run of steps that has enough, by counting; pages fit together."""
    view = View(events)
    length = 300 * MINUTE
    plain = request_of(NOW - length, NOW, max(MINUTE, length // steps), page_size=1000)
    expected: list[tuple[int, int]] = []
    run: list[tuple[int, int]] = []
    for step in spans(asked(view, plain)):
        before = [event for each in run for event in view.between(*each)]
        if run and not before and view.between(*step):
            expected.append((run[0][0], run[-1][1]))
            run, before = [], []
        run.append(step)
        if sum(event.positive for event in [*before, *view.between(*step)]) >= least:
            expected.append((run[0][0], run[-1][1]))
            run = []
    if run:
        expected.append((run[0][0], run[-1][1]))
    request = request_of(
        NOW - length, NOW, plain.step.ToMicroseconds(), page_size=page, min_positives=least
    )
    found, rows = [], []
    while True:
        answer = asked(view, request)
        found += spans(answer)
        rows += answer.snapshots
        request.page_token = answer.next_page_token
        if not request.page_token:
            break
    assert found == expected
    assert all(row.num_positive_ref >= least or not row.num_cases for row in rows[:-1])
    assert sum(row.num_positive_ref for row in rows) == sum(
        event.positive for event in view.between(*(found[0][0], found[-1][1]))
    )


def test_a_token_of_another_number_of_positives_is_refused() -> None:
    """Rows of another cut would not follow on."""
    view = View([Event(True, 0.5, NOW - age * MINUTE) for age in range(30)])
    request = request_of(NOW - HOUR, NOW, MINUTE, page_size=2, min_positives=3)
    request.page_token = asked(view, request).next_page_token
    request.min_positives = 4
    field, text = invalid_field(lambda: asked(view, request))
    assert (field, "another selection" in text) == ("page_token", True)


def test_empty_steps_have_rows_with_reasons() -> None:
    """A chart must show that nothing arrived."""
    found = asked(View([Event(True, 0.5, NOW)]), request_of(NOW - 5 * MINUTE, NOW, MINUTE))
    assert [row.num_positive_ref for row in found.snapshots] == [0, 0, 0, 0, 0, 1]
    assert found.snapshots[0].metrics[0].undefined_reason == types_pb2.UNDEFINED_REASON_EMPTY
    assert found.snapshots[-1].metrics[0].value == 1.0


def test_steps_are_widened_to_the_panes_of_their_age() -> None:
    """Rows are as wide as the panes that are kept: hours for old times, minutes for new ones."""
    view = View([])
    edge = view.grid.edges[-1]
    cut = spans(asked(view, request_of(edge - 2 * HOUR, edge + 5 * MINUTE, MINUTE)))
    widths = [(to - start) // MINUTE for start, to in cut]
    assert widths == [60, 60, 1, 1, 1, 1, 1]


def test_rows_end_with_the_clock_and_begin_with_what_is_kept() -> None:
    """There are no rows in the future, and none of an expired past."""
    view = View([])
    cut = spans(asked(view, request_of(NOW - 90 * DAY, NOW + 90 * DAY, DAY)))
    assert cut[0][0] == view.grid.oldest_us
    assert cut[-1][1] == view.grid.end_of(NOW)
    assert not spans(asked(view, request_of(NOW + DAY, NOW + 2 * DAY, DAY)))


def test_mature_after_ends_the_series() -> None:
    """Rows end where labels may still arrive."""
    request = request_of(NOW - 10 * MINUTE, NOW, MINUTE)
    request.selection.mature_after.FromMicroseconds(3 * MINUTE)
    cut = spans(asked(View([]), request))
    assert cut[-1][1] == NOW // MINUTE * MINUTE - 3 * MINUTE


def test_a_page_has_500_rows_and_never_more_than_1000() -> None:
    """A request may ask for fewer."""
    view = View([], settings=type(SETTINGS)(pane_us=SECOND))
    for size, rows in ((0, 500), (2_000, 1_000), (7, 7)):
        found = asked(view, request_of(NOW - 2 * HOUR, NOW, 1, page_size=size))
        assert len(found.snapshots) == rows
        assert found.next_page_token


def test_pages_do_not_move_with_what_is_counted() -> None:
    """A token is a time: new cases change the content of rows, never their starts."""
    events = [Event(True, 0.5, NOW - 3 * MINUTE)]
    request = request_of(NOW - 9 * MINUTE, NOW, 2 * MINUTE, page_size=2)
    first = asked(View(events), request)
    request.page_token = first.next_page_token
    later = View([*events, *(Event(True, 0.5, NOW - i * MINUTE) for i in range(9))], revision=9)
    second = asked(later, request)
    assert spans(second)[0][0] == spans(first)[-1][1]
    assert second.revision == 9


@pytest.mark.parametrize(
    ("change", "at", "text"),
    [
        (lambda r: r.step.FromMicroseconds(0), "step", "step must be positive, got 0 s"),
        (
            lambda r: r.selection.last.FromSeconds(5),
            "selection.between",
            "a time series needs its span: set selection.between",
        ),
        (
            lambda r: setattr(r, "page_size", -1),
            "page_size",
            "page_size must not be negative, got -1",
        ),
        (
            lambda r: setattr(r, "page_token", "nonsense"),
            "page_token",
            "page_token is not one of this server's: 'nonsense'",
        ),
        (
            lambda r: setattr(r, "page_token", "é"),
            "page_token",
            "page_token is not one of this server's: 'é'",
        ),
        (lambda r: r.metrics.append("x"), "metrics[0]", None),
    ],
    ids=["step", "window", "size", "token", "unicode", "metric"],
)
def test_bad_requests(change, at: str, text: str | None) -> None:
    """Each is refused with the field at fault."""
    request = request_of(NOW - HOUR, NOW, MINUTE)
    change(request)
    field, message = invalid_field(lambda: parse_series_request(request))
    assert field == at
    assert text is None or message == text


def test_a_token_of_another_series_is_refused() -> None:
    """It may name a row that this series does not have."""
    request = request_of(NOW - HOUR, NOW, MINUTE, page_size=1)
    token = asked(View([]), request).next_page_token
    other = request_of(NOW - HOUR, NOW, 2 * MINUTE, page_size=1, page_token=token)
    assert invalid_field(lambda: parse_series_request(other)) == (
        "page_token",
        "page_token belongs to another selection, step or number of positives: begin without one",
    )
    request.page_token, request.page_size = token, 3
    request.selection.min_revision = 5
    request.metrics.append("prevalence")
    assert parse_series_request(request).next_us is not None


def test_slices_have_series() -> None:
    """Rows of one slice."""
    events = [Event(True, 0.5, NOW, country) for country in ("US", "DE", "US")]
    request = request_of(NOW - MINUTE, NOW, MINUTE)
    request.selection.segment.key, request.selection.segment.value = "country", "US"
    found = asked(View(events), request)
    assert [row.num_positive_ref for row in found.snapshots] == [0, 2]
    assert found.snapshots[0].segment.value == "US"
