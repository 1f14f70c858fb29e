"""The expected cost of errors and its interval: exact fractions, scipy, known truths."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest

from streameval import Confusion, Evaluator, InvalidInputError, WindowedEvaluator, compare
from streameval._uncertainty.error_costs import CostRule, error_shares
from streameval.statistics import ErrorCosts

stats = pytest.importorskip("scipy.stats")

NAME = "expected_cost"
THRESHOLD, SHIFT = 0.8, 1.5
COSTS = [(1.0, 1.0), (1.0, 5.0), (5.0, 1.0), (1.0, 20.0), (0.0, 3.0), (2.5, 0.0)]


def draw(rng: np.random.Generator, size: int, prevalence: float = 0.3):
    """Return labels and scores of independent cases."""
    labels = rng.random(size) < prevalence
    return labels, rng.normal(labels * SHIFT)


def evaluator(seed: int = 7, size: int = 500, **settings) -> Evaluator:
    """Return an evaluator with misses of both classes."""
    labels, scores = draw(np.random.default_rng(seed), size)
    ev = Evaluator(**settings)
    ev.add_cases(labels=labels, scores=scores)
    ev.add_misses(4)
    ev.add_negative_misses(9)
    return ev


def interval(ev, costs, **given):
    return ev.interval(NAME, threshold=THRESHOLD, cost_fp=costs[0], cost_fn=costs[1], **given)


def wilson(hits: float, cases: float, level: float = 0.95) -> tuple[float, float]:
    """Return the roots of the equation that defines Wilson's limits, exact of few cases."""
    q2 = stats.norm.ppf((1 + level) / 2) ** 2
    share = hits / cases
    low, high = sorted(np.roots([1 + q2 / cases, -2 * share - q2 / cases, share**2]).real)
    exact = stats.beta(hits, cases - hits + 1).ppf(1 - level) if hits else 0.0
    other = stats.beta(cases - hits, hits + 1).ppf(1 - level) if hits < cases else 0.0
    return max(min(low, exact), 0.0), min(max(high, 1 - other), 1.0)


@pytest.mark.parametrize("costs", [*COSTS, (0.1, 0.7), (1e308, 1e308), (Fraction(1, 3), 2)])
@pytest.mark.parametrize("cut", [-math.inf, -0.5, 0.8, 9.0, math.inf])
def test_the_mean_is_that_of_every_case(cut, costs):
    """In exact fractions, case by case, rounded once; a miss is called positive at -inf alone."""
    labels, scores = draw(np.random.default_rng(5), 300)
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    ev.add_misses(4)
    ev.add_negative_misses(9)
    cases = [(label, score >= cut) for label, score in zip(labels, scores)]
    cases += [(True, cut == -math.inf)] * 4 + [(False, cut == -math.inf)] * 9
    of_fp, of_fn = map(Fraction, costs)
    each = [of_fp if called else of_fn for label, called in cases if label != called]
    expected = float(sum(each, Fraction(0)) / len(cases))
    assert ev.expected_cost(cut, cost_fp=costs[0], cost_fn=costs[1]) == expected
    at = ev.confusion_at(cut)
    assert at.expected_cost(cost_fp=costs[0], cost_fn=costs[1]) == expected


def test_equal_costs_have_wilsons_interval():
    """Of the share of errors; and where one kind costs nothing, of the share of the other."""
    ev = evaluator()
    at = ev.confusion_at(THRESHOLD)
    cases = at.tp + at.fp + at.fn + at.tn
    for costs, hits, factor in (
        ((3.0, 3.0), at.fp + at.fn, 3.0),
        ((0.0, 7.0), at.fn, 7.0),
        ((0.5, 0.0), at.fp, 0.5),
    ):
        found = interval(ev, costs, level=0.9)
        expected = stats.binomtest(hits, cases).proportion_ci(0.9, method="wilson")
        assert (found.lower, found.upper) == pytest.approx(
            [factor * each for each in expected], rel=1e-12
        )
        assert found.estimate == pytest.approx(factor * hits / cases, rel=1e-15)
        assert (found.method, found.level) == ("square-and-add", 0.9)


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("counts", [(40, 30, 20, 410), (5, 0, 9, 86), (0, 6, 0, 1), (0, 4, 3, 0)])
def test_limits_are_square_and_add_of_two_nested_shares(counts, costs):
    """Limits from their equations, the correlation from the covariances of counts."""
    at = Confusion(0.0, *counts)
    cases = sum(counts)
    shares = error_shares(at, ErrorCosts(*costs), cases)
    found = CostRule(costs=ErrorCosts(*costs)).limits(shares, 0.05)
    low, high = sorted(costs)
    costlier = at.fn if costs[1] >= costs[0] else at.fp
    cheaper = at.fp + at.fn - costlier
    # Of counts of a multinomial: var X = n p (1 - p), cov(X, Y) = -n p q.
    p, q = costlier / cases, cheaper / cases
    covariance = p * (1 - p) - p * q
    variances = (p + q) * (1 - p - q), p * (1 - p)
    shared = covariance / math.sqrt(math.prod(variances)) if min(variances) > 1e-12 else 0.0
    expected = []
    for side in (0, 1):
        first, second = (
            weight * abs(wilson(hits, cases)[side] - hits / cases)
            for weight, hits in ((low, costlier + cheaper), (high - low, costlier))
        )
        expected.append(math.sqrt(first**2 + second**2 + 2 * shared * first * second))
    mean = low * (p + q) + (high - low) * p
    tolerance = 2e-3 * high  # Paulson's approximation, of seven cases and more
    assert found[0] == pytest.approx(max(mean - expected[0], 0), abs=tolerance)
    assert found[1] == pytest.approx(min(mean + expected[1], high), abs=tolerance)


@pytest.mark.parametrize("costs", COSTS)
def test_of_many_cases_it_is_the_interval_of_a_mean(costs):
    """The standard error is that of the mean of each case's cost."""
    labels, scores = draw(np.random.default_rng(11), 200_000)
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    called = scores >= THRESHOLD
    each = np.where(labels, costs[1] * ~called, costs[0] * called)
    error = each.std(ddof=1) / math.sqrt(each.size)
    found = interval(ev, costs)
    half = stats.norm.ppf(0.975) * error
    assert found.estimate == pytest.approx(each.mean(), rel=1e-12)
    assert found.upper - found.estimate == pytest.approx(half, rel=0.02)
    assert found.estimate - found.lower == pytest.approx(half, rel=0.02)


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.slow
def test_intervals_hold_the_truth(costs):
    """In 93 to 97 % of 3,000 samples of 400 cases whose rates are known (a fixed seed)."""
    rng = np.random.default_rng(20_011)
    fnr, fpr = stats.norm.cdf(THRESHOLD - SHIFT), stats.norm.sf(THRESHOLD)
    truth = costs[0] * 0.7 * fpr + costs[1] * 0.3 * fnr
    held = 0
    for _ in range(3_000):
        labels, scores = draw(rng, 400)
        ev = Evaluator()
        ev.add_cases(labels=labels, scores=scores)
        held += truth in interval(ev, costs)
    assert 0.93 <= held / 3_000 <= 0.97


def test_a_sample_without_costly_errors_says_so_by_its_width():
    """No missed positive in 1,000 cases: up to Wilson's limit of 0.4 % there may be."""
    found = error_shares(Confusion(0.0, 50, 20, 0, 930), ErrorCosts(1.0, 100.0), 1_000)
    lower, upper = CostRule(costs=ErrorCosts(1.0, 100.0)).limits(found, 0.05)
    assert 0.012 < lower < 0.02
    assert upper > 99 * wilson(0, 1_000)[1] > 0.35


@pytest.mark.slow
def test_anytime_intervals_hold_at_all_looks():
    """In 1,000 runs of 20,000 cases, looked at 40 times, at most 5 % ever miss (a fixed seed)."""
    rng = np.random.default_rng(20_023)
    shares, costs = (0.06, 0.04), ErrorCosts(1.0, 8.0)
    truth = costs.cost_fp * shares[0] + costs.cost_fn * shares[1]
    parts = rng.multinomial(500, [*shares, 1 - sum(shares)], size=(1_000, 40)).cumsum(axis=1)
    missed = 0
    for run in parts.tolist():
        for fp, fn, right in run:
            found = error_shares(Confusion(0.0, right, fp, fn, 0), costs, fp + fn + right)
            lower, upper = CostRule(costs=costs).limits(found, 0.05, anytime=True)
            assert math.isnan(lower) == (fn < 50)
            if lower > truth or upper < truth:
                missed += 1
                break
    assert missed <= 50


def test_decayed_windows_count_effective_cases():
    """A flat window is the plain one; old panes that weigh little make it wider."""
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    rng = np.random.default_rng(11)
    windowed = WindowedEvaluator()
    for hours in range(10):
        labels, scores = draw(rng, 200)
        windowed.add_cases(labels=labels, scores=scores, at=now - timedelta(hours=hours))
    later = now + timedelta(minutes=1)
    whole = interval(windowed.last(timedelta(hours=10), now=later), (1, 5))
    flat = interval(windowed.decayed(timedelta(days=10_000), now=later), (1, 5))
    steep = windowed.decayed(timedelta(hours=1), now=later)
    assert tuple(flat) == pytest.approx(tuple(whole), rel=2e-3)
    assert interval(steep, (1, 5)).width > 1.3 * whole.width
    assert interval(steep, (1, 5)).estimate == steep.expected_cost(THRESHOLD, cost_fp=1, cost_fn=5)


# -- weights and clusters ----------------------------------------------------------------


def weighted(labels, scores, weights, *, least=None) -> Evaluator:
    ev = Evaluator(min_label_probability=least)
    ev.add_cases(labels=labels, scores=scores, weights=weights)
    return ev


@pytest.mark.parametrize("costs", COSTS)
def test_weights_widen_by_their_squares(costs):
    """The design effect is that of sum w^2 (c - mean)^2 / (sum w)^2; equal weights have none."""
    rng = np.random.default_rng(3)
    labels, scores = draw(rng, 900)
    plain = Evaluator()
    plain.add_cases(labels=labels, scores=scores)
    equal = interval(weighted(labels, scores, np.full(900, 8.0), least=1 / 8), costs)
    assert tuple(equal) == pytest.approx(tuple(interval(plain, costs)), rel=1e-9)
    weights = rng.integers(1, 9, size=900) / 2
    found = interval(weighted(labels, scores, weights), costs)
    called = scores >= THRESHOLD
    each = np.where(labels, costs[1] * ~called, costs[0] * called)
    mean = np.average(each, weights=weights)
    spread = (weights**2 * (each - mean) ** 2).sum() / weights.sum() ** 2
    variance = np.average(each**2, weights=weights) - mean**2
    assert found.estimate == pytest.approx(mean, rel=1e-12)
    assert found.design_effect == pytest.approx(spread * 900 / variance, rel=1e-9)
    assert found.design_effect > 1.1


@pytest.mark.slow
def test_weighted_intervals_hold_the_truth():
    """Of labels drawn with known probabilities that depend on the score (a fixed seed)."""
    rng = np.random.default_rng(20_047)
    fnr, fpr = stats.norm.cdf(THRESHOLD - SHIFT), stats.norm.sf(THRESHOLD)
    truth = 1 * 0.7 * fpr + 5 * 0.3 * fnr
    held = 0
    for _ in range(1_500):
        labels, scores = draw(rng, 1_500)
        probability = np.where(scores > 0.5, 0.8, 0.25)
        kept = rng.random(1_500) < probability
        held += truth in interval(
            weighted(labels[kept], scores[kept], 1 / probability[kept]), (1, 5)
        )
    assert 0.93 <= held / 1_500 <= 0.975


def test_few_effective_cases_are_refused():
    """Weights of which two cases have nearly all, and no design bounds them."""
    labels, scores = draw(np.random.default_rng(4), 400)
    weights = np.ones(400)
    weights[np.flatnonzero(labels)[:2]] = 1_000.0
    found = interval(weighted(labels, scores, weights), (1, 5))
    assert found.reason == "TOO_FEW_EFFECTIVE"
    assert math.isfinite(found.estimate)


@pytest.mark.slow
def test_intervals_of_clusters_hold_the_truth():
    """Five equal cases a cluster: the interval is about sqrt(5) times as wide (a fixed seed)."""
    rng = np.random.default_rng(20_051)
    fnr, fpr = stats.norm.cdf(THRESHOLD - SHIFT), stats.norm.sf(THRESHOLD)
    truth = 1 * 0.7 * fpr + 5 * 0.3 * fnr
    held, wider = 0, []
    for _ in range(600):
        labels, scores = (np.repeat(column, 5) for column in draw(rng, 300))
        keys = np.repeat(np.arange(300), 5)
        clustered, plain = Evaluator(cluster_groups=64), Evaluator()
        clustered.add_cases(labels=labels, scores=scores, clusters=keys)
        plain.add_cases(labels=labels, scores=scores)
        found = interval(clustered, (1, 5))
        held += truth in found
        wider.append(found.width / interval(plain, (1, 5)).width)
    assert 0.93 <= held / 600 <= 0.98
    assert np.median(wider) == pytest.approx(math.sqrt(5), rel=0.1)


# -- differences -------------------------------------------------------------------------


def test_differences_are_square_and_add():
    """Of the two intervals; limits stay within the larger cost."""
    a, b = evaluator(1), evaluator(2)
    costs = {"cost_fp": 1.0, "cost_fn": 5.0}
    found = compare(a, b, metric=NAME, threshold=(0.8, 0.5), **costs)
    first = a.interval(NAME, threshold=0.8, **costs)
    second = b.interval(NAME, threshold=0.5, **costs)
    assert (found.a, found.b) == (first, second)
    below = math.hypot(first.estimate - first.lower, second.upper - second.estimate)
    above = math.hypot(first.upper - first.estimate, second.estimate - second.lower)
    difference = first.estimate - second.estimate
    expected = (difference, difference - below, difference + above)
    assert (found.difference, found.lower, found.upper) == pytest.approx(expected, abs=1e-12)
    touching = compare(a, b, metric=NAME, threshold=(0.8, 0.5), level=1 - found.p_value, **costs)
    assert min(abs(touching.lower), abs(touching.upper)) < 1e-9
    bad, good = Evaluator(), Evaluator()
    bad.add_cases(labels=[1, 1, 1], scores=[0.1, 0.2, 0.3])
    good.add_cases(labels=[1, 1, 1], scores=[0.9, 0.8, 0.7])
    worst = compare(bad, good, metric=NAME, threshold=0.5, cost_fp=1, cost_fn=400)
    assert (worst.difference, worst.upper) == (400.0, 400.0)
    assert worst.lower > 1


@pytest.mark.slow
def test_differences_hold_the_truth():
    """In 93 to 97 % of 1,500 pairs of samples of different prevalence (a fixed seed)."""
    rng = np.random.default_rng(20_063)
    fnr, fpr = stats.norm.cdf(THRESHOLD - SHIFT), stats.norm.sf(THRESHOLD)
    truth = (0.7 * fpr + 5 * 0.3 * fnr) - (0.9 * fpr + 5 * 0.1 * fnr)
    held = 0
    for _ in range(1_500):
        sides = []
        for prevalence in (0.3, 0.1):
            labels, scores = draw(rng, 400, prevalence)
            ev = Evaluator()
            ev.add_cases(labels=labels, scores=scores)
            sides.append(ev)
        found = compare(*sides, metric=NAME, threshold=THRESHOLD, cost_fp=1, cost_fn=5)
        held += found.lower <= truth <= found.upper
    assert 0.93 <= held / 1_500 <= 0.97


# -- refusals ----------------------------------------------------------------------------


def test_too_few_cases_have_no_interval():
    """No case, or one."""
    empty = interval(Evaluator(), (1, 5))
    assert empty.reason == "TOO_FEW"
    assert math.isnan(empty.estimate)
    one = Evaluator()
    one.add_case(True, 0.1)
    found = interval(one, (1, 5))
    assert (found.reason, found.estimate) == ("TOO_FEW", 5.0)
    one.add_case(True, 0.1)
    assert interval(one, (1, 5)).reason is None


def test_costs_belong_to_the_expected_cost():
    """It needs both, at a threshold; another metric takes none; a refusal names the field."""
    ev = evaluator()
    for given, field, text in (
        ({}, "threshold", r"the interval of expected_cost needs a threshold"),
        ({"threshold": 0.5}, "cost_fp", r"needs what errors cost: cost_fp=1, cost_fn=10"),
        ({"threshold": 0.5, "cost_fp": 1}, "cost_fn", r"needs what errors cost"),
        ({"threshold": 0.5, "cost_fp": -1, "cost_fn": 1}, "cost_fp", r"0 or more, got -1"),
        ({"threshold": 0.5, "cost_fp": 1, "cost_fn": math.inf}, "cost_fn", r"finite .* got inf"),
        ({"threshold": 0.5, "cost_fp": 0, "cost_fn": 0}, "cost_fn", r"must not both be 0"),
        ({"threshold": math.nan, "cost_fp": 1, "cost_fn": 1}, "threshold", r"must not be NaN"),
    ):
        with pytest.raises(InvalidInputError, match=text) as refused:
            ev.interval(NAME, **given)
        assert refused.value.field == field
    with pytest.raises(InvalidInputError, match="recall does not depend on costs"):
        ev.interval("recall", threshold=0.5, cost_fn=1)
    with pytest.raises(InvalidInputError, match="auc_pr does not depend on costs"):
        compare(ev, evaluator(2), cost_fp=1)
    with pytest.raises(InvalidInputError, match="no interval of this kind: one for a share"):
        interval(ev, (1, 5), method="bootstrap")


def test_cells_of_few_bits_do_not_blur_it():
    """Counts at a cell's edge are exact, and so is the cost."""
    fine, coarse = evaluator(), evaluator(resolution=12)
    edge = float(coarse.operating_points().thresholds[60])
    costs = {"threshold": edge, "cost_fp": 1.0, "cost_fn": 5.0}
    assert tuple(coarse.interval(NAME, **costs)) == tuple(fine.interval(NAME, **costs))
