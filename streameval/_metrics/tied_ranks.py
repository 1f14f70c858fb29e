"""Metrics at a rank, where the rank may fall inside a tie.

Tied cases have no order among themselves, so a metric at a rank inside their group is
its expectation over a uniformly random order of the group. For the number of positives
among the first k it is linear in k, a ratio of integers. For the reciprocal rank of the
first positive it is the expectation of 1/(r + K) with K negative-hypergeometric. The
first terms are summed directly and the rest by Euler-Maclaurin, so a tie of 10^15 cases
costs the same few thousand terms, with a relative error near 1e-13.
"""

from __future__ import annotations

import bisect
import operator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown

if TYPE_CHECKING:
    from typing import SupportsIndex

    from streameval._common.arrays import FloatArray
    from streameval._counts.groups import Groups

_MAX_DIRECT_TERMS = 4096
"""Terms that are summed directly; beyond them the terms are smooth in the rank."""
_MAX_NEGLIGIBLE_PROBABILITY = 1e-20
"""A probability up to this does not change a sum of doubles."""
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(16)


def check_rank(rank: SupportsIndex) -> int:
    """Return a rank as an int, or refuse it: a whole number, 0 or more."""
    try:
        value = operator.index(rank)
    except TypeError:
        value = -1
    if value < 0:
        message = f"rank must be an integer, 0 or more, got {shown(rank)}"
        raise InvalidInputError(message, field="rank")
    return value


def expected_positives(groups: Groups, rank: int) -> Fraction:
    """Return the expected number of positives among the first `rank` cases.

    Ranks beyond the last case add nothing. O(log G).
    """
    row = bisect.bisect_right(
        range(groups.scores.size), rank, key=lambda g: int(groups.tp[g]) + int(groups.fp[g])
    )
    if row == 0:
        return Fraction(0)
    row -= 1
    p, n = int(groups.p[row]), int(groups.n[row])
    above = int(groups.tp[row])
    inside = min(rank - above - int(groups.fp[row]), p + n)
    return above + Fraction(inside * p, p + n)


def expected_reciprocal_rank(ahead: int, p: int, n: int) -> float:
    """Return the expectation of 1/(rank of the first positive).

    Parameters
    ----------
    ahead : int
        Negatives that rank above the group, >= 0.
    p, n : int
        Positives (>= 1) and negatives (>= 0) of the group, in random order.

    Returns
    -------
    float
        Sum over k = 1..n+1 of P(K = k)/(ahead + k), where K is the place of the
        first positive in the group: P(K = k) = C(p+n-k, p-1)/C(p+n, p).

    Notes
    -----
    O(min(n, 4096)). With ``ahead = 0`` it is p/(n+1) (H(p+n) - H(p-1)), which
    the tests use as an independent check.

    Examples
    --------
    >>> expected_reciprocal_rank(0, 1, 1)  # first or second: (1 + 1/2)/2
    0.75
    >>> expected_reciprocal_rank(3, 2, 0)  # no negative in the tie: always rank 4
    0.25
    """
    places = np.arange(min(n + 1, _MAX_DIRECT_TERMS), dtype=np.float64)
    # P(K = k+1)/P(K = k) = (n-k+1)/(p+n-k), from P(K = 1) = p/(p+n).
    ratios = np.append(1.0, (n - places[:-1]) / (p + n - 1 - places[:-1]))
    probabilities = p / (p + n) * np.cumprod(ratios)
    total = float(np.sum(probabilities / (ahead + 1 + places)))
    if n + 1 > _MAX_DIRECT_TERMS and probabilities[-1] * n > _MAX_NEGLIGIBLE_PROBABILITY * p:
        total += _smooth_tail(ahead, p, n, _MAX_DIRECT_TERMS)
    return total


def _smooth_tail(ahead: int, p: int, n: int, done: int) -> float:
    """Sum the terms of places done+1 .. n+1 as an integral with its first correction.

    The sum over whole k from a to b is the integral from a - 1/2 to b + 1/2 minus
    1/24 of the change of the derivative between the ends; further corrections are
    below 1e-16 of the sum for a > 4096. The integral is in ln k, over panels that
    double in k, with 16 Gauss-Legendre nodes each.
    """
    start = done + 0.5
    # The probability beyond about 60 mean waiting times is negligible.
    end = min(n + 1.5, start + 60.0 * (p + n) / p)
    count = max(1, int(np.ceil(np.log2(end / start))))
    edges = np.linspace(np.log(start), np.log(end), count + 1)
    half = np.diff(edges)[:, np.newaxis] / 2
    middle = (edges[1:] + edges[:-1])[:, np.newaxis] / 2
    places = np.exp(middle + half * _PANEL_NODES).ravel()
    weights = (half * _PANEL_WEIGHTS).ravel() * places
    integral = float(np.sum(weights * _probability(places, p, n) / (ahead + places)))
    beside = np.array([start - 0.25, start + 0.25, end - 0.25, end + 0.25])
    terms = _probability(beside, p, n) / (ahead + beside)
    slopes = 2 * (terms[1::2] - terms[::2])
    return integral - float(slopes[1] - slopes[0]) / 24


def _probability(places: FloatArray, p: int, n: int) -> FloatArray:
    """Return P(K = k) for real k, numerically stable where lgamma would cancel.

    It is p/(p+n) times the ratio of Gamma(A-u+1) Gamma(A-q+1) to
    Gamma(A-u-q+1) Gamma(A+1) with A = p+n-1, u = k-1, q = p-1.
    """
    A, q = float(p + n - 1), p - 1
    # Above 2^50 a double cannot distinguish n + 3/4 from n + 1, where the ratio is 0.
    u = np.minimum(places - 1, (n + 0.75) * (1 - 2.0**-50))
    if q <= 32:
        factors = np.arange(q, dtype=np.float64)[:, np.newaxis]
        log_ratio = np.log1p(-u / (A - factors)).sum(axis=0)
    else:
        # Stirling, with the four terms paired so that nothing large is subtracted.
        rest = np.maximum(A - u - q, 1.0)
        cross = np.log1p(u * q / (A * rest))
        log_ratio = rest * cross + q * np.log1p(-u / A) + u * np.log1p(-q / A) + cross / 2
        log_ratio += (1 / (A - u) - 1 / rest - 1 / A + 1 / (A - q)) / 12
    probability: FloatArray = p / (p + n) * np.exp(log_ratio)
    return probability
