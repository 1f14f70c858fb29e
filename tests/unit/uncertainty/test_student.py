"""Quantiles against scipy, which the library does not depend on."""

from __future__ import annotations

import doctest

import pytest
from scipy import stats

from streameval._uncertainty import student
from streameval._uncertainty.student import (
    anytime_quantile,
    normal_quantile,
    student_quantile,
    student_tail,
)

DEGREES = (
    0.5,
    1,
    2,
    3,
    4,
    5,
    7,
    10,
    19,
    30,
    99,
    150,
    250,
    300,
    500,
    999,
    3_760,
    9_999,
    10_000,
    10_001,
    50_000,
    10**6,
    10**12,
)
TAILS = (0.45, 0.3, 0.1, 0.05, 0.025, 0.005, 1e-4, 1e-6, 1e-9, 1e-12, 1e-16)


@pytest.mark.parametrize("df", DEGREES)
def test_student_quantile_is_scipys(df):
    """From 1 degree of freedom to where Student's t is the normal, far into the tail."""
    for tail in TAILS:
        assert student_quantile(tail, df) == pytest.approx(stats.t.isf(tail, df), rel=1e-9)


@pytest.mark.parametrize("df", [1, 4, 19, 500])
def test_student_tail_is_scipys(df):
    """The incomplete beta function agrees on both sides of its symmetry."""
    for t in (0.0, 0.01, 0.5, 1.0, 2.0, 10.0, 100.0):
        assert student_tail(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-10)


def test_fewer_degrees_than_one():
    """The expansion is not used where its sum is below zero."""
    assert student_quantile(0.45, 0.1) == pytest.approx(stats.t.isf(0.45, 0.1), rel=1e-9)


def test_quantile_of_the_middle_is_zero():
    """Half the probability lies above 0."""
    assert student_quantile(0.5, 7) == 0.0


def test_normal_quantile_is_scipys():
    """The standard library's inverse, from its accurate side."""
    for tail in TAILS:
        assert normal_quantile(tail) == pytest.approx(stats.norm.isf(tail), rel=1e-12)


@pytest.mark.parametrize("tail", [*TAILS, 0.2, 0.18])
def test_expansion_meets_the_fraction_where_they_change_over(tail):
    """No jump between the two methods, for any tail."""
    z = normal_quantile(tail)
    below, above = 1.0, 1e6
    while above - below > 1e-6:
        middle = (below + above) / 2
        ends = student._expansion(z, middle)[1] < student._MAX_EXPANSION_ERROR
        below, above = (below, middle) if ends else (middle, above)
    quantiles = student_quantile(tail, below), student_quantile(tail, above)
    assert quantiles[1] == pytest.approx(quantiles[0], rel=1e-10)


def test_anytime_quantile_is_wider_than_a_fixed_one():
    """An anytime interval is 1.5 to 2 times as wide, and its factor grows slowly."""
    for count in (50, 200, 1_000, 100_000, 10**7):
        ratio = anytime_quantile(0.05, count) / normal_quantile(0.025)
        assert 1.5 < ratio < 2.3
    assert anytime_quantile(0.01, 200) > anytime_quantile(0.05, 200)


def test_anytime_quantile_bounds_a_random_walk():
    """A standardised mean of normal values leaves the boundary in at most 5 % of walks, ever."""
    import numpy as np

    rng = np.random.default_rng(20261)
    walks = rng.standard_normal((1_000, 4_000)).cumsum(axis=1)
    counts = np.arange(1, 4_001)
    bound = np.array([anytime_quantile(0.05, int(count)) for count in counts]) * np.sqrt(counts)
    missed = (np.abs(walks) > bound).any(axis=1).mean()
    assert 0.005 < missed <= 0.05


def test_examples():
    """The docstrings' examples run."""
    assert doctest.testmod(student).failed == 0
