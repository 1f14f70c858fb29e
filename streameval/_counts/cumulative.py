"""Counts above each threshold: the integers of every operating point."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray


class CumulativeCounts(NamedTuple):
    """False and true positives at each threshold, from (0, 0) at +inf downwards.

    Attributes
    ----------
    thresholds : float64[K]
        Strictly decreasing. The first is +inf; with misses the last is -inf.
    fp, tp : int64[K]
        False and true positives among the cases with score >= threshold. The
        last row holds all of both classes.
    """

    thresholds: FloatArray
    fp: IntArray
    tp: IntArray

    def above(self, threshold: float) -> tuple[int, int]:
        """Return the true and the false positives at any threshold. O(log K)."""
        # Thresholds are descending; searchsorted needs them ascending.
        row = self.thresholds.size - int(np.searchsorted(self.thresholds[::-1], threshold)) - 1
        return int(self.tp[row]), int(self.fp[row])


def cumulative_counts(
    *,
    positive_scores: FloatArray,
    negative_scores: FloatArray,
    positive_counts: IntArray | None = None,
    negative_counts: IntArray | None = None,
    missed_positives: int = 0,
    missed_negatives: int = 0,
) -> CumulativeCounts:
    """Return the counts above each distinct score.

    Parameters
    ----------
    positive_scores, negative_scores : float64[...]
        Finite scores of each class in ascending order.
    positive_counts, negative_counts : int64[...] or None
        How many cases have each score; None means one each.
    missed_positives, missed_negatives : int
        References that were never scored. With any, the last row is (N, P) at -inf.

    Notes
    -----
    O(n): the stable sort only merges two sorted runs.
    """
    split, size = positive_scores.size, positive_scores.size + negative_scores.size
    # Large arrays cost more to be cleared by the kernel than to be computed, so few are made.
    scores = np.concatenate((positive_scores, negative_scores))
    np.negative(scores, out=scores)
    # Both runs are descending once negated; a stable sort finds and merges runs.
    order = np.argsort(scores, kind="stable")
    scores = scores[order]
    np.negative(scores, out=scores)
    is_positive = order < split
    if positive_counts is None and negative_counts is None:
        tp = np.cumsum(is_positive, dtype=np.int64)
        fp = np.arange(1, size + 1, dtype=np.int64)
    else:
        counts = np.ones(size, dtype=np.int64)
        counts[:split] = 1 if positive_counts is None else positive_counts
        counts[split:] = 1 if negative_counts is None else negative_counts
        counts = counts[order]
        fp = np.cumsum(counts)
        counts[~is_positive] = 0
        tp = np.cumsum(counts)
    del order
    fp -= tp
    # The last row of each run of equal scores holds the counts of the whole run.
    is_last = np.append(scores[1:] != scores[:-1], True)[:size]
    if not is_last.all():
        last = np.flatnonzero(is_last)
        scores, fp, tp = scores[last], fp[last], tp[last]
    P = (int(tp[-1]) if tp.size else 0) + missed_positives
    N = (int(fp[-1]) if tp.size else 0) + missed_negatives
    missed = missed_positives > 0 or missed_negatives > 0
    return CumulativeCounts(
        thresholds=np.concatenate(([np.inf], scores, [-np.inf][:missed])),
        # An explicit integer type: concatenating an empty list would make the counts floats.
        fp=np.concatenate(([0], fp, np.array([N][:missed], dtype=np.int64))),
        tp=np.concatenate(([0], tp, np.array([P][:missed], dtype=np.int64))),
    )
