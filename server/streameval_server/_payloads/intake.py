"""Takes events: each is read by the first mapping that takes it, and its rows are stored by id.

All rows go by id, so that an event that is sent twice counts once for as long as its ids are
remembered: a prediction until its label comes or `label_ttl` has passed, a label for
`relabel_ttl`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval._counts import DEFAULT_CLUSTER_GROUPS
from streameval.payloads import MAX_EVENT_ROWS, Reason, Refusal, read_rows
from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server._model.errors import RETRY_AFTER_S, Code, RequestError, invalid
from streameval_server._payloads.row_batches import RowKind, batch_of_rows
from streameval_server._payloads.row_collector import RowCollector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streameval.payloads import Event, PayloadMapping, PayloadRow
    from streameval_server._runtime.runtime import Runtime

_log = logging.getLogger(__name__)

_MAX_KNOWN_STREAMS = 10_000
_MAX_ROWS_IN_PROGRESS = 3 * MAX_EVENT_ROWS
"""Rows of all requests that may wait to be durable; a row takes some 500 bytes."""

_PASSING = frozenset({Code.UNAVAILABLE, Code.ABORTED, Code.INTERNAL})
"""Codes of errors that are not the rows' fault: the sender should send the event again."""

STORE = "store"
"""The reason of a row that was read and that its stream refuses."""


@dataclass(frozen=True, slots=True)
class Refused:
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
    refused : list of Refused
    """

    rows: int = 0
    revision: int = 0
    ignored: int = 0
    refused: list[Refused] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """What the mappings made of a request's events.

    Attributes
    ----------
    found : list of (int, PayloadMapping, PayloadRow or Refusal)
        Each with its event's place, and the mapping that took the event.
    ignored : int
        Events that no mapping takes.
    """

    found: list[tuple[int, PayloadMapping, PayloadRow | Refusal]]
    ignored: int


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
        are ``ignored`` under the stream ``""``.
    """

    def __init__(
        self, mappings: Sequence[PayloadMapping], runtime: Runtime, *, auto_create: bool
    ) -> None:
        self._mappings = mappings
        self._runtime = runtime
        self._auto_create = auto_create
        self._collector = RowCollector(self._store)
        self._known_streams: set[str] = set()
        self._rows_in_progress = 0
        self.counts: Counter[tuple[str, str]] = Counter()

    def read(self, events: Sequence[Event]) -> ReadEvents:
        """Return the rows and refusals of events. O(payloads). Any thread may call it.

        Raises
        ------
        RequestError
            When they are too many for one request.
        """
        found: list[tuple[int, PayloadMapping, PayloadRow | Refusal]] = []
        for place, event in enumerate(events):
            for mapping in self._mappings:
                extraction = read_rows(mapping, event)
                if not extraction.is_ignored:
                    found += ((place, mapping, row) for row in extraction.rows)
                    found += ((place, mapping, refusal) for refusal in extraction.refusals)
                    break
            if len(found) > MAX_EVENT_ROWS:
                problem = f"the request has more than {MAX_EVENT_ROWS} rows: send fewer events"
                raise invalid("body", problem)
        ignored = len(events) - len({place for place, _, _ in found})
        return ReadEvents(found, ignored)

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
        result = IntakeResult(ignored=read.ignored)
        self.counts["", "ignored"] += result.ignored
        rows: list[tuple[int, PayloadMapping, PayloadRow]] = []
        for place, mapping, each in read.found:
            if isinstance(each, Refusal):
                refused = Refused(place, each.reason.value, each.message, each.row)
                self._refuse(result, mapping, refused)
                continue
            problem = forbids(each.stream)
            if problem is not None:
                raise RequestError(Code.PERMISSION_DENIED, problem, reason="STREAM_FORBIDDEN")
            rows.append((place, mapping, each))
        groups: dict[tuple[str, RowKind], list[tuple[int, PayloadMapping, PayloadRow]]] = {}
        for item in rows:
            place, mapping, row = item
            unfit = self._unfit(row)
            if unfit is not None:
                reason, message = unfit
                self._refuse(result, mapping, Refused(place, reason.value, message, id=row.id))
                continue
            if row.score is not None:
                groups.setdefault((row.stream, RowKind.PREDICTIONS), []).append(item)
            if row.label is not None:
                groups.setdefault((row.stream, RowKind.LABELS), []).append(item)
        outcomes = await asyncio.gather(
            *(
                self._collector.add(stream, kind, [row for _, _, row in items])
                for (stream, kind), items in groups.items()
            )
        )
        for items, settled in zip(groups.values(), outcomes, strict=True):
            self._account(result, items, settled)
        return result

    def _unfit(self, row: PayloadRow) -> tuple[Reason, str] | None:
        """Return why a row's cluster or weight does not fit its stream; None when they do.

        A stream that does not exist takes both: its first row creates it.
        """
        facts = self._runtime.core.committer.catalog.get(row.stream)
        if facts is None:
            return None
        settings = facts.settings
        if not settings.cluster_groups:
            if row.cluster is None:
                return None
            message = f"stream {row.stream} declares no clusters: leave the mapping's cluster out"
            return Reason.CLUSTER, message
        if row.score is not None and row.cluster is None:
            key = f", by {settings.cluster_key}" if settings.cluster_key else ""
            message = f"stream {row.stream} declares clusters{key}: give the mapping a cluster"
            return Reason.CLUSTER, message
        if row.weight is not None:
            message = f"stream {row.stream} declares clusters, so its labels take no weights"
            return Reason.WEIGHT, message
        return None

    def _account(
        self,
        result: IntakeResult,
        items: Iterable[tuple[int, PayloadMapping, PayloadRow]],
        outcomes: Sequence[int | RequestError],
    ) -> None:
        """Count rows that are durable and rows that were refused; raise what will pass."""
        for (place, mapping, row), outcome in zip(items, outcomes, strict=True):
            if isinstance(outcome, int):
                result.rows += 1
                result.revision = max(result.revision, outcome)
                self.counts[mapping.stream, "counted"] += 1
            elif outcome.code in _PASSING or outcome.retry_after_s is not None:
                raise outcome
            else:
                self._refuse(result, mapping, Refused(place, STORE, str(outcome), id=row.id))

    def _refuse(self, result: IntakeResult, mapping: PayloadMapping, refused: Refused) -> None:
        result.refused.append(refused)
        key = (mapping.stream, refused.reason)
        self.counts[key] += 1
        if self.counts[key] == 1:
            # Once: senders repeat their mistakes a thousand times a second. Without the
            # message, which has values of the payload.
            _log.warning(
                "a payload is refused; more are counted in streameval_payload_rows_total",
                extra={"fields": {"mapping": mapping.stream, "reason": refused.reason}},
            )

    async def _store(self, stream: str, kind: RowKind, rows: Sequence[PayloadRow]) -> int:
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

        A stream that its first batch creates has none.
        """
        is_plain = not keys and not is_clustered
        if is_plain or not self._auto_create or stream in self._known_streams:
            return
        request = stream_pb2.CreateStreamRequest()
        request.stream.name = stream
        request.stream.settings.segment_keys.extend(keys)
        if is_clustered:
            request.stream.settings.cluster_groups = DEFAULT_CLUSTER_GROUPS
        frame = request.SerializeToString()
        try:
            await self._runtime.settled(lambda call: call.create_stream(frame))
        except RequestError as error:
            if error.code is not Code.ALREADY_EXISTS:
                raise
        if len(self._known_streams) >= _MAX_KNOWN_STREAMS:
            self._known_streams.clear()
        self._known_streams.add(stream)
