"""The engine: what the log means. The same log gives the same state bytes.

No clocks, threads or disks: an entry carries its time. One thread applies;
`view`, `streams`, `checkpoint` and `state_hash` must not run at the same time
as `apply` (the shell holds one lock around each of them), and what they return
is immutable.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sortedcontainers import SortedDict

from streameval_server._checkpoint import Checkpoint
from streameval_server._entries import Kind
from streameval_server._errors import CorruptLogError
from streameval_server._marks import Marks
from streameval_server._stream_state import StreamInfo, StreamState
from streameval_server._views import SliceView, StreamView

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from streameval_server._entries import Entry
    from streameval_server._limits import Limits

MARKS_PART = "marks"
STREAM_PART = "stream/"
"""Begins the name of each stream's part."""


class Engine:
    """All streams, and how far each producer has come.

    Attributes
    ----------
    marks : Marks
        At the applied revision.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._revision = 0
        self._received_us = 0
        self._streams: SortedDict[str, StreamState] = SortedDict()
        self._memory_bytes = 0
        self.marks = Marks(limits.marks_ttl_us)

    @property
    def revision(self) -> int:
        """The last log revision that was applied. Safe to read from any thread."""
        return self._revision

    @property
    def received_us(self) -> int:
        """The log's time at that revision."""
        return self._received_us

    @property
    def memory_bytes(self) -> int:
        """Memory that the counts take at most, in bytes. Safe to read from any thread."""
        return self._memory_bytes

    def apply(self, entries: Sequence[Entry]) -> None:
        """Apply entries in order; each must carry the revision after the one before.

        The result does not depend on how entries are grouped into calls. A
        stream's rows of one call are sorted together: O(rows log rows).
        """
        touched: dict[str, StreamState] = {}
        revision = self._revision
        for entry in entries:
            revision += 1
            if entry.revision != revision:
                raise ValueError(f"revision {entry.revision} cannot follow {revision - 1}")
            if entry.kind == Kind.BATCH:
                if entry.rows is not None:
                    name = entry.stream
                    state = touched.get(name)
                    if state is None:
                        state = touched[name] = self._made(entry)
                    state.add(entry.rows, revision)
            elif entry.kind == Kind.CREATE_STREAM:
                self._made(entry)
            elif entry.kind == Kind.DELETE_STREAM:
                touched.pop(entry.stream, None)
                self._memory_bytes -= self._streams.pop(entry.stream).memory_bytes
            self.marks.record(entry.producer, entry.epoch, entry.sequence, entry.received_us)
        for state in touched.values():
            self._memory_bytes += state.fold()
        if entries:
            self._received_us = entries[-1].received_us
            self._revision = revision

    def _made(self, entry: Entry) -> StreamState:
        """Return the entry's stream, made now if it is not there."""
        state = self._streams.get(entry.stream)
        if state is None:
            info = StreamInfo(entry.stream, entry.received_us, entry.revision)
            state = self._streams[entry.stream] = StreamState.new(info, self._limits.max_cells)
        return state

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

        O(1) while the stream has not changed, O(cells) otherwise.
        """
        state = self._streams.get(name)
        if state is None:
            return None
        whole = SliceView(state.frozen())
        return StreamView(state.info, self._revision, self._received_us, whole, {})

    def totals(self) -> dict[str, int]:
        """Return the references counted in each stream. O(streams)."""
        return {name: state.total for name, state in self._streams.items()}

    def checkpoint(self, since: int) -> Checkpoint:
        """Copy what changed after revision `since`. O(bytes that changed)."""
        changed: dict[str, bytes] = {MARKS_PART: self.marks.to_bytes()}
        unchanged: list[str] = []
        for name, state in self._streams.items():
            if state.revision > since:
                before = state.memory_bytes
                changed[STREAM_PART + name] = state.to_bytes()
                self._memory_bytes += state.memory_bytes - before
            else:
                unchanged.append(STREAM_PART + name)
        return Checkpoint(self._revision, self._received_us, changed, tuple(unchanged))

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
        engine._revision = revision
        engine._received_us = received_us
        if MARKS_PART not in parts:
            raise CorruptLogError("the checkpoint has no producers' marks")
        engine.marks = Marks.from_bytes(parts[MARKS_PART], limits.marks_ttl_us)
        for part, data in parts.items():
            if part.startswith(STREAM_PART):
                state = StreamState.from_bytes(part.removeprefix(STREAM_PART), data)
                engine._streams[state.info.name] = state
                engine._memory_bytes += state.memory_bytes
        return engine

    def _parts(self) -> Iterator[tuple[str, bytes]]:
        yield MARKS_PART, self.marks.to_bytes()
        for name, state in self._streams.items():
            yield STREAM_PART + name, state.to_bytes()

    def state_hash(self) -> str:
        """Return the SHA-256 of the whole state, in hexadecimal. O(bytes)."""
        digest = hashlib.sha256(f"{self._revision} {self._received_us}".encode())
        for part, data in self._parts():
            digest.update(f"\n{part} {len(data)}\n".encode())
            digest.update(data)
        return digest.hexdigest()
