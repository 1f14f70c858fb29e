"""Gradients of metrics against differences of their definitions, in 60 decimal digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest

from streameval import Evaluator
from streameval._metric_registry import METRICS
from streameval._metrics.gradients import cells_of
from streameval._metrics.rate_gradients import calibration_error_gradient
from streameval.statistics import BY_NAME

D = Decimal
STEP = D(10) ** -15
MISSES = D("-Infinity")


# --- Definitions over cells: (score, positives, negatives), best first, the misses last -----------


def totals(cells):
    return sum(p for _, p, _ in cells), sum(n for _, _, n in cells)


def weight_of(cells, prevalence):
    P, N = totals(cells)
    return D(1) if prevalence is None else P / N * (1 - prevalence) / prevalence


def auc_roc(cells):
    P, N = totals(cells)
    above = area = D(0)
    for _, p, n in cells:
        area += n * (above + p / 2)
        above += p
    return area / (P * N)


def average_precision(cells, prevalence=None):
    P, _ = totals(cells)
    weight = weight_of(cells, prevalence)
    tp = fp = area = D(0)
    for score, p, n in cells:
        tp, fp = tp + p, fp + n * weight
        if score != MISSES:
            area += p * tp / (tp + fp)
    return area / P


def auc_pr(cells, prevalence=None):
    """Integrate the interpolated curve: (tp + s p)/(tp + s p + fp + s n) over each cell."""
    P, _ = totals(cells)
    weight = weight_of(cells, prevalence)
    tp = fp = area = D(0)
    for _, p, n in cells:
        above, grown = tp + fp, p + n * weight
        area += p * p / grown
        if above:
            area += p * (tp - above * p / grown) / grown * ((above + grown) / above).ln()
        tp, fp = tp + p, fp + n * weight
    return area / P


def auc_pr_normalized(cells):
    P, N = totals(cells)
    least = 1 - (1 + P / N).ln() / (P / N)
    return (auc_pr(cells) - least) / (1 - least)


def auc_prg(cells):
    P, N = totals(cells)
    start = P * P / (P + N)
    points = []
    tp = fp = D(0)
    for _, p, n in cells:
        if tp + p > start:
            if not points:
                share = (start - tp) / p
                points.append((start, fp + share * n))
            points.append((tp + p, fp + n))
        tp, fp = tp + p, fp + n
    gains = [(1 - P / N * (P / x - 1), 1 - P / N * y / x) for x, y in points]
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(gains))


def at(cells, threshold):
    tp = sum(p for score, p, _ in cells if score >= threshold)
    return D(tp), D(sum(n for score, _, n in cells if score >= threshold))


def precision(cells, threshold):
    tp, fp = at(cells, threshold)
    return tp / (tp + fp)


def recall(cells, threshold):
    return at(cells, threshold)[0] / totals(cells)[0]


def fpr(cells, threshold):
    return at(cells, threshold)[1] / totals(cells)[1]


def specificity(cells, threshold):
    return 1 - fpr(cells, threshold)


def f_measure(cells, threshold):
    tp, fp = at(cells, threshold)
    return 2 * tp / (totals(cells)[0] + tp + fp)


def flagged_share(cells, threshold):
    return sum(at(cells, threshold)) / sum(totals(cells))


def expected_cost(cells, threshold, cost_fp, cost_fn):
    tp, fp = at(cells, threshold)
    return (cost_fp * fp + cost_fn * (totals(cells)[0] - tp)) / sum(totals(cells))


def prevalence(cells):
    P, N = totals(cells)
    return P / (P + N)


def mean(cells, of_positive, of_negative):
    scored = [cell for cell in cells if cell[0] != MISSES]
    value = sum(
        (p * of_positive(s) if p else 0) + (n * of_negative(s) if n else 0) for s, p, n in scored
    )
    return value / sum(totals(scored))


def brier_score(cells):
    return mean(cells, lambda s: (1 - s) ** 2, lambda s: s**2)


def log_loss(cells):
    return mean(cells, lambda s: -s.ln(), lambda s: -(1 - s).ln())


def calibration_error(cells):
    scored = [cell for cell in cells if cell[0] != MISSES]
    gaps = [D(0)] * 10
    for s, p, n in scored:
        place = max(int((s * 10).to_integral_value(rounding="ROUND_CEILING")) - 1, 0)
        gaps[place] += s * (p + n) - p
    return sum(map(abs, gaps)) / sum(totals(scored))


def observed_expected_ratio(cells):
    scored = [cell for cell in cells if cell[0] != MISSES]
    return sum(p for _, p, _ in scored) / sum(s * (p + n) for s, p, n in scored)


DEFINITIONS = {
    name: globals()[name]
    for name in (
        *("auc_roc", "average_precision", "auc_pr", "auc_pr_normalized", "auc_prg"),
        *("precision", "recall", "fpr", "specificity", "f_measure", "flagged_share"),
        "expected_cost",
        *("prevalence", "brier_score", "log_loss"),
        *("calibration_error", "observed_expected_ratio"),
    )
}


# --- The comparison -------------------------------------------------------------------------------


def differences(cells, define, column):
    """Return the central differences by the positives (1) or negatives (2) of each cell."""
    found = []
    for row in range(len(cells)):
        values = []
        for step in (STEP, -STEP):
            moved = [list(cell) for cell in cells]
            moved[row][column] += step
            values.append(define(moved))
        found.append(float((values[0] - values[1]) / (2 * STEP)))
    return found


def random_evaluator(rng):
    """Return an evaluator of probabilities with ties, misses and cells of one class."""
    ev = Evaluator()
    size = int(rng.integers(1, 14))
    scores = rng.choice(np.array([3, 11, 17, 29, 44, 58, 63, 71, 86, 97]) / 128, size)
    labels = rng.random(size) < 0.5
    labels[0] = True
    ev.add_cases(labels=labels, scores=scores)
    ev.add_case(False, float(scores[-1]))
    if rng.random() < 0.5:
        ev.add_misses(int(rng.integers(1, 4)))
    if rng.random() < 0.5:
        ev.add_negative_misses(int(rng.integers(1, 4)))
    return ev


ONE_CELL = Evaluator()
ONE_CELL.add_cases(labels=[1, 1, 0, 1, 0], scores=[0.25] * 5)
PERFECT = Evaluator()
PERFECT.add_cases(labels=[1, 1, 1, 0, 0, 0, 0], scores=[0.9, 0.8, 0.7, 0.3, 0.25, 0.15, 0.12])

_RNG = np.random.default_rng(41)
EVALUATORS = [ONE_CELL, PERFECT, *(random_evaluator(_RNG) for _ in range(25))]


def arguments_of(metric):
    if metric.needs:
        costs = {"cost_fp": 0.75, "cost_fn": 6.0} if metric.is_cost else {}
        return [{"threshold": 0.3, **costs}, {"threshold": 29 / 128, **costs}]
    return [{}, {"prevalence": 0.02}, {"prevalence": 0.7}] if metric.is_rescaled else [{}]


def exact_cells(ev):
    """Return the cells of an evaluator as exact numbers."""
    cells = cells_of(ev._view())
    columns = cells.scores.tolist(), cells.p.tolist(), cells.n.tolist()
    return [(D(score), D(p), D(n)) for score, p, n in zip(*columns, strict=True)]


def compare(ev, define, gradient):
    """Compare the derivatives by every count with differences."""
    with localcontext() as context:
        context.prec = 60
        for column, found in ((1, gradient.positive), (2, gradient.negative)):
            expected = differences(exact_cells(ev), define, column)
            assert found.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", [metric.name for metric in METRICS if metric.gradient])
@pytest.mark.slow
def test_gradients_are_the_differences_of_the_definition(name):
    """By every count of every cell: ties, misses, cells of one class, one cell."""
    metric = BY_NAME[name]
    compared = 0
    for ev in EVALUATORS:
        for arguments in arguments_of(metric):
            if metric.needs and ev.confusion_at(arguments["threshold"]).tp == 0:
                continue
            exact = {key: D(value) for key, value in arguments.items()}
            gradient = metric.gradient(cells_of(ev._view()), **arguments)
            compare(ev, lambda cells, exact=exact: DEFINITIONS[name](cells, **exact), gradient)
            compared += 1
    assert compared > 20


def test_every_definition_is_the_metric():
    """The oracle of this test is what the library computes."""
    assert set(DEFINITIONS) == {metric.name for metric in METRICS if metric.gradient}
    for ev in EVALUATORS:
        cells = exact_cells(ev)
        for name, define in DEFINITIONS.items():
            for arguments in arguments_of(BY_NAME[name]):
                if BY_NAME[name].needs and ev.confusion_at(arguments["threshold"]).tp == 0:
                    continue
                exact = {key: D(value) for key, value in arguments.items()}
                value = BY_NAME[name].function(ev, **arguments)
                assert value == pytest.approx(float(define(cells, **exact)), rel=1e-12, abs=1e-13)


def test_the_gradient_of_the_calibration_error():
    """In ten bins of equal width, where no bin is calibrated exactly."""
    compared = 0
    for ev in EVALUATORS:
        table = ev.reliability(bins=10)
        if np.all(np.abs(table.mean_score - table.observed_rate) > 1e-9):
            compare(ev, calibration_error, calibration_error_gradient(cells_of(ev._view())))
            compared += 1
    assert compared > 20


def test_a_gradient_times_the_counts_is_zero_and_its_variance_that_of_the_interval():
    """Areas depend on ratios of counts only. The variances differ by P/(P - 1) and N/(N - 1)."""
    rng = np.random.default_rng(43)
    labels = rng.random(4_000) < 0.2
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=rng.normal(labels * 1.3))
    ev.add_misses(5)
    cells = cells_of(ev._view())
    for name in ("auc_roc", "auc_pr", "average_precision"):
        gradient = BY_NAME[name].gradient(cells)
        moved = float((cells.p * gradient.positive).sum() + (cells.n * gradient.negative).sum())
        assert abs(moved) < 1e-12
        figure = ev._figure(name, None)
        assert gradient.variance(cells) == pytest.approx(figure.variance, rel=2e-3)
