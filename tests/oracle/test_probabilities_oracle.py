"""Brier score, log loss and reliability against scikit-learn and definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from streameval import Evaluator

Labels = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float64]


def sample(seed: int, size: int, digits: int) -> tuple[Labels, Scores]:
    """Return labels and overconfident probabilities, rounded so that some tie."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(0.7, 1.1, size)
    labels = rng.random(size) < truth
    scores = np.clip(truth + (truth - 0.5) * 0.4, 0.0001, 0.9999)
    return labels, np.round(scores, digits) if digits else scores


def evaluator(labels: Labels, scores: Scores) -> Evaluator:
    """Build an evaluator of the columns."""
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    return ev


@pytest.mark.parametrize("digits", [0, 2])
def test_brier_and_log_loss_are_those_of_scikit_learn(digits: int) -> None:
    """Both scores agree with scikit-learn, with ties and without."""
    labels, scores = sample(1, 500, digits)
    scores = np.clip(scores, 0.001, 0.999)
    ev = evaluator(labels, scores)
    assert ev.brier_score() == pytest.approx(brier_score_loss(labels, scores), rel=1e-13)
    assert ev.log_loss() == pytest.approx(log_loss(labels, scores), rel=1e-13)


@given(
    cases=st.lists(
        st.tuples(st.booleans(), st.sampled_from([0.0, 0.125, 0.5, 0.75, 1.0])), min_size=1
    )
)
def test_scores_follow_their_definition(cases: list[tuple[bool, float]]) -> None:
    """The Brier score is the mean square, the log loss is inf after a certain mistake."""
    ev = Evaluator()
    ev.add_cases(labels=[label for label, _ in cases], scores=[score for _, score in cases])
    squares = sum((Fraction(score) - label) ** 2 for label, score in cases) / len(cases)
    assert ev.brier_score() == pytest.approx(float(squares), rel=1e-14)
    if any(score == 1 - label for label, score in cases):
        assert ev.log_loss() == math.inf
    else:
        losses = [-math.log(score if label else 1 - score) for label, score in cases]
        assert ev.log_loss() == pytest.approx(math.fsum(losses) / len(cases), rel=1e-13)


@pytest.mark.parametrize(("strategy", "theirs"), [("width", "uniform"), ("mass", "quantile")])
def test_reliability_is_scikit_learns_calibration_curve(strategy: str, theirs: str) -> None:
    """Observed rates and mean scores are those of calibration_curve, without ties."""
    labels, scores = sample(2, 600, 0)
    scores = np.sort(scores + np.linspace(0, 1e-9, scores.size))  # distinct
    rate, mean = calibration_curve(labels, scores, n_bins=12, strategy=theirs)
    table = evaluator(labels, scores).reliability(12, strategy=strategy)
    np.testing.assert_allclose(table.observed_rate, rate, atol=1e-14)
    np.testing.assert_allclose(table.mean_score, mean, atol=1e-14)
    assert table.counts.sum() == 600
    assert table.positives.sum() == labels.sum()
    gaps = np.abs(rate - mean)
    assert table.calibration_error == pytest.approx(np.sum(gaps * table.counts) / 600, abs=1e-14)
    assert table.largest_calibration_error == pytest.approx(gaps.max(), abs=1e-14)


@pytest.mark.parametrize("strategy", ["width", "mass"])
def test_ties_share_a_bin(strategy: str) -> None:
    """No score is split between bins, and the bins together have every case."""
    labels, scores = sample(3, 400, 1)
    table = evaluator(labels, scores).reliability(7, strategy=strategy)
    assert (np.diff(table.lower) > 0).all()
    assert table.counts.sum() == 400
    inside = [
        ((scores > low) | ((scores == low) & ((strategy == "mass") | (low == 0)))) & (scores <= up)
        for low, up in zip(table.lower, table.upper, strict=True)
    ]
    for row, held in enumerate(inside):
        assert table.counts[row] == held.sum()
        assert table.positives[row] == labels[held].sum()
        assert table.mean_score[row] == pytest.approx(scores[held].mean(), abs=1e-14)


@pytest.mark.parametrize("digits", [0, 1, 2])
def test_decomposition_is_that_of_isotonic_regression(digits: int) -> None:
    """Miscalibration and discrimination come from scikit-learn's isotonic fit."""
    labels, scores = sample(4, 300, digits)
    ev = evaluator(labels, scores)
    ev.add_misses(5)  # without a score they change nothing
    fitted = IsotonicRegression().fit_transform(scores, labels.astype(float))
    recalibrated = np.mean((fitted - labels) ** 2)
    base = np.mean((labels.mean() - labels) ** 2)
    parts = ev.brier_decomposition()
    assert parts.miscalibration == pytest.approx(ev.brier_score() - recalibrated, abs=1e-13)
    assert parts.discrimination == pytest.approx(base - recalibrated, abs=1e-13)
    assert parts.uncertainty == pytest.approx(base, abs=1e-14)
