"""LingPipe's metrics at the edges: nothing, one class, misses only, huge counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streameval import (
    Evaluator,
    InvalidInputError,
    format_pr_curve,
    format_pr_score_curve,
    functional,
)

METRICS = ("area_under_pr_curve", "r_precision", "reciprocal_rank", "maximum_f_measure")


def evaluator(labels: str, *, missed: int = 0, missed_negatives: int = 0) -> Evaluator:
    """Build an evaluator of cases ranked as the letters are: + and -."""
    ev = Evaluator()
    ev.add_cases(
        labels=[letter == "+" for letter in labels], scores=[-i for i in range(len(labels))]
    )
    ev.add_misses(missed)
    ev.add_negative_misses(missed_negatives)
    return ev


@pytest.mark.parametrize("labels", ["", "--"])
def test_without_positives_everything_but_precision_is_undefined(labels: str) -> None:
    """With P = 0 the metrics are nan and the PR curves have no rows."""
    ev = evaluator(labels)
    assert all(math.isnan(getattr(ev, name)()) for name in METRICS)
    assert math.isnan(ev.pr_breakeven_point())
    assert np.isnan(ev.eleven_pt_interp_precision()).all()
    assert ev.pr_curve().shape == ev.pr_curve(True).shape == ev.roc_curve().shape == (0, 2)
    assert ev.pr_score_curve().shape == ev.pr_score_curve(True).shape == (0, 3)
    assert math.isnan(ev.area_under_roc_curve())


def test_precision_at_needs_cases_not_positives() -> None:
    """Precision at 0 is always 1; at k it is nan only without scored cases."""
    assert [evaluator(labels).precision_at(0) for labels in ("", "-", "+")] == [1.0, 1.0, 1.0]
    assert math.isnan(evaluator("").precision_at(1))
    assert math.isnan(evaluator("", missed=3).precision_at(2))
    assert evaluator("--").precision_at(1) == 0.0
    assert evaluator("+").precision_at(10**30) == 1e-30


def test_without_negatives_precision_is_one_and_roc_is_undefined() -> None:
    """With N = 0 the PR metrics are perfect and the ROC metrics nan."""
    ev = evaluator("++")
    assert ev.pr_curve().tolist() == [[0.0, 1.0], [0.5, 1.0], [1.0, 1.0], [1.0, 0.0]]
    assert ev.pr_curve(True).tolist() == [[0.0, 1.0], [0.5, 1.0], [1.0, 1.0]]
    assert ev.area_under_pr_curve(True) == 1.0
    assert ev.maximum_f_measure() == ev.r_precision() == ev.reciprocal_rank() == 1.0
    assert ev.roc_curve().shape == (0, 2)
    assert math.isnan(ev.area_under_roc_curve(True))


def test_all_positives_missed() -> None:
    """Nothing is ever retrieved: the metrics are 0, and the curve is its two limit points."""
    ev = evaluator("--", missed=2)
    assert ev.reciprocal_rank() == ev.r_precision() == ev.maximum_f_measure() == 0.0
    assert ev.eleven_pt_interp_precision().tolist() == [1.0] + [0.0] * 10
    assert ev.pr_curve().tolist() == ev.pr_curve(True).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert ev.roc_curve().tolist() == [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0], [1.0, 1.0]]
    only = evaluator("", missed=2)
    assert only.reciprocal_rank() == 0.0
    assert math.isnan(only.r_precision())


def test_misses_of_both_classes_reach_every_figure() -> None:
    """Misses change P and N everywhere and are retrieved at no finite threshold."""
    ev = evaluator("+-", missed=1, missed_negatives=2)
    assert ev.pr_curve().tolist() == [[0.0, 1.0], [0.5, 1.0], [0.5, 0.5], [1.0, 0.0]]
    assert ev.roc_curve().round(3).tolist() == [[0, 0], [0, 0.5], [0.333, 0.5], [1, 1]]
    assert ev.pr_score_curve().tolist() == [[0.5, 1.0, 0.0], [0.5, 0.5, -1.0]]
    assert ev.eleven_pt_interp_precision().tolist() == [1.0] * 6 + [0.0] * 5
    assert ev.maximum_f_measure() == 2 / 3
    assert ev.r_precision() == 0.5
    assert ev.area_under_roc_curve() == ev.auc_roc() == (3 + 0.5 * 2) / 6


@pytest.mark.parametrize("rank", [-1, 1.5, "3", None])
def test_ranks_that_are_none_are_refused(rank: object) -> None:
    """A rank is an integer, 0 or more."""
    with pytest.raises(InvalidInputError, match="rank must be an integer, 0 or more") as caught:
        evaluator("+-").precision_at(rank)
    assert caught.value.field == "rank"


@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf, math.nan])
def test_weights_that_are_none_are_refused(beta: float) -> None:
    """A weight of recall is positive and finite."""
    with pytest.raises(InvalidInputError, match="beta must be positive and finite"):
        evaluator("+-").maximum_f_measure(beta)


def test_answers_are_shared_and_cannot_be_altered() -> None:
    """A second query is cached, and no caller can change another's answer."""
    ev = evaluator("+-+-")
    for name in ("pr_curve", "pr_score_curve", "roc_curve"):
        for interpolate in (False, True):
            rows = getattr(ev, name)(interpolate)
            assert getattr(ev, name)(interpolate) is rows
            with pytest.raises(ValueError, match="read-only"):
                rows[0, 0] = 0.5
    with pytest.raises(ValueError, match="read-only"):
        ev.eleven_pt_interp_precision()[0] = 0.5


def test_counts_near_the_limit_stay_exact() -> None:
    """Totals of 2^61 and more: levels, ranks and precision are those of Python integers."""
    half = 2**60
    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1], scores=[3.0, 2.0, 1.0], counts=[half, half, half - 1])
    P = 2 * half - 1
    assert ev.precision_at(half + 2) == half / (half + 2)
    assert ev.r_precision() == half / P
    assert ev.eleven_pt_interp_precision()[5:7].tolist() == [1.0, P / (P + half)]
    assert ev.area_under_roc_curve() == half / P


def test_the_report_lists_the_figures() -> None:
    """It has each metric once, nan if it is undefined."""
    ev = evaluator("-+-+", missed=1)
    lines = {line[:38].strip(): line[38:] for line in ev.ranked_report().splitlines()}
    assert lines["Positive references"] == "3 (1 missed)"
    assert lines["Negative references"] == "2 (0 missed)"
    assert lines["Reciprocal rank"] == "0.5"
    assert "Precision at 5" not in lines
    assert "Precision at 5" in evaluator("-+-+-").ranked_report()
    assert "nan" in Evaluator().ranked_report()


def test_curves_print_as_columns() -> None:
    """Formatted curves have a header and LingPipe's column order."""
    ev = evaluator("-+-+", missed=1)
    lines = format_pr_curve(ev.pr_curve(True)).splitlines()
    assert lines[0].split() == ["precision", "recall", "F"]
    assert [float(x) for x in lines[2].split()] == [0.5, 0.333333, 0.4]
    assert len(lines) == 1 + len(ev.pr_curve(True))
    assert format_pr_curve(ev.pr_curve(True), beta=2.0).splitlines()[2].split()[2] == "0.357143"
    # At the largest weights F is the recall, at the least the precision.
    for beta, column in ((1e200, 1), (1e-200, 0)):
        for row in format_pr_curve(ev.pr_curve(True), beta=beta).splitlines()[2:-1]:
            assert row.split()[2] == row.split()[column]
    with pytest.raises(InvalidInputError, match="beta must be positive and finite"):
        format_pr_curve(ev.pr_curve(True), beta=0.0)
    scored = format_pr_score_curve(ev.pr_score_curve()).splitlines()
    assert scored[0].split() == ["precision", "recall", "score"]
    assert scored[-1].split() == ["0.500000", "0.666667", "-3"]


def test_the_roc_curve_and_its_areas_can_be_of_the_hull() -> None:
    """The rows are the hull's vertices, and every area of it is the same one."""
    ev = Evaluator()
    rng = np.random.default_rng(3)
    labels = rng.random(300) < 0.3
    ev.add_cases(labels=labels, scores=np.round(rng.normal(labels), 1))
    ev.add_misses(2)
    hull = ev.roc_hull()
    rows = ev.roc_curve(hull=True)
    assert np.array_equal(rows, np.column_stack((hull.fpr, hull.tpr)))
    area = ev.auc_roc(hull=True)
    assert area > ev.auc_roc()
    assert ev.area_under_roc_curve(hull=True) == area
    assert ev.gini(hull=True) == pytest.approx(2 * area - 1, abs=1e-12)
    columns = {"labels": labels, "scores": rng.normal(labels)}
    whole = functional.evaluator(**columns)
    assert np.array_equal(functional.roc_curve(**columns, hull=True), whole.roc_curve(hull=True))
    assert Evaluator().roc_curve(hull=True).shape == (0, 2)
    assert math.isnan(Evaluator().gini(hull=True))
    for query in (ev.roc_curve, ev.area_under_roc_curve):
        with pytest.raises(InvalidInputError, match="give interpolate or hull"):
            query(True, hull=True)
