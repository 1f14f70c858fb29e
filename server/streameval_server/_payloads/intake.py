"""Takes events: each is read by the first mapping that takes it, and its rows are stored by id.

All rows go by id, so that an event that is sent twice counts once for as long as its ids are
remembered: a prediction until its label comes or `label_ttl` has passed, a label for
`relabel_ttl`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from streameval.kernel import ClusterCounts
from streameval.payloads import (
    MAX_EVENT_ROWS,
    Reason,
    Refusal,
    UnreadableEvent,
    read_rows,
    wanted_types,
)
from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server._batch.decode import check_times
from streameval_server._model.errors import (
    BODY_TOO_LONG,
    RETRY_AFTER_S,
    Code,
    RefusedError,
    RequestError,
    too_long,
)
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._payloads.row_batches import PayloadKind, batch_of_rows
from streameval_server._payloads.row_collector import RowCollector
from streameval_server._runtime.open_calls import stopping_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streameval.payloads import Event, PayloadMapping, PayloadRow
    from streameval_server._runtime.runtime import Runtime

    _Item = tuple[int, PayloadMapping, PayloadRow]
    """A row with the place of its event in the request, and the mapping that took it."""

_log = logging.getLogger(__name__)

_MAX_KNOWN_STREAMS = 10_000
_MAX_ROWS_IN_PROGRESS = 3 * MAX_EVENT_ROWS
"""Rows of all requests that may wait to be durable; a row takes some 500 bytes."""

_MAX_READ_S = 10.0
"""Processor time for the events of one request. It does not grow while others wait for the
processor, so a request is refused for its own costs only."""

_PASSING = frozenset({Code.UNAVAILABLE, Code.ABORTED, Code.INTERNAL})
"""Codes of errors that are not the rows' fault: the sender should send the event again."""

NO_MAPPING = ""
"""Stands for the mapping of what no mapping takes or could read, in counts."""

STORE = "store"
"""The reason of a row that was read and that its stream refuses."""


@dataclass(frozen=True, slots=True)
class UncountedRow:
    """A row, or an event, that is not counted.

    Attributes
    ----------
    event : int
        The event's place in its request, from 0.
    row : int or None
        The row's place in its event; None for the whole event.
    id : str
        The row's id, where it has one.
    reason : str
        A `Reason`'s value, or `STORE`.
    message : str
    """

    event: int
    reason: str
    message: str
    row: int | None = None
    id: str = ""


@dataclass(slots=True)
class IntakeResult:
    """What became of a request's events.

    Attributes
    ----------
    rows : int
        Predictions and labels that are durable.
    revision : int
        Log revision that includes them; 0 without rows.
    ignored : int
        Events that no mapping takes.
    refused : list of UncountedRow
    """

    rows: int = 0
    revision: int = 0
    ignored: int = 0
    refused: list[UncountedRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """What the mappings made of a request's events.

    Attributes
    ----------
    found : list of (int, PayloadMapping or None, PayloadRow or Refusal)
        Each with its event's place, and the mapping that took the event; None of an event that
        could not be read.
    ignored : int
        Events that no mapping takes.
    """

    found: list[tuple[int, PayloadMapping | None, PayloadRow | Refusal]]
    ignored: int


class _StreamRows:
    """The rows of a request that one stream can take.

    Parameters
    ----------
    stream : str
    settings : StreamSettings or None
        The stream's; None if it does not exist: its first row creates it, so it takes clusters
        and weights.
    runtime
        Its limits and its clock say which times the stream takes.
    """

    def __init__(self, stream: str, settings: StreamSettings | None, runtime: Runtime) -> None:
        self._stream = stream
        self._settings = settings
        self._runtime = runtime
        self._scores: dict[str, float] = {}
        self.scored: list[_Item] = []
        self.labelled: list[_Item] = []

    def add(self, item: _Item) -> tuple[str, str] | None:
        """Take a row, or return why it is refused: the reason and a message."""
        row = item[2]
        unfit = self._unfit(row) or self._untimely(row)
        if unfit is not None:
            return unfit
        if row.score is not None:
            # The stream would take another score for a repetition, and drop it.
            if self._scores.setdefault(row.id, row.score) != row.score:
                message = (
                    f"id {row.id!r} has several rows with different scores in this request: "
                    "select an id that each row has for itself"
                )
                return Reason.ID.value, message
            self.scored.append(item)
        if row.label is not None:
            self.labelled.append(item)
        return None

    def _untimely(self, row: PayloadRow) -> tuple[str, str] | None:
        """Return why the stream takes no row of this time; None when it does.

        A batch would be refused for it and halved until such rows stand alone, which costs each
        of them two batches.
        """
        if row.score is None or row.time_us is None:
            return None
        now_us, disputed_us = self._runtime.now_us(), self._runtime.core.committer.disputed_us
        clocks_us = (now_us, now_us if disputed_us is None else disputed_us)
        settings = self._settings or StreamSettings()
        try:
            check_times(row.time_us, "time", clocks_us, self._runtime.limits, settings)
        except RefusedError as error:
            return STORE, str(error)
        return None

    def _unfit(self, row: PayloadRow) -> tuple[str, str] | None:
        """Return why a row's cluster or weight does not fit the stream; None when they do."""
        settings = self._settings
        if settings is None:
            return None
        if not settings.cluster_groups:
            if row.cluster is None:
                return None
            message = f"stream {self._stream} declares no clusters: leave the mapping's cluster out"
            return Reason.CLUSTER.value, message
        if row.score is not None and row.cluster is None:
            key = f", by {settings.cluster_key}" if settings.cluster_key else ""
            message = f"stream {self._stream} declares clusters{key}: give the mapping a cluster"
            return Reason.CLUSTER.value, message
        if row.weight is not None:
            message = f"stream {self._stream} declares clusters, so its labels take no weights"
            return Reason.WEIGHT.value, message
        return None


class PayloadIntake:
    """Reads and stores events.

    Parameters
    ----------
    mappings
        In the order in which they are tried.
    runtime
        Stores the rows.
    auto_create
        Whether a stream that does not exist is created, with the mapping's segment keys, and
        with clusters if it has one.

    Attributes
    ----------
    counts : Counter
        Rows by mapping's stream and outcome: ``counted``, or a refusal's reason; events that
        are ``ignored``, and events and requests that cannot be read, under `NO_MAPPING`.
    types : frozenset of str or None
        The types of events that a mapping takes; None for all.
    """

    def __init__(
        self, mappings: Sequence[PayloadMapping], runtime: Runtime, *, auto_create: bool
    ) -> None:
        self.types = wanted_types(mappings)
        self._mappings = mappings
        self._runtime = runtime
        self._auto_create = auto_create
        self._collector = RowCollector(self._store)
        self._known_streams: set[str] = set()
        self._rows_in_progress = 0
        self.counts: Counter[tuple[str, str]] = Counter()

    def read(self, events: Iterable[Event | UnreadableEvent]) -> ReadEvents:
        """Return the rows and refusals of events. O(payloads). Any thread may call it.

        It ends between two events: the costs of one are bounded by the readers of payloads.

        Raises
        ------
        RequestError
            When they are too many for one request, or take more than 10 s of processor time.
            UNAVAILABLE when the server stops.
        InvalidInputError
            When the next event cannot be read.
        """
        found: list[tuple[int, PayloadMapping | None, PayloadRow | Refusal]] = []
        ignored = 0
        began_s = time.thread_time()
        self._check_time(began_s)
        for place, event in enumerate(events):
            if isinstance(event, UnreadableEvent):
                found.append((place, None, Refusal(Reason.UNREADABLE, event.message)))
            elif not self._read_event(place, event, found):
                ignored += 1
            if len(found) > MAX_EVENT_ROWS:
                problem = f"the request has more than {MAX_EVENT_ROWS} rows: send fewer events"
                raise too_long(problem)
            self._check_time(began_s)
        return ReadEvents(found, ignored)

    def _check_time(self, began_s: float) -> None:
        if self._runtime.calls.stopping:
            raise stopping_error()
        if time.thread_time() - began_s > _MAX_READ_S:
            problem = f"the request takes more than {_MAX_READ_S:g} s to read: send fewer events"
            raise too_long(problem)

    def _read_event(
        self,
        place: int,
        event: Event,
        found: list[tuple[int, PayloadMapping | None, PayloadRow | Refusal]],
    ) -> bool:
        """Add the rows and refusals of an event by the first mapping that takes it, if any."""
        for mapping in self._mappings:
            extraction = read_rows(mapping, event)
            if not extraction.is_ignored:
                found += [(place, mapping, row) for row in extraction.rows]
                found += [(place, mapping, refusal) for refusal in extraction.refusals]
                return True
        return False

    async def take(self, read: ReadEvents, forbids: Callable[[str], str | None]) -> IntakeResult:
        """Store what was read of events; return once it is durable.

        Parameters
        ----------
        read
            The result of `read`.
        forbids
            Returns why the sender may not write a stream; None when it may.

        Raises
        ------
        RequestError
            When the server cannot store rows now. Some of them may be durable; sent again,
            they count once.
        """
        size = len(read.found)
        if self._rows_in_progress and self._rows_in_progress + size > _MAX_ROWS_IN_PROGRESS:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"{self._rows_in_progress} rows of payloads wait for the disk: send it again later",
                reason="PAYLOADS_FULL",
                retry_after_s=RETRY_AFTER_S,
            )
        self._rows_in_progress += size
        try:
            return await self._store_found(read, forbids)
        finally:
            self._rows_in_progress -= size

    async def _store_found(
        self, read: ReadEvents, forbids: Callable[[str], str | None]
    ) -> IntakeResult:
        refused: list[tuple[PayloadMapping | None, UncountedRow]] = []
        groups: dict[str, _StreamRows] = {}
        for item in read.found:
            place, mapping, each = item
            if isinstance(each, Refusal):
                why = UncountedRow(place, each.reason.value, each.message, each.row)
                refused.append((mapping, why))
                continue
            assert mapping is not None
            group = groups.get(each.stream)
            if group is None:
                problem = forbids(each.stream)
                if problem is not None:
                    raise RequestError(Code.PERMISSION_DENIED, problem, reason="STREAM_FORBIDDEN")
                facts = self._runtime.core.committer.catalog.get(each.stream)
                group = _StreamRows(
                    each.stream, None if facts is None else facts.settings, self._runtime
                )
                groups[each.stream] = group
            unfit = group.add((place, mapping, each))
            if unfit is not None:
                reason, message = unfit
                refused.append((mapping, UncountedRow(place, reason, message, id=each.id)))
        result = IntakeResult(ignored=read.ignored)
        self._ignore(result.ignored)
        for mapping, why in refused:
            self._refuse(result, mapping, why)
        batches = [
            (stream, kind, items)
            for stream, group in groups.items()
            for kind, items in (
                (PayloadKind.PREDICTIONS, group.scored),
                (PayloadKind.LABELS, group.labelled),
            )
            if items
        ]
        outcomes = await asyncio.gather(
            *(
                self._collector.add(stream, kind, [row for _, _, row in items])
                for stream, kind, items in batches
            )
        )
        for (_, _, items), settled in zip(batches, outcomes, strict=True):
            self._account(result, items, settled)
        return result

    def _account(
        self,
        result: IntakeResult,
        items: Iterable[_Item],
        outcomes: Sequence[int | RequestError],
    ) -> None:
        """Count rows that are durable and rows that were refused; raise what will pass."""
        counted: Counter[str] = Counter()
        # Rows of one batch have one outcome, the same object.
        for outcome, run in groupby(zip(outcomes, items, strict=True), itemgetter(0)):
            if isinstance(outcome, int):
                result.revision = max(result.revision, outcome)
                counted.update([mapping.stream for _, (_, mapping, _) in run])
            elif outcome.code in _PASSING or outcome.retry_after_s is not None:
                raise outcome
            else:
                for _, (place, mapping, row) in run:
                    self._refuse(
                        result, mapping, UncountedRow(place, STORE, str(outcome), id=row.id)
                    )
        for stream, rows in counted.items():
            result.rows += rows
            self.counts[stream, "counted"] += rows

    def _ignore(self, events: int) -> None:
        """Count events that no mapping takes; the first one is told, as a type may be wrong."""
        if events and not self.counts[NO_MAPPING, "ignored"]:
            _log.info(
                "no mapping takes an event, by its type or `when`; more are counted in "
                "streameval_payload_rows_total"
            )
        self.counts[NO_MAPPING, "ignored"] += events

    def refuse_request(self, error: RequestError) -> None:
        """Count a request of which nothing is counted because its body cannot be read."""
        reason = Reason.LENGTH if error.reason == BODY_TOO_LONG else Reason.UNREADABLE
        self._count_refusal(NO_MAPPING, reason.value)

    def _refuse(
        self, result: IntakeResult, mapping: PayloadMapping | None, refused: UncountedRow
    ) -> None:
        result.refused.append(refused)
        self._count_refusal(NO_MAPPING if mapping is None else mapping.stream, refused.reason)

    def _count_refusal(self, mapping: str, reason: str) -> None:
        self.counts[mapping, reason] += 1
        if self.counts[mapping, reason] == 1:
            # Once: senders repeat their mistakes a thousand times a second. Without the
            # message, which has values of the payload.
            _log.warning(
                "a payload is refused; more are counted in streameval_payload_rows_total",
                extra={"fields": {"mapping": mapping, "reason": reason}},
            )

    async def _store(self, stream: str, kind: PayloadKind, rows: Sequence[PayloadRow]) -> int:
        await self._create(stream, list(rows[0].segments), is_clustered=rows[0].cluster is not None)
        batch = batch_of_rows(stream, kind, rows, self._runtime.now_us())
        frame = ingest_pb2.IngestBatchRequest(batch=batch).SerializeToString()
        try:
            response = await self._runtime.settled(
                lambda call: call.ingest_batch(frame, self._runtime.now_us())
            )
        except RequestError:
            self._known_streams.discard(stream)  # it may have been deleted
            raise
        return response.revision

    async def _create(self, stream: str, keys: list[str], *, is_clustered: bool) -> None:
        """Create a stream with its mapping's segment keys and clusters, unless it exists.

        A stream that its first batch creates has no clusters.
        """
        is_plain = not keys and not is_clustered
        if is_plain or not self._auto_create or stream in self._known_streams:
            return
        request = stream_pb2.CreateStreamRequest()
        request.stream.name = stream
        request.stream.settings.segment_keys.extend(keys)
        if is_clustered:
            request.stream.settings.cluster_groups = ClusterCounts.DEFAULT_GROUPS
        frame = request.SerializeToString()
        try:
            await self._runtime.settled(lambda call: call.create_stream(frame))
        except RequestError as error:
            if error.code is not Code.ALREADY_EXISTS:
                raise
        if len(self._known_streams) >= _MAX_KNOWN_STREAMS:
            self._known_streams.clear()
        self._known_streams.add(stream)
