"""Pairs whose models fail in rare cases that a sample may not have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from streameval import Evaluator, PairedEvaluator
from streameval._uncertainty.estimates import rule_of
from streameval._uncertainty.pair_variance import unseen_cases
from streameval._uncertainty.rules import Given
from streameval.statistics import Place

SHIFT = 1.5


def sinking(
    share: float, looks: list[int], rng: np.random.Generator
) -> list[dict[str, np.ndarray]]:
    """Return the rows between looks, nine negatives for each positive; AUC-ROC is equal.

    A share of the positives has b's lowest scores; b ranks the others better.
    """
    loss = stats.norm.cdf(SHIFT / math.sqrt(2)) / (1 - share)
    better = math.sqrt(2) * stats.norm.ppf(loss)
    parts = []
    for positives in np.diff([0, *looks]):
        labels = np.arange(10 * positives) < positives
        a = rng.normal(size=labels.size)
        b = a + better * labels
        b[labels & (rng.random(labels.size) < share)] = -50
        parts.append({"labels": labels, "scores_a": a + SHIFT * labels, "scores_b": b})
    return parts


def decided(parts: list[dict[str, np.ndarray]], **asked: str | float) -> bool:
    """Return whether a pair is decided at some look."""
    pair, found = PairedEvaluator(max_cells=None), []
    for rows in parts:
        pair.add_cases(**rows)
        found.append(pair.compare(**asked, anytime=True))
    return any(not each.lower <= 0 <= each.upper for each in found)


def test_rare_failures_seldom_decide_at_any_look() -> None:
    """Without the unseen cases 0.4 to 0.6 of these were decided for b, which is no better."""
    rng = np.random.default_rng([36, 3])
    looks = [50, 80, 120, 180, 270, 400]
    streams = 120
    ever = sum(
        decided(sinking(share, looks, rng), metric="auc_roc")
        for share in (0.01, 0.02)
        for _ in range(streams // 2)
    )
    assert ever <= streams * 0.05 + 4 * math.sqrt(streams * 0.05 * 0.95)


def betting_limits(values: np.ndarray, alpha: float) -> tuple[float, float]:
    """Return the limits of a mean in [-1, 1] at all looks (Waudby-Smith and Ramdas 2024)."""
    values, count = (values + 1) / 2, np.arange(1, values.size + 1)
    means = np.linspace(0, 1, 2_001)[1:-1]
    seen = (0.5 + np.cumsum(values)) / (count + 1)
    variance = np.append(0.25, (0.25 + np.cumsum((values - seen) ** 2)) / (count + 1))[:-1]
    bets = np.sqrt(2 * math.log(2 / alpha) / (variance * count * np.log(count + 1)))[:, None]
    moved = values[:, None] - means
    up = np.log1p(np.minimum(bets, 0.5 / means) * moved)
    down = np.log1p(-np.minimum(bets, 0.5 / (1 - means)) * moved)
    wealth = np.maximum(np.cumsum(up, axis=0), np.cumsum(down, axis=0)).max(axis=0)
    held = means[wealth < math.log(2 / alpha)]
    return 2 * held.min() - 1, 2 * held.max() - 1


@pytest.mark.parametrize("share", [0.005, 0.02])
def test_betting_on_bounded_differences_agrees(share: float) -> None:
    """It has no variance to underestimate; each positive is ranked among nine negatives of its own.

    Both hold 0 for models of equal AUC-ROC, and ours is a little narrower.
    """
    rng = np.random.default_rng([36, 33, round(1_000 * share)])
    ratios = []
    for _ in range(20):
        [rows] = sinking(share, [400], rng)
        labels = rows["labels"]
        wins = [
            (scores[labels][:, None] > scores[~labels].reshape(400, 9)).mean(axis=1)
            for scores in (rows["scores_a"], rows["scores_b"])
        ]
        lower, upper = betting_limits(rng.permutation(wins[0] - wins[1]), 0.05)
        pair = PairedEvaluator(max_cells=None)
        pair.add_cases(**rows)
        ours = pair.compare(metric="auc_roc", anytime=True)
        assert lower <= 0 <= upper
        assert ours.lower <= 0 <= ours.upper
        ratios.append((upper - lower) / (ours.upper - ours.lower))
    assert 1 <= np.median(ratios) <= 2.5


@pytest.mark.parametrize("prevalence", [0.01, 0.001])
def test_equal_models_seldom_decide_at_a_given_prevalence(prevalence: float) -> None:
    """Half of the cases are positive; without the unseen negatives .53 and .90 were decided."""
    rng = np.random.default_rng([36, 1])
    streams, ever = 60, 0
    for _ in range(streams):
        parts = []
        for positives in np.diff([0, 50, 100, 200, 400]):
            labels = np.arange(2 * positives) < positives
            both = rng.normal(size=labels.size) + SHIFT * labels
            scores = (both + rng.normal(0, 0.5, labels.size) for _ in range(2))
            parts.append({"labels": labels, **dict(zip(("scores_a", "scores_b"), scores))})
        ever += decided(parts, metric="auc_pr", prevalence=prevalence)
    assert ever <= streams * 0.05 + 4 * math.sqrt(streams * 0.05 * 0.95)


def test_equal_scores_leave_what_three_unseen_cases_would_decide() -> None:
    """By the rule of three 60 positives of which none was lost may hide a loss of 3/60."""
    rng = np.random.default_rng(9)
    labels = np.arange(120) < 60
    scores = rng.normal(size=120) + SHIFT * labels
    pair = PairedEvaluator()
    pair.add_cases(labels=labels, scores_a=scores, scores_b=scores)
    for anytime in (False, True):
        found = pair.compare(metric="auc_roc", anytime=anytime)
        assert found.difference == 0
        assert found.lower == -found.upper
        assert 0.045 < found.upper < 0.06
        assert found.p_value == 1


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
def test_equal_scores_of_a_reversed_ranking_may_hide_a_better_one(metric: str) -> None:
    """One unseen positive above all lifts b by about 1/60; nothing lowers an AUC-ROC of 0."""
    labels = np.arange(120) < 60
    pair = PairedEvaluator()
    pair.add_cases(labels=labels, scores_a=-1.0 * labels, scores_b=-1.0 * labels)
    found = pair.compare(metric=metric)
    assert found.difference == 0
    assert found.lower == -found.upper
    assert found.upper > 0.02


@pytest.mark.parametrize("metric", Place.COMPARISON.names())
@pytest.mark.parametrize("prevalence", [None, 0.02])
@pytest.mark.parametrize("shift", [0.3, 2.0])
def test_unseen_cases_change_what_added_cases_change(
    metric: str, prevalence: float | None, shift: float
) -> None:
    """A positive below all scores or above all, and a negative above all, with ties."""
    if metric == "auc_roc":
        prevalence = None
    rng = np.random.default_rng(4)
    labels = rng.random(300) < 0.2
    scores = np.round(rng.normal(shift * labels), 1)
    given = {} if prevalence is None else {"prevalence": prevalence}

    def value(*added: tuple[bool, float]) -> float:
        ev = Evaluator()
        ev.add_cases(labels=labels, scores=scores)
        for label, score in added:
            ev.add_case(label, score)
        return float(getattr(ev, metric)(**given))

    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    uncertain = rule_of(metric).uncertain(ev, metric, Given(prevalence))
    lost = value() - value((True, -99.0))
    fallen = value() - value((False, 99.0))
    gained = value((True, 99.0)) - value()
    share = 1.0 if metric == "auc_roc" else 0.5
    expected = max(lost**2 + share * fallen**2, 0.5 * (lost + gained) ** 2)
    found = unseen_cases(ev._view().groups, uncertain, prevalence)
    assert found == (
        pytest.approx(expected, rel=1e-9),
        pytest.approx(max(lost, gained, fallen), rel=1e-9),
    )


def test_an_unseen_cluster_is_as_large_as_the_clusters() -> None:
    """Also where its cases are independent in each model, so that clusters have no effect yet."""
    rng = np.random.default_rng(12)
    labels = np.arange(2_000) // 10 % 5 == 0
    scores = rng.normal(size=2_000) + SHIFT * labels
    rows = {"labels": labels, "scores_a": scores, "scores_b": scores}
    widths = []
    for clusters in (np.arange(2_000), np.arange(2_000) // 10):
        pair = PairedEvaluator(cluster_groups=64)
        pair.add_cases(**rows, clusters=clusters)
        found = pair.compare(metric="auc_roc")
        widths.append(found.upper - found.lower)
    assert 5 < widths[1] / widths[0] < 12


def test_an_unseen_cluster_has_as_many_positives_as_clusters_have() -> None:
    """One of ten cases: a cluster out of place takes one positive, and no more than nine."""
    labels = np.arange(2_000) % 10 == 0
    scores = np.random.default_rng(14).normal(size=2_000) + SHIFT * labels
    widths = []
    for clusters in (np.arange(2_000), np.arange(2_000) // 10):
        pair = PairedEvaluator(cluster_groups=64)
        pair.add_cases(labels=labels, scores_a=scores, scores_b=scores, clusters=clusters)
        found = pair.compare(metric="auc_roc")
        widths.append(found.upper - found.lower)
    assert 0.8 < widths[1] / widths[0] < 2


@pytest.mark.parametrize("clusters", [2, 8, 12])
def test_few_clusters_leave_no_limits(clusters: int) -> None:
    """As of single evaluators: a variance between fewer than 20 clusters is mostly chance."""
    rng = np.random.default_rng(13)
    labels = rng.random(1_200) < 0.4
    scores = {name: rng.normal(size=1_200) + SHIFT * labels for name in ("scores_a", "scores_b")}
    pair = PairedEvaluator(cluster_groups=32)
    pair.add_cases(labels=labels, **scores, clusters=np.arange(1_200) % clusters)
    for anytime in (False, True):
        found = pair.compare(metric="auc_roc", anytime=anytime)
        assert found.reason == found.a.reason == found.b.reason == "TOO_FEW_CLUSTERS"
        assert math.isnan(found.lower)
        assert math.isnan(found.p_value)
        assert "20 effective clusters" in str(found)
    assert math.isnan(found.e_value)
    assert pair.verdict(metric="auc_roc").startswith("no answer: TOO_FEW_CLUSTERS")
