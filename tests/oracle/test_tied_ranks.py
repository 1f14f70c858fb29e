"""The expected reciprocal rank inside a tie, from two cases to 10^18."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import nhypergeom

from streameval import Evaluator
from streameval._metrics.tied_ranks import expected_reciprocal_rank


@pytest.mark.parametrize("ahead", [0, 1, 5, 1000])
@pytest.mark.parametrize("p", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("n", [0, 1, 2, 30, 300])
def test_short_ties_match_the_sum_in_fractions(ahead: int, p: int, n: int) -> None:
    """Short ties equal the definition, summed in fractions."""
    ways = math.comb(p + n, p)
    exact = sum(Fraction(math.comb(p + n - k, p - 1), ways * (ahead + k)) for k in range(1, n + 2))
    assert math.isclose(expected_reciprocal_rank(ahead, p, n), exact, rel_tol=4e-15)


@pytest.mark.parametrize("ahead", [1, 100, 10**6])
@pytest.mark.parametrize("p", [1, 2, 3, 32, 33, 34, 400])
@pytest.mark.parametrize("n", [4095, 4096, 5000, 40000])
def test_long_ties_match_the_sum_in_fifty_digits(ahead: int, p: int, n: int) -> None:
    """Ties beyond the direct terms equal the whole sum, in 50-digit decimals."""
    with localcontext() as context:
        context.prec = 50
        probability, total = Decimal(p) / (p + n), Decimal(0)
        for k in range(1, n + 2):
            total += probability / (ahead + k)
            if k <= n:
                probability *= Decimal(n - k + 1) / (p + n - k)
    assert math.isclose(expected_reciprocal_rank(ahead, p, n), total, rel_tol=5e-14)


@pytest.mark.parametrize("p", [1, 2, 5, 32, 33, 34, 1000, 10**6, 10**9, 10**12])
@pytest.mark.parametrize("n", [10**4, 10**6, 10**9, 10**12, 10**15, 10**18])
def test_huge_ties_match_the_closed_form_at_the_top(p: int, n: int) -> None:
    """With nothing above it is p/(n+1) (H(p+n) - H(p-1)), for a tie of any length."""
    closed = Decimal(p) / (n + 1) * (harmonic(p + n) - harmonic(p - 1))
    assert math.isclose(expected_reciprocal_rank(0, p, n), closed, rel_tol=5e-14)


def test_scipy_agrees_on_the_distribution() -> None:
    """The place of the first positive is scipy's negative hypergeometric."""
    p, n, ahead = 6, 50, 4
    before = np.arange(n + 1)
    mean = np.sum(nhypergeom(p + n, n, 1).pmf(before) / (ahead + 1 + before))
    assert expected_reciprocal_rank(ahead, p, n) == pytest.approx(mean, rel=1e-12)


def test_an_evaluator_answers_for_a_tie_of_a_million_billion() -> None:
    """A first group of 10^15 tied negatives and one positive needs no more time or memory."""
    ev = Evaluator()
    ev.add_cases(labels=[0, 1, 0], scores=[0.9, 0.5, 0.5], counts=[3, 1, 10**15])
    n = 10**15
    expected = (harmonic(n + 4) - harmonic(3)) / (n + 1)  # uniform over places 4 .. n+4
    assert math.isclose(ev.reciprocal_rank(), expected, rel_tol=5e-14)
    assert ev.precision_at(n + 4) == 1 / (n + 4)
    assert ev.precision_at(4) == float(Fraction(1, (n + 1) * 4))


def harmonic(count: int) -> Decimal:
    """Return 1 + 1/2 + ... + 1/count to 40 digits."""
    with localcontext() as context:
        context.prec = 60
        if count < 2000:
            return sum((Decimal(1) / k for k in range(1, count + 1)), Decimal(0))
        x = Decimal(count)
        gamma = Decimal("0.57721566490153286060651209008240243104215933593992359880577")
        tail = 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)
        tail += 1 / (240 * x**8) - Decimal(1) / (132 * x**10)
        return x.ln() + gamma + tail
