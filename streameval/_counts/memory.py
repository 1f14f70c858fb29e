"""The memory of states and of additions that wait: upper bounds, without what Python shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._counts.multiset import ScoreCounts
from streameval._counts.unsorted_cases import UnsortedCases

if TYPE_CHECKING:
    from streameval._counts.additions import Addition

_PLAIN_SCORE_BYTES, WEIGHTED_SCORE_BYTES = 8, 32
"""Memory of a distinct score, and of its sums where cases have weights."""

_KEY_BYTES = 8
"""Memory of the key that counting in a table needs of a case."""


def piece_bytes(change: Addition) -> int:
    """Return the memory of an addition. O(1)."""
    if isinstance(change, ScoreCounts):
        return UnsortedCases.PIECE_BYTES + change.nbytes
    if change.has_weights:
        # What it takes once it is merged, which no reader counts.
        return UnsortedCases.PIECE_BYTES + (_PLAIN_SCORE_BYTES + WEIGHTED_SCORE_BYTES) * len(change)
    return UnsortedCases.PIECE_BYTES + change.nbytes + _KEY_BYTES * len(change)
