"""The stated rate holds: mean time to a false alarm, e-values of segments, false discoveries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from streameval._drift.alarm import FALSE_DISCOVERY_RATE, named_segments
from streameval._drift.processes import Processes
from streameval._drift.side_table import PaneSums
from streameval._drift.watches import UNITS

from .streams import cases, detector, feed

LIVES, PANES, MEAN_PANES = 200, 720, 240
TEN_MINUTES_US = 600_000_000

Draw = Callable[[np.random.Generator, float], np.ndarray]


def coin(rng: np.random.Generator, theta: float) -> np.ndarray:
    """Values of 0 and 1."""
    return (rng.random(LIVES) < theta).astype(float)


def rarely_low(rng: np.random.Generator, theta: float) -> np.ndarray:
    """Values a little above theta, and 0 in one pane of 50."""
    return np.where(rng.random(LIVES) < 0.02, 0.0, min(theta / 0.98, 1.0))


def spread(rng: np.random.Generator, theta: float) -> np.ndarray:
    """Values from a beta distribution."""
    return rng.beta(6 * theta, 6 * (1 - theta), LIVES)


def pane_of(z: np.ndarray, rows: int) -> PaneSums:
    """Return a pane of means z; rounded up, so that their mean is not below theta."""
    sums = np.ceil(z * rows * UNITS).astype(np.int64)
    return PaneSums(sums, np.full(z.shape, rows), np.zeros(z.shape, dtype=np.uint64))


@pytest.mark.parametrize("draw", [coin, rarely_low, spread])
@pytest.mark.parametrize("rows", [1, 10])
@pytest.mark.parametrize("theta", [0.3, 0.93])
@pytest.mark.slow
def test_the_mean_time_to_a_false_alarm_is_at_least_as_stated(
    draw: Draw, rows: int, theta: float
) -> None:
    """At the lowest mean without a change, the worst case; the rows of a pane are all alike."""
    rng = np.random.default_rng([2_024, rows, round(100 * theta)])
    processes = Processes(np.full((1, LIVES), theta), 0, TEN_MINUTES_US, MEAN_PANES)
    assert processes.has_coarse
    alarms = 0

    def restart_those_due(pane: int) -> int:
        evidence = processes.fine.sum(axis=(1, 2)) + processes.coarse.sum(axis=1)
        due = np.flatnonzero(evidence / 8 >= MEAN_PANES)
        for side in due:
            each = slice(int(side), int(side) + 1)
            assert processes.evidence(each) >= MEAN_PANES
            processes.restart_whole(each, pane)
        return due.size

    for pane in range(PANES):
        if pane and pane % processes.panes_an_hour == 0:
            processes.close_hour()
            alarms += restart_those_due(pane - 1)
        sums = pane_of(draw(rng, theta)[None], rows)
        processes.observe(pane, sums, sums.counts)
        alarms += restart_those_due(pane)
    allowed = LIVES * PANES / MEAN_PANES
    assert alarms <= allowed + 3 * np.sqrt(allowed)
    if draw is coin:
        assert alarms > allowed / 20  # the bound is not that of a process that never grows


@pytest.mark.parametrize("draw", [coin, spread])
@pytest.mark.parametrize("theta", [0.3, 0.93])
def test_an_e_value_is_at_most_one_on_average_whenever_it_is_read(draw: Draw, theta: float) -> None:
    """So a share of at most 1/e of segments without a change ever has an e-value of e."""
    rng = np.random.default_rng([77, round(100 * theta)])
    thetas = np.full((LIVES + 1, 1), theta)
    processes = Processes(thetas, 0, 3_600_000_000, 50)
    most = np.zeros(LIVES)
    for pane in range(200):
        z = np.concatenate(([theta], draw(rng, theta)))
        sums = pane_of(z[:, None], 1)
        processes.observe(pane, sums, sums.counts)
        most = np.maximum(most, processes.part_values(slice(0, 1))[1:])
    for level in (2, 5, 10):
        allowed = LIVES / level
        assert (most >= level).sum() <= allowed + 3 * np.sqrt(allowed)
    assert most.max() > 1


def test_named_segments_are_those_of_the_definition() -> None:
    """The largest set all of whose e-values are at least m / (rate x size), over all sets."""
    rng = np.random.default_rng(5)
    rate = Fraction(FALSE_DISCOVERY_RATE)
    for size in (1, 2, 5, 7):
        for _ in range(20):
            values = {f"k={each}": float(2 ** rng.normal(4, 2)) for each in range(size)}
            best: frozenset[str] = frozenset()
            for number in range(1, size + 1):
                for names in combinations(values, number):
                    if all(Fraction(values[each]) * rate * number >= size for each in names):
                        best = max(best, frozenset(names), key=len)
            found = named_segments(values)
            assert {each.segment for each in found} == best
            assert [each.e_value for each in found] == sorted(
                (values[each] for each in best), reverse=True
            )


def test_false_discoveries_are_as_rare_as_stated() -> None:
    """Of segments named, at most a tenth on average has not changed, where e-values are fair."""
    rng = np.random.default_rng(91)
    shares = []
    for _ in range(2_000):
        # 1/U has no mean, so (1/sqrt(U))/2, whose mean is 1.
        fair = 0.5 / np.sqrt(rng.random(20))
        values = {f"same={each}": float(e) for each, e in enumerate(fair)}
        values |= {f"worse={each}": float(e) for each, e in enumerate(rng.uniform(30, 300, 5))}
        found = named_segments(values)
        wrong = sum(each.segment.startswith("same") for each in found)
        shares.append(wrong / max(len(found), 1))
    assert 0 < np.mean(shares) <= FALSE_DISCOVERY_RATE


@pytest.mark.slow
def test_alarms_of_a_detector_without_a_change_are_fewer_than_stated() -> None:
    """Forty days of streams, with one false alarm in 12 hours allowed: 80."""
    alarms = 0
    for seed in range(500, 504):
        made = detector(
            ("ranking", "auc_roc", "calibration"),
            mean_time_to_false_alarm=timedelta(hours=12),
            tolerance=0.0,
        )
        feed(made, cases(seed, 240, an_hour=60))
        alarms += sum(1 + each.repeats for each in made.alarms)
    assert alarms <= 80
