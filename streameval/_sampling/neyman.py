"""Neyman's allocation (1934): cells cut into bands, and labels divided among bands.

A share `_EVEN_SHARE` of the labels is spread evenly: the standard deviations are estimates,
and where one is too small a case that proves it wrong would have a great weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray

_EVEN_SHARE = 0.25


def label_shares(counts: IntArray, spread: FloatArray | None) -> FloatArray:
    """Return the share of the labels that each cell or band is to get, with the sum 1. O(K).

    Parameters
    ----------
    counts : int64[K]
        Predictions that wait, 1 or more.
    spread : float64[K] or None
        The standard deviation of the gradient; where it is None, or 0 everywhere, labels
        are spread evenly.
    """
    even: FloatArray = counts / counts.sum()
    if spread is None or not spread.any():
        return even
    neyman = counts * spread
    shares: FloatArray = (1 - _EVEN_SHARE) * neyman / neyman.sum() + _EVEN_SHARE * even
    return shares


def runs_of(shares: FloatArray, number: int) -> IntArray:
    """Return the run of each cell: at most `number` of about equal shares, none empty. O(K)."""
    middle = np.cumsum(shares) - shares / 2
    quantiles = np.minimum((middle * number / shares.sum()).astype(np.int64), number - 1)
    runs: IntArray = np.unique(quantiles, return_inverse=True)[1]
    return runs


def best_cuts(costs: FloatArray, number: int) -> IntArray:
    """Return the first run of each band, of the cut with the least sum of costs.

    Parameters
    ----------
    costs : float64[n + 1, n + 1]
        At [i, j], i < j, the cost of a band of the runs i to j - 1.
    number : int
        Bands, at most n.

    Notes
    -----
    By dynamic programming: O(n^2 number).
    """
    size = costs.shape[0] - 1
    above = np.tril(np.full(costs.shape, np.inf))
    steps = costs + above
    least = steps[0]
    choices = []
    for _ in range(number - 1):
        sums = least[:, None] + steps
        choices.append(sums.argmin(axis=0))
        least = sums.min(axis=0)
    firsts, end = [], size
    for choice in reversed(choices):
        end = int(choice[end])
        firsts.append(end)
    return np.array([0, *reversed(firsts)], dtype=np.int64)


def apportion(shares: FloatArray, least: IntArray, most: IntArray, size: int) -> IntArray:
    """Return whole numbers in proportion to shares, from `least` to `most`, with a given sum.

    Parameters
    ----------
    shares : float64[n]
        Above 0.
    least, most : int64[n]
        1 or more, with sums of at most and of at least `size`.
    size : int

    Notes
    -----
    What exceeds a limit goes to the others, in proportion; fractions by largest remainder,
    the first of equal ones. O(n^2).
    """
    given = np.zeros(most.size)
    free = np.ones(most.size, dtype=np.bool_)
    while True:
        rest = size - given[~free].sum()
        wanted = shares * (rest / shares[free].sum()) if free.any() else given
        high, low = free & (wanted > most), free & (wanted < least)
        # Too much above the limits leaves more for the others, too little below less: the
        # larger of the two is settled first, and never has to be undone.
        excess = (wanted - most)[high].sum() - (least - wanted)[low].sum()
        settled = high if excess >= 0 and high.any() else low
        if not settled.any():
            break
        given[settled] = np.where(high, most, least)[settled]
        free &= ~settled
    given[free] = wanted[free]
    whole = np.clip(np.floor(given), least, most).astype(np.int64)
    while (left := size - int(whole.sum())) != 0:
        step = 1 if left > 0 else -1
        open_ = whole < most if step > 0 else whole > least
        gap = np.where(open_, step * (given - whole), -np.inf)
        whole[int(gap.argmax())] += step
    return whole
