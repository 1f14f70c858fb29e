"""One transaction before its commit: the log row, entry and outcome of each item.

A `Transaction` reads the marks and the catalog as of the last durable entry and keeps its
own changes on top of them, in memory only. After a failed commit it is discarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.checks import dot_segment_problem
from streameval.kernel import WEIGHT_UNITS, State
from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server._batch.content import content_checksum
from streameval_server._batch.decode import batch_of, decode, settings_for
from streameval_server._core.catalog import (
    NEW,
    StreamFacts,
    add_rows,
    apply_change,
    apply_pair_change,
    sides_of,
)
from streameval_server._core.entries import Entry, Item, Outcome, Status
from streameval_server._core.producer_marks import (
    ProducerMark,
    SequenceStatus,
    advance,
    sequence_status,
)
from streameval_server._log.failpoints import DRAFTED, failpoint
from streameval_server._log.rows import REPEATABLE, Format, Kind, LogRow, checksum
from streameval_server._model.errors import (
    Code,
    Refused,
    RefusedError,
    RequestError,
    epoch_fenced,
    epoch_moved,
    no_stream,
    sequence_gap,
    sequence_reused,
)
from streameval_server._model.idempotency import request_id_reused
from streameval_server._model.pair_settings import PairCreation, PairDeletion, no_pair
from streameval_server._model.row_kinds import MergeRows
from streameval_server._model.stream_settings import (
    DEFAULTS,
    SettingsUpdate,
    StreamSettings,
    check,
    first_settings,
)
from streameval_server._state.pairs.pair_file import PairImport, no_stream_of_import
from streameval_server._state.stream_file import StreamFile

if TYPE_CHECKING:
    from streameval_server._core.catalog import Catalog
    from streameval_server._core.entries import PairChange
    from streameval_server._core.producer_marks import Marks
    from streameval_server._log.rows import RowHead
    from streameval_server._model.limits import Limits
    from streameval_server._model.row_kinds import Rows


class Transaction:
    """The rows, entries and outcomes of one commit.

    Parameters
    ----------
    marks, catalog
        As of the last durable entry; never written to.
    limits
        The server's.
    revision, crc32 : int
        The last durable row's.
    received_us : int
        The time of all rows of this transaction.
    disputed_us : int or None
        What the time is otherwise while the clock is in doubt.
    auto_create : bool
        Whether a batch for an unknown stream creates it.

    Attributes
    ----------
    rows : list of LogRow
        To be committed, in order.
    entries : list of Entry
        The same rows, decoded, for the engine.
    outcomes : list of Outcome
        One for each item, in order; true once the rows are durable.
    nbytes : int
        Length of all payloads.
    """

    def __init__(
        self,
        *,
        marks: Marks,
        catalog: Catalog,
        limits: Limits,
        revision: int,
        crc32: int,
        received_us: int,
        disputed_us: int | None = None,
        auto_create: bool,
    ) -> None:
        self.rows: list[LogRow] = []
        self.entries: list[Entry] = []
        self.outcomes: list[Outcome] = []
        self.nbytes = 0
        self._marks = marks
        self._limits = limits
        self._revision = revision
        self._crc32 = crc32
        self._received_us = received_us
        self._disputed_us = disputed_us
        self._auto_create = auto_create
        self._new_marks: dict[str, ProducerMark] = {}
        self._catalog = catalog
        # The facts of each stream that this transaction touches; None when it deletes it.
        self._new: dict[str, StreamFacts | None] = {}
        self._num_streams = len(catalog)

    def add(self, item: Item) -> None:
        """Decide on an item, given the items added before it. O(payload)."""
        if item.kind == Kind.OPEN:
            self._open(item)
            return
        if item.producer:
            rejected = self._check_mark(item)
            if rejected is not None:
                self.outcomes.append(rejected)
                return
        if item.kind == Kind.BATCH:
            refused = self._count_batch(item)
            if refused is not None:
                self._refuse(item, refused)
                return
        elif item.kind != Kind.REFUSED:
            try:
                if item.kind != Kind.MERGE:
                    self._change_stream(item)
                elif not self._count_merge(item):
                    self.outcomes.append(Outcome(item, Status.DUPLICATE, revision=self._revision))
                    return
            except RequestError as error:
                self.outcomes.append(Outcome(item, Status.FAILED, error=error))
                return
        self._log(item, item.kind, item.format, item.payload)

    def _open(self, item: Item) -> None:
        """Start an epoch, unless it has started already or a higher one has."""
        mark = self._new_marks.get(item.producer) or self._marks.get(item.producer)
        if mark is not None and mark.epoch > item.epoch:
            error = epoch_fenced(item.producer, item.epoch, mark.epoch)
            self.outcomes.append(Outcome(item, Status.FAILED, error=error))
        elif mark is not None and mark.epoch == item.epoch:
            self.outcomes.append(Outcome(item, Status.DUPLICATE, revision=self._revision))
        else:
            moved = _moved(item, mark)
            if moved is not None:
                self.outcomes.append(Outcome(item, Status.FAILED, error=moved))
                return
            self._log(item, item.kind, item.format, item.payload)

    def pass_time(self, kind: Kind) -> None:
        """Add an entry that only concerns the log's time; it has no item and no outcome."""
        revision = self._revision = self._revision + 1
        head = (revision, self._received_us, int(kind), int(Format.BY_KIND), "", "", 0, 0)
        self._add_row(head, b"")
        self.entries.append(Entry(revision, self._received_us, kind, "", "", 0, 0, None))
        failpoint(DRAFTED[kind])

    def _add_row(self, head: RowHead, payload: bytes) -> None:
        """Add a row; its checksum is computed on from the previous row's."""
        self._crc32 = crc32 = checksum(head, payload, self._crc32)
        self.rows.append(LogRow(*head, crc32, payload))

    def _check_mark(self, item: Item) -> Outcome | None:
        """Return the outcome of an item that its producer's mark rejects; None for the next."""
        mark = self._new_marks.get(item.producer) or self._marks.get(item.producer)
        if mark is not None and mark.epoch != item.epoch and item.kind in REPEATABLE:
            return Outcome(item, Status.FAILED, error=request_id_reused(item.producer))
        status = sequence_status(mark, item.epoch, item.sequence)
        if status is SequenceStatus.NEXT:
            return None
        return self._reject_sequence(item, status, mark)

    def _reject_sequence(
        self, item: Item, status: SequenceStatus, mark: ProducerMark | None
    ) -> Outcome:
        """Return the outcome of an item that is not its producer's next."""
        if status is SequenceStatus.DUPLICATE:
            refusal = None if mark is None else mark.refusal(item.sequence)
            if refusal is not None:
                revision, refused = refusal.revision, refusal.refused
                return Outcome(item, Status.REFUSED, revision, refused=refused)
            if mark is not None and not mark.agrees(item.sequence, _content(item)):
                error = sequence_reused(item.producer, item.epoch, item.sequence)
                return Outcome(item, Status.FAILED, error=error)
            # The original may be in this transaction, which has the higher revision.
            return Outcome(item, Status.DUPLICATE, revision=self._revision)
        epoch, last = (0, 0) if mark is None else (mark.epoch, mark.last_sequence)
        if status is SequenceStatus.FENCED:
            return Outcome(
                item, Status.FAILED, error=epoch_fenced(item.producer, item.epoch, epoch)
            )
        expected = last + 1 if epoch == item.epoch else 1
        return Outcome(item, Status.FAILED, error=sequence_gap(item.sequence, expected))

    def _count_batch(self, item: Item) -> Refused | None:
        """Add a batch's rows to the facts of its stream; return the refusal if that fails."""
        if item.rows is None:
            return None
        facts = self._facts(item.stream)
        batch = None
        if facts is None:
            batch = batch_of(item.format, item.payload)
            settings = settings_for(batch, None, self._limits)
        else:
            settings = facts.settings
        if item.settings is not settings and item.settings != settings:
            # The settings changed after the session had validated it.
            try:
                batch = batch or batch_of(item.format, item.payload)
                item.rows = decode(
                    batch,
                    0,
                    self._received_us,
                    self._limits,
                    settings,
                    disputed_us=self._disputed_us,
                )
            except RefusedError as error:
                return error.refused
            if item.rows is None:
                return None
        return self._add_references(item.stream, facts, item.rows, settings)

    def _add_references(
        self, name: str, facts: StreamFacts | None, rows: Rows, settings: StreamSettings
    ) -> Refused | None:
        """Add references to a stream, which is created if need be; or return the refusal."""
        is_new = facts is None
        if facts is None:
            if not self._auto_create:
                return _refused(
                    Code.NOT_FOUND,
                    "stream",
                    f"there is no stream {name}, and this server makes none on first use: make it "
                    "with CreateStream (streameval streams create), and send the rows again",
                )
            problem = dot_segment_problem(name)
            if problem is not None:
                return _refused(Code.INVALID_ARGUMENT, "stream", problem)
            if self._num_streams >= self._limits.max_streams:
                return _refused(Code.RESOURCE_EXHAUSTED, "stream", _too_many_streams(self._limits))
            facts = NEW if settings is DEFAULTS else StreamFacts(settings=settings)
        after = add_rows(facts, rows)
        if after.total >= State.MAX_TOTAL:
            return _refused(
                Code.RESOURCE_EXHAUSTED,
                "stream",
                f"stream {name} would hold {after.total} references, and the most is 2**62 - 1",
            )
        if after.weighed is not None and (
            after.total >= State.MAX_WEIGHTED_CASES or after.weighed >= State.MAX_TOTAL
        ):
            return _refused(
                Code.RESOURCE_EXHAUSTED,
                "stream",
                f"stream {name} would hold {after.total} references with a weight of "
                f"{after.weighed / WEIGHT_UNITS:g} together; with weights, the most are 2**38 - 1 "
                "and less than 2**46",
            )
        if is_new:
            self._num_streams += 1
            if settings.segment_keys:
                self._log_creation(name, settings)
        self._new[name] = after
        return None

    def _log_creation(self, name: str, settings: StreamSettings) -> None:
        """Add the row and the entry that create a stream whose first rows have segments."""
        request = stream_pb2.CreateStreamRequest()
        request.stream.name = name
        request.stream.settings.segment_keys.extend(settings.segment_keys)
        payload = request.SerializeToString()
        revision = self._revision = self._revision + 1
        kind, format_ = Kind.CREATE_STREAM, Format.BY_KIND
        self._add_row(
            (revision, self._received_us, int(kind), int(format_), name, "", 0, 0), payload
        )
        self.entries.append(
            Entry(revision, self._received_us, kind, name, "", 0, 0, None, settings)
        )
        self.nbytes += len(payload)
        failpoint(DRAFTED[kind])

    def _count_merge(self, item: Item) -> bool:
        """Add a merge to the facts of its stream; return False when it is a duplicate.

        Raises
        ------
        RequestError
            When it cannot be merged.
        """
        rows = item.rows
        assert isinstance(rows, MergeRows)
        facts = self._facts(item.stream)
        assert item.settings is not None
        if facts is not None:
            settings = facts.settings
        else:
            settings = first_settings(item.settings.segment_keys)
        sources = NEW.sources if facts is None else facts.sources
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
                f"stream {item.stream} has {len(sources)} merge sources, the most allowed",
                reason="TOO_MANY_SOURCES",
            )
        refused = self._add_references(item.stream, facts, rows, settings)
        if refused is not None:
            raise refused.to_error()
        return True

    def _change_stream(self, item: Item) -> None:
        """Create, import, update or delete a stream, or change a pair.

        New settings were checked when the request was parsed. Those after an update
        depend on the stream's present ones, so they are checked here.

        Raises
        ------
        RequestError
            When that is not possible.
        """
        name, change = item.stream, item.change
        if isinstance(change, PairCreation | PairImport | PairDeletion):
            self._change_pair(change, name)
            return
        facts = self._facts(name)
        if isinstance(change, StreamSettings | StreamFile):
            if facts is not None:
                raise RequestError(
                    Code.ALREADY_EXISTS, f"there is a stream {name} already", reason="STREAM_EXISTS"
                )
            if self._num_streams >= self._limits.max_streams:
                raise RequestError(
                    Code.RESOURCE_EXHAUSTED,
                    _too_many_streams(self._limits),
                    reason="TOO_MANY_STREAMS",
                )
            if isinstance(change, StreamFile):
                self._check_export_time("stream", change.time_us)
            self._num_streams += 1
        elif facts is None:
            raise no_stream(name)
        elif change is None:
            if facts.pairs:
                # Without the other stream's name, which the caller may not know.
                raise RequestError(
                    Code.FAILED_PRECONDITION,
                    f"stream {name} is in {len(facts.pairs)} "
                    f"{'pair' if len(facts.pairs) == 1 else 'pairs'}",
                    reason="STREAM_IN_PAIR",
                )
            self._num_streams -= 1
        after = apply_change(facts, change)
        if isinstance(change, SettingsUpdate) and after is not None:
            check(after.settings, self._limits)
        self._new[name] = after

    def _change_pair(self, change: PairChange, stream: str) -> None:
        """Make, import or delete a pair, of which `stream` is one side.

        Raises
        ------
        RequestError
            When that is not possible.
        """
        if isinstance(change, PairDeletion):
            of = self._facts(stream)
            if of is None or change.sides is None or of.sides_of(change.name) != change.sides:
                raise no_pair(change.name)
        else:
            self._check_new_pair(change)
            of = self._facts(stream)
        assert of is not None
        for name in sides_of(change, of):
            facts = self._facts(name)
            assert facts is not None
            self._new[name] = apply_pair_change(facts, change)

    def _check_new_pair(self, change: PairCreation | PairImport) -> None:
        """Refuse a pair that cannot be made. O(streams). Raises RequestError."""
        found = []
        for name in (change.a, change.b):
            facts = self._facts(name)
            if facts is None:
                is_import = isinstance(change, PairImport)
                raise no_stream_of_import(name) if is_import else no_stream(name)
            if len(facts.pairs) >= self._limits.max_stream_pairs:
                raise RequestError(
                    Code.RESOURCE_EXHAUSTED,
                    f"stream {name} is in {len(facts.pairs)} pairs, the most allowed: "
                    "delete one with DeletePair (streameval pairs delete)",
                    reason="TOO_MANY_PAIRS",
                )
            found.append(facts)
        existing = found[0].pair_with(change.a, change.b)
        if existing is not None:
            raise RequestError(
                Code.ALREADY_EXISTS,
                f"there is a pair of {change.a} and {change.b} already: {existing}; GetPair "
                "(streameval pairs show) shows it, DeletePair (streameval pairs delete) ends it",
                reason="PAIR_EXISTS",
                metadata={"pair": existing},
            )
        if self._has_pair(change.name):
            # Without its streams' names, which the caller may not know.
            raise RequestError(
                Code.ALREADY_EXISTS,
                f"there is another pair named {change.name} already: give this one another name "
                "(pair_id, or --name)",
                reason="PAIR_NAME_TAKEN",
            )
        settings = found[0].settings, found[1].settings
        if isinstance(change, PairImport):
            self._check_export_time("pair", change.file.time_us)
            change.check_fits(*settings)
        else:
            change.resolved(*settings)

    def _has_pair(self, name: str) -> bool:
        """Whether there is a pair of a name as of the items added so far. O(streams)."""
        known = (self._facts(stream) for stream in {**self._catalog, **self._new})
        return any(facts is not None and facts.sides_of(name) is not None for facts in known)

    def _check_export_time(self, what: str, time_us: int) -> None:
        """Refuse what was exported after this server's present time."""
        if time_us > self._received_us:
            ahead_s = (time_us - self._received_us) / 1e6
            raise RequestError(
                Code.FAILED_PRECONDITION,
                f"the {what} was exported {ahead_s:.3f} s after this server's time: "
                "import it later, and check both clocks",
                reason="EXPORT_IN_FUTURE",
                retry_after_s=ahead_s,
            )

    def _facts(self, name: str) -> StreamFacts | None:
        """Return a stream's facts as of the items added so far; None when there is none."""
        new = self._new
        return new[name] if name in new else self._catalog.get(name)

    def _refuse(self, item: Item, refused: Refused) -> None:
        """Refuse a batch: durably if it has a producer, whose sequence it consumes."""
        item.refused = refused
        item.rows = None
        if item.producer:
            payload = refused.to_message().SerializeToString()
            self._log(item, Kind.REFUSED, Format.BY_KIND, payload)
        else:
            self.outcomes.append(Outcome(item, Status.FAILED, error=refused.to_error()))

    def _log(self, item: Item, kind: int, format_: int, payload: bytes) -> None:
        """Add the row, the entry and the outcome of an accepted item."""
        revision = self._revision = self._revision + 1
        received_us = self._received_us
        producer, epoch, sequence = item.producer, item.epoch, item.sequence
        # The log does not have the content of a refused batch.
        content = _content(item) if kind == Kind.BATCH and producer else 0
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
        self._add_row(head, payload)
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
                item.change,
                item.refused,
                content,
            )
        )
        self.nbytes += len(payload)
        if producer:
            mark = self._new_marks.get(producer) or self._marks.get(producer)
            self._new_marks[producer] = advance(
                mark,
                epoch,
                sequence,
                received_us,
                revision=revision,
                refused=item.refused,
                content=content,
            )
        status = Status.REFUSED if kind == Kind.REFUSED else Status.DURABLE
        self.outcomes.append(Outcome(item, status, revision, received_us, item.refused))
        failpoint(DRAFTED[kind])


def _moved(item: Item, mark: ProducerMark | None) -> RequestError | None:
    """Return the error of a start whose producer is elsewhere than it says; None otherwise."""
    opened = ingest_pb2.IngestRequest.FromString(item.payload).open
    current = (0, 0) if mark is None else (mark.epoch, mark.last_sequence)
    after = (opened.after_epoch, opened.after_sequence)
    if not opened.after_epoch or after == current:
        return None
    return epoch_moved(item.producer, after, current)


def _too_many_streams(limits: Limits) -> str:
    return f"there are {limits.max_streams} streams, the most allowed: delete one"


def _refused(code: Code, field: str, message: str) -> Refused:
    return Refused(code, message, ((field, message),))


def _content(item: Item) -> int:
    """Return the checksum of a batch as it arrived."""
    return item.content or content_checksum(item.format, item.payload)
