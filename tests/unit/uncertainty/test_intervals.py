"""Intervals and comparisons: their properties, validation, and published numbers."""

from __future__ import annotations

import doctest
import importlib
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from streameval import Evaluator, Interval, InvalidInputError, compare, holm
from streameval._uncertainty.area_rules import hidden_error
from streameval._uncertainty.compare import MIN_P_VALUE, p_value_of, square_and_add
from streameval._uncertainty.estimates import figure_of, rule_of
from streameval._uncertainty.limits import (
    Figure,
    auc_roc_limits,
    newcombe_variance,
    precision_limits,
    proportion_limits,
)
from streameval._uncertainty.rules import Given
from streameval._uncertainty.student import anytime_quantile, student_quantile
from streameval.statistics import BY_NAME, Place

AREAS = ("auc_roc", "auc_pr", "average_precision")
NEEDS = {"threshold": 0.5, "cost_fp": 0.9, "cost_fn": 0.2}


def evaluator(P=60, N=400, shift=1.5, seed=1, **settings):
    """Make an evaluator of normal scores, rounded so that some are tied."""
    rng = np.random.default_rng(seed)
    ev = Evaluator(**settings)
    ev.add_cases(labels=np.ones(P), scores=np.round(rng.normal(shift, 1, P), 2))
    ev.add_cases(labels=np.zeros(N), scores=np.round(rng.normal(0, 1, N), 2))
    return ev


@pytest.mark.parametrize(
    "name", [name for name in Place.INTERVAL.names() if not BY_NAME[name].of_probabilities]
)
def test_interval_holds_its_estimate_and_nests(name):
    """A higher level is wider, an interval for any time wider still; all in [0, 1]."""
    ev = evaluator()
    chosen = {each: NEEDS[each] for each in BY_NAME[name].needs}
    narrow = ev.interval(name, level=0.8, **chosen)
    wide = ev.interval(name, **chosen)
    anytime = ev.interval(name, anytime=True, **chosen)
    assert 0 < anytime.lower < wide.lower < narrow.lower < wide.estimate
    assert wide.estimate < narrow.upper < wide.upper < anytime.upper < 1
    assert wide.estimate in wide
    assert wide.reason is None
    assert (wide.level, wide.anytime, anytime.anytime) == (0.95, False, True)
    assert wide.width == wide.upper - wide.lower


def test_an_interval_unpacks_and_formats():
    """It is its two limits when unpacked; a float's format applies to all its numbers."""
    interval = evaluator().interval("auc_pr")
    lower, upper = interval
    assert (lower, upper) == (interval.lower, interval.upper)
    assert f"{interval:.1%}" == f"{interval.estimate:.1%} ({lower:.1%} to {upper:.1%})"
    assert str(interval) == f"{interval}" == f"{interval:.4f}"
    with pytest.raises(ValueError, match="format"):
        f"{interval:.3q}"
    unnamed = Interval(0.25, 0.5, level=0.95, method="wilson")
    assert f"{unnamed:.2f}" == "0.25 to 0.50"


def test_an_interval_without_limits_says_why():
    """Three cases have a value but no interval."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 1, 0], scores=[0.9, 0.4, 0.6])
    assert str(ev.interval("auc_roc")) == "0.5000 (no interval: TOO_FEW)"
    assert str(Evaluator().interval("auc_roc")) == "no interval: TOO_FEW"


def test_estimates_are_the_evaluators_own():
    """An interval's estimate is the metric, to the bit."""
    ev = evaluator()
    ev.add_misses(3)
    ev.add_negative_misses(5)
    assert ev.interval("auc_roc").estimate == ev.auc_roc()
    assert ev.interval("auc_pr").estimate == ev.auc_pr()
    assert ev.interval("average_precision").estimate == ev.average_precision()
    assert ev.interval("prevalence").estimate == ev.prevalence
    at = ev.interval("auc_pr", prevalence=0.01)
    assert at.estimate == ev.auc_pr(prevalence=0.01)
    at = ev.interval("average_precision", prevalence=0.01)
    assert at.estimate == ev.average_precision(prevalence=0.01)


@pytest.mark.parametrize("name", AREAS)
@pytest.mark.parametrize(("P", "N"), [(0, 0), (0, 5), (5, 0), (1, 5), (5, 1)])
def test_too_few_cases_have_no_limits(name, P, N):
    """Two of each class are needed: otherwise limits are nan, with a reason."""
    ev = evaluator(P, N)
    interval = ev.interval(name)
    assert math.isnan(interval.lower)
    assert math.isnan(interval.upper)
    assert interval.reason == "TOO_FEW"
    assert math.isnan(ev.interval(name, method="bootstrap").lower)
    comparison = compare(ev, evaluator(), metric=name)
    assert math.isnan(comparison.p_value)
    assert math.isnan(comparison.lower)


def test_prevalence_needs_two_references():
    """A share needs two references."""
    ev = Evaluator()
    assert ev.interval("prevalence").reason == "TOO_FEW"
    ev.add_case(True, 1.0)
    assert ev.interval("prevalence").reason == "TOO_FEW"
    ev.add_misses(1)
    interval = ev.interval("prevalence")
    assert interval.upper == 1.0
    assert 0 < interval.lower < 1


def test_anytime_starts_at_fifty_positives():
    """A confidence sequence begins at 50 positives."""
    assert evaluator(49).interval("auc_roc", anytime=True).reason == "TOO_FEW"
    assert evaluator(50).interval("auc_roc", anytime=True).reason is None


@pytest.mark.parametrize("name", AREAS)
def test_perfect_and_worst_rankings_have_proper_intervals(name):
    """At 1 the upper limit is 1 and the lower below; reversed scores mirror AUC-ROC."""
    ev = Evaluator()
    ev.add_cases(labels=[1] * 20 + [0] * 30, scores=[1.0] * 20 + [0.0] * 30)
    interval = ev.interval(name)
    assert interval.upper == 1.0
    assert 0.7 < interval.lower < 0.95
    worst = Evaluator()
    worst.add_cases(labels=[0] * 20 + [1] * 30, scores=[1.0] * 20 + [0.0] * 30)
    low = worst.interval(name)
    assert 0 <= low.lower <= low.estimate < low.upper < 1
    if name == "auc_roc":
        assert low.lower == 0.0
    missed = Evaluator()
    missed.add_misses(20)
    missed.add_cases(labels=[0] * 30, scores=list(range(30)))
    none = missed.interval("average_precision")
    assert none.estimate == 0.0
    assert none.lower == 0.0
    assert 0 < none.upper < 0.3


@given(
    st.integers(2, 10**6), st.integers(2, 10**6), st.floats(0, 1), st.floats(0, 0.05), st.booleans()
)
def test_limits_are_proper(positives, negatives, estimate, variance, anytime):
    """For any metric: ordered, in [0, 1], around the estimate."""
    figure = Figure(estimate, variance, positives, negatives)
    for limits in (auc_roc_limits, precision_limits, proportion_limits):
        lower, upper = limits(figure, 0.05, anytime=anytime)
        assert 0 <= lower <= estimate * (1 + 1e-9) + 1e-300
        assert estimate * (1 - 1e-9) - 1e-9 <= upper <= 1


@given(st.integers(0, 200), st.integers(0, 200))
def test_prevalence_is_wilsons_and_exact_of_few_cases(positives, negatives):
    """Scipy's Wilson interval, and its quantile of the beta distribution."""
    total = positives + negatives
    if total < 2:
        return
    expected = stats.binomtest(positives, total).proportion_ci(method="wilson")
    least = stats.beta(positives, negatives + 1).ppf(0.05) if positives else 0.0
    greatest = stats.beta(positives + 1, negatives).ppf(0.95) if negatives else 1.0
    figure = Figure(positives / total, math.nan, positives, negatives)
    found = proportion_limits(figure, 0.05)
    assert found == pytest.approx(
        (min(expected.low, least), max(expected.high, greatest)), abs=0.012 / total
    )
    if min(positives, negatives) > 20:
        assert found == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_a_share_of_few_cases_is_held():
    """Exactly, over all counts: Wilson's limits alone hold it in 84 % where 0.18 are expected."""
    for cases in (50, 1_000):
        counts = range(min(60, cases + 1))
        limits = [
            proportion_limits(Figure(hits / cases, math.nan, hits, cases - hits), 0.05)
            for hits in counts
        ]
        for expected in np.geomspace(0.02, 10, 200):
            share = expected / cases
            held = [lower <= share <= upper for lower, upper in limits]
            chances = stats.binom(cases, share).pmf(counts)
            assert chances @ held >= 0.93, (cases, expected)


def test_newcombe_variance_is_hanley_and_mcneils_between_equal_sizes():
    """Method 5 puts the mean size for both in Hanley and McNeil's formula (1982)."""
    for auc in (0.5, 0.7, 0.93, 0.999):
        n = 40
        q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
        expected = auc * (1 - auc) + (n - 1) * (q1 - auc**2) + (n - 1) * (q2 - auc**2)
        assert newcombe_variance(auc, n, n) == pytest.approx(expected / n**2, rel=1e-12)


def test_auc_roc_limits_solve_their_equation():
    """At each limit the estimate is the quantile times the standard error away."""
    figure = Figure(0.83, 0.0004, 90, 1_000)
    expected = newcombe_variance(0.83, 90, 1_000)
    effective = 90 * 4 * 0.83 * 0.17
    seen = figure.variance / expected
    ratio = max(seen, (effective * seen + 1) / (effective + 1))
    for limit in auc_roc_limits(figure, 0.05):
        variance = ratio * newcombe_variance(limit, 90, 1_000)
        distance = abs(limit - 0.83) / math.sqrt(variance)
        assert distance == pytest.approx(student_quantile(0.025, 89), rel=1e-9)
    for limit in auc_roc_limits(figure, 0.05, anytime=True):
        variance = ratio * newcombe_variance(limit, 90, 1_000)
        distance = abs(limit - 0.83) / math.sqrt(variance)
        assert distance == pytest.approx(anytime_quantile(0.05, 90), rel=1e-9)


def test_large_samples_agree_with_delongs_interval():
    """With thousands of cases the correction vanishes: estimate -+ 1.96 standard errors."""
    ev = evaluator(20_000, 30_000)
    interval = ev.interval("auc_roc")
    figure = figure_of(ev._view().groups, "auc_roc")
    half = 1.96 * math.sqrt(figure.variance)
    assert interval.lower == pytest.approx(interval.estimate - half, abs=0.02 * half)
    assert interval.upper == pytest.approx(interval.estimate + half, abs=0.02 * half)


@pytest.mark.parametrize("name", AREAS)
def test_bootstrap_agrees_in_width_and_repeats(name):
    """Resampling gives about the same interval; equal seeds give equal intervals."""
    ev = evaluator(200, 2_000)
    ev.add_misses(10)
    ev.add_negative_misses(50)
    for prevalence in (None,) if name == "auc_roc" else (None, 0.02):
        analytic = ev.interval(name, prevalence=prevalence)
        drawn = ev.interval(name, method="bootstrap", resamples=400, prevalence=prevalence)
        assert drawn == ev.interval(name, method="bootstrap", resamples=400, prevalence=prevalence)
        assert drawn != ev.interval(
            name, method="bootstrap", resamples=400, seed=1, prevalence=prevalence
        )
        assert drawn.width == pytest.approx(analytic.width, rel=0.15)
        assert drawn.method == "bootstrap"
        assert drawn.estimate in drawn


def test_bootstrap_needs_two_of_each_class_to_begin_with():
    """Resamples of two positives may lose one class; the interval still exists."""
    interval = evaluator(2, 3).interval("auc_roc", method="bootstrap", resamples=50)
    assert 0 <= interval.lower <= interval.upper <= 1


@pytest.mark.parametrize("name", AREAS)
def test_bounded_interval_holds_the_exact_one(name):
    """The unknown order in the cells widens the interval, which contains the exact one."""
    for bits in (3, 6, 10):
        exact, bounded = evaluator(seed=4), evaluator(seed=4, resolution=bits)
        inner, outer = exact.interval(name), bounded.interval(name)
        lowest, highest = bounded.bounds(name)
        assert outer.lower <= lowest
        assert outer.upper >= highest
        assert outer.lower <= inner.lower + 1e-3 * inner.width
        assert outer.upper >= inner.upper - 1e-3 * inner.width
        assert bounded.interval("prevalence") == exact.interval("prevalence")


def test_bounded_interval_at_another_prevalence():
    """Bounds and limits both use the given prevalence."""
    exact, bounded = evaluator(seed=4), evaluator(seed=4, resolution=5)
    inner = exact.interval("auc_pr", prevalence=0.01)
    outer = bounded.interval("auc_pr", prevalence=0.01)
    assert outer.lower <= inner.lower
    assert outer.upper >= inner.upper


def test_hidden_error_is_the_design_formula():
    """Sum p (n/2N)^2/(P(P-1)) + sum n (p/2P)^2/(N(N-1)), by hand for one shared cell."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 1, 0, 0, 0], scores=[1, 1, 1, 1, 0])
    expected = 2 * (2 / 6) ** 2 / (2 * 1) + 2 * (2 / 4) ** 2 / (3 * 2)
    assert hidden_error(ev._view().groups) == pytest.approx(math.sqrt(expected), rel=1e-15)


def test_huge_counts_stay_finite():
    """Counts near 2**61 do not overflow: the interval is narrow, and around the metric."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1, 0], scores=[3, 3, 2, 1], counts=[2**60, 2**59, 2**59, 2**60])
    for name in AREAS:
        interval = ev.interval(name)
        assert interval.lower <= interval.estimate <= interval.upper
        assert interval.width < 1e-6


@pytest.mark.parametrize(
    ("arguments", "message", "field"),
    [
        ({"metric": "auc_roc_hull"}, "chosen on the data it is scored on", "metric"),
        ({"metric": "auc_pr_hull"}, "use auc_pr", "metric"),
        ({"metric": "f1"}, "no interval for 'f1'; there is one for auc_pr, auc_roc", "metric"),
        ({"metric": "auc_roc", "level": 1.0}, "level must be between 0 and 1, got 1.0", "level"),
        ({"metric": "auc_roc", "level": math.nan}, "got nan", "level"),
        ({"metric": "auc_roc", "prevalence": 0.1}, "does not depend on a prevalence", "prevalence"),
        ({"metric": "auc_pr", "prevalence": 0.0}, "prevalence must be between", "prevalence"),
        ({"metric": "auc_pr", "method": "magic"}, "'analytic' or 'bootstrap'", "method"),
        ({"metric": "auc_pr", "method": "bootstrap", "anytime": True}, "anytime", "method"),
        ({"metric": "prevalence", "method": "bootstrap"}, "a share of cases", "method"),
        ({"metric": "auc_pr", "method": "bootstrap", "resamples": 0}, "at least 1", "resamples"),
    ],
)
def test_refusals(arguments, message, field):
    """Invalid arguments are refused with the field's name."""
    with pytest.raises(InvalidInputError, match=message) as caught:
        evaluator().interval(**arguments)
    assert caught.value.field == field


def test_bootstrap_is_refused_for_cells():
    """The bootstrap is refused for cells, whose order is not known."""
    with pytest.raises(InvalidInputError, match="kept few bits"):
        evaluator(resolution=6).interval("auc_roc", method="bootstrap")


def test_comparison_finds_a_difference_and_its_direction():
    """A better model is better, with a small p-value, both ways round."""
    good, bad = evaluator(300, 3_000, 2.0, seed=1), evaluator(300, 3_000, 1.0, seed=2)
    for metric in AREAS:
        there, back = compare(good, bad, metric=metric), compare(bad, good, metric=metric)
        assert there.difference > 0
        assert there.lower > 0
        assert there.p_value < 1e-4
        assert back.difference == -there.difference
        assert back.lower == pytest.approx(-there.upper)
        assert back.p_value == pytest.approx(there.p_value)
        assert there.a.estimate - there.b.estimate == there.difference


def test_p_value_is_where_the_interval_touches_zero():
    """At level 1 - p the nearer limit is 0."""
    a, b = evaluator(100, 500, 1.6, seed=5), evaluator(100, 500, 1.3, seed=6)
    for metric in AREAS:
        comparison = compare(a, b, metric=metric)
        touching = compare(a, b, metric=metric, level=1 - comparison.p_value)
        nearer = min(abs(touching.lower), abs(touching.upper))
        assert nearer == pytest.approx(0, abs=1e-8)


def bisected(difference: float, limits) -> float:
    """Return the alpha at which the limit on the side of 0 crosses it, by bisection alone."""
    side, sign = (0, 1) if difference > 0 else (1, -1)
    low, high = math.log(MIN_P_VALUE), 0.0
    for _ in range(60):
        middle = (low + high) / 2
        is_beyond = sign * limits(math.exp(middle))[side] > 0
        low, high = (low, middle) if is_beyond else (middle, high)
    return math.exp(low)


@pytest.mark.slow
def test_p_values_are_those_of_a_bisection():
    """To 1e-10 of their value, for large differences and small, from far fewer intervals."""
    rng = np.random.default_rng(41)
    found = 0
    for seed in range(40):
        of_cells = {"resolution": int(rng.choice([4, 8, 12])), "scale": "probability"}
        cells = of_cells if seed % 2 else {}
        sides = []
        for _ in range(2):
            size = int(rng.choice([40, 300]))
            labels = rng.random(size) < rng.choice([0.1, 0.5])
            scores = rng.normal(size=size) + rng.choice([0.5, 1.0, 2.0]) * labels
            side = Evaluator(**cells)
            side.add_cases(labels=labels, scores=1 / (1 + np.exp(-scores)))
            sides.append(side)
        for metric in (*AREAS, "prevalence"):
            a, b = (rule_of(metric).uncertain(side, metric, Given()) for side in sides)
            levels = []

            def limits(alpha: float, a=a, b=b, levels=levels) -> tuple[float, float]:
                levels.append(alpha)
                return square_and_add(a.estimate, a.limits(alpha), b.estimate, b.limits(alpha))

            difference = a.estimate - b.estimate
            p_value = p_value_of(difference, limits)
            if math.isnan(p_value) or p_value in (1.0, MIN_P_VALUE):
                continue
            assert len(levels) <= 35, (seed, metric)
            assert p_value == pytest.approx(bisected(difference, limits), rel=1.5e-10)
            side = 0 if difference > 0 else 1
            assert limits(p_value)[side] * (1 if side == 0 else -1) <= 0
            found += 1
    assert found > 60


def test_an_evaluator_does_not_differ_from_itself():
    """No difference has p-value 1."""
    comparison = compare(evaluator(), evaluator())
    assert (comparison.difference, comparison.p_value) == (0.0, 1.0)
    assert comparison.lower < 0 < comparison.upper


@pytest.mark.parametrize("alpha", [1.0, 0.5, MIN_P_VALUE])
def test_limits_that_are_undefined_have_no_p_value(alpha):
    """At whichever end, the search ends."""

    def limits(at: float) -> tuple[float, float]:
        defined = (0.1 - at, 0.3)
        return (math.nan, math.nan) if at == pytest.approx(alpha, rel=1e-6, abs=0) else defined

    assert math.isnan(p_value_of(0.2, limits))


def test_p_values_have_a_floor():
    """No p-value is smaller than 1e-12, where asymptotics end."""
    good, bad = evaluator(5_000, 5_000, 3.0), evaluator(5_000, 5_000, 0.1, seed=2)
    assert compare(good, bad, metric="auc_roc").p_value == MIN_P_VALUE


def test_comparison_of_precision_recall_areas_has_one_prevalence():
    """One curve at two prevalences differs unscaled, and does not at the greater of the two."""
    rare, common = evaluator(400, 20_000, seed=7), evaluator(400, 800, seed=8)
    assert compare(rare, common, metric="auc_pr", prevalence="own").p_value < 1e-6
    comparison = compare(rare, common, metric="auc_pr")
    assert comparison.p_value > 0.05
    assert comparison.prevalence == common.prevalence == 1 / 3
    assert comparison.auc_roc == compare(rare, common, metric="auc_roc")
    told = str(comparison).splitlines()
    assert told[1] == "both at a prevalence of 0.3333, the greater of the two"
    assert told[2] == f"AUC-ROC, which does not depend on it: {comparison.auc_roc}"
    assert comparison.a.estimate == rare.auc_pr(prevalence=comparison.prevalence)
    chosen = compare(rare, common, metric="average_precision", prevalence=0.3)
    assert chosen.b.estimate == common.average_precision(prevalence=0.3)
    assert (compare(rare, common, metric="auc_roc").prevalence, chosen.auc_roc) == (None, None)
    assert compare(rare, common, metric="prevalence").p_value < 1e-6


@pytest.mark.parametrize(
    ("rare", "common"), [((200, 39_800), (200, 200)), ((400, 19_600), (150, 350))]
)
def test_sides_of_unlike_prevalence_and_one_curve_seldom_differ(rare, common):
    """At the pooled prevalence p < 0.05 in 0.44 and 0.15 of the same samples (seed 36)."""
    rng = np.random.default_rng(36)
    found = 0
    for _ in range(400):
        sides = Evaluator(), Evaluator()
        for side, (P, N) in zip(sides, (rare, common), strict=True):
            scores = rng.normal(size=P + N)
            scores[:P] += 2
            side.add_cases(labels=np.arange(P + N) < P, scores=scores)
        found += compare(*sides).p_value < 0.05
    assert found / 400 < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize("prevalence", [0.01, 0.001])
@pytest.mark.parametrize("other", [200, 39_800])
def test_equal_sides_seldom_differ_at_a_prevalence_far_from_theirs(prevalence, other):
    """The unseen case of each side counts as much as it weighs there."""
    rng = np.random.default_rng([37, other])
    found = 0
    for _ in range(200):
        sides = Evaluator(), Evaluator()
        for side, N in zip(sides, (200, other), strict=True):
            scores = rng.normal(size=200 + N)
            scores[:200] += 2
            side.add_cases(labels=np.arange(200 + N) < 200, scores=scores)
        found += compare(*sides, prevalence=prevalence).p_value < 0.05
    assert found / 200 < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 200)


@pytest.mark.parametrize(
    ("labels", "reason", "told"),
    [
        ([], "EMPTY", "b has no labelled case"),
        ([0, 0], "NO_POSITIVES", "b has no positive case"),
        ([1, 1], "NO_NEGATIVES", "b has no negative case"),
    ],
)
def test_a_side_of_one_class_is_told(labels, reason, told):
    """By name, with what it lacks; its prevalence decides nothing."""
    one_class = Evaluator()
    one_class.add_cases(labels=labels, scores=[0.5] * len(labels))
    both = evaluator()
    comparison = compare(both, one_class)
    assert (comparison.reason, comparison.prevalence) == (reason, both.prevalence)
    assert str(comparison) == f"nan (no interval: {reason}, {told})"


@pytest.mark.parametrize("misses", [2**30, 2**54, 2**60])
@pytest.mark.parametrize("positive", [True, False])
def test_a_common_prevalence_is_one_however_rare_a_class_is(misses, positive):
    """It stays below 1 where the quotient rounds to 1, as with 2^54 misses and two negatives."""
    sides = []
    for _ in range(2):
        side = Evaluator()
        side.add_cases(labels=[1, 1, 0, 0], scores=[0.9, 0.4, 0.5, 0.1])
        (side.add_misses if positive else side.add_negative_misses)(misses)
        sides.append(side)
    comparison = compare(*sides, metric="auc_pr")
    exact = Fraction(misses + 2, misses + 4)
    expected = exact if positive else 1 - exact
    assert 0 < comparison.prevalence < 1
    assert comparison.prevalence == pytest.approx(float(expected))
    assert comparison.difference == 0


def test_comparison_of_prevalences_is_newcombes_method_10():
    """His table II (1998): 56/70 against 48/80, 95 % limits 0.0524 and 0.3339."""
    a, b = Evaluator(), Evaluator()
    a.add_misses(56)
    a.add_negative_misses(14)
    b.add_misses(48)
    b.add_negative_misses(32)
    comparison = compare(a, b, metric="prevalence")
    assert comparison.difference == pytest.approx(0.2)
    assert (round(comparison.lower, 4), round(comparison.upper, 4)) == (0.0524, 0.3339)


def test_bounded_evaluators_compare_more_cautiously():
    """The unknown order in the cells widens the interval of the difference."""
    exact = compare(evaluator(seed=1), evaluator(seed=2))
    bounded = compare(evaluator(seed=1, resolution=4), evaluator(seed=2, resolution=4))
    assert bounded.lower < exact.lower
    assert bounded.upper > exact.upper
    assert bounded.p_value > exact.p_value


def test_comparison_errs_as_often_as_it_says():
    """Two evaluators of one population differ at the 5 % level in about 5 % of trials.

    By the variances of the samples alone; the cases that these may lack make it fewer.
    """
    rng = np.random.default_rng(20_262)
    found, seen = [], []
    trials = 400
    for _ in range(trials):
        pair = []
        for _ in range(2):
            ev = Evaluator()
            ev.add_cases(labels=np.ones(40), scores=rng.normal(1.5, 1, 40))
            ev.add_cases(labels=np.zeros(200), scores=rng.normal(0, 1, 200))
            pair.append(ev)
        comparison = compare(*pair, metric="average_precision")
        found.append(comparison.p_value)
        figures = [ev._figure("average_precision", comparison.prevalence) for ev in pair]
        seen.append(p_value_of(comparison.difference, partial(_seen_limits, *figures)))
    assert (np.array(found) >= seen).all()
    assert 0.02 <= np.mean(np.array(seen) < 0.05) <= 0.08
    # Four standard errors about 0.2, where an unseen case weighs little.
    assert 0.12 <= np.mean(np.array(found) < 0.2) <= 0.28


def _seen_limits(a, b, alpha):
    """Return the limits of a difference of areas by the variances of the samples alone."""
    first, second = (precision_limits(each, alpha) for each in (a, b))
    return square_and_add(a.estimate, first, b.estimate, second)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prevalence": "mine"}, "a number, 'common' or 'own'"),
        ({"metric": "auc_roc", "prevalence": 0.2}, "auc_roc does not depend"),
        ({"metric": "auc_pr", "prevalence": 2.0}, "between 0 and 1"),
        ({"metric": "auc_pr_hull"}, "has no interval"),
        ({"level": 0}, "level must be between"),
    ],
)
def test_comparison_refusals(arguments, message):
    """Metrics without intervals are refused with the field's name."""
    with pytest.raises(InvalidInputError, match=message):
        compare(evaluator(), evaluator(), **arguments)


def test_comparing_nothing_is_nan():
    """Two empty evaluators: no difference, no p-value, no error."""
    comparison = compare(Evaluator(), Evaluator(), metric="auc_pr")
    assert math.isnan(comparison.difference)
    assert math.isnan(comparison.p_value)


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1) | st.just(math.nan), max_size=12))
def test_holm_by_definition(p_values):
    """Sorted, the i-th of m is multiplied by m - i, and never falls below the one before."""
    adjusted = holm(p_values)
    known = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    least = 0.0
    for rank, (p, i) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * p))
        assert adjusted[i] == pytest.approx(least)
    assert np.isnan(adjusted).sum() == len(p_values) - len(known)


@pytest.mark.parametrize("p_values", [[0.5, 1.5], [-0.1], [[0.1]]])
def test_holm_refuses_what_is_no_probability(p_values):
    """A bad p-value is refused with the index of the first."""
    with pytest.raises(InvalidInputError, match=r"p.values?"):
        holm(p_values)


@pytest.mark.parametrize("name", ["auc_pr", "average_precision"])
@pytest.mark.parametrize(("P", "N"), [(20, 1_000), (200, 2_000), (1_000, 20_000)])
def test_one_swapped_pair_is_nearly_perfect(name, P, N):
    """Limits of nearly perfect rankings are near those of a perfect one, bounded or not."""
    scores = np.arange(P + N, 0, -1.0)
    perfect = Evaluator()
    perfect.add_cases(labels=np.arange(P + N) < P, scores=scores)
    swapped = np.arange(P + N) < P
    swapped[[P - 1, P]] = False, True
    for resolution in (None, 12):
        ev = Evaluator(resolution=resolution)
        ev.add_cases(labels=swapped, scores=scores)
        best = perfect.interval(name).lower
        assert best - 0.5 * (1 - best) < ev.interval(name).lower <= best


def test_no_use_and_few_positives_is_no_reason_for_an_upper_limit_of_one():
    """20 positives among 100,000 in random order: the interval stays far from 0.99."""
    random = np.random.default_rng(1)
    ev = Evaluator()
    ev.add_cases(labels=np.arange(100_000) < 20, scores=random.normal(size=100_000))
    assert ev.auc_pr() < 0.01
    assert ev.interval("auc_pr").upper < 0.25


@pytest.mark.parametrize("name", ["intervals", "compare", "limits"])
def test_examples(name):
    """The docstrings' examples run."""
    module = importlib.import_module(f"streameval._uncertainty.{name}")
    assert doctest.testmod(module).failed == 0


def exact_and_bounded(rng):
    """Return an exact and a bounded evaluator with the same random cases and misses."""
    size = int(rng.choice([6, 12, 30, 100, 400]))
    labels = rng.random(size) < rng.choice([0.02, 0.1, 0.3, 0.5, 0.9])
    scores = rng.normal(labels * rng.choice([0, 1, 2.5, 5, -1]))
    settings = {"resolution": int(rng.choice([1, 2, 3, 4, 6, 8, 12]))}
    if rng.random() < 0.3:
        settings = {"max_cells": int(rng.choice([4, 8, 20, 60]))}
    misses = rng.integers(0, 1 + size // 5, 2).tolist() if rng.random() < 0.4 else (0, 0)
    exact, bounded = Evaluator(), Evaluator(**settings)
    for ev in (exact, bounded):
        ev.add_cases(labels=labels, scores=scores)
        ev.add_misses(misses[0])
        ev.add_negative_misses(misses[1])
    return exact, bounded


@pytest.mark.parametrize(
    ("name", "prevalence"),
    [
        ("auc_roc", None),
        ("auc_pr", None),
        ("auc_pr", 0.1),
        ("average_precision", None),
        ("average_precision", 0.1),
    ],
)
@pytest.mark.slow
def test_intervals_of_cells_enclose_those_of_exact_scores(name, prevalence):
    """At any level, anytime or not."""
    rng = np.random.default_rng(19)
    total = 0
    for _ in range(500):
        exact, bounded = exact_and_bounded(rng)
        level = float(rng.choice([0.5, 0.8, 0.95, 0.999]))
        for anytime in (False, True):
            options = {"level": level, "anytime": anytime, "prevalence": prevalence}
            inner = exact.interval(name, **options)
            outer = bounded.interval(name, **options)
            if inner.reason is None:
                total += 1
                assert outer.lower <= inner.lower <= inner.upper <= outer.upper
    assert total > 500
