"""Differences of a metric between independent evaluators, with intervals and p-values.

The interval of a difference is made of the two intervals by square-and-add
(MOVER: Zou and Donner 2008, Statistics in Medicine 27:1693; for proportions it
is Newcombe's method 10), so it inherits their coverage and their skewness. The
p-value is the level at which the interval just touches 0.

Both sides must be independent: no case may be in both. Clusters may be, where both declare
as many groups of them: then the errors' correlation over the groups is allowed for. Compare
a segment or a window with its *complement*, never with a total that contains it. Two models
on the same cases are a pair: see `PairedEvaluator`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.keywords import by_keyword
from streameval._common.result import Result, flat_row
from streameval._common.tables import Table
from streameval._metric_registry import BY_NAME, reason_of, title_of
from streameval._uncertainty.cluster_effect import TOO_COARSE, TOO_FEW_CLUSTERS
from streameval._uncertainty.design_effect import correlation
from streameval._uncertainty.estimates import rule_of
from streameval._uncertainty.intervals import (
    check_level,
    check_prevalence,
    check_threshold,
    checked_costs,
)
from streameval._uncertainty.limits import TOO_FEW_EFFECTIVE, UNDEFINED
from streameval._uncertainty.rules import Given
from streameval._uncertainty.student import normal_quantile
from streameval._uncertainty.unseen_weights import assumed_weight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from streameval._common.arrays import FloatArray
    from streameval._uncertainty.interval import Interval
    from streameval._uncertainty.intervals import UncertaintyQueries
    from streameval._uncertainty.limits import Limits
    from streameval._uncertainty.rules import UncertainMetric

CommonPrevalence: TypeAlias = float | Literal["common", "own"]

MIN_P_VALUE = 1e-12
"""Asymptotic p-values are not accurate below this, so none smaller is returned."""

TOO_FEW, GRID_TOO_COARSE = "TOO_FEW", "GRID_TOO_COARSE"
_ADVICE = {
    TOO_FEW: "it needs two positives and two negatives, and 50 of each at all looks",
    TOO_FEW_EFFECTIVE: (
        "one case may have more than a fifth of the squares of weights that nothing bounds"
    ),
    TOO_FEW_CLUSTERS: (
        "it needs 20 effective clusters on each side (of unequal size it takes more): "
        "wait for more, or declare smaller ones if those are independent"
    ),
    TOO_COARSE: "the groups of clusters keep 8 bits of a score: subtract what all scores share",
    GRID_TOO_COARSE: (
        "the pair's cells hide too much of the order of the scores: make it with more max_cells, "
        "or start a new one where the scores have changed"
    ),
}

_LACKS = {
    "EMPTY": "no labelled case",
    "NO_POSITIVES": "no positive case",
    "NO_NEGATIVES": "no negative case",
}
"""Why a side has no figure, in words."""

_MIN_SUSPECT_CASES = 20
"""Cases of each class: with fewer, equal numbers on both sides are chance."""

_MAX_Z = normal_quantile(MIN_P_VALUE / 2)
"""The normal quantile of the least p-value, 7.1."""
_Z_TOLERANCE = 1e-10 / 8
"""Error of the quantile: a p-value changes by less than eight times as much, relative to itself."""
_ROOT_2 = math.sqrt(2)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Result):
    """The difference of one metric between a and b.

    Attributes
    ----------
    metric : str
        The metric's name.
    difference : float
        a's value minus b's; nan when either is undefined.
    lower, upper : float
        Confidence limits of the difference, in [-1, 1], of the expected cost up to the larger
        cost; nan with too few cases.
    level : float
        Nominal coverage.
    p_value : float
        Two-sided, of no difference; at least 1e-12; nan with too few cases.
    prevalence : float or None
        Common prevalence of both values; None when each has its own or the
        metric does not depend on it.
    a, b : Interval
        The two values, with their intervals.
    auc_roc : Comparison or None
        The same sides by AUC-ROC, which no prevalence moves; None unless `compare` chose the
        prevalence.
    reason : str or None
        Why there are no limits: a side is ``"EMPTY"``, has ``"NO_POSITIVES"`` or
        ``"NO_NEGATIVES"``, has ``"TOO_FEW"`` cases of a class, or its interval is refused
        (`Interval.reason`); of a pair also ``"GRID_TOO_COARSE"``; None where there are.
        ``print`` says what to do.
    anytime : bool
        Whether the limits and the p-value come from a confidence sequence.
    e_value : float or None
        Of a pair: the evidence against no difference, 1 without any, valid however often it
        is looked at. If the models are equal it ever reaches A with a probability of at most
        1/A. nan where `reason` is, and below 50 cases of a class. None of independent sides.
    design_effect : float
        Of a pair: the factor by which clusters make the variance of the difference larger
        than with independent cases; 1 without clusters. Limits allow for it as in `Interval`.
    warnings : tuple of str
        Reasons to doubt the result: both sides have as many cases of each class, from 20 on,
        as two models on the same cases have; no bound of a side's weights is declared.
        ``print`` shows them.
    """

    metric: str
    difference: float
    lower: float
    upper: float
    level: float
    p_value: float
    prevalence: float | None
    a: Interval
    b: Interval
    auc_roc: Comparison | None = field(default=None, kw_only=True)
    reason: str | None = field(default=None, kw_only=True)
    anytime: bool = field(default=False, kw_only=True)
    e_value: float | None = field(default=None, kw_only=True)
    design_effect: float = field(default=1.0, kw_only=True)
    warnings: tuple[str, ...] = field(default=(), kw_only=True)

    def __str__(self) -> str:
        limits = f"{self.lower:.4f} to {self.upper:.4f}, p = {self.p_value:.2g}"
        if self.anytime:
            limits = f"{self.lower:.4f} to {self.upper:.4f} at all looks, e = {self.e_value:.3g}"
        if self.reason is not None:
            limits = f"no interval: {self.reason}, {self._advice(self.reason)}"
        lines = [f"{self.difference:.4f} ({limits})"]
        if self.auc_roc is not None and not math.isnan(self.difference):
            lines.append(f"both at a prevalence of {self.prevalence:.4g}, the greater of the two")
            roc = str(replace(self.auc_roc, warnings=()))
            lines.append(f"AUC-ROC, which does not depend on it: {roc}")
        return "\n".join((*lines, *self.warnings))

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for each metric that is compared. O(1)."""
        row = {
            "metric": self.metric,
            "prevalence": self.prevalence,
            "a": self.a,
            "b": self.b,
            "difference": self.difference,
            "difference_lower": self.lower,
            "difference_upper": self.upper,
            "p_value": self.p_value,
            "e_value": self.e_value,
            "reason": self.reason,
        }
        return [flat_row(row), *([] if self.auc_roc is None else self.auc_roc.to_rows())]

    def _as_table(self) -> Table:
        """Return both values and their difference, of AUC-ROC too where it is given."""
        shown = [self] if self.auc_roc is None else [self, self.auc_roc]
        name = "e" if self.anytime else "p"
        notes = list(self.warnings)
        if self.prevalence is not None:
            notes.insert(0, f"both at a prevalence of {self.prevalence:.4g}")
        if self.reason is not None:
            notes.insert(0, f"no interval: {self.reason}, {self._advice(self.reason)}")
        return Table(
            f"{100 * self.level:g} % intervals{' at all looks' if self.anytime else ''}",
            ["", "a", "b", "a minus b", name],
            list(map(compared_cells, shown)),
            notes,
        )

    def _advice(self, reason: str) -> str:
        if reason not in _LACKS:
            return advice_on(reason)
        sides = [
            name for name, of in zip("ab", (self.a, self.b), strict=True) if math.isnan(of.estimate)
        ]
        return f"{sides[0]} has {_LACKS[reason]}"


def compared_cells(found: Comparison) -> list[str]:
    """Return the metric, both values, their difference and the evidence, as a notebook has them."""
    limits = "" if found.reason else f" ({found.lower:+.4f} to {found.upper:+.4f})"
    shown = "" if math.isnan(found.difference) else f"{found.difference:+.4f}{limits}"
    evidence = found.e_value if found.anytime else found.p_value
    is_given = evidence is not None and not math.isnan(evidence)
    sides = [f"{each:.4f}" for each in (found.a, found.b)]
    return [title_of(found.metric), *sides, shown, f"{evidence:.2g}" if is_given else ""]


def advice_on(reason: str) -> str:
    """Return what to do where a comparison has no limits for this reason."""
    return _ADVICE[reason]


def what_it_lacks(value: Interval, reason: str | None) -> str:
    """Return in words what a group lacks, or the rest that it is compared with; empty if nothing.

    Parameters
    ----------
    value : Interval
        The group's figure.
    reason : str or None
        Why its difference from the rest has no limits.
    """
    if reason not in _LACKS:
        return ""
    return f"{'' if math.isnan(value.estimate) else 'the rest has '}{_LACKS[reason]}"


@by_keyword
def compare(
    a: UncertaintyQueries,
    b: UncertaintyQueries,
    *,
    metric: str = "auc_pr",
    level: float = 0.95,
    prevalence: CommonPrevalence = "common",
    threshold: float | tuple[float, float] | None = None,
    cost_fp: float | None = None,
    cost_fn: float | None = None,
) -> Comparison:
    """Compare one metric of two evaluators that share no case.

    Parameters
    ----------
    a, b : Evaluator
        Independent: different windows, segments, or days. Do not compare a
        part with a total that contains it; merge the other parts and compare
        the part with those.
    metric : str
        A metric that the table of metrics gives an interval: an area such as "auc_roc",
        "prevalence", with a `threshold` a metric such as "recall", with costs what errors
        cost; none of probabilities.
    level : float
        Nominal coverage of the interval.
    prevalence : float, "common" or "own"
        For the areas in precision-recall space. AUC-PR of an unchanged model
        changes with the prevalence, so by default both are rescaled to the
        greater of their two prevalences, and `Comparison.auc_roc` is given, too. "own"
        compares them unscaled.
    threshold : float or (float, float), optional
        For the rates at a threshold: one for both sides, or one for a and one for b. It was
        chosen on other data.
    cost_fp, cost_fn : float, optional
        Of the expected cost: what a false positive and a false negative cost, on both sides.

    Returns
    -------
    Comparison

    Raises
    ------
    InvalidInputError
        For a metric without intervals, or values out of range.

    Notes
    -----
    O(G), O(1) when the intervals are cached. Several comparisons at once find
    differences by chance: adjust their p-values with `holm`.

    Examples
    --------
    >>> from streameval import Evaluator
    >>> monday, tuesday = Evaluator(), Evaluator()
    >>> monday.add_cases(labels=[1, 1, 1, 0, 0, 0], scores=[9, 8, 4, 5, 3, 1])
    >>> tuesday.add_cases(labels=[1, 1, 1, 0, 0, 0], scores=[9, 4, 2, 7, 6, 1])
    >>> change = compare(monday, tuesday, metric="auc_roc")
    >>> round(change.difference, 3), change.lower < 0 < change.upper
    (0.333, True)
    """
    check_level(level)
    if metric in BY_NAME and BY_NAME[metric].of_probabilities:
        message = f"{metric} cannot be compared: there is no interval for a difference of it"
        raise InvalidInputError(message, field="metric")
    fixed = _prevalence_of(a, b, metric, prevalence)
    at_a, at_b = threshold if isinstance(threshold, tuple) else (threshold, threshold)
    costs = checked_costs(metric, cost_fp, cost_fn)
    given = Given(fixed, at_a, costs), Given(fixed, at_b, costs)
    found = _compared((a, b), metric, given, level)
    if prevalence == "common" and fixed is not None:
        roc = _compared((a, b), "auc_roc", (Given(), Given()), level)
        found = replace(found, auc_roc=roc)
    return found


class Difference(NamedTuple):
    """One metric of the first side minus the second's; the sides share no case.

    Attributes
    ----------
    sides : (Evaluator, Evaluator)
    a, b : UncertainMetric
        Of each.
    """

    sides: tuple[UncertaintyQueries, UncertaintyQueries]
    a: UncertainMetric
    b: UncertainMetric

    @classmethod
    def of(
        cls,
        sides: tuple[UncertaintyQueries, UncertaintyQueries],
        metric: str,
        given: tuple[Given, Given],
    ) -> Difference:
        """Return the difference, each side as it is given. O(G), O(1) where it is cached."""
        a, b = (_uncertain(side, metric, at) for side, at in zip(sides, given, strict=True))
        return cls(sides, a, b)

    @property
    def estimate(self) -> float:
        """The difference; nan where a side has no figure."""
        return self.a.estimate - self.b.estimate

    def limits(self, alpha: float) -> Limits:
        """Return the limits that miss with probability `alpha`. O(1)."""
        a, b = self.a, self.b
        return square_and_add(
            a.estimate,
            a.limits(alpha),
            b.estimate,
            b.limits(alpha),
            correlation(a.effect, b.effect),
            greatest=a.greatest,
        )

    def intervals(self, level: float) -> tuple[Interval, Interval]:
        """Return the interval of each side. O(1)."""
        first, second = (
            replace(found.interval(level), assumed_weight=assumed_weight(side._view()))
            for side, found in zip(self.sides, (self.a, self.b), strict=True)
        )
        return first, second

    @property
    def reason(self) -> str:
        """Why there are no limits: what the first side without a figure lacks, or any side."""
        found = self.a, self.b
        for side, each in zip(self.sides, found, strict=True):
            view = side._view()
            if math.isnan(each.estimate) and not (view.P and view.N):
                return reason_of(view.P, view.N)
        return next((each.figure.refused for each in found if each.figure.refused), TOO_FEW)


def _compared(
    sides: tuple[UncertaintyQueries, UncertaintyQueries],
    metric: str,
    given: tuple[Given, Given],
    level: float,
) -> Comparison:
    """Compare one metric of two sides, each as it is given. O(G)."""
    found = Difference.of(sides, metric, given)
    lower, upper = found.limits(1 - level)
    first, second = found.intervals(level)
    return Comparison(
        metric=metric,
        difference=found.estimate,
        lower=lower,
        upper=upper,
        level=level,
        p_value=p_value_of(found.estimate, found.limits),
        prevalence=given[0].prevalence,
        a=first,
        b=second,
        reason=found.reason if math.isnan(lower) else None,
        warnings=(*_warnings(*sides), *_weight_warnings(first, second)),
    )


def _warnings(a: UncertaintyQueries, b: UncertaintyQueries) -> tuple[str, ...]:
    """Return a warning where both sides may have the same cases.

    Independent sides of 20 cases of each class or more have equal numbers of both by chance
    with a probability below 0.005, unless they were made so.
    """
    first, second = a._view(), b._view()
    positives, negatives = first.P / first.unit, first.N / first.unit
    if (positives, negatives) != (second.P / second.unit, second.N / second.unit):
        return ()
    if min(positives, negatives) < _MIN_SUSPECT_CASES:
        return ()
    warning = (
        f"both sides have {positives:,.10g} positives and {negatives:,.10g} negatives: if two "
        "models scored the same cases, the sides are not independent; use compare_paired"
    )
    return (warning,)


def _weight_warnings(a: Interval, b: Interval) -> tuple[str, ...]:
    """Return what the limits assume of the weights of each side that no bound is declared for."""
    found = (each.weight_warning for each in (a, b))
    return tuple(f"{side}: {text}" for side, text in zip("ab", found, strict=True) if text)


def _uncertain(side: UncertaintyQueries, metric: str, given: Given) -> UncertainMetric:
    """Return a side's metric, at a prevalence or at a threshold."""
    check_threshold(given.threshold, metric)
    return rule_of(metric).uncertain(side, metric, given)


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Return p-values adjusted for multiple comparisons (Holm 1979).

    Parameters
    ----------
    p_values : float[n]
        Each between 0 and 1; nan where a comparison had too few cases.

    Returns
    -------
    float64[n]
        In the same order; nan stays nan and does not count. Where those below
        0.05 are called different, the probability of any error is at most 0.05.

    Raises
    ------
    InvalidInputError
        For a value outside [0, 1].

    Notes
    -----
    O(n log n).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1:
        raise InvalidInputError("p_values must be one-dimensional", field="p_values")
    outside = (values < 0) | (values > 1)
    if outside.any():
        index = int(np.argmax(outside))
        raise InvalidInputError(
            f"p-value must be between 0 and 1, got {values[index]} at index {index}",
            field="p_values",
            index=index,
        )
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * values[order]))
    return adjusted


def square_and_add(
    first: float,
    first_limits: Limits,
    second: float,
    second_limits: Limits,
    correlation: float = 0.0,
    *,
    greatest: float = 1.0,
) -> Limits:
    """Return the limits of first minus second, by MOVER.

    `correlation` is the correlation of the two errors (Zou 2007, Psychological Methods
    12:399), `greatest` the largest difference that is possible.
    """
    difference = first - second
    if math.isnan(first_limits[0]) or math.isnan(second_limits[0]):
        return UNDEFINED
    below = _distance(first - first_limits[0], second_limits[1] - second, correlation)
    above = _distance(first_limits[1] - first, second - second_limits[0], correlation)
    return max(-greatest, difference - below), min(greatest, difference + above)


def _distance(first: float, second: float, correlation: float) -> float:
    """Return the root of the sum of two squares less what they share."""
    if not correlation:
        return math.hypot(first, second)
    return math.sqrt(max(first**2 + second**2 - 2 * correlation * first * second, 0.0))


def p_value_of(difference: float, limits: Callable[[float], Limits]) -> float:
    """Return the largest alpha whose interval holds 0; computes some eight intervals.

    The limit on the side of 0 moves to the difference as alpha grows, about in proportion to
    the normal quantile z of alpha. So the z at which it crosses 0 is found, and returned as alpha.
    """
    side = 0 if difference > 0 else 1

    def beyond(z: float) -> float:
        limit = limits(math.erfc(z / _ROOT_2))[side]
        return limit if side == 0 else -limit

    if math.isnan(difference) or math.isnan(limits(0.5)[0]):
        return math.nan
    at_low, at_high = beyond(0.0), beyond(_MAX_Z)
    if math.isnan(at_low) or math.isnan(at_high):
        return math.nan
    if at_low <= 0:
        return 1.0
    if at_high > 0:
        return MIN_P_VALUE
    z = _crossing(beyond, (0.0, at_low), (_MAX_Z, at_high))
    return max(math.erfc(z / _ROOT_2), MIN_P_VALUE)


def _crossing(
    function: Callable[[float], float], above: tuple[float, float], below: tuple[float, float]
) -> float:
    """Return where a function crosses 0, just beyond, between two points with their values.

    The crossing is bracketed, and found by inverse quadratic interpolation with bisection where
    that is not safe (Chandrupatla 1997, Advances in Engineering Software 28:145).
    """
    # The crossing lies between `a`, the newest, and `b`; `c` is the point before.
    (a, at_a), (b, at_b) = above, below
    share = at_a / (at_a - at_b)
    while True:
        z = a + share * (b - a)
        at_z = function(z)
        if (at_z > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = z, at_z
        least = _Z_TOLERANCE / 2 / abs(b - a)
        if least > 0.5:
            return a if at_a <= 0 else b
        xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        share = 0.5
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:
            first = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            second = (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
            share = first + second
        # At least half the tolerance inside either end, so that the bracket always shrinks.
        share = min(max(share, least), 1 - least)


def _prevalence_of(
    a: UncertaintyQueries, b: UncertaintyQueries, metric: str, prevalence: CommonPrevalence
) -> float | None:
    if isinstance(prevalence, str):
        if prevalence not in {"common", "own"}:
            raise InvalidInputError(
                f"prevalence must be a number, 'common' or 'own', got {prevalence!r}",
                field="prevalence",
            )
        check_prevalence(None, metric)
        if prevalence == "own" or not BY_NAME[metric].is_rescaled:
            return None
        return common_prevalence((view.P, view.N) for view in (a._view(), b._view()))
    check_prevalence(prevalence, metric)
    return prevalence


def common_prevalence(sides: Iterable[tuple[int, int]]) -> float:
    """Return the prevalence at which sides are compared: the greatest that one of them has.

    So no side's negatives count for more than they are. At a smaller prevalence each negative
    of the side with fewer of them would stand for many, and a single one that ranks high
    would decide.

    Parameters
    ----------
    sides : iterable of (int, int)
        Positives and negatives of each side, both in the side's own unit. A side of one class
        has no metric to rescale, and does not count.

    Returns
    -------
    float
        Between 0 and 1; 1/2 if no side has both classes.

    Examples
    --------
    >>> common_prevalence([(200, 39_800), (30, 70), (5, 0)])
    0.3
    """
    found = [
        # From some 2^53 positives for each negative on, the quotient rounds to 1.
        min(positives / (positives + negatives), math.nextafter(1.0, 0.0))
        for positives, negatives in sides
        if positives and negatives
    ]
    return max(found, default=0.5)
