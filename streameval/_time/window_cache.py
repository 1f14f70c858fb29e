"""A cache of windows, and of the partial sums that the next window can reuse.

A window that is queried again and again usually changes in one pane, the newest. So
the sum of the unchanged panes is cached too, and the next window is that partial sum
plus the changed panes. The result is bit-identical to the sum of all panes: cells are
nested, so dropping bits to meet a cap gives the same cells before or after summing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from streameval._counts.cluster_counts import ClusterCounts
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
        super().__init__(max_bytes, lambda window: _bytes_of(window._view()))
        self._merged_cells = max(max_bytes // _CELL_BYTES, _MIN_MERGED_CELLS)
        self._knows_panes = knows_panes
        self.partial_sums: PartsCache[K, State] = PartsCache(max_bytes, _bytes_of)

    def sum(
        self,
        key: K,
        states: Sequence[State],
        start_us: int,
        end_us: int,
        starts_us: Sequence[int] = (),
    ) -> Window:
        """Return the sum of states as a window; the same object until a state changes.

        A window that knows its panes also knows their starts, where these are given.

        O(S log S) for S distinct scores in all states. When the same states changed as before
        the last call, S counts only the changed states and the window.
        """
        panes = states if self._knows_panes else ()
        return self.get(
            key, states, lambda: Window(self._sum(key, states), start_us, end_us, panes, starts_us)
        )

    def _sum(self, key: K, states: Sequence[State]) -> State:
        same = self.unchanged_parts(key, states)
        if len(same) < 2:
            return _merged(states, self._merged_cells)
        partial = self.partial_sums.get(key, same, lambda: _merged(same, self._merged_cells))
        # The ranks of its positives would not be used, nor counted as memory.
        partial.forget()
        known = set(map(id, same))
        changed = [state for state in states if id(state) not in known]
        return _merged([partial, *changed], self._merged_cells)


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


def _bytes_of(state: State) -> int:
    """Return the memory of a state's distinct scores, counted by class. O(1)."""
    return _CELL_BYTES * state.num_scores + ClusterCounts.ROW_BYTES * state.clusters.counts.size
