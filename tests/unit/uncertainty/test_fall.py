"""Since when a series is lower: against all splits by hand, and by simulation."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from streameval import Fall, InvalidInputError, find_fall

SEED = 20_243


def brute_fall(values, lower, upper, level: float = 0.95) -> Fall | None:
    """Return the best split by trying all, in fractions; the standard library's normal tail."""
    limit = Fraction(NormalDist().inv_cdf((1 + level) / 2))
    known = [
        (index, Fraction(value), (2 * limit / (Fraction(high) - Fraction(low))) ** 2)
        for index, (value, low, high) in enumerate(zip(values, lower, upper, strict=True))
        if not math.isnan(value) and high > low
    ]
    splits = []
    for place in range(1, len(known)):
        means, variances = [], []
        for part in (known[:place], known[place:]):
            weight = sum(each for *_, each in part)
            means.append(sum(value * each for _, value, each in part) / weight)
            variances.append(1 / weight)
        by = means[1] - means[0]
        splits.append((float(by) / math.sqrt(sum(variances)), float(by), known[place][0]))
    if not splits:
        return None
    z, by, index = min(splits)
    p_value = len(splits) * math.erfc(-z / math.sqrt(2))
    if z >= 0 or p_value >= 0.05:
        return None
    # Twice the log-likelihood lost is below x with probability (1 - exp(-x / 2))^2.
    possible = [at for other, _, at in splits
                if other < 0 and (1 - math.exp((other**2 - z**2) / 2)) ** 2 <= level]  # fmt: skip
    return Fall(index, min(possible), max(possible), by, p_value, level)


def series(rng: np.random.Generator, size: int, place: int, drop: float):
    """Return figures with their intervals, lower from a place on by `drop` standard errors."""
    widths = rng.uniform(0.02, 0.06, size)
    values = rng.normal(0.7, widths)
    values[place:] -= drop * 0.04
    limit = NormalDist().inv_cdf(0.975)
    return values, values - limit * widths, values + limit * widths


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.slow
def test_it_is_the_best_split_of_all(level: float) -> None:
    """Step, range, difference and p-value, in fractions; steps without a figure are left out."""
    rng = np.random.default_rng(SEED)
    found_some = 0
    for case in range(150):
        size = int(rng.integers(1, 25))
        values, lower, upper = series(rng, size, int(rng.integers(0, size)), rng.uniform(0, 5))
        if case % 3 == 0:
            values[rng.random(size) < 0.2] = math.nan
            lower[rng.random(size) < 0.2] = math.nan
        expected = brute_fall(values.tolist(), lower.tolist(), upper.tolist(), level)
        found = find_fall(values, lower, upper, level=level)
        assert (found is None) == (expected is None)
        if found and expected:
            found_some += 1
            assert (found.index, found.level) == (expected.index, level)
            assert (found.first, found.last) == (expected.first, expected.last)
            assert found.first <= found.index <= found.last
            assert found.difference == pytest.approx(expected.difference, rel=1e-9)
            assert found.p_value == pytest.approx(expected.p_value, rel=1e-6)
    assert found_some > 40


@pytest.mark.parametrize("narrow", [1e-3, 1e-9, 1e-17, 1e-60])
@pytest.mark.parametrize("place", [0, 5, 11])
def test_a_step_may_be_known_far_better_than_all_others(narrow: float, place: int) -> None:
    """Sums of precisions of any size, in fractions: none is lost beside a greater one."""
    rng = np.random.default_rng(SEED)
    values = np.repeat([0.0, -0.9] if place < 6 else [0.9, 0.0], 6) + rng.normal(0, 0.05, 12)
    values[place] = 0.0  # so that so narrow an interval has limits that differ
    widths = np.full(12, 0.2)
    widths[place] = narrow
    expected = brute_fall(values, values - widths / 2, values + widths / 2)
    found = find_fall(values, values - widths / 2, values + widths / 2)
    assert found is not None
    assert expected is not None
    assert (found.index, found.first, found.last) == (
        *(expected.index, expected.first, expected.last),
    )
    assert found.difference == pytest.approx(expected.difference, rel=1e-9)


@pytest.mark.parametrize("level", [5e-324, 1e-9, 1 - 2**-53])
def test_levels_near_0_and_1(level: float) -> None:
    """The narrowest intervals say nothing, the widest are as sure as they can be."""
    values = np.repeat([0.8, 0.2], 6)
    found = find_fall(values, values - 0.1, values + 0.1, level=level)
    assert (found is None) == (level < 0.5)
    assert found is None or found.first <= found.index == 6 <= found.last


@pytest.mark.parametrize("width", [5e-324, 1e-200, math.inf])
def test_widths_that_are_no_numbers_to_reckon_with_are_left_out(width: float) -> None:
    """Such a step is as one without an interval."""
    values = np.repeat([0.8, 0.2], 6)
    lower, upper = values - 0.1, values + 0.1
    expected = find_fall(np.delete(values, 3), np.delete(lower, 3), np.delete(upper, 3))
    values[3], lower[3], upper[3] = 0.0, 0.0, width
    found = find_fall(values, lower, upper)
    assert found is not None
    assert expected is not None
    assert (found.index, found.p_value) == (expected.index + 1, expected.p_value)


def test_constant_series_have_seldom_fallen() -> None:
    """At most one in twenty, as promised; in fact fewer."""
    rng = np.random.default_rng(SEED + 1)
    fell = sum(find_fall(*series(rng, 24, 0, 0.0)) is not None for _ in range(2_000))
    assert 5 < fell < 100


@pytest.mark.parametrize(("drop", "least"), [(1.5, 0.95), (3.0, 0.97)])
@pytest.mark.parametrize("place", [3, 12, 20])
@pytest.mark.slow
def test_the_range_holds_the_step_of_the_drop(place: int, drop: float, least: float) -> None:
    """Of those that are found, on seeds on which nothing was tuned; less 3 standard errors."""
    rng = np.random.default_rng(SEED + 2 + place)
    found = [find_fall(*series(rng, 24, place, drop)) for _ in range(1_500)]
    known = [each for each in found if each is not None]
    held = sum(each.first <= place <= each.last for each in known) / len(known)
    assert held > least - 3 * math.sqrt(0.05 * 0.95 / len(known))


def test_rises_and_short_series_have_not_fallen() -> None:
    """Nor what has no interval."""
    assert find_fall([0.5, 0.5, 0.9, 0.9], [0.4, 0.4, 0.8, 0.8], [0.6, 0.6, 1.0, 1.0]) is None
    assert find_fall([], [], []) is None
    assert find_fall([0.5], [0.4], [0.6]) is None
    assert find_fall([0.9, 0.1], [0.9, 0.1], [0.9, 0.1]) is None
    assert find_fall([0.9, math.nan], [0.8, 0.1], [1.0, 0.2]) is None


@pytest.mark.parametrize(
    ("arguments", "level", "problem"),
    [
        (([0.5], [0.4], [0.6]), 1.0, "level must be between 0 and 1, got 1.0"),
        (([0.5, 0.4], [0.4], [0.6]), 0.95, r"as long, got \(2,\), \(1,\), \(1,\)"),
        (([[0.5]], [[0.4]], [[0.6]]), 0.95, "must be one-dimensional"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple, level: float, problem: str) -> None:
    """With what was given."""
    with pytest.raises(InvalidInputError, match=problem):
        find_fall(*arguments, level=level)
