"""The design effect: how much dependence, or weights, of cases widens a metric's variance.

Cases of one cluster, or of one pane, move a metric together. With blocks b = 1..B of
counts p_bk and n_bk, and the metric's gradients g1_k and g0_k, block b adds
S_b = sum over the cells k of p_bk g1_k + n_bk g0_k, and the metric's variance is

    V = B/(B-1) sum over b of (S_b - mean S)^2

whatever the dependence inside the blocks (the linearised variance of a cluster sample:
Cochran 1977, section 11). Over the variance of independent cases it is the design effect
D (Kish 1965, section 8.2). Intervals keep their small-sample shapes and take D times
their variance, P/D and N/D, and Student's t with the freedom of V. The V of weights is in
`weighted_variance`.

V of 32 blocks is uncertain by a quarter, and by more where few blocks have most of it. So a
ratio that is at most `MAX_CHANCE_EFFECT`, or exceeds 1 by less than its standard error, is
reported and not applied: intervals of independent cases stay as narrow as they are.
docs/truth.md has the measurements that chose the constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._uncertainty.student import normal_quantile

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._metrics.gradients import Gradient
    from streameval._uncertainty.limits import Figure

MAX_CHANCE_EFFECT = 1.3
"""A larger ratio of variances has a probability of one in eight if cases are independent."""

_MIN_FREEDOM = 5.0
"""Satterthwaite's estimate is itself too uncertain to be less than this."""

_CHANCE = 0.01
"""Probability that `least_effect` exceeds 1 where cases are independent, about."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockSums:
    """What each block adds to a metric.

    Attributes
    ----------
    sums : float64[G]
        S_b, 0 of a block without cases.
    squares : float64[G]
        The variance that its cases would add if they were independent.
    is_filled : bool[G]
        Which blocks have cases.
    """

    sums: FloatArray
    squares: FloatArray
    is_filled: BoolArray

    @property
    def variance(self) -> float:
        """V; infinite with a single block, which says nothing of its variance. O(G)."""
        filled = self.sums[self.is_filled]
        return _covariance(filled, filled)

    @property
    def independent_variance(self) -> float:
        """The variance if all cases were independent. O(G)."""
        return float(self.squares.sum())

    @property
    def freedom(self) -> float:
        """The degrees of freedom of V, B - 1 or less where few blocks have most of it.

        Satterthwaite's (1946), with the blocks' variances in proportion to `squares`. O(G).
        """
        whole = self.independent_variance
        return whole**2 / float(self.squares @ self.squares) - 1

    def covariance(self, other: BlockSums) -> float:
        """Return the covariance of two metrics over the same blocks. O(G)."""
        filled = self.is_filled | other.is_filled
        return _covariance(self.sums[filled], other.sums[filled])


def _covariance(first: FloatArray, second: FloatArray) -> float:
    size = first.size
    if size < 2:
        return math.inf
    centred = first - first.mean()
    other = centred if second is first else second - second.mean()
    return float(centred @ other) * size / (size - 1)


def block_sums(
    gradient: Gradient,
    cell: IntArray,
    *,
    is_positive: BoolArray,
    counts: IntArray,
    squares: FloatArray,
    block: IntArray,
    num_blocks: int,
) -> BlockSums:
    """Return what each block adds, from a table of counts by cell, class and block. O(n).

    Parameters
    ----------
    gradient : Gradient
        Of the sum of all blocks.
    cell, is_positive, block : columns[n]
        The cell of each row, its class, and its block.
    counts, squares : columns[n]
        Sums of the cases' weights and of their squares; the counts twice if all are 1.
    num_blocks : int
    """
    each = np.where(is_positive, gradient.positive[cell], gradient.negative[cell])
    return BlockSums(
        sums=_sums(each * counts, block, num_blocks),
        squares=_sums(squares * each * each, block, num_blocks),
        is_filled=np.bincount(block, minlength=num_blocks) > 0,
    )


def _sums(values: npt.NDArray[Any], block: IntArray, num_blocks: int) -> FloatArray:
    return np.bincount(block, values, minlength=num_blocks).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class DesignEffect:
    """By how much dependence makes a variance larger than with independent cases.

    Attributes
    ----------
    value : float
        max(1, V/V_iid); infinite if all cases are in one block, nan if the blocks keep
        too few bits of the scores to tell.
    freedom : float or None
        The degrees of freedom of V; None if V has as many as with independent cases.
    blocks : BlockSums or None
        The metric's; None where the effect was estimated by another figure, or not at all.
    max_chance : float
        A value up to this is as likely chance, and widens no interval.
    """

    value: float
    freedom: float | None = None
    blocks: BlockSums | None = None
    max_chance: float = MAX_CHANCE_EFFECT

    @classmethod
    def of(cls, blocks: BlockSums) -> DesignEffect:
        """Return the effect of blocks with a positive variance of independent cases. O(G)."""
        ratio = blocks.variance / blocks.independent_variance
        freedom = max(blocks.freedom, _MIN_FREEDOM)
        # Of independent cases the ratio is about chi-square over its degrees of freedom.
        error = math.sqrt(2 / freedom)
        return cls(max(1.0, ratio), freedom, blocks, max(MAX_CHANCE_EFFECT, 1 + error))

    @classmethod
    def of_weights(cls, value: float, freedom: float | None = None) -> DesignEffect:
        """Return the effect of weights, which are known: none of it is chance. O(1)."""
        return cls(value, freedom, max_chance=0.0)

    @property
    def is_applied(self) -> bool:
        """Whether it widens intervals: chance alone seldom has an effect as large."""
        return not self.value <= self.max_chance

    def widened(self, figure: Figure) -> Figure:
        """Return a figure whose limits allow for the effect. O(1)."""
        if not self.is_applied:
            return replace(figure, design_effect=figure.design_effect * self.value)
        if not math.isfinite(self.value):
            none = replace(figure, variance=math.nan, positives=0.0, negatives=0.0)
            refused = "TOO_COARSE" if math.isnan(self.value) else figure.refused
            return replace(none, design_effect=self.value, refused=refused)
        return replace(
            figure,
            design_effect=figure.design_effect * self.value,
            variance=figure.variance * self.value,
            positives=figure.positives / self.value,
            negatives=figure.negatives / self.value,
            freedom=self.freedom,
        )


INDEPENDENT = DesignEffect(1.0)
"""The design effect of cases without clusters."""


def correlation(first: DesignEffect, second: DesignEffect) -> float:
    """Return the correlation of two metrics' errors over the same groups of clusters. O(G).

    The difference never gets a smaller variance than with independent cases. So errors that
    move together narrow the difference only as far as clusters have widened its two sides.
    """
    a, b = first.blocks, second.blocks
    if a is None or b is None or a.sums.size != b.sums.size:
        return 0.0
    independent = (a.independent_variance, b.independent_variance)
    effects = [each.value if each.is_applied else 1.0 for each in (first, second)]
    used = [effect * each for effect, each in zip(effects, independent, strict=True)]
    most = (sum(used) - sum(independent)) / 2
    shared = min(a.covariance(b), most) / math.sqrt(used[0] * used[1])
    return shared if abs(shared) <= 1 else 0.0


def least_effect(blocks: BlockSums) -> float:
    """Return the design effect that dependence inside the blocks has at least, 1 or more.

    V/V_iid of independent cases is about chi-square over its degrees of freedom, so the
    ratio is divided by this distribution's quantile (Wilson and Hilferty 1931). O(G).
    """
    independent = blocks.independent_variance
    if not independent > 0:
        return math.nan
    freedom = blocks.freedom
    if freedom < 1:
        return math.nan
    share = 2 / (9 * freedom)
    quantile = (1 - share + normal_quantile(_CHANCE) * math.sqrt(share)) ** 3
    return max(1.0, blocks.variance / independent / quantile)
