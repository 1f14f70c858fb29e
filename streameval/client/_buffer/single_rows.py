"""Rows that were added one at a time, before they become columns.

A row is 9 bytes and the columns that few rows have. Times are recorded where they change, not
for each row. A stamp is shared by the rows of 25 ms, so that a batch seldom has more than one.

Nothing here locks: the buffer's lock guards it.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streameval.client._buffer.columns import BufferedCases
from streameval.client._buffer.id_columns import (
    CLUSTERED_PREDICTION,
    LABEL,
    PREDICTION,
    RETRACTION,
    BufferedLabels,
    BufferedPredictions,
    BufferedRetractions,
    label_rank,
    phases,
)
from streameval.client._buffer.segments import NO_SEGMENTS, segments_of_sets

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._row_codec.segments import Segments
    from streameval.client._buffer.columns import Times
    from streameval.client._buffer.id_columns import IdRows
    from streameval.client._buffer.segments import SegmentSet

_STAMP_INTERVAL_NS = 25_000_000
"""A stamp is shared for this long."""

PREDICTION_CODE = PREDICTION << 1
CLUSTERED_PREDICTION_CODE = CLUSTERED_PREDICTION << 1
RETRACTION_CODE = RETRACTION << 1


def label_code(positive: bool, *, timed: bool, scored: bool, weighted: bool = False) -> int:
    """Return the code of a label: its rank, and in the lowest bit whether it is positive."""
    return label_rank(timed=timed, scored=scored, weighted=weighted) << 1 | positive


class Stamps:
    """Stamps of one stream's rows, from a clock in nanoseconds."""

    __slots__ = ("_clock_ns", "_stamp", "_until_ns")

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._stamp = -1
        self._until_ns = 0

    def now(self) -> int:
        """Return the stamp of a row that is added now: the last one if it is still current."""
        now_ns = self._clock_ns()
        if now_ns >= self._until_ns:
            self._stamp = -1 - now_ns // 1_000
            self._until_ns = now_ns + _STAMP_INTERVAL_NS
        return self._stamp


_ROW = np.dtype([("score", "<f8"), ("code", "u1")])

pack_row: Callable[[float, int], bytes] = struct.Struct("<dB").pack
"""Return a row of a run: a score, and whether a case is positive or the code of a row by id."""


class RowRun:
    """Rows that were added one at a time.

    Attributes
    ----------
    rows : bytearray
        One `pack_row` after the other.
    time_us : int or None
        The time or stamp of the last row; `mark` begins another one.
    """

    __slots__ = ("_times", "rows", "time_us")

    def __init__(self) -> None:
        self.rows = bytearray()
        self.time_us: int | None = None
        self._times: dict[int, int] = {}

    def mark(self, time_us: int) -> None:
        """Set the time of the next row and of those after it."""
        self._times[len(self.rows) // _ROW.itemsize] = time_us
        self.time_us = time_us

    def _columns(self) -> tuple[FloatArray, npt.NDArray[np.uint8]]:
        """Return scores and codes. O(rows)."""
        rows = np.frombuffer(self.rows, _ROW)
        return np.ascontiguousarray(rows["score"]), np.ascontiguousarray(rows["code"])

    def _all_times(self) -> Times:
        """Return the time of all rows if they share one, else of each row. O(rows)."""
        if len(self._times) == 1:
            return self._times[0]
        starts = np.array([*self._times, len(self.rows) // _ROW.itemsize])
        times = np.array([*self._times.values()], dtype=np.int64)
        return compact_times(np.repeat(times, np.diff(starts)))


Sampling = Literal["units", "clusters"]
"""The column of cases with weights, or of cases with clusters: no row has both."""


class CaseRun(RowRun):
    """Cases that were added one at a time, all with the same columns.

    Parameters
    ----------
    sampling : {"units", "clusters"}, optional
        The column that each row has besides.

    Attributes
    ----------
    sets : list of SegmentSet
        The segments of each row; empty if no row has any.
    values : bytearray
        The values of the column `sampling`, each an int64.
    """

    __slots__ = ("_sampling", "sets", "values")

    def __init__(self, sampling: Sampling | None = None) -> None:
        super().__init__()
        self._sampling = sampling
        self.sets: list[SegmentSet] = []
        self.values = bytearray()

    def columns(self, stream: str) -> BufferedCases:
        """Return the cases as columns. O(rows); the run must not change afterwards."""
        scores, codes = self._columns()
        segments = segments_of_sets(self.sets)
        rows = BufferedCases(
            stream, codes.view(np.bool_), scores, None, self._all_times(), segments
        )
        if self._sampling is None:
            return rows
        values = np.frombuffer(self.values, "<i8")
        if self._sampling == "units":
            return replace(rows, units=values)
        return replace(rows, clusters=values.astype(np.uint32))


class IdRun(RowRun):
    """Predictions, labels and retractions that were added one at a time, in order.

    A code is a rank in a phase, and in the lowest bit whether the label is positive. A row
    without a score has the score 0.

    Attributes
    ----------
    ids : list of str
    sets : dict of int to SegmentSet
        The segments of the rows that have some.
    values : dict of int to int
        The units of the rows with a weight, and the checksums of the rows with a cluster.
    """

    __slots__ = ("ids", "sets", "values")

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.sets: dict[int, SegmentSet] = {}
        self.values: dict[int, int] = {}

    def pieces(self, stream: str) -> list[IdRows]:
        """Return pieces of one kind each. O(rows); the run must not change afterwards."""
        scores, codes = self._columns()
        ranks = codes >> 1
        all_rows = {
            rank: self._all_rows(stream, rank, (codes & 1).astype(np.bool_), scores)
            for rank in np.unique(ranks).tolist()
        }
        if len(all_rows) == 1:
            return list(all_rows.values())
        return [
            _with_compact_times(
                all_rows[rank].take(start + np.flatnonzero(ranks[start:end] == rank))
            )
            for start, end in pairwise(phases(self.ids, ranks.tolist()))
            for rank in np.unique(ranks[start:end]).tolist()
        ]

    def _all_rows(self, stream: str, rank: int, positives: BoolArray, scores: FloatArray) -> IdRows:
        """Return all rows as if they had one rank. O(rows)."""
        if rank == RETRACTION:
            return BufferedRetractions(stream, self.ids)
        times, values = self._all_times(), self._all_values()
        if rank in (PREDICTION, CLUSTERED_PREDICTION):
            clusters = None if rank == PREDICTION else values.astype(np.uint32)
            return BufferedPredictions(stream, self.ids, scores, times, self._segments(), clusters)
        timed, scored, weighted = ((rank - LABEL) & bit for bit in (1, 2, 4))
        return BufferedLabels(
            stream,
            self.ids,
            positives,
            times if timed else None,
            scores if scored else None,
            values if weighted else None,
        )

    def _all_values(self) -> IntArray:
        """Return the value of each row, 0 for one without. O(rows)."""
        values = np.zeros(len(self.ids), dtype=np.int64)
        values[list(self.values)] = list(self.values.values())
        return values

    def _segments(self) -> Segments:
        if not self.sets:
            return ()
        return segments_of_sets([self.sets.get(row, NO_SEGMENTS) for row in range(len(self.ids))])


def _with_compact_times(rows: Any) -> Any:
    times = getattr(rows, "times", None)
    return replace(rows, times=compact_times(times)) if isinstance(times, np.ndarray) else rows


def compact_times(times: IntArray) -> Times:
    """Return one time in place of equal times. O(rows)."""
    return int(times[0]) if times.size and times.min() == times.max() else times
