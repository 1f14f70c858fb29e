"""Rows in columns: immutable, cut into batches, joined, and encoded by `_row_codec`.

Rows without an event time of their own carry a *stamp* (`clock`): a negative number in
the column of times. Stamps become times when a batch is numbered.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from streameval._row_codec.clusters import CLUSTER_BYTES
from streameval._row_codec.encode import (
    MAX_COUNT_BYTES,
    MAX_ENVELOPE_BYTES,
    MAX_SCORE_BYTES,
    MAX_TIME_BYTES,
    encode_cases,
    encode_misses,
)
from streameval._row_codec.segments import segment_bytes
from streameval._row_codec.weights import MAX_WEIGHT_BYTES
from streameval.client._buffer.segments import join_segments, select_segment_rows
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.cluster_keys import ClusterChecksums
    from streameval._row_codec.segments import SegmentPairs, Segments

    Times = int | IntArray | None
    """One time or stamp for all rows, one for each, or None if the rows have no times."""

_ROW_BYTES = {
    "positives": 1,
    "scores": MAX_SCORE_BYTES,
    "counts": MAX_COUNT_BYTES,
    "times": MAX_TIME_BYTES,
    "units": MAX_WEIGHT_BYTES,
    "clusters": CLUSTER_BYTES,
}
"""The most bytes of a row in each column of numbers."""
_MAX_JOINED_MISSES = 1 << 61
"""Half of the largest count that the server accepts: larger misses are not joined."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Base of rows in columns: each field but the stream is a column."""

    stream: str

    LIKE: ClassVar[str]
    """The column whose length is the number of rows."""

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(getattr(self, self.LIKE))

    @property
    def wire_bytes(self) -> int:
        """An upper bound of the encoded size as a batch. O(segment values), cached."""
        # Not `cached_property`: before Python 3.12 it holds a lock, which a forked child could
        # inherit locked, without the thread that would release it.
        if "_wire_bytes" not in self.__dict__:
            self.__dict__["_wire_bytes"] = self._count_bytes()
        wire_bytes: int = self.__dict__["_wire_bytes"]
        return wire_bytes

    def _count_bytes(self) -> int:
        row_bytes = sum(
            _ROW_BYTES[each.name]
            for each in fields(self)
            if isinstance(getattr(self, each.name), np.ndarray)
        )
        segments: Segments = getattr(self, "segments", ())
        return MAX_ENVELOPE_BYTES + self.size * row_bytes + sum(map(segment_bytes, segments))

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return the rows as a batch, with stamps converted to times. O(n)."""
        raise NotImplementedError

    def cut(self, rows: int) -> tuple[Self, Self | None]:
        """Return the first `rows` rows (at least one), and the rest. O(1); lists are copied."""
        if self.size <= rows:
            return self, None
        return self.take(slice(None, max(1, rows))), self.take(slice(max(1, rows), None))

    def chunks(self, rows: int) -> Iterator[Self]:
        """Yield chunks of `rows` rows. O(rows)."""
        for start in range(0, self.size, rows):
            yield self.take(slice(start, start + rows))

    def split(self, max_rows: int, max_bytes: int) -> tuple[Self, Self | None]:
        """Return the rows that fit into one batch (at least one), and the rest. O(rows)."""
        head, rest = self.cut(max_rows)
        if head.wire_bytes <= max_bytes:
            return head, rest
        share = max(0, max_bytes - MAX_ENVELOPE_BYTES) / (head.wire_bytes - MAX_ENVELOPE_BYTES)
        rows = int(head.size * share)
        while head.size > 1 and head.wire_bytes > max_bytes:
            head = self.take(slice(None, max(1, rows)))
            rows = rows * 3 // 4
        return (head, None) if head.size == self.size else self.cut(head.size)

    def take(self, rows: slice | IntArray) -> Self:
        """Return some of the rows."""
        columns = {
            field.name: _take(getattr(self, field.name), rows)
            for field in fields(self)
            if field.name != "stream"
        }
        return type(self)(self.stream, **columns)

    @property
    def shape(self) -> tuple[bool, ...]:
        """Whether each column is present: pieces of equal shape can be joined."""
        return tuple(getattr(self, field.name) is not None for field in fields(self))


C = TypeVar("C", bound=Columns)


def join(pieces: Sequence[C]) -> C:
    """Return pieces of one kind and one shape as one piece. O(rows)."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    sizes = [piece.size for piece in pieces]
    names = [field.name for field in fields(first) if field.name != "stream"]
    columns = {
        name: _join_column(name, [getattr(piece, name) for piece in pieces], sizes)
        for name in names
    }
    return type(first)(first.stream, **columns)


def _take(column: Any, rows: slice | IntArray) -> Any:
    if column is None or isinstance(column, int):
        return column
    if isinstance(column, tuple):
        return tuple(select_segment_rows(each, rows) for each in column)
    if isinstance(column, list) and isinstance(rows, np.ndarray):
        return [column[row] for row in rows.tolist()]
    return column[rows]


def _join_column(name: str, columns: list[Any], sizes: list[int]) -> Any:
    if columns[0] is None:
        return None
    if name == "times":
        return join_times(columns, sizes)
    if name == "segments":
        return join_segments(columns, sizes)
    if isinstance(columns[0], list):
        return [value for column in columns for value in column]
    return np.concatenate(columns)


def stamps_to_times(times: Times, offset_us: int) -> Times:
    """Return times with stamps converted; `offset_us` is the time at which the clock was 0.

    Examples
    --------
    >>> stamps_to_times(-1 - 5_000, 1_000_000), stamps_to_times(7, 1_000_000)
    (1005000, 7)
    """
    if times is None:
        return None
    if isinstance(times, int):
        # At least 1, because 0 means "none" in some fields.
        return times if times >= 0 else max(1, offset_us - 1 - times)
    if not times.size or times.min() >= 0:
        return times
    return np.where(times >= 0, times, np.maximum(1, offset_us - 1 - times))


def join_times(times: list[Times], sizes: list[int]) -> Times:
    """Return the times of pieces as one column; either all pieces have times, or none. O(rows)."""
    first = times[0]
    if not isinstance(first, np.ndarray) and all(
        not isinstance(each, np.ndarray) and each == first for each in times
    ):
        return first
    return np.concatenate(
        [
            each if isinstance(each, np.ndarray) else np.full(size, each, dtype=np.int64)
            for each, size in zip(times, sizes, strict=True)
        ]
    )


@dataclass(frozen=True, eq=False)
class BufferedCases(Columns):
    """Scored references.

    Attributes
    ----------
    stream : str
    positives : bool[n]
    scores : float64[n]
        Finite.
    counts : int64[n] or None
        How many identical cases each row stands for; None means one each.
    times : int, int64[n] or None
    segments : tuple of SegmentCodes
    units : int64[n] or None
        The weight of each case in units of 2**-16; None means 1 each.
    clusters : uint32[n] or None
        The checksum of each row's cluster key.
    """

    LIKE = "scores"

    positives: BoolArray
    scores: FloatArray
    counts: IntArray | None = None
    times: Times = None
    segments: Segments = ()
    units: IntArray | None = None
    clusters: ClusterChecksums | None = None

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return the rows as a batch, with stamps converted to times. O(n)."""
        times = stamps_to_times(self.times, offset_us)
        cases = encode_cases(
            self.positives,
            self.scores,
            self.counts,
            times,
            self.segments,
            units=self.units,
            clusters=self.clusters,
        )
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, cases=cases)


@dataclass(frozen=True, slots=True)
class BufferedMisses:
    """References that were never scored.

    Attributes
    ----------
    stream : str
    positives, negatives : int
    size : int
        The number of calls joined into this row; the client's counters count it.
    times : int or None
    segments : tuple of (key, value)
    """

    stream: str
    positives: int
    negatives: int
    size: int = 1
    times: int | None = None
    segments: SegmentPairs = ()

    @property
    def wire_bytes(self) -> int:
        """An upper bound of the encoded size as a batch."""
        return MAX_ENVELOPE_BYTES + sum(16 + 4 * len(k) + 4 * len(v) for k, v in self.segments)

    def cut(self, rows: int) -> tuple[BufferedMisses, None]:  # noqa: ARG002 - a protocol's signature
        """Return itself: it is one row on the wire."""
        return self, None

    def chunks(self, rows: int) -> Iterator[BufferedMisses]:  # noqa: ARG002 - a protocol's signature
        """Yield itself: it is one row on the wire."""
        yield self

    def split(self, max_rows: int, max_bytes: int) -> tuple[BufferedMisses, None]:  # noqa: ARG002 - a protocol's signature
        """Return itself: it is one row on the wire."""
        return self, None

    def __add__(self, other: BufferedMisses) -> BufferedMisses:
        return replace(
            self,
            positives=self.positives + other.positives,
            negatives=self.negatives + other.negatives,
            size=self.size + other.size,
        )

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return the misses as a batch, with a stamp converted to a time."""
        times = stamps_to_times(self.times, offset_us) if self.times else None
        assert times is None or isinstance(times, int)
        misses = encode_misses(self.positives, self.negatives, times, self.segments)
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, misses=misses)


Rows = Columns | BufferedMisses
"""Rows of one kind for one stream. Immutable."""


def coalesce_cases(pieces: Sequence[BufferedCases | BufferedMisses]) -> Sequence[Rows]:
    """Return cases and misses as few pieces; their order does not matter. O(rows).

    Cases with counts are not joined: the sum of the counts could exceed the limit of a
    batch although each piece is below it.
    """
    if len(pieces) < 2:
        return pieces
    plain: dict[tuple[bool, ...], list[BufferedCases]] = {}
    misses: dict[tuple[object, ...], BufferedMisses] = {}
    rows: list[Rows] = []
    for piece in pieces:
        if isinstance(piece, BufferedMisses):
            key = (piece.times, piece.segments)
            previous = misses.get(key)
            both = piece if previous is None else previous + piece
            if previous is not None and max(both.positives, both.negatives) >= _MAX_JOINED_MISSES:
                rows.append(previous)
                both = piece
            misses[key] = both
        elif piece.counts is None:
            plain.setdefault(piece.shape, []).append(piece)
        else:
            rows.append(piece)
    rows += [join(same_shape) for same_shape in plain.values()]
    rows += misses.values()
    return rows
