"""The memory of states and of additions that wait: upper bounds, without what Python shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._counts.multiset import ScoreCounts

if TYPE_CHECKING:
    from streameval._counts.additions import Addition
    from streameval._counts.state import State

_PLAIN_SCORE_BYTES, WEIGHTED_SCORE_BYTES = 8, 32
"""Memory of a distinct score, and of its sums where cases have weights."""

_KEY_BYTES = 8
"""Memory of the key that counting in a table needs of a case."""

PIECE_BYTES = 640
"""Memory of one addition besides its rows: five objects and the heads of its arrays; measured."""

_STATE_BYTES = 640
"""Memory of a state besides its columns: its objects, and the heads of its arrays."""

_PACKED_STATE_BYTES = 400
"""Memory of a packed state besides its packed counts; measured."""


def piece_bytes(change: Addition) -> int:
    """Return the memory of an addition. O(1)."""
    if isinstance(change, ScoreCounts):
        return PIECE_BYTES + counts_bytes(change)
    if change.has_weights:
        # What it takes once it is merged, which no reader counts.
        return PIECE_BYTES + (_PLAIN_SCORE_BYTES + WEIGHTED_SCORE_BYTES) * len(change)
    return PIECE_BYTES + change.nbytes + _KEY_BYTES * len(change)


def state_bytes(state: State) -> int:
    """Return the memory of a state's counts. O(1)."""
    if state.counts.stored is not None:
        return _PACKED_STATE_BYTES + state.counts.stored.memory_bytes
    return counts_bytes(state.counts) + (_STATE_BYTES if state.num_scores else 0)


def counts_bytes(counts: ScoreCounts) -> int:
    """Return the memory of the columns of sorted counts. O(1)."""
    columns = [each for run in counts.runs for each in (run.scores, run.columns)]
    return sum(each.nbytes for each in columns if each is not None)
