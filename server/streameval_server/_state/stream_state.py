"""One stream: its counts, its segment values, and the ids that wait for their labels.

Rows are taken in the order of the log. Panes and expiry follow the log's time:
whoever applies must let time pass before a row is taken at or after `due_us`.
A checkpoint has a head (the whole's all-time counts and all that is small), a
part for each key's all-time slices and for each pane, and join segments.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval import CorruptStateError, StreamEvalError
from streameval_server._model.errors import CorruptLogError
from streameval_server._model.rows import CaseRows, LabelRows, MergeRows, MissRows, PredictionRows
from streameval_server._model.stream_info import StreamCounters, StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.counts import StreamCounts
from streameval_server._state.join_table import Joins, segment
from streameval_server._state.ledger import StreamUsage
from streameval_server._state.pane_content import frozen_parts, parts_from_bytes, parts_to_bytes
from streameval_server._state.pending_cases import UnsortedCases
from streameval_server._state.segments import WHOLE, Segments, codes_of, key_of
from streameval_server._state.slice_columns import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from streameval._common import IntArray
    from streameval._row_codec import EventTimes
    from streameval_server._model.limits import Limits
    from streameval_server._model.rows import Rows
    from streameval_server._state.pane_content import FrozenParts
    from streameval_server._state.views import FrozenStream

NEVER = 1 << 62
"""Later than any time."""

_PANE_COST = 64
"""What a pane that coarsens takes of a budget of time, in ids that expire."""

_LENGTHS = struct.Struct("<III")

STREAM_PART, SLICE_PART, PANE_PART, JOIN_PART = "stream", "slice", "pane", "join"
"""How the names of a stream's parts begin; they end with the stream's name."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A stream at one moment, as long as it does not change.

    Attributes
    ----------
    info : StreamInfo
    counts : FrozenStream
    counters : StreamCounters
    """

    info: StreamInfo
    counts: FrozenStream
    counters: StreamCounters


class StreamState:
    """A stream. Rows are collected by `take`, and counted when it is time.

    Attributes
    ----------
    info : StreamInfo
    seen : Seen or None
        What `look` returned; None from the moment at which it begins to change.
    revision : int
        Log revision of its last change.
    total : int
        References that were accepted, misses included.
    sources : dict of str to int
        The last epoch of each source that merged.
    """

    def __init__(self, info: StreamInfo, limits: Limits) -> None:
        self.info = info
        self.seen: Seen | None = None
        self.revision = info.create_revision
        self.total = 0
        self.sources: dict[str, int] = {}
        self.segments = Segments(info.settings.segment_keys, limits.max_segment_values)
        self._ledger = StreamUsage(self.revision)
        self.counts = StreamCounts(info.settings, limits, self._ledger)
        self.counts.advance(info.create_us)
        self.joins: Joins | None = None
        self._names: Mapping[tuple[str, str], int] = self.segments.names()

    # -- changing

    def take(self, rows: Rows, revision: int, received_us: int) -> None:
        """Take the rows of one entry."""
        self.seen = None
        self.revision = self._ledger.revision = revision
        self.total += rows.total
        if isinstance(rows, CaseRows):
            coded = self.segments.read(rows.segments, rows.size)
            self.counts.add_cases(
                Columns(
                    UnsortedCases(rows.labels, rows.scores, rows.counts),
                    received_us if rows.event_us is None else rows.event_us,
                    () if coded is None else (coded,),
                )
            )
        elif isinstance(rows, MissRows):
            self.counts.miss(
                rows.positives,
                rows.negatives,
                rows.event_us or received_us,
                self.segments.row(rows.segments),
            )
        elif isinstance(rows, MergeRows):
            self.sources[rows.source] = rows.epoch
            for merged in rows.states:
                codes = self.segments.row(merged.segments)
                self.counts.merge(merged.evaluator._view(), merged.event_us, codes)
        else:
            self._join(rows, received_us)

    def _join(self, rows: Rows, received_us: int) -> None:
        if self.joins is None:
            self.joins = Joins(self.info.settings)
        joiner = self.joins.joiner
        if isinstance(rows, PredictionRows):
            coded = self.segments.read(rows.segments, rows.size)
            effects = joiner.predict(
                rows.ids,
                scores=rows.scores,
                event_us=_column(rows.event_us, rows.size, received_us),
                now_us=received_us,
                codes=None if coded is None else codes_of([coded]).T,
            )
        elif isinstance(rows, LabelRows):
            effects = joiner.label(
                rows.ids,
                positives=rows.labels,
                now_us=received_us,
                event_us=_column(rows.event_us, rows.size, received_us),
                scores=rows.scores,
            )
        else:
            assert not isinstance(rows, CaseRows | MissRows | MergeRows)
            effects = joiner.retract(rows.ids, now_us=received_us)
        self.counts.add_effects(effects)

    def update(self, settings: StreamSettings, revision: int) -> None:
        """Go on under other settings. O(panes) when retention changes."""
        self.seen = None
        self._ledger.revision = revision
        self.counts.reconfigure(settings)
        self.revision = revision
        self.info = replace(self.info, settings=settings)
        self.segments.declare(settings.segment_keys)
        if self.joins is not None:
            self.joins.reconfigure(settings)

    # -- time

    @property
    def due_us(self) -> int:
        """When time has to pass next: ids fall due, or panes coarsen. O(1)."""
        joins = None if self.joins is None else self.joins.due_us
        panes = self.counts.due_us
        return min(NEVER if panes is None else panes, NEVER if joins is None else joins)

    def pass_time(self, now_us: int, revision: int, budget: int) -> int:
        """Let some of what is due by now happen; return how much of the budget that took.

        All of it has happened once `due_us` lies in the future.
        """
        self.seen = None
        self._ledger.revision = revision
        joins = self.joins
        if joins is not None and joins.due_us is not None and joins.due_us <= now_us:
            ids = len(joins)
            self.counts.add_effects(joins.expire(now_us, budget))
            spent = ids - len(joins)
            # A time at which nothing falls due may be found or not: no change.
            if spent:
                self.revision = revision
            return spent + 1
        # Whether what was collected comes into a pane: until then it seems so.
        self.counts.flush()
        if self.counts.due_us is None:
            return 1
        store = self.counts.store
        panes = len(store.panes)
        self.counts.advance(now_us)
        self.revision = revision
        return _PANE_COST * (panes - len(store.panes)) + 1

    def on_time(self, now_us: int) -> None:
        """Note the time of an entry; nothing is due by then."""
        # Without panes nothing has asked for the time to pass.
        if now_us >= self.counts.store.due_us:
            self.seen = None
            self.counts.advance(now_us)

    # -- reading

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, at most about."""
        return self.counts.memory_bytes + (0 if self.joins is None else self.joins.memory_bytes)

    @property
    def kept_ids(self) -> int:
        """Ids that are kept."""
        return 0 if self.joins is None else len(self.joins)

    def look(self) -> Seen:
        """Return it as it is now; the same object until it changes. O(panes) then."""
        if self.seen is None:
            self.seen = Seen(self.info, self._frozen(), self._counters())
        return self.seen

    def _frozen(self) -> FrozenStream:
        if len(self._names) != sum(map(len, self.segments.values)):
            self._names = self.segments.names()
        return self.counts.frozen(self._names)

    def _counters(self) -> StreamCounters:
        self.counts.flush()
        joined = {}
        if self.joins is not None:
            joined = asdict(self.joins.joiner.counts)
            del joined["beyond_retention"]
        return StreamCounters(
            **joined,
            other_values=self.segments.overflowed,
            beyond_retention=self.counts.beyond_retention,
            kept_ids=self.kept_ids,
            panes=self.counts.store.num_panes,
            state_bytes=self.memory_bytes,
        )

    # -- checkpoints

    def parts(self, since: int) -> Iterator[tuple[str, Callable[[], bytes] | None]]:
        """Yield the parts of a checkpoint but for those of ids.

        Those that changed after `since` with what makes their bytes, which needs
        no lock; the names of the others. O(panes + slices).
        """
        self.counts.flush()
        name, store = self.info.name, self.counts.store
        yield _part(STREAM_PART, name), self._head() if self.revision > since else None
        for key, changed_at in sorted(store.key_revisions.items()):
            yield _part(SLICE_PART, key, name), self._slices(key) if changed_at > since else None
        for pane in store.panes:
            content = pane.content
            yield (
                _part(PANE_PART, pane.start_us, name),
                _bytes_of(frozen_parts(content.parts)) if content.revision > since else None,
            )

    def join_parts(self, revision: int, since: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield the parts of ids of a checkpoint at `revision`. O(ids that changed).

        Needs no lock: no view reads the ids. To be called before anything else
        is applied.
        """
        if self.joins is not None:
            data = self.joins.take(revision, since)
            for number in self.joins.segments:
                part = _part(JOIN_PART, number, self.info.name)
                yield part, data if number == revision else None

    def exported(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """Yield all parts, in the form that `restore` takes.

        What makes their bytes needs no lock; ids are copied at once, O(ids).
        """
        for part, data in self.parts(-1):
            assert data is not None
            yield split_part(part)[1], data
        if self.joins is not None and self.kept_ids:
            table = self.joins.table
            ids = segment(table, table.used(), [])
            yield _part(JOIN_PART, 0), lambda: ids

    def adopt(self, name: str, revision: int) -> None:
        """Go on as a stream of that name, made at a revision; when it began stays."""
        self.revision = self._ledger.revision = revision
        self.info = replace(self.info, name=name, create_revision=revision)

    def content(self) -> Iterator[tuple[str, bytes]]:
        """Yield everything in one form; equal for equal streams. O(bytes)."""
        for part, data in self.parts(-1):
            assert data is not None
            yield part, data()
        if self.joins is not None:
            yield _part(JOIN_PART, self.info.name), self.joins.to_bytes()

    def _slices(self, key: int) -> Callable[[], bytes]:
        store = self.counts.store
        numbers = [number for number in store.numbers() if number and key_of(number) == key]
        return _bytes_of([(number, *store.all_time(number)) for number in sorted(numbers)])

    def _head(self) -> Callable[[], bytes]:
        info, store = self.info, self.counts.store
        fields = {
            "name": info.name,
            "create_us": info.create_us,
            "create_revision": info.create_revision,
            "settings": asdict(info.settings),
            "revision": self.revision,
            "total": self.total,
            "sources": self.sources,
            "values": self.segments.values,
            "overflowed": self.segments.overflowed,
            "now_us": store.panes.now_us,
            "floor_us": store.floor_us,
            "beyond_retention": self.counts.beyond_retention,
        }
        text = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        joins = b"" if self.joins is None else self.joins.state_to_bytes()
        whole = frozen_parts({WHOLE: store.whole})

        def data() -> bytes:
            counts = parts_to_bytes(whole)
            head = _LENGTHS.pack(len(text), len(joins), len(counts))
            return b"".join((head, text, joins, counts))

        return data

    @classmethod
    def restore(cls, limits: Limits, revision: int, parts: Mapping[str, bytes]) -> StreamState:
        """Return the stream whose parts of a checkpoint at `revision` these are.

        Parameters
        ----------
        parts
            By their names without the stream's, as `split_part` gives them.

        Raises
        ------
        CorruptLogError
            When they are not what `parts` gave.
        """
        try:
            return cls._restored(limits, revision, parts)
        except (StreamEvalError, struct.error, LookupError, TypeError, ValueError) as error:
            raise CorruptLogError(f"a stream in the checkpoint cannot be read: {error}") from error

    @classmethod
    def _restored(cls, limits: Limits, revision: int, parts: Mapping[str, bytes]) -> StreamState:
        fields, (joins, counts) = head_fields(parts[STREAM_PART])
        settings = StreamSettings(**fields["settings"])
        info = StreamInfo(fields["name"], fields["create_us"], fields["create_revision"], settings)
        self = cls(info, limits)
        self.revision = self._ledger.revision = fields["revision"]
        self.total = fields["total"]
        self.sources = fields["sources"]
        self.segments.restore(fields["values"])
        self.segments.overflowed = fields["overflowed"]
        self.counts.beyond_retention = fields["beyond_retention"]
        store = self.counts.store
        store.advance(fields["now_us"])
        store.floor_us = fields["floor_us"]
        store.settled.update(parts_from_bytes(counts, settings.scale))
        segments: dict[int, bytes] = {}
        for part, data in parts.items():
            kind, _, number = part.partition("/")
            if kind == SLICE_PART:
                store.settled.update(parts_from_bytes(data, settings.scale))
                store.key_revisions[int(number)] = revision
            elif kind == PANE_PART:
                content = store.panes.at(int(number))
                content.revision = revision
                content.parts = parts_from_bytes(data, settings.scale)
            elif kind == JOIN_PART:
                segments[int(number)] = data
        store.measure()
        if joins:
            self.joins = Joins(settings)
            self.joins.restore(revision, segments)
            self.joins.state_from_bytes(joins)
        return self


def head_fields(head: bytes) -> tuple[dict[str, Any], tuple[bytes, bytes]]:
    """Return what a stream's head says: its fields, its joiner's counters, its counts.

    Raises
    ------
    CorruptStateError
        When it ends too soon.
    LookupError, TypeError, ValueError, struct.error
        When it is not a head at all.
    """
    lengths = _LENGTHS.unpack_from(head)
    if len(head) != _LENGTHS.size + sum(lengths):
        raise CorruptStateError("the head ends too soon")
    at = _LENGTHS.size
    blobs = []
    for length in lengths:
        blobs.append(head[at : at + length])
        at += length
    fields = json.loads(blobs[0])
    fields["settings"]["segment_keys"] = tuple(fields["settings"]["segment_keys"])
    return fields, (blobs[1], blobs[2])


def _bytes_of(parts: FrozenParts) -> Callable[[], bytes]:
    return lambda: parts_to_bytes(parts)


def _part(kind: str, *which: int | str) -> str:
    return "/".join((kind, *map(str, which)))


def split_part(part: str) -> tuple[str, str]:
    """Return the stream of a part's name, and the rest."""
    kind, _, rest = part.partition("/")
    if kind == STREAM_PART:
        return rest, kind
    number, _, name = rest.partition("/")
    return name, f"{kind}/{number}"


def _column(event_us: EventTimes, size: int, received_us: int) -> IntArray:
    if event_us is None or isinstance(event_us, int):
        return np.full(size, received_us if event_us is None else event_us, dtype=np.int64)
    return event_us
