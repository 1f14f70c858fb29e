"""The panes of a window as blocks of cases that may depend on one another.

Panes are compared by coarse cells of the scores (`pane_cells`), which each pane keeps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.cluster_cells import edges_of_numbers
from streameval._counts.groups import Groups
from streameval._counts.scatter import rank_numbers
from streameval._uncertainty.design_effect import BlockSums, least_effect
from streameval._uncertainty.pane_cells import COARSE_BITS, MISSED_NUMBER, pane_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.state import State
    from streameval._counts.view import View
    from streameval._metrics.gradients import Gradient

    GradientOf = Callable[[Groups], Gradient]


def pane_effect(view: View, panes: Sequence[State], gradient_of: GradientOf) -> float:
    """Return the design effect that dependence inside panes has at least, nan if unknown.

    It is computed for the metric of scores with 5 bits. O(B K) for B panes and K cells of such
    scores, which the view keeps; O(S) more for each new pane of S distinct scores.

    Parameters
    ----------
    view : View
        The sum of the panes.
    panes : sequence of State
    gradient_of : callable
        All cells to the metric's gradient.
    """
    if len(panes) < 2:
        return math.nan
    blocks = view.cached("panes as blocks", lambda: PaneBlocks.of(view, panes))
    return least_effect(blocks.sums(gradient_of(blocks.cells)))


@dataclass(frozen=True, slots=True, eq=False)
class PaneBlocks:
    """The counts of panes as blocks of cases: of negatives, then of positives, by pane and cell.

    Attributes
    ----------
    cells : Groups
        Of all panes, best first.
    counts : float64[2, B, K]
        In the view's unit.
    squares : float64[2, B, K]
        Sums of squared weights, in the square of that unit; the counts if no case has one.
    is_filled : bool[B]
        Which panes have cases.
    """

    cells: Groups
    counts: FloatArray
    squares: FloatArray
    is_filled: BoolArray

    @classmethod
    def of(cls, view: View, panes: Sequence[State]) -> PaneBlocks:
        """Return the blocks, from the cells that each pane keeps. O(B K), O(S) a new pane."""
        unit = view.unit
        coarse = pane_cells(panes, unit)
        numbers, ranks = rank_numbers(np.concatenate([each.numbers for each in coarse]))
        pane = np.repeat(np.arange(len(panes)), [each.numbers.size for each in coarse])
        place = (pane + 1) * numbers.size - 1 - ranks
        shape = (2, len(panes), numbers.size)

        def table(columns: list[FloatArray]) -> FloatArray:
            cells = np.zeros((2, len(panes) * numbers.size))
            for row, values in zip(cells, np.concatenate(columns, axis=1), strict=True):
                row[place] = values
            return cells.reshape(shape)

        counts = table([each.counts for each in coarse])
        squares = counts if unit == 1 else table([each.squares for each in coarse])
        n, p = counts.sum(axis=1).astype(np.int64)
        cells = Groups.of_cells(_edges(numbers)[::-1], p, n)
        is_filled = np.asarray(counts.any(axis=(0, 2)))
        return cls(cells, counts, squares, is_filled)

    def sums(self, gradient: Gradient) -> BlockSums:
        """Return what each pane adds to a metric. O(B K)."""
        each = (gradient.negative, gradient.positive)
        return BlockSums(
            sums=np.add(*(self.counts[label] @ g for label, g in enumerate(each))),
            squares=np.add(*(self.squares[label] @ (g * g) for label, g in enumerate(each))),
            is_filled=self.is_filled,
        )


def _edges(numbers: IntArray) -> FloatArray:
    """Return the lower edges of cells that ascend by number; -inf of misses. O(K)."""
    missed = int(numbers.size > 0 and numbers[0] == MISSED_NUMBER)
    return np.concatenate(([-np.inf][:missed], edges_of_numbers(numbers[missed:], COARSE_BITS)))
