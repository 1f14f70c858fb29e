"""Rows on their way to the server: columns that split, join and become messages.

Scores travel as little-endian float64 and labels as bits (8.1 bytes a case,
about a nanosecond each to write and to read), not as repeated fields (80 ns).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from streameval._columns import BoolArray
    from streameval._groups import FloatArray, IntArray

# What a batch needs besides its rows: stream name, sequence, tags and lengths.
_ENVELOPE_BYTES = 512
# A float64, and a label's bit rounded up to a byte; a varint has at most ten bytes.
_CASE_BYTES = 9
_COUNT_BYTES = 10


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

    def split(self, max_rows: int, max_bytes: int) -> tuple[Rows, Rows | None]:
        """Return as many rows as one batch may have (at least one), and the rest."""

    def batch(self, sequence: int) -> ingest_pb2.Batch:
        """Return them as a batch. The same call gives the same batch."""


@dataclass(frozen=True, slots=True, eq=False)
class CaseRows:
    """Scored references.

    Attributes
    ----------
    stream : str
    positives : bool[n]
    scores : float64[n]
        Finite.
    counts : int64[n] or None
        How many cases a row stands for; None means one each.
    """

    stream: str
    positives: BoolArray
    scores: FloatArray
    counts: IntArray | None = None

    @property
    def size(self) -> int:
        """How many rows."""
        return int(self.scores.size)

    @property
    def _row_bytes(self) -> int:
        return _CASE_BYTES if self.counts is None else _CASE_BYTES + _COUNT_BYTES

    @property
    def wire_bytes(self) -> int:
        """At most how many bytes they take as a batch."""
        return _ENVELOPE_BYTES + self.size * self._row_bytes

    def split(self, max_rows: int, max_bytes: int) -> tuple[CaseRows, CaseRows | None]:
        """Return as many rows as one batch may have (at least one), and the rest. O(1)."""
        fit = max(1, min(max_rows, (max_bytes - _ENVELOPE_BYTES) // self._row_bytes))
        if self.size <= fit:
            return self, None
        return self._slice(slice(None, fit)), self._slice(slice(fit, None))

    def _slice(self, rows: slice) -> CaseRows:
        counts = None if self.counts is None else self.counts[rows]
        return CaseRows(self.stream, self.positives[rows], self.scores[rows], counts)

    def batch(self, sequence: int) -> ingest_pb2.Batch:
        """Return them as a batch. O(n)."""
        cases = ingest_pb2.Cases(
            scores_f64le=self.scores.astype("<f8", copy=False).tobytes(),
            positives_bits=np.packbits(self.positives, bitorder="little").tobytes(),
            counts=None if self.counts is None else self.counts.tolist(),
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
    """

    stream: str
    positives: int
    negatives: int
    size: int = 1

    @property
    def wire_bytes(self) -> int:
        """At most how many bytes they take as a batch."""
        return _ENVELOPE_BYTES

    def split(self, max_rows: int, max_bytes: int) -> tuple[MissRows, None]:  # noqa: ARG002 - a protocol's signature
        """Return themselves: they are one row on the wire."""
        return self, None

    def __add__(self, other: MissRows) -> MissRows:
        return MissRows(
            self.stream,
            self.positives + other.positives,
            self.negatives + other.negatives,
            self.size + other.size,
        )

    def batch(self, sequence: int) -> ingest_pb2.Batch:
        """Return them as a batch."""
        misses = ingest_pb2.Misses(positives=self.positives, negatives=self.negatives)
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, misses=misses)


# Joined misses stay below half of what may be counted; larger ones go alone.
_JOINED_MISSES = 1 << 61


def joined(pieces: list[Rows]) -> list[Rows]:
    """Return the rows of one stream in as few pieces as possible. O(rows).

    Cases and misses only add up, so their order does not matter. Cases with
    counts stay as they are: a joined total might be too large where each is not.
    """
    if len(pieces) == 1:
        return pieces
    plain: list[CaseRows] = []
    total: MissRows | None = None
    rows: list[Rows] = []
    for piece in pieces:
        if isinstance(piece, CaseRows) and piece.counts is None:
            plain.append(piece)
        elif isinstance(piece, MissRows):
            both = piece if total is None else total + piece
            if total is not None and max(both.positives, both.negatives) >= _JOINED_MISSES:
                rows.append(total)
                both = piece
            total = both
        else:
            rows.append(piece)
    if plain:
        positives = np.concatenate([piece.positives for piece in plain])
        scores = np.concatenate([piece.scores for piece in plain])
        rows.append(CaseRows(plain[0].stream, positives, scores))
    if total is not None:
        rows.append(total)
    return rows
