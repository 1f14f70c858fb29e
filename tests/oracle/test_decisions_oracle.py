"""Thresholds and costs against brute force over every threshold, in fractions."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp, somersd
from sklearn import metrics

from streameval import Evaluator

if TYPE_CHECKING:
    from fractions import Fraction

Cases = list[tuple[bool, float]]

CASES = st.lists(
    st.tuples(st.booleans(), st.sampled_from([-2.0, -0.5, 0.0, 0.1, 0.4, 3.0])), max_size=12
)
MISSES = st.integers(0, 2)
TARGETS = st.one_of(
    st.builds(lambda a, b: min(a, b) / max(a, b), st.integers(1, 12), st.integers(1, 12)),
    st.sampled_from([0.0, 0.1, 0.3, 0.7, 0.9, 1.0]),
    st.floats(0, 1),
)
COSTS = st.fractions(min_value=0, max_value=5, max_denominator=6)


def evaluator(cases: Cases, missed: int, missed_negatives: int) -> Evaluator:
    """Build an evaluator of the cases and misses."""
    ev = Evaluator()
    ev.add_cases(labels=[label for label, _ in cases], scores=[score for _, score in cases])
    ev.add_misses(missed)
    ev.add_negative_misses(missed_negatives)
    return ev


def points(cases: Cases) -> list[tuple[float, int, int]]:
    """(threshold, TP, FP) from +inf through every distinct score."""
    cuts = [math.inf, *sorted({score for _, score in cases}, reverse=True)]
    return [
        (
            cut,
            sum(label for label, score in cases if score >= cut),
            sum(not label for label, score in cases if score >= cut),
        )
        for cut in cuts
    ]


@given(cases=CASES, missed=MISSES, missed_negatives=MISSES, target=TARGETS)
def test_threshold_for_is_the_best_of_all_thresholds(
    cases: Cases, missed: int, missed_negatives: int, target: float
) -> None:
    """Each target gets the threshold of its definition, among all of them."""
    ev = evaluator(cases, missed, missed_negatives)
    P = sum(label for label, _ in cases) + missed
    N = len(cases) + missed + missed_negatives - P
    rows = points(cases)
    precise = [(tp, cut) for cut, tp, fp in rows if tp and tp / (tp + fp) >= target]
    recalling = [cut for cut, tp, _ in rows if P and tp / P >= target]
    quiet = [cut for cut, _, fp in rows if N and fp / N <= target]
    assert same(ev.threshold_for(precision=target), max(precise, default=(0, math.nan))[1])
    assert same(ev.threshold_for(recall=target), max(recalling, default=math.nan))
    assert same(ev.threshold_for(fpr=target), min(quiet, default=math.nan))
    few = [cut for cut, tp, fp in rows if P + N and (tp + fp) / (P + N) <= target]
    assert same(ev.threshold_for(flagged_share=target), min(few, default=math.nan))


@given(cases=CASES, missed=MISSES, cost_fp=COSTS, cost_fn=COSTS, missed_negatives=MISSES)
def test_best_threshold_costs_least_and_is_the_highest_that_does(
    cases: Cases, missed: int, missed_negatives: int, cost_fp: Fraction, cost_fn: Fraction
) -> None:
    """No threshold costs less, and no higher one costs the same."""
    ev = evaluator(cases, missed, missed_negatives)
    if cost_fp == cost_fn == 0:
        with pytest.raises(ValueError, match="must not both be 0"):
            ev.best_threshold(cost_fp=cost_fp, cost_fn=cost_fn)
        return
    best = ev.best_threshold(cost_fp=cost_fp, cost_fn=cost_fn)
    P = sum(label for label, _ in cases) + missed
    N = len(cases) + missed + missed_negatives - P
    if P == 0 or N == 0:
        assert math.isnan(best)
        return
    rows = [*points(cases), (-math.inf, P, N)]
    costs = {cut: cost_fp * fp + cost_fn * (P - tp) for cut, tp, fp in rows}
    cheapest = min(costs.values())
    at = ev.confusion_at(best)
    assert cost_fp * at.fp + cost_fn * at.fn == cheapest
    assert best == max(cut for cut, cost in costs.items() if cost == cheapest)


@given(cases=CASES, missed=MISSES, missed_negatives=MISSES)
def test_cost_curve_is_the_least_cost_of_any_threshold(
    cases: Cases, missed: int, missed_negatives: int
) -> None:
    """At any probability-cost the curve is the minimum over all operating points."""
    ev = evaluator(cases, missed, missed_negatives)
    curve = ev.cost_curve()
    at = np.linspace(0, 1, 41)
    P = sum(label for label, _ in cases) + missed
    N = len(cases) + missed + missed_negatives - P
    if P == 0 or N == 0:
        assert curve.thresholds.size == 0
        assert np.isnan(curve.at(at)).all()
        return
    lines = [(fp / N, 1 - tp / P) for _, tp, fp in [*points(cases), (-math.inf, P, N)]]
    least = np.min([fnr * at + fpr * (1 - at) for fpr, fnr in lines], axis=0)
    np.testing.assert_allclose(curve.at(at), least, atol=1e-15)
    assert len(curve.probability_cost) == len(curve.cost) == len(curve.thresholds) + 1
    assert (np.diff(curve.thresholds) < 0).all()
    for x0, x1, cut in zip(
        curve.probability_cost[:-1], curve.probability_cost[1:], curve.thresholds, strict=True
    ):
        middle = (x0 + x1) / 2
        found = ev.confusion_at(cut)
        cost = found.fn / P * middle + found.fp / N * (1 - middle)
        assert cost == pytest.approx(float(curve.at(middle)), abs=1e-15)


@given(cases=CASES, missed=MISSES, missed_negatives=MISSES)
def test_ks_and_gini_are_what_scipy_finds(cases: Cases, missed: int, missed_negatives: int) -> None:
    """KS is scipy's two-sample statistic and Gini is Somers' D; misses rank last."""
    ev = evaluator(cases, missed, missed_negatives)
    lowest = -1e6
    labels = [*(label for label, _ in cases), *[True] * missed, *[False] * missed_negatives]
    scores = [*(score for _, score in cases), *[lowest] * (missed + missed_negatives)]
    held = [score for label, score in zip(labels, scores, strict=True) if label]
    others = [score for label, score in zip(labels, scores, strict=True) if not label]
    if not held or not others:
        assert math.isnan(ev.ks_statistic())
        assert math.isnan(ev.gini())
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its p-value, which is not used, can fail
        expected = ks_2samp(held, others).statistic
    assert ev.ks_statistic() == pytest.approx(expected, abs=1e-14)
    assert ev.gini() == pytest.approx(2 * ev.auc_roc() - 1, abs=1e-15)
    if len(set(scores)) > 1:
        assert ev.gini() == pytest.approx(somersd(labels, scores).statistic, abs=1e-14)


def test_confusions_are_those_of_scikit_learn() -> None:
    """At every threshold, counts and all rates agree with scikit-learn."""
    rng = np.random.default_rng(3)
    labels = rng.random(300) < 0.4
    scores = np.round(rng.normal(labels * 1.0), 1)
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    for cut in (-9.0, -1.0, 0.0, 0.35, 1.0, float(scores.max())):
        called = scores >= cut
        at = ev.confusion_at(cut)
        assert (at.tn, at.fp, at.fn, at.tp) == tuple(
            metrics.confusion_matrix(labels, called).ravel()
        )
        expected = {
            at.recall: metrics.recall_score(labels, called),
            at.precision: metrics.precision_score(labels, called),
            at.specificity: metrics.recall_score(~labels, ~called, zero_division=0.0),
            at.accuracy: metrics.accuracy_score(labels, called),
            at.balanced_accuracy: metrics.balanced_accuracy_score(labels, called),
            at.f_measure: metrics.f1_score(labels, called),
            at.f_beta(beta=2.0): metrics.fbeta_score(labels, called, beta=2.0),
            at.youden_j: metrics.balanced_accuracy_score(labels, called, adjusted=True),
            at.negative_predictive_value: metrics.precision_score(
                ~labels, ~called, zero_division=1.0
            ),
        }
        for metric, theirs in expected.items():
            assert metric == pytest.approx(theirs, abs=1e-14)
        if 0 < called.sum() < labels.size:
            assert at.mcc == pytest.approx(metrics.matthews_corrcoef(labels, called), abs=1e-14)
        else:
            assert math.isnan(at.mcc)


def same(a: float, b: float) -> bool:
    """Return whether two metrics are equal, or both undefined."""
    return a == b or (math.isnan(a) and math.isnan(b))


@given(CASES, MISSES, MISSES)
def test_maximum_mcc(cases: Cases, missed: int, missed_negatives: int) -> None:
    """The best of scikit-learn over every threshold, misses below every case."""
    ev = evaluator(cases, missed, missed_negatives)
    rows = [*cases, *[(True, -math.inf)] * missed, *[(False, -math.inf)] * missed_negatives]
    truth = [label for label, _ in rows]
    if len(set(truth)) < 2:
        assert math.isnan(ev.maximum_mcc())
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of decisions for one class alone
        best = max(
            metrics.matthews_corrcoef(truth, [score >= threshold for _, score in rows])
            for threshold in {math.inf, *(score for _, score in rows)}
        )
    assert ev.maximum_mcc() == pytest.approx(best, rel=1e-14, abs=1e-15)
