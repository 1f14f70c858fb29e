"""Rows that were added one at a time, before they become columns.

A row costs a few list appends. Times and segments are recorded where they change, not
for each row: a *mark* holds from its row up to the next mark. Rows that were added
without the lock (`stream_buffer`) are appended in bulk.

A stamp is shared by the rows of 25 ms, so that a batch seldom has more than one. The
clock is read (60 ns) for each row that is added under the lock. Rows added without the
lock have the stamp that was current when the buffer granted them.

Nothing here locks: the buffer's lock guards it.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from streameval.client._buffer.columns import CaseRows
from streameval.client._buffer.id_columns import (
    CLUSTERED_PREDICTION,
    LABEL,
    PREDICTION,
    RETRACTION,
    LabelRows,
    PredictionRows,
    RetractionRows,
    label_rank,
    phases,
)
from streameval.client._buffer.segments import segments_from_marks, select_segment_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._row_codec.segments import SegmentPairs, Segments
    from streameval.client._buffer.columns import Times
    from streameval.client._buffer.id_columns import IdRows

STAMP_INTERVAL_S = 0.025
"""A stamp is shared for this long."""

_STAMP_INTERVAL_NS = int(STAMP_INTERVAL_S * 1e9)

PREDICTION_CODE = PREDICTION << 1
CLUSTERED_PREDICTION_CODE = CLUSTERED_PREDICTION << 1
RETRACTION_CODE = RETRACTION << 1


def label_code(positive: bool, *, timed: bool, scored: bool, weighted: bool = False) -> int:
    """Return the code of a label: its rank, and in the lowest bit whether it is positive."""
    return label_rank(timed=timed, scored=scored, weighted=weighted) << 1 | positive


class Stamps:
    """Stamps of one stream's rows, from a clock in nanoseconds."""

    __slots__ = ("_clock_ns", "_stamp", "until_ns")

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._stamp = -1
        self.until_ns = 0
        """On the clock: the stamp stays the same until then."""

    def at(self, now_ns: int) -> int:
        """Return the stamp at a time of the clock: the last one if it is still current."""
        if now_ns >= self.until_ns:
            self._stamp = -1 - now_ns // 1_000
            self.until_ns = now_ns + _STAMP_INTERVAL_NS
        return self._stamp

    def now(self) -> int:
        """Return the stamp of a row that is added now."""
        return self.at(self._clock_ns())


class Marks:
    """Times and segments of rows, recorded at the rows where they change."""

    __slots__ = ("_rows", "_segments", "_stamps", "_times")

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps
        self._rows = array("q")
        self._times = array("q")
        self._segments: list[SegmentPairs] = []

    def mark_now(self, row: int, now_ns: int) -> int:
        """Mark a row without a time of its own and without segments.

        Returns the time on the stamps' clock until which further such rows need no mark.
        """
        self._mark(row, self._stamps.at(now_ns), ())
        return self._stamps.until_ns

    def mark_stamp(self, row: int, stamp: int) -> None:
        """Mark rows that have a stamp and no segments."""
        self._mark(row, stamp, ())

    def mark_row(self, row: int, time_us: int | None, segments: SegmentPairs) -> None:
        """Mark a row with a time or segments of its own."""
        self._mark(row, self._stamps.now() if time_us is None else time_us, segments)

    def _mark(self, row: int, time_us: int, segments: SegmentPairs) -> None:
        if self._rows and self._times[-1] == time_us and self._segments[-1] == segments:
            return
        self._rows.append(row)
        self._times.append(time_us)
        self._segments.append(segments)

    def single_time(self) -> int | None:
        """Return the time of all rows if they share one and have no segments. O(1)."""
        if len(self._rows) == 1 and not self._rows[0] and not self._segments[0]:
            return self._times[0]
        return None

    def columns(self, rows: int) -> tuple[IntArray, Segments]:
        """Return the time of each row, and the segments. O(rows)."""
        starts, times, segments = self._rows.tolist(), self._times.tolist(), self._segments
        if not starts or starts[0]:  # there are rows before the first mark
            starts, times, segments = [0, *starts], [0, *times], [(), *segments]
        counts = np.diff(np.array([*starts, rows]))
        row_times = np.repeat(np.array(times, dtype=np.int64), counts)
        return row_times, segments_from_marks(segments, counts)


Sampling = Literal["units", "clusters"]
"""The column of cases with weights, or of cases with clusters: no row has both."""


class CaseRun:
    """Cases that were added one at a time, all with the same columns.

    Parameters
    ----------
    stamps : Stamps
        The stream's.
    sampling : {"units", "clusters"}, optional
        The column that each row has besides.

    Attributes
    ----------
    until_ns : int
        On the stamps' clock: until then a row without a time and segments needs no mark.
    values : array of int
        The values of that column.
    """

    __slots__ = ("_sampling", "marks", "positives", "scores", "until_ns", "values")

    def __init__(self, stamps: Stamps, sampling: Sampling | None = None) -> None:
        self._sampling = sampling
        self.values = array("q")
        self.positives = bytearray()
        self.scores = array("d")
        self.marks = Marks(stamps)
        self.until_ns = 0

    def extend(self, scores: list[float], stamp: int, *, positive: bool) -> int:
        """Append cases of one label and stamp; return how many. O(cases)."""
        if scores:
            self.marks.mark_stamp(len(self.scores), stamp)
            self.until_ns = 0  # the stamp may be older than the current one
            self.positives += (b"\x01" if positive else b"\x00") * len(scores)
            self.scores.extend(scores)
        return len(scores)

    def rows(self, stream: str) -> CaseRows:
        """Return the cases as columns. O(rows); the run must not change afterwards."""
        positives = np.frombuffer(self.positives, np.bool_)
        scores = np.frombuffer(self.scores, np.float64)
        time_us = self.marks.single_time()
        if time_us is not None:
            rows = CaseRows(stream, positives, scores, None, time_us)
        else:
            times, segments = self.marks.columns(len(self.scores))
            rows = CaseRows(stream, positives, scores, None, compact_times(times), segments)
        if self._sampling is None:
            return rows
        values = np.frombuffer(self.values, np.int64)
        if self._sampling == "units":
            return replace(rows, units=values)
        return replace(rows, clusters=values.astype(np.uint32))


class IdRun:
    """Predictions, labels and retractions that were added one at a time, in order.

    Attributes
    ----------
    ids : list of str
    codes : bytearray
        A rank in a phase, and in the lowest bit whether the label is positive.
    scores : array of float
        0 for a row without a score.
    value_rows, values : array of int
        The rows with a weight or a cluster, and the units or the checksum of each.
    until_ns : int
        As in `CaseRun`.
    """

    __slots__ = ("codes", "ids", "marks", "scores", "until_ns", "value_rows", "values")

    def __init__(self, stamps: Stamps) -> None:
        self.ids: list[str] = []
        self.codes = bytearray()
        self.scores = array("d")
        self.value_rows = array("q")
        self.values = array("q")
        self.marks = Marks(stamps)
        self.until_ns = 0

    def extend(self, ids: list[str], codes: bytes, scores: list[float], stamp: int) -> int:
        """Append rows without times of their own; return how many. O(rows)."""
        if ids:
            self.marks.mark_stamp(len(self.ids), stamp)
            self.until_ns = 0  # the stamp may be older than the current one
            self.ids += ids
            self.codes += codes
            self.scores.extend(scores)
        return len(ids)

    def pieces(self, stream: str) -> list[IdRows]:
        """Return pieces of one kind each. O(rows); the run must not change afterwards."""
        codes = np.frombuffer(self.codes, np.uint8)
        ranks = codes >> 1
        columns = _IdColumns(
            stream,
            self.ids,
            (codes & 1).astype(np.bool_),
            np.frombuffer(self.scores, np.float64),
            values=self._all_values(),
            marks=self.marks,
        )
        if ranks.min() == ranks.max():
            return [columns.rows(int(ranks[0]), None)]
        return [
            columns.rows(rank, start + np.flatnonzero(ranks[start:end] == rank))
            for start, end in pairwise(phases(self.ids, ranks.tolist()))
            for rank in np.unique(ranks[start:end]).tolist()
        ]

    def _all_values(self) -> IntArray:
        """Return the value of each row, 0 for one without; empty where no row has one. O(rows)."""
        if not self.values:
            return np.empty(0, dtype=np.int64)
        values = np.zeros(len(self.ids), dtype=np.int64)
        values[np.frombuffer(self.value_rows, np.int64)] = np.frombuffer(self.values, np.int64)
        return values


class _IdColumns:
    """The columns of a run, from which rows of one kind are selected."""

    def __init__(
        self,
        stream: str,
        ids: list[str],
        positives: BoolArray,
        scores: FloatArray,
        *,
        values: IntArray,
        marks: Marks,
    ) -> None:
        self._stream = stream
        self._ids = ids
        self._positives = positives
        self._scores = scores
        self._values = values
        self._single_time_us = marks.single_time()
        if self._single_time_us is None:
            self._times, self._segments = marks.columns(len(ids))

    def rows(self, rank: int, rows: IntArray | None) -> IdRows:
        """Return rows of one rank; None selects all rows. O(rows)."""
        ids = self._ids if rows is None else [self._ids[row] for row in rows.tolist()]
        selected = slice(None) if rows is None else rows
        if rank == RETRACTION:
            return RetractionRows(self._stream, ids)
        if rank in (PREDICTION, CLUSTERED_PREDICTION):
            return PredictionRows(
                self._stream,
                ids,
                self._scores[selected],
                self._times_of(selected),
                self._segments_of(selected),
                None if rank == PREDICTION else self._values[selected].astype(np.uint32),
            )
        timed, scored, weighted = ((rank - LABEL) & bit for bit in (1, 2, 4))
        return LabelRows(
            self._stream,
            ids,
            self._positives[selected],
            self._times_of(selected) if timed else None,
            self._scores[selected] if scored else None,
            self._values[selected] if weighted else None,
        )

    def _times_of(self, rows: slice | IntArray) -> Times:
        if self._single_time_us is not None:
            return self._single_time_us
        return compact_times(self._times[rows])

    def _segments_of(self, rows: slice | IntArray) -> Segments:
        if self._single_time_us is not None:
            return ()
        return tuple(select_segment_rows(column, rows) for column in self._segments)


def compact_times(times: IntArray) -> Times:
    """Return one time in place of equal times. O(rows)."""
    return int(times[0]) if times.size and times.min() == times.max() else times
