"""Limits for the rare cases that a sample may not have."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streameval import Evaluator
from streameval._uncertainty import unseen_cases
from streameval._uncertainty.estimates import limits_of
from streameval._uncertainty.limits import Figure, auc_roc_limits, precision_limits
from streameval._uncertainty.unseen_cases import with_unseen_cases
from streameval.statistics import BY_NAME

AREAS = ("auc_roc", "auc_pr", "average_precision")


def truths(positive, negative):
    """Return the areas at prevalence 1/2, by integration over the positives above a score."""
    # On the logistic scale, where the integrand is smooth at both ends.
    x = np.linspace(-40, 40, 200_001)
    u = 1 / (1 + np.exp(-x))
    fpr = negative.sf(positive.isf(u))
    weight = u * (1 - u) * (x[1] - x[0])
    precision = float(np.sum(u / (u + fpr) * weight))
    return {
        "auc_roc": float(np.sum((1 - fpr) * weight)),
        "auc_pr": precision,
        "average_precision": precision,
    }


@pytest.mark.parametrize(("df", "shift"), [(3, 4), (5, 4)])
@pytest.mark.slow
def test_heavy_tails_keep_their_coverage(df, shift):
    """By the variance of the sample alone AP is held in 0.84 to 0.87 of these."""
    positive, negative = stats.t(df, loc=shift), stats.t(df)
    expected = truths(positive, negative)
    rng = np.random.default_rng(20_421)
    held = dict.fromkeys(AREAS, 0)
    seen = dict.fromkeys(AREAS, 0)
    streams = 200
    for _ in range(streams):
        labels = rng.random(400) < 0.5
        ev = Evaluator()
        ev.add_cases(labels=labels, scores=rng.standard_t(df, 400) + shift * labels)
        for area in AREAS:
            held[area] += expected[area] in ev.interval(area)
            figure = ev._figure(area, None)
            limits = auc_roc_limits if area == "auc_roc" else precision_limits
            lower, upper = limits(figure, 0.05)
            seen[area] += lower <= expected[area] <= upper
    assert seen["average_precision"] <= held["average_precision"] - 0.03 * streams
    for area in AREAS:
        # Nominal 0.95; 0.89 is three standard errors below 0.93.
        assert held[area] / streams >= 0.89


def areas_above(draw_positive, draw_negative, sizes, streams, seed):
    """Yield evaluators of streams of one population."""
    rng = np.random.default_rng(seed)
    for _ in range(streams):
        ev = Evaluator()
        ev.add_cases(labels=np.ones(sizes[0]), scores=draw_positive(rng, sizes[0]))
        ev.add_cases(labels=np.zeros(sizes[1]), scores=draw_negative(rng, sizes[1]))
        yield ev


@pytest.mark.parametrize("prevalence", [0.001, 0.01, 0.9])
@pytest.mark.parametrize("df", [3, None])
def test_far_from_the_data_s_prevalence_the_truth_is_held(prevalence, df):
    """Of 1,000 cases of each class the old limits held it in 0.06 to 0.62 at 0.001 and 0.01."""
    noise, shift = (stats.norm, 2) if df is None else (stats.t(df), 4)
    x = np.linspace(-40, 40, 200_001)
    u = 1 / (1 + np.exp(-x))
    fpr = noise.sf(noise.isf(u) + shift)
    precision = u / (u + (1 - prevalence) / prevalence * fpr)
    truth = float(np.sum(precision * u * (1 - u)) * (x[1] - x[0]))

    def drawn(rng, size):
        return rng.normal(size=size) if df is None else rng.standard_t(df, size)

    streams = areas_above(lambda *of: drawn(*of) + shift, drawn, (1_000, 1_000), 150, 20_611)
    held = [truth in ev.interval("auc_pr", prevalence=prevalence) for ev in streams]
    # Four standard errors of 150 streams below 0.93.
    assert np.mean(held) >= 0.93 - 4 * 0.0208


def test_near_one_auc_roc_is_not_much_wider_than_needed():
    """Of 1,000 cases of each class at 0.9977 it was 1.9 times as wide."""

    def above(rng, size):
        return rng.normal(4, size=size)

    streams = areas_above(above, lambda rng, size: rng.normal(size=size), (1_000,) * 2, 300, 20_612)
    widths = [ev.interval("auc_roc").width for ev in streams]
    # The variance of placements on each side, and of a pair within both (Hanley and McNeil 1982).
    area, x = stats.norm.cdf(4 / math.sqrt(2)), np.linspace(-12, 16, 40_001)
    alike = sum(
        float(placed**2 @ density) * (x[1] - x[0]) - area**2
        for placed, density in (
            (stats.norm.cdf(x), stats.norm.pdf(x - 4)),
            (stats.norm.sf(x - 4), stats.norm.pdf(x)),
        )
    )
    needed = 2 * 1.96 * math.sqrt((area * (1 - area) + 999 * alike) / 1_000**2)
    assert np.median(widths) <= 1.5 * needed


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("prevalence", [None, 0.02])
def test_a_step_is_what_one_more_case_takes(area, prevalence):
    """A negative above all and a positive below all, of ties, misses and any prevalence."""
    if area == "auc_roc":
        prevalence = None
    estimator = BY_NAME[area].estimator
    given = {} if prevalence is None else {"prevalence": prevalence}
    labels, scores = [1, 0, 1, 1, 0, 0, 1, 0], [9, 9, 8, 7, 7, 6, 5, 4]
    for misses in (0, 2):

        def value(*more, misses=misses):
            ev = Evaluator()
            ev.add_cases(labels=labels, scores=scores)
            for label, score in more:
                ev.add_case(label, score)
            if misses:
                ev.add_misses(misses)
            return ev, getattr(ev, area)(**given)

        ev, now = value()
        groups = ev._view().groups
        step = unseen_cases.negative_step(groups, estimator, prevalence)
        assert step == pytest.approx(now - value((0, 10))[1], rel=1e-9)
        if not misses:
            step = unseen_cases.positive_step(groups, estimator, prevalence)
            assert step == pytest.approx(now - value((1, 3))[1], rel=1e-9)


figures = st.builds(
    Figure,
    estimate=st.floats(0, 1),
    variance=st.floats(0, 0.05),
    positives=st.integers(2, 3000),
    negatives=st.integers(2, 3000),
    unseen=st.tuples(st.floats(0, 0.3), st.just(0.0)),
    floor=st.floats(0, 0.9),
)


@given(figures, st.sampled_from(AREAS), st.sampled_from([0.5, 0.1, 0.05, 0.001]))
def test_limits_widen_by_what_is_unseen_at_most(figure, area, alpha):
    """The estimate, the order of the limits and the range [0, 1] stay."""
    core = auc_roc_limits if area == "auc_roc" else precision_limits
    lower, upper = core(figure, alpha)
    below, above = limits_of(figure, area, alpha)
    assert 0 <= below <= lower + 1e-12
    assert upper - 1e-12 <= above <= 1
    fall, rise = BY_NAME[area].interval.unseen_errors(figure)
    quantile = stats.norm.isf(alpha / 2)
    far_below, far_above = (
        math.hypot(limit - figure.estimate, quantile * error)
        for limit, error in ((lower, fall), (upper, rise))
    )
    assert below == pytest.approx(max(figure.estimate - far_below, 0), abs=1e-12)
    assert above == pytest.approx(min(figure.estimate + far_above, 1), abs=1e-12)


@given(figures, st.sampled_from(AREAS), st.floats(0, 1), st.floats(0, 1))
def test_limits_between_two_figures_enclose_those_between(figure, area, width, share):
    """Given the outermost limits, no estimate between two has limits beyond the result."""
    lowest = figure
    highest = replace(figure, estimate=figure.estimate + (1 - figure.estimate) * width)
    between = lowest.estimate + (highest.estimate - lowest.estimate) * share
    middle = replace(figure, estimate=between)
    core = auc_roc_limits if area == "auc_roc" else precision_limits
    cores = [core(each, 0.05) for each in (lowest, middle, highest)]
    outermost = min(lower for lower, _ in cores), max(upper for _, upper in cores)
    lower, upper = with_unseen_cases(
        outermost, lowest, highest, BY_NAME[area].interval.unseen_errors, 0.05
    )
    for each in (lowest, middle, highest):
        below, above = limits_of(each, area, 0.05)
        assert lower <= below + 1e-9
        assert above <= upper + 1e-9


def test_auc_roc_of_the_opposite_ranking_is_mirrored():
    """Swapping the order of the scores swaps the limits."""
    figure = Figure(0.93, 0.0004, 40, 90)
    mirrored = Figure(1 - 0.93, 0.0004, 40, 90)
    lower, upper = limits_of(figure, "auc_roc", 0.05)
    assert limits_of(mirrored, "auc_roc", 0.05) == pytest.approx((1 - upper, 1 - lower))


def test_few_positives_above_all_others_keep_their_coverage():
    """One positive in 100 is on top, the others as negatives do; 0.86 by the variance alone."""
    rng, size, held = np.random.default_rng(31), 300, 0
    truth = float(np.mean([_with_some_on_top(rng).average_precision() for _ in range(size)]))
    for _ in range(size):
        held += truth in _with_some_on_top(rng).interval("average_precision")
    assert held >= 0.95 * size


def _with_some_on_top(rng):
    """Return 200 positives, of which 2 are on top on average, and 20,000 negatives."""
    ev, top = Evaluator(), rng.random(200) < 0.01
    ev.add_cases(labels=np.ones(200, dtype=bool), scores=rng.random(200) + 2 * top)
    ev.add_cases(labels=np.zeros(20_000, dtype=bool), scores=rng.random(20_000))
    return ev


@pytest.mark.parametrize("resolution", [None, 8])
def test_clusters_without_one_effective_negative_leave_no_limits(resolution):
    """Exactly inverted, clusters have a vast effect at a tiny prevalence: no error, no limits."""
    ev = Evaluator(cluster_groups=32, resolution=resolution)
    labels = np.repeat([False, True], 60)
    ev.add_cases(labels=labels, scores=np.arange(120.0)[::-1], clusters=np.arange(120) // 2)
    interval = ev.interval("average_precision", prevalence=1e-12)
    assert interval.design_effect > 1e20
    assert interval.reason == "TOO_FEW"


def test_one_figure_has_its_own_limits():
    """Limits between a figure and itself are those of the figure."""
    figure = Figure(0.97, 0.0002, 100, 100)
    for area in AREAS:
        between = BY_NAME[area].interval.limits((figure, figure), 0.05, anytime=False)
        assert between == pytest.approx(limits_of(figure, area, 0.05))


def test_examples():
    """The docstring's example runs."""
    assert doctest.testmod(unseen_cases).failed == 0
