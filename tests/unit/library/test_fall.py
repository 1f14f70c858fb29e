"""Since which window a figure is lower: constant models, and true falls, of any traffic."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import Fall, InvalidInputError, WindowedEvaluator, find_fall

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
SEED = 20_301


def series(
    rng: np.random.Generator,
    positives: np.ndarray,
    distance: np.ndarray | float = 2.0,
    *,
    share: float = 0.1,
    heavy: bool = False,
    weight: float | None = None,
):
    """Return windows of a step each, with this many positives in the mean."""
    numbers = rng.poisson(positives), rng.poisson(positives * (1 - share) / share)
    apart = np.broadcast_to(distance, positives.shape)
    windows = []
    for index, (p, n) in enumerate(zip(*numbers, strict=True)):
        labels = np.arange(p + n) < p
        noise = rng.standard_t(3, labels.size) if heavy else rng.normal(size=labels.size)
        scores = 1 / (1 + np.exp(-noise - apart[index] * labels))
        weights = {} if weight is None else {"weights": np.full(labels.size, weight)}
        # Of one evaluator each: panes of one grow wider with age.
        ev = WindowedEvaluator(pane=HOUR)
        at = START + index * HOUR
        ev.add_cases(labels=labels, scores=scores, at=at, **weights)
        windows.append(ev.between(at, at + HOUR))
    return windows


@pytest.mark.parametrize("metric", ["auc_pr", "average_precision", "auc_roc"])
def test_growing_traffic_is_no_fall(metric: str) -> None:
    """Of 40 constant models at most four. Weighed by their own intervals 20 fell by AP."""
    rng = np.random.default_rng(SEED + 1)
    growing = 5 * 40.0 ** np.linspace(0, 1, 48)
    found = [find_fall(series(rng, growing, share=0.2, heavy=True), metric) for _ in range(40)]
    assert sum(each is not None for each in found) <= 4


@pytest.mark.parametrize("few", [2.0, 12.0, 60.0])
def test_true_falls_are_found(few: float) -> None:
    """Whatever traffic does meanwhile, within the range, which steps that are merged widen."""
    rng = np.random.default_rng(SEED + 2)
    for _ in range(8):
        growing = few * 4.0 ** np.linspace(0, 1, 48)
        distance = np.where(np.arange(48) < 29, 2.0, 0.5)
        windows = series(rng, growing, distance)
        fall = find_fall(windows)
        assert fall is not None
        assert fall.first <= 29 <= fall.last
        assert fall.first <= fall.index <= fall.last
        assert fall.difference < -0.1
        assert fall.p_value < 1e-3


def test_a_daily_cycle_is_no_fall_of_fourteen_days() -> None:
    """Whole days are the steps, counted from the end; a range of windows is of whole days."""
    rng = np.random.default_rng(SEED + 3)
    hours = np.arange(15 * 24 + 7)
    night = 1.0 * ((hours - hours.size) % 24 >= 16)
    assert find_fall(series(rng, np.full(hours.size, 12.0), 2 - night)) is None
    fall = find_fall(series(rng, np.full(hours.size, 12.0), 2 - night - (hours >= 200) * 0.8))
    assert fall is not None
    assert fall.first <= 200 <= fall.last
    assert (fall.index - 7) % 24 == (fall.last + 1 - 7) % 24 == 0
    assert fall.warnings == ()


@pytest.mark.parametrize(("steps", "cycle"), [(47, "daily"), (48, "weekly"), (335, "weekly")])
def test_a_cycle_that_looks_the_same_is_told(steps: int, cycle: str) -> None:
    """Below two days a daily one, below two weeks a weekly one."""
    rng = np.random.default_rng(SEED + 4)
    distance = np.where(np.arange(steps) < steps // 2, 2.0, 0.2)
    fall = find_fall(series(rng, np.full(steps, 35.0), distance, share=0.5), "auc_roc")
    assert fall is not None
    assert len(fall.warnings) == 1
    assert f"a {cycle} cycle looks the same" in fall.warnings[0]


def test_metrics_at_a_threshold_and_costs_fall_too() -> None:
    """A cost's unit cancels; a recall that was perfect falls."""
    rng = np.random.default_rng(SEED + 5)
    distance = np.where(np.arange(24) < 12, 4.0, 0.5)
    windows = series(rng, np.full(24, 40.0), distance)
    recall = find_fall(windows, "recall", threshold=0.5)
    assert recall is not None
    assert recall.index == 12
    back = series(rng, np.full(24, 40.0), distance[::-1])
    costs = [
        find_fall(back, "expected_cost", threshold=0.5, cost_fp=1 * unit, cost_fn=20 * unit)
        for unit in (1.0, 1e200)
    ]
    assert costs[0] is not None
    assert costs[1] is not None
    assert (costs[0].index, costs[0].p_value) == (costs[1].index, costs[1].p_value)
    assert costs[1].difference == pytest.approx(1e200 * costs[0].difference)


def test_a_model_that_stops_finding_anything_has_fallen() -> None:
    """A recall of 1, then of 0, has no variance in any window."""
    distance = np.where(np.arange(24) < 12, 50.0, -50.0)
    windows = series(np.random.default_rng(SEED + 8), np.full(24, 40.0), distance)
    fall = find_fall(windows, "recall", threshold=0.5)
    assert fall is not None
    assert (fall.first, fall.index, fall.last, fall.difference) == (12, 12, 12, -1.0)


@pytest.mark.parametrize("metric", ["auc_pr", "average_precision"])
def test_rarer_positives_are_told(metric: str) -> None:
    """Of an unchanged ROC curve; not where the curve is lower too, and not by AUC-ROC."""
    rng = np.random.default_rng(SEED + 9)
    rarer = series(rng, np.full(24, 60.0), share=0.3)
    rarer[12:] = series(rng, np.full(24, 60.0), share=0.05)[12:]
    fall = find_fall(rarer, metric)
    assert fall is not None
    told = rf"rarer from then on, 0\.3\d* and then 0\.0\d+ .* prevalence {metric} may"
    assert re.search(told, fall.warnings[1])
    assert find_fall(rarer, "auc_roc") is None
    rarer[12:] = series(rng, np.full(24, 60.0), 0.5, share=0.05)[12:]
    worse = find_fall(rarer, metric)
    assert worse is not None
    assert len(worse.warnings) == 1


def test_equal_weights_change_nothing() -> None:
    """Sizes are Kish's effective numbers, so two of every case are not twice as many."""
    distance = np.where(np.arange(24) < 12, 2.0, 1.0)
    falls = [
        find_fall(
            series(np.random.default_rng(SEED + 6), np.full(24, 40.0), distance, weight=weight)
        )
        for weight in (None, 2.0)
    ]
    assert falls[0] is not None
    assert falls[1] is not None
    assert falls[0].index == falls[1].index
    assert falls[0].p_value == pytest.approx(falls[1].p_value, rel=1e-9)


def test_short_series_have_not_fallen() -> None:
    """None at all, without cases, and of fewer than three steps of 30 positives."""
    rng = np.random.default_rng(SEED + 7)
    assert find_fall([]) is None
    assert find_fall(series(rng, np.zeros(5))) is None
    assert find_fall(series(rng, np.full(24, 3.0), np.linspace(4, 0, 24))) is None
    perfect = series(rng, np.full(24, 40.0), 50.0)
    assert find_fall(perfect, "auc_roc") is None


def test_it_is_a_value() -> None:
    """Equal series give equal answers."""
    distance = np.where(np.arange(24) < 12, 2.0, 0.0)
    made = [
        find_fall(series(np.random.default_rng(SEED), np.full(24, 40.0), distance))
        for _ in range(2)
    ]
    assert isinstance(made[0], Fall)
    assert made[0] == made[1]


def test_wrong_arguments_are_refused() -> None:
    """With what was given."""
    windows = series(np.random.default_rng(SEED), np.full(4, 40.0))
    ev = WindowedEvaluator()
    ev.add_cases(labels=[1, 0], scores=[0.9, 0.1], at=START)
    for given, arguments, problem in (
        (windows, {"level": 1.0}, "level must be between 0 and 1, got 1.0"),
        (windows, {"metric": "auc_roc_hull"}, "has no interval"),
        (windows, {"metric": "recall"}, "needs a threshold"),
        (windows, {"metric": "auc_roc", "threshold": 0.5}, "does not depend on a threshold"),
        ([windows[1], windows[0]], {}, r"windows\[1\] begins at 2026-01-05T00:00:00\+00:00"),
        ([windows[0], windows[0]], {}, "before the end of the window before it"),
        ([ev.decayed(HOUR)], {}, r"windows\[0\] must be a window without decay"),
        ([0.5], {}, r"windows\[0\] must be a window without decay, got 0.5"),
    ):
        with pytest.raises(InvalidInputError, match=problem):
            find_fall(given, **arguments)
