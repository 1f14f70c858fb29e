"""The counts of a state in the bytes that they were written as, until they are first read.

Bytes of a checkpoint's small panes are most of what a server reads at its start, and few of
these panes are asked for soon. `StateDecoder` verifies them and gives each this form; the
first reader opens it, in the same way and as often as packed counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.codec import FRAME, HEADER, read_columns
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import EMPTY_RUN, Run

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray

_OBJECT_BYTES = 96
"""Memory besides the bytes themselves: the object, the head of the bytes."""


class EncodedCounts:
    """All scored cases, as bytes of format 1. Immutable.

    Parameters
    ----------
    data : bytes
        From the frame's prefix to its checksum; what they announce was checked, and their
        content is valid as soon as it is read.

    Examples
    --------
    >>> from streameval._counts.codec import encode_state
    >>> from streameval._counts.state import State
    >>> state = State(ScoreCounts(Run.of(np.array([0.5, 0.75, 0.75])), Run.of(np.array([0.25]))))
    >>> counts = EncodedCounts(encode_state(state))
    >>> len(counts), counts.total(True), counts.open().positives.counts
    (3, 3, array([1, 2]))
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        """Return how many distinct scores there are, by class. O(1)."""
        shapes = self._shapes()
        return shapes[0] + shapes[3]

    @property
    def memory_bytes(self) -> int:
        """Memory. O(1)."""
        return self.memory_of(self._data)

    @staticmethod
    def memory_of(data: bytes) -> int:
        """Return the memory of counts in these bytes. O(1)."""
        return _OBJECT_BYTES + len(data)

    def total(self, label: bool) -> int:
        """Return how many cases of a class there are. O(n), O(1) where no two of them tie."""
        size, _, count_width = self._shapes()[0 if label else 3 :][:3]
        if not count_width:  # no counts are written where all are 1
            return int(size)
        positives, negatives = self._columns()
        scores, counts = positives if label else negatives
        return scores.size if counts is None else int(counts.sum())

    def open(self) -> ScoreCounts:
        """Return the counts. O(n)."""
        positives, negatives = (_run(*each) for each in self._columns())
        return ScoreCounts(positives, negatives)

    def _shapes(self) -> tuple[int, ...]:
        """Return of each class its distinct scores, bytes a score, bytes a count. O(1)."""
        return HEADER.unpack_from(FRAME.body(self._data))[-6:]

    def _columns(self) -> list[tuple[FloatArray, IntArray | None]]:
        """Return the scores and the counts of each class. O(n)."""
        return read_columns(FRAME.body(self._data), self._shapes())


def _run(scores: FloatArray, counts: IntArray | None) -> Run:
    if not scores.size:
        return EMPTY_RUN
    if counts is None:
        return Run.of_totalled(scores, None, scores.size)
    return Run.of_distinct(scores, counts.astype(np.int64))
