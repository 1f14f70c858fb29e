"""A stream's ids that wait for their other half, and their parts of a checkpoint.

The library's joiner, with a table that remembers which ids changed since the
last checkpoint. A join segment lists the ids that went and the rows that came
or changed since the segment before; once half of what segments list is dead,
one new segment takes the place of all.

Cost: as the library's joiner, and 2 B an id; a segment costs O(ids that changed).
"""

from __future__ import annotations

import struct
import sys
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from streameval import CorruptStateError
from streameval._common import Frame, raise_corrupt
from streameval._joining import (
    EARLY_POSITIVE,
    FREE_SLOT,
    JOIN_COUNTERS,
    LAST_BUCKET,
    UNLISTED_BUCKET,
    Joiner,
    JoinSettings,
    JoinTable,
    encode_joiner,
)
from streameval_server._state.segments import ABSENT

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common import Reader
    from streameval._joining import SlotArray
    from streameval._time import Effects
    from streameval_server._model.stream_settings import StreamSettings

FRAME = Frame(b"SEVS", 1, "a join segment")
_HEADER = struct.Struct("<qqH")
_STATE = struct.Struct(f"<{len(JOIN_COUNTERS)}q")
_SLACK = 1_024
"""So many dead rows are not worth a new segment."""


class TrackedTable(JoinTable):
    """A join table that knows what changed.

    Attributes
    ----------
    budget : int or None
        How many ids one `pop_due` gives out at most.
    gone : list of bytes
        Ids of the last checkpoint that are no longer there.
    """

    def __init__(self, keys: int = 0) -> None:
        super().__init__(keys)
        self.budget: int | None = None
        self.gone: list[bytes] = []
        self._touched = np.zeros(0, dtype=np.bool_)
        self._kept = np.zeros(0, dtype=np.bool_)

    def find(self, ids: Sequence[bytes]) -> SlotArray:
        """As the table's; whoever looks for an id may change it."""
        slots = super().find(ids)
        self._touched[slots[slots >= 0]] = True
        return slots

    def find_one(self, id_: bytes) -> int:
        """As `find`."""
        slot = super().find_one(id_)
        if slot >= 0:
            self._touched[slot] = True
        return slot

    def add(self, ids: Sequence[bytes]) -> SlotArray:
        """As the table's."""
        slots = super().add(ids)
        self._touched[slots] = True
        return slots

    def drop(self, slots: SlotArray) -> None:
        """As the table's."""
        self.gone += self.ids(slots[self._kept[slots]])
        self._kept[slots] = self._touched[slots] = False
        super().drop(slots)

    def pop_due(self, before: int, most: int = sys.maxsize) -> SlotArray:
        """As the table's, but no more than `budget` ids: the last bucket may be cut.

        That is sorted when it is cut first, and once; then a call is O(budget).
        """
        return super().pop_due(before, most if self.budget is None else self.budget)

    def _take_listed(self, most: int) -> array[int]:
        due, bucket = self._buckets.peekitem(0)
        if self.budget is None or len(bucket.slots) <= most:
            return super()._take_listed(most)
        if len(bucket.slots) != bucket.descending:
            slots = bucket.distinct()
            self._relist(bucket, slots[self.due[slots] == due][::-1])
        # From its end: what is left need not be moved.
        left = bucket.descending = max(0, len(bucket.slots) - most)
        taken = bucket.slots[left:]
        self._bucket_bytes -= bucket.memory_bytes
        del bucket.slots[left:]
        self._bucket_bytes += bucket.memory_bytes
        if not left:
            self._pop_bucket()
        return taken

    def changed(self) -> SlotArray:
        """Return the slots that came or changed since `keep`. O(capacity)."""
        return np.flatnonzero(self._touched)

    def used(self) -> SlotArray:
        """Return all slots in use. O(capacity)."""
        return np.flatnonzero(self.state != FREE_SLOT)

    def keep(self) -> None:
        """Note that a checkpoint has everything."""
        self._kept[:] = self.state != FREE_SLOT
        self._touched[:] = False
        self.gone = []

    def widen(self, keys: int) -> None:
        """Give rows codes of more keys; they are in no slice of those."""
        codes = np.full((self.codes.shape[0], keys), ABSENT, dtype=np.uint16)
        codes[:, : self.codes.shape[1]] = self.codes
        self.codes = codes

    def rebucket(self, old_us: int, new_us: int) -> None:
        """Keep due times in buckets of another width, none earlier than before. O(n log n)."""
        slots = self.used()
        due_us = (self.due[slots].astype(np.int64) + 1) * old_us - 1
        self._buckets.clear()
        self._bucket_bytes = 0
        self.due[slots] = UNLISTED_BUCKET
        self.schedule(slots, np.clip(due_us // new_us, 0, LAST_BUCKET).astype(np.uint32))

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        for column in (self._touched, self._kept):
            column.resize(capacity, refcheck=False)


class Joins:
    """A stream's joiner.

    Parameters
    ----------
    settings
        The stream's.

    Attributes
    ----------
    joiner : Joiner
        The library's. Its rows are advanced by `expire`, in slices.
    segments : dict of int to int
        The segments of the last checkpoint that was taken: rows by number.
    """

    def __init__(self, settings: StreamSettings) -> None:
        self.table = TrackedTable(len(settings.segment_keys))
        self.joiner = self._joiner(settings)
        self.segments: dict[int, int] = {}
        self._taken = 0
        self._rewrite = False

    def _joiner(self, settings: StreamSettings) -> Joiner:
        joiner = Joiner(join_settings(settings), len(settings.segment_keys))
        joiner.table = self.table
        return joiner

    def __len__(self) -> int:
        return len(self.table)

    @property
    def memory_bytes(self) -> int:
        """Memory that the ids take. O(1)."""
        return self.table.memory_bytes

    @property
    def due_us(self) -> int | None:
        """When the next id falls due, or may; None without any. O(1)."""
        oldest = self.table.oldest_bucket()
        return None if oldest is None else (oldest + 1) * self.joiner.settings.bucket_us

    def expire(self, now_us: int, budget: int) -> Effects:
        """Let at most `budget` ids fall due."""
        self.table.budget = budget
        try:
            return self.joiner.advance(now_us)
        finally:
            self.table.budget = None

    def reconfigure(self, settings: StreamSettings) -> None:
        """Go on under other settings. O(n log n) where due times are rounded otherwise."""
        before = self.joiner
        after = self._joiner(settings)
        after.now_us, after.tally = before.now_us, before.tally
        if after.keys > before.keys:
            self.table.widen(after.keys)
        old_us, new_us = before.settings.bucket_us, after.settings.bucket_us
        if old_us != new_us:
            self.table.rebucket(old_us, new_us)
            self._rewrite = True
        self.joiner = after

    # -- checkpoints

    def take(self, revision: int, since: int) -> bytes | None:
        """Return the segment of a checkpoint at `revision`, if it needs one. O(ids that changed).

        `segments` names all that it needs. `since` is the revision of the
        checkpoint before; if one was taken in vain after it, this one has all ids.
        """
        live = len(self.table)
        changed, gone = self.table.changed(), self.table.gone
        listed = sum(self.segments.values()) + changed.size + len(gone)
        if self._rewrite or self._taken > since or listed > 2 * live + _SLACK:
            self.segments = {}
            changed, gone = self.table.used(), []
        data = None
        if changed.size or gone:
            data = segment(self.table, changed, gone)
            self.segments[revision] = changed.size + len(gone)
        self.table.keep()
        self._taken = revision
        self._rewrite = False
        return data

    def restore(self, revision: int, segments: dict[int, bytes]) -> None:
        """Take the ids of a checkpoint's segments. Raises CorruptStateError. O(ids)."""
        for number in sorted(segments):
            self.segments[number] = load_segment(self.table, segments[number])
        self.table.keep()
        self._taken = revision

    def state_to_bytes(self) -> bytes:
        """Return what segments do not have: the counters."""
        return _STATE.pack(*self.joiner.tally[: len(JOIN_COUNTERS)].tolist())

    def state_from_bytes(self, data: bytes) -> None:
        """Read it back. Raises CorruptStateError."""
        try:
            tally = _STATE.unpack(data)
        except struct.error as error:
            raise CorruptStateError(f"the joiner's counters cannot be read: {error}") from error
        self.joiner.tally[: len(JOIN_COUNTERS)] = tally

    def to_bytes(self) -> bytes:
        """Return all of it in one form; equal for equal joins. O(n log n)."""
        # When it was last asked is nothing that it knows: every call says the time.
        now_us, self.joiner.now_us = self.joiner.now_us, 0
        try:
            return encode_joiner(self.joiner)
        finally:
            self.joiner.now_us = now_us


def join_settings(settings: StreamSettings) -> JoinSettings:
    """Return what of a stream's settings concerns the joiner."""
    return JoinSettings(
        ttl_us=settings.label_ttl_us,
        relabel_ttl_us=settings.relabel_ttl_us,
        max_pending=settings.max_pending,
        orphans=settings.orphans,
        expired=settings.expired,
    )


def segment(table: JoinTable, slots: SlotArray, gone: list[bytes]) -> bytes:
    """Return a join segment. O(rows)."""
    return FRAME.sealed(
        _HEADER.pack(len(gone), slots.size, table.codes.shape[1]),
        *_ids_to_bytes(gone),
        *_ids_to_bytes(table.ids(slots)),
        table.state[slots].tobytes(),
        table.score[slots].astype("<f8").tobytes(),
        table.event_us[slots].astype("<i8").tobytes(),
        table.due[slots].astype("<u4").tobytes(),
        table.codes[slots].astype("<u2").tobytes(),
    )


def load_segment(table: JoinTable, data: bytes) -> int:
    """Bring a table up to date with a segment; return how many rows it lists. O(rows).

    Raises
    ------
    CorruptStateError
        When the bytes are not what `segment` wrote.
    """
    reader = FRAME.reader(data)
    num_gone: int
    rows: int
    num_gone, rows, keys = reader.fields(_HEADER)
    gone = _read_ids(reader, num_gone)
    ids = _read_ids(reader, rows)
    states = reader.column("u1", rows)
    scores = reader.column("<f8", rows)
    event_us = reader.column("<i8", rows)
    due = reader.column("<u4", rows).astype(np.uint32)
    codes = reader.column("<u2", rows * keys).reshape(rows, keys)
    reader.end()
    if keys > table.codes.shape[1] or (rows and states.max() > EARLY_POSITIVE):
        raise_corrupt("the join segment has ids in unknown states, or of unknown keys")
    slots = table.find(gone)
    if (slots < 0).any():
        raise_corrupt("the join segment takes ids away that no segment before it has")
    table.drop(slots)
    slots = table.find(ids)
    new = np.flatnonzero(slots < 0)
    if new.size:
        slots[new] = table.add([ids[row] for row in new.tolist()])
    table.state[slots] = states
    table.score[slots] = scores
    table.event_us[slots] = event_us
    table.codes[slots] = ABSENT
    table.codes[slots, :keys] = codes
    table.schedule(slots, due)
    return num_gone + rows


def _ids_to_bytes(ids: list[bytes]) -> tuple[bytes, bytes]:
    return bytes(map(len, ids)), b"".join(ids)


def _read_ids(reader: Reader, count: int) -> list[bytes]:
    lengths: npt.NDArray[np.uint8] = reader.column("u1", count)
    joined = reader.blob(int(lengths.sum(dtype=np.int64))).tobytes()
    ends = accumulate(lengths.tolist(), initial=0)
    ids = [joined[start:end] for start, end in pairwise(ends)]
    if len(set(ids)) != count or (count and not lengths.min()):
        raise_corrupt("the join segment has an id twice, or one without bytes")
    return ids
