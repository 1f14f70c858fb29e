"""The mean of several classes' figures, each class against the rest, with its interval.

All figures are of the same rows: a row is a positive of its own class and a negative of
every other, so the figures are dependent, and their variances must not be added. Here a
row has one influence on the mean: the weighted sum of its influences on every figure. The
mean has the variance of these sums over independent rows. For one class this is the variance
of `sampling_variance`; for two classes whose probabilities add up to 1, whose AUC-ROC are
the same number, it is that number's variance and not half of it.

The limits are computed as for an area in precision-recall space, on the logit scale, with
1/sum(w^2/P) cases and Satterthwaite's degrees of freedom (Satterthwaite 1946) for classes
with P positives and weight w. docs/groups-and-classes.md has the measured coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._uncertainty.estimates import estimator_of
from streameval._uncertainty.limits import UNDEFINED, Figure, precision_limits
from streameval._uncertainty.pair_variance import influences_of_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._uncertainty.limits import Limits


@dataclass(frozen=True, slots=True, eq=False)
class ClassFigures:
    """One metric of each class, and what every row adds to its error.

    Attributes
    ----------
    estimates : float64[K]
        The metric of each class against the rest; nan where undefined.
    influences : float64[n, K] or None
        Each row's share of the error of each figure; their squares add up to its
        variance. None if a class has fewer than two positives or two negatives.
    positives : int64[K]
        Rows of each class.
    codes : int64[n]
        The class of each row.
    """

    estimates: FloatArray
    influences: FloatArray | None
    positives: IntArray
    codes: IntArray

    def macro(self) -> Figure:
        """Return the plain mean over the classes. O(n K)."""
        size = len(self.estimates)
        return self._mean(np.full(size, 1 / size) if size else np.empty(0), 0.0)

    def weighted(self) -> Figure:
        """Return the mean weighted by the classes' shares of the rows. O(n K).

        The shares are estimates too: each row adds the difference of its class's figure
        from the mean. A class without rows has no weight.
        """
        total = len(self.codes)
        seen = np.flatnonzero(self.positives)
        weights = self.positives / max(total, 1)
        estimate = float(weights[seen] @ self.estimates[seen]) if total else math.nan
        if len(seen) < len(weights) or math.isnan(estimate):
            return Figure(estimate, math.nan, total, total)
        return self._mean(weights, (self.estimates[self.codes] - estimate) / total)

    def _mean(self, weights: FloatArray, of_weights: FloatArray | float) -> Figure:
        estimate = float(weights @ self.estimates) if weights.size else math.nan
        if self.influences is None:
            return Figure(estimate, math.nan, 0, 0)
        of_rows = self.influences @ weights + of_weights
        shares = weights**2 / self.positives
        cases = 1 / float(shares.sum())
        variances = weights**2 * (self.influences**2).sum(axis=0)
        whole = float(variances.sum())
        freedom = (
            whole**2 / float((variances**2 / (self.positives - 1)).sum())
            if whole > 0
            else float(self.positives.min() - 1)
        )
        variance = float(of_rows @ of_rows)
        return Figure(estimate, variance, cases, len(self.codes) - cases, freedom=freedom)


def class_figures(
    metric: str, groups: Sequence[Groups], codes: IntArray, scores: FloatArray
) -> ClassFigures:
    """Return a metric of each class against the rest. O(n K log n).

    Parameters
    ----------
    metric : str
        One whose variance is made of influences.
    groups : sequence of Groups
        Of each class, without misses.
    codes : int64[n]
        The class of each row.
    scores : float64[n, K]
        The score of each row for each class.
    """
    estimator = estimator_of(metric)
    estimates = np.array([estimator.value(estimator.counted(each), None) for each in groups])
    positives = np.bincount(codes, minlength=len(groups))
    influences = None
    if len(groups) and min(min(each.P, each.N) for each in groups) >= 2:
        influences = np.empty(scores.shape)
        for column, each in enumerate(groups):
            influences[:, column] = _influences(
                metric, each, codes == column, np.ascontiguousarray(scores[:, column])
            )
    return ClassFigures(estimates, influences, positives, codes)


def _influences(
    metric: str, groups: Groups, is_positive: BoolArray, scores: FloatArray
) -> FloatArray:
    """Return what each row adds to the error of one class's figure. O(n log n)."""
    P, N = groups.P, groups.N
    counted = estimator_of(metric).counted(groups)
    influence = estimator_of(metric).influence(counted, None)
    of_positives, of_negatives = influences_of_cases(
        influence, counted, scores[is_positive], scores[~is_positive]
    )
    rows = np.empty(len(scores))
    # The factors make the squares' sums the unbiased variances over each class.
    rows[is_positive] = (of_positives - of_positives.mean()) / math.sqrt(P * (P - 1))
    rows[~is_positive] = (of_negatives - of_negatives.mean()) / math.sqrt(N * (N - 1))
    share = P / (P + N)
    log_odds = (is_positive - share) / (share * (1 - share)) / (P + N)
    rows += float(influence.prevalence_slope) * log_odds
    return rows


def mean_limits(figure: Figure, alpha: float) -> Limits:
    """Return the limits that miss with probability `alpha`; nan with too few. O(1)."""
    return UNDEFINED if math.isnan(figure.variance) else precision_limits(figure, alpha)
