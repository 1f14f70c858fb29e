"""The limits that areas share, against the same formulas a group at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streameval import Evaluator
from streameval._uncertainty.cell_limits import CellLimits
from streameval._uncertainty.cell_orders import hidden_groups


def counted(seed: int) -> Evaluator:
    """Return cells on both sides of the diagonal, some of a single case."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([5, 60, 900]))
    labels = rng.random(size) < rng.choice([0.03, 0.5, 0.97])
    evaluator = Evaluator(resolution=int(rng.choice([2, 5, 8])))
    evaluator.add_cases(labels=labels, scores=rng.normal(labels * rng.choice([0.0, 1.5])))
    evaluator.add_cases(labels=[1, 0], scores=[0.3, -0.3])
    return evaluator


def gain(tp: float, last: float, least: float, most: float, case: float) -> float:
    """Return the integral of the greatest y/(x + y)^2 over a cell's positives."""
    start, end = max(tp, case), max(last, case)
    low, high = (min(max(y, start), end) for y in (least, most))
    total = least * (low - start) / ((start + least) * (low + least))
    total += math.log(high / low) / 4
    total += most * (end - high) / ((high + most) * (end + most))
    return total + (0.25 if tp == 0 else 0.0)


def loss(tp: float, last: float, fp: float) -> float:
    """Return the integral of the greatest x/(x + y)^2 over a cell's positives."""
    peak = min(max(fp, tp), last)
    total = (peak - tp) * peak / (peak + fp) ** 2
    return total + math.log((last + fp) / (peak + fp)) + fp / (last + fp) - fp / (peak + fp)


@pytest.mark.parametrize("weight", [1.0, 0.3, 40.0])
@pytest.mark.parametrize("seed", range(12))
def test_limits_are_the_integrals_of_each_group(seed: int, weight: float) -> None:
    """Also where a term is 0 and is left out."""
    view = counted(seed)._view()
    groups = view.groups
    limits = CellLimits.of(groups, hidden_groups(view), weight, 1.0)
    columns = zip(*(each.tolist() for each in (groups.p, groups.n, groups.tp, groups.fp)))
    for row, (p, n, tp, fp) in enumerate(columns):
        least, most, last = weight * fp, weight * fp + weight * n, tp + p
        want = {
            "least_gain": p * min(least / (last + least) ** 2, most / (last + most) ** 2),
            "greatest_gain": gain(tp, last, least, most, 1.0),
            "greatest_below": loss(tp, last, max(least, weight)),
            "greatest_own": loss(tp, last, least + weight),
        }
        found = {name: float(getattr(limits, name)[row]) for name in want}
        assert found == pytest.approx(want, rel=1e-12, abs=1e-15)
    assert limits.ties.tolist() == np.flatnonzero(groups.p + groups.n == 1).tolist()


def test_a_far_prevalence_hides_no_more_than_the_order() -> None:
    """With 8 bits at a thousandth the interval is hardly wider than with exact scores."""
    rng = np.random.default_rng(0)
    labels = np.arange(6_600) < 600
    scores, widths = rng.standard_t(3, 6_600) + 3 * labels, []
    for resolution in (None, 8):
        evaluator = Evaluator(resolution=resolution)
        evaluator.add_cases(labels=labels, scores=scores)
        widths.append(evaluator.interval("average_precision", prevalence=0.001).width)
    assert widths[0] <= widths[1] <= 1.1 * widths[0]


@pytest.mark.parametrize("prevalence", [None, 0.2])
@pytest.mark.parametrize("seed", range(8))
def test_intervals_are_the_same_in_any_order_of_the_areas(
    seed: int, prevalence: float | None
) -> None:
    """To the bit: what the first area leaves for the second is what each computes alone."""
    names = ("auc_pr", "average_precision")
    evaluators = [counted(seed) for _ in range(4)]
    for misses in (0, 2):
        for each in evaluators:
            each.add_misses(misses)
        alone = {
            name: tuple(each.interval(name, prevalence=prevalence))
            for each, name in zip(evaluators[:2], names, strict=True)
        }
        for each, order in zip(evaluators[2:], (names, names[::-1]), strict=True):
            found = {name: tuple(each.interval(name, prevalence=prevalence)) for name in order}
            assert repr(sorted(found.items())) == repr(sorted(alone.items()))
