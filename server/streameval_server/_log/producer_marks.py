"""Producer marks: how far each producer's batches are durable, and which were refused.

A mark holds a producer's highest epoch, the last sequence of that epoch, the log's time of
it, and the newest refusals of that epoch, for a producer whose connection broke before it
read them. The number of refusals is bounded per producer and, as few producers have many,
for all producers together; the oldest are dropped first. A producer that was idle for the
time to live is forgotten when a later entry is recorded.

So marks are a function of the log alone, and the committer's and the engine's copies agree at
equal revisions. Every operation is amortised O(1), plus O(the producer's refusals) when a
refusal is involved, unless its docstring says otherwise.
"""

from __future__ import annotations

import enum
import struct
from collections import OrderedDict
from typing import NamedTuple

from google.protobuf.message import DecodeError

from streameval.v1 import ingest_pb2, status_pb2
from streameval_server._model.errors import CorruptLogError, Refused

MAX_PRODUCER_REFUSALS = 64
"""Refusals that are kept of one producer, the newest."""

MAX_REFUSALS = 16_384
"""Refusals that are kept of all producers together, the newest."""

_MAX_TEXT_CHARS = 512
"""Characters that are kept of each text of a refusal."""

_MAX_VIOLATIONS = 4
"""Violations that are kept of each refusal."""

_FORMAT = struct.Struct("<q")
_FORMAT_2 = -2
"""Format 2 has refusals. Format 1 begins with an epoch, which is never negative."""
_MARK_1 = struct.Struct("<qqqI")
_MARK = struct.Struct("<qqqII")
_REFUSAL = struct.Struct("<qqI")


class Refusal(NamedTuple):
    """A sequence that a refusal consumed, and the revision of that entry."""

    sequence: int
    revision: int
    refused: Refused

    def to_message(self) -> ingest_pb2.BatchRefused:
        """Return it as the message for the producer."""
        return ingest_pb2.BatchRefused(
            sequence=self.sequence, refusal=self.refused.to_message(), revision=self.revision
        )


class Mark(NamedTuple):
    """How far one producer has come.

    Attributes
    ----------
    epoch : int
        Its highest.
    last_sequence : int
        The last durable sequence of that epoch.
    seen_us : int
        The log's time of it.
    refusals : tuple of Refusal
        The newest of this epoch, oldest first, with truncated texts.
    """

    epoch: int
    last_sequence: int
    seen_us: int
    refusals: tuple[Refusal, ...] = ()

    def refusal(self, sequence: int) -> Refusal | None:
        """Return the refusal of a sequence of this epoch; None without one. O(refusals)."""
        return next((each for each in self.refusals if each.sequence == sequence), None)


def advance(
    mark: Mark | None,
    epoch: int,
    sequence: int,
    seen_us: int,
    *,
    revision: int = 0,
    refused: Refused | None = None,
) -> Mark:
    """Return the mark after the next sequence; `refused` is given when that was refused."""
    refusals = mark.refusals if mark is not None and mark.epoch == epoch else ()
    if refused is not None:
        refusals = (*refusals, Refusal(sequence, revision, _truncate(refused)))[
            -MAX_PRODUCER_REFUSALS:
        ]
    return Mark(epoch, sequence, seen_us, refusals)


def _truncate(refused: Refused) -> Refused:
    """Bound the size of a refusal, so that all refusals of a producer fit in one message."""
    violations = refused.violations[:_MAX_VIOLATIONS]
    return Refused(
        refused.code,
        refused.message[:_MAX_TEXT_CHARS],
        tuple((path[:_MAX_TEXT_CHARS], text[:_MAX_TEXT_CHARS]) for path, text in violations),
    )


class SequenceStatus(enum.IntEnum):
    """What a sequence is in relation to a mark."""

    NEXT = 0
    DUPLICATE = 1
    """Not above the last sequence."""
    GAP = 2
    """Above the next sequence."""
    FENCED = 3
    """Of an older epoch: the producer was restarted."""


def sequence_status(mark: Mark | None, epoch: int, sequence: int) -> SequenceStatus:
    """Return what (epoch, sequence) is for a producer at `mark`, None for an unknown one.

    Examples
    --------
    >>> mark = Mark(epoch=5, last_sequence=7, seen_us=0)
    >>> [sequence_status(mark, 5, n).name for n in (7, 8, 9)]
    ['DUPLICATE', 'NEXT', 'GAP']
    >>> sequence_status(mark, 4, 8).name, sequence_status(mark, 6, 1).name
    ('FENCED', 'NEXT')
    """
    last = 0
    if mark is not None:
        if epoch < mark.epoch:
            return SequenceStatus.FENCED
        if epoch == mark.epoch:
            last = mark.last_sequence
    if sequence == last + 1:
        return SequenceStatus.NEXT
    return SequenceStatus.DUPLICATE if sequence <= last else SequenceStatus.GAP


class Marks:
    """The marks of all producers, in the order of their last entries.

    Parameters
    ----------
    ttl_us
        Idle time after which a producer is forgotten.
    max_refusals
        As `MAX_REFUSALS`.

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

    def __init__(self, ttl_us: int, max_refusals: int = MAX_REFUSALS) -> None:
        self._ttl_us = ttl_us
        self._max_refusals = max_refusals
        self._marks: OrderedDict[str, Mark] = OrderedDict()
        # The producer of each kept refusal, by the refusal's revision, oldest first.
        self._refused: OrderedDict[int, str] = OrderedDict()

    def get(self, producer: str) -> Mark | None:
        """Return a producer's mark; None for an unknown one. Safe in any thread."""
        return self._marks.get(producer)

    def last_sequence(self, producer: str, epoch: int) -> int:
        """Return the last durable sequence of (producer, epoch); 0 when there is none."""
        mark = self._marks.get(producer)
        return mark.last_sequence if mark is not None and mark.epoch == epoch else 0

    @property
    def due_us(self) -> int | None:
        """The time from which an entry makes a producer be forgotten; None without producers."""
        oldest = next(iter(self._marks.values()), None)
        return None if oldest is None else oldest.seen_us + self._ttl_us + 1

    def record(
        self,
        producer: str,
        epoch: int,
        sequence: int,
        at_us: int,
        *,
        revision: int = 0,
        refused: Refused | None = None,
    ) -> None:
        """Record a log entry, and forget producers that have been idle.

        Parameters
        ----------
        producer, epoch, sequence
            As in the entry; "" and 0 when it has no producer.
        at_us
            Its time.
        revision, refused
            Its revision and its refusal, when it is one.
        """
        marks = self._marks
        if producer:
            before = marks.get(producer)
            mark = advance(before, epoch, sequence, at_us, revision=revision, refused=refused)
            # Replaced, never deleted and inserted: another thread may look it up meanwhile.
            marks[producer] = mark
            marks.move_to_end(producer)
            if before is not None and before.refusals is not mark.refusals:
                self._drop_refusals(before.refusals, mark.refusals)
            if refused is not None:
                self._refused[revision] = producer
                self._drop_oldest_refusals()
        idle_since = at_us - self._ttl_us
        while marks:
            oldest = next(iter(marks))
            if marks[oldest].seen_us >= idle_since:
                break
            self._drop_refusals(marks.pop(oldest).refusals, ())

    def _drop_refusals(self, refusals: tuple[Refusal, ...], kept: tuple[Refusal, ...]) -> None:
        """Remove those of a producer's refusals that are not in `kept`. O(removed)."""
        for each in refusals:
            if kept and each.revision >= kept[0].revision:
                break
            del self._refused[each.revision]

    def _drop_oldest_refusals(self) -> None:
        """Remove the oldest refusals of all producers until the limit is met."""
        while len(self._refused) > self._max_refusals:
            _, producer = self._refused.popitem(last=False)
            mark = self._marks[producer]
            # The oldest of all is the oldest of its producer.
            self._marks[producer] = mark._replace(refusals=mark.refusals[1:])

    def copy(self) -> Marks:
        """Return an independent copy. O(producers + refusals)."""
        other = Marks(self._ttl_us, self._max_refusals)
        other._marks = self._marks.copy()
        other._refused = self._refused.copy()
        return other

    def to_bytes(self) -> bytes:
        """Return all marks, for a checkpoint. O(producers + refusals)."""
        pieces = [_FORMAT.pack(_FORMAT_2)]
        for producer, (epoch, last, seen_us, refusals) in self._marks.items():
            name = producer.encode()
            pieces += (_MARK.pack(epoch, last, seen_us, len(name), len(refusals)), name)
            for sequence, revision, refused in refusals:
                text = refused.to_message().SerializeToString(deterministic=True)
                pieces += (_REFUSAL.pack(sequence, revision, len(text)), text)
        return b"".join(pieces)

    @classmethod
    def from_bytes(cls, data: bytes, ttl_us: int, max_refusals: int = MAX_REFUSALS) -> Marks:
        """Read marks of either format. O(bytes).

        Raises
        ------
        CorruptLogError
            When the bytes are not what `to_bytes` wrote.
        """
        self = cls(ttl_us, max_refusals)
        at = 0
        try:
            is_format_1 = not data or _FORMAT.unpack_from(data)[0] >= 0
            if not is_format_1:
                if data[: _FORMAT.size] != _FORMAT.pack(_FORMAT_2):
                    raise CorruptLogError("the producers' marks cannot be read: unknown format")
                at = _FORMAT.size
            while at < len(data):
                if is_format_1:
                    epoch, last, seen_us, length = _MARK_1.unpack_from(data, at)
                    at, num_refusals = at + _MARK_1.size, 0
                else:
                    epoch, last, seen_us, length, num_refusals = _MARK.unpack_from(data, at)
                    at += _MARK.size
                producer = data[at : at + length].decode()
                at += length
                refusals = []
                for _ in range(num_refusals):
                    sequence, revision, length = _REFUSAL.unpack_from(data, at)
                    at += _REFUSAL.size
                    message = status_pb2.Refusal.FromString(data[at : at + length])
                    at += length
                    refusals.append(Refusal(sequence, revision, Refused.from_message(message)))
                self._marks[producer] = Mark(epoch, last, seen_us, tuple(refusals))
        except (struct.error, ValueError, DecodeError) as error:
            raise CorruptLogError(f"the producers' marks cannot be read: {error}") from error
        if at != len(data):
            raise CorruptLogError("the producers' marks cannot be read: they end too soon")
        self._refused.update(
            sorted(
                (each.revision, producer)
                for producer, mark in self._marks.items()
                for each in mark.refusals
            )
        )
        self._drop_oldest_refusals()
        return self

    def __len__(self) -> int:
        return len(self._marks)
