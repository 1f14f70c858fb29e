"""Logarithms, and the derivatives of areas in precision-recall space, against 60 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from streameval import Evaluator
from streameval._counts.groups import Groups
from streameval._metrics.influence import auc_pr_derivatives
from streameval._metrics.log_series import log_series
from streameval._metrics.pr_areas import closed_area
from streameval._uncertainty.estimates import figure_of

DIGITS = 60
NAMES = ("auc_pr", "average_precision", "auc_roc")


def pairs():
    """Return growths of all sizes, and some next to the limits between two formulas."""
    rng = np.random.default_rng(5)
    start = np.concatenate((10 ** rng.uniform(-3, 9, 1_400), np.ones(40)))
    z = np.concatenate(([0.01, 1 / 3], rng.uniform(0.009, 0.011, 19), rng.uniform(0.3, 0.4, 19)))
    growth = np.concatenate((10 ** rng.uniform(-3, 9, 1_400), 2 * z / (1 - z)))
    return start, growth


@pytest.mark.parametrize("rows", [slice(None), slice(700, None)], ids=["long", "short"])
def test_series_are_right_to_the_last_digits(rows):
    """z, and S as part of log1p: an error of S counts by its effect on the sum with 1."""
    start, growth = (column[rows] for column in pairs())
    ends_sum, z, tail = log_series(start, growth)
    with localcontext(prec=DIGITS):
        for row in range(start.size):
            a, s = Decimal(start[row].item()), Decimal(growth[row].item())
            exact_z = s / (a + a + s)
            exact = ((1 + s / a).ln() / (2 * exact_z) - 1) / exact_z**2
            assert float(Decimal(ends_sum[row].item()) / (a + a + s) - 1) == pytest.approx(
                0, abs=5e-16
            )
            assert float(Decimal(z[row].item()) / exact_z - 1) == pytest.approx(0, abs=5e-16)
            error = float((Decimal(tail[row].item()) - exact) * min(exact_z**2, exact_z))
            assert error == pytest.approx(0, abs=1e-15 * float(1 + exact_z**2 * exact))


def test_areas_of_pieces_are_right_to_the_last_digits():
    """Also for growth that is far greater, or far smaller, than the count above."""
    rng = np.random.default_rng(8)
    columns = (10 ** rng.uniform(0, 16, (4, 500))).astype(np.int64).astype(np.float64)
    with localcontext(prec=DIGITS):
        for row in range(500):
            one = columns[:, row : row + 1]
            T, F, P, N = (Decimal(int(value[0])) for value in one)
            x = (P + N) / (T + F)
            log = (1 + x).ln()
            exact = P / (P + N) * (P * (1 - log / x) + T * log)
            assert float(Decimal(closed_area(*one)) / exact - 1) == pytest.approx(0, abs=1.5e-15)


def test_certainty_does_not_scatter():
    """A perfect ranking has no variance with any ties; average precision agrees."""
    rng = np.random.default_rng(9)
    for _ in range(50):
        size = int(rng.integers(2, 300))
        evaluator = Evaluator()
        evaluator.add_cases(labels=[1] * size, scores=rng.integers(1, 1 + size, size) * 1.0)
        evaluator.add_cases(labels=[0] * size, scores=-rng.random(size))
        estimates = [figure_of(evaluator._view().groups, name) for name in NAMES]
        assert [(each.estimate, each.variance) for each in estimates] == [(1.0, 0.0)] * len(NAMES)


def test_nothing_above_has_no_series():
    """At the top of a ranking the logarithm diverges; its substitute is 0."""
    ends_sum, z, tail = log_series(np.array([0.0, 0.0]), np.array([3.0, 1e-5]))
    assert (ends_sum.tolist(), z.tolist(), tail.tolist()) == ([3.0, 1e-5], [1.0, 1.0], [0.0, 0.0])


def test_derivatives_of_areas_are_right_to_the_last_digits():
    """The integrals of s^k/m and s^k/m^2 in closed form, where terms cancel each other."""
    rng = np.random.default_rng(6)
    p, n = (10 ** rng.uniform(0, 9, (2, 300))).astype(np.int64)
    tp, fp = (10 ** rng.uniform(0, 9, (2, 300))).astype(np.int64)
    groups = Groups(np.zeros(300), p, n, tp, fp, 0, 0, P=1 << 40, N=1 << 40)
    moved = auc_pr_derivatives(groups)
    with localcontext(prec=DIGITS):
        for row in range(300):
            P, N, T, F = (Decimal(int(column[row])) for column in (p, n, tp, fp))
            above, growth = T + F, P + N
            u = growth / above
            mean0 = (1 + u).ln() / u
            mean1 = (1 - mean0) / u
            square0 = 1 / (1 + u)
            square1 = (mean0 - square0) / u
            square2 = (mean1 - square1) / u
            expected = {
                "value": (T * mean0 + P * mean1) / above,
                "own_tp": P * (F * square1 + N * square2) / above**2,
                "own_fp": -P * (T * square1 + P * square2) / above**2,
                "per_tp": P * (F * square0 + N * square1) / above**2,
                "per_fp": -P * (T * square0 + P * square1) / above**2,
            }
            for name, exact in expected.items():
                got = Decimal(getattr(moved, name)[row].item())
                assert float(got / exact - 1) == pytest.approx(0, abs=5e-15), name
