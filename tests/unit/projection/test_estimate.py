"""Projected counts against brute force in fractions, and their derivatives."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from streameval._projection.delay_counts import BUCKET_EDGES_US, NUM_BUCKETS
from streameval._projection.delay_model import NUM_BANDS, DelayModel
from streameval._projection.estimate import (
    COMPLEMENT_PREDICTIONS,
    COUNT_UNIT,
    STRATUM_PREDICTIONS,
    estimate_window,
)
from streameval._projection.label_table import LabelTable
from streameval.statistics import BY_NAME

from .streams import draw

HOUR_US = 3_600_000_000


def drawn_table(seed: int, *, negatives: float) -> LabelTable:
    """Return one mature pane, and a window of another whose delays are all over or not begun.

    Delays are a second for half of the labels and 100 hours for the others, panes last a
    millisecond, so that what has arrived is a whole number.
    """
    rng = random.Random(seed)
    cells = np.sort(np.array(rng.sample(range(1, 256), 60)) / 256)
    predictions = np.array([[rng.randrange(20, 60) for _ in cells] for _ in range(2)])
    rows = []
    for pane in range(2):
        for cell, number in enumerate(predictions[pane].tolist()):
            for _ in range(number):
                label = int(rng.random() < cells[cell])
                late = rng.random() < (0.5 if label else 1 - negatives)
                if rng.random() < 0.8 and (pane == 0 or not late):
                    rows.append((pane, cell, label, 70 if late else 3, 1))
    columns = np.array(rows).T
    now_us = 10**6 * HOUR_US
    starts = np.array([now_us - 10**5 * HOUR_US, now_us - HOUR_US])
    return LabelTable(cells, starts, starts + 1000, predictions, *columns, now_us)


def runs_of(predictions: list[int], number: int) -> list[int]:
    """Return the run of each cell by its middle rank."""
    total, above, runs = sum(predictions), 0, []
    for here in predictions:
        runs.append(int(Fraction(2 * above + here, 2 * total) * number))
        above += here
    return runs


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("negatives", [0.9, 0.1])
def test_projected_counts_are_those_of_fractions(  # noqa: C901 - the definition, once more
    seed: int, negatives: float
) -> None:
    """With many and with few negatives known, each cell's projected counts are exact."""
    table = drawn_table(seed, negatives=negatives)
    model = DelayModel.of(table, np.array([True, False]))
    found = estimate_window(table, model, np.array([1]), table.now_us, "probability")

    mature, window = (row.tolist() for row in table.predictions)
    band_of = runs_of(mature, NUM_BANDS)
    size = len(mature)
    counts = {
        (y, c, pane, late): 0
        for y in (0, 1)
        for c in range(size)
        for pane in (0, 1)
        for late in (0, 1)
    }
    for pane, cell, label, bucket in zip(
        table.pane, table.cell, table.label, table.bucket, strict=True
    ):
        counts[label, cell, pane, int(bucket > 3)] += 1
    bands = [[c for c in range(size) if band_of[c] == b] for b in range(NUM_BANDS)]

    def mature_labels(label: int, chosen: list[int]) -> tuple[int, int]:
        early, late = (sum(counts[label, c, 0, late] for c in chosen) for late in (0, 1))
        return early, late

    pools: dict[int, set[int]] = {}
    for y in (0, 1):
        numbers = [sum(mature_labels(y, cells)) for cells in bands]
        sparse = {b for b in range(NUM_BANDS) if numbers[b] < 30}
        if sparse and sum(numbers[b] for b in sparse) < 30:
            sparse.add(numbers.index(max(numbers)))
        pools[y] = sparse
    expected = {}
    for band, cells in enumerate(bands):
        labelled = sum(sum(mature_labels(y, cells)) for y in (0, 1))
        share = Fraction(labelled, sum(mature[c] for c in cells))
        arrived = {}
        for y in (0, 1):
            pool = [c for b in pools[y] for c in bands[b]] if band in pools[y] else cells
            early, late = mature_labels(y, pool)
            arrived[y] = share * Fraction(early, early + late)
        complement = arrived[0] < Fraction(3, 10)
        here = [window[c] for c in cells]
        number = max(
            1, sum(here) // (COMPLEMENT_PREDICTIONS if complement else STRATUM_PREDICTIONS)
        )
        strata = runs_of(here, number)
        for stratum in set(strata):
            members = [c for c, run in zip(cells, strata, strict=True) if run == stratum]
            total = sum(window[c] for c in members)
            e = {
                y: {
                    c: counts[y, c, 1, 0] / arrived[y] if arrived[y] else Fraction(0)
                    for c in members
                }
                for y in (0, 1)
            }
            if complement:
                rest = 1 - min(Fraction(1), sum(e[1].values()) / total)
                e[0] = {c: window[c] * rest for c in members}
                factor = Fraction(1)
            else:
                factor = total / (sum(e[0].values()) + sum(e[1].values()))
            for c in members:
                expected[c] = (e[0][c] * factor, e[1][c] * factor)
    for cell, pair in expected.items():
        assert found.projected[:, cell] == pytest.approx([float(each) for each in pair], abs=1e-9)
    state = found.window._view()
    positives = float(sum(p for _, p in expected.values()))
    counted = state.P / COUNT_UNIT
    assert counted == pytest.approx(positives, abs=1e-3)


def test_arrived_shares_are_those_of_a_simulation() -> None:
    """Uniform times in a pane and delays in a bucket, against a million draws."""
    rng = np.random.default_rng(3)
    start = np.array([0, 20 * HOUR_US])
    empty = np.zeros(0, dtype=np.int64)
    table = LabelTable(
        np.array([0.5]),
        start,
        start + 24 * HOUR_US,
        np.ones((2, 1), dtype=np.int64),
        empty,
        empty,
        empty,
        empty,
        empty,
        80 * HOUR_US,
    )
    shares = table.arrived_shares(np.array([0, 1]), 50 * HOUR_US)
    for bucket in (0, 30, 60, 65, 68, 70, 72, 80):
        lower, upper = BUCKET_EDGES_US[bucket : bucket + 2].tolist()
        for pane in (0, 1):
            made = start[pane] + rng.random(10**6) * 24 * HOUR_US
            known = made + lower + rng.random(10**6) * (upper - lower) <= 50 * HOUR_US
            assert shares[pane, bucket] == pytest.approx(known.mean(), abs=0.004)
    assert shares.shape == (2, NUM_BUCKETS)


@pytest.mark.parametrize("name", ["auc_roc", "auc_pr", "average_precision", "brier_score"])
@pytest.mark.parametrize("negatives", [0.9, 0.1])
def test_influences_are_differences(name: str, negatives: float) -> None:
    """The derivative by each label of the window is the difference that it makes."""
    table = drawn_table(5, negatives=negatives)
    # A hundred times the window's counts, so that one label is a small difference.
    inside = table.pane == 1
    table = replace(
        table,
        count=np.where(inside, 100 * table.count, table.count),
        predictions=table.predictions * np.array([[1], [100]]),
    )
    model = DelayModel.of(table, np.array([True, False]))
    metric = BY_NAME[name]
    found = estimate_window(table, model, np.array([1]), table.now_us, "probability")
    psi = found._influences(found.gradient_by_unit(metric, {}))
    rows = np.flatnonzero(inside)
    step = 20
    for row in rows[:: rows.size // 25].tolist():
        changed = []
        for sign in (-1, 1):
            count = table.count.copy()
            count[row] += sign * step
            moved = estimate_window(
                replace(table, count=count), model, np.array([1]), table.now_us, "probability"
            )
            changed.append(moved.value(metric, {}))
        label, cell = int(table.label[row]), int(table.cell[row])
        expected = psi[label, cell] / found.arrived[label, cell]
        difference = (changed[1] - changed[0]) / (2 * step)
        assert difference == pytest.approx(expected, rel=0.03, abs=2e-8)


def test_the_standard_error_is_that_of_the_final_value() -> None:
    """Errors have the size that the variance says: labels that are there have no variance."""
    errors, variances = [], []
    for seed in range(800, 900):
        stream = draw(seed, days_of_positive=1.5, per_day=250)
        projection = stream.projection
        metric = BY_NAME["average_precision"]
        estimate = projection._history.estimate(projection._panes, projection._table.now_us)
        errors.append(estimate.value(metric, {}) - stream.whole.average_precision())
        variances.append(estimate.variance(metric, {}))
    ratio = np.sqrt(np.mean(np.square(errors)) / np.mean(variances))
    assert abs(ratio - 1) < 4 / math.sqrt(2 * len(errors))
