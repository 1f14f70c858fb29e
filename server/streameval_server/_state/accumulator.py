"""The counts of one slice, or one pane of it: changes wait until they are worth a merge.

Where cells are counted, much that was added is counted in a table (`tally`) until somebody
asks. Exact counts have none, nor have states for which it would be out of proportion: there
changes are due to be merged when they have grown to a multiple of the state, so a row costs
O(log n) amortised however the rows are cut. To merge is to ask for what is frozen, which
needs no lock: whoever adds sees to it (`StreamCounts.take_due`), and what somebody has asked
for is never merged again. What waits is bounded by the state.

Additions may be merged in any order and at any time: the resolution that a cap
on cells leaves depends on the cells that there are, and on nothing else. A
removal is merged at once, after everything before it, so that the outcome is
the same for every cut of the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streameval import Evaluator
from streameval._counts import ScoreCounts, merge_states
from streameval_server._state.cell_table import CellTable
from streameval_server._state.pending_cases import UnsortedCases, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streameval._counts import State
    from streameval_server._state.pending_cases import Added

_LEAST = 4_096
"""So many scores may wait, however small the state."""

_SHARE = 2
"""So many times the state's distinct scores may wait."""

_FEW = 4
"""Additions this many times fewer than the state's distinct scores are not worth a table."""

_ENTRY_BYTES = 24
"""Memory of a distinct score: 16 B, and a part of what its merge needs."""

OVERHEAD_BYTES = 2_048
"""Memory of a state besides its scores."""


class LazyCounts:
    """Counts at one moment, merged when somebody first asks. Immutable.

    Parameters
    ----------
    merge : callable
        Returns the counts; it is let go, with what it needs, once it has.
    """

    __slots__ = ("__weakref__", "_evaluator", "_merge")

    def __init__(self, merge: Callable[[], State]) -> None:
        self._merge: Callable[[], State] | None = merge
        self._evaluator: Evaluator | None = None

    @property
    def evaluator(self) -> Evaluator:
        """The counts as an evaluator, always the same one. Never mutate it."""
        # Two threads may both merge; both get evaluators of equal counts.
        if self._evaluator is None and (merge := self._merge) is not None:
            self._evaluator = Evaluator._of(merge())
            self._merge = None
        assert self._evaluator is not None
        return self._evaluator

    def merge(self) -> None:
        """Merge them, if nobody did."""
        _ = self.evaluator

    @property
    def is_merged(self) -> bool:
        """Whether somebody has."""
        return self._evaluator is not None

    @classmethod
    def sum(cls, parts: Sequence[LazyCounts]) -> LazyCounts:
        """Return the sum of counts at one moment."""
        return cls(lambda: merge_states([part.evaluator._view() for part in parts], revision=0))


class Accumulator:
    """Counts that change.

    Parameters
    ----------
    state : State
        What they are now.
    """

    __slots__ = ("_frozen", "_is_shared", "_pending", "_refused", "_state", "_tally", "_waiting")

    def __init__(self, state: State) -> None:
        self._state = state
        self._tally: CellTable | None = None
        # Whether somebody may still read the table, who froze it.
        self._is_shared = False
        self._pending: list[Added] = []
        self._waiting = 0
        # So much may wait before it is tried again to count it in a table.
        self._refused = 0
        self._frozen: LazyCounts | None = None

    @property
    def size(self) -> int:
        """Scores that it holds: distinct ones, and those that wait. O(1)."""
        return len(self._state.counts) + self._waiting

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, at most about."""
        table = 0 if self._tally is None else self._tally.nbytes
        return OVERHEAD_BYTES + _ENTRY_BYTES * self.size + table

    def add(self, change: Added, *, may_have_table: bool = True) -> int:
        """Add cases; return by how much memory grew. Amortised O(cases)."""
        before = self.memory_bytes
        self._absorb()
        self._pending.append(change)
        self._waiting += len(change)
        if (
            may_have_table
            and self._state.resolution is not None
            and self._waiting > max(_LEAST, len(self._state.counts) // _FEW, self._refused)
        ):
            self._count()
        return self.memory_bytes - before

    def _count(self) -> None:
        """Count what waits in the table, if one is the thing for it."""
        cases = [each for each in self._pending if isinstance(each, UnsortedCases)]
        tally = self._tally or CellTable(self._state)
        together = UnsortedCases.concat(cases) if len(cases) == len(self._pending) else None
        layout = None if together is None else tally.layout_for(together)
        if together is None or layout is None:
            # Not again at once: to find out takes as long as what waits is long.
            self._refused = 2 * self._waiting
            return
        if self._is_shared:
            tally = tally.copy()
        tally.add(together, layout)
        self._tally = tally
        self._is_shared = False
        self._let_go()

    def _let_go(self) -> None:
        """Forget what waited: it has been counted."""
        self._pending = []
        self._waiting = self._refused = 0

    @property
    def has_table(self) -> bool:
        """Whether there is a table. O(1)."""
        return self._tally is not None

    def release(self) -> int:
        """Do without a table until much is added again; return how memory grew. O(cells)."""
        before = self.memory_bytes
        if self._tally is not None:
            self.state()
        return self.memory_bytes - before

    def _absorb(self) -> None:
        """Before a change, keep what somebody has merged: the next needs only what came since."""
        frozen, self._frozen = self._frozen, None
        if frozen is not None and frozen.is_merged:
            self._state = frozen.evaluator._view()
            self._tally = None
            self._is_shared = False
            self._let_go()

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
        if self._pending or self._tally is not None:
            frozen = self.frozen()
            frozen.merge()
            self._absorb()
            self._frozen = frozen
        return self._state

    def frozen(self) -> LazyCounts:
        """Return the counts as they are now; the same object until they change. O(changes)."""
        if self._frozen is None:
            state, tally, pending = self._state, self._tally, tuple(self._pending)
            self._is_shared = tally is not None
            self._frozen = LazyCounts(
                lambda: merged(state if tally is None else tally.added_to(state), pending)
            )
        return self._frozen
