"""The design effect: how much dependence, or weights, of cases widens a metric's variance.

Cases of one cluster, or of one pane, move a metric together. With blocks b = 1..B of
counts p_bk and n_bk, and the metric's gradients g1_k and g0_k, block b adds
S_b = sum over the cells k of p_bk g1_k + n_bk g0_k, and the metric's variance is

    V = B/(B-1) sum over b of (S_b - mean S)^2

whatever the dependence inside the blocks (the linearised variance of a cluster sample:
Cochran 1977, section 11). A block that moves the gradient itself has too small an S_b, so
clusters take what the metric loses without the block (the jackknife), which corrects for that
as CR2 does (Bell and McCaffrey 2002). Over the variance of independent cases V is the design
effect D (Kish 1965, section 8.2). Intervals keep their small-sample shapes and take D times
their variance, P/D and N/D, and Student's t with the freedom of V. The V of weights is in
`weighted_variance`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._counts.exact import dot
from streameval._counts.groups import Groups
from streameval._uncertainty.student import normal_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._metrics.gradients import Gradient
    from streameval._uncertainty.limits import Figure

_MIN_SHARE = 1 / 32
"""Of the cases: without a smaller block the gradient is nearly the same, and is not computed."""

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

        Satterthwaite's (1946), 2 V^2 over the variance of V, from the blocks' own squares: the
        mean of a normal S_b^4 is three times its squared variance. O(G).
        """
        filled = self.sums[self.is_filled]
        squares = (filled - filled.mean()) ** 2
        fourth = float(squares @ squares)
        most = filled.size - 1.0
        return min(most, 3 * float(squares.sum()) ** 2 / fourth) if fourth > 0 else most

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


@dataclass(frozen=True, slots=True, eq=False)
class BlockTable:
    """The cases of blocks by cell and class.

    Attributes
    ----------
    cells : Groups
        Of all blocks, best first.
    cell, is_positive, block : columns[n]
        The cell of each row, its class, and its block.
    counts, squares : columns[n]
        Sums of the cases' weights and of their squares; the counts twice if all are 1.
    num_blocks : int
    """

    cells: Groups
    cell: IntArray
    is_positive: BoolArray
    counts: IntArray
    squares: FloatArray
    block: IntArray
    num_blocks: int

    def derivatives(self, gradient: Gradient) -> FloatArray:
        """Return the derivative of each row's cell and class. O(n)."""
        return np.where(
            self.is_positive, gradient.positive[self.cell], gradient.negative[self.cell]
        )

    def sums(self, gradient_of: Callable[[Groups], Gradient]) -> BlockSums:
        """Return what a metric loses without each block. O(n), and O(K) for each large block.

        A small block's loss is S_b/(1 - share): exact for a mean of the cases. A large one's is
        its counts times the gradient without half of the block: exact to the second order, and
        defined also where the block has all cases of a class. V takes (B - 1)/B of each loss.
        """
        each = self.derivatives(gradient_of(self.cells))
        sizes = self._sums(self.counts)
        share = sizes / (sizes.sum() or 1.0)
        losses = self._sums(each * self.counts) / np.maximum(1 - share, _MIN_SHARE)
        order = np.argsort(self.block, kind="stable")
        ends = np.searchsorted(self.block[order], np.arange(self.num_blocks + 1))
        for block in np.flatnonzero(share > _MIN_SHARE):
            rows = order[ends[block] : ends[block + 1]]
            losses[block] = self._loss(rows, gradient_of)
        filled = sizes > 0
        return BlockSums(
            sums=losses * (1 - 1 / max(int(np.count_nonzero(filled)), 1)),
            squares=self._sums(self.squares * each * each),
            is_filled=filled,
        )

    def _loss(self, rows: IntArray, gradient_of: Callable[[Groups], Gradient]) -> float:
        """Return what a metric loses without some rows, to the second order. O(K)."""
        size = self.cells.p.size
        taken = np.zeros((2, size), dtype=np.int64)
        np.add.at(
            taken, (self.is_positive[rows].astype(np.int64), self.cell[rows]), self.counts[rows]
        )
        n, p = taken
        # Twice the counts halve the gradient.
        rest = Groups.of_cells(self.cells.scores, 2 * self.cells.p - p, 2 * self.cells.n - n)
        gradient = gradient_of(rest)
        return 2 * (dot(p, gradient.positive) + dot(n, gradient.negative))

    def cluster_size(self, rows: BoolArray) -> float:
        """Return the mean size of the cluster of a case of some rows, at least 1. O(n).

        The cases over it are the effective number of clusters, n^2 / sum m^2 (Carter, Schnepel
        and Steigerwald 2017). sum m^2 is estimated without bias from the blocks into which
        clusters are hashed. With weights, cases are Kish's effective ones.
        """
        sizes, squares = self._sums(self.counts * rows), float(self.squares[rows].sum())
        chance = float(sizes.sum()) ** 2 / self.num_blocks
        return max(
            1.0, (float(sizes @ sizes) - chance) / (1 - 1 / self.num_blocks) / (squares or 1)
        )

    def effective_clusters(self, rows: BoolArray) -> float:
        """Return the effective number of clusters of some rows; inf without rows. O(n)."""
        squares = float(self.squares[rows].sum())
        cases = float(self.counts[rows].sum()) ** 2 / squares if squares else math.inf
        return cases / self.cluster_size(rows)

    def _sums(self, values: npt.NDArray[Any]) -> FloatArray:
        """Return the sum of each block."""
        return np.bincount(self.block, values, minlength=self.num_blocks).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class DesignEffect:
    """By how much dependence, or weights, make a variance larger than with independent cases.

    Attributes
    ----------
    value : float
        max(1, V/V_iid).
    freedom : float or None
        The degrees of freedom of V; None if V has as many as with independent cases.
    blocks : BlockSums or None
        The metric's; None where the effect was not estimated from them.
    sizes : (float, float)
        The mean size of the cluster of a positive, and of a negative.
    refused : str or None
        Why intervals must have no limits.
    """

    value: float
    freedom: float | None = None
    blocks: BlockSums | None = None
    sizes: tuple[float, float] = (1.0, 1.0)
    refused: str | None = None

    @classmethod
    def of(cls, blocks: BlockSums) -> DesignEffect:
        """Return the effect of blocks with a positive variance of independent cases. O(G)."""
        ratio = blocks.variance / blocks.independent_variance
        return cls(max(1.0, ratio), blocks.freedom, blocks)

    def widened(self, figure: Figure) -> Figure:
        """Return a figure whose limits allow for the effect. O(1)."""
        effect = figure.design_effect * self.value
        if self.refused is not None or not math.isfinite(self.value):
            none = replace(figure, variance=math.nan, positives=0.0, negatives=0.0)
            return replace(none, design_effect=effect, refused=self.refused or figure.refused)
        return replace(
            figure,
            design_effect=effect,
            variance=figure.variance * self.value,
            positives=figure.positives / self.value,
            negatives=figure.negatives / self.value,
            freedom=least_freedom(self.freedom, figure.freedom),
            cluster_cases=self._cluster_cases(),
            unseen=self._unseen(figure),
        )

    def _unseen(self, figure: Figure) -> tuple[float, float]:
        """Return the steps of an unseen cluster of negatives; each further case takes less."""
        cases = self.value * self._cluster_cases()[1]
        P = max(figure.positives, 1.0)
        growth = cases * math.log1p(P / cases) / math.log1p(P)
        fall, rise = figure.unseen
        return fall * growth, rise * growth

    def _cluster_cases(self) -> tuple[float, float]:
        """Return as how many effective cases an unseen cluster of each class counts, 1 or more.

        D cases count as one effective case. The m cases of a cluster are neither all alike nor
        independent, so the cluster is taken as sqrt(m D) cases: sqrt(m/D) effective ones.
        """
        of_positives, of_negatives = (math.sqrt(max(1.0, m / self.value)) for m in self.sizes)
        return of_positives, of_negatives


def least_freedom(*known: float | None) -> float | None:
    """Return the least degrees of freedom; None where none are known."""
    return min((each for each in known if each is not None), default=None)


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
    used = [each.value * own for each, own in zip((first, second), independent, strict=True)]
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
    freedom = independent**2 / float(blocks.squares @ blocks.squares) - 1
    if freedom < 1:
        return math.nan
    share = 2 / (9 * freedom)
    quantile = (1 - share + normal_quantile(_CHANCE) * math.sqrt(share)) ** 3
    return max(1.0, blocks.variance / independent / quantile)
