"""Gradients of rates at a threshold, and of means over the scored cases.

A rate is a ratio of sums over cells; a mean over cases moves by how far a case is from it.
All is O(K) for K cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import dot
from streameval._metrics.confusion import f_weights
from streameval._metrics.gradients import Gradient
from streameval._metrics.reliability import DEFAULT_BINS

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray
    from streameval._counts.groups import Groups


def precision_gradient(cells: Groups, threshold: float) -> Gradient:
    """Return the gradient of TP/(TP + FP); 0 everywhere if nothing is called positive."""
    called, tp, fp = _called(cells, threshold)
    square = (tp + fp) ** 2 or 1.0
    return Gradient(np.multiply(called, fp / square), np.multiply(called, -tp / square))


def recall_gradient(cells: Groups, threshold: float) -> Gradient:
    """Return the gradient of TP/P."""
    called, tp, _ = _called(cells, threshold)
    return Gradient((called - tp / cells.P) / cells.P, np.zeros(called.size))


def fpr_gradient(cells: Groups, threshold: float) -> Gradient:
    """Return the gradient of FP/N."""
    called, _, fp = _called(cells, threshold)
    return Gradient(np.zeros(called.size), (called - fp / cells.N) / cells.N)


def specificity_gradient(cells: Groups, threshold: float) -> Gradient:
    """Return the gradient of TN/N, 1 - FP/N."""
    return Gradient(np.zeros(cells.p.size), -fpr_gradient(cells, threshold).negative)


def f_measure_gradient(cells: Groups, threshold: float, beta: float = 1.0) -> Gradient:
    """Return the gradient of TP/(TP + r FN + q FP), with the weights r and q of `f_weights`."""
    of_recall, of_precision = f_weights(beta)
    called, tp, fp = _called(cells, threshold)
    whole = tp + of_recall * (cells.P - tp) + of_precision * fp
    rest = whole - tp
    # A positive that is called adds to TP and the whole, another one to the whole only.
    positive = np.where(called, rest / whole**2, -of_recall * tp / whole**2)
    return Gradient(positive, np.multiply(called, -of_precision * tp / whole**2))


def flagged_share_gradient(cells: Groups, threshold: float) -> Gradient:
    """Return the gradient of (TP + FP)/(P + N)."""
    called, tp, fp = _called(cells, threshold)
    total = cells.P + cells.N
    derivative = (called - (tp + fp) / total) / total
    return Gradient(derivative, derivative)


def expected_cost_gradient(
    cells: Groups, threshold: float, cost_fp: float, cost_fn: float
) -> Gradient:
    """Return the gradient of (cost_fp FP + cost_fn FN)/(P + N)."""
    called, tp, fp = _called(cells, threshold)
    total = cells.P + cells.N
    mean = cost_fp * (fp / total) + cost_fn * ((cells.P - tp) / total)
    return Gradient(
        (np.where(called, 0.0, cost_fn) - mean) / total,
        (np.where(called, cost_fp, 0.0) - mean) / total,
    )


def prevalence_gradient(cells: Groups) -> Gradient:
    """Return the gradient of P/(P + N)."""
    total = cells.P + cells.N
    ones = np.ones(cells.p.size)
    return Gradient(ones * (cells.N / total**2), ones * (-cells.P / total**2))


def brier_gradient(cells: Groups) -> Gradient:
    """Return the gradient of the mean of (1 - s)^2 of positives and s^2 of negatives."""
    score = _scored(cells)
    return _mean_gradient(cells, (1 - score) ** 2, score**2)


def log_loss_gradient(cells: Groups) -> Gradient:
    """Return the gradient of the mean of -ln s of positives and -ln(1 - s) of negatives.

    A case of infinite loss, which no metric value allows, has an infinite derivative.
    """
    score = _scored(cells)
    with np.errstate(divide="ignore"):
        return _mean_gradient(cells, -np.log(score), -np.log1p(-score))


def calibration_error_gradient(cells: Groups, bins: int = DEFAULT_BINS) -> Gradient:
    """Return the gradient of the calibration error in bins of equal width.

    It is the sum over bins of |sum of scores - positives|, over the cases; where a bin's
    mean score equals its rate, the derivative from one side.
    """
    score = _scored(cells)
    edges = np.arange(1, bins) / bins
    bin_of = np.searchsorted(edges, score, side="left")
    p, n = _scored_counts(cells)
    gaps = np.bincount(bin_of, score * (p + n) - p, minlength=bins)
    sign = np.where(gaps < 0, -1.0, 1.0)[bin_of]
    return _mean_gradient(cells, sign * (score - 1), sign * score)


def observed_expected_gradient(cells: Groups) -> Gradient:
    """Return the gradient of the positives over the sum of the scores; 0 where all scores are 0."""
    score = _scored(cells)
    p, n = _scored_counts(cells)
    expected, missing = dot(p + n, score) or np.inf, np.zeros(cells.p.size - p.size)
    of_negative = -p.sum() * score / expected**2
    return Gradient(
        np.concatenate((1 / expected + of_negative, missing)),
        np.concatenate((of_negative, missing)),
    )


def _called(cells: Groups, threshold: float) -> tuple[BoolArray, float, float]:
    """Return which cells are called positive at a threshold, and TP and FP."""
    called = cells.scores >= threshold
    return called, float(cells.p[called].sum()), float(cells.n[called].sum())


def _scored(cells: Groups) -> FloatArray:
    """Return the scores without the misses."""
    return cells.scores[np.isfinite(cells.scores)]


def _scored_counts(cells: Groups) -> tuple[FloatArray, FloatArray]:
    """Return positives and negatives without the misses."""
    size = _scored(cells).size
    return cells.p[:size].astype(np.float64), cells.n[:size].astype(np.float64)


def _mean_gradient(cells: Groups, of_positive: FloatArray, of_negative: FloatArray) -> Gradient:
    """Return the gradient of the mean of two functions of the score; the misses do not move it."""
    p, n = _scored_counts(cells)
    held, turned = p > 0, n > 0  # an infinite value that no case has is no part of the mean
    total = p.sum() + n.sum()
    mean = (dot(p[held], of_positive[held]) + dot(n[turned], of_negative[turned])) / total
    missing = np.zeros(cells.p.size - p.size)
    return Gradient(
        np.concatenate(((of_positive - mean) / total, missing)),
        np.concatenate(((of_negative - mean) / total, missing)),
    )
