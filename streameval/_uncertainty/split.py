"""One split of a series of figures: before which of them the level falls, and how evidently.

The split is chosen whose later mean is lower by the most standard errors, the maximum likelihood
estimate of one drop in otherwise constant figures.

- **More than chance.** The residuals from the two levels are summed in blocks of 1, 2, 4, ...
  figures, as long as there are `MIN_BLOCKS`. The greatest chi-square of these sums over its
  degrees of freedom inflates the variance: figures that vary more than their cases explain, or
  that depend on one another, are no evidence of a fall.
- **The p-value** allows for the choice: by the number of splits (Bonferroni), or by the supremum
  of a standardised Brownian bridge where that is smaller (Miller and Siegmund 1982, Biometrics
  38:1011-1016).
- **Where it may be** is the likelihood ratio's confidence set with the limits of Siegmund (1988,
  International Statistical Review 56:31-48): twice the log-likelihood that a split loses to the
  best one exceeds x with probability 1 - (1 - exp(-x/2))^2 where it is the true one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray

MAX_P_VALUE = 0.05
MIN_BLOCKS = 6
MIN_FIGURES = 3
"""Of two it is not known by how much more than chance they vary."""
_MIN_SUPREMUM = 1.5
"""The supremum's formula is of large deviations."""


class Split(NamedTuple):
    """Before which step the figures fall, from which to which it may be, and how evidently."""

    at: int
    first: int
    last: int
    difference: float
    p_value: float


def best_split(values: FloatArray, variances: FloatArray, level: float) -> Split | None:
    """Return the best split of figures; None where chance explains it. O(n log n)."""
    if not variances.min() > 0:
        return None
    # Parts of the greatest precision.
    weights = variances.min() / variances
    before, after = np.cumsum(weights)[:-1], np.cumsum(weights[::-1])[-2::-1]
    sums = weights * values
    levels = np.cumsum(sums)[:-1] / before, np.cumsum(sums[::-1])[-2::-1] / after
    difference = levels[1] - levels[0]
    z = difference / np.sqrt((1 / before + 1 / after) * variances.min())
    best = int(np.argmin(z))
    expected = np.where(np.arange(values.size) <= best, levels[0][best], levels[1][best])
    z /= math.sqrt(_inflation((values - expected) / np.sqrt(variances)))
    p_value = _p_value(-float(z[best]), before / after)
    if z[best] >= 0 or p_value >= MAX_P_VALUE:
        return None
    lost = -2 * math.log((1 - level) / (1 + math.sqrt(level)))  # 1 - sqrt(level), also near 1
    possible = np.flatnonzero((z < 0) & (z[best] ** 2 - z**2 <= lost)) + 1
    return Split(best + 1, int(possible[0]), int(possible[-1]), float(difference[best]), p_value)


def _inflation(residuals: FloatArray) -> float:
    """Return by how much steps and blocks of steps vary more than their cases explain. O(n)."""
    size, most, length = residuals.size, 1.0, 1
    while length == 1 or size // length >= MIN_BLOCKS:
        blocks = residuals[size % length :].reshape(-1, length).sum(axis=1) / math.sqrt(length)
        freedom = blocks.size - (2 if length == 1 else 1)  # two levels; blocks lie across both
        most = max(most, float(blocks @ blocks) / freedom)
        length *= 2
    return most


def _p_value(z: float, odds: FloatArray) -> float:
    """Return the probability of a best split by z, given the precision before each over after."""
    p_value = min(1.0, odds.size * math.erfc(z / math.sqrt(2)))
    if z > _MIN_SUPREMUM:
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        p_value = min(p_value, density * ((z - 1 / z) * math.log(odds[-1] / odds[0]) + 4 / z))
    return p_value
