"""Coins and candidate thresholds against brute force, in fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sklearn.metrics import roc_curve

from streameval import Evaluator, InvalidInputError

CASES = st.lists(
    st.tuples(st.booleans(), st.sampled_from([-2.0, -0.5, 0.0, 0.1, 0.4, 0.7, 3.0])), max_size=14
)
MISSES = st.integers(0, 2)
TARGETS = st.one_of(
    st.builds(lambda a, b: min(a, b) / max(a, b), st.integers(1, 12), st.integers(1, 12)),
    st.sampled_from([0.0, 0.1, 0.3, 0.7, 0.9, 1.0]),
    st.floats(0, 1),
)


def evaluator(cases: list[tuple[bool, float]], missed: int, missed_negatives: int) -> Evaluator:
    """Build an evaluator of the cases and misses."""
    ev = Evaluator()
    ev.add_cases(labels=[label for label, _ in cases], scores=[score for _, score in cases])
    ev.add_misses(missed)
    ev.add_negative_misses(missed_negatives)
    return ev


def mixtures(ev: Evaluator, rate: str, target: Fraction) -> list[Fraction]:
    """Return the other rate of each mixture of two thresholds that has exactly this rate."""
    points = ev.operating_points()
    recall = [Fraction(int(tp), points.P) for tp in points.tp]
    fpr = [Fraction(int(fp), points.N) for fp in points.fp]
    x, y = (recall, fpr) if rate == "recall" else (fpr, recall)
    found = [y[i] for i in range(len(x)) if x[i] == target]
    for i, j in itertools.combinations(range(len(x)), 2):
        if x[i] < target < x[j]:
            share = (target - x[i]) / (x[j] - x[i])
            found.append(y[i] + share * (y[j] - y[i]))
    return found


@given(cases=CASES, missed=MISSES, missed_negatives=MISSES, target=TARGETS)
def test_a_coin_is_the_best_mixture_of_two_thresholds(cases, missed, missed_negatives, target):
    """No mixture of any two thresholds is better, and the coin's own mixture is as good."""
    ev = evaluator(cases, missed, missed_negatives)
    assume(ev.num_positive_ref and ev.num_negative_ref)
    for rate, best in (("recall", min), ("fpr", max)):
        total = ev.num_positive_ref if rate == "recall" else ev.num_negative_ref
        # A rate that is the target as a double meets it.
        exact = next((Fraction(k, total) for k in range(total + 1) if k / total == target), None)
        wanted = Fraction(target) if exact is None else exact
        coin = ev.coin(**{rate: target})
        high, low = ev.confusion_at(coin.high), ev.confusion_at(coin.low)
        share = Fraction(coin.probability)
        tp = high.tp + share * (low.tp - high.tp)
        fp = high.fp + share * (low.fp - high.fp)
        reached = {
            "recall": tp / ev.num_positive_ref,
            "fpr": fp / ev.num_negative_ref,
        }
        other = "fpr" if rate == "recall" else "recall"
        assert float(reached[rate]) == pytest.approx(float(wanted), abs=1e-15)
        expected = best(mixtures(ev, rate, wanted))
        assert float(reached[other]) == pytest.approx(float(expected), abs=1e-14)
        for name, value in reached.items():
            assert getattr(coin, name) == pytest.approx(float(value), abs=1e-15)
        assert 0 <= coin.probability < 1
        assert (coin.high == coin.low) == (coin.probability == 0)
        assert coin.high >= coin.low


def test_tosses_reach_the_point() -> None:
    """Among 200,000 cases, one toss each, both rates are within 4 standard errors."""
    rng = np.random.default_rng(11)
    labels = np.arange(200_000) % 20 == 0
    scores = np.round(rng.normal(size=labels.size) + 1.5 * labels, 0)
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    coin = ev.coin(recall=0.62)
    assert coin.high > coin.low
    cut = np.where(rng.random(scores.size) < coin.probability, coin.low, coin.high)
    for chosen, rate in ((labels, coin.recall), (~labels, coin.fpr)):
        error = math.sqrt(rate * (1 - rate) / chosen.sum())
        assert (scores >= cut)[chosen].mean() == pytest.approx(rate, abs=4 * error)
    assert coin.recall == 0.62


def test_a_coin_between_huge_counts_is_exact() -> None:
    """Counts beyond doubles: the share is a quotient of exact integers, rounded once."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 1, 0], scores=[3, 1, 1], counts=[1, 2**60 + 1, 2**61 - 3])
    coin = ev.coin(recall=0.5)
    P = 2**60 + 2
    assert coin.probability == float((Fraction(P, 2) - 1) / (2**60 + 1))
    assert (coin.high, coin.low, coin.recall) == (3.0, 1.0, 0.5)


def test_a_coin_needs_one_target_and_both_classes() -> None:
    """Anything but one target is refused; without a class everything is nan."""
    ev = evaluator([(True, 0.5)], 0, 0)
    assert all(map(math.isnan, (*ev.coin(fpr=0.5), ev.coin(recall=0.5).recall)))
    for targets, got in (({}, "none"), ({"recall": 0.1, "fpr": 0.2}, "recall and fpr")):
        with pytest.raises(
            InvalidInputError, match=f"give exactly one of recall and fpr, got {got}$"
        ):
            ev.coin(**targets)
    with pytest.raises(InvalidInputError, match="recall must be between 0 and 1, got 2"):
        ev.coin(recall=2)


def by_the_rule(cases: list[tuple[bool, float]]) -> set[float]:
    """Return the paper's thresholds, for every order of tied cases."""
    found = set()
    levels = sorted({score for _, score in cases})
    groups = [{label for label, score in cases if score == level} for level in levels]
    for below, above, level in zip(groups, groups[1:], levels[1:], strict=False):
        # Any case of a tied group may be last or first in its group.
        if any(a != b for a, b in itertools.product(below, above)):
            found.add(level)
    return found


@given(cases=CASES, missed=MISSES, missed_negatives=MISSES)
@example(cases=[(True, 0.4), (False, 0.4), (True, 0.1)], missed=0, missed_negatives=0)
def test_candidates_are_the_paper_s_and_have_the_hull(cases, missed, missed_negatives):
    """The rule of section 3, literally; and the curve through them has the same hull."""
    ev = evaluator(cases, missed, missed_negatives)
    candidates = ev.candidate_thresholds()
    lowest = [(True, -math.inf)] * missed + [(False, -math.inf)] * missed_negatives
    assert candidates.tolist() == sorted(by_the_rule(cases + lowest), reverse=True)
    if ev.num_positive_ref and ev.num_negative_ref:
        hull = ev.roc_hull()
        # The ends are not chosen: one calls nothing positive, the other everything.
        assert set(hull.thresholds[1:-1]) <= set(candidates)
        assert ev.at_thresholds(candidates).auc_roc(hull=True) == ev.auc_roc(hull=True)


def test_candidates_are_scikit_learn_s_corners() -> None:
    """Without ties they are the points that `roc_curve` keeps as corners."""
    rng = np.random.default_rng(5)
    labels = rng.random(500) < 0.3
    scores = rng.permutation(500) + 60.0 * labels
    scores += np.arange(500) / 1e6  # no ties
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    # It keeps the first and the last score too, corners or not.
    corners = set(roc_curve(labels, scores)[2][1:-1])
    assert corners - {scores.max()} == set(ev.candidate_thresholds()) - {scores.max()}
    assert len(corners) > 100
