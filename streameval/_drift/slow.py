"""Dependence over hours in a reference: the variance of batches of 1, 6 and 24 hours.

Where panes do not depend on one another, the variance of a mean is the same whether panes, hours
or days are its blocks. One that grows with the blocks is of panes that depend on one another; from
one hour to the next that drowns in noise, over a day it does not. Then the longest batches give
the standard error. Only additions, multiplications, divisions and square roots are used, which
are the same on every machine, because the state of a detector depends on it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

HOURS: Final = (1, 6, 24)
MIN_BATCHES: Final = 5
CORRELATION_TIMES: Final = 20
"""The fewest correlation times that a reference should last."""
_HOUR_US: Final = 3_600_000_000
_QUANTILE: Final = 2.3263478740408408
"""The normal quantile of 0.99: a batch that varies by more has a probability of 1 % by chance."""


class SlowDependence(NamedTuple):
    """How panes depend on one another.

    Attributes
    ----------
    hours : int
        The length of the batches whose variance counts.
    ratio : float
        That variance over the variance without dependence.
    times : float
        How many correlation times the reference lasts; 0 where variance grows as batches do.
    """

    hours: int
    ratio: float
    times: float

    @property
    def warning(self) -> str:
        """What it says to people, and what to do."""
        text = (
            "cases of the reference depend on one another over hours: its standard error is the "
            f"one of batches of {self.hours} hours, {math.sqrt(self.ratio):.1f} times as large"
        )
        if self.times >= CORRELATION_TIMES:
            return text
        return (
            f"{text}, and it lasts fewer than {CORRELATION_TIMES} correlation times: it is too "
            "short to know the mean; take a longer reference"
        )


def variance_of_sums(residuals: Collection[int], unit: int) -> float:
    """Return the variance of a ratio of sums over blocks (Cochran 1977). O(blocks).

    Parameters
    ----------
    residuals
        Of each block, the distance of its sum from the mean's.
    unit
        Of their squares.
    """
    number = len(residuals)
    return number / (number - 1) * (sum(each**2 for each in residuals) / unit)


class BatchRatio(NamedTuple):
    """How much batches of some hours vary.

    Attributes
    ----------
    hours : int
    ratio : float
        The variance of the mean with the batches as blocks, over the one without dependence.
    batches : int
        How many there are.
    """

    hours: int
    ratio: float
    batches: int

    @property
    def is_more(self) -> bool:
        """Whether that is more than chance."""
        return self.ratio > most_by_chance(self.batches - 1)


def batch_ratios(timed: Sequence[tuple[int, int]], unit: int, variance: float) -> list[BatchRatio]:
    """Return how much batches vary, of each length with enough of them. O(panes).

    Parameters
    ----------
    timed
        Of each pane, its start in microseconds and its residual.
    unit
        As `variance_of_sums`.
    variance
        Without dependence between panes.
    """
    found = []
    for hours in HOURS:
        batches: dict[int, int] = {}
        for start_us, residual in timed:
            batch = start_us // (hours * _HOUR_US)
            batches[batch] = batches.get(batch, 0) + residual
        if len(batches) >= MIN_BATCHES:
            ratio = variance_of_sums(batches.values(), unit) / variance if variance else 0.0
            found.append(BatchRatio(hours, ratio, len(batches)))
    return found


def slow_dependence(
    timed: Sequence[tuple[int, int]], unit: int, variance: float
) -> SlowDependence | None:
    """Return how panes depend on one another over hours; None where they may not. O(panes).

    The arguments are as of `batch_ratios`.
    """
    found = batch_ratios(timed, unit, variance)
    if len(found) < 2:
        return None
    before, short = found[-2][:2]
    hours, ratio, _ = found[-1]
    # A cycle within a day makes hours vary, and days not.
    if not any(each.is_more and ratio >= each.ratio > 1 for each in found):
        return None
    # The excess of a batch of h hours is about h/(h + 2 t), of a correlation time t.
    share = max(short - 1, 0.0) / (ratio - 1)
    excess = share * hours - before
    time = before * hours * max(1 - share, 0.0) / (2 * excess) if excess > 0 else math.inf
    lasts = (timed[-1][0] - timed[0][0]) / _HOUR_US
    return SlowDependence(hours, ratio, lasts / time if time else math.inf)


def most_by_chance(freedom: int) -> float:
    """Return the quantile of chi-square over its degrees of freedom (Wilson and Hilferty 1931)."""
    share = 2 / (9 * freedom)
    root = 1 - share + _QUANTILE * math.sqrt(share)
    return root * root * root
