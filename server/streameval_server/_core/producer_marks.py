"""Producer marks: how far each producer's batches are durable, and which were refused.

A mark holds a producer's highest epoch, the last sequence of that epoch, the log's time of
it, the newest refusals of that epoch, for a producer whose connection broke before it
read them, and checksums of its newest batches, so that a repeated sequence with another
content is not taken for the same batch. The number of refusals and of checksums is bounded
per producer and, as few producers have many, for all producers together; the oldest refusals
and the checksums of the producer that was idle longest are dropped first. A producer that
was idle for the time to live is forgotten when a later entry is recorded.

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

MAX_PRODUCER_CHECKSUMS = 1_024
"""Checksums that are kept of one producer, the newest: as many batches as it may have sent
without reading an answer (`_grpc.answered_stream`)."""

MAX_CHECKSUMS = 262_144
"""Checksums that are kept of all producers together: 1 MiB."""

_CHECKSUM_BYTES = 4

_MAX_TEXT_CHARS = 512
"""Characters that are kept of each text of a refusal."""

_MAX_VIOLATIONS = 4
"""Violations that are kept of each refusal."""

_MARK_BYTES = 400
"""Memory of a mark besides the producer's name: its objects, and its place in the order."""

_REFUSAL_BYTES = 700
"""Memory of a refusal besides its texts, which are ASCII as a rule."""

_CHECKED_BYTES = 240
"""Memory of a producer's checksums besides their bytes."""

_FORMAT = struct.Struct("<q")
_MARKS_FORMAT = 1
_MARK = struct.Struct("<qqqIII")
_REFUSAL = struct.Struct("<qqI")


class RefusedSequence(NamedTuple):
    """A sequence that a refusal consumed, and the revision of that entry."""

    sequence: int
    revision: int
    refused: Refused

    def to_message(self) -> ingest_pb2.BatchRefused:
        """Return it as the message for the producer."""
        return ingest_pb2.BatchRefused(
            sequence=self.sequence, refusal=self.refused.to_message(), revision=self.revision
        )


class ProducerMark(NamedTuple):
    """How far one producer has come.

    Attributes
    ----------
    epoch : int
        Its highest.
    last_sequence : int
        The last durable sequence of that epoch.
    seen_us : int
        The log's time of it.
    refusals : tuple of RefusedSequence
        The newest of this epoch, oldest first, with truncated texts.
    checksums : bytes
        One for each of the newest batches of this epoch, up to the last sequence, in four
        little-endian bytes; 0 for a batch that was refused, and for one whose times were mended.
    """

    epoch: int
    last_sequence: int
    seen_us: int
    refusals: tuple[RefusedSequence, ...] = ()
    checksums: bytes = b""

    def agrees(self, sequence: int, content: int) -> bool:
        """Whether a sequence of this epoch may have this content. O(1).

        Parameters
        ----------
        sequence
            At most the last one.
        content
            The checksum of what is said to be its batch; 0 when it is not known.
        """
        end = len(self.checksums) - _CHECKSUM_BYTES * (self.last_sequence - sequence)
        start = end - _CHECKSUM_BYTES
        if start < 0:
            return True
        known = int.from_bytes(self.checksums[start:end], "little")
        return known in (0, content) or not content

    def refusal(self, sequence: int) -> RefusedSequence | None:
        """Return the refusal of a sequence of this epoch; None without one. O(refusals)."""
        return next((each for each in self.refusals if each.sequence == sequence), None)


def advance(
    mark: ProducerMark | None,
    epoch: int,
    sequence: int,
    seen_us: int,
    *,
    revision: int = 0,
    refused: Refused | None = None,
    content: int = 0,
) -> ProducerMark:
    """Return the mark after the next sequence, or after the start of an epoch (sequence 0).

    `refused` is given when the sequence was refused; `content` is the batch's checksum.
    """
    before = mark if mark is not None and mark.epoch == epoch else ProducerMark(epoch, 0, seen_us)
    refusals, checksums = before.refusals, before.checksums
    if sequence and (content or checksums):
        checksums += content.to_bytes(_CHECKSUM_BYTES, "little")
        checksums = checksums[-MAX_PRODUCER_CHECKSUMS * _CHECKSUM_BYTES :]
    if refused is not None:
        refusals = (*refusals, RefusedSequence(sequence, revision, _truncate(refused)))[
            -MAX_PRODUCER_REFUSALS:
        ]
    return ProducerMark(epoch, sequence, seen_us, refusals, checksums)


def _truncate(refused: Refused) -> Refused:
    """Bound the size of a refusal, so that all refusals of a producer fit in one message."""
    violations = refused.violations[:_MAX_VIOLATIONS]
    return Refused(
        refused.code,
        refused.message[:_MAX_TEXT_CHARS],
        tuple((path[:_MAX_TEXT_CHARS], text[:_MAX_TEXT_CHARS]) for path, text in violations),
    )


def _text_bytes(refusal: RefusedSequence) -> int:
    refused = refusal.refused
    return len(refused.message) + sum(len(path) + len(text) for path, text in refused.violations)


class SequenceStatus(enum.IntEnum):
    """What a sequence is in relation to a mark."""

    NEXT = 0
    DUPLICATE = 1
    """Not above the last sequence."""
    GAP = 2
    """Above the next sequence."""
    FENCED = 3
    """In an older epoch: the producer was restarted."""


def sequence_status(mark: ProducerMark | None, epoch: int, sequence: int) -> SequenceStatus:
    """Return what (epoch, sequence) is for a producer at `mark`, None for an unknown one.

    Examples
    --------
    >>> mark = ProducerMark(epoch=5, last_sequence=7, seen_us=0)
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
    max_refusals, max_checksums
        As `MAX_REFUSALS` and `MAX_CHECKSUMS`.

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

    def __init__(
        self, ttl_us: int, max_refusals: int = MAX_REFUSALS, max_checksums: int = MAX_CHECKSUMS
    ) -> None:
        self._ttl_us = ttl_us
        self._max_refusals = max_refusals
        self._max_checksum_bytes = max_checksums * _CHECKSUM_BYTES
        self._marks: OrderedDict[str, ProducerMark] = OrderedDict()
        # The producer of each kept refusal, by the refusal's revision, oldest first.
        self._refused: OrderedDict[int, str] = OrderedDict()
        self._text_bytes = 0
        # The producers that have checksums, in the order of their last entries.
        self._checked: OrderedDict[str, None] = OrderedDict()
        self._checksum_bytes = 0

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(1)."""
        return (
            _MARK_BYTES * len(self._marks)
            + _REFUSAL_BYTES * len(self._refused)
            + _CHECKED_BYTES * len(self._checked)
            + self._text_bytes
            + self._checksum_bytes
        )

    def get(self, producer: str) -> ProducerMark | None:
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
        due_us: int | None = None,
        revision: int = 0,
        refused: Refused | None = None,
        content: int = 0,
    ) -> None:
        """Record a log entry, and forget producers that have been idle.

        Parameters
        ----------
        producer, epoch, sequence
            As in the entry; "" and 0 when it has no producer.
        at_us
            Its time.
        due_us
            The time at which idleness is judged: earlier than `at_us` while the log is held.
        revision, refused
            Its revision and its refusal, when it is one.
        content
            The checksum of its batch; 0 without one.
        """
        marks = self._marks
        if producer:
            before = marks.get(producer)
            mark = advance(
                before,
                epoch,
                sequence,
                at_us,
                revision=revision,
                refused=refused,
                content=content,
            )
            # Replaced, never deleted and inserted: another thread may look it up meanwhile.
            marks[producer] = mark
            marks.move_to_end(producer)
            if before is None:
                self._text_bytes += len(producer)
            if before is not None and before.refusals is not mark.refusals:
                self._drop_refusals(before.refusals, mark.refusals)
            if refused is not None:
                self._refused[revision] = producer
                self._text_bytes += _text_bytes(mark.refusals[-1])
                self._drop_oldest_refusals()
            self._count_checksums(producer, before, mark)
            self._drop_oldest_checksums()
        idle_since = (at_us if due_us is None else due_us) - self._ttl_us
        while marks:
            oldest = next(iter(marks))
            if marks[oldest].seen_us >= idle_since:
                break
            self._text_bytes -= len(oldest)
            forgotten = marks.pop(oldest)
            self._drop_refusals(forgotten.refusals, ())
            self._count_checksums(oldest, forgotten, None)

    def restart_idle(self, at_us: int) -> None:
        """Let no producer have been idle before a time. O(producers).

        For the end of a hold, after which the time may be far ahead: a producer that sends is
        not forgotten because the clock was set.
        """
        for producer, mark in self._marks.items():
            self._marks[producer] = mark._replace(seen_us=max(mark.seen_us, at_us))

    def _drop_refusals(
        self, refusals: tuple[RefusedSequence, ...], kept: tuple[RefusedSequence, ...]
    ) -> None:
        """Remove a producer's refusals that `kept` does not have. O(removed)."""
        for each in refusals:
            if kept and each.revision >= kept[0].revision:
                break
            del self._refused[each.revision]
            self._text_bytes -= _text_bytes(each)

    def _drop_oldest_refusals(self) -> None:
        """Remove the oldest refusals of all producers until the limit is met."""
        while len(self._refused) > self._max_refusals:
            _, producer = self._refused.popitem(last=False)
            mark = self._marks[producer]
            # The oldest of all is the oldest of its producer.
            self._text_bytes -= _text_bytes(mark.refusals[0])
            self._marks[producer] = mark._replace(refusals=mark.refusals[1:])

    def _count_checksums(
        self, producer: str, before: ProducerMark | None, after: ProducerMark | None
    ) -> None:
        """Count a producer's checksums; a producer that has some becomes the newest of them."""
        size = 0 if after is None else len(after.checksums)
        self._checksum_bytes += size - (0 if before is None else len(before.checksums))
        if size:
            self._checked[producer] = None
            self._checked.move_to_end(producer)
        else:
            self._checked.pop(producer, None)

    def _drop_oldest_checksums(self) -> None:
        """Remove the checksums of producers, idle ones first, until the limit is met."""
        while self._checksum_bytes > self._max_checksum_bytes:
            producer, _ = self._checked.popitem(last=False)
            mark = self._marks[producer]
            self._checksum_bytes -= len(mark.checksums)
            self._marks[producer] = mark._replace(checksums=b"")

    def copy(self) -> Marks:
        """Return an independent copy. O(producers + refusals)."""
        other = Marks(self._ttl_us, self._max_refusals, self._max_checksum_bytes // _CHECKSUM_BYTES)
        other._checked = self._checked.copy()
        other._checksum_bytes = self._checksum_bytes
        other._marks = self._marks.copy()
        other._refused = self._refused.copy()
        other._text_bytes = self._text_bytes
        return other

    def to_bytes(self) -> bytes:
        """Return all marks, for a checkpoint. O(producers + refusals + checksums)."""
        pieces = [_FORMAT.pack(_MARKS_FORMAT)]
        for producer, (epoch, last, seen_us, refusals, checksums) in self._marks.items():
            name = producer.encode()
            head = _MARK.pack(epoch, last, seen_us, len(name), len(refusals), len(checksums))
            pieces += (head, name, checksums)
            for sequence, revision, refused in refusals:
                text = refused.to_message().SerializeToString(deterministic=True)
                pieces += (_REFUSAL.pack(sequence, revision, len(text)), text)
        return b"".join(pieces)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        ttl_us: int,
        max_refusals: int = MAX_REFUSALS,
        max_checksums: int = MAX_CHECKSUMS,
    ) -> Marks:
        """Read marks. O(bytes).

        Raises
        ------
        CorruptLogError
            When the bytes are not what `to_bytes` wrote.
        """
        self = cls(ttl_us, max_refusals, max_checksums)
        at = 0
        try:
            (format_,) = _FORMAT.unpack_from(data)
            if format_ != _MARKS_FORMAT:
                raise CorruptLogError("the producers' marks cannot be read: unknown format")
            at = _FORMAT.size
            while at < len(data):
                epoch, last, seen_us, length, num_refusals, num_bytes = _MARK.unpack_from(data, at)
                at += _MARK.size
                producer = data[at : at + length].decode()
                at += length
                checksums = data[at : at + num_bytes]
                at += num_bytes
                refusals = []
                for _ in range(num_refusals):
                    sequence, revision, length = _REFUSAL.unpack_from(data, at)
                    at += _REFUSAL.size
                    message = status_pb2.Refusal.FromString(data[at : at + length])
                    at += length
                    refusals.append(
                        RefusedSequence(sequence, revision, Refused.from_message(message))
                    )
                mark = ProducerMark(epoch, last, seen_us, tuple(refusals), checksums)
                self._marks[producer] = mark
                self._count_checksums(producer, None, mark)
        except (struct.error, ValueError, DecodeError) as error:
            raise CorruptLogError(f"the producers' marks cannot be read: {error}") from error
        if at != len(data):
            raise CorruptLogError("the producers' marks cannot be read: they end too soon")
        self._text_bytes = sum(map(len, self._marks)) + sum(
            _text_bytes(each) for mark in self._marks.values() for each in mark.refusals
        )
        self._refused.update(
            sorted(
                (each.revision, producer)
                for producer, mark in self._marks.items()
                for each in mark.refusals
            )
        )
        self._drop_oldest_refusals()
        self._drop_oldest_checksums()
        return self

    def __len__(self) -> int:
        return len(self._marks)
