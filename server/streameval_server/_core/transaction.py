"""A transaction in the making: what each item becomes, if the commit succeeds.

The draft sees durable marks and totals with its own rows on top, and changes
neither: after a failed commit it is thrown away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._counts import MAX_TOTAL
from streameval.v1 import stream_pb2
from streameval_server._batch.decode import batch_of, decode
from streameval_server._log.catalog import NEW, StreamFacts, counted
from streameval_server._log.entries import (
    Entry,
    Format,
    Item,
    Kind,
    LogRow,
    Outcome,
    Status,
    checksum,
)
from streameval_server._log.failpoints import DRAFTED, failpoint
from streameval_server._log.producer_marks import Mark, Verdict, advanced, judge
from streameval_server._model.errors import Code, Refused, RefusedError, RequestError
from streameval_server._model.rows import MergeRows
from streameval_server._model.stream_settings import DEFAULTS, check, settings_of, updated
from streameval_server._state.stream_file import StreamFile

if TYPE_CHECKING:
    from streameval_server._log.catalog import Catalog
    from streameval_server._log.producer_marks import Marks
    from streameval_server._model.limits import Limits


class _Nobody:
    """Waits for the outcome of a tick."""

    def settle(self, outcome: Outcome) -> None:
        """Do nothing."""


class Transaction:
    """One transaction's rows, entries and outcomes.

    Parameters
    ----------
    marks, catalog
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
        catalog: Catalog,
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
        self._revision = revision
        self._received_us = received_us
        self._auto_create = auto_create
        self._new_marks: dict[str, Mark] = {}
        self._catalog = catalog
        # What this transaction makes of each stream that it touches; None: deleted.
        self._new: dict[str, StreamFacts | None] = {}
        self._num_streams = len(catalog)

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
            try:
                is_new = self._merged(item) if item.kind == Kind.MERGE else self._administered(item)
            except RequestError as error:
                self.outcomes.append(Outcome(item, Status.FAILED, error=error))
                return
            if not is_new:
                self.outcomes.append(Outcome(item, Status.DUPLICATE, revision=self._revision))
                return
        self._log(item, item.kind, item.format, item.payload)

    def tick(self) -> None:
        """Let time pass, and nothing else happen."""
        item = Item(_Nobody(), Kind.TICK, Format.TICK, "", "", 0, 0, b"")
        self._log(item, item.kind, item.format, item.payload)

    def _not_next(self, item: Item, verdict: Verdict, mark: Mark | None) -> Outcome:
        if verdict is Verdict.DUPLICATE:
            refusal = None if mark is None else mark.refusal(item.sequence)
            if refusal is not None:
                revision, refused = refusal.revision, refusal.refused
                return Outcome(item, Status.REFUSED, revision, refused=refused)
            # What it repeats may be in this very transaction.
            return Outcome(item, Status.DUPLICATE, revision=self._revision)
        epoch, last = (0, 0) if mark is None else (mark.epoch, mark.last_sequence)
        if verdict is Verdict.FENCED:
            return Outcome(item, Status.FAILED, error=fenced(item.producer, item.epoch, epoch))
        expected = last + 1 if epoch == item.epoch else 1
        return Outcome(item, Status.FAILED, error=gap(item.sequence, expected))

    def _counted(self, item: Item) -> Refused | None:
        """Count a batch's rows in its stream's total, or say why they cannot be."""
        if item.rows is None:
            return None
        known = self._known(item.stream)
        settings = DEFAULTS if known is None else known.settings
        if item.settings is not settings and item.settings != settings:
            # The settings changed since it was found good.
            try:
                batch = batch_of(item.format, item.payload)
                item.rows = decode(batch, 0, self._received_us, self._limits, settings)
            except RefusedError as error:
                return error.refused
            if item.rows is None:
                return None
        return self._added(item.stream, known, item.rows.total, item.rows)

    def _added(
        self, name: str, known: StreamFacts | None, total: int, rows: object
    ) -> Refused | None:
        """Add references to a stream, made if need be; or say why not."""
        if known is None:
            if not self._auto_create:
                return _refused(Code.NOT_FOUND, "stream", f"there is no stream {name}: create it")
            if self._num_streams >= self._limits.max_streams:
                return _refused(Code.RESOURCE_EXHAUSTED, "stream", too_many_streams(self._limits))
            self._num_streams += 1
            known = NEW
        if known.total + total >= MAX_TOTAL:
            return _refused(
                Code.RESOURCE_EXHAUSTED,
                "stream",
                f"stream {name} would hold {known.total + total} references, "
                "and the most is 2**62 - 1",
            )
        self._new[name] = counted(known, total, rows)
        return None

    def _merged(self, item: Item) -> bool:
        """Count a merge; say whether it is new. Raises RequestError when it cannot be."""
        rows = item.rows
        assert isinstance(rows, MergeRows)
        known = self._known(item.stream)
        settings = DEFAULTS if known is None else known.settings
        sources = NEW.sources if known is None else known.sources
        if rows.epoch <= sources.get(rows.source, 0):
            return False
        if item.settings is not settings and item.settings != settings:
            raise RequestError(
                Code.ABORTED,
                f"the settings of stream {item.stream} changed while it was merged: merge again",
                reason="SETTINGS_CHANGED",
                retry_after_s=0.0,
            )
        if rows.source not in sources and len(sources) >= self._limits.max_merge_sources:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"{len(sources)} sources merged into stream {item.stream}, and no more may",
                reason="TOO_MANY_SOURCES",
            )
        refused = self._added(item.stream, known, rows.total, rows)
        if refused is not None:
            raise refused.to_error()
        return True

    def _administered(self, item: Item) -> bool:
        """Make, change or delete a stream. Raises RequestError when that cannot be."""
        name, request = item.stream, item.request
        known = self._known(name)
        if isinstance(request, stream_pb2.CreateStreamRequest | StreamFile):
            if known is not None:
                raise RequestError(
                    Code.ALREADY_EXISTS, f"there is a stream {name} already", reason="STREAM_EXISTS"
                )
            if self._num_streams >= self._limits.max_streams:
                raise RequestError(
                    Code.RESOURCE_EXHAUSTED,
                    too_many_streams(self._limits),
                    reason="TOO_MANY_STREAMS",
                )
            self._new[name] = self._made(request)
            self._num_streams += 1
        elif known is None:
            raise no_stream(name)
        elif isinstance(request, stream_pb2.UpdateStreamRequest):
            settings = updated(known.settings, request)
            check(settings, self._limits)
            self._new[name] = known._replace(settings=settings)
        else:
            self._num_streams -= 1
            self._new[name] = None
        return True

    def _made(self, request: stream_pb2.CreateStreamRequest | StreamFile) -> StreamFacts:
        """Return what is known of a stream that is made now. Raises RequestError."""
        if isinstance(request, StreamFile):
            if request.time_us > self._received_us:
                ahead_s = (request.time_us - self._received_us) / 1e6
                raise RequestError(
                    Code.FAILED_PRECONDITION,
                    f"the stream was exported {ahead_s:.3f} s after this server's time: "
                    "import it later, and look at both clocks",
                    reason="EXPORT_IN_FUTURE",
                    retry_after_s=ahead_s,
                )
            return StreamFacts(request.total, request.settings, dict(request.sources))
        settings = settings_of(request.stream.settings)
        check(settings, self._limits)
        return StreamFacts(settings=settings)

    def _known(self, name: str) -> StreamFacts | None:
        new = self._new
        return new[name] if name in new else self._catalog.get(name)

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
            Entry(
                revision,
                received_us,
                kind,
                item.stream,
                producer,
                epoch,
                sequence,
                item.rows,
                item.request,
                item.refused,
            )
        )
        self.nbytes += len(payload)
        if producer:
            mark = self._new_marks.get(producer) or self._marks.get(producer)
            self._new_marks[producer] = advanced(
                mark, epoch, sequence, received_us, revision=revision, refused=item.refused
            )
        status = Status.REFUSED if kind == Kind.REFUSED else Status.DURABLE
        self.outcomes.append(Outcome(item, status, revision, received_us, item.refused))
        failpoint(DRAFTED[kind])


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
