"""Intervals of rates at a threshold, against scipy and against known truths."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, WindowedEvaluator, compare
from streameval._metric_registry import METRICS
from streameval._uncertainty.rules import ShareRule

stats = pytest.importorskip("scipy.stats")

RATES = [metric.name for metric in METRICS if isinstance(metric.interval, ShareRule)]


def evaluator():
    """Return an evaluator with misses of both classes."""
    rng = np.random.default_rng(7)
    labels = rng.random(500) < 0.3
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=rng.normal(labels * 1.5))
    ev.add_misses(4)
    ev.add_negative_misses(9)
    return ev


def test_shares_have_wilsons_interval():
    """Of the cases in the rate's denominator, misses included."""
    ev = evaluator()
    at = ev.confusion_at(0.8)
    shares = {
        "precision": (at.tp, at.tp + at.fp),
        "recall": (at.tp, at.tp + at.fn),
        "fpr": (at.fp, at.fp + at.tn),
        "specificity": (at.tn, at.fp + at.tn),
        "flagged_share": (at.tp + at.fp, at.tp + at.fp + at.fn + at.tn),
    }
    for name, (hits, cases) in shares.items():
        interval = ev.interval(name, threshold=0.8, level=0.9)
        expected = stats.binomtest(hits, cases).proportion_ci(0.9, method="wilson")
        assert (interval.lower, interval.upper) == pytest.approx(expected, rel=1e-12)
        assert interval.estimate == getattr(at, name)
        assert (interval.method, interval.level) == ("wilson", 0.9)
        assert ev.interval(name, threshold=0.8, anytime=True).width > interval.width


def test_f_has_the_interval_of_its_share():
    """F is 2 J/(1 + J), J = TP/(TP + FP + FN), which is a share of cases."""
    ev = evaluator()
    at = ev.confusion_at(0.8)
    interval = ev.interval("f_measure", threshold=0.8)
    limits = stats.binomtest(at.tp, at.tp + at.fp + at.fn).proportion_ci(method="wilson")
    expected = [2 * limit / (1 + limit) for limit in limits]
    assert [interval.lower, interval.upper] == pytest.approx(expected, rel=1e-12)
    assert interval.estimate == at.f_measure


@pytest.mark.parametrize("name", RATES)
@pytest.mark.slow
def test_intervals_hold_the_truth(name):
    """In 93 to 97 % of 3,000 samples of 400 cases whose rates are known (a fixed seed)."""
    rng = np.random.default_rng(1009)
    prevalence, threshold, shift = 0.3, 0.8, 1.5
    recall = stats.norm.sf(threshold - shift)
    fpr = stats.norm.sf(threshold)
    precision = prevalence * recall / (prevalence * recall + (1 - prevalence) * fpr)
    truth = {
        "precision": precision,
        "recall": recall,
        "fpr": fpr,
        "specificity": 1 - fpr,
        "f_measure": 2 * precision * recall / (precision + recall),
        "flagged_share": prevalence * recall + (1 - prevalence) * fpr,
    }[name]
    held = 0
    for _ in range(3_000):
        labels = rng.random(400) < prevalence
        ev = Evaluator()
        ev.add_cases(labels=labels, scores=rng.normal(labels * shift))
        held += truth in ev.interval(name, threshold=threshold)
    assert 0.93 <= held / 3_000 <= 0.97


@pytest.mark.parametrize("name", RATES)
def test_too_few_cases_have_no_interval(name):
    """No case in the denominator, or one."""
    empty = Evaluator()
    assert empty.interval(name, threshold=0.5).reason == "TOO_FEW"
    one = Evaluator()
    one.add_case(True, 0.9)
    assert one.interval(name, threshold=0.5).reason == "TOO_FEW"
    assert math.isnan(one.interval("fpr", threshold=0.5).estimate)


def test_a_threshold_belongs_to_rates():
    """A rate needs one, another metric takes none; a maximum says why it has no interval."""
    ev = evaluator()
    with pytest.raises(InvalidInputError, match=r"needs a threshold: interval\('recall', thresh"):
        ev.interval("recall")
    with pytest.raises(InvalidInputError, match="auc_pr does not depend on a threshold"):
        ev.interval("auc_pr", threshold=0.5)
    with pytest.raises(InvalidInputError, match="threshold must not be NaN"):
        ev.interval("recall", threshold=math.nan)
    with pytest.raises(InvalidInputError, match="no interval of this kind: one for a share"):
        ev.interval("recall", threshold=0.5, method="bootstrap")
    with pytest.raises(InvalidInputError, match=r"chosen on the data .* optimistic"):
        ev.interval("maximum_f_measure")


def test_decayed_rates_count_effective_cases():
    """Old panes that weigh little make the interval wider, not narrower."""
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    rng = np.random.default_rng(11)
    windowed = WindowedEvaluator()
    for hours in range(10):
        labels = rng.random(200) < 0.4
        windowed.add_cases(
            labels=labels, scores=rng.normal(labels * 1.5), at=now - timedelta(hours=hours)
        )
    plain = windowed.last(timedelta(hours=10), now=now + timedelta(minutes=1))
    for name in RATES:
        whole = plain.interval(name, threshold=0.8)
        flat = windowed.decayed(timedelta(days=10_000), now=now + timedelta(minutes=1))
        steep = windowed.decayed(timedelta(hours=1), now=now + timedelta(minutes=1))
        same = flat.interval(name, threshold=0.8)
        assert (same.lower, same.upper) == pytest.approx((whole.lower, whole.upper), rel=2e-3)
        assert steep.interval(name, threshold=0.8).width > 1.3 * whole.width


def test_differences_of_rates_are_newcombes():
    """Square-and-add of two Wilson intervals, each side at its own threshold if given two."""
    rng = np.random.default_rng(17)
    a, b = Evaluator(), Evaluator()
    for ev, shift in ((a, 1.5), (b, 1.0)):
        labels = rng.random(300) < 0.3
        ev.add_cases(labels=labels, scores=rng.normal(labels * shift))
    for threshold, at_a, at_b in ((0.8, 0.8, 0.8), ((0.8, 0.5), 0.8, 0.5)):
        found = compare(a, b, metric="recall", threshold=threshold)
        first, second = a.interval("recall", threshold=at_a), b.interval("recall", threshold=at_b)
        assert (found.a, found.b) == (first, second)
        difference = first.estimate - second.estimate
        below = math.hypot(first.estimate - first.lower, second.upper - second.estimate)
        above = math.hypot(first.upper - first.estimate, second.estimate - second.lower)
        expected = (difference, difference - below, difference + above)
        assert (found.difference, found.lower, found.upper) == pytest.approx(expected, abs=1e-14)
        touching = compare(a, b, metric="recall", threshold=threshold, level=1 - found.p_value)
        assert min(abs(touching.lower), abs(touching.upper)) < 1e-9
    with pytest.raises(InvalidInputError, match="needs a threshold"):
        compare(a, b, metric="recall")
    with pytest.raises(InvalidInputError, match="auc_pr does not depend on a threshold"):
        compare(a, b, metric="auc_pr", threshold=0.5)
