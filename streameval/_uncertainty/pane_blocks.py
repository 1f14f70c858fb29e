"""The panes of a window as blocks of cases that may depend on one another.

Panes are compared by coarse cells of the scores (`pane_cells`), which each pane keeps. A window
that replaces another leaves its blocks to the next (`leave_blocks`), which replaces the rows of
the panes that changed.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.cluster_cells import edges_of_numbers
from streameval._counts.groups import Groups
from streameval._counts.run import locate
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

_KEY, _KEY_BEFORE = "panes as blocks", "blocks of the window before"
"""Keys of a view's cached answers: its blocks, and a list of the previous window's blocks."""

_MAX_EXACT = 1 << 53
"""Sums of counts below this are exact as floats, in any order."""

_MAX_REPLACED_PANES = 4
"""If more panes changed, the table is rebuilt."""


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
    blocks = view.cached(_KEY, lambda: _blocks(view, panes))
    return least_effect(blocks.sums(gradient_of(blocks.cells)))


def leave_blocks(before: State, after: State) -> None:
    """Leave the blocks of a window for the one that replaces it; none where it has none. O(1)."""
    blocks = before.known(_KEY)
    if blocks is not None:
        after.cached(_KEY_BEFORE, list).append(blocks)


def _blocks(view: View, panes: Sequence[State]) -> PaneBlocks:
    """Return the blocks: the previous window's, updated, if it left any, else new ones."""
    before: list[PaneBlocks] = view.cached(_KEY_BEFORE, list)
    try:
        updated = before.pop().updated(view, panes)
    except IndexError:
        updated = None
    return PaneBlocks.of(view, panes) if updated is None else updated


class PaneReferences:
    """Weak references to panes, in order: blocks keep no pane."""

    __slots__ = ("_panes",)

    def __init__(self, panes: Sequence[State]) -> None:
        self._panes = tuple(map(weakref.ref, panes))

    def changed(self, panes: Sequence[State]) -> list[int] | None:
        """Return the indices of panes that are others now; None of another number. O(B)."""
        if len(panes) != len(self._panes):
            return None
        pairs = zip(self._panes, panes, strict=True)
        return [index for index, (before, pane) in enumerate(pairs) if before() is not pane]


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
    numbers : int64[K]
        The numbers of the cells, ascending.
    panes : PaneReferences
    """

    cells: Groups
    counts: FloatArray
    squares: FloatArray
    is_filled: BoolArray
    numbers: IntArray
    panes: PaneReferences

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
        return cls(cells, counts, squares, is_filled, numbers, PaneReferences(panes))

    def updated(self, view: View, panes: Sequence[State]) -> PaneBlocks | None:
        """Return the blocks once panes were replaced by others, as `of`. O(B K) to copy the table.

        None where the cells are not the same, or cases have weights, or many panes changed.
        """
        changed = self.panes.changed(panes)
        if changed is None or len(changed) > _MAX_REPLACED_PANES:
            return None
        if view.unit != 1 or self.squares is not self.counts or view.P + view.N >= _MAX_EXACT:
            return None
        counts = self.counts.copy()
        counts[:, changed] = 0.0
        for index, each in zip(changed, pane_cells([panes[i] for i in changed], 1), strict=True):
            ranks, is_known = locate(self.numbers, each.numbers)
            if not is_known.all():
                return None
            counts[:, index, self.numbers.size - 1 - ranks] = each.counts
        moved = (counts[:, changed] - self.counts[:, changed]).sum(axis=1).astype(np.int64)
        n, p = self.cells.n + moved[0], self.cells.p + moved[1]
        if not (n + p).all():
            return None
        is_filled = self.is_filled.copy()
        is_filled[changed] = counts[:, changed].any(axis=(0, 2))
        cells = Groups.of_cells(self.cells.scores, p, n)
        return PaneBlocks(cells, counts, counts, is_filled, self.numbers, PaneReferences(panes))

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
