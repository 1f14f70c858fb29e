"""Producer marks: how far each producer's batches are durable.

One mark for each producer: its highest epoch, the last sequence of that
epoch, and the log's time of it. A producer that has been idle for the time
to live is forgotten, when a later entry is recorded; so marks are a function
of the log alone, and the committer's and the engine's copies agree at equal
revisions. Every operation is O(1) amortised, if not said otherwise.
"""

from __future__ import annotations

import enum
import struct
from collections import OrderedDict
from typing import NamedTuple

from streameval_server._errors import CorruptLogError

_MARK = struct.Struct("<qqqI")


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
    """Say what (epoch, sequence) is to a producer at `mark`.

    Examples
    --------
    >>> mark = Mark(epoch=5, last_sequence=7, seen_us=0)
    >>> [judge(mark, 5, n).name for n in (7, 8, 9)], judge(mark, 4, 8).name, judge(mark, 6, 1).name
    (['DUPLICATE', 'NEXT', 'GAP'], 'FENCED', 'NEXT')
    """
    last = 0
    if mark is not None:
        if epoch < mark.epoch:
            return Verdict.FENCED
        if epoch == mark.epoch:
            last = mark.last_sequence
    if sequence == last + 1:
        return Verdict.NEXT
    return Verdict.DUPLICATE if sequence <= last else Verdict.GAP


class Marks:
    """The marks of all producers, in the order in which they were last seen.

    Examples
    --------
    >>> marks = Marks(ttl_us=100)
    >>> marks.record("a", 5, 1, at_us=0)
    >>> marks.last_sequence("a", 5), marks.last_sequence("a", 6)
    (1, 0)
    >>> marks.record("", 0, 0, at_us=101)
    >>> len(marks)
    0
    """

    def __init__(self, ttl_us: int) -> None:
        self._ttl_us = ttl_us
        self._marks: OrderedDict[str, Mark] = OrderedDict()

    def get(self, producer: str) -> Mark | None:
        """Return a producer's mark. Safe to call from another thread than `record`."""
        return self._marks.get(producer)

    def last_sequence(self, producer: str, epoch: int) -> int:
        """Return the last durable sequence of (producer, epoch); 0 when there is none."""
        mark = self._marks.get(producer)
        return mark.last_sequence if mark is not None and mark.epoch == epoch else 0

    def record(self, producer: str, epoch: int, sequence: int, at_us: int) -> None:
        """Note a log entry (with producer "" when it has none), and forget who is idle."""
        marks = self._marks
        if producer:
            # Never deleted and set anew: a reader in between would not find it.
            marks[producer] = Mark(epoch, sequence, at_us)
            marks.move_to_end(producer)
        idle_since = at_us - self._ttl_us
        while marks:
            oldest = next(iter(marks))
            if marks[oldest].seen_us >= idle_since:
                break
            del marks[oldest]

    def copy(self) -> Marks:
        """Return marks that go their own way. O(producers)."""
        other = Marks(self._ttl_us)
        other._marks = self._marks.copy()
        return other

    def to_bytes(self) -> bytes:
        """Return all marks, for a checkpoint. O(producers)."""
        pieces: list[bytes] = []
        for producer, mark in self._marks.items():
            name = producer.encode()
            pieces += (_MARK.pack(*mark, len(name)), name)
        return b"".join(pieces)

    @classmethod
    def from_bytes(cls, data: bytes, ttl_us: int) -> Marks:
        """Read them back. O(producers).

        Raises
        ------
        CorruptLogError
            When the bytes are not what `to_bytes` wrote.
        """
        self = cls(ttl_us)
        at = 0
        try:
            while at < len(data):
                epoch, sequence, seen_us, length = _MARK.unpack_from(data, at)
                at += _MARK.size
                self._marks[data[at : at + length].decode()] = Mark(epoch, sequence, seen_us)
                at += length
        except (struct.error, UnicodeDecodeError) as error:
            raise CorruptLogError(f"the producers' marks cannot be read: {error}") from error
        if at != len(data):
            raise CorruptLogError("the producers' marks cannot be read: they end too soon")
        return self

    def __len__(self) -> int:
        return len(self._marks)
