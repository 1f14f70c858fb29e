"""Limits for the rare cases at the wrong end of a ranking that a sample may not have. O(1).

One negative above every positive lowers an area in precision-recall space, often by more
than a standard error, and the more the lower the prevalence that the area is rescaled to:
at a thousandth, one of 1,000 negatives weighs as much as 999 of the population's. One
positive below every negative lowers AUC-ROC by 1/P. In heavy-tailed scores such cases are
rare and decide the error, and a sample without them has a good estimate and a small
variance: nothing in it tells that they exist. So the limit away from a perfect ranking gets
a share of what one such case would take, as one more standard error, in quadrature. What it
would take is computed from the groups (`negative_step`), for any area, prevalence and weight.
Where most positives rank low, the rare cases are positives above all others: a low area in
precision-recall space gets a share of what one of them would add at its upper limit.

docs/intervals.md has the coverage by which the shares were chosen, and what they cost.
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

UNSEEN_SHARE = 0.7
"""How many standard errors one unseen case is."""

_ROC_SHARE = 0.9
"""The same of AUC-ROC without weights, where only the larger of the two steps counts."""

_TOP_SHARE = 1.3
"""The same of a positive above all others in a low area: each further one adds as much."""


def with_unseen_cases(
    limits: Limits,
    lowest: Figure,
    highest: Figure,
    errors: Callable[[Figure], tuple[float, float]],
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
    errors : callable
        `roc_errors` or `precision_errors`, of the area's kind.
    alpha, anytime
        As the limits were computed.

    Notes
    -----
    The result for two figures encloses the result for each figure between them: an error is
    largest at the end from which its limit moves away, and the rest moves with the estimate.

    Examples
    --------
    >>> from streameval._uncertainty.limits import Figure, precision_limits
    >>> figure = Figure(0.98, 0.0001, positives=100, negatives=100, unseen=(0.05, 0.0), floor=0.5)
    >>> limits = precision_limits(figure, 0.05)
    >>> [round(limit, 3) for limit in limits]
    [0.947, 0.993]
    >>> widened = with_unseen_cases(limits, figure, figure, precision_errors, 0.05)
    >>> [round(limit, 3) for limit in widened]
    [0.904, 0.993]
    """
    lower, upper = limits
    quantile = normal_quantile(alpha / 2)  # the error is known, not estimated from the cases
    if anytime:
        quantile = anytime_quantile(alpha, lowest.positives)
    fall, rise = errors(highest)[0], errors(lowest)[1]
    below = lowest.estimate - math.hypot(lowest.estimate - lower, quantile * fall)
    above = highest.estimate + math.hypot(upper - highest.estimate, quantile * rise)
    return max(below, 0.0), min(above, 1.0)


def precision_errors(figure: Figure) -> tuple[float, float]:
    """Return by how much unseen cases may make the figure too great, and too small.

    A positive above all others adds 1 - t to the sum of P precisions. From t = 1/2 on the
    variance of a sample without one is large enough for it.
    """
    of_positives, _ = figure.cluster_cases
    rise = max(1 - 2 * figure.estimate, 0.0) * of_positives / (figure.positives + 1)
    return UNSEEN_SHARE * figure.unseen[0], _TOP_SHARE * rise


def roc_errors(figure: Figure) -> tuple[float, float]:
    """Return by how much unseen cases may make the figure too great, and too small.

    An unseen case ranks below or above all others. It is of the smaller class, where it moves
    the area more; with clusters or weights there is one of each class.
    """
    of_positives, of_negatives = figure.cluster_cases
    steps = of_positives / (figure.positives + 1), of_negatives / (figure.negatives + 1)
    step = _ROC_SHARE * max(steps) if figure.design_effect <= 1 else math.hypot(*steps)
    fall, _ = figure.unseen
    return UNSEEN_SHARE * fall or step * figure.estimate, step * (1 - figure.estimate)


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


def with_mean_step(
    figure: Figure, groups: Groups, estimator: Estimator, prevalence: float | None
) -> Figure:
    """Return a figure with the step of unseen cases of mean weight. O(G).

    A design effect, by which it is widened, makes the step as many times as great. With less
    than one effective negative there are no limits, and the unseen case weighs as all negatives.
    """
    units = max(round(groups.N / max(figure.negatives, 1.0)), 1)
    step = negative_step(groups, estimator, prevalence, units=units)
    share = groups.P / (groups.P + groups.N) if prevalence is None else prevalence
    return with_step(figure, step, share if estimator.counts_misses else 0.0)


def with_step(figure: Figure, negative: float, floor: float) -> Figure:
    """Return a figure with the step of unseen cases, from what a negative above all takes. O(1).

    `floor` is what a positive below all others has: the prevalence, or 0 where it may be
    missed and misses are no group.
    """
    positive = max(figure.estimate - floor, 0.0) / (figure.positives + 1)
    return replace(figure, floor=floor, unseen=(math.hypot(negative, positive), 0.0))


def positive_step(
    groups: Groups,
    estimator: Estimator,
    prevalence: float | None = None,
    *,
    units: int = 1,
    is_best: bool = False,
) -> float:
    """Return what an area loses when one positive is added below all scores. O(G).

    As `negative_step`, with a positive that has a score, below every score and miss; or, where
    it `is_best`, above all, by which the area gains.
    """
    counted = estimator.counted(groups)
    scored = counted.P - counted.missed_positives, counted.N - counted.missed_negatives
    at, score, (tp, fp) = (0, np.inf, (0, 0)) if is_best else (counted.p.size, -np.inf, scored)
    moved = replace(
        counted,
        scores=np.insert(counted.scores, at, score),
        p=np.insert(counted.p, at, units),
        n=np.insert(counted.n, at, 0),
        tp=np.insert(counted.tp + units * is_best, at, tp),
        fp=np.insert(counted.fp, at, fp),
        P=counted.P + units,
    )
    return estimator.value(counted, prevalence) - estimator.value(moved, prevalence)
