"""LingPipe's example with its own printed values, misses and minus signs included."""

from __future__ import annotations

import random

import pytest

from streameval import Evaluator

CASES = [
    (False, -1.21),
    (True, -1.27),
    (False, -1.39),
    (True, -1.47),
    (True, -1.60),
    (False, -1.65),
    (False, -1.79),
    (False, -1.80),
    (True, -2.01),
    (False, -3.70),
]
# TP, TN, FP, FN, recall, precision, specificity, F as printed. Two F are wrong there:
# 0.47 at rank 7 (6/13) and 0.53 at rank 8 (8/14); see docs/worked-example.md.
RANKS = [
    (0, 5, 1, 5, 0.00, 0.00, 0.83, 0.00),
    (1, 5, 1, 4, 0.20, 0.50, 0.83, 0.29),
    (1, 4, 2, 4, 0.20, 0.33, 0.67, 0.25),
    (2, 4, 2, 3, 0.40, 0.50, 0.67, 0.44),
    (3, 4, 2, 2, 0.60, 0.60, 0.67, 0.60),
    (3, 3, 3, 2, 0.60, 0.50, 0.50, 0.55),
    (3, 2, 4, 2, 0.60, 0.43, 0.33, 0.50),
    (3, 1, 5, 2, 0.60, 0.38, 0.17, 6 / 13),
    (4, 1, 5, 1, 0.80, 0.44, 0.17, 8 / 14),
    (4, 0, 6, 1, 0.80, 0.40, 0.00, 0.53),
]
PRINTED = 0.005 + 1e-12
"""Half of the last printed digit."""


@pytest.fixture(params=[None, 1, 2])
def ev(request: pytest.FixtureRequest) -> Evaluator:
    """Return the example, added in rank order and in two others."""
    cases = list(CASES)
    if request.param is not None:
        random.Random(request.param).shuffle(cases)
    evaluator = Evaluator()
    for positive, score in cases:
        evaluator.add_case(positive, score)
    evaluator.add_misses(1)
    return evaluator


def rows(curve: object) -> list[pytest.approx]:
    """Return a curve's rows for comparison with printed ones."""
    return [pytest.approx(row, abs=PRINTED) for row in curve]


def test_references(ev: Evaluator) -> None:
    """Five positive references, the miss included, and six negative ones."""
    assert (ev.num_positive_ref, ev.num_negative_ref) == (5, 6)


def test_ranks(ev: Evaluator) -> None:
    """Counts, recall, precision, specificity and F at every rank."""
    for (_, score), printed in zip(CASES, RANKS, strict=True):
        at = ev.confusion_at(score)
        assert (at.tp, at.tn, at.fp, at.fn) == printed[:4]
        rates = (at.recall, at.precision, at.specificity, at.f_measure)
        assert rates == pytest.approx(printed[4:], abs=PRINTED)
    before = ev.confusion_at(float("inf"))
    assert (before.tp, before.tn, before.fp, before.fn) == (0, 6, 0, 5)
    assert (before.recall, before.precision, before.specificity) == (0.0, 1.0, 1.0)
    assert before.f_measure == 0.0


def test_pr_curves(ev: Evaluator) -> None:
    """Eleven rows (the twelve printed ones repeat one), six interpolated ones."""
    printed = [(0.00, 1.00), *((rank[4], rank[5]) for rank in RANKS[1:]), (1.00, 0.00)]
    assert len(printed) == 11
    assert rows(ev.pr_curve(False)) == printed
    best = [(0.00, 1.00), (0.20, 0.60), (0.40, 0.60), (0.60, 0.60), (0.80, 0.44), (1.00, 0.00)]
    assert rows(ev.pr_curve(True)) == best


def test_pr_score_curves(ev: Evaluator) -> None:
    """Every rank with its score; interpolated, the ranks of the positives."""
    printed = [(rank[4], rank[5], score) for (_, score), rank in zip(CASES, RANKS, strict=True)]
    assert rows(ev.pr_score_curve(False)) == printed
    best = [(0.20, 0.60, -1.27), (0.40, 0.60, -1.47), (0.60, 0.60, -1.60), (0.80, 0.44, -2.01)]
    assert rows(ev.pr_score_curve(True)) == best


def test_roc_curves(ev: Evaluator) -> None:
    """Twelve rows, seven interpolated ones, printed as 1 - specificity and recall."""
    printed = [(1.00, 0.00), *((rank[6], rank[4]) for rank in RANKS), (0.00, 1.00)]
    assert rows(ev.roc_curve(False)) == [
        (1 - specificity, recall) for specificity, recall in printed
    ]
    best = [(1.0, 0.0), (0.83, 0.2), (0.67, 0.6), (0.5, 0.6), (0.33, 0.6), (0.17, 0.8), (0.0, 1.0)]
    assert rows(ev.roc_curve(True)) == [(1 - specificity, recall) for specificity, recall in best]


def test_areas(ev: Evaluator) -> None:
    """Trapezoids over the rows, in fractions by hand; 14 of 30 pairs are in order."""
    assert ev.area_under_roc_curve(False) == ev.auc_roc() == 14 / 30
    assert ev.area_under_roc_curve(True) == pytest.approx(0.55, abs=1e-15)
    # Four steps of recall 0.2 and the last one to (1, 0), each times its mean height.
    plain = 0.1 * (3 / 2 + 5 / 6 + 11 / 10 + 59 / 72 + 2 / 5)
    assert ev.area_under_pr_curve(False) == pytest.approx(plain, abs=1e-15)
    best = 0.1 * (8 / 5 + 12 / 5 + 47 / 45 + 4 / 9)
    assert ev.area_under_pr_curve(True) == pytest.approx(best, abs=1e-15)


@pytest.mark.parametrize(
    ("rank", "precision"), [(0, 1.0), (1, 0.0), (5, 0.6), (10, 0.4), (20, 0.2), (100, 0.04)]
)
def test_precision_at(ev: Evaluator, rank: int, precision: float) -> None:
    """Precision at a rank; ranks beyond the last case count as errors."""
    assert ev.precision_at(rank) == precision


def test_figures_of_the_ranking(ev: Evaluator) -> None:
    """Reciprocal rank, R-precision, break-even point, maximum F, AP and eleven points."""
    assert ev.reciprocal_rank() == 0.5
    assert ev.r_precision() == ev.pr_breakeven_point() == 0.6
    assert ev.maximum_f_measure() == ev.maximum_f_measure(1.0) == 0.6
    expected = (1 / 2 + 2 / 4 + 3 / 5 + 4 / 9 + 0) / 5
    assert ev.average_precision() == pytest.approx(expected, abs=1e-15)
    levels = [1.0, *[0.6] * 6, 4 / 9, 4 / 9, 0.0, 0.0]
    assert ev.eleven_pt_interp_precision() == pytest.approx(levels, abs=1e-15)
