"""The counts of one slice, or one pane of it: changes wait until they are worth a merge.

Changes come as runs that are sorted already, each a fraction of the state; they
are merged when they have grown to a fraction of it, so a row costs O(log n)
amortised however the rows are cut. What waits is bounded by the state.

Additions may be merged in any order and at any time: the resolution that a cap
on cells leaves depends on the cells that there are, and on nothing else. A
removal is merged at once, after everything before it, so that the outcome is
the same for every cut of the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import EMPTY, Run
from streameval._counts.scatter import merge_cells
from streameval._counts.sums import merge_states
from streameval._evaluator import Evaluator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.state import State

_LEAST = 4_096
"""So many distinct scores may wait, however small the state."""

_SHARE = 2
"""So many times the state's distinct scores may wait."""

_FEW = 4
"""Changes this many times smaller than the state are inserted; so many runs are few."""

_ENTRY_BYTES = 24
"""Memory of a distinct score: 16 B, and a part of what its merge needs."""

OVERHEAD_BYTES = 2_048
"""Memory of a state besides its scores."""


class Frozen:
    """Counts at one moment, merged when somebody first asks. Immutable."""

    __slots__ = ("__weakref__", "_bits", "_evaluator", "_pending", "_state")

    def __init__(
        self, state: State, pending: tuple[ScoreCounts, ...] = (), bits: int | None = None
    ) -> None:
        self._state = state
        self._pending = pending
        self._bits = bits
        self._evaluator: Evaluator | None = None

    @property
    def evaluator(self) -> Evaluator:
        """The counts as an evaluator, always the same one. Never mutate it."""
        # Two threads may both merge; both get evaluators of equal counts.
        if self._evaluator is None:
            self._evaluator = Evaluator._of(self._merged())
        return self._evaluator

    def _merged(self) -> State:
        return merged(self._state, self._pending, self._bits)

    @property
    def is_merged(self) -> bool:
        """Whether somebody has asked."""
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
    bits : int or None
        The resolution at which changes come; the state's own may be lower.
    """

    __slots__ = ("_bits", "_frozen", "_pending", "_state", "_waiting")

    def __init__(self, state: State, bits: int | None) -> None:
        self._state = state
        self._bits = bits
        self._pending: list[ScoreCounts] = []
        self._waiting = 0
        self._frozen: Frozen | None = None

    @property
    def size(self) -> int:
        """Distinct scores that it holds, in every change apart. O(1)."""
        return len(self._state.counts) + self._waiting

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, at most about."""
        return OVERHEAD_BYTES + _ENTRY_BYTES * self.size

    def add(self, change: ScoreCounts) -> int:
        """Add cases; return by how much memory grew. O(1), amortised O(log n) a case."""
        size = len(change)
        self._frozen = None
        self._pending.append(change)
        self._waiting += size
        if self._waiting <= _LEAST or self._waiting <= _SHARE * len(self._state.counts):
            return _ENTRY_BYTES * size
        before = self.memory_bytes
        self.state()
        return self.memory_bytes - before + _ENTRY_BYTES * size

    def miss(self, positives: int, negatives: int) -> None:
        """Add references that were never scored."""
        state = self._state
        self._frozen = None
        self._state = replace(
            state,
            missed_positives=state.missed_positives + positives,
            missed_negatives=state.missed_negatives + negatives,
            _answers={},
        )

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
            frozen = self._frozen
            if frozen is not None and frozen.is_merged:
                self._state = frozen.evaluator._view()
            else:
                self._state = merged(self._state, self._pending, self._bits)
            self._pending = []
            self._waiting = 0
        return self._state

    def frozen(self) -> Frozen:
        """Return the counts as they are now; the same object until they change. O(changes)."""
        if self._frozen is None:
            self._frozen = Frozen(self._state, tuple(self._pending), self._bits)
        return self._frozen


def merged(state: State, pending: Sequence[ScoreCounts], bits: int | None) -> State:
    """Return a state with changes added, which came at a resolution of `bits`."""
    if not pending:
        return state
    is_rounded = bits == state.resolution
    positives = [each.positives for each in pending]
    negatives = [each.negatives for each in pending]
    if not is_rounded:
        positives = [state.quantised(run) for run in positives]
        negatives = [state.quantised(run) for run in negatives]
    if sum(map(len, pending)) * _FEW > len(state.counts):
        positives.append(state.counts.positives)
        negatives.append(state.counts.negatives)
        state = replace(state, counts=ScoreCounts(), _answers={})
    change = ScoreCounts(_joined(positives, state), _joined(negatives, state))
    return state.changed(change, revision=0)


def _joined(runs: list[Run], state: State) -> Run:
    """Return the sum of runs at a state's resolution: the quickest way there is."""
    runs = [run for run in runs if run.scores.size]
    if len(runs) <= 1:
        return runs[0] if runs else EMPTY
    if state.resolution is not None and len(runs) > _FEW:
        return merge_cells(runs, state.resolution, state.scale)
    scores = np.concatenate([run.scores for run in runs])
    if all(run.counts is None for run in runs):
        scores.sort()
        return Run.of_ordered(scores)
    counts = [np.ones(len(run), np.int64) if run.counts is None else run.counts for run in runs]
    # A stable sort makes use of ascending runs, as long as they are few.
    order = np.argsort(scores, kind="stable" if len(runs) <= _FEW else None)
    return Run.of_ordered(scores[order], np.concatenate(counts)[order])
