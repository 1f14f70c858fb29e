"""Producer marks: how far each producer's batches are durable, and which were refused.

One mark for each producer: its highest epoch, the last sequence of that
epoch, the log's time of it, and that epoch's newest refusals, for a producer
whose connection broke before it read them. Few are refused much: of all
producers' refusals only the newest are kept, whoever they are of. A producer
that has been idle for the time to live is forgotten, when a later entry is
recorded; so marks are a function of the log alone, and the committer's and the
engine's copies agree at equal revisions. Every operation is O(1) amortised but
for refusals, O(those kept of the producer), and if not said otherwise.
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
"""So many refusals are remembered for each producer: the newest."""

MAX_REFUSALS = 16_384
"""So many are remembered for all producers together: the newest."""

_MAX_TEXT_CHARS = 512
"""So many characters of each text of a refusal are remembered."""

_MAX_VIOLATIONS = 4
"""So many violations of each refusal are remembered."""

_FORMAT = struct.Struct("<q")
_FORMAT_2 = -2
"""2 has refusals; 1 began with an epoch, which is never negative."""
_MARK_1 = struct.Struct("<qqqI")
_MARK = struct.Struct("<qqqII")
_REFUSAL = struct.Struct("<qqI")


class Refusal(NamedTuple):
    """A sequence that was consumed by a refusal, and at which revision."""

    sequence: int
    revision: int
    refused: Refused

    def to_message(self) -> ingest_pb2.BatchRefused:
        """Return the same as it is told to the producer."""
        return ingest_pb2.BatchRefused(
            sequence=self.sequence, refusal=self.refused.to_message(), revision=self.revision
        )


class Mark(NamedTuple):
    """How far a producer has come."""

    epoch: int
    last_sequence: int
    seen_us: int
    refusals: tuple[Refusal, ...] = ()
    """The newest of this epoch, oldest first, their texts cut short."""

    def refusal(self, sequence: int) -> Refusal | None:
        """Return why a sequence of this epoch was refused; None when it was not. O(refusals)."""
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
    """Return the mark after the next sequence, which may have been refused."""
    refusals = mark.refusals if mark is not None and mark.epoch == epoch else ()
    if refused is not None:
        refusals = (*refusals, Refusal(sequence, revision, _truncate(refused)))[
            -MAX_PRODUCER_REFUSALS:
        ]
    return Mark(epoch, sequence, seen_us, refusals)


def _truncate(refused: Refused) -> Refused:
    """Return a refusal whose size is bounded, so that any number kept fits in a message."""
    violations = refused.violations[:_MAX_VIOLATIONS]
    return Refused(
        refused.code,
        refused.message[:_MAX_TEXT_CHARS],
        tuple((path[:_MAX_TEXT_CHARS], text[:_MAX_TEXT_CHARS]) for path, text in violations),
    )


class SequenceStatus(enum.IntEnum):
    """What a sequence is, seen from a mark."""

    NEXT = 0
    DUPLICATE = 1
    GAP = 2
    FENCED = 3


def sequence_status(mark: Mark | None, epoch: int, sequence: int) -> SequenceStatus:
    """Say what (epoch, sequence) is to a producer at `mark`.

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

    def __init__(self, ttl_us: int, max_refusals: int = MAX_REFUSALS) -> None:
        self._ttl_us = ttl_us
        self._max_refusals = max_refusals
        self._marks: OrderedDict[str, Mark] = OrderedDict()
        # The producer of each refusal that is remembered, by its revision, oldest first.
        self._refused: OrderedDict[int, str] = OrderedDict()

    def get(self, producer: str) -> Mark | None:
        """Return a producer's mark. Safe to call from another thread than `record`."""
        return self._marks.get(producer)

    def last_sequence(self, producer: str, epoch: int) -> int:
        """Return the last durable sequence of (producer, epoch); 0 when there is none."""
        mark = self._marks.get(producer)
        return mark.last_sequence if mark is not None and mark.epoch == epoch else 0

    @property
    def due_us(self) -> int | None:
        """When an entry would make the next producer be forgotten; None without any."""
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
        """Note a log entry (with producer "" when it has none), and forget who is idle.

        `refused` says why the entry is a refusal, and None that it is none.
        """
        marks = self._marks
        if producer:
            before = marks.get(producer)
            mark = advance(before, epoch, sequence, at_us, revision=revision, refused=refused)
            # Never deleted and set anew: a reader in between would not find it.
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
        """Note that of a producer's refusals only the newest are remembered. O(forgotten)."""
        for each in refusals:
            if kept and each.revision >= kept[0].revision:
                break
            del self._refused[each.revision]

    def _drop_oldest_refusals(self) -> None:
        """Forget the oldest refusals of all, as long as there are too many."""
        while len(self._refused) > self._max_refusals:
            _, producer = self._refused.popitem(last=False)
            mark = self._marks[producer]
            # It is the oldest of its producer's too.
            self._marks[producer] = mark._replace(refusals=mark.refusals[1:])

    def copy(self) -> Marks:
        """Return marks that go their own way. O(producers)."""
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
        """Read them back, or what a version wrote that kept no refusals. O(bytes).

        Raises
        ------
        CorruptLogError
            When the bytes are not what `to_bytes` wrote.
        """
        self = cls(ttl_us, max_refusals)
        at = 0
        try:
            plain = not data or _FORMAT.unpack_from(data)[0] >= 0
            if not plain:
                if data[: _FORMAT.size] != _FORMAT.pack(_FORMAT_2):
                    raise CorruptLogError("the producers' marks cannot be read: unknown format")
                at = _FORMAT.size
            while at < len(data):
                if plain:
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
