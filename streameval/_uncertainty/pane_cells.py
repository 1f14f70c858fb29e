"""The coarse cells of panes, by which they are compared as blocks of cases.

A pane keeps its own cells, so a window in which one pane changed counts the cells of that pane
alone. Panes without cells, as in a window that was not asked for before, are counted together:
one pass over all their scores instead of one for each pane. Packed panes are not opened: each
number of their resolution has one coarse cell, which is looked up by the number's place in a
table.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._counts.cell_layout import NumberLayout, cell_keys
from streameval._counts.cluster_cells import cell_numbers, coarse_numbers
from streameval._counts.resolution import MAX_BITS
from streameval._counts.scatter import rank_numbers
from streameval._counts.steps import batches, counts_of, numbers_of, span_of
from streameval._counts.stored_counts import cells_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.state import State
    from streameval._counts.stored_counts import StoredCounts

COARSE_BITS = 5
"""Significant bits of a score by which panes are compared: some 150 cells."""

MISSED_NUMBER = -(1 << 16)
"""The number of the cell of misses, below the cells of all scores."""

_MAX_COUNTED_SCORES = 1 << 17
"""Scores that are counted in one pass, unless a single pane has more: some 60 B for each."""


class PaneCells(NamedTuple):
    """The coarse cells of a pane, ascending by number, with the counts of each class in them.

    Attributes
    ----------
    numbers : int64[K]
    counts : float64[2, K]
        Of negatives, then of positives, in the unit of the window.
    squares : float64[2, K]
        Sums of squared weights, in the square of that unit; the counts if no case has one.
    """

    numbers: IntArray
    counts: FloatArray
    squares: FloatArray


def pane_cells(panes: Sequence[State], unit: int) -> list[PaneCells]:
    """Return the cells of panes, where a case of weight 1 counts `unit`; a pane keeps its own.

    O(S + B K) for B panes that are new, with S distinct scores and K cells.
    """
    key = ("coarse cells", unit)
    known: dict[int, PaneCells] = {}
    new: list[State] = []
    for pane in panes:
        cells: PaneCells | None = pane.known(key)
        if cells is None:
            new.append(pane)
        else:
            known[id(pane)] = cells
    for pane, counted in _counted(new, unit):
        known[id(pane)] = pane.keep(key, counted)
    return [known[id(pane)] for pane in panes]


def _counted(panes: Sequence[State], unit: int) -> Iterator[tuple[State, PaneCells]]:
    """Yield panes with their cells."""
    by_form: dict[tuple[int, str], list[tuple[State, StoredCounts]]] = {}
    opened = []
    for pane in panes:
        # Read once: another thread may pack the pane meanwhile.
        packed = cells_of(pane) if unit == 1 else None
        if packed is None:
            opened.append(pane)
        else:
            by_form.setdefault((packed.bits, packed.scale), []).append((pane, packed))
    for closed in by_form.values():
        counted = _counted_packed(closed)
        if counted is None:
            opened += [pane for pane, _ in closed]
        else:
            yield from counted
    for chunk in _chunks(opened):
        yield from _counted_open(chunk, unit)


def _chunks(panes: Sequence[State]) -> Iterator[list[State]]:
    """Cut panes into runs of about `_MAX_COUNTED_SCORES`."""
    chunk: list[State] = []
    scores = 0
    for pane in panes:
        if chunk and scores + pane.num_scores > _MAX_COUNTED_SCORES:
            yield chunk
            chunk, scores = [], 0
        chunk.append(pane)
        scores += pane.num_scores
    if chunk:
        yield chunk


def _counted_open(panes: Sequence[State], unit: int) -> Iterator[tuple[State, PaneCells]]:
    """Yield panes with their cells, all counted in one pass. O(S + B K)."""
    columns = [_columns(pane, label, unit) for pane in panes for label in (False, True)]
    numbers = [
        _numbers(np.concatenate((negatives[0], positives[0])), pane)
        for pane, negatives, positives in zip(panes, columns[::2], columns[1::2], strict=True)
    ]
    distinct, ranks = rank_numbers(np.concatenate(numbers))
    # One row of the table for each pane and class, negatives first.
    row = np.repeat(np.arange(len(columns)), [each[0].size for each in columns])
    place = row * distinct.size + ranks
    shape = (len(panes), 2, distinct.size)

    def table(column: int) -> FloatArray:
        values = np.concatenate([each[column] for each in columns])
        sums = np.bincount(place, values, minlength=math.prod(shape)).reshape(shape)
        return sums.astype(np.float64, copy=False)

    counts = table(1)
    return zip(panes, _used_cells(distinct, counts, None if unit == 1 else table(2)), strict=True)


def _columns(pane: State, label: bool, unit: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a class's scores in a pane, -inf of misses, with their counts and squares."""
    run = pane.run(label) if unit == 1 else pane.run(label).weighed()
    scores, counts = run.scores, run.multiplicities().astype(np.float64)
    squares = counts if unit == 1 else run.squares()
    missed = (pane.missed_positives if label else pane.missed_negatives) // pane.unit
    if missed:
        scores = np.append(scores, -np.inf)
        counts = np.append(counts, missed * unit)
        squares = np.append(squares, float(missed) * unit**2)
    return scores, counts, squares


def _numbers(scores: FloatArray, pane: State) -> IntArray:
    """Return the number of the coarse cell of each of a pane's scores, -inf of misses. O(n)."""
    missed = scores == -np.inf if pane.missed_positives or pane.missed_negatives else None
    if missed is not None:
        scores = np.where(missed, 0.0, scores)
    bits, scale = pane.resolution, pane.scale
    if bits is None or bits < COARSE_BITS:
        numbers = cell_numbers(scores, COARSE_BITS)
    else:
        numbers = cell_keys(scores, scale) >> np.int64(MAX_BITS - bits)
        numbers = coarse_numbers(numbers, bits, scale, COARSE_BITS)
    if missed is not None:
        numbers[missed] = MISSED_NUMBER
    return numbers


def _counted_packed(
    panes: Sequence[tuple[State, StoredCounts]],
) -> Iterator[tuple[State, PaneCells]] | None:
    """Return packed panes of one resolution with their cells; None if a table would be sparse.

    O(S + W + B K) for a table of the W numbers of their span.
    """
    runs = [packed.run(label) for _, packed in panes for label in (False, True)]
    filled = [run for run in runs if run.size]
    if not filled:
        return None
    layout = NumberLayout(span_of(filled))
    if layout.is_sparse(sum(run.size for run in filled)):
        return None
    packed = panes[0][1]
    numbers = layout.numbers(np.arange(layout.width))
    coarse = coarse_numbers(numbers, packed.bits, packed.scale, COARSE_BITS)
    # Numbers ascend, so a coarse cell's numbers are adjacent.
    starts = np.append(0, np.flatnonzero(coarse[1:] != coarse[:-1]) + 1)
    # The first column is of misses.
    table = np.zeros((len(runs), 1 + starts.size))
    columns = np.repeat(np.arange(1, 1 + starts.size), np.diff(starts, append=coarse.size))
    for batch in batches(runs):
        some = [runs[index] for index in batch]
        cells, counts = columns[numbers_of(some, layout)], counts_of(some)
        first, last = batch[0], batch[-1] + 1
        rows = table[first:last]
        if len(some) > 1:
            row = np.array(batch) - first
            cells += np.repeat(row * rows.shape[1], [run.size for run in some])
        rows += np.bincount(cells, counts, minlength=rows.size).reshape(rows.shape)
    for index, (pane, _) in enumerate(panes):
        table[2 * index : 2 * index + 2, 0] = pane.missed_negatives, pane.missed_positives
    numbers = np.append(MISSED_NUMBER, coarse[starts])
    counted = _used_cells(numbers, table.reshape(len(panes), 2, -1), None)
    return zip((pane for pane, _ in panes), counted, strict=True)


def _used_cells(
    numbers: IntArray, counts: FloatArray, squares: FloatArray | None
) -> Iterator[PaneCells]:
    """Yield the cells that have cases in each pane, of columns for all panes. O(B K).

    Parameters
    ----------
    numbers : int64[K]
    counts : float64[B, 2, K]
    squares : float64[B, 2, K] or None
        None if all cases weigh 1: then they are the counts.
    """
    # Counts are not negative, so their sum is 0 where both are.
    is_used = counts[:, 0] + counts[:, 1] > 0
    for pane, used in enumerate(is_used):
        columns = np.flatnonzero(used)
        of_cases = counts[pane].take(columns, axis=1)
        of_squares = of_cases if squares is None else squares[pane].take(columns, axis=1)
        yield PaneCells(numbers[columns], of_cases, of_squares)
