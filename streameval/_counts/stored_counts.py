"""Counts as the bytes of their state: a tenth to a third of the memory.

Most panes of a server are read seldom, and few at all soon after a start. Their counts are the
bytes that a checkpoint has: scores as steps, which take some 2 to 3 B a cell instead of 8 or
16 B and the arrays' heads. Numbers and totals are known without opening them, and sums read the
steps of many states in one pass.

Cost: O(n), some 5 ns a cell to pack and 2 ns to open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._counts.codec import decode_evaluator, encode_evaluator, read_columns
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run
from streameval._counts.state import State
from streameval._counts.state_head import Head, begins_plainly, step_run
from streameval._counts.stored_check import are_valid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.resolution import Scale
    from streameval._counts.steps import StepRun

_OBJECT_BYTES = 144
"""Memory of closed counts besides their bytes: two objects, the head of the bytes."""

_MAX_STORED_BYTES = 1 << 16
"""Longer states are decoded at once: then the scores alone take the time."""

_VERIFIED_TOGETHER = 512
"""States that are verified in one pass."""


class StoredCounts(bytes):
    """The bytes of a state without weights and clusters, as counts that are not open. Immutable.

    Opening them checks nothing: `encode_evaluator` has made them, or `verify` checked them.

    Examples
    --------
    >>> import numpy as np
    >>> from streameval._counts.multiset import ScoreCounts
    >>> counts = ScoreCounts(Run.of(np.array([0.5, 0.75, 0.75])), Run.of(np.array([0.25])))
    >>> stored = StoredCounts(encode_evaluator(State(counts, resolution=2), steps=True))
    >>> stored.num_scores, stored.total(True), stored.open()[0].counts
    (3, 3, array([1, 2]))
    """

    __slots__ = ()

    @property
    def head(self) -> Head:
        """The header. O(1)."""
        return Head.of(self)

    @property
    def num_scores(self) -> int:
        """How many distinct scores there are, by class. O(1)."""
        positives, negatives = self.head.shapes
        return positives.size + negatives.size

    def total(self, label: bool) -> int:
        """Return how many cases of a class there are. O(1)."""
        return self.head.shapes[0 if label else 1].total

    @property
    def memory_bytes(self) -> int:
        """Memory. O(1)."""
        return _OBJECT_BYTES + len(self)

    @property
    def bits(self) -> int:
        """The resolution. O(1)."""
        return self.head.bits

    @property
    def scale(self) -> Scale:
        """The scale of the cells. O(1)."""
        return self.head.scale

    def run(self, label: bool) -> StepRun:
        """Return a class's cells. O(1)."""
        return step_run(self, self.head, label)

    def open(self) -> tuple[Run, Run]:
        """Return the positives and the negatives. O(n)."""
        return self._opened(True), self._opened(False)

    def _opened(self, label: bool) -> Run:
        scores, counts, total = read_columns(self, self.head, label)
        return Run.of_totalled(scores, counts, total) if total else Run.EMPTY

    @classmethod
    def of(cls, data: bytes) -> StoredCounts | None:
        """Return what `bytes_of` wrote as counts that are not open, for `verify`. O(1).

        None if it has to be decoded: it is large or no state, or has weights or clusters.
        """
        if len(data) > _MAX_STORED_BYTES or not begins_plainly(data):
            return None
        return cls(data)

    @staticmethod
    def bytes_of(state: State) -> bytes:
        """Return a state as bytes, cells as steps; the stored ones if they are the same. O(n)."""
        stored = state.counts.stored
        if isinstance(stored, StoredCounts) and state.is_plain:
            settings = stored.head.settings
            if all(getattr(state, name) == value for name, value in settings.items()):
                return stored
        return encode_evaluator(state, steps=True)

    def closed(self) -> State:
        """Return their state, at revision 0. O(1)."""
        return State(ScoreCounts.closed(self), **self.head.settings)

    @staticmethod
    def verify(stored: Sequence[StoredCounts]) -> None:
        """Check stored counts, many at a time. O(bytes).

        Raises
        ------
        CorruptStateError
            As `decode_evaluator` of the first that it refuses.
        """
        for at in range(0, len(stored), _VERIFIED_TOGETHER):
            some = stored[at : at + _VERIFIED_TOGETHER]
            if not are_valid(some):
                for each in some:
                    decode_evaluator(each)


def cells_of(state: State) -> StoredCounts | None:
    """Return a state's counts as stored bytes, which sums read unopened; None without. O(1)."""
    stored = state.counts.stored
    return stored if isinstance(stored, StoredCounts) and stored.head.are_cells else None


def pack(state: State) -> None:
    """Keep a state's counts as bytes, which take less memory until they are read. O(n).

    The content stays the same, so the state is immutable to its readers. Counts stay as they
    are where they are stored already, exact, weighted, by clusters, or in cells of less than
    one bit.
    """
    if state.is_plain and not isinstance(state.counts.stored, StoredCounts):
        data = encode_evaluator(state, steps=True)
        if Head.of(data).are_cells:
            state.counts.store(StoredCounts(data))
