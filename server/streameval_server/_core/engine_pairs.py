"""The pairs of an engine: made, deleted, and given the rows of their streams.

The engine's agenda and sizes hold streams under their names and pairs under their keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sortedcontainers import SortedDict

from streameval_server._model.pair_settings import PairCreation, PairDeletion, PairInfo, pair_key
from streameval_server._state.pairs.pair_file import PairImport
from streameval_server._state.pairs.pair_state import PairState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from streameval_server._core.entries import Entry
    from streameval_server._model.limits import Limits
    from streameval_server._state.stream_state import StreamState


class EnginePairs:
    """All pairs, by key and by stream."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pairs: SortedDict[str, PairState] = SortedDict()
        self._by_stream: dict[str, tuple[PairState, ...]] = {}

    def get(self, key: str) -> PairState | None:
        """Return the pair of a key, if any. O(1)."""
        return self._pairs.get(key)

    def values(self) -> Iterator[PairState]:
        """Yield all pairs, in order of their names."""
        yield from self._pairs.values()

    def with_stream(self, stream: str) -> list[PairInfo]:
        """Return the pairs that a stream is in, in order of their names. Safe in any thread."""
        pairs = self._by_stream.get(stream, ())
        return sorted((pair.info for pair in pairs), key=lambda info: info.name)

    def apply(
        self, entry: Entry, due_us: int, streams: Mapping[str, StreamState]
    ) -> Sequence[PairState]:
        """Apply an entry that its stream has taken; return the pairs that changed.

        O(1) where the stream is in no pair, else O(rows) for each.
        """
        change = entry.change
        if isinstance(change, PairImport):
            imported = change.restored(entry.revision, self._limits)
            self._take_thresholds(imported, entry.revision, streams)
            self.put(imported, streams)
            return (imported,)
        if isinstance(change, PairCreation):
            a, b = streams[change.a].info.settings, streams[change.b].info.settings
            info = PairInfo(
                change.name,
                change.a,
                change.b,
                entry.received_us,
                entry.revision,
                change.resolved(a, b),
            )
            made = PairState(info, self._limits, due_us)
            made.counts.thresholds = (a.threshold, b.threshold)
            self.put(made, streams)
            return (made,)
        if isinstance(change, PairDeletion):
            self._delete(pair_key(change.name))
            return ()
        pairs = self._by_stream.get(entry.stream, ())
        for pair in pairs:
            pair.on_time(due_us, entry.revision)
            if entry.rows is not None:
                self._take_lag(pair, streams)
                joins = streams[entry.stream].joins
                pair.take(
                    entry.stream,
                    entry.rows,
                    entry.revision,
                    entry.received_us,
                    due_us,
                    ids=None if joins is None else joins.table,
                )
            else:
                self._take_thresholds(pair, entry.revision, streams)
        return pairs

    @staticmethod
    def _take_lag(pair: PairState, streams: Mapping[str, StreamState]) -> None:
        """Let a pair's ids fall due by the clock of the later one of its streams."""
        pair.lag_us = max(streams[name].lag_us for name in (pair.info.a, pair.info.b))

    @staticmethod
    def _take_thresholds(
        pair: PairState, revision: int, streams: Mapping[str, StreamState]
    ) -> None:
        a, b = (streams[name].info.settings.threshold for name in (pair.info.a, pair.info.b))
        pair.take_thresholds(a, b, revision)

    def put(self, pair: PairState, streams: Mapping[str, StreamState]) -> None:
        """Add a pair of two of these streams."""
        self._take_lag(pair, streams)
        self._pairs[pair.info.key] = pair
        for name in (pair.info.a, pair.info.b):
            self._by_stream[name] = (*self._by_stream.get(name, ()), pair)

    def _delete(self, key: str) -> None:
        gone: PairState = self._pairs.pop(key)
        gone.last_view = None
        for links in gone.links.values():
            links.detach()
        for name in (gone.info.a, gone.info.b):
            left = tuple(pair for pair in self._by_stream[name] if pair is not gone)
            if left:
                self._by_stream[name] = left
            else:
                del self._by_stream[name]

    # -- reading

    def info(self, name: str) -> PairInfo | None:
        """Return the description of a pair. O(1), safe in any thread."""
        pair = self._pairs.get(pair_key(name))
        return None if pair is None else pair.info

    def page(self, *, stream: str, after: str, limit: int) -> list[PairInfo]:
        """Return at most `limit` pairs whose name sorts after one, in order. O(pairs)."""
        found: list[PairInfo] = []
        for key in self._pairs.irange(minimum=pair_key(after), inclusive=(False, True)):
            info = self._pairs[key].info
            if not stream or stream in {info.a, info.b}:
                found.append(info)
            if len(found) == limit:
                break
        return found
