"""Decisions at the edges: impossible targets, undefined rates, bad arguments, huge counts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from streameval import Confusion, Evaluator, InvalidInputError


def evaluator(labels: list[int], scores: list[float], missed: int = 0) -> Evaluator:
    """Build an evaluator of the columns and misses."""
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    ev.add_misses(missed)
    return ev


def test_confusion_calls_every_case_at_the_threshold_positive() -> None:
    """Score >= threshold is positive; -inf includes the misses, +inf nothing."""
    ev = evaluator([1, 0, 1, 0], [0.9, 0.4, 0.4, 0.0], missed=1)
    assert ev.confusion_at(0.4) == Confusion(threshold=0.4, tp=2, fp=1, fn=1, tn=1)
    assert ev.confusion_at(0.41) == Confusion(threshold=0.41, tp=1, fp=0, fn=2, tn=2)
    assert ev.confusion_at(-0.0) == Confusion(threshold=0.0, tp=2, fp=2, fn=1, tn=0)
    assert ev.confusion_at(-math.inf) == Confusion(threshold=-math.inf, tp=3, fp=2, fn=0, tn=0)
    nothing = ev.confusion_at(math.inf)
    assert (nothing.tp, nothing.fp, nothing.recall, nothing.precision) == (0, 0, 0.0, 1.0)
    with pytest.raises(InvalidInputError, match="threshold must not be NaN, got nan"):
        ev.confusion_at(math.nan)


def test_confusion_of_nothing_is_undefined() -> None:
    """Without references every rate is nan; only precision keeps its limit."""
    at = Evaluator().confusion_at(0.5)
    rates = (at.recall, at.fpr, at.specificity, at.accuracy, at.balanced_accuracy, at.mcc)
    assert all(math.isnan(rate) for rate in (*rates, at.f_measure, at.youden_j))
    assert at.precision == at.negative_predictive_value == 1.0
    with pytest.raises(InvalidInputError, match="beta must be positive and finite, got 0"):
        at.f_beta(beta=0)


@pytest.mark.parametrize("beta", [1e-200, 1e-9, 1e-7, 0.3, 1, 2, 1e3, 1e7, 3e8, 1e12, 1e200])
@pytest.mark.parametrize(
    ("tp", "fp", "fn"),
    [(1, 10**18, 3), (7, 10**9, 0), (10**6, 3, 10**6), (2**61, 1, 2**60 + 1), (4, 0, 0), (0, 3, 2)],
)
def test_f_keeps_its_digits_at_any_weight(beta: float, tp: int, fp: int, fn: int) -> None:
    """F against fractions: the weight of precision, 1/(1 + beta^2), does not cancel."""
    square = Fraction(beta) ** 2
    expected = (1 + square) * tp / (square * (tp + fn) + tp + fp)
    value = Confusion(threshold=0.5, tp=tp, fp=fp, fn=fn, tn=0).f_beta(beta)
    assert abs(Fraction(value) - expected) <= Fraction(1e-15) * expected
    assert value <= 1
    if tp:
        ev = Evaluator()
        ev.add_cases(labels=[1, 0], scores=[1, 1], counts=[tp, max(fp, 1)])
        if fn:
            ev.add_misses(fn)
        expected = (1 + square) * tp / (square * (tp + fn) + tp + max(fp, 1))
        value = ev.maximum_f_measure(beta)
        assert abs(Fraction(value) - expected) <= Fraction(1e-15) * expected
        lower, upper = ev.bounds("maximum_f_measure", beta=beta)
        assert lower <= expected <= upper


def test_correlation_of_huge_counts_does_not_cancel() -> None:
    """MCC takes the difference of products of 2^60 in integers."""
    n = 2**60
    at = Confusion(threshold=0.0, tp=n + 1, fp=n, fn=n, tn=n)
    assert at.mcc == pytest.approx(n / (math.sqrt((2 * n + 1) ** 2) * 2 * n), rel=1e-12)


def test_targets_out_of_reach() -> None:
    """A precision or recall that no finite threshold reaches is nan; FPR 0 may need +inf."""
    ev = evaluator([0, 1], [0.9, 0.4], missed=1)
    assert math.isnan(ev.threshold_for(precision=0.51))
    assert math.isnan(ev.threshold_for(recall=0.51))
    assert ev.threshold_for(recall=0.5) == 0.4
    assert ev.threshold_for(recall=0.0) == math.inf
    assert ev.threshold_for(fpr=0.0) == math.inf
    assert ev.threshold_for(fpr=1.0) == 0.4


def test_targets_without_a_class() -> None:
    """Precision and recall need positives, the false positive rate negatives."""
    empty = Evaluator()
    for target in ("precision", "recall", "fpr"):
        assert math.isnan(empty.threshold_for(**{target: 0.5}))
    assert math.isnan(evaluator([1], [0.5]).threshold_for(fpr=0.5))
    assert evaluator([1], [0.5]).threshold_for(precision=1.0) == 0.5
    assert evaluator([0, 0], [0.9, 0.5]).threshold_for(fpr=0.5) == 0.9
    assert math.isnan(evaluator([0], [0.5]).threshold_for(recall=0.0))


def test_decimal_targets_are_met_by_the_ratio_they_name() -> None:
    """1 of 10 meets 0.1 and 3 of 10 meets 0.3, though no double is either."""
    for found in range(1, 10):
        ev = Evaluator()
        ev.add_cases(labels=[1, 0], scores=[0.5, 0.5], counts=[found, 10 - found])
        assert ev.threshold_for(precision=found / 10) == 0.5
        assert ev.threshold_for(precision=float(f"0.{found}")) == 0.5
        assert math.isnan(ev.threshold_for(precision=math.nextafter(found / 10, 1)))


def test_targets_are_compared_exactly_at_huge_counts() -> None:
    """If counts are not exact as doubles, one case more or less still decides."""
    n = 2**60
    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1, 0], scores=[4.0, 3.0, 2.0, 1.0], counts=[n, n, 1, n])
    assert ev.threshold_for(fpr=0.5) == 2.0
    assert ev.threshold_for(recall=n / (n + 1)) == 4.0
    assert ev.threshold_for(precision=0.5) == 2.0  # (n + 1) of (2 n + 1)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ({}, "give exactly one of precision, recall, fpr and flagged_share, got none"),
        ({"recall": 0.5, "fpr": 0.1}, "exactly one of .* got recall and fpr"),
        ({"recall": 1.5}, "recall must be between 0 and 1, got 1.5"),
        ({"fpr": -0.1}, "fpr must be between 0 and 1, got -0.1"),
        ({"precision": math.nan}, "precision must be between 0 and 1, got nan"),
    ],
)
def test_bad_targets_are_refused(targets: dict[str, float], message: str) -> None:
    """Exactly one target, from 0 to 1."""
    with pytest.raises(InvalidInputError, match=message):
        evaluator([1, 0], [0.9, 0.1]).threshold_for(**targets)


def test_best_threshold_at_the_ends() -> None:
    """If one kind of error costs nothing, one end is best; ties go to the highest threshold."""
    ev = evaluator([1, 0, 1, 0], [0.9, 0.8, 0.4, 0.1])
    assert ev.best_threshold(cost_fp=0, cost_fn=1) == 0.4
    assert ev.best_threshold(cost_fp=1, cost_fn=0) == math.inf
    assert ev.best_threshold(cost_fp=1, cost_fn=1) == 0.9
    assert ev.best_threshold(cost_fp=Fraction(1), cost_fn=Fraction(1)) == 0.9
    ev.add_misses(100)
    assert ev.best_threshold(cost_fp=1, cost_fn=1) == -math.inf
    assert math.isnan(evaluator([1], [0.5]).best_threshold(cost_fp=1, cost_fn=1))


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ((-1, 1), "cost_fp must be finite and 0 or more, got -1"),
        ((1, math.inf), "cost_fn must be finite and 0 or more, got inf"),
        ((math.nan, 1), "cost_fp must be finite and 0 or more, got nan"),
        ((0, 0), "cost_fp and cost_fn must not both be 0"),
    ],
)
def test_bad_costs_are_refused(costs: tuple[float, float], message: str) -> None:
    """Costs are finite, not negative, and not both 0."""
    with pytest.raises(InvalidInputError, match=message):
        evaluator([1, 0], [0.9, 0.1]).best_threshold(cost_fp=costs[0], cost_fn=costs[1])


def test_cost_curve_refuses_what_is_no_probability() -> None:
    """A probability-cost outside [0, 1] is refused with its index."""
    curve = evaluator([1, 0], [0.1, 0.9]).cost_curve()
    np.testing.assert_allclose(curve.at([0.0, 0.25, 0.5, 1.0]), [0.0, 0.25, 0.5, 0.0])
    with pytest.raises(InvalidInputError, match=r"between 0 and 1, got 1.5 at index 1"):
        curve.at([0.5, 1.5])
