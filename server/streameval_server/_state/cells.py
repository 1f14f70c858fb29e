"""The counts of one slice, or one pane of it: changes wait until they are worth a merge.

Changes are due to be merged when they have grown to a multiple of the state, so a row
costs O(log n) amortised however the rows are cut. To merge is to ask for what is frozen,
which needs no lock: whoever adds sees to it (`StreamCounts.take_due`), and what somebody
has asked for is never merged again. What waits is bounded by the state.

Additions may be merged in any order and at any time: the resolution that a cap
on cells leaves depends on the cells that there are, and on nothing else. A
removal is merged at once, after everything before it, so that the outcome is
the same for every cut of the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streameval._counts.multiset import ScoreCounts
from streameval._counts.sums import merge_states
from streameval._evaluator import Evaluator
from streameval_server._state.pending import merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.state import State
    from streameval_server._state.pending import Added

_LEAST = 4_096
"""So many scores may wait, however small the state."""

_SHARE = 2
"""So many times the state's distinct scores may wait."""

_ENTRY_BYTES = 24
"""Memory of a distinct score: 16 B, and a part of what its merge needs."""

OVERHEAD_BYTES = 2_048
"""Memory of a state besides its scores."""


class Frozen:
    """Counts at one moment, merged when somebody first asks. Immutable."""

    __slots__ = ("__weakref__", "_evaluator", "_pending", "_state")

    def __init__(self, state: State, pending: tuple[Added, ...] = ()) -> None:
        self._state = state
        self._pending = pending
        self._evaluator: Evaluator | None = None

    @property
    def evaluator(self) -> Evaluator:
        """The counts as an evaluator, always the same one. Never mutate it."""
        # Two threads may both merge; both get evaluators of equal counts.
        if self._evaluator is None:
            self._evaluator = Evaluator._of(self._merged())
        return self._evaluator

    def _merged(self) -> State:
        return merged(self._state, self._pending)

    def merge(self) -> None:
        """Merge them, if nobody did."""
        _ = self.evaluator

    @property
    def is_merged(self) -> bool:
        """Whether somebody has."""
        return self._evaluator is not None


class FrozenSum(Frozen):
    """The sum of counts at one moment, put together when somebody first asks. Immutable."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Frozen], empty: State) -> None:
        super().__init__(empty)
        self._parts = parts

    def _merged(self) -> State:
        return merge_states([part.evaluator._view() for part in self._parts], revision=0)


class Cells:
    """Counts that change.

    Parameters
    ----------
    state : State
        What they are now.
    """

    __slots__ = ("_frozen", "_pending", "_state", "_waiting")

    def __init__(self, state: State) -> None:
        self._state = state
        self._pending: list[Added] = []
        self._waiting = 0
        self._frozen: Frozen | None = None

    @property
    def size(self) -> int:
        """Scores that it holds: distinct ones, and those that wait. O(1)."""
        return len(self._state.counts) + self._waiting

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, at most about."""
        return OVERHEAD_BYTES + _ENTRY_BYTES * self.size

    def add(self, change: Added) -> int:
        """Add cases; return by how much memory grew. O(1)."""
        before = self.memory_bytes
        self._absorb()
        self._pending.append(change)
        self._waiting += len(change)
        return self.memory_bytes - before

    def _absorb(self) -> None:
        """Before a change, keep what somebody has merged: the next needs only what came since."""
        frozen, self._frozen = self._frozen, None
        if frozen is not None and frozen.is_merged:
            self._state = frozen.evaluator._view()
            self._pending = []
            self._waiting = 0

    @property
    def is_due(self) -> bool:
        """Whether so much waits that somebody should merge it. O(1)."""
        return self._waiting > max(_LEAST, _SHARE * len(self._state.counts))

    def miss(self, positives: int, negatives: int) -> int:
        """Add references that were never scored; return by how much memory grew. O(1)."""
        before = self.memory_bytes
        self._absorb()
        state = self._state
        self._state = replace(
            state,
            missed_positives=state.missed_positives + positives,
            missed_negatives=state.missed_negatives + negatives,
            _answers={},
        )
        return self.memory_bytes - before

    def remove(self, change: ScoreCounts) -> int:
        """Take cases away that were added before; return by how much memory grew. O(n)."""
        before = self.memory_bytes
        state = self.state()
        self._frozen = None
        taken = ScoreCounts(
            state.quantised(change.positives).negated(), state.quantised(change.negatives).negated()
        )
        self._state = state.changed(taken, revision=0)
        return self.memory_bytes - before

    def merge(self, states: Sequence[State]) -> int:
        """Add what others counted, at the lowest resolution of all; return the growth. O(n)."""
        before = self.memory_bytes
        mine = self.state()
        self._frozen = None
        others = [replace(state, max_cells=mine.max_cells, _answers={}) for state in states]
        self._state = merge_states([mine, *others], revision=0)
        return self.memory_bytes - before

    def state(self) -> State:
        """Return the counts, all changes merged. O(n) when some wait."""
        if self._pending:
            frozen = self.frozen()
            frozen.merge()
            self._absorb()
            self._frozen = frozen
        return self._state

    def frozen(self) -> Frozen:
        """Return the counts as they are now; the same object until they change. O(changes)."""
        if self._frozen is None:
            self._frozen = Frozen(self._state, tuple(self._pending))
        return self._frozen
