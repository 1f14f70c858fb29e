"""Confidence limits from a figure, its variance and the class sizes. O(1).

AUC-ROC inverts a score test: the limits are the t that solve
|est - t| = q sqrt(r V(t)), where V is Newcombe's method 5 (Newcombe 2006,
Statistics in Medicine 25:559) and r scales it to the observed variance.
Intervals of areas in precision-recall space are symmetric on the logit scale (Boyd,
Eng and Page 2013), but their limit towards 1/2 is never beyond Wilson's limit of a share
with as many positives (Wilson 1927). Both use Student's t. A proportion has Wilson's interval. All
stay inside [0, 1] and have a width at a figure of 0 or 1, where plug-in variances are 0.

Near 1 the variance depends on the few cases that were ranked wrongly, and is too
small when a sample happens to have none. So an observed variance below the model's
is shrunk towards the model's; the weight of the observed one is an effective number
of cases. An observed variance above the model's is used as it is. docs/intervals.md
has the coverage measurements by which the constants were chosen, and other methods' coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from streameval._uncertainty.student import anytime_quantile, normal_quantile, student_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

# The weight of the model's variance in the shrinkage, in cases, of AUC-ROC and of areas in
# precision-recall space.
_ROC_PRIOR_CASES = 1.0
_PRIOR_CASES = 2.0
# With fewer positives there is no confidence sequence: its coverage is asymptotic.
MIN_ANYTIME_POSITIVES = 50

_TINY = 2.0**-53
"""Estimates nearer to 0 or 1 than this have no logit."""

TOO_FEW_EFFECTIVE = "TOO_FEW_EFFECTIVE"
"""Why a figure of weighted cases is refused."""

Limits = tuple[float, float]
UNDEFINED: Limits = (math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Figure:
    """An estimate, its variance and the effective class sizes: the input of its limits.

    `freedom` is the degrees of freedom of the variance; None means the number of cases of the
    smaller class less 1, and for a share infinitely many. `design_effect` is the factor by
    which weights or clusters enlarged the variance; `DesignEffect.widened` includes it.
    An unseen cluster of positives, and of negatives, counts as `cluster_cases` cases.
    `refused` is why it must have no limits. `unseen` is how far unseen cases would lower and
    raise the estimate: of a share the one of the greatest weight, of an area one at each wrong
    end. `floor` is what a positive below all others adds to an area in precision-recall space.
    """

    estimate: float
    variance: float
    positives: float
    negatives: float
    freedom: float | None = None
    design_effect: float = 1.0
    cluster_cases: tuple[float, float] = (1.0, 1.0)
    refused: str | None = None
    unseen: tuple[float, float] = (0.0, 0.0)
    floor: float = 0.0


def auc_roc_limits(figure: Figure, alpha: float, *, anytime: bool = False) -> Limits:
    """Return the limits of an area under the ROC curve, of nominal coverage 1 - alpha.

    >>> figure = Figure(estimate=0.9, variance=0.002, positives=20, negatives=400)
    >>> [round(limit, 3) for limit in auc_roc_limits(figure, 0.05)]
    [0.76, 0.96]
    """
    smaller = min(figure.positives, figure.negatives)
    quantile = _quantile(figure, smaller, alpha, anytime=anytime)
    estimate = figure.estimate
    expected = newcombe_variance(estimate, figure.positives, figure.negatives)
    observed = figure.variance / expected if expected > 0 else 0.0
    effective = smaller * 4 * estimate * (1 - estimate)
    shrunk = (effective * observed + _ROC_PRIOR_CASES) / (effective + _ROC_PRIOR_CASES)
    ratio: float = max(observed, shrunk)

    spread, fall = _newcombe_terms(figure.positives, figure.negatives)
    pairs = figure.positives * figure.negatives
    root = math.sqrt

    def outside(t: float) -> bool:
        # As `newcombe_variance`, without its calls: a limit takes fifty of these.
        variance = t * (1 - t) * (spread - fall / ((2 - t) * (1 + t))) / pairs
        return abs(estimate - t) > quantile * root(ratio * variance)

    return _crossing(outside, 0.0, estimate), _crossing(outside, 1.0, estimate)


def newcombe_variance(auc: float, positives: float, negatives: float) -> float:
    """Return the variance of AUC-ROC at `auc` under Newcombe's method 5."""
    spread, fall = _newcombe_terms(positives, negatives)
    return auc * (1 - auc) * (spread - fall / ((2 - auc) * (1 + auc))) / (positives * negatives)


def _newcombe_terms(positives: float, negatives: float) -> tuple[float, float]:
    """Return what method 5 takes of the class sizes."""
    mean_size = (positives + negatives) / 2
    return 2 * mean_size - 1, 3 * mean_size - 3


def precision_limits(figure: Figure, alpha: float, *, anytime: bool = False) -> Limits:
    """Return the limits of an area in precision-recall space, of nominal coverage 1 - alpha.

    >>> figure = Figure(estimate=0.9, variance=0.002, positives=20, negatives=400)
    >>> [round(limit, 3) for limit in precision_limits(figure, 0.05)]
    [0.744, 0.965]
    """
    estimate, P = figure.estimate, figure.positives
    if not 0 < estimate < 1:
        # Without weights or clusters no variance is estimated here.
        known = figure if figure.design_effect > 1 else replace(figure, freedom=None)
        square = _quantile_of_share(known, P, alpha, anytime=anytime) ** 2
        edge = square / (P + square)
        return (1 - edge * (1 - figure.floor), 1.0) if estimate >= 1 else (0.0, edge)
    terms = _PrecisionTerms.of(figure)
    quantile = terms.quantile(figure, alpha, anytime=anytime)
    (lower, upper), inner = terms.logit(quantile), terms.wilson(quantile)
    # Near 0 and 1 the logit interval is too wide towards 1/2: it extrapolates a standard
    # error far beyond its range. Wilson's limit, with the same variance, bounds it.
    if estimate > 0.5:
        return max(lower, inner[0]), upper
    return lower, min(upper, inner[1])


class _PrecisionTerms(NamedTuple):
    """What limits of an area in precision-recall space, 0 < estimate < 1, have at every level.

    Attributes
    ----------
    estimate, binomial : float
        The estimate t, and t (1 - t).
    centre, error : float
        The logit of the estimate, and the standard error of the estimate.
    cases : float
        Of how many cases a share would have that error, at most the positives.
    freedom : float or None
        The degrees of freedom of the error: more than the figure's where a part is the model's.
    """

    estimate: float
    binomial: float
    centre: float
    error: float
    cases: float
    freedom: float | None

    @classmethod
    def of(cls, figure: Figure) -> _PrecisionTerms:
        """Return the terms, with an observed variance below the model's shrunk to it.

        In the model positives have a precision of 1, and the few others add the floor.
        """
        estimate, positives, variance = figure.estimate, figure.positives, figure.variance
        binomial = estimate * (1 - estimate)
        effective = positives * (2 * math.sqrt(binomial) if estimate > 0.5 else 1.0)
        expected = _PRIOR_CASES * binomial * (1 - figure.floor) / positives
        shrunk = (effective * variance + expected) / (effective + _PRIOR_CASES)
        used = max(variance, shrunk)
        centre = math.log(estimate / (1 - estimate))
        freedom = figure.freedom
        if freedom is not None and shrunk > variance:
            # The model's part is not estimated: by Satterthwaite it has no share in this.
            observed = effective * variance / (effective + _PRIOR_CASES)
            most = max(positives - 1, freedom)
            freedom = min(freedom * (used / observed) ** 2, most) if observed > 0 else most
        cases = min(positives, binomial / used)
        return cls(estimate, binomial, centre, math.sqrt(used), cases, freedom)

    def quantile(self, figure: Figure, alpha: float, *, anytime: bool) -> float:
        """Return Student's quantile with these degrees of freedom, of the figure's positives."""
        known = replace(figure, freedom=self.freedom)
        return _quantile(known, figure.positives, alpha, anytime=anytime)

    def logit(self, quantile: float) -> Limits:
        """Return the limits that are symmetric on the logit scale."""
        half = quantile * self.error / self.binomial
        return _logistic(self.centre - half), _logistic(self.centre + half)

    def wilson(self, quantile: float) -> Limits:
        """Return Wilson's limits of a share with the same error."""
        return _score_limits(self.estimate, self.cases, quantile)

    def is_beyond_wilson(self, quantile: float) -> bool:
        """Whether the logit limit towards 1/2 is further out than Wilson's."""
        logit, wilson = self.logit(quantile), self.wilson(quantile)
        return logit[0] < wilson[0] if self.estimate > 0.5 else logit[1] > wilson[1]


def precision_turns(
    lowest: Figure, highest: Figure, alpha: float, *, anytime: bool = False
) -> list[Figure]:
    """Return the figures between two of one variance at which a limit of precision turns.

    Towards 0 or 1 a limit on the logit scale moves with the estimate, then against it, as
    far as Wilson's limit, which moves with it. So a limit is furthest out at an end, or
    where the two meet.
    """
    middle = min(max(lowest.estimate, 0.5), highest.estimate)
    if not 0 < middle < 1:
        return []
    terms = _PrecisionTerms.of(replace(lowest, estimate=middle))
    quantile = terms.quantile(lowest, alpha, anytime=anytime)  # once: a quantile takes long

    def beyond_wilson(estimate: float) -> bool:
        terms = _PrecisionTerms.of(replace(lowest, estimate=estimate))
        return terms.is_beyond_wilson(quantile)

    least, greatest = max(lowest.estimate, _TINY), min(highest.estimate, 1 - _TINY)
    turns = []
    for near, far, sign in ((max(least, 0.5), greatest, 1), (min(greatest, 0.5), least, -1)):
        if sign * far <= sign * near:
            continue
        if not beyond_wilson(near):
            turns.append(replace(lowest, estimate=_crossing(beyond_wilson, far, near)))
    return turns


def proportion_limits(figure: Figure, alpha: float, *, anytime: bool = False) -> Limits:
    """Return Wilson's limits of the share of positives (Wilson 1927), exact of few cases.

    Of one to ten cases of a kind Wilson's limit is too near: where 0.18 are expected, the 95 %
    interval holds the share in 84 %. So it is not nearer than the exact one-sided limit of the
    same level (Brown, Cai and DasGupta 2001), which holds it in 93 % of all shares.

    >>> figure = Figure(estimate=0.2, variance=0.0016, positives=20, negatives=80)
    >>> [round(limit, 3) for limit in proportion_limits(figure, 0.05)]
    [0.133, 0.289]
    """
    total = figure.positives + figure.negatives
    quantile = _quantile_of_share(figure, total, alpha, anytime=anytime)
    limits = _exact_of_few(figure.estimate, total, quantile, alpha)
    return limits if figure.unseen == (0.0, 0.0) else _unseen_limits(figure, limits, alpha)


def _exact_of_few(share: float, cases: float, quantile: float, alpha: float) -> Limits:
    """Return Wilson's limits, not nearer than the exact one-sided ones."""
    lower, upper = _score_limits(share, cases, quantile)
    if alpha >= 0.5 or cases <= 0:
        return lower, upper
    one_sided = quantile * normal_quantile(alpha) / normal_quantile(alpha / 2)
    hits = share * cases
    return (
        min(lower, _exact_lower(hits, cases, one_sided)),
        max(upper, 1 - _exact_lower(cases - hits, cases, one_sided)),
    )


def _exact_lower(hits: float, cases: float, quantile: float) -> float:
    """Return the share at which as many hits or more have the quantile's tail (Paulson 1942).

    The quantile of the beta distribution, from the cube root of F's.
    """
    if 9 * hits <= 1:
        return 0.0
    square = quantile**2
    a, b = 1 / (9 * (cases - hits + 1)), 1 / (9 * hits)
    scale = (1 - b) ** 2 - b * square
    inside = (1 - a) ** 2 * b + (1 - b) ** 2 * a - a * b * square
    if scale <= 0 or inside < 0:
        return 0.0
    root = ((1 - a) * (1 - b) + quantile * math.sqrt(inside)) / scale
    return hits / (hits + (cases - hits + 1) * root**3)


def _unseen_limits(figure: Figure, limits: Limits, alpha: float) -> Limits:
    """Return the limits of a share, widened for cases of great weight that may be missing.

    None was drawn of as many as -log(alpha) expected ones with probability alpha (the rule of
    three: Hanley and Lippman-Hand 1983), so as many are added, in quadrature.
    """
    missing, share = -math.log(alpha), figure.estimate
    fall, rise = (missing * each / (1 + missing * each) for each in figure.unseen)
    below = math.hypot(share - limits[0], share * fall)
    above = math.hypot(limits[1] - share, (1 - share) * rise)
    return max(0.0, share - below), min(1.0, share + above)


def _score_limits(share: float, cases: float, quantile: float) -> Limits:
    """Return the shares t with |share - t| <= quantile * sqrt(t (1 - t) / cases) (Wilson 1927)."""
    square = quantile**2
    centre = (cases * share + square / 2) / (cases + square)
    half = quantile * math.sqrt(cases * share * (1 - share) + square / 4) / (cases + square)
    return max(0.0, centre - half), min(1.0, centre + half)


def _quantile(figure: Figure, cases: float, alpha: float, *, anytime: bool) -> float:
    """Return Student's quantile, with the degrees of freedom of this many cases by default."""
    if anytime or figure.freedom is not None:
        return _quantile_of_share(figure, cases, alpha, anytime=anytime)
    return student_quantile(alpha / 2, cases - 1)


def _quantile_of_share(figure: Figure, cases: float, alpha: float, *, anytime: bool) -> float:
    """Return the normal quantile, or Student's where the variance was estimated apart."""
    normal = normal_quantile(alpha / 2)
    student = normal if figure.freedom is None else student_quantile(alpha / 2, figure.freedom)
    if not anytime:
        return student
    # A confidence sequence has no Student's form: it widens in the same proportion.
    widening = student / normal if normal else 1.0  # normal is 0 where alpha rounds to 1
    return anytime_quantile(alpha, cases) * widening


def _crossing(outside: Callable[[float], bool], far: float, near: float) -> float:
    """Return where `outside` turns false on the way from `far` to `near`, by bisection."""
    if not outside(far):
        return far
    for _ in range(50):
        middle = (far + near) / 2
        if outside(middle):
            far = middle
        else:
            near = middle
    return far


def _logistic(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    small = math.exp(max(x, -700.0))
    return small / (1 + small)
