"""Producer marks: how far each producer's batches are durable.

One mark for each producer: its highest epoch, the last sequence of that
epoch, and the log's time of it. A producer that has been idle for the time
to live is forgotten, when a later entry is recorded; so marks are a function
of the log alone, and the committer's and the engine's copies agree at equal
revisions. Every operation is O(1) amortised.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Mark(NamedTuple):
    """How far a producer has come."""

    epoch: int
    last_sequence: int
    seen_us: int


class Verdict(enum.IntEnum):
    """What a sequence is, seen from a mark."""

    NEXT = 0
    DUPLICATE = 1
    GAP = 2
    FENCED = 3


def judge(mark: Mark | None, epoch: int, sequence: int) -> Verdict:
    """Say what (epoch, sequence) is to a producer at `mark`."""
    raise NotImplementedError


class Marks:
    """The marks of all producers, in the order in which they were last seen."""

    def __init__(self, ttl_us: int) -> None:
        raise NotImplementedError

    def get(self, producer: str) -> Mark | None:
        """Return a producer's mark. Safe to call from another thread than `record`."""
        raise NotImplementedError

    def last_sequence(self, producer: str, epoch: int) -> int:
        """Return the last durable sequence of (producer, epoch); 0 when there is none."""
        raise NotImplementedError

    def record(self, producer: str, epoch: int, sequence: int, at_us: int) -> None:
        """Note a log entry (with producer "" when it has none), and forget who is idle."""
        raise NotImplementedError

    def copy(self) -> Marks:
        """Return marks that go their own way. O(producers)."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Return all marks, for a checkpoint. O(producers)."""
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, data: bytes, ttl_us: int) -> Marks:
        """Read them back."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError
