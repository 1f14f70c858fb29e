"""The engine: what the log means. The same log gives the same state bytes.

No clocks, threads or disks: an entry carries its time. One thread applies;
`view`, `streams`, `begin_checkpoint` and `state_hash` must not run at the same
time as `apply` and `pass_time` (the shell holds one lock around each of them),
and what they return is immutable.

The log's time is the last entry's. Before an entry is applied everything that
is due by its time happens, in every stream: ids expire, panes coarsen.
"""

from __future__ import annotations

import hashlib
import heapq
from typing import TYPE_CHECKING

from sortedcontainers import SortedDict

from streameval_server._log.catalog import NO_SOURCES, Catalog, StreamFacts, administered
from streameval_server._log.checkpoint import Checkpoint
from streameval_server._log.entries import Kind
from streameval_server._log.producer_marks import Marks
from streameval_server._model.errors import CorruptLogError
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import DEFAULTS
from streameval_server._state import stream_parts
from streameval_server._state.stream_file import StreamFile, stream_to_bytes
from streameval_server._state.stream_state import NEVER, StreamState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from streameval_server._log.entries import Entry
    from streameval_server._model.limits import Limits
    from streameval_server._state.views import LazyCounts, StreamView

MARKS_PART = "marks"

_UNLIMITED = 1 << 62


class Engine:
    """All streams, and how far each producer has come.

    Attributes
    ----------
    marks : Marks
        At the applied revision.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # Revision and time of the last entry, in one, for whoever reads without the lock.
        self._reached = (0, 0)
        self._streams: SortedDict[str, StreamState] = SortedDict()
        self._memory_bytes = 0
        self._kept_ids = 0
        # By the names of streams: one that is deleted is held by nothing.
        self._sizes: dict[str, tuple[int, int]] = {}
        self._agenda: list[tuple[int, str]] = []
        self._due: dict[str, int] = {}
        self._unmerged: list[LazyCounts] = []
        self._collected: dict[str, None] = {}
        self.marks = Marks(limits.marks_ttl_us)

    @property
    def revision(self) -> int:
        """The last log revision that was applied. Safe to read from any thread."""
        return self._reached[0]

    @property
    def received_us(self) -> int:
        """The log's time at that revision."""
        return self._reached[1]

    @property
    def memory_bytes(self) -> int:
        """Memory that all streams take, at most about. Safe to read from any thread."""
        return self._memory_bytes

    @property
    def kept_ids(self) -> int:
        """Ids that all streams keep. Safe to read from any thread."""
        return self._kept_ids

    @property
    def due_us(self) -> int:
        """When something has to happen next, or may. Safe to read from any thread."""
        agenda = self._agenda
        try:
            return agenda[0][0]
        except IndexError:  # empty, or emptied just now
            return NEVER

    # -- applying

    def apply(self, entries: Sequence[Entry]) -> None:
        """Apply entries in order; each must carry the revision after the one before.

        The result does not depend on how entries are grouped into calls.
        O(rows log rows), amortised, `merge` included: rows are counted when there
        are many, or when somebody looks.
        """
        self.merge()
        touched: dict[str, None] = {}
        for entry in entries:
            if entry.revision != self.revision + 1:
                raise ValueError(f"revision {entry.revision} cannot follow {self.revision}")
            if entry.received_us >= self.due_us:
                self._settle(touched)
                while self.pass_time(entry.received_us, _UNLIMITED):
                    pass
            state = self._applied(entry)
            if state is not None:
                touched[entry.stream] = None
                self._plan(state)
            self.marks.record(
                entry.producer,
                entry.epoch,
                entry.sequence,
                entry.received_us,
                revision=entry.revision,
                refused=entry.refused,
            )
            self._reached = (entry.revision, entry.received_us)
        self._settle(touched)

    def _applied(self, entry: Entry) -> StreamState | None:
        """Apply an entry; return the stream that changed."""
        if entry.rows is not None:
            state = self._streams.get(entry.stream) or self._made(entry)
            state.on_time(entry.received_us)
            state.take(entry.rows, entry.revision, entry.received_us)
            return state
        if entry.kind == Kind.CREATE_STREAM:
            return self._made(entry)
        if isinstance(entry.request, StreamFile):
            state = entry.request.restored(entry.stream, entry.revision, self._limits)
            self._streams[entry.stream] = state
            return state
        if entry.kind == Kind.UPDATE_STREAM:
            state = self._streams[entry.stream]
            known = administered(StreamFacts(settings=state.info.settings), entry)
            assert known is not None
            state.on_time(entry.received_us)
            state.update(known.settings, entry.revision)
            # A shorter retention holds from now on, not from the next entry on.
            state.on_time(entry.received_us)
            return state
        if entry.kind == Kind.DELETE_STREAM:
            state = self._streams.pop(entry.stream)
            state.last_view = None  # for whoever has found it just now
            self._due.pop(entry.stream, None)
            memory_bytes, kept_ids = self._sizes.pop(entry.stream, (0, 0))
            self._memory_bytes -= memory_bytes
            self._kept_ids -= kept_ids
        return None

    def _made(self, entry: Entry) -> StreamState:
        """Return the entry's stream, made now."""
        known = administered(None, entry) if entry.request is not None else None
        settings = DEFAULTS if known is None else known.settings
        info = StreamInfo(entry.stream, entry.received_us, entry.revision, settings)
        state = self._streams[entry.stream] = StreamState(info, self._limits)
        return state

    def _settle(self, touched: dict[str, None]) -> None:
        """Note what streams that changed, and are still there, will need and take."""
        for name in touched:
            state = self._streams.get(name)
            if state is not None:
                self._plan(state)
                self._measure(state)
        touched.clear()

    @property
    def has_collected(self) -> bool:
        """Whether streams have collected much that they are yet to count."""
        return bool(self._collected)

    def count(self) -> None:
        """Count what streams have collected, where it is much; nothing seen changes by it. O(rows).

        As `apply`, which leaves it until there is more, or somebody looks.
        """
        collected, self._collected = self._collected, {}
        for name in collected:
            state = self._streams.get(name)
            if state is not None:
                state.counts.count()
                self._measure(state)

    def merge(self) -> None:
        """Merge what `apply` has left to be merged. O(n log n).

        In the thread of `apply`, which does it first of all if nobody did; but here
        `view` may run at the same time.
        """
        unmerged, self._unmerged = self._unmerged, []
        for frozen in unmerged:
            frozen.merge()

    def _measure(self, state: StreamState) -> None:
        """Note what a stream takes, and what should be merged."""
        name = state.info.name
        self._unmerged += state.counts.take_due()
        if state.counts.has_collected:
            self._collected[name] = None
        memory_bytes, kept_ids = self._sizes.get(name, (0, 0))
        self._sizes[name] = now = (state.memory_bytes, state.kept_ids)
        self._memory_bytes += now[0] - memory_bytes
        self._kept_ids += now[1] - kept_ids

    # -- time

    def _plan(self, state: StreamState) -> None:
        """Note when a stream has to be looked at next."""
        name, due_us = state.info.name, state.due_us
        if due_us < self._due.get(name, NEVER):
            self._due[name] = due_us
            heapq.heappush(self._agenda, (due_us, name))

    def pass_time(self, now_us: int, budget: int) -> bool:
        """Let some of what is due by a time happen; return whether there is more.

        To be called before the entry of that time is applied. Takes about a
        millisecond for a thousand of the budget. The order in which streams
        have their turn makes no difference.
        """
        agenda = self._agenda
        while agenda and agenda[0][0] <= now_us:
            if budget <= 0:
                return True
            due_us, name = agenda[0]
            if self._due.get(name) != due_us:  # it was planned anew, or is gone
                heapq.heappop(agenda)
                continue
            state = self._streams[name]
            if state.due_us <= now_us:
                budget -= state.pass_time(now_us, self.revision + 1, budget)
                self._measure(state)
                if state.due_us <= now_us:
                    continue
            heapq.heappop(agenda)
            del self._due[name]
            self._plan(state)
        return False

    # -- reading

    def stream(self, name: str) -> StreamInfo | None:
        """Return a stream's description; None when there is none. O(1), safe in any thread."""
        state = self._streams.get(name)
        return None if state is None else state.info

    def streams(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[StreamInfo]:
        """Return streams in order of their names. O(log(streams) + limit).

        Parameters
        ----------
        prefix
            Only names that begin with it.
        after
            Only names above it.
        limit
            At most so many.
        """
        found: list[StreamInfo] = []
        for name in self._streams.irange(minimum=max(prefix, after)):
            if len(found) == limit or not name.startswith(prefix):
                break
            if name != after:
                found.append(self._streams[name].info)
        return found

    def view(self, name: str) -> StreamView | None:
        """Return a stream's counts now; None when there is no such stream.

        O(panes) when the stream has changed.
        """
        state = self._streams.get(name)
        if state is None:
            return None
        return state.view(*self._reached)

    def unchanged_view(self, name: str) -> StreamView | None:
        """Return what `view` would, where somebody has looked since the stream changed last.

        None where nobody has. O(1), safe in any thread at any time: who reads a
        stream that nobody writes to need not wait for those who write to others.
        """
        state = self._streams.get(name)
        view = None if state is None else state.last_view
        if state is None or view is None:
            return None
        reached = self._reached
        if state.last_view is not view:  # it has begun to change, maybe before that revision
            return None
        return view.at(*reached)

    def export(self, name: str) -> Callable[[], tuple[int, bytes]] | None:
        """Return what makes a stream's file; None when there is no such stream.

        O(panes + ids); the callable, which gives the revision and the file, needs no lock.
        """
        state = self._streams.get(name)
        if state is None:
            return None
        (revision, now_us), ids = self._reached, state.kept_ids
        noted = list(stream_parts.export_parts(state))

        def export() -> tuple[int, bytes]:
            parts = {part: data() for part, data in noted}
            return revision, stream_to_bytes(name, revision, now_us, ids, parts)

        return export

    def catalog(self) -> Catalog:
        """Return what a committer has to know of each stream. O(streams)."""
        return {
            name: StreamFacts(state.total, state.info.settings, dict(state.sources) or NO_SOURCES)
            for name, state in self._streams.items()
        }

    # -- checkpoints

    def begin_checkpoint(self, since: int) -> Callable[[], Checkpoint]:
        """Note what changed after the checkpoint at `since`. O(panes).

        Returns
        -------
        callable
            Copies it, in O(bytes that changed). It may run at the same time as
            `view`, and must have run before anything else is applied.
        """
        revision, received_us = self._reached
        states = list(self._streams.values())
        noted = [each for state in states for each in stream_parts.checkpoint_parts(state, since)]

        def copy() -> Checkpoint:
            parts: dict[str, bytes | None] = {MARKS_PART: self.marks.to_bytes()}
            parts |= {part: None if data is None else data() for part, data in noted}
            for state in states:
                parts.update(stream_parts.join_parts(state, revision, since))
            changed = {part: data for part, data in parts.items() if data is not None}
            unchanged = tuple(part for part, data in parts.items() if data is None)
            return Checkpoint(revision, received_us, changed, unchanged)

        return copy

    def checkpoint(self, since: int) -> Checkpoint:
        """Copy what changed after the checkpoint at `since`, at once."""
        return self.begin_checkpoint(since)()

    @classmethod
    def restore(
        cls, limits: Limits, revision: int, received_us: int, parts: Mapping[str, bytes]
    ) -> Engine:
        """Return the engine whose checkpoint's parts these are.

        Raises
        ------
        CorruptLogError
            When a part is missing or not what was written.
        """
        engine = cls(limits)
        engine._reached = (revision, received_us)
        if MARKS_PART not in parts:
            raise CorruptLogError("the checkpoint has no producers' marks")
        engine.marks = Marks.from_bytes(parts[MARKS_PART], limits.marks_ttl_us)
        streams: dict[str, dict[str, bytes]] = {}
        for part, data in parts.items():
            if part != MARKS_PART:
                name, which = stream_parts.split_part(part)
                streams.setdefault(name, {})[which] = data
        for name, mine in streams.items():
            state = stream_parts.restore_stream(limits, revision, mine)
            engine._streams[name] = state
            engine._plan(state)
            engine._measure(state)
        return engine

    def _content(self) -> Iterator[tuple[str, bytes]]:
        yield MARKS_PART, self.marks.to_bytes()
        for state in self._streams.values():
            yield from stream_parts.content_parts(state)

    def state_hash(self) -> str:
        """Return the SHA-256 of the whole state, in hexadecimal. O(bytes)."""
        digest = hashlib.sha256(f"{self.revision} {self.received_us}".encode())
        for part, data in self._content():
            digest.update(f"\n{part} {len(data)}\n".encode())
            digest.update(data)
        return digest.hexdigest()
