"""Limits for the rare cases at the wrong end of a ranking that a sample may not have. O(1).

One negative above every positive lowers an area in precision-recall space by up to
H(P)/P of it, H(P) = 1 + 1/2 + ... + 1/P, often more than a standard error; one positive
below every negative lowers AUC-ROC by 1/P. In heavy-tailed scores such cases are rare and
decide the error, and a sample without them has a good estimate and a small variance:
nothing in it tells that they exist. So the limit away from a perfect ranking gets one more
standard error, which one such case would cause, added in quadrature. It matters where few
cases are ranked wrongly; elsewhere it is small against the other errors.

A limit moves by at most 0.9 of the interval's width, so that no interval is twice as wide.
docs/intervals.md has the coverage with and without, and what it costs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._uncertainty.student import anytime_quantile, normal_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._counts.groups import Groups
    from streameval._metrics.gradients import Estimator
    from streameval._uncertainty.limits import Figure, Limits

_MAX_SHIFT = 0.9
"""The most that a limit moves, in widths of the interval."""

UNSEEN_SHARE = 0.7
"""How many standard errors one unseen case is."""

_EULER_GAMMA = 0.5772156649015329


def with_unseen_cases(
    limits: Limits,
    lowest: Figure,
    highest: Figure,
    error: Callable[[Figure], float],
    alpha: float,
    *,
    anytime: bool = False,
) -> Limits:
    """Return the limits of an area, widened for the cases that the sample may not have. O(1).

    Parameters
    ----------
    limits : (float, float)
        The figure's, or the outermost ones of all figures between two.
    lowest, highest : Figure
        The figure twice, or the two with the least and the greatest estimate.
    error : callable
        `roc_error` or `precision_error`, of the area's kind.
    alpha, anytime
        As the limits were computed.

    Notes
    -----
    The result for two figures encloses the result for each figure between them: the error is
    largest at the end from which the limit moves away, and the rest moves with the estimate.

    Examples
    --------
    >>> from streameval._uncertainty.limits import Figure, precision_limits
    >>> figure = Figure(estimate=0.98, variance=0.0001, positives=100, negatives=100)
    >>> limits = precision_limits(figure, 0.05)
    >>> [round(limit, 3) for limit in limits]
    [0.945, 0.993]
    >>> widened = with_unseen_cases(limits, figure, figure, precision_error, 0.05)
    >>> [round(limit, 3) for limit in widened]
    [0.919, 0.993]
    """
    lower, upper = limits
    quantile = normal_quantile(alpha / 2)  # the error is known, not estimated from the cases
    if anytime:
        quantile = anytime_quantile(alpha, lowest.positives)
    most = math.inf if any(lowest.unseen) else _MAX_SHIFT * (upper - lower)
    below = lowest.estimate - math.hypot(lowest.estimate - lower, quantile * max(error(highest), 0))
    above = highest.estimate + math.hypot(
        upper - highest.estimate, quantile * max(-error(lowest), 0)
    )
    return max(below, lower - most, 0.0), min(above, upper + most, 1.0)


def negative_step(
    groups: Groups, estimator: Estimator, prevalence: float | None = None, *, units: int = 1
) -> float:
    """Return what an area loses when one negative is added above all scores. O(G).

    Parameters
    ----------
    groups : Groups
        Without the misses, and with a case of each class.
    estimator : Estimator
        The area's.
    prevalence : float, optional
        To which the area is rescaled; the added negative then weighs what each of the
        N + 1 negatives weighs.
    units : int
        Of how many units of weight the negative is.
    """
    counted = estimator.counted(groups)
    moved = replace(counted, fp=counted.fp + units, N=counted.N + units)
    return estimator.value(counted, prevalence) - estimator.value(moved, prevalence)


def positive_step(
    groups: Groups, estimator: Estimator, prevalence: float | None = None, *, units: int = 1
) -> float:
    """Return what an area loses when one positive is added below all scores. O(G).

    As `negative_step`, with a positive that has a score, below every score and miss.
    """
    counted = estimator.counted(groups)
    moved = replace(
        counted,
        scores=np.append(counted.scores, -np.inf),
        p=np.append(counted.p, units),
        n=np.append(counted.n, 0),
        tp=np.append(counted.tp, counted.P - counted.missed_positives),
        fp=np.append(counted.fp, counted.N - counted.missed_negatives),
        P=counted.P + units,
    )
    return estimator.value(counted, prevalence) - estimator.value(moved, prevalence)


def precision_error(figure: Figure) -> float:
    """Return half of what one negative above every positive changes, at the rate of its influence.

    With no other negative that is the sum of k/k^2 over the positives k = 1..P, divided by P.
    With clusters it is a cluster of negatives.
    """
    P = max(figure.positives / figure.cluster_cases[1], 1.0)
    harmonic = math.log(P) + _EULER_GAMMA + 1 / (2 * P)
    return figure.estimate * harmonic / (2 * P)


def roc_error(figure: Figure) -> float:
    """Return what a positive below all negatives and a negative above all positives change.

    As standard errors that add up; negative below 1/2, where cases of the right order are rare.
    With clusters it is a cluster of each.
    """
    of_positives, of_negatives = figure.cluster_cases
    change = math.hypot(of_positives / figure.positives, of_negatives / figure.negatives)
    return (2 * figure.estimate - 1) * change
