"""Rows on their way to the server: columns that split, join and become messages.

Scores of cases travel as little-endian float64 and their labels as bits (8.1
bytes a case, about a nanosecond each to write and to read), not as repeated
fields (80 ns).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from streameval.client._buffer import clock as _clock
from streameval.client._buffer import segments as _segments
from streameval.v1 import ingest_pb2, types_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval.client._buffer.clock import Times
    from streameval.client._buffer.segments import Segments

# What a batch needs besides its rows: stream name, sequence, tags and lengths.
_ENVELOPE_BYTES = 512
# A float64, and a label's bit rounded up to a byte; a varint has at most ten bytes.
_CASE_BYTES = 9
_COUNT_BYTES = 10
_TIME_BYTES = 8


class Rows(Protocol):
    """Rows of one kind for one stream; immutable."""

    @property
    def stream(self) -> str:
        """Name of the stream."""

    @property
    def size(self) -> int:
        """How many rows."""

    @property
    def wire_bytes(self) -> int:
        """At most how many bytes they take as a batch."""

    def cut(self, rows: int) -> tuple[Rows, Rows | None]:
        """Return the first so many rows (at least one), and the rest."""

    def chunks(self, rows: int) -> Iterator[Rows]:
        """Yield them, so many at a time."""

    def split(self, max_rows: int, max_bytes: int) -> tuple[Rows, Rows | None]:
        """Return as many rows as one batch may have (at least one), and the rest."""

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return them as a batch, stamps made times. The same call gives the same batch."""


@dataclass(frozen=True, eq=False)
class Columns:
    """What all rows in columns have in common: each field but the stream is a column."""

    stream: str

    LIKE: ClassVar[str]
    """The column that says how many rows there are."""

    @property
    def size(self) -> int:
        """How many rows."""
        return len(getattr(self, self.LIKE))

    @property
    def wire_bytes(self) -> int:
        """At most how many bytes they take as a batch. O(segment values), once."""
        # Not `cached_property`: before Python 3.12 it has a lock, held by nobody in a forked child.
        if "_wire_bytes" not in self.__dict__:
            self.__dict__["_wire_bytes"] = self._count_bytes()
        wire_bytes: int = self.__dict__["_wire_bytes"]
        return wire_bytes

    def _count_bytes(self) -> int:
        segments: Segments = getattr(self, "segments", ())
        times = _TIME_BYTES if isinstance(getattr(self, "times", None), np.ndarray) else 0
        columns = self._column_bytes() + sum(column.wire_bytes for column in segments)
        return _ENVELOPE_BYTES + self.size * times + columns

    def _column_bytes(self) -> int:
        raise NotImplementedError

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return them as a batch. O(n)."""
        raise NotImplementedError

    def cut(self, rows: int) -> tuple[Self, Self | None]:
        """Return the first so many rows (at least one), and the rest. O(1), but for lists."""
        if self.size <= rows:
            return self, None
        return self.take(slice(None, max(1, rows))), self.take(slice(max(1, rows), None))

    def chunks(self, rows: int) -> Iterator[Self]:
        """Yield them, so many at a time. O(rows)."""
        for start in range(0, self.size, rows):
            yield self.take(slice(start, start + rows))

    def split(self, max_rows: int, max_bytes: int) -> tuple[Self, Self | None]:
        """Return as many rows as one batch may have (at least one), and the rest. O(rows)."""
        head, rest = self.cut(max_rows)
        if head.wire_bytes <= max_bytes:
            return head, rest
        share = max(0, max_bytes - _ENVELOPE_BYTES) / (head.wire_bytes - _ENVELOPE_BYTES)
        rows = max(1, int(head.size * share))
        while rows > 1 and head.wire_bytes > max_bytes:
            head = self.take(slice(None, rows))
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
        """Which columns are there: pieces of the same shape can be joined."""
        return tuple(getattr(self, field.name) is not None for field in fields(self))


C = TypeVar("C", bound=Columns)


def joined(pieces: Sequence[C]) -> C:
    """Return pieces of one kind and one shape as one. O(rows)."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    sizes = [piece.size for piece in pieces]
    columns = {
        field.name: _join(field.name, [getattr(piece, field.name) for piece in pieces], sizes)
        for field in fields(first)
        if field.name != "stream"
    }
    return type(first)(first.stream, **columns)


def _take(column: Any, rows: slice | IntArray) -> Any:
    if column is None or isinstance(column, int):
        return column
    if isinstance(column, tuple):
        return tuple(each[rows] for each in column)
    if isinstance(column, list) and isinstance(rows, np.ndarray):
        return [column[row] for row in rows.tolist()]
    return column[rows]


def _join(name: str, columns: list[Any], sizes: list[int]) -> Any:
    if columns[0] is None:
        return None
    if name == "times":
        return _clock.joined(columns, sizes)
    if name == "segments":
        return _segments.joined(columns, sizes)
    if isinstance(columns[0], list):
        return [value for column in columns for value in column]
    return np.concatenate(columns)


def times_field(times: Times, offset_us: int) -> list[int]:
    """Return times as a field, stamps made times."""
    times = _clock.dated(times, offset_us)
    if times is None:
        return []
    if isinstance(times, int):
        return [times]
    listed: list[int] = times.tolist()
    return listed


def segment_fields(segments: Segments) -> list[ingest_pb2.SegmentColumn]:
    """Return segments as a field."""
    return [column.column() for column in segments]


@dataclass(frozen=True, eq=False)
class CaseRows(Columns):
    """Scored references.

    Attributes
    ----------
    stream : str
    positives : bool[n]
    scores : float64[n]
        Finite.
    counts : int64[n] or None
        How many cases a row stands for; None means one each.
    times : int, int64[n] or None
    segments : tuple of SegmentCodes
    """

    LIKE = "scores"

    positives: BoolArray
    scores: FloatArray
    counts: IntArray | None = None
    times: Times = None
    segments: Segments = ()

    def _column_bytes(self) -> int:
        return self.size * (_CASE_BYTES if self.counts is None else _CASE_BYTES + _COUNT_BYTES)

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return them as a batch. O(n)."""
        cases = ingest_pb2.Cases(
            scores_f64le=self.scores.astype("<f8", copy=False).tobytes(),
            positives_bits=np.packbits(self.positives, bitorder="little").tobytes(),
            counts=None if self.counts is None else self.counts.tolist(),
            event_times_us=times_field(self.times, offset_us),
            segments=segment_fields(self.segments),
        )
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, cases=cases)


@dataclass(frozen=True, slots=True)
class MissRows:
    """References that were never scored.

    Attributes
    ----------
    stream : str
    positives, negatives : int
    size : int
        How many calls were joined into this one: what the counters count.
    times : int or None
    segments : tuple of (key, value)
    """

    stream: str
    positives: int
    negatives: int
    size: int = 1
    times: int | None = None
    segments: tuple[tuple[str, str], ...] = ()

    @property
    def wire_bytes(self) -> int:
        """At most how many bytes they take as a batch."""
        return _ENVELOPE_BYTES + sum(16 + 4 * len(k) + 4 * len(v) for k, v in self.segments)

    def cut(self, rows: int) -> tuple[MissRows, None]:  # noqa: ARG002 - a protocol's signature
        """Return themselves: they are one row on the wire."""
        return self, None

    def chunks(self, rows: int) -> Iterator[MissRows]:  # noqa: ARG002 - a protocol's signature
        """Yield themselves: they are one row on the wire."""
        yield self

    def split(self, max_rows: int, max_bytes: int) -> tuple[MissRows, None]:  # noqa: ARG002 - a protocol's signature
        """Return themselves: they are one row on the wire."""
        return self, None

    def __add__(self, other: MissRows) -> MissRows:
        return replace(
            self,
            positives=self.positives + other.positives,
            negatives=self.negatives + other.negatives,
            size=self.size + other.size,
        )

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return them as a batch."""
        misses = ingest_pb2.Misses(
            positives=self.positives,
            negatives=self.negatives,
            event_time_us=times_field(self.times, offset_us)[0] if self.times else 0,
            segments=[types_pb2.Segment(key=key, value=value) for key, value in self.segments],
        )
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, misses=misses)
