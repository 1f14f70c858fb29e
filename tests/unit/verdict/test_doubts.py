"""Bursts, cycles and a level that wanders are told apart, on residuals from the levels."""

from __future__ import annotations

import numpy as np
import pytest

from streameval._verdict.doubts import doubts
from streameval._verdict.search import Beginning, Change, StepSums

HOUR_US = 3_600_000_000
WEEK = 168
LONG_AGO_US = -4 * WEEK * HOUR_US


def steps_of(rng: np.random.Generator, shifts: np.ndarray, rate: float = 20.0) -> StepSums:
    """Return hourly sums of two classes' values, each shifted in standard deviations of a case."""
    counts = rng.poisson([[rate], [4 * rate]], (2, shifts.size)).astype(np.float64)
    means = (
        0.7 + 0.1 * shifts + 0.1 * rng.normal(size=counts.shape) / np.sqrt(counts + (counts == 0))
    )
    squares = counts * (means**2 + 0.01) - 0.01
    starts = np.arange(shifts.size) * HOUR_US
    return StepSums(starts, starts + HOUR_US, counts, counts * means, np.maximum(squares, 0))


def wandering(rng: np.random.Generator, size: int, hours: float) -> np.ndarray:
    values = rng.normal(size=size)
    kept = np.exp(-1 / hours)
    for hour in range(1, size):
        values[hour] = kept * values[hour - 1] + np.sqrt(1 - kept**2) * values[hour]
    return values


def told(steps: StepSums, change: Change | None = None) -> tuple[str, ...]:
    return doubts(steps, change, base_start_us=LONG_AGO_US)


SHIFTS = {
    "": lambda _, size: np.zeros(size),
    "bursts": lambda rng, size: 0.3 * rng.normal(size=size),
    "daily cycle": lambda _, size: 0.4 * np.sin(2 * np.pi * np.arange(size) / 24),
    "wanders": lambda rng, size: 0.4 * wandering(rng, size, 30),
}


@pytest.mark.parametrize("weeks", [1, 4])
@pytest.mark.parametrize("kind", list(SHIFTS))
def test_each_is_told_as_what_it_is(kind: str, weeks: int) -> None:
    """In at least 34 of 40 streams; of healthy ones at most three have something to say."""
    right = 0
    for seed in range(40):
        rng = np.random.default_rng([weeks, seed])
        said = told(steps_of(rng, SHIFTS[kind](rng, weeks * WEEK)))
        right += len(said) == bool(kind) and kind in "".join(said)
    assert right >= (37 if kind == "" else 34)


def test_a_change_is_no_dependence() -> None:
    """Its two levels are taken away; without them it looks like one that wanders."""
    rng = np.random.default_rng(1)
    steps = steps_of(rng, np.where(np.arange(2 * WEEK) >= 100, -1.0, 0.0))
    at = Beginning(*[100 * HOUR_US] * 3)
    assert told(steps, Change(at, None)) == ()
    assert "wanders" in "".join(told(steps))


def test_a_return_is_no_dependence() -> None:
    rng = np.random.default_rng(2)
    hours = np.arange(2 * WEEK)
    steps = steps_of(rng, np.where((hours >= 100) & (hours < 150), -1.0, 0.0))
    since, returned = (Beginning(*[hour * HOUR_US] * 3) for hour in (100, 150))
    assert told(steps, Change(since, returned)) == ()


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        (0, ""),
        (47, "less than two days: a daily cycle looks the same"),
        (48, "less than two weeks: a weekly cycle looks the same"),
        (335, "less than two weeks"),
        (336, ""),
    ],
)
def test_a_short_time_is_said(hours: int, said: str) -> None:
    steps = steps_of(np.random.default_rng(3), np.zeros(hours))
    found = doubts(steps, None, base_start_us=0)
    assert "".join(found).count("cover") == bool(said)
    assert said in "".join(found)


def test_few_or_equal_cases_say_nothing() -> None:
    """Values without any spread, steps without cases, and steps of days apart from hours."""
    steps = steps_of(np.random.default_rng(4), np.zeros(2 * WEEK))
    flat = steps._replace(totals=0.5 * steps.counts, squares=0.25 * steps.counts)
    assert told(flat) == ()
    nothing = 0 * steps.counts
    empty = steps._replace(counts=nothing, totals=nothing, squares=nothing)
    assert told(empty) == ()
    day = steps.part(slice(24)).merged(24)
    assert told(day.before(steps.part(slice(24, None)))) == told(steps.part(slice(24, None)))
