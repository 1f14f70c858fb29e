"""Windows against a list of events: any order, any coarsening, any cut of time."""

from __future__ import annotations

import gc
import math
import weakref
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Evaluator, InvalidInputError, Window, WindowedEvaluator
from streameval.kernel import Grid, Panes, WindowCache

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

SCORES = st.sampled_from([0.1, 0.25, 0.5, 0.5001, 0.75, 0.9])
AGES = st.one_of(
    st.integers(0, 300),
    st.integers(0, 10 * 24 * 60),
    st.integers(0, 29 * 24 * 60),
)
EVENTS = st.lists(st.tuples(st.booleans(), SCORES, AGES), max_size=30)


def at(age_minutes: int) -> datetime:
    return NOON - age_minutes * MINUTE


def evaluator_of(events: list[tuple]) -> Evaluator:
    evaluator = Evaluator(resolution=12, max_cells=16_384)
    for positive, score, _ in events:
        evaluator.add_case(positive, score)
    return evaluator


def filled(events: list[tuple]) -> WindowedEvaluator:
    windowed = WindowedEvaluator()
    windowed.advance(NOON)
    for positive, score, age in events:
        windowed.add_case(positive, score, at=at(age))
    windowed._check()
    return windowed


@given(events=EVENTS, span=st.integers(1, 30 * 24 * 60))
def test_last_is_the_sum_of_its_events(events: list[tuple], span: int) -> None:
    """A window has exactly the events in its span, which includes the requested span."""
    window = filled(events).last(span * MINUTE)
    assert window.start <= NOON - span * MINUTE
    assert window.end > NOON
    inside = [event for event in events if window.start <= at(event[2]) < window.end]
    assert window.evaluator() == evaluator_of(inside)


@given(events=EVENTS, span=st.tuples(st.integers(0, 28 * 24 * 60), st.integers(1, 24 * 60)))
def test_between_widens_to_whole_panes(events: list[tuple], span: tuple[int, int]) -> None:
    """`between` widens the requested span to whole panes, and reports the result."""
    start, end = at(span[0] + span[1]), at(span[0])
    window = filled(events).between(start, end)
    assert window.start <= start
    assert window.end >= end
    assert window.end - window.start <= end - start + 2 * DAY
    inside = [event for event in events if window.start <= at(event[2]) < window.end]
    assert window.evaluator() == evaluator_of(inside)


@given(events=EVENTS, seed=st.integers(0, 2**16), later=st.integers(0, 3 * 24 * 60))
def test_order_and_cut_make_no_difference(events: list[tuple], seed: int, later: int) -> None:
    """Any order of arrival, rows or columns, merged halves: equal, before and after coarsening."""
    shuffled = list(events)
    np.random.default_rng(seed).shuffle(shuffled)
    shuffled = [(bool(positive), float(score), int(age)) for positive, score, age in shuffled]
    one, halves = filled(events), filled(shuffled[::2])
    columns = WindowedEvaluator()
    columns.advance(NOON)
    columns.add_cases(
        labels=[event[0] for event in shuffled],
        scores=[event[1] for event in shuffled],
        at=[at(event[2]) for event in shuffled],
    )
    halves.merge(filled(shuffled[1::2]))
    for other in (columns, halves):
        assert one == other
        other.advance(NOON + later * MINUTE)
    one.advance(NOON + later * MINUTE)
    one._check()
    assert one == columns == halves


@given(events=EVENTS)
def test_removal_undoes(events: list[tuple]) -> None:
    """Removing added cases restores the state, also in coarse panes."""
    windowed = filled(events[::2])
    before = filled(events[::2])
    rest = events[1::2]
    columns = {
        "labels": [event[0] for event in rest],
        "scores": [event[1] for event in rest],
        "at": [at(event[2]) for event in rest],
    }
    windowed.add_cases(**columns)
    windowed.remove_cases(**columns)
    assert windowed == before


@given(events=EVENTS, count=st.integers(0, 40))
def test_last_cases_takes_whole_panes(events: list[tuple], count: int) -> None:
    """At least `count` cases if there are as many, and no pane more than needed."""
    windowed = filled(events)
    window = windowed.last_cases(count)
    assert window.num_cases >= min(count, len(events))
    inside = sorted(window.start <= at(event[2]) for event in events).count(True)
    assert inside >= window.num_cases
    panes = [pane.num_cases for pane in windowed.panes()][::-1]
    needed = next((i for i in range(len(panes) + 1) if sum(panes[:i]) >= count), len(panes))
    assert window.num_cases == sum(panes[:needed])


@given(
    events=EVENTS.filter(lambda events: len(events) > 2), half_life=st.sampled_from([1, 24, 240])
)
def test_decay_weights_each_pane(events: list[tuple], half_life: int) -> None:
    """Figures are computed from counts times integer weights; counts are undecayed."""
    windowed = filled(events)
    window = windowed.decayed(half_life * HOUR)
    expected = Evaluator(resolution=12)
    for pane in windowed.panes():
        age = max(timedelta(0), NOON - pane.end)
        weight = round(65_536 * 2.0 ** (-age / (half_life * HOUR)))
        points = pane.operating_points()
        for label, counts in ((1, points.tp), (0, points.fp)):
            gained = np.diff(counts) * weight
            expected.add_cases(
                labels=np.full(gained.size, label), scores=points.thresholds[1:], counts=gained
            )
    assert window.auc_pr() == pytest.approx(expected.auc_pr(), rel=1e-12, nan_ok=True)
    assert window.auc_roc() == pytest.approx(expected.auc_roc(), rel=1e-12, nan_ok=True)


@given(
    positives=st.sets(st.integers(0, 63), min_size=2, max_size=20),
    negatives=st.sets(st.integers(0, 63), min_size=2, max_size=20),
)
def test_weights_of_one_have_the_limits_of_cases(positives: set[int], negatives: set[int]) -> None:
    """AUC-ROC of a decayed window that has the newest pane only, where cells hide no order.

    Where they do, and in precision-recall space, the limits of weights allow for weights that
    differ, also where all are 1.
    """
    events = [(True, each / 64, 0) for each in positives]
    events += [(False, each / 64, 0) for each in negatives - positives]
    windowed = filled(events)
    ours, theirs = (
        window.interval("auc_roc") for window in (windowed.decayed(HOUR), windowed.last(DAY))
    )
    assert ours.lower == pytest.approx(theirs.lower, rel=1e-9, nan_ok=True)
    assert ours.upper == pytest.approx(theirs.upper, rel=1e-9, nan_ok=True)


def test_decayed_intervals_do_not_take_weights_for_cases() -> None:
    """Halving the weight of old cases widens an interval; it never shrinks like 65,536 cases."""
    random = np.random.default_rng(3)
    windowed = WindowedEvaluator()
    for day in range(4):
        labels = random.random(400) < 0.3
        windowed.add_cases(
            labels=labels, scores=random.normal(size=400) + labels, at=NOON + day * DAY
        )
    whole = windowed.last(5 * DAY)
    for name in ("auc_roc", "auc_pr", "average_precision", "prevalence"):
        widths = [
            windowed.decayed(half_life * DAY).interval(name).width for half_life in (1, 4, 4000)
        ]
        assert widths[0] > widths[1] > widths[2] * 0.999
        assert widths[2] == pytest.approx(whole.interval(name).width, rel=0.02)


def test_snapshots_say_which_time_they_cover() -> None:
    """Windows with the same counts have their own span; so has a decayed window."""
    windowed = WindowedEvaluator(pane=MINUTE, retention=DAY)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    windowed.add_case(True, 0.5, at=start)
    windowed.add_case(False, 0.25, at=start)
    for window in (
        windowed.between(start, start + MINUTE),
        windowed.between(start, start + 5 * MINUTE),
        windowed.decayed(DAY),
    ):
        snapshot = window.snapshot()
        assert snapshot.window == (window.start, window.end)
        assert snapshot.num_cases == 2
        assert str(window.start)[:16] in str(snapshot)


def test_decayed_snapshot_counts_are_undecayed() -> None:
    """The snapshot of a decayed window has undecayed counts."""
    windowed = WindowedEvaluator()
    windowed.add_cases(labels=[1, 0, 1], scores=[0.9, 0.5, 0.3], at=NOON - 5 * DAY)
    windowed.add_misses(2, at=NOON)
    snapshot = windowed.decayed(DAY).snapshot()
    assert (snapshot.num_cases, snapshot.num_scored, snapshot.num_misses) == (5, 3, 2)
    assert not math.isnan(snapshot.auc_pr)


def test_an_unchanged_window_is_the_same_object() -> None:
    """The window is cached; a late case in one of its panes makes a new one."""
    windowed = filled([(True, 0.9, 5), (False, 0.2, 90)])
    window = windowed.last(2 * HOUR)
    assert windowed.last(2 * HOUR) is window
    windowed.add_case(False, 0.95, at=at(100))
    restated = windowed.last(2 * HOUR)
    assert restated is not window
    assert window.auc_roc() == 1.0
    assert restated.auc_roc() == 0.5


def test_retention_and_late_data() -> None:
    """Cases older than retention expire, and are refused as a whole batch."""
    windowed = WindowedEvaluator(retention=2 * DAY)
    windowed.add_case(True, 0.9, at=NOON)
    windowed.advance(NOON + 2 * DAY)
    assert windowed.last(3 * DAY).num_cases == 1
    windowed.advance(NOON + 4 * DAY)
    assert windowed.last(3 * DAY).num_cases == 0
    with pytest.raises(
        InvalidInputError, match=r"older than retention: got 2026-03-01.* at index 1"
    ):
        windowed.add_cases(labels=[1, 0], scores=[0.9, 0.1], at=[NOON + 4 * DAY, NOON])
    assert windowed.last(3 * DAY).num_cases == 0
    with pytest.raises(InvalidInputError, match="no negative case"):
        windowed.remove_cases(labels=[0], scores=[0.1], at=NOON + 4 * DAY)
    assert windowed.now == NOON + 4 * DAY


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pane": timedelta(minutes=7)}, "pane must divide an hour or a day"),
        ({"pane": timedelta(0)}, "pane must be positive"),
        ({"pane": 60}, "pane must be a timedelta, got 60"),
        ({"retention": timedelta(seconds=5)}, "retention must be at least one pane"),
    ],
)
def test_settings_are_checked(arguments: dict, message: str) -> None:
    """The error for an invalid setting names it."""
    with pytest.raises(InvalidInputError, match=message):
        WindowedEvaluator(**arguments)


def test_times_are_checked() -> None:
    """A time without a zone, before 1970, or of the wrong type is refused."""
    windowed = WindowedEvaluator()
    for wrong, message in (
        (datetime(2026, 1, 1), "at must have a time zone"),  # noqa: DTZ001 - that is the point
        (12.0, "at must be a datetime, got 12.0"),
        (datetime(1960, 1, 1, tzinfo=UTC), "at must lie between 1970 and 9999"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            windowed.add_case(True, 0.5, at=wrong)
    with pytest.raises(InvalidInputError, match="at has 1 rows, expected 2"):
        windowed.add_cases(labels=[1, 0], scores=[1, 2], at=[NOON])
    times = np.array(["2026-01-01", "NaT"], dtype="datetime64[s]")
    with pytest.raises(InvalidInputError, match="at is missing at index 1"):
        windowed.add_cases(labels=[1, 0], scores=[1, 2], at=times)
    assert len(list(windowed.panes())) == 0


@given(
    pane=st.sampled_from([1, 60, 300, 3600, 7200, 86_400]),
    retention=st.sampled_from([86_400, 3 * 86_400, 40 * 86_400]),
    now=st.integers(10**9, 2 * 10**9),
    ages=st.lists(st.integers(0, 40 * 86_400), max_size=20),
)
def test_tiers_nest(pane: int, retention: int, now: int, ages: list[int]) -> None:
    """A time lies in one pane, panes do not overlap, and `starts_of` agrees with `start_of`."""
    panes: Panes[Evaluator] = Panes(Grid.tiers_of(pane * 10**6, retention * 10**6), Evaluator)
    panes.advance(now * 10**6)
    times = [time for age in ages if (time := (now - age) * 10**6) >= panes.grid.oldest_us]
    starts = panes.grid.starts_of(np.array(times, dtype=np.int64)).tolist()
    for time, start in zip(times, starts, strict=True):
        assert start == panes.grid.start_of(time)
        assert start <= time < start + panes.grid.width_at(start)
        panes.at(start)
    panes._check()
    panes.advance((now + 86_400) * 10**6)
    panes._check()


@given(events=EVENTS, span=st.integers(1, 30 * 24 * 60))
def test_without_is_the_sum_of_the_other_events(events: list[tuple], span: int) -> None:
    """A window without a part has exactly the events outside the part."""
    windowed = filled(events)
    whole, part = windowed.last(29 * DAY), windowed.last(min(span, 29 * 24 * 60) * MINUTE)
    rest = whole.without(part)
    outside = [event for event in events if whole.start <= at(event[2]) < part.start]
    assert rest.evaluator() == evaluator_of(outside)
    assert rest.num_cases == len(outside)
    rest._view()._check()


@given(events=EVENTS, taken=st.lists(st.booleans(), min_size=30, max_size=30))
def test_without_of_decayed_windows_is_the_decayed_rest(events: list[tuple], taken: list) -> None:
    """Weights belong to panes, so the rest is weighted like the whole."""
    of_part = [event for event, is_part in zip(events, taken) if is_part]
    of_rest = [event for event, is_part in zip(events, taken) if not is_part]
    whole, part, rest = (
        filled(each).decayed(2 * DAY, now=NOON) for each in (events, of_part, of_rest)
    )
    left = whole.without(part)
    assert left.evaluator() == rest.evaluator()
    assert left.num_positive_ref == rest.num_positive_ref
    assert left.num_cases == len(of_rest)
    mine, its = left.interval("auc_pr"), rest.interval("auc_pr")
    assert (mine.lower, mine.upper) == pytest.approx((its.lower, its.upper), nan_ok=True)


def test_without_refuses_what_is_no_part() -> None:
    """Cases or misses that the whole has not, and a decayed with an undecayed window."""
    windowed, other = filled([(True, 0.9, 5)]), filled([(True, 0.5, 5)])
    with pytest.raises(
        InvalidInputError, match="the part has cases that the whole lacks, the first at "
    ):
        windowed.last(HOUR).without(other.last(HOUR))
    other = filled([])
    other.add_misses(1, at=NOON)
    with pytest.raises(InvalidInputError, match="the part has misses that the whole lacks"):
        windowed.last(HOUR).without(other.last(HOUR))
    decayed = windowed.decayed(HOUR)
    for whole, part in ((windowed.last(HOUR), decayed), (decayed, windowed.last(HOUR))):
        with pytest.raises(InvalidInputError, match="both windows must be decayed, or neither"):
            whole.without(part)


def test_an_exact_whole_without_a_bounded_part() -> None:
    """All-time counts are exact, panes are not: the rest is at the panes' resolution."""
    exact, bounded = Evaluator(), Evaluator(resolution=3)
    exact.add_cases(labels=[1, 0, 1, 0], scores=[0.91, 0.42, 0.33, 0.77])
    bounded.add_cases(labels=[1, 0], scores=[0.91, 0.42])
    rest = Window(exact._view(), 0, 1).without(Window(bounded._view(), 0, 1))
    expected = Evaluator(resolution=3)
    expected.add_cases(labels=[1, 0], scores=[0.33, 0.77])
    assert rest.evaluator() == expected


def test_cached_windows_leave_when_their_panes_do() -> None:
    """A window is cached while no pane changes, and the cache keeps no pane in memory."""
    cache: WindowCache[int] = WindowCache(1_500)
    panes = [evaluator_of([(True, 0.5, 0), (False, 0.25, 0)])._view() for _ in range(3)]
    windows = [cache.get(i, [pane], lambda: Window(panes[0], 0, 1)) for i, pane in enumerate(panes)]
    assert len(cache) == 2  # of some 620 bytes each
    assert cache.get(2, [panes[2]], lambda: pytest.fail("it was there")) is windows[2]
    assert cache.get(2, [panes[1]], lambda: Window(panes[1], 0, 1)) is not windows[2]
    gone = weakref.ref(panes.pop(1))
    del windows
    cache.get(2, [panes[0]], lambda: Window(panes[0], 0, 1))
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("resolution", [2, 3, 5])
def test_decayed_intervals_allow_for_what_cells_hide(resolution: int) -> None:
    """With a very long half-life bounded intervals are as wide as undecayed ones."""
    random = np.random.default_rng(resolution)
    windowed = WindowedEvaluator(resolution=resolution)
    for minute in range(10):
        labels = random.random(60) < 0.3
        scores = random.normal(size=60) + labels
        windowed.add_cases(labels=labels, scores=scores, at=NOON + minute * MINUTE)
    plain, decayed = windowed.last(HOUR), windowed.decayed(10_000 * DAY)
    for name in ("auc_roc", "auc_pr"):
        mine, its = decayed.interval(name), plain.interval(name)
        assert mine.lower == pytest.approx(its.lower, rel=2e-3)
        assert mine.upper == pytest.approx(its.upper, rel=2e-3)
