"""The counts of one slice, or of one pane of it: a sorted state and the changes not yet merged.

A `Tally` is a sorted `State` and a list of recent changes in any order. The list is due
for a merge when it has grown to a multiple of the state. This bounds the pending memory by the
state's size and keeps a row at O(log n) amortised, however the rows are batched.

The first thread that reads the frozen counts merges them: `frozen` takes O(changes), so an owner
with a lock freezes under it and merges outside of it. While counts are frozen they
alone hold the state and the changes, so a merge replaces the two and keeps no second copy.
Before its next change the tally takes them back, merged or not.

Additions commute: the resolution that the cap on cells leaves depends only on the set of
cells, so they may be merged in any order and at any time. A removal is merged at once, after
everything before it, so that the result does not depend on how the log is cut into calls.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._counts.additions import Addition, by_cluster, merge_pending, sorted_cases
from streameval._counts.cluster_counts import NO_CLUSTERS
from streameval._counts.lazy_counts import LazyCounts
from streameval._counts.merge import merge_states
from streameval._counts.multiset import ScoreCounts
from streameval._counts.state import State
from streameval._counts.stored_counts import pack
from streameval._counts.unsorted_cases import UnsortedCases

if TYPE_CHECKING:
    from collections.abc import Sequence


_MIN_PENDING_SCORES = 4_096
"""Pending scores that are always allowed, however small the state is."""

_MAX_PENDING_RATIO = 2
"""Pending scores allowed for each distinct score of the state."""

_MAX_PIECES = 8
"""Additions that may wait for a merge, however small: they take more than their rows."""

_PLAIN_SCORE_BYTES, _WEIGHTED_SCORE_BYTES = 8, 32
"""Memory of a distinct score, and of its sums where cases have weights."""

_KEY_BYTES = 8
"""Memory of the key that counting in a table needs of a case."""


class Tally:
    """Counts that change. It has no lock.

    Parameters
    ----------
    state : State
        The counts at the start.
    """

    __slots__ = (
        "_frozen",
        "_has_weights",
        "_pending",
        "_pending_bytes",
        "_pending_scores",
        "_sizes",
        "_state",
    )

    def __init__(self, state: State) -> None:
        # While `_frozen` is set, it holds the state and the pending changes.
        self._frozen: LazyCounts | None = None
        self._adopt(state)

    def _adopt(self, state: State) -> None:
        """Take a state that has all changes."""
        self._state = state
        # Whether the state, or a pending change, has weights.
        self._has_weights = state.counts.has_weights
        # Distinct scores of the state, and its memory; None until they are asked for.
        self._sizes: tuple[int, int] | None = None
        self._pending: list[Addition] = []
        self._pending_scores = self._pending_bytes = 0

    def _state_sizes(self) -> tuple[int, int]:
        if self._sizes is None:
            state = self._state
            self._sizes = state.num_scores, state.memory_bytes
        return self._sizes

    @property
    def size(self) -> int:
        """Distinct scores of the state, and pending ones. O(1)."""
        return self._state_sizes()[0] + self._pending_scores

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound: it changes with a change only, not when a reader merges. O(1)."""
        return self._state_sizes()[1] + self._pending_bytes

    def add(self, change: Addition) -> None:
        """Add cases, or change nothing. Amortised O(cases)."""
        self._thaw()
        scores = self._pending_scores + len(change)
        memory_bytes = self._pending_bytes + _piece_bytes(change)
        memory_bytes += self._state.clusters.row_bytes * len(change)
        is_weighted = change.has_weights or self._has_weights
        if is_weighted and not self._has_weights:
            # Merging gives each score of the state sums of weights.
            memory_bytes += _WEIGHTED_SCORE_BYTES * self._state_sizes()[0]
        self._pending.append(change)
        # From here on nothing is allocated, so nothing can fail half way.
        self._has_weights = is_weighted
        self._pending_scores = scores
        self._pending_bytes = memory_bytes

    @property
    def num_pieces(self) -> int:
        """How many additions wait. O(1)."""
        return len(self._pending)

    def join(self) -> None:
        """Join the additions that are not sorted, each of which takes memory of its own. O(n)."""
        self._thaw()
        loose = [each for each in self._pending if isinstance(each, UnsortedCases)]
        if loose:
            others = [each for each in self._pending if not isinstance(each, UnsortedCases)]
            self._pending = [*others, UnsortedCases.concat(loose)]

    def take_back(self) -> None:
        """Take back the last addition, which no reader has seen; allocates nothing. O(1)."""
        self._pending[-1] = _NO_CASES  # `pop` may allocate

    def merged(self, *more: Addition) -> State:
        """Return the counts with all changes, and signed ones more, merged; changes nothing."""
        self._thaw()
        return merge_pending(self._state, [*self._pending, *more])

    def _thaw(self) -> None:
        """Before a change, take back what frozen counts hold, merged if a reader has merged it."""
        frozen = self._frozen
        if frozen is None:
            return
        source: _Source | None = frozen.source
        if source is None:
            self._adopt(frozen.state)
        else:
            self._state, self._pending = source.state, list(source.pending)
        # Last: whatever fails before leaves everything with the frozen counts.
        self._frozen = None

    @property
    def is_due(self) -> bool:
        """Whether enough is pending that it should be merged. O(1)."""
        scores, memory_bytes = self._state_sizes()
        if self._pending_scores > max(_MIN_PENDING_SCORES, _MAX_PENDING_RATIO * scores):
            return True
        pieces = len(self._pending)
        return pieces > _MAX_PIECES and pieces * UnsortedCases.PIECE_BYTES > memory_bytes

    def miss(self, positives: int, negatives: int) -> None:
        """Add references that were never scored. O(1)."""
        self._thaw()
        state = self._state
        self._state = replace(
            state,
            missed_positives=state.missed_positives + positives * state.unit,
            missed_negatives=state.missed_negatives + negatives * state.unit,
        )

    def remove(self, change: ScoreCounts | UnsortedCases) -> None:
        """Remove cases that were added before. O(n)."""
        state = self.state()
        self._frozen = None
        less = sorted_cases(change)
        removed = ScoreCounts(
            state.quantised(less.positives).negated(), state.quantised(less.negatives).negated()
        )
        clusters = by_cluster([change], state.clusters.num_groups).negated()
        self._adopt(state.changed(removed, revision=0, clusters=[clusters]))

    def exchange(self, added: UnsortedCases, removed: ScoreCounts | UnsortedCases) -> None:
        """Add cases, then remove others that were there. O(n)."""
        state = self.state()
        is_full = state.max_cells is not None and len(state.counts) + len(added) > state.max_cells
        if is_full or self._has_weights or added.has_weights or removed.has_weights:
            self.add(added)
            self.remove(removed)
            return
        self._frozen = None
        more, less = added.sorted(), sorted_cases(removed)
        change = ScoreCounts(
            state.quantised(more.positives).merged(state.quantised(less.positives).negated()),
            state.quantised(more.negatives).merged(state.quantised(less.negatives).negated()),
        )
        groups = state.clusters.num_groups
        clusters = [by_cluster([added], groups), by_cluster([removed], groups).negated()]
        self._adopt(state.changed(change, revision=0, clusters=clusters))

    def add_state(self, state: State) -> None:
        """Add another state, as `merge`. Amortised O(n).

        One that cannot lower the resolution waits with the other additions: several are
        merged at once.
        """
        self._thaw()
        is_plain = self._state.is_plain and not self._has_weights and not state.counts.has_weights
        if is_plain and _is_as_fine(state.resolution, self._state.resolution):
            if state.missed_positives or state.missed_negatives:
                self.miss(state.missed_positives, state.missed_negatives)
            if len(state.counts):
                self.add(state.counts)
        else:
            self.merge([state])

    def merge(self, states: Sequence[State]) -> None:
        """Add other states, at the lowest resolution of all. O(n).

        Slices have no clusters: states that have some count in these without.
        """
        mine = self.state()
        self._frozen = None
        # A state that was exact is on no scale, and was checked to have scores of this one.
        others = [each.redeclared(max_cells=mine.max_cells, scale=mine.scale) for each in states]
        if not mine.clusters.num_groups:
            others = [replace(state, clusters=NO_CLUSTERS) for state in others]
        self._adopt(merge_states([mine, *others], revision=0))

    def pack(self) -> None:
        """Keep the counts as bytes until the next change. O(n)."""
        state = self.state()
        pack(state)
        self._sizes = None

    def state(self) -> State:
        """Return the counts with all changes merged. O(n) when some are pending."""
        frozen = self.frozen()
        state = frozen.state
        self._adopt(state)
        self._frozen = frozen
        return state

    def frozen(self) -> LazyCounts:
        """Return the counts as they are now; the same object until they change. O(changes)."""
        if self._frozen is None:
            self._state_sizes()  # while the state is here
            source = _Source(self._state, tuple(self._pending))
            self._frozen = LazyCounts(source, _merged)
            # The frozen counts alone hold them, so they are in memory once after a merge.
            self._state, self._pending = _THAWED, []
        return self._frozen


def _piece_bytes(change: Addition) -> int:
    """Return the memory of an addition, an upper bound. O(1)."""
    if isinstance(change, ScoreCounts):
        return UnsortedCases.PIECE_BYTES + change.nbytes
    if change.has_weights:
        # What it takes once it is merged, which no reader counts.
        score_bytes = _PLAIN_SCORE_BYTES + _WEIGHTED_SCORE_BYTES
        return UnsortedCases.PIECE_BYTES + score_bytes * len(change)
    return UnsortedCases.PIECE_BYTES + change.nbytes + _KEY_BYTES * len(change)


class _Source(NamedTuple):
    """What a tally's counts are merged from."""

    state: State
    pending: tuple[Addition, ...]


def _merged(source: _Source) -> State:
    return merge_pending(*source)


def _is_as_fine(bits: int | None, least: int | None) -> bool:
    """Return whether each cell at `bits` lies within one cell at the resolution `least`."""
    return bits is None or (least is not None and bits >= least)


_NO_CASES = UnsortedCases(np.empty(0, dtype=np.bool_), np.empty(0), None)

_THAWED = State()
"""Stands for the state of a tally whose frozen counts hold it."""
