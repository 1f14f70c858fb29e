"""The panes of a window as blocks of cases that may depend on one another.

Panes are compared by coarse cells of the scores. A pane keeps its own cells, so a window in
which one pane changed counts the cells of that pane alone. Panes without cells, as in a
window that was not asked for before, are counted together: one pass over all their scores
instead of one for each pane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._counts.cluster_cells import cell_numbers, edges_of_numbers
from streameval._counts.groups import Groups
from streameval._counts.scatter import rank_numbers
from streameval._uncertainty.design_effect import BlockSums, least_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.state import State
    from streameval._counts.view import View
    from streameval._metrics.gradients import Gradient

    GradientOf = Callable[[Groups], Gradient]

_BITS = 5
"""Significant bits of a score by which panes are compared: some 150 cells."""

_MISSED = -(1 << 16)
"""The number of the cell of misses, below the cells of all scores."""

_MAX_COUNTED_SCORES = 1 << 17
"""Scores that are counted in one pass, unless a single pane has more: some 60 B for each."""


def pane_effect(view: View, panes: Sequence[State], gradient_of: GradientOf) -> float:
    """Return the design effect that dependence inside panes has at least, nan if unknown.

    That of the metric of scores with 5 bits. O(B K) for B panes and K such cells, which the
    view keeps; O(S) more for each pane that is new, with S distinct scores.

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
    """

    cells: Groups
    counts: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, view: View, panes: Sequence[State]) -> PaneBlocks:
        """Return the blocks, from the cells that each pane keeps. O(B K), O(S) a new pane."""
        unit = view.unit
        coarse = _coarse_cells(panes, unit)
        numbers, ranks = rank_numbers(np.concatenate([each.numbers for each in coarse]))
        pane = np.repeat(np.arange(len(panes)), [each.numbers.size for each in coarse])
        place = (pane + 1) * numbers.size - 1 - ranks
        shape = (2, len(panes), numbers.size)

        def table(columns: list[FloatArray]) -> FloatArray:
            cells = np.zeros((2, len(panes) * numbers.size))
            for label in (False, True):
                cells[int(label), place] = np.concatenate([each[int(label)] for each in columns])
            return cells.reshape(shape)

        counts = table([each.counts for each in coarse])
        squares = counts if unit == 1 else table([each.squares for each in coarse])
        n, p = counts.sum(axis=1).astype(np.int64)
        cells = Groups(
            scores=_edges(numbers)[::-1],
            p=p,
            n=n,
            tp=np.cumsum(p) - p,
            fp=np.cumsum(n) - n,
            missed_positives=0,
            missed_negatives=0,
            P=int(p.sum()),
            N=int(n.sum()),
        )
        return cls(cells, counts, squares)

    def sums(self, gradient: Gradient) -> BlockSums:
        """Return what each pane adds to a metric. O(B K)."""
        each = (gradient.negative, gradient.positive)
        return BlockSums(
            sums=np.add(*(self.counts[label] @ g for label, g in enumerate(each))),
            squares=np.add(*(self.squares[label] @ (g * g) for label, g in enumerate(each))),
            is_filled=self.counts.sum(axis=(0, 2)) > 0,
        )


class _CoarseCells(NamedTuple):
    """The cells of a pane, ascending by number, with the counts of each class in them."""

    numbers: IntArray
    counts: FloatArray
    squares: FloatArray


def _coarse_cells(panes: Sequence[State], unit: int) -> list[_CoarseCells]:
    """Return the cells of panes, where a case of weight 1 counts `unit`; a pane keeps its own."""
    key = ("coarse cells", unit)
    known: dict[int, _CoarseCells] = {}
    new: list[State] = []
    for pane in panes:
        cells: _CoarseCells | None = pane.known(key)
        if cells is None:
            new.append(pane)
        else:
            known[id(pane)] = cells
    for chunk in _chunks(new):
        for pane, counted in zip(chunk, _counted(chunk, unit), strict=True):
            known[id(pane)] = pane.keep(key, counted)
    return [known[id(pane)] for pane in panes]


def _chunks(panes: Sequence[State]) -> Iterator[list[State]]:
    """Cut panes into runs of about `_MAX_COUNTED_SCORES`."""
    chunk: list[State] = []
    scores = 0
    for pane in panes:
        if chunk and scores + len(pane.counts) > _MAX_COUNTED_SCORES:
            yield chunk
            chunk, scores = [], 0
        chunk.append(pane)
        scores += len(pane.counts)
    if chunk:
        yield chunk


def _counted(panes: Sequence[State], unit: int) -> list[_CoarseCells]:
    """Return the cells of each pane, of all panes in one pass. O(S + B K)."""
    columns = [_columns(pane, label, unit) for pane in panes for label in (False, True)]
    scores = np.concatenate([each[0] for each in columns])
    missed = scores == -np.inf
    numbers = cell_numbers(np.where(missed, 0.0, scores) if missed.any() else scores, _BITS)
    numbers[missed] = _MISSED
    distinct, ranks = rank_numbers(numbers)
    # One row of the table for each pane and class, negatives first.
    row = np.repeat(np.arange(len(columns)), [each[0].size for each in columns])
    place = row * distinct.size + ranks
    shape = (len(panes), 2, distinct.size)

    def table(column: int) -> FloatArray:
        values = np.concatenate([each[column] for each in columns])
        sums = np.bincount(place, values, minlength=math.prod(shape)).reshape(shape)
        return sums.astype(np.float64, copy=False)

    counts = table(1)
    squares = counts if unit == 1 else table(2)
    found = []
    for pane in range(len(panes)):
        used = np.flatnonzero(counts[pane].any(axis=0))
        of_cases = counts[pane][:, used]
        of_squares = of_cases if unit == 1 else squares[pane][:, used]
        found.append(_CoarseCells(distinct[used], of_cases, of_squares))
    return found


def _columns(pane: State, label: bool, unit: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a class's scores in a pane, -inf of misses, with their counts and squares."""
    if unit == 1:
        run = pane.run(label)
        scores, counts = run.scores, run.multiplicities().astype(np.float64)
        squares = counts
    else:
        weighted = pane.weighted_counts().run(label)
        scores, counts = weighted.scores, weighted.units.astype(np.float64)
        squares = weighted.squares()
    missed = (pane.missed_positives if label else pane.missed_negatives) // pane.unit
    if missed:
        scores = np.append(scores, -np.inf)
        counts = np.append(counts, missed * unit)
        squares = np.append(squares, float(missed) * unit**2)
    return scores, counts, squares


def _edges(numbers: IntArray) -> FloatArray:
    """Return the lower edges of cells that ascend by number; -inf of misses. O(K)."""
    missed = int(numbers.size > 0 and numbers[0] == _MISSED)
    return np.concatenate(([-np.inf][:missed], edges_of_numbers(numbers[missed:], _BITS)))
