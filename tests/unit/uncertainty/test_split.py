"""The split of a series of figures: against all splits by hand, and by simulation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from streameval._uncertainty.split import Split, best_split

SEED = 20_243


def brute_split(values, variances, level: float = 0.95) -> Split | None:
    """Return the best split by trying all, in fractions; the standard library's normal tail."""
    size = len(values)
    figures = [Fraction(each) for each in values]
    weights = [1 / Fraction(each) for each in variances]

    def mean_of(part: range) -> tuple[Fraction, Fraction]:
        weight = sum(weights[each] for each in part)
        return sum(weights[each] * figures[each] for each in part) / weight, weight

    splits = []
    for place in range(1, size):
        (low, before), (high, after) = mean_of(range(place)), mean_of(range(place, size))
        z = float(high - low) / math.sqrt(1 / before + 1 / after)
        splits.append((z, place, float(high - low), math.log(before / after)))
    _, at, by, _ = min(splits)
    levels = [mean_of(range(at))[0]] * at + [mean_of(range(at, size))[0]] * (size - at)
    residuals = [
        float(each - level) * math.sqrt(weight)
        for each, level, weight in zip(figures, levels, weights, strict=True)
    ]
    most, length = 1.0, 1
    while length == 1 or size // length >= 6:
        number = size // length
        ends = [size - length * back for back in range(number)]
        sums = [sum(residuals[end - length : end]) ** 2 / length for end in ends]
        most = max(most, sum(sums) / (number - (2 if length == 1 else 1)))
        length *= 2
    scaled = [(z / math.sqrt(most), place) for z, place, *_ in splits]
    z = min(scaled)[0]
    p_value = min(1.0, len(splits) * math.erfc(-z / math.sqrt(2)))
    if z < -1.5:
        odds = splits[-1][-1] - splits[0][-1]
        supremum = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * ((1 / z - z) * odds - 4 / z)
        p_value = min(p_value, supremum)
    if z >= 0 or p_value >= 0.05:
        return None
    # Twice the log-likelihood lost is below x with probability (1 - exp(-x / 2))^2.
    possible = [place for other, place in scaled
                if other < 0 and (1 - math.exp((other**2 - z**2) / 2)) ** 2 <= level]  # fmt: skip
    return Split(at, min(possible), max(possible), by, p_value, by / z)


def series(rng: np.random.Generator, size: int, place: int, drop: float):
    """Return figures and their variances, lower from a place on by `drop` standard errors."""
    errors = rng.uniform(0.02, 0.06, size)
    values = rng.normal(0.7, errors)
    values[place:] -= drop * 0.04
    return values, errors**2


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.slow
def test_it_is_the_best_split_of_all(level: float) -> None:
    """Where, from which to which, difference and p-value, in fractions."""
    rng = np.random.default_rng(SEED)
    found_some = 0
    for _ in range(120):
        size = int(rng.integers(3, 40))
        values, variances = series(rng, size, int(rng.integers(0, size)), rng.uniform(0, 5))
        expected = brute_split(values.tolist(), variances.tolist(), level)
        found = best_split(values, variances, level)
        assert (found is None) == (expected is None)
        if found and expected:
            found_some += 1
            assert found[:3] == expected[:3]
            assert found.first <= found.at <= found.last
            assert found.difference == pytest.approx(expected.difference, rel=1e-9)
            assert found.p_value == pytest.approx(expected.p_value, rel=1e-6)
            assert found.error == pytest.approx(expected.error, rel=1e-9)
    assert found_some > 40


@pytest.mark.parametrize("narrow", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("place", [0, 5, 11])
def test_a_figure_may_be_known_far_better_than_all_others(narrow: float, place: int) -> None:
    """Sums of precisions of any size, in fractions: none is lost beside a greater one."""
    rng = np.random.default_rng(SEED)
    values = np.repeat([0.0, -0.9] if place < 6 else [0.9, 0.0], 6) + rng.normal(0, 0.05, 12)
    values[place] = 0.0
    variances = np.full(12, 0.0025)
    variances[place] = narrow**2
    expected = brute_split(values, variances)
    found = best_split(values, variances, 0.95)
    assert found is not None
    assert expected is not None
    assert found[:3] == expected[:3]
    assert found.difference == pytest.approx(expected.difference, rel=1e-9)


@pytest.mark.parametrize("level", [5e-324, 1e-9, 1 - 2**-53])
def test_levels_near_0_and_1(level: float) -> None:
    """Whether there is a fall does not depend on it; the range is as sure as it can be."""
    values = np.repeat([0.8, 0.2], 6)
    found = best_split(values, np.full(12, 0.0025), level)
    assert found is not None
    assert found.first <= found.at == 6 <= found.last


def shares_that_fell(rng: np.random.Generator, size: int, noise: np.ndarray) -> float:
    """Return the share of constant series of unit variance plus some noise that have fallen."""
    values = rng.normal(size=noise.shape) + noise
    return np.mean([best_split(each, np.ones(size), 0.95) is not None for each in values])


@pytest.mark.parametrize("size", [6, 24, 96, 300])
def test_constant_series_have_seldom_fallen(size: int) -> None:
    """At most one in twenty, as promised; 0.6 to 2 %. Also if steps vary twice as much."""
    rng = np.random.default_rng(SEED + 1)
    assert shares_that_fell(rng, size, np.zeros((1_000, size))) < 0.03
    assert shares_that_fell(rng, size, rng.normal(size=(1_000, size))) < 0.08


@pytest.mark.parametrize("size", [48, 96])
def test_cycles_and_dependent_steps_seldom_look_like_a_fall(size: int) -> None:
    """Two days of a daily cycle, that end at its low; residuals that depend on one another.

    Without blocks of steps 90 and 65 % of the first fell, and 9 % of the second.
    """
    rng = np.random.default_rng(SEED + 2)
    night = -3.0 * ((np.arange(size) - size) % 24 >= 16)
    assert shares_that_fell(rng, size, np.tile(night, (500, 1))) < 0.03
    dependent = np.zeros((1_000, size))
    shocks = rng.normal(size=dependent.shape) * math.sqrt(0.75)
    for step in range(1, size):
        dependent[:, step] = 0.5 * dependent[:, step - 1] + shocks[:, step]
    assert shares_that_fell(rng, size, dependent) < 0.075


@pytest.mark.parametrize(("drop", "least"), [(1.5, 0.95), (3.0, 0.97)])
@pytest.mark.parametrize("place", [3, 12, 20])
@pytest.mark.slow
def test_the_range_holds_the_step_of_the_drop(place: int, drop: float, least: float) -> None:
    """It does in a share `least` of the splits found, less 3 standard errors; seeds are new."""
    rng = np.random.default_rng(SEED + 2 + place)
    found = [best_split(*series(rng, 24, place, drop), 0.95) for _ in range(1_500)]
    known = [each for each in found if each is not None]
    assert len(known) > 300
    held = sum(each.first <= place <= each.last for each in known) / len(known)
    assert held > least - 3 * math.sqrt(0.05 * 0.95 / len(known))


def test_rises_and_figures_without_variance_have_not_fallen() -> None:
    """Nor figures that do not differ."""
    values = np.repeat([0.5, 0.9], 6)
    assert best_split(values, np.full(12, 1e-4), 0.95) is None
    assert best_split(values[::-1], np.zeros(12), 0.95) is None
    assert best_split(np.full(12, 0.5), np.full(12, 1e-4), 0.95) is None
