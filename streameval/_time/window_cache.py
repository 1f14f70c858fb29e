"""A cache of windows, and of the partial sums that the next window can reuse.

A window that is queried again and again usually changes in one pane, the newest. So
the sum of the unchanged panes is cached too, and the next window is that partial sum
plus the changed panes. The result is bit-identical to the sum of all panes: cells are
nested, so dropping bits to meet a cap gives the same cells before or after summing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from streameval._counts.cluster_counts import CLUSTER_ROW_BYTES
from streameval._counts.merge import merge_states
from streameval._time.parts_cache import PartsCache
from streameval._time.window import Window

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from streameval._counts.state import State

K = TypeVar("K", bound="Hashable")


_CELL_BYTES = 16
"""Memory of a distinct score of one class, with its multiplicity."""

_MIN_MERGED_CELLS = 1 << 16
"""Distinct scores that are merged at a time in the smallest cache; in others, as many as the
cache holds: a merge takes some 64 B for each. Summing a few states at a time takes 1.6 times as
long, because each sum has fewer bits than the states after it."""


class WindowCache(PartsCache[K, Window]):
    """Windows by key; for a window that keeps changing also the sum of its unchanged panes.

    Parameters
    ----------
    max_bytes : int
        The most that all windows may take, and the most that all partial sums may.
    knows_panes : bool
        Whether windows know their panes, and so a lower limit of the design effect.

    Attributes
    ----------
    partial_sums : PartsCache
        The sums of unchanged panes.
    """

    def __init__(self, max_bytes: int, *, knows_panes: bool = False) -> None:
        super().__init__(max_bytes, lambda window: _CELL_BYTES * _num_cells(window._view()))
        self._merged_cells = max(max_bytes // _CELL_BYTES, _MIN_MERGED_CELLS)
        self._knows_panes = knows_panes
        self.partial_sums: PartsCache[K, _PartialSum] = PartsCache(
            max_bytes, lambda partial: _CELL_BYTES * partial.max_cells
        )

    def sum(self, key: K, states: Sequence[State], start_us: int, end_us: int) -> Window:
        """Return the sum of states as a window; the same object until a state changes.

        O(S log S) for S distinct scores in all states. When the same states changed in
        the last two calls, S counts only the changed states and the window.
        """
        return self.get(key, states, lambda: self._window(key, states, start_us, end_us))

    def _window(self, key: K, states: Sequence[State], start_us: int, end_us: int) -> Window:
        panes = states if self._knows_panes else ()
        return Window(self._sum(key, states), start_us, end_us, panes)

    def _sum(self, key: K, states: Sequence[State]) -> State:
        same = self.unchanged_parts(key, states)
        if len(same) > 1:
            partial = self.partial_sums.get(key, same, lambda: _PartialSum(same))
            partial.num_uses += 1
            # Not summed on its first use: if other panes change each time, it has no second.
            if partial.num_uses > 1:
                known = set(map(id, same))
                changed = [state for state in states if id(state) not in known]
                return _merged(
                    [partial.sum(same, self._merged_cells), *changed], self._merged_cells
                )
        return _merged(states, self._merged_cells)


def _merged(states: Sequence[State], max_cells: int) -> State:
    """Return the sum of states, of about `max_cells` at a time if all are capped. O(S log S).

    Cells are nested, so summing a few states at a time gives the same cells.
    """
    total: list[State] = []
    chunk: list[State] = []
    cells = 0
    for state in states:
        if chunk and state.max_cells is not None and cells > max_cells:
            total = [merge_states([*total, *chunk], revision=0)]
            chunk, cells = [], total[0].num_scores
        chunk.append(state)
        cells += state.num_scores
    return merge_states([*total, *chunk], revision=0)


def _num_cells(state: State) -> int:
    """Return how many distinct scores take as much as a state, counted by class. O(1)."""
    return state.num_scores + _cluster_cells(state)


def _cluster_cells(state: State) -> int:
    return state.clusters.counts.size * CLUSTER_ROW_BYTES // _CELL_BYTES


class _PartialSum:
    """The sum of the unchanged states of a window, computed when first needed.

    Attributes
    ----------
    num_uses : int
        How many windows could have used it.
    max_cells : int
        Upper bound on the distinct scores of its sum, counted by class.
    """

    def __init__(self, states: Sequence[State]) -> None:
        cells = sum(state.num_scores for state in states)
        # A cap limits distinct scores; each may occur in both classes.
        caps = [2 * state.max_cells for state in states if state.max_cells is not None]
        by_cluster = sum(_cluster_cells(state) for state in states)
        self.max_cells = min([cells, *caps]) + by_cluster
        self.num_uses = 0
        self._sum: State | None = None

    def sum(self, states: Sequence[State], max_cells: int) -> State:
        """Return the sum of its states, computed once, of about `max_cells` at a time."""
        if self._sum is None:
            self._sum = _merged(states, max_cells)
            # The ranks of its positives would not be used, nor counted as memory.
            self._sum.forget()
        return self._sum
