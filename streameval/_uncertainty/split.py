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
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray

CYCLE_DAYS = 14
"""In fewer days a weekly cycle is not seen twice."""
MAX_P_VALUE = 0.05
MIN_BLOCKS = 6
MIN_FIGURES = 3
"""Of two it is not known by how much more than chance they vary."""
INSIDE = (0.0, 0.25, 0.5, 0.75)
"""The parts of a step after which a change in it may begin: it mixes the values of its step."""
SPLIT_LEVEL = 0.98
"""The nominal level of the places that are not excluded, after a detection; what it holds:
bench/verdict.py and tests/unit/drift."""
_MIN_SUPREMUM = 1.5
"""The supremum's formula is of large deviations."""


def unseen_cycle(span: timedelta) -> str | None:
    """Return the cycle that looks the same as a fall in so short a time; None of a long one."""
    if span < timedelta(days=2):
        return "less than two days: a daily cycle looks the same"
    if span < timedelta(days=CYCLE_DAYS):
        return "less than two weeks: a weekly cycle looks the same"
    return None


class Split(NamedTuple):
    """Before which step the figures fall, from which to which it may be, and how evidently.

    `error` is the standard error of the difference, for this split.
    """

    at: int
    first: int
    last: int
    difference: float
    p_value: float
    error: float


class SplitFits(NamedTuple):
    """What each place of a split says of each series.

    Attributes
    ----------
    differences, z : float64[C, P]
        After minus before, and the same in standard errors; 0 where a series has nothing on
        one side.
    """

    differences: FloatArray
    z: FloatArray


def fit_splits(
    values: FloatArray, precisions: FloatArray, inside: Sequence[float] = (0.0,)
) -> SplitFits:
    """Return how the levels differ at each place where they may part. O(C n len(inside)).

    Parameters
    ----------
    values, precisions : float64[C, n]
        Of C series of figures with the same steps; precisions are inverse variances, 0 where
        there is no figure.
    inside : sequence of float
        The parts of a step after which a split may lie, 0 and up to below 1. The figure of the
        step is then a mixture of both levels.

    Returns
    -------
    SplitFits
        Of P = (n - 1) len(inside) places: in and before the second step, then the third, ...

    Notes
    -----
    The regression on a step function, from the precisions and means before, in and after the
    step, by pairs: no sum loses the small differences of large ones.
    """
    scale = precisions.max(axis=1, keepdims=True)
    weights = precisions / np.where(scale > 0, scale, 1.0)
    sums = weights * values
    before, level_before = _means_up_to(sums, weights)
    after, level_after = (each[:, ::-1] for each in _means_up_to(sums[:, ::-1], weights[:, ::-1]))
    nothing = np.zeros((len(values), 1))
    before, level_before = before[:, :-1, None], level_before[:, :-1, None]
    after, level_after = (
        np.concatenate((each[:, 2:], nothing), axis=1)[..., None] for each in (after, level_after)
    )
    own, value = weights[:, 1:, None], values[:, 1:, None]
    late = 1.0 - np.asarray(inside)
    total = before + own + after
    spread = before * after + before * own * late**2 + own * after * (1 - late) ** 2
    moved = before * after * (level_after - level_before)
    moved = moved + before * own * late * (value - level_before)
    moved = moved + own * after * (1 - late) * (level_after - value)
    is_known = spread > 0
    spread = np.where(is_known, spread, 1.0)
    differences = np.where(is_known, moved / spread, 0.0)
    z = differences * np.sqrt(np.where(is_known, spread / total, 0.0) * scale[..., None])
    places = len(values), -1
    return SplitFits(differences.reshape(places), z.reshape(places))


def _means_up_to(sums: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weight and the mean of the figures up to each. O(n)."""
    known = np.cumsum(weights, axis=1)
    means: FloatArray = np.cumsum(sums, axis=1) / np.where(known > 0, known, 1.0)
    return known, means


class PossibleSplits(NamedTuple):
    """The places that are not excluded.

    Attributes
    ----------
    earliest, likeliest, latest : int
        Times: the limits, and of the best place.
    best : int
    possible : int64[n]
        Numbers of places.
    """

    earliest: int
    likeliest: int
    latest: int
    best: int
    possible: IntArray


def possible_splits(
    gains: FloatArray, starts: IntArray, ends: IntArray, level: float, *, first: int | None = None
) -> PossibleSplits:
    """Return the places at which levels may part; limits are a place wider on either side. O(n).

    Parameters
    ----------
    gains : float64[n len(INSIDE)]
        How much more likely two levels are than one, at the `INSIDE` places of each step.
    starts, ends : int64[n]
        Of the steps.
    level : float
        Nominal.
    first : int, optional
        When the first place may begin, if not at the first start.
    """
    steps, parts = np.divmod(np.arange(gains.size), len(INSIDE))
    times = starts[steps] + ((ends - starts)[steps] * np.asarray(INSIDE)[parts]).astype(np.int64)
    best = int(np.argmax(gains))
    possible = np.flatnonzero(gains[best] - gains <= loss_limit(level))
    earliest = np.append(starts[0] if first is None else first, times[:-1])
    latest = np.append(times[1:], ends[-1])
    limits = int(earliest[possible[0]]), int(times[best]), int(latest[possible[-1]])
    return PossibleSplits(*limits, best, possible)


def loss_limit(level: float) -> float:
    """Return what twice the log-likelihood of the true split loses to the best one at most."""
    # 1 - sqrt(level), also near 1
    return -2 * math.log((1 - level) / (1 + math.sqrt(level)))


def best_split(values: FloatArray, variances: FloatArray, level: float) -> Split | None:
    """Return the best split of figures; None where chance explains it. O(n log n)."""
    if not variances.min() > 0:
        return None
    fits = fit_splits(values[None], 1 / variances[None])
    difference, z = fits.differences[0], fits.z[0]
    best = int(np.argmin(z))
    weights = variances.min() / variances
    parts = np.arange(values.size) <= best, np.arange(values.size) > best
    lower, upper = (float(weights[part] @ values[part] / weights[part].sum()) for part in parts)
    residuals = (values - np.where(parts[0], lower, upper)) / np.sqrt(variances)
    z = z / math.sqrt(inflation_of(residuals))
    odds = np.cumsum(weights)[:-1] / np.cumsum(weights[::-1])[-2::-1]
    p_value = _p_value(-float(z[best]), odds)
    if z[best] >= 0 or p_value >= MAX_P_VALUE:
        return None
    possible = np.flatnonzero((z < 0) & (z[best] ** 2 - z**2 <= loss_limit(level))) + 1
    fall = float(difference[best])
    error = fall / float(z[best])
    return Split(best + 1, int(possible[0]), int(possible[-1]), fall, p_value, error)


def inflation_of(residuals: FloatArray) -> float:
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
