"""Cases with segments that were added one at a time, before they become columns."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from streameval.client._buffer.columns import CaseRows
from streameval.client._buffer.runs import Marks, compact_times
from streameval.client._buffer.segments import segments_of_sets

if TYPE_CHECKING:
    from streameval.client._buffer.runs import Stamps
    from streameval.client._buffer.segments import SegmentSet


class SegmentedRun:
    """Cases with segments, and with stamps in the place of times.

    Segments change from row to row, so each row has its own, and marks have stamps only. The
    buffer's lock guards it.

    Parameters
    ----------
    stamps : Stamps
        The stream's.

    Attributes
    ----------
    sets : list of SegmentSet
    positives : bytearray
    scores : array of float
    until_ns : int
        On the stamps' clock: until then a row needs no mark.
    """

    __slots__ = ("marks", "positives", "scores", "sets", "until_ns")

    def __init__(self, stamps: Stamps) -> None:
        self.sets: list[SegmentSet] = []
        self.positives = bytearray()
        self.scores = array("d")
        self.marks = Marks(stamps)
        self.until_ns = 0

    def extend(
        self, sets: list[SegmentSet], positives: bytes, scores: list[float], stamp: int
    ) -> int:
        """Append cases of one stamp; return how many. O(cases)."""
        if sets:
            self.marks.mark_stamp(len(self.sets), stamp)
            self.until_ns = 0  # the stamp may be older than the current one
            self.sets += sets
            self.positives += positives
            self.scores.extend(scores)
        return len(sets)

    def rows(self, stream: str) -> CaseRows:
        """Return the cases as columns. O(cases); the run must not change afterwards."""
        times, _ = self.marks.columns(len(self.sets))
        return CaseRows(
            stream,
            np.frombuffer(self.positives, np.bool_),
            np.frombuffer(self.scores, np.float64),
            None,
            compact_times(times),
            segments_of_sets(self.sets),
        )
