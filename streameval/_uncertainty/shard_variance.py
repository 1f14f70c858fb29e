"""Sampling variances of figures of counts that are cut into shards.

The influence of a case on an area in precision-recall space is a sum over the
groups at and below it. A shard has the groups of its own range; the groups of the
shards below add the same amount to each of its cases. So a shard keeps the mean of
its influences and the squares about it, which no shift changes, and two neighbours
merge (`+`), associatively (Chan, Golub and LeVeque 1979).

Cost: O(G) for a shard of G groups, O(1) to merge two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import dot
from streameval._metrics.influence import auc_roc_influence, sums_from
from streameval._metrics.shards import placed_groups
from streameval._uncertainty.estimates import estimator_of
from streameval._uncertainty.limits import Figure
from streameval._uncertainty.sampling_variance import SamplingError, negatives_between
from streameval._uncertainty.unseen_cases import negative_step, with_step

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._metrics.shards import ShardPosition


@dataclass(frozen=True, slots=True)
class Scatter:
    """The number of values, their mean, and the sum of squares about it."""

    count: int
    mean: float
    squares: float

    def __add__(self, other: Scatter) -> Scatter:
        count = self.count + other.count
        if not count:
            return self
        apart = other.mean - self.mean
        share = other.count / count
        return Scatter(
            count,
            self.mean + apart * share,
            self.squares + other.squares + apart * apart * share * self.count,
        )

    def shifted(self, by: float) -> Scatter:
        """Return the scatter of the values with `by` added to each."""
        return replace(self, mean=self.mean + by)


@dataclass(frozen=True, slots=True)
class ShardVariance:
    """The contribution of a range of scores to the sampling variance of a figure.

    Attributes
    ----------
    positive, negative : Scatter
        Influences of its cases, without the terms of the shards below.
    per_positive, per_negative : float
        Its term in the influence of each positive and negative that ranks above it.
    slope : float
        P times its part of the figure's derivative by the log odds of the prevalence.
    step : float
        What one negative above all scores takes from its part of the figure; 0 of AUC-ROC.
    """

    positive: Scatter
    negative: Scatter
    per_positive: float
    per_negative: float
    slope: float
    step: float

    def __add__(self, below: ShardVariance) -> ShardVariance:
        """Return the contribution of both ranges; `below` must follow directly. O(1)."""
        return ShardVariance(
            self.positive.shifted(below.per_positive) + below.positive,
            self.negative.shifted(below.per_negative) + below.negative,
            self.per_positive + below.per_positive,
            self.per_negative + below.per_negative,
            self.slope + below.slope,
            self.step + below.step,
        )

    def figure(self, name: str, estimate: float) -> Figure:
        """Return the figure with its variance, if this is the sum of all shards. O(1).

        The variance is nan without two of each class.
        """
        P, N = self.positive.count, self.negative.count
        if min(P, N) < 2:
            return Figure(estimate, math.nan, P, N)
        error = SamplingError.of(
            self.positive.squares / (P - 1),
            P,
            self.negative.squares / (N - 1),
            N,
            self.negative.mean,
        )._replace(of_prevalence=(1 / P + 1 / N) * (self.slope / P) ** 2)
        if estimator_of(name).derivatives is None:
            return Figure(estimate, error.variance, P, N)
        figure = Figure(estimate, error.variance, P, N, error.freedom)
        return with_step(
            figure, self.step, P / (P + N) if estimator_of(name).counts_misses else 0.0
        )


def shard_variance(groups: Groups, above: ShardPosition, name: str) -> ShardVariance:
    """Return the contribution of a shard to the variance of a figure. O(G).

    Parameters
    ----------
    groups : Groups
        The groups of the shard alone, without misses.
    above : ShardPosition
        Its place among all shards, which together have both classes.
    name : {"auc_roc", "auc_pr", "average_precision"}
        The figure.
    """
    placed = placed_groups(groups, above)
    apart = negatives_between(groups)  # the last of them rank below the shard's last group
    derivatives = estimator_of(name).derivatives
    if derivatives is None:
        placements = auc_roc_influence(placed)
        between = np.append(placed.tp, above.tp + groups.P) / above.P
        positive = _scatter(placements.positive, groups.p)
        negative = _negatives(groups, apart, placements.tied, between)
        return ShardVariance(positive, negative, 0.0, 0.0, 0.0, 0.0)
    moved = derivatives(placed, None)
    below_tp, below_fp = sums_from(moved.per_tp), sums_from(moved.per_fp)
    scale = above.N / above.P
    return ShardVariance(
        positive=_scatter(moved.value + moved.own_tp + below_tp[1:], groups.p),
        negative=_negatives(groups, apart, scale * (moved.own_fp + below_fp[1:]), scale * below_fp),
        per_positive=float(below_tp[0]),
        per_negative=scale * float(below_fp[0]),
        slope=dot(groups.p, moved.own_tp) + dot(placed.tp, moved.per_tp),
        step=negative_step(placed, estimator_of(name)) if groups.P else 0.0,
    )


def _negatives(groups: Groups, apart: IntArray, tied: FloatArray, between: FloatArray) -> Scatter:
    return _scatter(np.concatenate((tied, between)), np.concatenate((groups.n, apart)))


def _scatter(values: FloatArray, counts: IntArray) -> Scatter:
    count = int(counts.sum())
    if not count:
        return Scatter(0, 0.0, 0.0)
    mean = dot(counts, values) / count
    centred = values - mean
    return Scatter(count, mean, dot(counts, centred * centred))
