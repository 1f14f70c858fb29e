"""The engine: all streams and pairs at a revision. The same log gives the same state bytes.

No clocks, threads or disks: an entry carries its time. One thread applies. `view`, `streams`,
`state_hash` and a step of `begin_checkpoint` must not run at the same time as `apply` and
`pass_time` (the runtime holds one lock around each of them); what they return is immutable.

The log's time is the last entry's. Before an entry is applied, everything that is due by its
time happens in every stream: ids expire, panes coarsen. While the log is held (`log_time`),
nothing falls due.
"""

from __future__ import annotations

import hashlib
import heapq
import struct
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from sortedcontainers import SortedDict

from streameval_server._core.catalog import NO_SOURCES, Catalog, StreamFacts
from streameval_server._core.engine_pairs import EnginePairs
from streameval_server._core.log_time import LogTime
from streameval_server._core.producer_marks import Marks
from streameval_server._log.checkpoint import Checkpoint, LazyParts
from streameval_server._log.rows import Kind
from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.errors import CorruptLogError
from streameval_server._model.mark import MarkChange
from streameval_server._model.pair_settings import PairDeletion, is_pair_key, pair_key
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import DEFAULTS, SettingsUpdate, StreamSettings
from streameval_server._model.threads import do_nothing
from streameval_server._model.verdict_change import VerdictChange
from streameval_server._state.checkpoint_parts import (
    changed_parts,
    checkpoint_steps,
    content_parts,
    export_parts,
    id_parts,
    split_part,
)
from streameval_server._state.pairs.pair_file import pair_to_bytes
from streameval_server._state.pairs.pair_parts import restore_pair
from streameval_server._state.stream_file import StreamFile, stream_to_bytes
from streameval_server._state.stream_parts import restore_stream, verify_counts
from streameval_server._state.stream_state import NEVER, StreamState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streameval import Alarm
    from streameval.kernel import LazyCounts, StoredCounts
    from streameval_server._core.entries import Entry
    from streameval_server._model.limits import Limits
    from streameval_server._model.pair_settings import PairInfo
    from streameval_server._state.checkpoint_parts import Held
    from streameval_server._state.observer import PartEncoder
    from streameval_server._state.pairs.pair_view import PairView
    from streameval_server._state.views import AlarmsView, StreamView, WaitingPredictions

MARKS_PART = "marks"
HELD_PART = "held"
"""The time at which the hold began; only in a checkpoint of a held log."""

_HELD = struct.Struct("<q")

_MAX_UNMEASURED_ROWS = 16_384
"""Rows of a stream that are applied before its memory is measured, and its counts merged."""

_MAX_IDLE_STREAMS = 8
"""Streams that are counted, or of which a pane is packed, in one piece of idle time."""

_PART_COST, _PIECE_COST, _STEP_COST = 16, 512, 1_024
"""What a changed part of a checkpoint and a piece of counting cost, in unchanged parts; and what
a step costs at least: some 10 ms, or 50 with a piece of 800 slices."""

_UNLIMITED = 1 << 62
"""A budget for `pass_time` that is never spent."""


class Engine:
    """All streams and the producers' marks.

    Attributes
    ----------
    marks : Marks
        How far each producer has come, at the applied revision.
    expired_early : dict of str to int
        Predictions that expired early, because their stream kept `max_pending` ids, by stream;
        streams without any are not in it. Safe to read from any thread.
    on_collected : callable
        Called under the lock of `view` when a view leaves the first work for idle time; set by
        the thread that runs `count`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # Revision of the last entry, and the time up to which everything fell due: one tuple,
        # so a read without the lock is consistent.
        self._reached = (0, 0)
        # The time up to which what is due has happened, or is happening before the next entry.
        self._passed_us = 0
        self._time = LogTime()
        self._streams: SortedDict[str, StreamState] = SortedDict()
        self.pairs = EnginePairs(limits)
        self._memory_bytes = 0
        self._kept_ids = 0
        # These refer to streams by name, so a deleted stream is freed at once.
        self._sizes: dict[str, tuple[int, int]] = {}
        # Rows that were applied since the last measurement.
        self._touched: dict[str, int] = {}
        self.expired_early: dict[str, int] = {}
        self._agenda: list[tuple[int, str]] = []
        self._due: dict[str, int] = {}
        self._unmerged: list[LazyCounts] = []
        self._collected: dict[str, None] = {}
        self._uncounted: dict[str, None] = {}
        self.on_collected: Callable[[], None] = do_nothing
        self._undelivered: dict[str, None] = {}
        self.marks = Marks(limits.marks_ttl_us)

    @property
    def revision(self) -> int:
        """The last log revision that was applied. Safe to read from any thread."""
        return self._reached[0]

    @property
    def received_us(self) -> int:
        """The log's time at that revision."""
        return self._time.received_us

    @property
    def held_us(self) -> int | None:
        """The time up to which things fall due while the log is held; None while it is not."""
        return self._time.held_us

    def due_before(self, entry: Entry) -> int:
        """Return the time up to which things fall due before the next entry is applied."""
        return self._time.due_before(entry)

    @property
    def memory_bytes(self) -> int:
        """Bytes that all streams and marks take, an upper bound. Safe to read from any thread."""
        # The committer has marks of its own.
        return self._memory_bytes + 2 * self.marks.memory_bytes

    @property
    def kept_ids(self) -> int:
        """Ids that all streams keep. Safe to read from any thread."""
        return self._kept_ids

    @property
    def due_us(self) -> int:
        """The earliest time at which a stream may have something due. Safe in any thread."""
        agenda = self._agenda
        try:
            return agenda[0][0]
        except IndexError:  # empty, or just emptied by the applying thread
            return NEVER

    # -- applying

    def apply(self, entries: Sequence[Entry], *, measured: bool = True) -> None:
        """Apply entries in order; each must carry the revision after the one before.

        The result does not depend on how entries are grouped into calls.
        O(rows log rows), amortised and including `merge`: rows are buffered and counted
        when there are many of them or when a query reads the stream. Unless `measured`, the
        caller calls `measure` before anything reads the memory.
        """
        self.merge()
        touched = self._touched
        for entry in entries:
            if entry.revision != self.revision + 1:
                raise ValueError(f"revision {entry.revision} cannot follow {self.revision}")
            due_us = self._time.due_before(entry)
            while due_us >= self.due_us and self.pass_time(due_us, _UNLIMITED):
                pass
            if entry.kind == Kind.RELEASE:
                self.marks.restart_idle(entry.received_us)
            state = self._apply_entry(entry, due_us)
            rows = 0 if entry.rows is None else entry.rows.size
            if state is not None:
                touched[entry.stream] = touched.get(entry.stream, 0) + rows
                self._schedule(entry.stream, state)
            for pair in self.pairs.apply(entry, due_us, self._streams):
                touched.setdefault(pair.info.key, 0)
                self._schedule(pair.info.key, pair)
            self.marks.record(
                entry.producer,
                entry.epoch,
                entry.sequence,
                entry.received_us,
                due_us=due_us,
                revision=entry.revision,
                refused=entry.refused,
                content=entry.content,
            )
            self._time.record(entry)
            self._reached = (entry.revision, due_us)
            if touched.get(entry.stream, 0) >= _MAX_UNMEASURED_ROWS:
                # Its counts are to be merged, and other threads compare the memory with its limit.
                self.measure()
        if measured:
            self.measure()

    def _apply_entry(self, entry: Entry, due_us: int) -> StreamState | None:
        """Apply an entry; return the stream that changed."""
        change = entry.change
        if entry.rows is not None:
            state = self._streams.get(entry.stream) or self._create_stream(entry, DEFAULTS, due_us)
            state.on_time(due_us)
            state.take(entry.rows, entry.revision, entry.received_us, due_us)
            return state
        if isinstance(change, StreamSettings):
            return self._create_stream(entry, change, due_us)
        if isinstance(change, StreamFile):
            state = change.restored(entry.stream, entry.revision, self._limits)
            self._streams[entry.stream] = state
            return state
        if isinstance(change, SettingsUpdate):
            state = self._streams[entry.stream]
            state.on_time(due_us)
            settings = change.apply_to(state.info.settings)
            state.update(settings, entry.revision, entry.received_us)
            # A shorter retention takes effect now, not with the next entry, and so do alarms whose
            # reference has passed: the answer says when they would have rung.
            state.on_time(due_us)
            while state.due_us <= due_us:
                state.pass_time(due_us, entry.revision, _UNLIMITED)
            return state
        if isinstance(change, AlarmChange | MarkChange | VerdictChange):
            state = self._streams[entry.stream]
            state.on_time(due_us)
            state.change(change, entry.revision, entry.received_us, due_us)
            return state
        if entry.kind == Kind.DELETE_STREAM:
            state = self._streams.pop(entry.stream)
            state.last_view = None  # invalidates it for a thread that has just looked it up
            self._forget(entry.stream)
        elif isinstance(change, PairDeletion):
            self._forget(pair_key(change.name))
        return None

    def _forget(self, name: str) -> None:
        """Forget when a stream or pair that is deleted falls due, and its sizes."""
        self._due.pop(name, None)
        self.expired_early.pop(name, None)
        self._uncounted.pop(name, None)
        memory_bytes, kept_ids = self._sizes.pop(name, (0, 0))
        self._memory_bytes -= memory_bytes
        self._kept_ids -= kept_ids

    def _create_stream(self, entry: Entry, settings: StreamSettings, due_us: int) -> StreamState:
        info = StreamInfo(entry.stream, entry.received_us, entry.revision, settings)
        state = self._streams[entry.stream] = StreamState(info, self._limits, due_us)
        return state

    def measure(self) -> None:
        """Measure the streams that changed since the last call and still exist. O(streams)."""
        touched = list(self._touched)
        self._touched.clear()
        for name in touched:
            state = self._held(name)
            if state is not None:
                self._measure(name, state)

    def _held(self, key: str) -> Held | None:
        """Return a stream by its name, or a pair by its key."""
        return self._streams.get(key) or self.pairs.get(key)

    def _all_held(self) -> list[Held]:
        return [*self._streams.values(), *self.pairs.values()]

    @property
    def has_collected(self) -> bool:
        """Whether streams have buffered many rows that are not counted yet."""
        return bool(self._collected)

    def count(self) -> None:
        """Count the rows that some streams have buffered, where there are many. O(rows).

        Answers and state do not change by it. Under the same lock as `apply`, which would
        leave these rows until there are more or a query reads the stream.
        """
        for name in list(islice(self._collected, _MAX_IDLE_STREAMS)):
            del self._collected[name]
            state = self._streams.get(name)
            if state is not None:
                state.counts.count_idle()
                self._measure(name, state)

    @property
    def has_uncounted(self) -> bool:
        """Whether memory has what rows of streams may take at most. Safe in any thread."""
        return bool(self._uncounted)

    def count_deferred(self) -> None:
        """Count some of the rows of a stream, in some 50 ms, so that its memory is what it takes.

        Otherwise as `count`. To be called while `has_uncounted`.
        """
        name = next(iter(self._uncounted))
        state = self._streams[name]
        state.counts.count_piece()
        self._measure(name, state)

    def merge(self) -> None:
        """Merge the counts whose merge `apply` deferred. O(n log n).

        Runs in the thread of `apply`, but `view` may run at the same time. If it was not
        called, the next `apply` merges first.
        """
        unmerged, self._unmerged = self._unmerged, []
        for counts in unmerged:
            counts.merge()

    def _measure(self, name: str, state: Held) -> None:
        """Update the totals by a stream's or pair's sizes, and collect its deferred merges."""
        if isinstance(state, StreamState):
            self._unmerged += state.counts.take_due()
            if state.joins is not None:
                state.joins.count_waiting()
                if state.joins.expired_early:
                    self.expired_early[name] = state.joins.expired_early
            undelivered = state.alarms is not None and state.alarms.undelivered()
            for names, holds in (
                (self._collected, state.counts.has_collected),
                (self._uncounted, state.counts.has_uncounted),
                (self._undelivered, undelivered),
            ):
                if holds:
                    names[name] = None
                else:
                    names.pop(name, None)
        memory_bytes, kept_ids = self._sizes.get(name, (0, 0))
        self._sizes[name] = sizes = (state.memory_bytes, state.kept_ids)
        self._memory_bytes += sizes[0] - memory_bytes
        self._kept_ids += sizes[1] - kept_ids

    # -- time

    def _schedule(self, name: str, state: Held) -> None:
        """Schedule the next time at which a stream or pair has something due."""
        due_us = state.due_us
        if due_us < self._due.get(name, NEVER):
            self._due[name] = due_us
            heapq.heappush(self._agenda, (due_us, name))

    def pass_time(self, now_us: int, budget: int) -> bool:
        """Expire and coarsen some of what is due by a time; return whether more is due.

        To be called before the entry of that time is applied. A budget of a thousand takes
        about a millisecond. The order of the streams makes no difference to the state.
        """
        agenda = self._agenda
        self._passed_us = max(self._passed_us, now_us)
        while agenda and agenda[0][0] <= now_us:
            if budget <= 0:
                return True
            due_us, name = agenda[0]
            if self._due.get(name) != due_us:  # rescheduled since, or deleted
                heapq.heappop(agenda)
                continue
            state = self._held(name)
            assert state is not None
            if state.due_us <= now_us:
                budget -= state.pass_time(now_us, self.revision + 1, budget)
                self._measure(name, state)
                if state.due_us <= now_us:
                    continue
            heapq.heappop(agenda)
            del self._due[name]
            self._schedule(name, state)
        return False

    # -- reading

    def stream(self, name: str) -> StreamInfo | None:
        """Return a stream's description; None without such a stream. O(1), safe in any thread."""
        state = self._streams.get(name)
        return None if state is None else state.info

    def id_room(self, name: str) -> tuple[int, int] | None:
        """Return how many more ids a stream can keep, and how many at most; None without ids.

        O(1), safe in any thread. As of the last entries whose memory was measured.
        """
        state = self._streams.get(name)
        if state is None or state.joins is None:
            return None
        most = state.info.settings.max_pending
        return most - state.joins.waiting, most

    def streams(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[StreamInfo]:
        """Return streams in order of their names. O(log(streams) + limit).

        Parameters
        ----------
        prefix
            Only names that begin with it.
        after
            Only names that sort after it.
        limit
            How many at most.
        """
        found: list[StreamInfo] = []
        for name in self._streams.irange(minimum=max(prefix, after)):
            if len(found) == limit or not name.startswith(prefix):
                break
            if name != after:
                found.append(self._streams[name].info)
        return found

    def revisions(self) -> list[tuple[str, int, int, int]]:
        """Return each stream by name, with the revisions of three times. O(streams).

        When it was made, when it changed last, and when its evidence did.
        """
        return [
            (name, state.info.create_revision, state.revision, state.evidence.decided_revision)
            for name, state in self._streams.items()
        ]

    def alarms(
        self, *, prefix: str = "", after: str = "", limit: int = 100, open_only: bool = False
    ) -> list[tuple[StreamInfo, AlarmsView]]:
        """Return the detectors of streams in order of their names. O(streams)."""
        found: list[tuple[StreamInfo, AlarmsView]] = []
        for name in self._streams.irange(minimum=max(prefix, after)):
            if len(found) == limit or not name.startswith(prefix):
                break
            state = self._streams[name]
            if name == after or state.alarms is None:
                continue
            view = state.alarms.view()
            if view.num_open or not open_only:
                found.append((state.info, view))
        return found

    def undelivered(self, limit: int) -> list[tuple[StreamInfo, Alarm]]:
        """Return open alarms that no webhook has taken, of some streams. O(their alarms)."""
        found = []
        for name in self._undelivered:
            state = self._streams.get(name)
            if state is not None and state.alarms is not None:
                found += [(state.info, each) for each in state.alarms.undelivered()]
            if len(found) >= limit:
                break
        return found

    def pair_view(self, name: str) -> PairView | None:
        """Return a pair's counts now; None without one. O(panes x slices) when it has changed."""
        pair = self.pairs.get(pair_key(name))
        return None if pair is None else pair.view(*self._reached)

    def num_pieces(self, name: str) -> int:
        """Return how many calls of `count_piece` should precede `view`. O(1), in any thread.

        There may be more after the first call, which counts rows into panes.
        """
        state = self._streams.get(name)
        return 0 if state is None else state.counts.num_pieces

    def count_piece(self, name: str) -> None:
        """Count a part of a stream's rows that wait, in some 50 ms, without a visible effect.

        Under the same lock as `view`, which counts what is left; `apply` may run in between.
        """
        state = self._streams.get(name)
        if state is not None:
            state.counts.count_piece()

    def view(self, name: str) -> StreamView | None:
        """Return a stream's counts now; None when there is no such stream.

        O(panes) when the stream has changed, plus O(rows) for the rows not counted yet.
        """
        state = self._streams.get(name)
        if state is None:
            return None
        view = state.view(*self._reached)
        if state.counts.store.has_unpacked:
            # The view counted rows into panes, which are to be packed in idle time.
            is_first = not self._collected
            self._collected[name] = None
            if is_first:
                self.on_collected()
        return view

    def unchanged_view(self, name: str) -> StreamView | None:
        """Return a stream's cached view; None when the stream has changed since it was made.

        O(1) and safe in any thread without the lock: a query of an idle stream does not
        wait for the rows of other streams.
        """
        state = self._streams.get(name)
        view = None if state is None else state.last_view
        if state is None or view is None:
            return None
        reached = self._reached
        # If a change began in between, it may belong to an earlier revision than `reached`.
        if state.last_view is not view:
            return None
        return view.at(*reached)

    def waiting(self, name: str) -> WaitingPredictions | None:
        """Return an existing stream's predictions that wait; None when not possible now. O(ids).

        It is not possible while what is due before the next entry has happened in part: ids
        would be gone that the revision has.
        """
        if self._passed_us > self._reached[1]:
            return None
        return self._streams[name].waiting()

    def noted(self, name: str) -> tuple[StreamInfo, str, str, int] | None:
        """Return what a stream is called, the quality that a webhook took last, and when. O(1)."""
        state = self._streams.get(name)
        return None if state is None else (state.info, *state.evidence.noted)

    def export(self, name: str) -> Callable[[], tuple[int, bytes]] | None:
        """Return a callable that makes a stream's file; None when there is no such stream.

        O(panes + ids). The callable returns the revision and the file; it needs no lock.
        """
        state = self._streams.get(name)
        if state is None:
            return None
        return self._export(state, partial(stream_to_bytes, name))

    def export_pair(self, info: PairInfo) -> Callable[[], tuple[int, bytes]] | None:
        """Return a callable that makes a pair's file, as `export`; None without one."""
        pair = self.pairs.get(info.key)
        if pair is None or pair.info != info:
            return None
        return self._export(pair, partial(pair_to_bytes, info))

    def _export(
        self, state: Held, to_bytes: Callable[..., bytes]
    ) -> Callable[[], tuple[int, bytes]]:
        revision, now_us, ids = self.revision, self.received_us, state.kept_ids
        pending = list(export_parts(state))

        def export() -> tuple[int, bytes]:
            parts = {part: data() for part, data in pending}
            return revision, to_bytes(revision, now_us, ids, parts)

        return export

    def begin_stream_hash(self, name: str) -> Callable[[], tuple[int, str]] | None:
        """Return a callable that hashes one stream; None when that is not possible now.

        O(panes + ids). The callable returns the revision and the SHA-256 of the stream in a
        canonical form, in O(its bytes), and needs no lock. It is not possible without such a
        stream, and while what is due before the next entry has happened in part.
        """
        state = self._streams.get(name)
        if state is None or self._passed_us > self._reached[1]:
            return None
        revision = self.revision
        pending = list(changed_parts(state, -1))
        ids = b"" if state.joins is None else state.joins.to_bytes()

        def hashed() -> tuple[int, str]:
            digest = hashlib.sha256(ids)
            for part, data in pending:
                assert data is not None
                content = data()
                digest.update(f"\n{part} {len(content)}\n".encode())
                digest.update(content)
            return revision, digest.hexdigest()

        return hashed

    def stream_bytes(self, name: str) -> int:
        """Return the bytes that a stream takes, as counted in `memory_bytes`; 0 without one."""
        return self._sizes.get(name, (0, 0))[0]

    def catalog(self) -> Catalog:
        """Return the facts about each stream, for a committer. O(streams)."""
        return {
            name: StreamFacts(
                state.total,
                state.info.settings,
                dict(state.sources) or NO_SOURCES,
                state.weighed,
                tuple((each.name, each.a, each.b) for each in self.pairs.with_stream(name)),
            )
            for name, state in self._streams.items()
        }

    # -- checkpoints

    def begin_checkpoint(self, since: int) -> Iterator[Callable[[], Checkpoint] | None]:
        """Begin a checkpoint of what changed after the one at revision `since`. O(rows + panes).

        Rows that wait are counted first. Each step takes at most some 50 ms under the lock of
        `view`, which may run in between; `apply` and `pass_time` may not.

        Yields
        ------
        callable or None
            None while there are more steps. The last is a callable, which merges the changed
            parts' counts and copies ids, in O(their bytes). It may run at the same time as
            `view`, and must run before the next entry is applied. Counts are immutable, so they
            are encoded when the checkpoint is written.
        """
        states = self._all_held()
        pending: list[tuple[str, PartEncoder | None]] = []
        cost = 0
        for each in chain.from_iterable(checkpoint_steps(state, since) for state in states):
            if each is None:
                cost += _PIECE_COST
            else:
                pending.append(each)
                cost += 1 if each[1] is None else _PART_COST
            if cost >= _STEP_COST:
                yield None
                cost = 0

        yield partial(self._copied, pending, states, since)

    def _copied(
        self, pending: list[tuple[str, PartEncoder | None]], states: list[Held], since: int
    ) -> Checkpoint:
        """Return a checkpoint at the present revision, of these parts and of copies of ids."""
        revision = self.revision
        unchanged = [part for part, encoder in pending if encoder is None]
        encoders: dict[str, Callable[[], bytes]] = {}
        for part, encoder in pending:
            if encoder is not None:
                encoder.merge()
                encoders[part] = encoder
        made = {MARKS_PART: self.marks.to_bytes(), **self._held_parts()}
        for part, data in chain.from_iterable(id_parts(each, revision, since) for each in states):
            if data is None:
                unchanged.append(part)
            else:
                made[part] = data
        changed = LazyParts(encoders | LazyParts.holding(made).makers)
        return Checkpoint(revision, self.received_us, changed, tuple(unchanged))

    def checkpoint(self, since: int) -> Checkpoint:
        """Return a checkpoint of what changed after the one at revision `since`."""
        *_, copy = self.begin_checkpoint(since)
        assert copy is not None
        return copy()

    @classmethod
    def restore(cls, limits: Limits, revision: int, received_us: int, parts: LazyParts) -> Engine:
        """Return the engine of a checkpoint's parts. O(bytes), a part in memory at a time.

        Raises
        ------
        CorruptLogError
            When a part is missing or not what was written.
        """
        engine = cls(limits)
        if MARKS_PART not in parts:
            raise CorruptLogError("the checkpoint has no producers' marks")
        held = parts.get(HELD_PART)
        if held is not None and len(held) != _HELD.size:
            raise CorruptLogError(f"part {HELD_PART} of the checkpoint has {len(held)} bytes")
        engine._time = LogTime(received_us, None if held is None else _HELD.unpack(held)[0])
        engine._reached = (revision, engine._time.due_us)
        engine.marks = Marks.from_bytes(parts[MARKS_PART], limits.marks_ttl_us)
        owned: dict[str, dict[str, str]] = {}
        for part in parts:
            if part not in {MARKS_PART, HELD_PART}:
                key, own = split_part(part)
                owned.setdefault(key, {})[own] = part
        unverified: list[StoredCounts] = []
        # Streams first: a pair asks them how far their sources are behind.
        for key in sorted(owned, key=is_pair_key):
            own_parts = parts.of(owned.pop(key))
            state: Held
            if is_pair_key(key):
                state = restore_pair(limits, revision, own_parts)
                engine.pairs.put(state, engine._streams)
            else:
                state = restore_stream(limits, revision, own_parts, unverified)
                engine._streams[key] = state
            engine._schedule(key, state)
            engine._measure(key, state)
        verify_counts(unverified)
        return engine

    def _held_parts(self) -> dict[str, bytes]:
        held_us = self.held_us
        return {} if held_us is None else {HELD_PART: _HELD.pack(held_us)}

    def _content(self) -> Iterator[tuple[str, bytes]]:
        yield MARKS_PART, self.marks.to_bytes()
        yield from self._held_parts().items()
        for state in self._all_held():
            yield from content_parts(state)

    def state_hash(self) -> str:
        """Return the SHA-256 of the whole state, in hexadecimal. O(bytes)."""
        digest = hashlib.sha256(f"{self.revision} {self.received_us}".encode())
        for part, data in self._content():
            digest.update(f"\n{part} {len(data)}\n".encode())
            digest.update(data)
        return digest.hexdigest()
