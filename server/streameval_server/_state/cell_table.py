"""Additions to a state, counted in a dense table of cells: one addition per case, no merge.

The table covers the cells of the state and of the added cases, and grows with them. It is
refused where it would be too sparse. A reader of the counts adds the state to the table in one
pass over it.

Cost: 4 to 8 ns a case. Memory: 8 B per entry; few cells that lie far apart may take 2^17
entries, otherwise there are about two per cell.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts import Layout, ScoreCounts, Span, blocks, cell_keys, run_from_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._counts import Run, Scale, State
    from streameval_server._state.pending_cases import UnsortedCases

_MAX_CASES = 1 << 30
"""Maximum number of cases in a table: int32 counts, which take half the cache of int64 ones."""


class CellTable:
    """Counts of cases by class and cell, at a resolution.

    Parameters
    ----------
    state : State
        The state to which the cases are added; it has a resolution.
    """

    __slots__ = ("_layout", "_num_cases", "_num_cells", "_span", "_sums")

    def __init__(self, state: State) -> None:
        assert state.resolution is not None
        runs = (state.counts.negatives, state.counts.positives)
        spans = [_span(run, state.scale) for run in runs if len(run)]
        self._span = reduce(Span.union, spans, Span(None, None))
        self._num_cells = len(state.counts)
        self._layout = Layout(Span(None, None), state.resolution, state.scale)
        self._sums: npt.NDArray[np.int32] = np.zeros((2, 0), dtype=np.int32)
        self._num_cases = 0

    @property
    def nbytes(self) -> int:
        """Memory of the table."""
        return self._sums.nbytes

    def copy(self) -> CellTable:
        """Return an independent copy. O(width)."""
        return deepcopy(self)

    def layout_for(self, parts: Sequence[UnsortedCases]) -> Layout | None:
        """Return the layout that the table needs for these cases; None to refuse them. O(n)."""
        bits, scale = self._layout.bits, self._layout.scale
        size = sum(map(len, parts))
        is_countable = all(cases.counts is None for cases in parts)
        if bits < 1 or not is_countable or self._num_cases + size > _MAX_CASES:
            return None
        span = reduce(Span.union, (cases.keys(scale)[1] for cases in parts), self._span)
        layout = Layout.of(span, bits, scale)
        if layout != self._layout and layout.is_sparse(self._num_cells + size):
            return None
        return layout

    def add(self, parts: Sequence[UnsortedCases], layout: Layout) -> None:
        """Add cases, after widening the table to the layout from `layout_for`. O(cases)."""
        if layout != self._layout:
            self._widen(layout)
        sums, width = self._sums.reshape(-1), layout.width
        for cases in parts:
            keys, span = cases.keys(layout.scale)
            self._span = self._span.union(span)
            self._num_cases += len(cases)
            for rows in blocks(len(cases)):
                places = layout.places(keys[rows])
                places += np.multiply(cases.labels[rows], width, dtype=np.int64)
                np.add.at(sums, places, np.int32(1))

    def _widen(self, layout: Layout) -> None:
        sums = np.zeros((2, layout.width), dtype=np.int32)
        for rows, own in layout.slices_of(self._layout):
            sums[:, rows] = self._sums[:, own]
        self._layout, self._sums = layout, sums

    def add_to(self, state: State) -> State:
        """Return the state with the table's cases added. O(width).

        Parameters
        ----------
        state : State
            The one that the table was made for; it may have got misses since.
        """
        empty = replace(state, counts=ScoreCounts())
        runs = (state.counts.negatives, state.counts.positives)
        negatives, positives = map(self._sum, self._sums, runs)
        return empty.changed(ScoreCounts(positives, negatives), revision=0)

    def _sum(self, sums: npt.NDArray[np.int32], run: Run) -> Run:
        """Return the sum of a class's cases and a run."""
        counts = sums.astype(np.int64)
        # A run's scores are distinct, so each place occurs once.
        places = self._layout.places(cell_keys(run.scores, self._layout.scale))
        counts[places] += run.multiplicities()
        return run_from_table(self._layout, counts)


def _span(run: Run, scale: Scale) -> Span:
    """Return the span of a run's keys, from its ends and the scores next to 0. O(log n)."""
    scores = run.scores
    zero = int(np.searchsorted(scores, 0.0))
    ends = [0, max(zero - 1, 0), min(zero, scores.size - 1), scores.size - 1]
    return Span.of(cell_keys(scores[ends], scale))
