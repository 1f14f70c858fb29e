"""What was added to a state, counted in a table of its cells: a case is one addition, no merge.

The table covers the cells of the state and of what came, and grows with them; where it would
be out of proportion it is refused. To have the state again is a pass over the table, when
somebody asks.

Cost: 4 to 8 ns a case. Memory: 8 B a place, of which there are about two for each cell.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.layout import Layout, Span, cell_keys
from streameval._counts.multiset import ScoreCounts
from streameval._counts.scatter import run_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._counts.resolution import Scale
    from streameval._counts.run import Run
    from streameval._counts.state import State
    from streameval_server._state.pending import Loose

_MOST_CASES = 1 << 30
"""So many cases may be in it: their counts fit int32, of which twice as many are in the cache."""


class Tally:
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

    def copy(self) -> Tally:
        """Return the same, to be changed apart. O(width)."""
        return deepcopy(self)

    def add(self, cases: Sequence[Loose]) -> bool:
        """Add cases; or say no, and change nothing, where a table is not the thing. O(cases)."""
        bits, scale = self._layout.bits, self._layout.scale
        num_cases = sum(map(len, cases))
        if bits < 1 or self._num_cases + num_cases > _MOST_CASES:
            return False
        if any(each.counts is not None for each in cases):
            return False
        span = reduce(Span.union, (each.keys(scale)[1] for each in cases), self._span)
        layout = Layout.of(span, bits, scale)
        if layout != self._layout:
            if layout.is_sparse(self._num_cells + num_cases):
                return False
            self._widen(layout)
        self._span = span
        self._num_cases += num_cases
        sums = self._sums.reshape(-1)
        for each in cases:
            places = layout.places(each.keys(scale)[0])
            places += np.multiply(each.labels, layout.width, dtype=np.int64)
            np.add.at(sums, places, np.int32(1))
        return True

    def _widen(self, layout: Layout) -> None:
        sums = np.zeros((2, layout.width), dtype=np.int32)
        sums[:, layout.places_of(self._layout)] = self._sums
        self._layout, self._sums = layout, sums

    def added_to(self, state: State) -> State:
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
        return run_of(self._layout, counts)


def _span(run: Run, scale: Scale) -> Span:
    """Return the span of a run's keys: that of its ends, and of what is beside 0. O(log n)."""
    scores = run.scores
    zero = int(np.searchsorted(scores, 0.0))
    ends = [0, max(zero - 1, 0), min(zero, scores.size - 1), scores.size - 1]
    return Span.of(cell_keys(scores[ends], scale))
