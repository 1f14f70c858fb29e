"""What was added to a state, counted in a table of its cells: a case is one addition, no merge.

The table covers the cells of the state and of what came, and grows with them; where it would
be out of proportion it is refused. To have the state again is a pass over the table, when
somebody asks.

Cost: 4 to 8 ns a case. Memory: 8 B a place; where few cells lie far apart there may be 2^17
of these, else about two for each cell.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts import Layout, ScoreCounts, Span, cell_keys, run_from_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._counts import Run, Scale, State
    from streameval_server._state.pending_cases import UnsortedCases

_MAX_CASES = 1 << 30
"""So many cases may be in it: their counts fit int32, of which twice as many are in the cache."""


class CellTable:
    """Cases by class and cell, at a resolution.

    Parameters
    ----------
    state : State
        To which they are added; it has a resolution.
    """

    __slots__ = ("_layout", "_num_cases", "_num_cells", "_span", "_sums")

    def __init__(self, state: State) -> None:
        assert state.resolution is not None
        runs = (state.counts.negatives, state.counts.positives)
        spans = [_span(run, state.scale) for run in runs if len(run)]
        self._span = reduce(Span.union, spans, Span(None, None))
        self._num_cells = len(state.counts)
        self._layout = Layout(state.resolution, state.scale, Span(None, None))
        self._sums: npt.NDArray[np.int32] = np.zeros((2, 0), dtype=np.int32)
        self._num_cases = 0

    @property
    def nbytes(self) -> int:
        """Memory of the table."""
        return self._sums.nbytes

    def copy(self) -> CellTable:
        """Return the same, to be changed apart. O(width)."""
        return deepcopy(self)

    def layout_for(self, cases: UnsortedCases) -> Layout | None:
        """Return what the table must cover to add cases; None where it is not the thing. O(n)."""
        bits, scale = self._layout.bits, self._layout.scale
        if bits < 1 or cases.counts is not None or self._num_cases + len(cases) > _MAX_CASES:
            return None
        layout = Layout.of(self._span.union(cases.keys(scale)[1]), bits, scale)
        if layout != self._layout and layout.is_sparse(self._num_cells + len(cases)):
            return None
        return layout

    def add(self, cases: UnsortedCases, layout: Layout) -> None:
        """Add cases to the table, which is to be as `layout_for` said. O(cases)."""
        keys, span = cases.keys(layout.scale)
        if layout != self._layout:
            self._widen(layout)
        self._span = self._span.union(span)
        self._num_cases += len(cases)
        places = layout.places(keys)
        places += np.multiply(cases.labels, layout.width, dtype=np.int64)
        np.add.at(self._sums.reshape(-1), places, np.int32(1))

    def _widen(self, layout: Layout) -> None:
        sums = np.zeros((2, layout.width), dtype=np.int32)
        sums[:, layout.places_of(self._layout)] = self._sums
        self._layout, self._sums = layout, sums

    def add_to(self, state: State) -> State:
        """Return the state with the cases added. O(width).

        Parameters
        ----------
        state : State
            The one that it was made for, whatever was missed since.
        """
        empty = replace(state, counts=ScoreCounts(), _answers={})
        runs = (state.counts.negatives, state.counts.positives)
        negatives, positives = map(self._sum, self._sums, runs)
        return empty.changed(ScoreCounts(positives, negatives), revision=0)

    def _sum(self, sums: npt.NDArray[np.int32], run: Run) -> Run:
        """Return a class's cases with a run of cells added."""
        counts = sums.astype(np.int64)
        # A run's scores are distinct, so no place occurs twice.
        places = self._layout.places(cell_keys(run.scores, self._layout.scale))
        counts[places] += run.multiplicities()
        return run_from_table(self._layout, counts)


def _span(run: Run, scale: Scale) -> Span:
    """Return the span of a run's keys: that of its ends, and of what is beside 0. O(log n)."""
    scores = run.scores
    zero = int(np.searchsorted(scores, 0.0))
    ends = [0, max(zero - 1, 0), min(zero, scores.size - 1), scores.size - 1]
    return Span.of(cell_keys(scores[ends], scale))
