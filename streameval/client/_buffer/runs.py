"""Rows that were added one by one, as they wait to become columns.

Appending costs a few list appends. When rows happened and which segments they
have is noted where it changes, not for each row: a *mark* holds from its row to
the next one. Rows that were added without a lock (`_open`) come in bulk.

Nothing here locks: the buffer does.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from streameval.client._buffer import clock as _clock
from streameval.client._buffer.coalesce import LABEL, PREDICTION, RETRACTION, label_rank, phases
from streameval.client._buffer.columns import CaseRows
from streameval.client._buffer.id_columns import LabelRows, PredictionRows, RetractionRows
from streameval.client._buffer.segments import of_marks

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval.client._buffer.clock import Stamps, Times
    from streameval.client._buffer.id_columns import IdRows
    from streameval.client._buffer.segments import Segments

Pairs = tuple[tuple[str, str], ...]

PREDICTED = PREDICTION << 1
RETRACTED = RETRACTION << 1


def labelled(positive: bool, *, timed: bool, scored: bool) -> int:
    """Return the code of a label: its rank, and whether it is positive."""
    return label_rank(timed=timed, scored=scored) << 1 | positive


class Marks:
    """From which row on which time and which segments hold."""

    __slots__ = ("_rows", "_segments", "_stamps", "_times")

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps
        self._rows = array("q")
        self._times = array("q")
        self._segments: list[Pairs] = []

    def plain(self, row: int, now_ns: int) -> int:
        """Note the time of a row without one of its own, and without segments.

        Returns until when, on the stamps' clock, the next such row needs no mark
        if only such rows come.
        """
        self._mark(row, self._stamps.at(now_ns), ())
        return self._stamps.until_ns

    def stamped(self, row: int, stamp: int) -> None:
        """Note the stamp of rows without a time of their own, and without segments."""
        self._mark(row, stamp, ())

    def own(self, row: int, time_us: int | None, segments: Pairs) -> None:
        """Note the time and the segments of a row."""
        self._mark(row, self._stamps.now() if time_us is None else time_us, segments)

    def _mark(self, row: int, time_us: int, segments: Pairs) -> None:
        if self._rows and self._times[-1] == time_us and self._segments[-1] == segments:
            return
        self._rows.append(row)
        self._times.append(time_us)
        self._segments.append(segments)

    def shared(self) -> int | None:
        """Return the time of all rows, if they have no other, and no segments. O(1)."""
        if len(self._rows) == 1 and not self._rows[0] and not self._segments[0]:
            return self._times[0]
        return None

    def columns(self, rows: int) -> tuple[IntArray, Segments]:
        """Return each row's time, and the segments. O(rows)."""
        starts, times, segments = self._rows.tolist(), self._times.tolist(), self._segments
        if not starts or starts[0]:  # the first rows need none
            starts, times, segments = [0, *starts], [0, *times], [(), *segments]
        counts = np.diff(np.array([*starts, rows]))
        return np.repeat(np.array(times, dtype=np.int64), counts), of_marks(segments, counts)


class CaseRun:
    """Cases one by one.

    Attributes
    ----------
    until_ns : int
        On the stamps' clock: until then a row without time and segments needs
        no mark.
    """

    __slots__ = ("marks", "positives", "scores", "until_ns")

    def __init__(self, stamps: Stamps) -> None:
        self.positives = bytearray()
        self.scores = array("d")
        self.marks = Marks(stamps)
        self.until_ns = 0

    def extend(self, scores: list[float], stamp: int, *, positive: bool) -> int:
        """Append cases of one label and stamp; return how many. O(cases)."""
        if scores:
            self.marks.stamped(len(self.scores), stamp)
            self.until_ns = 0  # the stamp may be an older one
            self.positives += (b"\x01" if positive else b"\x00") * len(scores)
            self.scores.extend(scores)
        return len(scores)

    def rows(self, stream: str) -> CaseRows:
        """Return them as columns. O(rows); the run must not change any more."""
        positives = np.frombuffer(self.positives, np.bool_)
        scores = np.frombuffer(self.scores, np.float64)
        time_us = self.marks.shared()
        if time_us is not None:
            return CaseRows(stream, positives, scores, None, time_us)
        times, segments = self.marks.columns(len(self.scores))
        return CaseRows(stream, positives, scores, None, _clock.shared(times), segments)


class IdRun:
    """What was done to ids, one by one and in order.

    Attributes
    ----------
    ids : list of str
    codes : bytearray
        What was done: a rank in a phase, and in the lowest bit whether positive.
    scores : array of float
        0 where there is none.
    until_ns : int
        As in `CaseRun`.
    """

    __slots__ = ("codes", "ids", "marks", "scores", "until_ns")

    def __init__(self, stamps: Stamps) -> None:
        self.ids: list[str] = []
        self.codes = bytearray()
        self.scores = array("d")
        self.marks = Marks(stamps)
        self.until_ns = 0

    def extend(self, ids: list[str], codes: bytes, scores: list[float], stamp: int) -> int:
        """Append rows without times of their own; return how many. O(rows)."""
        if ids:
            self.marks.stamped(len(self.ids), stamp)
            self.until_ns = 0  # the stamp may be an older one
            self.ids += ids
            self.codes += codes
            self.scores.extend(scores)
        return len(ids)

    def pieces(self, stream: str) -> list[IdRows]:
        """Return them as pieces of one kind each. O(rows); the run must not change any more."""
        codes = np.frombuffer(self.codes, np.uint8)
        ranks = codes >> 1
        columns = _IdColumns(
            stream,
            self.ids,
            (codes & 1).astype(np.bool_),
            np.frombuffer(self.scores, np.float64),
            self.marks,
        )
        if ranks.min() == ranks.max():
            return [columns.rows(int(ranks[0]), None)]
        return [
            columns.rows(rank, start + np.flatnonzero(ranks[start:end] == rank))
            for start, end in pairwise(phases(self.ids, ranks.tolist()))
            for rank in np.unique(ranks[start:end]).tolist()
        ]


class _IdColumns:
    """The columns of a run, to be cut by kind."""

    def __init__(
        self, stream: str, ids: list[str], positives: BoolArray, scores: FloatArray, marks: Marks
    ) -> None:
        self._stream = stream
        self._ids = ids
        self._positives = positives
        self._scores = scores
        self._one_time_us = marks.shared()
        if self._one_time_us is None:
            self._times, self._segments = marks.columns(len(ids))

    def rows(self, rank: int, rows: IntArray | None) -> IdRows:
        """Return rows of one rank in a phase; None is all of them."""
        ids = self._ids if rows is None else [self._ids[row] for row in rows.tolist()]
        chosen = slice(None) if rows is None else rows
        if rank == RETRACTION:
            return RetractionRows(self._stream, ids)
        if rank == PREDICTION:
            segments = self._segments_of(chosen)
            scores = self._scores[chosen]
            return PredictionRows(self._stream, ids, scores, self._times_of(chosen), segments)
        timed, scored = (rank - LABEL) & 1, (rank - LABEL) & 2
        return LabelRows(
            self._stream,
            ids,
            self._positives[chosen],
            self._times_of(chosen) if timed else None,
            self._scores[chosen] if scored else None,
        )

    def _times_of(self, rows: slice | IntArray) -> Times:
        if self._one_time_us is not None:
            return self._one_time_us
        return _clock.shared(self._times[rows])

    def _segments_of(self, rows: slice | IntArray) -> Segments:
        if self._one_time_us is not None:
            return ()
        return tuple(column[rows] for column in self._segments)
