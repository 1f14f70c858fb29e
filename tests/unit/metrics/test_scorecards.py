"""Recall and lift of the first ranks, and Gini: shares, bad arguments, digits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError


def test_shares_of_the_references_round_up_as_decimals_do() -> None:
    """A tenth of 1,000 references is 100 of them, misses counted."""
    ev = Evaluator()
    ev.add_cases(labels=[1] * 300 + [0] * 500, scores=np.arange(800, 0, -1.0))
    ev.add_negative_misses(200)
    assert ev.recall_at(fraction=0.1) == 100 / 300
    assert ev.recall_at(fraction=0.1001) == 101 / 300
    assert ev.lift_at(fraction=0.1) == 1 / 0.3
    assert ev.lift_at(fraction=1.0) == 1.0
    assert ev.recall_at(0) == ev.recall_at(fraction=0.0) == 0.0
    assert math.isnan(ev.lift_at(0))


@pytest.mark.parametrize("name", ["recall_at", "lift_at"])
def test_a_rank_or_a_share_must_be_given(name: str) -> None:
    """Exactly one of the two, each in its range."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 0], scores=[0.9, 0.1])
    query = getattr(ev, name)
    with pytest.raises(InvalidInputError, match="either a rank or a fraction, got none"):
        query()
    with pytest.raises(InvalidInputError, match="either a rank or a fraction, got both"):
        query(1, fraction=0.5)
    with pytest.raises(InvalidInputError, match="rank must be an integer, 0 or more, got -2"):
        query(-2)
    with pytest.raises(InvalidInputError, match="fraction must be between 0 and 1, got 2"):
        query(fraction=2)


def test_gini_keeps_its_digits_near_chance() -> None:
    """The exact pair count leaves a Gini of 2^-101 where 2 AUC - 1 would be 0."""
    n = 2**50
    ev = Evaluator()
    ev.add_cases(labels=[0, 1, 0, 1, 0], scores=[5.0, 4.0, 3.0, 2.0, 1.0], counts=[n, n, 1, n, n])
    ev.remove_cases(labels=[0], scores=[1.0], counts=[1])
    assert ev.gini() == -2 * n / (2 * n * 2 * n)
    assert abs(2 * ev.auc_roc() - 1 - ev.gini()) < 1e-15


def test_maximum_mcc_is_that_of_its_best_threshold() -> None:
    """A confusion matrix at one threshold has it; none has more."""
    rng = np.random.default_rng(2)
    labels = rng.random(300) < 0.2
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=np.round(rng.normal(labels * 1.0), 1))
    ev.add_misses(3)
    ev.add_negative_misses(5)
    found = [ev.confusion_at(t).mcc for t in ev.operating_points().thresholds]
    assert ev.maximum_mcc() == pytest.approx(np.nanmax(found), rel=1e-15)


@pytest.mark.parametrize(
    ("labels", "missed", "expected"),
    [
        ([], (0, 0), math.nan),
        ([1, 1], (0, 0), math.nan),
        ([0, 0], (0, 3), math.nan),
        ([1, 0], (0, 0), 1.0),
        ([0, 1], (0, 0), 0.0),
        ([0, 0], (2, 0), 0.0),
        ([1], (0, 2), 1.0),
    ],
)
def test_maximum_mcc_at_the_ends(labels: list[int], missed: tuple[int, int], expected: float):
    """It needs both classes; no better than chance is 0, a perfect order 1."""
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=[-float(i) for i in range(len(labels))])
    ev.add_misses(missed[0])
    ev.add_negative_misses(missed[1])
    assert ev.maximum_mcc() == pytest.approx(expected, nan_ok=True)


def test_maximum_mcc_keeps_its_digits_near_chance() -> None:
    """Products of counts that int64 cannot hold cancel to 2^50 exactly."""
    n = 2**50
    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1, 0], scores=[2.0, 2.0, 1.0, 1.0], counts=[n + 1, n, n, n])
    P, N, called = 2 * n + 1, 2 * n, 2 * n + 1
    agreement = (n + 1) * N - n * P
    assert agreement == n
    exact = agreement / math.sqrt(P * N) / math.sqrt(called * (P + N - called))
    assert ev.maximum_mcc() == pytest.approx(exact, rel=1e-14)
