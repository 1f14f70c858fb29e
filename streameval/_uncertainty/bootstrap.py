"""The percentile bootstrap, for users who must report one; references resampled in groups.

Every reference is drawn with replacement, misses included, which for tied
groups means multinomial counts. The prevalence is resampled too, unless it is
held fixed. O(G) for each resample. It is not the default: it costs a thousand times
the analytic interval and covers less with few positives (docs/intervals.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.groups import Groups
from streameval._uncertainty.sampling_variance import negatives_between

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._common.arrays import IntArray
    from streameval._uncertainty.limits import Limits


def bootstrap_limits(
    groups: Groups,
    estimate: Callable[[Groups], float],
    *,
    alpha: float,
    fixed_prevalence: bool,
    resamples: int,
    seed: int,
) -> Limits:
    """Return the percentile limits of `estimate` over resampled groups.

    Parameters
    ----------
    groups : Groups
        Without the misses as a group; so are those passed to `estimate`.
    estimate : callable
        Returns the figure of groups with both classes.
    alpha : float
        Probability outside the limits.
    fixed_prevalence : bool
        Whether P and N stay as they are.
    resamples, seed : int
        The number of resamples, and the seed of their random numbers.
    """
    rng = np.random.default_rng(seed)
    values = np.empty(resamples)
    total = groups.P + groups.N
    for i in range(resamples):
        positives = groups.P
        if not fixed_prevalence:
            positives = 0
            while not 0 < positives < total:
                positives = int(rng.binomial(total, groups.P / total))
        values[i] = estimate(_resampled(groups, positives, total - positives, rng))
    lower, upper = np.quantile(values, (alpha / 2, 1 - alpha / 2))
    return float(lower), float(upper)


def _resampled(groups: Groups, positives: int, negatives: int, rng: np.random.Generator) -> Groups:
    size = len(groups.p)
    p = _multinomial(np.append(groups.p, groups.missed_positives), groups.P, positives, rng)
    gaps = negatives_between(groups)
    gaps[-1] -= groups.missed_negatives
    cells = np.concatenate((groups.n, gaps, [groups.missed_negatives]))
    drawn = _multinomial(cells, groups.N, negatives, rng)
    n, gaps = drawn[:size], drawn[size : 2 * size + 1]
    tp = np.cumsum(p[:size]) - p[:size]
    fp = np.cumsum(gaps[:-1]) + np.cumsum(n) - n
    rows = np.flatnonzero(p[:size])
    return Groups(
        scores=groups.scores[rows],
        p=p[rows],
        n=n[rows],
        tp=tp[rows],
        fp=fp[rows],
        missed_positives=int(p[-1]),
        missed_negatives=int(drawn[-1]),
        P=positives,
        N=negatives,
    )


def _multinomial(counts: IntArray, total: int, draws: int, rng: np.random.Generator) -> IntArray:
    return rng.multinomial(draws, counts / total)
