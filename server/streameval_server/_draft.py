"""A transaction in the making: what each item becomes, if the commit succeeds.

The draft sees durable marks and totals with its own rows on top, and changes
neither: after a failed commit it is thrown away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._multiset import LIMIT
from streameval_server._entries import Entry, Format, Kind, LogRow, Outcome, Status, checksum
from streameval_server._errors import Code, Refused, RequestError
from streameval_server._marks import Mark, Verdict, judge

if TYPE_CHECKING:
    from streameval_server._entries import Item
    from streameval_server._limits import Limits
    from streameval_server._marks import Marks


class Draft:
    """One transaction's rows, entries and outcomes.

    Parameters
    ----------
    marks, totals
        As of the last durable entry; only read.
    limits
        The server's.
    revision : int
        Of the last durable entry.
    received_us : int
        The time of all rows of this transaction.
    auto_create : bool
        Whether a batch for an unknown stream makes it.
    """

    def __init__(
        self,
        *,
        marks: Marks,
        totals: dict[str, int],
        limits: Limits,
        revision: int,
        received_us: int,
        auto_create: bool,
    ) -> None:
        self.rows: list[LogRow] = []
        self.entries: list[Entry] = []
        self.outcomes: list[Outcome] = []
        self.nbytes = 0
        self._marks = marks
        self._limits = limits
        self._durable_revision = revision
        self._revision = revision
        self._received_us = received_us
        self._auto_create = auto_create
        self._new_marks: dict[str, Mark] = {}
        self._totals = totals
        # What this transaction makes of each stream that it touches; None: deleted.
        self._new_totals: dict[str, int | None] = {}
        self._num_streams = len(totals)

    def add(self, item: Item) -> None:
        """Decide on an item, after all that were added before. O(payload)."""
        if item.producer:
            mark = self._new_marks.get(item.producer) or self._marks.get(item.producer)
            verdict = judge(mark, item.epoch, item.sequence)
            if verdict is not Verdict.NEXT:
                self.outcomes.append(self._not_next(item, verdict, mark))
                return
        if item.kind == Kind.BATCH:
            refused = self._counted(item)
            if refused is not None:
                self._refuse(item, refused)
                return
        elif item.kind != Kind.REFUSED:
            error = self._administered(item)
            if error is not None:
                self.outcomes.append(Outcome(item, Status.FAILED, error=error))
                return
        self._log(item, item.kind, item.format, item.payload)

    def _not_next(self, item: Item, verdict: Verdict, mark: Mark | None) -> Outcome:
        if verdict is Verdict.DUPLICATE:
            # What it repeats may be in this very transaction.
            return Outcome(item, Status.DUPLICATE, revision=self._revision)
        epoch, last = (0, 0) if mark is None else (mark.epoch, mark.last_sequence)
        if verdict is Verdict.FENCED:
            return Outcome(item, Status.FAILED, error=fenced(item.producer, item.epoch, epoch))
        expected = last + 1 if epoch == item.epoch else 1
        return Outcome(item, Status.FAILED, error=gap(item.sequence, expected))

    def _counted(self, item: Item) -> Refused | None:
        """Count a batch's rows in its stream's total, or say why they cannot be."""
        rows = item.rows
        if rows is None:
            return None
        name = item.stream
        before = self._total(name)
        if before is None:
            if not self._auto_create:
                return _refused(Code.NOT_FOUND, "stream", f"there is no stream {name}: create it")
            if self._num_streams >= self._limits.max_streams:
                return _refused(Code.RESOURCE_EXHAUSTED, "stream", too_many_streams(self._limits))
            self._num_streams += 1
            before = 0
        total = before + rows.total
        if total >= LIMIT:
            return _refused(
                Code.RESOURCE_EXHAUSTED,
                "stream",
                f"stream {name} would hold {total} references, and the most is 2**62 - 1",
            )
        self._new_totals[name] = total
        return None

    def _administered(self, item: Item) -> RequestError | None:
        """Make or delete a stream, or say why not."""
        name = item.stream
        there = self._total(name) is not None
        if item.kind == Kind.CREATE_STREAM:
            if there:
                return RequestError(
                    Code.ALREADY_EXISTS, f"there is a stream {name} already", reason="STREAM_EXISTS"
                )
            if self._num_streams >= self._limits.max_streams:
                return RequestError(
                    Code.RESOURCE_EXHAUSTED,
                    too_many_streams(self._limits),
                    reason="TOO_MANY_STREAMS",
                )
            self._num_streams += 1
            self._new_totals[name] = 0
            return None
        if not there:
            return no_stream(name)
        self._num_streams -= 1
        self._new_totals[name] = None
        return None

    def _total(self, name: str) -> int | None:
        new = self._new_totals
        return new[name] if name in new else self._totals.get(name)

    def _refuse(self, item: Item, refused: Refused) -> None:
        item.refused = refused
        item.rows = None
        if item.producer:
            payload = refused.to_message().SerializeToString()
            self._log(item, Kind.REFUSED, Format.REFUSAL, payload)
        else:
            self.outcomes.append(Outcome(item, Status.FAILED, error=refused.to_error()))

    def _log(self, item: Item, kind: int, format_: int, payload: bytes) -> None:
        """Add the item's row, entry and outcome."""
        revision = self._revision = self._revision + 1
        received_us = self._received_us
        producer, epoch, sequence = item.producer, item.epoch, item.sequence
        head = (
            revision,
            received_us,
            int(kind),
            int(format_),
            item.stream,
            producer,
            epoch,
            sequence,
        )
        self.rows.append(LogRow(*head, checksum(head, payload), payload))
        self.entries.append(
            Entry(revision, received_us, kind, item.stream, producer, epoch, sequence, item.rows)
        )
        self.nbytes += len(payload)
        if producer:
            self._new_marks[producer] = Mark(epoch, sequence, received_us)
        status = Status.REFUSED if kind == Kind.REFUSED else Status.DURABLE
        self.outcomes.append(Outcome(item, status, revision, received_us, item.refused))

    @staticmethod
    def count(totals: dict[str, int], entry: Entry) -> None:
        """Bring totals up to date with an entry that is durable."""
        if entry.rows is not None:
            totals[entry.stream] = totals.get(entry.stream, 0) + entry.rows.total
        elif entry.kind == Kind.CREATE_STREAM:
            totals[entry.stream] = 0
        elif entry.kind == Kind.DELETE_STREAM:
            del totals[entry.stream]


def gap(sequence: int, expected: int) -> RequestError:
    """Return the error of a batch that does not follow the one before."""
    return RequestError(
        Code.OUT_OF_RANGE,
        f"sequence {sequence} leaves a gap: expected {expected}",
        reason="SEQUENCE_GAP",
        metadata={"expected_sequence": str(expected)},
    )


def fenced(producer: str, epoch: int, current: int) -> RequestError:
    """Return the error of a producer that was started again since."""
    return RequestError(
        Code.FAILED_PRECONDITION,
        f"producer {producer} has epoch {current} by now, and {epoch} may send no more",
        reason="EPOCH_FENCED",
        metadata={"current_epoch": str(current)},
    )


def no_stream(name: str) -> RequestError:
    """Return the error of a call for a stream that is not there."""
    return RequestError(Code.NOT_FOUND, f"there is no stream {name}", reason="NO_STREAM")


def too_many_streams(limits: Limits) -> str:
    """Return the text of the limit on streams."""
    return f"there are {limits.max_streams} streams, and no more may be: delete one"


def _refused(code: Code, field: str, message: str) -> Refused:
    return Refused(code, message, ((field, message),))
