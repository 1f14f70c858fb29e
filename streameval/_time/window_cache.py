"""Windows, each put together once while its panes stay the same.

A window that is watched changes in one pane, the newest, and in the others seldom.
So what did not change is added up once, and that rest and what changed make the next
window. It is the same to the bit as the sum of all: cells are nested, so it does
not matter whether bits that a cap leaves no room for are dropped before or after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from streameval._counts.merge import merge_states
from streameval._time.parts_cache import PartsCache
from streameval._time.window import Window

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from streameval._counts.state import State

K = TypeVar("K", bound="Hashable")


class WindowCache(PartsCache[K, Window]):
    """Windows by name, and for those that go on changing what did not change of them.

    Parameters
    ----------
    max_cells : int
        Distinct scores that all windows may hold together, and all rests.
    """

    def __init__(self, max_cells: int) -> None:
        super().__init__(max_cells, lambda window: len(window._view().counts))
        self._partial_sums: PartsCache[K, _PartialSum] = PartsCache(
            max_cells, lambda partial: partial.max_cells
        )

    def sum(self, key: K, states: Sequence[State], start_us: int, end_us: int) -> Window:
        """Return the sum of some states as a window; the same one until a state changes.

        O(S log S) for S distinct scores in all; of those that changed, and of
        the window, where the same ones changed the last two times.
        """
        return self.get(key, states, lambda: Window(self._sum(key, states), start_us, end_us))

    def _sum(self, key: K, states: Sequence[State]) -> State:
        same = self.unchanged_parts(key, states)
        if len(same) > 1:
            partial = self._partial_sums.get(key, same, lambda: _PartialSum(same))
            partial.num_uses += 1
            # Where other panes change each time, nobody asks twice for the same partial.
            if partial.num_uses > 1:
                known = set(map(id, same))
                changed = [state for state in states if id(state) not in known]
                return merge_states([partial.sum(same), *changed], revision=0)
        return merge_states(states, revision=0)


class _PartialSum:
    """What stays the same of a window.

    Attributes
    ----------
    asked : int
        How often it would have been of use.
    most_cells : int
        Scores of each class that its sum may have.
    """

    def __init__(self, states: Sequence[State]) -> None:
        cells = sum(len(state.counts) for state in states)
        # A cap is on distinct scores, which both classes may have.
        caps = [2 * state.max_cells for state in states if state.max_cells is not None]
        self.max_cells = min([cells, *caps])
        self.num_uses = 0
        self._sum: State | None = None

    def sum(self, states: Sequence[State]) -> State:
        """Return the sum of its states, which was computed once."""
        if self._sum is None:
            self._sum = merge_states(states, revision=0)
        return self._sum
