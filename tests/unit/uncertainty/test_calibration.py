"""Intervals of the calibration error and of observed against expected positives."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, WindowedEvaluator, compare
from streameval.statistics import Place

stats = pytest.importorskip("scipy.stats")


def evaluator(labels, scores, **settings) -> Evaluator:
    ev = Evaluator(**{key: settings.pop(key) for key in ("cluster_groups",) if key in settings})
    ev.add_cases(labels=labels, scores=scores, **settings)
    return ev


def sample(seed=3, size=600, fault=0.0):
    """Return labels and scores; the rate is the score, less a share of it."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(1, 3, size)
    return rng.random(size) < scores * (1 - fault), scores


def test_the_interval_is_that_of_the_formula():
    """T + z sigma above; T - mean excess - z sigma below; case by case."""
    labels, scores = sample(fault=0.3)
    place = np.clip(np.ceil(scores * 10).astype(int) - 1, 0, 9)
    value, excess, within, between = 0.0, 0.0, 0.0, 0.0
    for each in np.unique(place):
        held = place == each
        size = held.sum()
        residuals = scores[held] - labels[held]
        rate = (labels[held].sum() + 1) / (size + 2)
        error = math.sqrt(max(residuals.var(), rate * (1 - rate)) / size)
        share, gap = size / labels.size, abs(residuals.mean())
        value += share * gap
        within += (share * error) ** 2
        between += share * gap**2
        excess += share * error * math.sqrt(2 / math.pi) * (gap <= 3 * error)
    sigma = math.sqrt(within + (between - value**2) / labels.size)
    z = stats.norm.ppf(0.975)
    found = evaluator(labels, scores).interval("calibration_error")
    expected = (max(value - excess - z * sigma, 0), value + z * sigma)
    assert found.estimate == pytest.approx(value, rel=1e-12)
    assert tuple(found) == pytest.approx(expected, rel=1e-10)
    assert found.method == "binned-gaps"


@pytest.mark.parametrize(("fault", "size"), [(0.0, 300), (0.0, 3_000), (0.15, 300), (0.4, 3_000)])
@pytest.mark.slow
def test_intervals_hold_the_truth(fault, size):
    """In at least 94 % of 400 samples (a fixed seed): calibrated, a little off, far off."""
    grid = np.linspace(0, 1, 200_001)
    weight = stats.beta.pdf(grid, 1, 3)
    gaps = np.bincount(
        np.clip(np.ceil(grid * 10).astype(int) - 1, 0, 9), weight * grid * fault, minlength=10
    )
    truth = {
        "calibration_error": np.abs(gaps).sum() / weight.sum(),
        "observed_expected_ratio": 1 - fault,
    }
    held = dict.fromkeys(truth, 0)
    for seed in range(400):
        ev = evaluator(*sample(10_000 + seed, size, fault))
        for name, value in truth.items():
            held[name] += value in ev.interval(name)
    assert min(held.values()) >= 376


def test_chance_alone_is_no_miscalibration():
    """Of calibrated scores the error is above 0, and its interval reaches 0."""
    reached = 0
    for seed in range(200):
        found = evaluator(*sample(seed, 200)).interval("calibration_error")
        assert found.estimate > 0.01
        reached += found.lower == 0
    assert reached >= 195


def test_weights_of_one_and_of_two_are_cases():
    """An integer weight is not that many cases: the interval is wider, the value is equal."""
    labels, scores = sample(fault=0.3)
    plain = evaluator(labels, scores)
    same = Evaluator(min_label_probability=0.5)
    same.add_cases(labels=labels, scores=scores, weights=np.full(labels.size, 2.0))
    unequal = np.where(np.arange(labels.size) % 2, 3.0, 1.0)
    heavy = evaluator(labels, scores, weights=unequal)
    repeated = evaluator(
        np.repeat(labels, unequal.astype(int)), np.repeat(scores, unequal.astype(int))
    )
    for name in Place.CALIBRATION.names():
        assert tuple(same.interval(name)) == pytest.approx(tuple(plain.interval(name)), rel=1e-9)
        found = heavy.interval(name)
        assert found.estimate == pytest.approx(repeated.interval(name).estimate, rel=1e-12)
        assert found.width > repeated.interval(name).width
    few = evaluator(labels[:60], scores[:60], weights=np.where(np.arange(60) < 2, 50.0, 1.0))
    assert few.interval("calibration_error").reason == "TOO_FEW_EFFECTIVE"


def test_clusters_widen():
    """Twenty rows of each user with one label: as wide as of a twentieth of the rows, about."""
    rng = np.random.default_rng(8)
    users = rng.beta(1, 3, 400)
    labels, scores = rng.random(400) < users * 0.6, users
    rows = {"labels": np.repeat(labels, 20), "scores": np.repeat(scores, 20)}
    alone = evaluator(**rows)
    grouped = evaluator(
        **rows, cluster_groups=32, clusters=np.repeat(np.arange(400), 20).astype(str)
    )
    for name in Place.CALIBRATION.names():
        ratio = grouped.interval(name).width / alone.interval(name).width
        assert 2.5 < ratio < 8
        assert grouped.interval(name).design_effect > 5


def test_edges():
    """No cases, one case, scores of 0 only, scores that are none."""
    for name in Place.CALIBRATION.names():
        assert math.isnan(Evaluator().interval(name).estimate)
        assert Evaluator().interval(name).reason == "TOO_FEW"
        assert evaluator([1], [0.5]).interval(name).reason == "TOO_FEW"
        with pytest.raises(InvalidInputError, match="to be read as a probability"):
            evaluator([1, 0], [0.5, 1.5]).interval(name)
        with pytest.raises(InvalidInputError, match="the bootstrap has no interval of this kind"):
            evaluator([1, 0], [0.5, 0.5]).interval(name, method="bootstrap")
        with pytest.raises(InvalidInputError, match="cannot be compared"):
            compare(evaluator([1], [0.5]), evaluator([1], [0.5]), metric=name)
    zeros = evaluator([0, 0, 0], [0.0, 0.0, 0.0])
    assert zeros.observed_expected_ratio() == 1.0
    assert zeros.interval("observed_expected_ratio").reason == "TOO_FEW"
    assert evaluator([1, 0], [0.0, 0.0]).observed_expected_ratio() == math.inf
    assert math.isnan(Evaluator().observed_expected_ratio())
    assert math.isnan(Evaluator().calibration_error())


def test_anytime_is_wider_and_needs_fifty_positives():
    """As other confidence sequences."""
    labels, scores = sample(size=2_000, fault=0.5)
    ev = evaluator(labels, scores)
    for name in Place.CALIBRATION.names():
        once, always = ev.interval(name), ev.interval(name, anytime=True)
        assert always.lower < once.lower < once.upper < always.upper
        few = evaluator(labels[:100], scores[:100])
        assert few.interval(name, anytime=True).reason == "TOO_FEW"


def test_decayed_windows_count_effective_cases():
    """Old panes that weigh little make the interval wider, not narrower."""
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    windowed = WindowedEvaluator(scale="probability")
    for hours in range(8):
        labels, scores = sample(hours, 200, 0.3)
        windowed.add_cases(labels=labels, scores=scores, at=now - timedelta(hours=hours))
    later = now + timedelta(minutes=1)
    whole = windowed.last(timedelta(hours=8), now=later)
    flat = windowed.decayed(timedelta(days=10_000), now=later)
    steep = windowed.decayed(timedelta(hours=1), now=later)
    for name in Place.CALIBRATION.names():
        assert tuple(flat.interval(name)) == pytest.approx(tuple(whole.interval(name)), rel=2e-3)
        assert steep.interval(name).width > 1.3 * whole.interval(name).width


@pytest.mark.slow
def test_weights_that_rise_with_the_score_hold_the_truth():
    """One in ten is labelled above a score: 95 % intervals held the truth in 91 % (fixed seed)."""
    rng = np.random.default_rng(20_061)
    held = dict.fromkeys(Place.CALIBRATION.names(), 0)
    true = {"calibration_error": 0.0, "observed_expected_ratio": 1.0}
    for _ in range(600):
        scores = rng.beta(1, 6, 4_000)
        labels = rng.random(4_000) < scores
        probability = np.where(scores > 0.3, 0.1, 1.0)
        drawn = rng.random(4_000) < probability
        ev = Evaluator(min_label_probability=0.1)
        ev.add_cases(
            labels=labels[drawn], scores=scores[drawn], label_probability=probability[drawn]
        )
        for name in held:
            held[name] += true[name] in ev.interval(name)
    # 0.96 less four standard errors.
    assert min(held.values()) >= 600 * (0.96 - 4 * (0.96 * 0.04 / 600) ** 0.5), held


def test_a_bin_of_great_weights_has_its_own_effective_cases():
    """Twenty cases of weight 50 are twenty, whatever the other bins weigh."""
    rng = np.random.default_rng(9)
    scores = np.append(rng.uniform(0, 0.5, 2_000), rng.uniform(0.5, 1, 20))
    labels = rng.random(scores.size) < scores
    ev = Evaluator(min_label_probability=0.02)
    ev.add_cases(labels=labels, scores=scores, weights=np.where(scores > 0.5, 50.0, 1.0))
    alone = evaluator(labels[-20:], scores[-20:])
    found = ev._bin_limits(ev.reliability(2), 0.95)[1]
    assert found == pytest.approx(alone._bin_limits(alone.reliability(2), 0.95)[0], rel=1e-9)
