"""Dependence over hours in a reference: its standard error, and what is told."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import DriftDetector, WindowedEvaluator
from streameval._drift.slow import slow_dependence

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR_US = 3_600_000_000
WEEK = 7 * 24


def dependent(rng: np.random.Generator, size: int, hours: float) -> np.ndarray:
    """Return hourly values of unit variance with this correlation time."""
    values = rng.normal(size=size)
    kept = math.exp(-1 / hours)
    for hour in range(1, size):
        values[hour] = kept * values[hour - 1] + math.sqrt(1 - kept**2) * values[hour]
    return values


def seen(values: np.ndarray):
    """Return the dependence of hourly sums, whose variance without any is known to be 1."""
    residuals = np.rint(1e6 * (values - values.mean())).astype(np.int64)
    timed = [(hour * HOUR_US, int(each)) for hour, each in enumerate(residuals)]
    return slow_dependence(timed, 10**12, float(values.size))


def test_the_ratio_is_the_variance_of_days() -> None:
    """By hand, over the variance of as many hours that do not depend on one another."""
    values = 0.8 * dependent(np.random.default_rng(1), 3 * WEEK, 12)
    values += np.random.default_rng(2).normal(size=values.size)
    found = seen(values)
    assert found is not None
    days = (values - values.mean()).reshape(-1, 24).sum(axis=1)
    assert found.hours == 24
    assert found.ratio == pytest.approx(21 / 20 * (days**2).sum() / values.size, rel=1e-6)
    assert 3 * WEEK / 40 < found.times < 3 * WEEK / 4


def test_only_dependence_is_seen() -> None:
    """Independent hours and a cycle within the day at most in 5 of 200, a correlation often."""
    rng = np.random.default_rng(3)
    cycle = 0.3 * np.sin(2 * np.pi * np.arange(WEEK) / 24)
    shares = [
        sum(seen(rng.normal(size=WEEK) + more(rng)) is not None for _ in range(200))
        for more in (lambda _: 0, lambda _: cycle, lambda rng: dependent(rng, WEEK, 12))
    ]
    assert shares[0] <= 12
    assert shares[1] <= 12
    assert shares[2] >= 140


def test_few_batches_show_nothing() -> None:
    """Of two days there are too few, of a reference of none as well."""
    assert seen(dependent(np.random.default_rng(4), 4, 12)) is None
    assert slow_dependence([], 1, 1.0) is None


def reference(seed: int, noise: float) -> WindowedEvaluator:
    rng = np.random.default_rng(seed)
    ev = WindowedEvaluator(pane=timedelta(hours=1))
    apart = 2 + noise * dependent(rng, WEEK, 24)
    for hour in range(WEEK):
        labels = rng.random(60) < 0.3
        at = START + timedelta(hours=hour)
        ev.add_cases(labels=labels, scores=rng.normal(apart[hour] * labels), at=at)
    return ev


def test_a_detector_tells_it_and_keeps_it() -> None:
    """In bytes too; one without it has no warning."""
    made = {}
    for noise in (0.0, 1.0):
        ev = reference(7, noise)  # a window does not keep its panes
        made[noise] = DriftDetector(
            ev.between(START, START + timedelta(hours=WEEK)),
            watch="auc_roc",
            tolerance=0.01,
            mean_time_to_false_alarm=timedelta(days=100),
            pane=timedelta(hours=1),
        )
    assert made[0.0].warnings == ()
    (told,) = made[1.0].warnings
    assert "batches of 24 hours" in told
    assert "too short" in told
    again = DriftDetector.from_bytes(made[1.0].to_bytes())
    assert again.warnings == (told,)
    assert again.to_bytes() == made[1.0].to_bytes()
    errors = [each._engine.frozen.errors[0] for each in made.values()]
    assert errors[1] > 2 * errors[0]
