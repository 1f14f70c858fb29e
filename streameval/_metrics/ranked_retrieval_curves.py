"""LingPipe's curves as pure functions: rows of recall and precision, or of the two rates.

These are the curves of LingPipe's ``ScoredPrecisionRecallEvaluation``: plain arrays
with limit points, and the trapezoid areas under their rows. They exist for comparison
with its results; prefer `auc_pr`, `auc_roc` and the hulls. Unlike in LingPipe, tied
scores are one row, so the order in which cases arrived changes nothing.

A curve whose rates are undefined has no rows, and its area is nan.
Cost: O(K) for K operating points, O(G) for G groups that hold positives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._metrics.confusion import f_weights

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._metrics.operating_points import OperatingPoints


def pr_rows(points: OperatingPoints) -> FloatArray:
    """Return rows of recall and precision: (0, 1), each point with TP > 0, (1, 0)."""
    if points.P == 0:
        return np.empty((0, 2))
    rows = np.flatnonzero((points.tp > 0) & (points.thresholds > -np.inf))
    recall, precision = points.recall[rows], points.precision[rows]
    return np.column_stack(
        (np.concatenate(([0.0], recall, [1.0])), np.concatenate(([1.0], precision, [0.0])))
    )


def interpolated_pr_rows(groups: Groups) -> FloatArray:
    """Return (0, 1), then the best precision at each recall or above, once for each recall.

    (1, 0) closes the curve only if the scored cases do not reach recall 1.
    """
    if groups.P == 0:
        return np.empty((0, 2))
    recall = (groups.tp + groups.p) / groups.P
    unreached = groups.missed_positives > 0
    return np.column_stack(
        (
            np.concatenate(([0.0], recall, [1.0] if unreached else [])),
            np.concatenate(([1.0], interpolated_precision(groups), [0.0] if unreached else [])),
        )
    )


def interpolated_precision(groups: Groups) -> FloatArray:
    """Return, for each group, the best precision at its recall or at a higher one."""
    reached: IntArray = groups.tp + groups.p
    precision = reached / (reached + groups.fp + groups.n)
    best: FloatArray = np.maximum.accumulate(precision[::-1])[::-1]
    return best


def pr_score_rows(points: OperatingPoints) -> FloatArray:
    """Return recall, precision and score at every distinct score; no limit points."""
    if points.P == 0:
        return np.empty((0, 3))
    rows = np.flatnonzero(np.isfinite(points.thresholds))
    return np.column_stack((points.recall[rows], points.precision[rows], points.thresholds[rows]))


def interpolated_pr_score_rows(groups: Groups) -> FloatArray:
    """Return recall, interpolated precision and the highest score that reaches each recall."""
    if groups.P == 0:
        return np.empty((0, 3))
    recall = (groups.tp + groups.p) / groups.P
    return np.column_stack((recall, interpolated_precision(groups), groups.scores))


def roc_rows(points: OperatingPoints) -> FloatArray:
    """Return rows of false and true positive rate: every point, and (1, 1) if absent."""
    if points.P == 0 or points.N == 0:
        return np.empty((0, 2))
    # The points always end in (N, P): at the lowest score, or at -inf if references
    # were never scored. So (1, 1) is included without being appended.
    return np.column_stack((points.fpr, points.tpr))


def interpolated_roc_rows(points: OperatingPoints) -> FloatArray:
    """Return one row for each distinct false positive rate, with its best true positive rate."""
    rows = roc_rows(points)
    if not len(rows):
        return rows
    last_of_rate = np.append(np.diff(points.fp) > 0, True)
    kept: FloatArray = rows[last_of_rate]
    return kept


def trapezoid_area(rows: FloatArray) -> float:
    """Return the area under rows of (x, y) joined by straight lines; nan without rows."""
    if not len(rows):
        return np.nan
    x, y = rows[:, 0], rows[:, 1]
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]))) / 2


def read_only(values: FloatArray) -> FloatArray:
    """Return the array with writing forbidden: callers of one revision share it."""
    values.flags.writeable = False
    return values


def format_pr_curve(curve: FloatArray, *, beta: float = 1.0) -> str:
    """Format a curve's rows as text: precision, recall and F, one row per line.

    Parameters
    ----------
    curve : float64[K, 2]
        Rows of recall and precision, as ``pr_curve`` returns them.
    beta : float
        Weight of recall in F, positive and finite.

    Returns
    -------
    str
        A header and K lines, in the column order of LingPipe's
        ``printPrecisionRecallCurve``. To print to a file:
        ``print(format_pr_curve(curve), file=f)``.

    Raises
    ------
    InvalidInputError
        When `beta` is not positive and finite.

    Notes
    -----
    O(K).

    Examples
    --------
    >>> print(format_pr_curve(np.array([[0.0, 1.0], [0.5, 0.25], [1.0, 0.0]])))
    precision   recall        F
     1.000000 0.000000 0.000000
     0.250000 0.500000 0.333333
     0.000000 1.000000 0.000000
    """
    recall, precision = curve[:, 0], curve[:, 1]
    of_recall, of_precision = f_weights(beta)
    below = of_recall * precision + of_precision * recall
    f_measure = np.zeros(len(curve))
    np.divide(precision * recall, below, out=f_measure, where=below > 0)
    lines = [f"{'precision':>9} {'recall':>8} {'F':>8}"]
    lines += [
        f"{p:9.6f} {r:8.6f} {f:8.6f}" for p, r, f in zip(precision, recall, f_measure, strict=True)
    ]
    return "\n".join(lines)


def format_pr_score_curve(curve: FloatArray) -> str:
    """Format a curve's rows as text: precision, recall and score, one row per line.

    Parameters
    ----------
    curve : float64[K, 3]
        Rows of recall, precision and score, as ``pr_score_curve`` returns them.

    Returns
    -------
    str
        A header and K lines, in the column order of LingPipe's
        ``printScorePrecisionRecallCurve``.

    Notes
    -----
    O(K).

    Examples
    --------
    >>> print(format_pr_score_curve(np.array([[0.5, 0.25, -1.27], [1.0, 0.2, -3.7]])))
    precision   recall         score
     0.250000 0.500000         -1.27
     0.200000 1.000000          -3.7
    """
    lines = [f"{'precision':>9} {'recall':>8} {'score':>13}"]
    lines += [f"{p:9.6f} {r:8.6f} {s:13.8g}" for r, p, s in curve.tolist()]
    return "\n".join(lines)
