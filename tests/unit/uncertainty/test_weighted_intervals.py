"""Intervals of weighted cases: variance by squared weights, design effect, refusal, coverage."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from streameval import Evaluator, Interval
from streameval._metrics.gradients import cells_of
from streameval._uncertainty.estimates import rule_of
from streameval._uncertainty.rules import Given
from streameval.statistics import BY_NAME

AREAS = ("auc_roc", "average_precision", "auc_pr")
RATES = ("precision", "recall", "fpr", "specificity", "f_measure")
THRESHOLD = 1.8


def population(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and scores of independent cases."""
    labels = rng.random(size) < 0.3
    return labels, rng.normal(size=size) + 1.5 * labels


def weighted(labels, scores, weights, *, least: float | None = None) -> Evaluator:
    """Return an evaluator of these columns, whose design labels with `least` or more."""
    evaluator = Evaluator(min_label_probability=least)
    evaluator.add_cases(labels=labels, scores=scores, weights=weights)
    return evaluator


@pytest.mark.parametrize("name", AREAS)
def test_variance_is_that_of_squared_weights(name: str) -> None:
    """The variance is the sum of w^2 g^2 over single cases."""
    rng = np.random.default_rng(1)
    labels, scores = population(rng, 800)
    weights = rng.integers(1, 9, size=800) / 2
    evaluator = weighted(labels, scores, weights)
    figure = rule_of(name).uncertain(evaluator, name, Given()).figure
    cells = cells_of(evaluator._view())
    gradient = BY_NAME[name].gradient(cells)
    # All scores are distinct: a cell is a case. Derivatives are by units of 2**-16.
    order = np.argsort(-scores)
    moved = np.where(labels[order], gradient.positive, gradient.negative) * 2**16
    parts = (weights[order] * moved) ** 2
    by_class = [parts[labels[order] == label].sum() for label in (True, False)]
    effective = evaluator.weights[2:]
    expected = sum(part * n / (n - 1) for part, n in zip(by_class, effective, strict=True))
    assert figure.variance == pytest.approx(expected, rel=1e-9)
    assert figure.design_effect > 1.1
    assert (figure.positives, figure.negatives) == pytest.approx(effective)
    assert evaluator.interval(name).design_effect == figure.design_effect


@pytest.mark.parametrize("name", [*AREAS, "prevalence"])
def test_equal_weights_are_an_unweighted_sample(name: str) -> None:
    """Weights that are all 8, as known, give the interval of the cases without, nearly."""
    labels, scores = population(np.random.default_rng(2), 900)
    plain = Evaluator()
    plain.add_cases(labels=labels, scores=scores)
    known = weighted(labels, scores, np.full(900, 8.0), least=1 / 8)
    ours, theirs = known.interval(name), plain.interval(name)
    assert ours.estimate == pytest.approx(theirs.estimate, rel=1e-12)
    assert ours.design_effect == pytest.approx(1.0, abs=1e-3)
    assert ours.lower == pytest.approx(theirs.lower, abs=1e-3)
    assert ours.upper == pytest.approx(theirs.upper, abs=1e-3)


@pytest.mark.parametrize("name", RATES)
def test_rates_of_equal_weights_are_wilson_intervals(name: str) -> None:
    """So it is at a threshold, where the interval is Wilson's of the cases that count."""
    labels, scores = population(np.random.default_rng(3), 900)
    plain = Evaluator()
    plain.add_cases(labels=labels, scores=scores)
    ours = weighted(labels, scores, np.full(900, 4.0), least=0.25).interval(
        name, threshold=THRESHOLD
    )
    theirs = plain.interval(name, threshold=THRESHOLD)
    assert tuple(ours) == pytest.approx(tuple(theirs), abs=1e-3)


@pytest.mark.parametrize("name", RATES)
def test_variance_of_a_rate_is_that_of_its_gradient(name: str) -> None:
    """The share's variance times the squared slope of the rate is the gradient's."""
    rng = np.random.default_rng(4)
    labels, scores = population(rng, 700)
    weights = rng.integers(1, 40, size=700) / 4
    evaluator = weighted(labels, scores, weights)
    share = rule_of(name)
    figure = evaluator._share_figure(share.parts, THRESHOLD)
    step = 1e-6
    slope = (share.rate(figure.estimate + step) - share.rate(figure.estimate - step)) / (2 * step)
    gradient = BY_NAME[name].gradient(cells_of(evaluator._view()), THRESHOLD)
    order = np.argsort(-scores)
    moved = np.where(labels[order], gradient.positive, gradient.negative) * 2**16
    expected = float(((weights[order] * moved) ** 2).sum())
    assert figure.variance * slope**2 == pytest.approx(expected, rel=1e-6)


def test_a_sample_of_one_great_weight_is_refused_where_no_design_bounds_it() -> None:
    """Its variance is an estimate from one case; what is declared bounds what the sample lacks."""
    rng = np.random.default_rng(5)
    labels, scores = population(rng, 900)
    weights = np.ones(900)
    weights[np.flatnonzero(labels)[0]] = 20.0
    unknown, known = (weighted(labels, scores, weights, least=each) for each in (None, 0.05))
    arguments = {key: {} for key in (*AREAS, "prevalence")} | {"recall": {"threshold": 1.0}}
    for name, given in arguments.items():
        interval = unknown.interval(name, **given)
        assert math.isnan(interval.lower)
        assert interval.reason == "TOO_FEW_EFFECTIVE"
        assert f"{interval:.2f}".endswith("(no interval: TOO_FEW_EFFECTIVE)")
        assert known.interval(name, **given).reason is None
    assert unknown.snapshot().intervals["auc_pr"].reason == "TOO_FEW_EFFECTIVE"


def test_misses_count_among_the_squared_weights() -> None:
    """A hundred misses of weight 1 among lighter cases: no case has a fifth of the squares."""
    labels, scores = population(np.random.default_rng(6), 300)
    ev = weighted(labels, scores, np.full(300, 0.05))
    ev.add_misses(1)
    assert ev.interval("recall", threshold=1.0).reason == "TOO_FEW_EFFECTIVE"
    ev.add_misses(99)
    assert ev.interval("recall", threshold=1.0).reason is None


@pytest.mark.parametrize("name", [*AREAS, "prevalence"])
def test_the_bound_counts_and_not_whether_a_heavy_case_was_drawn(name: str) -> None:
    """A sample without a heavy case is as uncertain as the design, not as the sample looks."""
    labels, scores = population(np.random.default_rng(6), 900)
    weights = np.where(np.arange(900) % 2, 1.0, 2.0)
    known, close, unknown = (
        weighted(labels, scores, weights, least=each).interval(name) for each in (0.02, 0.5, None)
    )
    outer, inner = (each.upper - each.estimate for each in (known, close))
    if name != "prevalence":  # the areas lack a positive at the end of the ranking
        outer, inner = (each.estimate - each.lower for each in (known, close))
    assert outer > 1.3 * inner
    assert known.warning is None
    assert "an unseen case is taken to weigh 4, twice the largest weight seen" in unknown.warning
    assert "min_label_probability" in str(weighted(labels, scores, weights).snapshot())


def test_a_weight_beyond_the_declared_bound_is_told() -> None:
    """The declaration is wrong then, and limits take twice the largest weight instead."""
    labels, scores = population(np.random.default_rng(7), 900)
    weights = np.where(np.arange(900) % 2, 1.0, 8.0)
    wrong, none = (weighted(labels, scores, weights, least=each) for each in (0.5, None))
    assert tuple(wrong.interval("auc_roc")) == tuple(none.interval("auc_roc"))
    assert "taken to weigh 16" in wrong.interval("auc_roc").warning


@pytest.mark.parametrize("scores_tied", [True, False])
def test_a_declared_bound_holds_for_tied_scores(scores_tied: bool) -> None:
    """A cell keeps sums of weights only, which must not look like a weight above the bound."""
    labels, scores = population(np.random.default_rng(8), 900)
    weights = np.where(np.arange(900) % 9, 1.0, 50.0)
    scores = scores.round() if scores_tied else scores
    assert weighted(labels, scores, weights, least=0.02).interval("auc_roc").warning is None


@pytest.mark.slow
def test_limits_hold_where_few_heavy_cases_are_expected() -> None:
    """Of a design that labels one in fifty of 100 low positives: two are expected, often none.

    The truth is above the upper limit where it was in a fifth of samples (a fixed seed).
    """
    rng = np.random.default_rng(20_028)
    low = np.arange(20_000) < 10_000
    labels = np.zeros(20_000, dtype=bool)
    labels[:100] = labels[10_000:10_100] = True
    probability = np.where(low, 0.02, 1.0)
    held, answered = 0, 0
    for _ in range(800):
        drawn = rng.random(20_000) < probability
        ev = Evaluator(min_label_probability=0.02)
        ev.add_cases(
            labels=labels[drawn],
            scores=rng.normal(size=int(drawn.sum())) + 3 * ~low[drawn],
            label_probability=probability[drawn],
        )
        interval = ev.interval("prevalence")
        answered += interval.reason is None
        held += 0.01 in interval
    assert answered == 800
    assert held >= 800 * 0.93 - 4 * math.sqrt(800 * 0.93 * 0.07)


def test_undefined_figures_have_no_interval() -> None:
    """One class, or weights of 0 only, leave figures undefined and not refused."""
    lone = weighted([1, 1], [0.5, 0.4], [2, 3])
    assert lone.interval("auc_roc").reason == "TOO_FEW"
    assert math.isnan(lone.interval("fpr", threshold=0.4).estimate)
    empty = weighted([1, 0], [0.5, 0.4], [0, 0])
    assert empty.interval("prevalence").reason == "TOO_FEW"
    assert Interval(math.nan, math.nan, 0.95, "wilson").reason == "TOO_FEW"


def test_cells_widen_the_interval() -> None:
    """The interval of a bounded evaluator contains that of the exact one."""
    rng = np.random.default_rng(6)
    labels, scores = population(rng, 2_000)
    weights = rng.integers(1, 9, size=2_000) / 2
    bounded = Evaluator(resolution=6)
    bounded.add_cases(labels=labels, scores=scores, weights=weights)
    exact = weighted(labels, scores, weights)
    for name in AREAS:
        outer, inner = bounded.interval(name), exact.interval(name)
        assert outer.lower <= inner.lower <= inner.upper <= outer.upper, name


@pytest.mark.parametrize("design", ["by chance", "by class", "by band"])
@pytest.mark.slow
def test_coverage_of_the_known_truth(design: str) -> None:
    """95 % intervals of labels drawn with known probabilities hold the truth in 90 % or more.

    135 of 150 samples are all but certain if the coverage is 0.95.
    """
    rng = np.random.default_rng(20_27)
    truth = Evaluator(resolution=12)
    truth.add_cases(**dict(zip(("labels", "scores"), population(rng, 1_500_000), strict=True)))
    names = {"auc_roc": {}, "average_precision": {}, "recall": {"threshold": THRESHOLD}}
    normal = NormalDist()
    exact = {
        "auc_roc": normal.cdf(1.5 / math.sqrt(2)),
        "average_precision": truth.average_precision(),
        "recall": normal.cdf(1.5 - THRESHOLD),
    }
    held = dict.fromkeys(names, 0)
    samples = 150
    for _ in range(samples):
        labels, scores = population(rng, 3_000)
        probability = {
            "by chance": rng.uniform(0.2, 1.0, size=labels.size),
            "by class": np.where(labels, 1.0, 0.2),
            "by band": np.where(scores < 1.0, 0.25, 1.0),
        }[design]
        drawn = rng.random(labels.size) < probability
        evaluator = Evaluator()
        evaluator.add_cases(
            labels=labels[drawn], scores=scores[drawn], label_probability=probability[drawn]
        )
        for name, given in names.items():
            held[name] += exact[name] in evaluator.interval(name, **given)
    assert all(count >= 0.9 * samples for count in held.values()), held
