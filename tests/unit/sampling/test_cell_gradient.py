"""The gradient by cell: finite differences of the metric, spreads by brute force."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from streameval import Evaluator
from streameval._sampling.cell_gradient import CellGradient, cell_gradient
from streameval.kernel import quantise
from streameval.statistics import BY_NAME

CELLS = np.array([0.125, 0.25, 0.5, 0.625, 0.75])
COUNTS = np.array([40, 30, 20, 10, 6])


def pilot() -> Evaluator:
    """Return cases of two runs of score with the shares 1/10 and 2/3 of positives, and misses."""
    ev = Evaluator()
    ev.add_cases(
        labels=[1] * 4 + [0] * 36 + [1] * 12 + [0] * 6,
        scores=np.repeat([0.125, 0.25, 0.625, 0.75], [20, 20, 9, 9]),
    )
    ev.add_misses(2)
    return ev


def found(metric: str, **arguments: float) -> CellGradient:
    gradient = cell_gradient(pilot()._view(), CELLS, COUNTS, BY_NAME[metric], arguments)
    assert gradient is not None
    return gradient


@pytest.mark.parametrize(
    ("metric", "arguments"),
    [
        ("auc_roc", {}),
        ("auc_pr", {}),
        ("auc_pr", {"prevalence": 0.3}),
        ("average_precision", {}),
        ("auc_prg", {}),
        ("precision", {"threshold": 0.5}),
        ("brier_score", {}),
        ("prevalence", {}),
    ],
)
def test_a_label_moves_the_metric_as_the_gradient_says(
    metric: str, arguments: dict[str, float]
) -> None:
    """Of the window with its expected counts, one label more of each class at each score.

    Counts are multiplied by 4,000 and rounded, so that one case is a small step.
    """
    gradient = found(metric, **arguments)
    base = pilot()._view().counts
    scale = 4_000

    def value(cell: int | None = None, label: int = 0) -> float:
        ev = Evaluator()
        columns = {1: base.positives, 0: base.negatives}
        for each, run in columns.items():
            at = np.zeros(CELLS.size)
            at[np.searchsorted(CELLS, run.scores)] = run.multiplicities()
            share = gradient.share if each else 1 - gradient.share
            whole = np.rint((at + share * COUNTS) * scale).astype(np.int64)
            if cell is not None and each == label:
                whole[cell] += scale // 20
            ev.add_cases(
                labels=np.full(whole.sum(), each, dtype=bool), scores=np.repeat(CELLS, whole)
            )
        ev.add_misses(2 * scale)
        return float(BY_NAME[metric].function(ev, **arguments))

    middle = value()
    for label, derivative in ((1, gradient.positive), (0, gradient.negative)):
        moved = np.array([(value(cell, label) - middle) * 20 for cell in range(CELLS.size)])
        assert moved == pytest.approx(derivative, rel=2e-2, abs=2e-6)


def test_the_share_is_that_of_the_labelled_around() -> None:
    """By brute force: sixteenths of both classes, smoothed twice, with two cases of all."""
    positives, negatives = np.array([4, 0, 0, 9, 3]), np.array([16, 20, 0, 0, 6])
    runs, placed = {1: [Fraction(0)] * 16, 0: [Fraction(0)] * 16}, []
    before = Fraction(0)
    for p, n in zip(positives.tolist(), negatives.tolist(), strict=True):
        mass = Fraction(p, 16) + Fraction(n, 42)
        run = min(int((before + mass / 2) * 8), 15)
        placed.append(run)
        runs[1][run] += p
        runs[0][run] += n
        before += mass
    for sums in runs.values():
        for _ in range(2):
            padded = [sums[0], *sums, sums[-1]]
            sums[:] = [(padded[i] + 2 * padded[i + 1] + padded[i + 2]) / 4 for i in range(16)]
    prior = 2 * Fraction(16, 58)
    expected = [(runs[1][run] + prior) / (runs[1][run] + runs[0][run] + 2) for run in placed]
    assert found("auc_roc").share == pytest.approx([float(each) for each in expected], rel=1e-12)


def test_the_spread_of_a_band_is_that_of_its_cases() -> None:
    """Against the standard deviation of a column with every case of a band in it."""
    gradient = CellGradient(
        positive=np.array([0.5, 0.25, -1.0, 2.0]),
        negative=np.array([-0.5, 0.75, 0.0, 1.0]),
        share=np.array([0.25, 0.5, 0.1, 0.9]),
    )
    counts, runs = np.array([4, 6, 10, 20]), np.array([0, 0, 1, 2])

    def cases(cells: list[int]) -> np.ndarray:
        columns = []
        for cell in cells:
            positives = round(counts[cell] * gradient.share[cell])
            columns += [gradient.positive[cell]] * positives
            columns += [gradient.negative[cell]] * (counts[cell] - positives)
        return np.array(columns)

    costs = gradient.band_costs(runs, counts, 3)
    first_cell = [0, 2, 3, 4]
    for start, end in itertools.combinations(range(4), 2):
        column = cases(list(range(first_cell[start], first_cell[end])))
        assert costs[start, end] == pytest.approx(column.size * column.std(), rel=1e-12)
    assert not np.tril(costs).any()
    by_cell = [cases([cell]).std() for cell in range(4)]
    assert gradient.spread() == pytest.approx(by_cell, rel=1e-12)


def test_without_a_class_there_is_no_gradient() -> None:
    """Misses are no labels of scores: with these alone nothing is known either."""
    ev = Evaluator()
    ev.add_misses(5)
    ev.add_cases(labels=[0, 0], scores=[0.25, 0.5])
    cells = quantise(np.array([0.3]), 8, "plain")
    assert cell_gradient(ev._view(), cells, np.array([1]), BY_NAME["auc_roc"], {}) is None


@pytest.mark.parametrize("metric", ["auc_pr", "auc_roc", "average_precision", "prevalence"])
def test_as_many_cases_as_can_be_counted(metric: str) -> None:
    """The gradient of 2**61 times the cases is that of the cases divided by 2**61."""
    small, large = Evaluator(), Evaluator()
    counts = [3, 2, 2, 1]
    for ev, times in ((small, 1), (large, 2**58)):
        ev.add_cases(
            labels=[1, 0, 1, 0],
            scores=[0.75, 0.625, 0.25, 0.125],
            counts=[each * times for each in counts],
        )
    several = np.array([0, 0, 0, 0, 0])
    few, many = (
        cell_gradient(ev._view(), CELLS, several, BY_NAME[metric], {}) for ev in (small, large)
    )
    assert few is not None
    assert many is not None
    assert many.positive * 2**58 == pytest.approx(few.positive, rel=1e-9)
    assert many.negative * 2**58 == pytest.approx(few.negative, rel=1e-9)
