"""A stream's ids that wait for their label or prediction, and their parts of a checkpoint.

This is the library's joiner with a table that tracks which ids changed since the last
checkpoint. A join segment lists the ids that were removed and the rows that were added or
changed since the segment before. Once half of the listed rows are dead, one new segment
replaces all.

Cost: as the library's joiner, and 2 B an id; a segment takes O(ids that changed).
"""

from __future__ import annotations

import struct
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from streameval import CorruptStateError
from streameval.kernel import Joiner, JoinSettings, JoinTable
from streameval_server._state.ids.join_segment import decode_segment, encode_segment
from streameval_server._state.observer import Observer
from streameval_server._state.segments import ABSENT

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from streameval.kernel import Effects
    from streameval_server._model.arrays import IntArray
    from streameval_server._model.stream_settings import StreamSettings

_STATE = struct.Struct(f"<{len(Joiner.COUNTERS)}q")
_EXPIRED_EARLY = Joiner.COUNTERS.index("expired_early")
_MIN_REWRITE_ROWS = 1_024
"""Listed rows, beyond twice the live ones, below which segments are not rewritten."""


_ROW_BYTES = 22
"""Bytes of a row of a segment besides its id and codes."""

_REMOVED_BYTES = 72
"""Memory of a removed id that the last checkpoint has."""


class DerivedSlots(Protocol):
    """Data derived from the slots of a table, which the table invalidates."""

    def forget(self, slots: IntArray) -> None:
        """Clear the data of slots that the table gives to new ids."""


class TrackedTable(JoinTable):
    """A join table that tracks changes.

    Attributes
    ----------
    budget : int or None
        Maximum number of ids that one `pop_due` returns; None for no limit.
    removed : list of bytes
        Ids that the last checkpoint has and that were removed since.
    links : list of DerivedSlots
        One for each pair that the table's stream is in.
    last_found : (sequence of bytes, int64[n]) or None
        The ids that were looked up last and their slots, which the joiner fills in for the ids
        that it adds; None without links.
    """

    def __init__(self, keys: int = 0) -> None:
        super().__init__(keys)
        self.budget: int | None = None
        self.removed: list[bytes] = []
        self.links: list[DerivedSlots] = []
        self.last_found: tuple[Sequence[bytes], IntArray] | None = None
        self._changed = np.zeros(0, dtype=np.bool_)
        self._in_checkpoint = np.zeros(0, dtype=np.bool_)

    @property
    def memory_bytes(self) -> int:
        """Memory, including the list of removed ids. O(1)."""
        flags = self._changed.nbytes + self._in_checkpoint.nbytes
        return super().memory_bytes + flags + _REMOVED_BYTES * len(self.removed)

    @property
    def encoded_bytes(self) -> int:
        """Bytes of a segment of all ids and of the columns that it is put together of. O(1)."""
        row_bytes: int = _ROW_BYTES + self.codes.itemsize * self.codes.shape[1]
        row_bytes += self.units.itemsize * self.has_weights
        return 2 * (self.id_bytes + len(self) * row_bytes)

    def find(self, ids: Sequence[bytes]) -> IntArray:
        """Find slots, and mark them as changed: a caller that finds an id may change it."""
        slots = super().find(ids)
        known = slots[slots >= 0]
        if known.size:
            self._changed[known] = True
        if self.links:
            self.last_found = (ids, slots)
        return slots

    def find_one(self, id_: bytes) -> int:
        """Find one slot, as `find`."""
        slot = super().find_one(id_)
        if slot >= 0:
            self._changed[slot] = True
        return slot

    def add(self, ids: Sequence[bytes]) -> IntArray:
        """Add ids, and mark them as changed."""
        slots = super().add(ids)
        self._changed[slots] = True
        for links in self.links:
            links.forget(slots)
        return slots

    def drop(self, slots: IntArray) -> None:
        """Remove slots, and record the ids that the last checkpoint has."""
        self.removed += self.ids(slots[self._in_checkpoint[slots]])
        self._in_checkpoint[slots] = self._changed[slots] = False
        super().drop(slots)

    def pop_due(self, before: int, most: int = sys.maxsize) -> IntArray:
        """Remove and return due ids, at most `budget`: the last bucket may be split.

        A bucket is sorted once, when it is split for the first time; after that a call takes
        O(budget).
        """
        return super().pop_due(before, most if self.budget is None else self.budget)

    def _take_listed(self, most: int) -> array[int]:
        due, bucket = self._buckets.peekitem(0)
        if self.budget is None or len(bucket.slots) <= most:
            return super()._take_listed(most)
        if len(bucket.slots) != bucket.descending:
            slots = bucket.distinct()
            self._relist(bucket, slots[self.due[slots] == due][::-1])
        # Taken from the end, so that the rest need not be moved.
        left = bucket.descending = max(0, len(bucket.slots) - most)
        taken = bucket.slots[left:]
        self._bucket_bytes -= bucket.memory_bytes
        del bucket.slots[left:]
        self._bucket_bytes += bucket.memory_bytes
        if not left:
            self._pop_bucket()
        return taken

    def changed(self) -> IntArray:
        """Return the slots that were added or changed since `mark_saved`. O(capacity)."""
        return np.flatnonzero(self._changed)

    def used(self) -> IntArray:
        """Return all slots in use. O(capacity)."""
        return np.flatnonzero(self.state != self.FREE_SLOT)

    def mark_saved(self) -> None:
        """Record that a checkpoint has everything."""
        self._in_checkpoint[:] = self.state != self.FREE_SLOT
        self._changed[:] = False
        self.removed = []

    def widen(self, keys: int) -> None:
        """Add columns for new keys; existing rows are in no slice of these."""
        codes = np.full((self.codes.shape[0], keys), ABSENT, dtype=np.uint16)
        codes[:, : self.codes.shape[1]] = self.codes
        self.codes = codes

    def rebucket(self, old_us: int, new_us: int) -> None:
        """Use buckets of another width; no id falls due earlier than before. O(n log n)."""
        slots = self.used()
        due_us = (self.due[slots].astype(np.int64) + 1) * old_us - 1
        self._buckets.clear()
        self._oldest = None
        self._bucket_bytes = 0
        self.due[slots] = self.UNLISTED_BUCKET
        self.schedule(slots, np.clip(due_us // new_us, 0, self.LAST_BUCKET).astype(np.uint32))

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        for column in (self._changed, self._in_checkpoint):
            column.resize(capacity, refcheck=False)


class IdSegments(ABC):
    """The ids of one table as the join segments of checkpoints.

    Attributes
    ----------
    PART : str
        The kind of part that a segment is.
    table : TrackedTable
    segments : dict of int to int
        Rows of each segment of the last checkpoint, by the segment's number.
    """

    PART: ClassVar[str]
    table: TrackedTable

    def __init__(self) -> None:
        self.segments: dict[int, int] = {}
        self._taken = 0
        self._rewrite = False

    def __len__(self) -> int:
        return len(self.table)

    @abstractmethod
    def encode(self, slots: IntArray, removed: list[bytes]) -> bytes:
        """Return a segment of slots and of removed ids. O(rows)."""

    @abstractmethod
    def decode(self, data: bytes) -> int:
        """Apply a segment to the table; return its rows. Raises CorruptStateError. O(rows)."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return everything in a canonical form, equal for equal ids. O(n log n)."""

    def take_segment(self, revision: int, since: int) -> bytes | None:
        """Return the new segment of a checkpoint at `revision`, if any. O(ids that changed).

        `segments` then names all segments of the checkpoint. `since` is the revision of the
        last checkpoint that was written; if a later one was taken and not written, the new
        segment has all ids.
        """
        live = len(self.table)
        changed, removed = self.table.changed(), self.table.removed
        listed = sum(self.segments.values()) + changed.size + len(removed)
        if self._rewrite or self._taken > since or listed > 2 * live + _MIN_REWRITE_ROWS:
            self.segments = {}
            changed, removed = self.table.used(), []
        data = None
        if changed.size or removed:
            data = self.encode(changed, removed)
            self.segments[revision] = changed.size + len(removed)
        self.table.mark_saved()
        self._taken = revision
        self._rewrite = False
        return data

    def restore(self, revision: int, segments: dict[int, bytes]) -> None:
        """Load the ids of a checkpoint's segments. Raises CorruptStateError. O(ids)."""
        for number in sorted(segments):
            self.segments[number] = self.decode(segments[number])
        self.table.mark_saved()
        self._taken = revision


class Joins(IdSegments, Observer):
    """A stream's joiner.

    Parameters
    ----------
    settings
        The stream's.

    Attributes
    ----------
    joiner : Joiner
        The library's. `expire` advances it, within a budget.
    waiting : int
        Ids that wait for their other half as of `count_waiting`, at most; 0 where labels that
        wait for their prediction are more than predictions that wait for their label, so that
        predictions make more room than labels.
    lag_us : int
        How far the source of the ids was behind the log when it last said its time: ids fall
        due that much later. 0 where no source says its time.
    """

    PART = "join"

    def __init__(self, settings: StreamSettings) -> None:
        super().__init__()
        self.table = TrackedTable(len(settings.segment_keys) + bool(settings.cluster_groups))
        self.joiner = self._joiner(settings)
        self.waiting = 0
        self.lag_us = 0

    def count_waiting(self) -> None:
        """Count the ids that wait, if more than half of the room is taken. O(ids), 1 ns each."""
        self.waiting = len(self.table)
        if 2 * self.waiting > self.joiner.settings.max_pending:
            predictions, labels = self.joiner.count_waiting()
            self.waiting = predictions + labels if predictions >= labels else 0

    @property
    def expired_early(self) -> int:
        """Predictions that expired early, because `max_pending` ids were kept."""
        return int(self.joiner.tally[_EXPIRED_EARLY])

    def _joiner(self, settings: StreamSettings) -> Joiner:
        return Joiner(
            join_settings(settings),
            len(settings.segment_keys),
            has_clusters=settings.cluster_groups > 0,
            table=self.table,
        )

    @property
    def memory_bytes(self) -> int:
        """Memory of the ids, and of a checkpoint's segment of all of them. O(1)."""
        return self.table.memory_bytes + self.table.encoded_bytes

    @property
    def due_us(self) -> int | None:
        """When the next id may fall due; None without ids. O(1)."""
        oldest = self.table.oldest_bucket()
        if oldest is None:
            return None
        return (oldest + 1) * self.joiner.settings.bucket_us + self.lag_us

    def at(self, now_us: int, due_us: int) -> Joiner:
        """Return the joiner, for rows that come at a time.

        Parameters
        ----------
        now_us
            The time of the rows, by the clock that dates them.
        due_us
            The log's time up to which ids fall due.
        """
        joiner = self.joiner
        joiner.due_limit_us = due_us - self.lag_us
        # Another partition of the source may have been further.
        joiner.now_us = now_us if self.lag_us else max(joiner.now_us, now_us)
        return joiner

    def expire(self, due_us: int, budget: int) -> Effects:
        """Expire at most `budget` ids that are due; see `at`."""
        self.table.budget = budget
        now_us = due_us - self.lag_us
        joiner = self.at(now_us, due_us)
        try:
            return joiner.advance(now_us)
        finally:
            self.table.budget = None

    def reconfigure(self, settings: StreamSettings) -> None:
        """Take new settings. O(n log n) when the width of buckets changes."""
        before = self.joiner
        after = self._joiner(settings)
        after.now_us, after.tally = before.now_us, before.tally
        if after.keys > before.keys:
            self.table.widen(after.keys + after.has_clusters)
        old_us, new_us = before.settings.bucket_us, after.settings.bucket_us
        if old_us != new_us:
            self.table.rebucket(old_us, new_us)
            self._rewrite = True
        self.joiner = after

    # -- checkpoints

    def encode(self, slots: IntArray, removed: list[bytes]) -> bytes:
        """Return a segment of slots and of removed ids. O(rows)."""
        return encode_segment(self.table, slots, removed)

    def decode(self, data: bytes) -> int:
        """Apply a segment to the table; return its rows. Raises CorruptStateError. O(rows)."""
        return decode_segment(self.table, data)

    def state_to_bytes(self) -> bytes:
        """Return the counters, which segments do not have."""
        return _STATE.pack(*self.joiner.tally[: len(Joiner.COUNTERS)].tolist())

    def state_from_bytes(self, data: bytes) -> None:
        """Restore the counters. Raises CorruptStateError."""
        try:
            tally = _STATE.unpack(data)
        except struct.error as error:
            raise CorruptStateError(f"the joiner's counters cannot be read: {error}") from error
        self.joiner.tally[: len(Joiner.COUNTERS)] = tally

    def to_bytes(self) -> bytes:
        """Return everything in a canonical form, equal for equal joins. O(n log n)."""
        return self.state_to_bytes() + self.encode(self.table.slots_by_id(), [])


def join_settings(settings: StreamSettings) -> JoinSettings:
    """Return the joiner's part of a stream's settings."""
    return JoinSettings(
        ttl_us=settings.label_ttl_us,
        relabel_ttl_us=settings.relabel_ttl_us,
        max_pending=settings.max_pending,
        orphans=settings.orphans,
        expired=settings.expired,
    )
