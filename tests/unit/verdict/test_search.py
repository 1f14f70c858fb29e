"""Since when a mean is another one: places by least squares, gaps, returns, and what is held."""

from __future__ import annotations

import numpy as np
import pytest

from streameval._uncertainty.split import fit_splits
from streameval._verdict.search import StepSums, find_change

HOUR_US = 3_600_000_000
WEEK = 168
MEANS, SPREAD = (0.9, 0.8), 0.15
RATES = (5.0, 20.0)


def steps_of(rng: np.random.Generator, shifts: np.ndarray, rates=RATES, first: int = 0) -> StepSums:
    """Return hourly sums of both classes' values, each class lowered by the hour's shift."""
    counts = np.array([rng.poisson(rate, shifts.size) for rate in rates], dtype=np.float64)
    sums = np.zeros((2, *counts.shape))
    for place, mean in enumerate(MEANS):
        for hour, number in enumerate(counts[place].astype(int)):
            values = np.clip(rng.normal(mean - shifts[hour], SPREAD, number), 0, 1)
            sums[:, place, hour] = values.sum(), (values**2).sum()
    starts = (first + np.arange(shifts.size)) * HOUR_US
    return StepSums(starts, starts + HOUR_US, counts, *sums)


def week(rng: np.random.Generator, rates=RATES) -> StepSums:
    return steps_of(rng, np.zeros(WEEK), rates, -WEEK).merged(WEEK)


def hours(beginning) -> tuple[float, float, float]:
    earliest, likeliest, latest = (each / HOUR_US for each in beginning)
    return earliest, likeliest, latest


def test_places_are_those_of_least_squares() -> None:
    """Also in the middle of a step, and with steps that have no figure."""
    rng = np.random.default_rng(1)
    values, precisions = rng.normal(size=(2, 9)), rng.uniform(0.5, 4, (2, 9))
    precisions[0, [3, 8]] = 0
    inside = (0.0, 0.25, 0.75)
    fits = fit_splits(values, precisions, inside)
    for series in range(2):
        for place in range(8 * 3):
            step, late = 1 + place // 3, 1 - inside[place % 3]
            late_share = np.where(np.arange(9) > step, 1.0, 0.0)
            late_share[step] = late
            root = np.sqrt(precisions[series])
            columns = np.stack((root, late_share * root), axis=1)
            if np.linalg.matrix_rank(columns) < 2:
                assert fits.z[series, place] == 0
                continue
            (_, slope), *_ = np.linalg.lstsq(columns, root * values[series], rcond=None)
            error = np.sqrt(np.linalg.inv(columns.T @ columns)[1, 1])
            assert fits.differences[series, place] == pytest.approx(slope)
            assert fits.z[series, place] == pytest.approx(slope / error)


def test_a_drop_within_a_step() -> None:
    """It began at half past: neither full hour is it."""
    rng = np.random.default_rng(2)
    shifts = np.zeros(100)
    shifts[61:] = 0.2
    shifts[60] = 0.1
    many = (200.0, 800.0)
    found = find_change(week(rng, many), steps_of(rng, shifts, many))
    assert found is not None
    assert found.returned is None
    assert hours(found.since) == (60.25, 60.5, 60.75)


def test_a_drop_shortly_before_a_step() -> None:
    """Four hundredths of an hour do not show in the hour, and may not be excluded by it."""
    rng = np.random.default_rng(12)
    shifts = np.where(np.arange(100) >= 60, 0.2, 0.0)
    shifts[59] = 0.04 * 0.2
    many = (1000.0, 4000.0)
    found = find_change(week(rng, many), steps_of(rng, shifts, many))
    assert found is not None
    earliest, _, latest = hours(found.since)
    assert earliest <= 59.96 <= latest <= 60.25


@pytest.mark.parametrize("place", [1, 2, 50, 99])
def test_a_drop_at_any_time_since_the_base(place: int) -> None:
    """In the first steps after the base as in the last one."""
    rng = np.random.default_rng(3)
    shifts = np.where(np.arange(100) >= place, 0.25, 0.0)
    found = find_change(week(rng), steps_of(rng, shifts))
    assert found is not None
    earliest, likeliest, latest = hours(found.since)
    assert earliest <= place <= latest
    assert abs(likeliest - place) <= 1
    assert latest - earliest <= 3


def test_nothing_came_when_it_began() -> None:
    """The whole night without a case may be it; the first case after it is the likeliest."""
    rng = np.random.default_rng(4)
    steps = steps_of(rng, np.where(np.arange(100) >= 50, 0.3, 0.0))
    for each in steps.sums:
        each[:, 44:54] = 0
    found = find_change(week(rng), steps)
    assert found is not None
    earliest, likeliest, latest = hours(found.since)
    assert earliest <= 44
    assert likeliest == 54
    assert 54 < latest <= 55


def test_only_one_class_changes() -> None:
    """The other one has nothing to say and does not hide it."""
    rng = np.random.default_rng(5)
    changed, healthy = (
        steps_of(rng, shift) for shift in (np.repeat([0.0, 0.2], 60), np.zeros(120))
    )
    for of_changed, of_healthy in zip(changed.sums, healthy.sums, strict=True):
        of_changed[1] = of_healthy[1]
    found = find_change(week(rng), changed)
    assert found is not None
    assert found.since.earliest_us <= 60 * HOUR_US <= found.since.latest_us
    assert found.since.latest_us - found.since.earliest_us <= 4 * HOUR_US


def test_a_change_that_is_over_has_two_times() -> None:
    rng = np.random.default_rng(6)
    shifts = np.zeros(24 * 20)
    shifts[100:124] = 0.2
    found = find_change(week(rng), steps_of(rng, shifts))
    assert found is not None
    assert found.returned is not None
    for beginning, at in ((found.since, 100), (found.returned, 124)):
        earliest, _, latest = hours(beginning)
        assert earliest <= at <= latest
        assert latest - earliest <= 6


@pytest.mark.parametrize("size", [127, 480])
@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_a_change_that_is_over_within_a_step(part: float, size: int) -> None:
    """The step has both levels, and is no other change that was over after it."""
    rng = np.random.default_rng(14)
    shifts = np.zeros(size)
    shifts[60:124] = 0.4
    shifts[124] = part * 0.4
    many = (100.0, 400.0)
    found = find_change(week(rng, many), steps_of(rng, shifts, many))
    assert found is not None
    assert found.returned is not None
    for beginning, at in ((found.since, 60), (found.returned, 124 + part)):
        earliest, _, latest = hours(beginning)
        assert earliest - 0.25 <= at <= latest + 0.25
        assert latest - earliest <= 6


def test_what_was_over_before_is_not_the_change_of_now() -> None:
    """Ten days lower, ten days as before, two days lower: since two days ago."""
    rng = np.random.default_rng(7)
    shifts = np.zeros(24 * 24)
    shifts[24:264] = shifts[528:] = 0.15
    found = find_change(week(rng), steps_of(rng, shifts))
    assert found is not None
    assert found.returned is None
    earliest, _, latest = hours(found.since)
    assert earliest <= 528 <= latest
    assert latest - earliest <= 8


def test_nothing_since_the_base() -> None:
    rng = np.random.default_rng(8)
    steps = steps_of(rng, np.zeros(5))
    assert find_change(week(rng), steps.part(slice(0))) is None
    for each in steps.sums:
        each[:] = 0
    assert find_change(week(rng), steps) is None


def test_one_case_since_the_base() -> None:
    """It is no evidence: everything since the base is possible."""
    rng = np.random.default_rng(9)
    steps = steps_of(rng, np.zeros(1), (0.0, 1.0), first=5)
    steps.counts[1], steps.totals[1], steps.squares[1] = 1, 0.8, 0.64
    found = find_change(week(rng), steps)
    assert found is not None
    assert hours(found.since)[::2] == (0, 6)


def test_bursts_widen_it() -> None:
    """Hours that vary four times as much as their cases explain say less of when."""
    widths = []
    for noise in (0.0, 0.06):
        rng = np.random.default_rng(10)
        shifts = np.repeat([0.0, 0.1], 150) + noise * rng.normal(size=300)
        found = find_change(week(rng), steps_of(rng, shifts, (20.0, 80.0)))
        assert found is not None
        assert found.since.earliest_us <= 150 * HOUR_US <= found.since.latest_us
        widths.append(found.since.latest_us - found.since.earliest_us)
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.slow
def test_the_beginning_is_held() -> None:
    """In at least 0.95 of 200 drops of three standard deviations of an hour, at a fixed time."""
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(200):
        at = int(rng.integers(10, 190))
        steps = steps_of(rng, np.where(np.arange(200) >= at, 0.06, 0.0))
        found = find_change(week(rng), steps)
        assert found is not None
        held += found.since.earliest_us <= at * HOUR_US <= found.since.latest_us
    assert held >= 190
