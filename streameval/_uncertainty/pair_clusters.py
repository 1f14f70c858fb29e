"""Which groups of clusters the cases of a pair are of, and how much that widens a difference.

Group g moves the difference of two figures by S_g = sum over the cells of a of its counts
times the gradient of a's figure, less the same of b. So the counts of each model's scores by
group are enough, apart: the pairs of scores have no group. The scores are cut where the pair
cuts them. With the variance V of the sums S_g over the groups and V_iid of the joint grid, the
design effect is V/V_iid, as of single figures (`design_effect`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._metrics.gradients import cells_of
from streameval._uncertainty.design_effect import (
    INDEPENDENT,
    BlockSums,
    BlockTable,
    DesignEffect,
)
from streameval._uncertainty.pair_cells import PairCells, summed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.state import State
    from streameval._uncertainty.pair_cuts import AxisCuts, PairCuts


@dataclass(frozen=True, slots=True, eq=False)
class GroupCounts:
    """The cases of one model by score and group.

    Attributes
    ----------
    negatives, positives : PairCells
        The score, or the middle of its cell, as `a`, and the group as `b`.
    """

    negatives: PairCells = field(default_factory=PairCells)
    positives: PairCells = field(default_factory=PairCells)

    def cut(self, cuts: AxisCuts) -> GroupCounts:
        """Return the counts in cells, not summed. O(n log K)."""
        negatives, positives = (
            replace(cells, a=cuts.cut(cells.a)) for cells in (self.negatives, self.positives)
        )
        return GroupCounts(negatives, positives)

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        return self.negatives.nbytes + self.positives.nbytes

    def counted(self) -> GroupCounts:
        """Return the counts without negative ones. O(n)."""
        return GroupCounts(self.negatives.counted(), self.positives.counted())

    def table(self, scores: State, num_groups: int) -> BlockTable:
        """Return the counts of all these scores by cell and group. O(n log n)."""
        cells = cells_of(scores)
        ascending = cells.scores[::-1]
        values = np.concatenate((self.positives.a, self.negatives.a))
        counts = np.concatenate((self.positives.counts, self.negatives.counts))
        return BlockTable(
            cells,
            ascending.size - 1 - np.searchsorted(ascending, values),
            is_positive=np.arange(values.size) < len(self.positives),
            counts=counts,
            squares=counts.astype(np.float64),
            block=np.concatenate((self.positives.b, self.negatives.b)).astype(np.int64),
            num_blocks=num_groups,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PairGroups:
    """The cases of both models by score and group.

    Attributes
    ----------
    num_groups : int
    a, b : GroupCounts
        Of each model.
    """

    num_groups: int
    a: GroupCounts = field(default_factory=GroupCounts)
    b: GroupCounts = field(default_factory=GroupCounts)

    @classmethod
    def of(
        cls, num_groups: int, cells: Sequence[PairCells], groups: Sequence[IntArray]
    ) -> PairGroups:
        """Return the counts of negatives and of positives, given the group of each entry. O(n)."""
        a, b = (
            GroupCounts(
                *(
                    PairCells(getattr(each, name), group.astype(np.float64), each.counts)
                    for each, group in zip(cells, groups)
                )
            )
            for name in ("a", "b")
        )
        return cls(num_groups, a, b)

    def cut(self, cuts: PairCuts) -> PairGroups:
        """Return the counts in cells, not summed. O(n log K)."""
        return PairGroups(self.num_groups, self.a.cut(cuts.a), self.b.cut(cuts.b))

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        return self.a.nbytes + self.b.nbytes

    def counted(self) -> PairGroups:
        """Return the counts without negative ones. O(n)."""
        return PairGroups(self.num_groups, self.a.counted(), self.b.counted())

    def tables(self, scores: tuple[State, State]) -> tuple[BlockTable, BlockTable]:
        """Return the counts of all scores of a, and of b, by cell and group. O(n log n)."""
        a, b = scores
        return self.a.table(a, self.num_groups), self.b.table(b, self.num_groups)

    def _check(self, totals: tuple[int, int], *, is_signed: bool = False) -> None:
        """Assert all invariants, given the negatives and the positives."""
        for side in (self.a, self.b):
            for cells, total in zip((side.negatives, side.positives), totals):
                cells._check(None, is_signed=is_signed)
                assert cells.total == total
                assert ((cells.b >= 0) & (cells.b < self.num_groups)).all()


def summed_groups(parts: Sequence[PairGroups], *, is_signed: bool = False) -> PairGroups:
    """Return the sum of signed counts. O(n log n)."""
    a, b = (
        GroupCounts(
            summed([getattr(part, name).negatives for part in parts], is_signed=is_signed),
            summed([getattr(part, name).positives for part in parts], is_signed=is_signed),
        )
        for name in ("a", "b")
    )
    return PairGroups(parts[0].num_groups, a, b)


def effect_of_groups(blocks: BlockSums) -> DesignEffect:
    """Return the effect on one model's figure; none where nothing varies. O(G)."""
    return DesignEffect.of(blocks) if blocks.independent_variance > 0 else INDEPENDENT


def effect_on_difference(a: BlockSums, b: BlockSums, independent: float) -> DesignEffect:
    """Return the effect on a's figure less b's. O(G).

    Parameters
    ----------
    a, b : BlockSums
        What each group adds to the models' figures.
    independent : float
        The variance of the difference in the same cells if all cases were independent. Where
        it is 0, as of models that agree on every case, the effect is the larger one of the
        models' own.
    """
    if not independent > 0:
        return max(effect_of_groups(a), effect_of_groups(b), key=lambda effect: effect.value)
    squares: FloatArray = a.squares + b.squares
    squares = squares * (independent / float(squares.sum()))
    return DesignEffect.of(BlockSums(a.sums - b.sums, squares, a.is_filled | b.is_filled))
