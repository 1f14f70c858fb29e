"""Ids that wait for their other half: a sharded dict over flat columns.

An id maps to a slot; what is known of it stands in columns at that slot, and
slots are used again. The dict is cut into shards, because a dict that grows
copies itself whole: at 10 M entries that would stop everything for a second.
Shards differ in size by up to a fifth, so that they do not all grow at once.
Whatever falls due later is listed in a bucket of slots by time, so expiry
touches only what is due.

Cost: about 150 B an entry with 12-byte ids (`bench/join.py`); finding, adding
and dropping an id is one dict operation, everything else is vectorised.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sortedcontainers import SortedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._time.effects import CodeArray, KindArray

SlotArray = npt.NDArray[np.int64]
BucketArray = npt.NDArray[np.uint32]
IntegerArray = npt.NDArray[np.signedinteger[Any]]

FREE_SLOT = 255
"""The state of a slot that no id uses; other states are the joiner's."""

LAST_BUCKET = 2**32 - 2
"""What falls due later than this falls due then."""

UNLISTED_BUCKET = LAST_BUCKET + 1
_SLOT_BITS = 32
_FIRST_CAPACITY = 1024
_SHARDS = 64
_SWEPT_FOR_EACH = 8
"""Entries of buckets that are looked at for each slot that leaves one."""
_FORGOTTEN_AT_ONCE = 2_048
_FORGOTTEN_FOR_EACH = 4
"""Ids that were dropped leave the dict so many at a time: with a drop, and with each new id."""
_EMPTY_BYTES = sys.getsizeof(b"")
_ROUNDS_UP = 16
"""The allocator hands out so many bytes at a time."""
_BUCKET_BYTES = 160
"""What a bucket takes beside its array: itself, its number, its place in the index; measured."""


def _route() -> bytes:
    """Return the shard of each value of the low bits of a hash."""
    shares = np.linspace(0.9, 1.1, _SHARDS)
    ends = np.round(np.cumsum(shares) / shares.sum() * (_MASK + 1)).astype(np.int64)
    return np.repeat(np.arange(_SHARDS), np.diff(ends, prepend=0)).astype(np.uint8).tobytes()


_MASK = 4095
_ROUTE = _route()


class _Bucket:
    """Slots that fall due together, and some that no longer do.

    While there are `descending` of them, they are in that order, each once: what
    is left of a bucket that was cut.
    """

    __slots__ = ("descending", "slots")

    def __init__(self) -> None:
        self.slots = array("i")
        self.descending = 0

    def distinct(self) -> SlotArray:
        return _once(np.sort(np.frombuffer(self.slots, dtype=np.intc))).astype(np.int64)

    @property
    def memory_bytes(self) -> int:
        return _BUCKET_BYTES + sys.getsizeof(self.slots)


class JoinTable:
    """A dict from ids to rows of columns, with an index by due time.

    Parameters
    ----------
    keys : int
        How many segment codes each row has.

    Attributes
    ----------
    state : uint8[capacity]
        The joiner's state of each slot; `FREE_SLOT` where no id stands.
    score : float64[capacity]
    event_us : int64[capacity]
    due : uint32[capacity]
        The bucket in which the slot falls due. Change it with `schedule`.
    codes : uint16[capacity, keys]
    """

    def __init__(self, keys: int = 0) -> None:
        self._shards: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        self._ids: list[bytes | None] = []
        self._id_bytes = 0
        self._free = array("i")
        # Slots that were dropped, and whose ids are still in the dict.
        self._dropped = array("i")
        self._buckets: SortedDict[int, _Bucket] = SortedDict()
        # What they take, kept up by whatever changes one: there may be as many as ids.
        self._bucket_bytes = 0
        # How many slots have left the buckets that still list them, at most.
        self._left = 0
        self._left_before_sweep = 0
        self._swept_to = 0
        self.state: KindArray = np.full(0, FREE_SLOT, dtype=np.uint8)
        self.score: FloatArray = np.empty(0)
        self.event_us: IntArray = np.empty(0, dtype=np.int64)
        self.due: BucketArray = np.empty(0, dtype=np.uint32)
        self.codes: CodeArray = np.empty((0, keys), dtype=np.uint16)

    def __len__(self) -> int:
        return len(self._ids) - len(self._free) - len(self._dropped)

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, to within a few percent. O(1)."""
        int_bytes = 32
        columns = (self.state, self.score, self.event_us, self.due, self.codes)
        return (
            sum(column.nbytes for column in columns)
            + sum(map(sys.getsizeof, self._shards))
            + sys.getsizeof(self._ids)
            + sys.getsizeof(self._free)
            + self._id_bytes
            + int_bytes * (len(self) + len(self._dropped))
            + self._bucket_bytes
        )

    def find(self, ids: Sequence[bytes]) -> SlotArray:
        """Return each id's slot, -1 where it is not there. O(n)."""
        shards = self._shards
        # Globals are looked up once, not for each id.
        route, mask = _ROUTE, _MASK
        found = [shards[route[hash(id_) & mask]].get(id_, -1) for id_ in ids]
        slots = np.array(found, dtype=np.int64)
        if self._dropped:
            slots[(slots >= 0) & (self.state[slots] == FREE_SLOT)] = -1
        return slots

    def find_one(self, id_: bytes) -> int:
        """Return an id's slot, -1 where it is not there. O(1)."""
        slot = self._shards[_ROUTE[hash(id_) & _MASK]].get(id_, -1)
        return -1 if slot >= 0 and self.state[slot] == FREE_SLOT else slot

    def ids(self, slots: SlotArray) -> list[bytes]:
        """Return the ids that stand at slots in use. O(n)."""
        return [self._ids[slot] or b"" for slot in slots.tolist()]

    def add(self, ids: Sequence[bytes]) -> SlotArray:
        """Add distinct ids that are not there; return their slots. O(n) amortised.

        The caller fills their columns and schedules them.
        """
        slots = self._take_slots(len(ids))
        shards, route, mask, kept = self._shards, _ROUTE, _MASK, self._ids
        for slot, id_ in zip(slots.tolist(), ids, strict=True):
            kept[slot] = id_
            shards[route[hash(id_) & mask]][id_] = slot
        self._id_bytes += _sizes(ids)
        return slots

    def schedule(self, slots: SlotArray, due: BucketArray) -> None:
        """Let distinct slots fall due in these buckets. O(n log n)."""
        if not slots.size:
            return
        self._leave(slots)
        self.due[slots] = due
        compact = slots.astype(np.intc)
        if due[0] == due[-1] and (due == due[0]).all():
            self._list(int(due[0]), compact)
            return
        order = np.argsort(due, kind="stable")
        ordered = due[order]
        cuts = np.flatnonzero(np.diff(ordered)) + 1
        firsts = ordered[np.concatenate(([0], cuts))].tolist()
        for bucket, part in zip(firsts, np.split(compact[order], cuts), strict=True):
            self._list(bucket, part)

    def schedule_one(self, slot: int, due: int) -> None:
        """Let a slot fall due in a bucket. O(log buckets)."""
        if self.due[slot] != UNLISTED_BUCKET:
            self._left += 1
        self.due[slot] = due
        bucket = self._bucket(due)
        self._bucket_bytes -= bucket.memory_bytes
        bucket.slots.append(slot)
        self._bucket_bytes += bucket.memory_bytes
        if self._left > len(self) + _FIRST_CAPACITY:
            self._sweep(_SWEPT_FOR_EACH)

    def drop(self, slots: SlotArray) -> None:
        """Forget the ids at distinct slots. O(n log n).

        Columns are free at once. Ids leave the dict a few at a time, with the
        next calls: when much falls due together, that is most of the work.
        """
        if not slots.size:
            return
        self._leave(slots)
        self.due[slots] = UNLISTED_BUCKET
        self.state[slots] = FREE_SLOT
        self._dropped.frombytes(slots.astype(np.intc).tobytes())
        self._forget(_FORGOTTEN_AT_ONCE)

    def _forget(self, count: int) -> None:
        """Take so many ids that were dropped out of the dict, newest first. O(count)."""
        cut = max(0, len(self._dropped) - count)
        slots = self._dropped[cut:]
        del self._dropped[cut:]
        ids = [self._ids[slot] or b"" for slot in slots]
        # Globals and attributes are looked up once, not for each id.
        shards, route, mask, kept = self._shards, _ROUTE, _MASK, self._ids
        for slot, id_ in zip(slots, ids, strict=True):
            shard = shards[route[hash(id_) & mask]]
            # It may have come again, and stand elsewhere.
            if shard.get(id_) == slot:
                del shard[id_]
            kept[slot] = None
        self._id_bytes -= _sizes(ids)
        self._free.extend(slots)

    def pop_due(self, before: int, most: int = sys.maxsize) -> SlotArray:
        """Take what falls due in buckets below `before`: the oldest first, ascending in each.

        Whole buckets, until there are `most` slots or more. Each slot comes once; the
        caller drops them. O(n log n), in a few calls of numpy for all buckets together.
        """
        parts = [np.empty(0, dtype=np.int64)]
        while most > 0 and self._buckets and self._buckets.peekitem(0)[0] < before:
            parts.append(self._pop_listed(before, most))
            most -= parts[-1].size
        return np.concatenate(parts)

    def _pop_listed(self, before: int, most: int) -> SlotArray:
        """Take buckets until they list `most` slots; return those of them that are due.

        That is never a bucket too many: no more slots are due than are listed.
        """
        listed, dues, sizes = array("i"), array("q"), array("q")
        while len(listed) < most and self._buckets:
            due = self._buckets.peekitem(0)[0]
            if due >= before:
                break
            slots = self._take_listed(most - len(listed))
            listed.extend(slots)
            dues.append(due)
            sizes.append(len(slots))
        at = np.array(listed, dtype=np.int64)
        if len(dues) == len(listed) == 1:
            # As where ids come one by one: a tenth of the time.
            popped = at if self.due[listed[0]] == dues[0] else at[:0]
            self.due[popped] = UNLISTED_BUCKET
            return popped
        counts = np.array(sizes, dtype=np.int64)
        still_there = self.due[at] == np.repeat(np.array(dues, dtype=np.int64), counts)
        # The place of its bucket and the slot in one number: sorted in one go.
        keys = np.repeat(np.arange(len(dues)) << _SLOT_BITS, counts) | at
        popped = _once(np.sort(keys[still_there])) & ((1 << _SLOT_BITS) - 1)
        self.due[popped] = UNLISTED_BUCKET
        return popped

    def _take_listed(self, _most: int) -> array[int]:
        """Take the first bucket; return what it lists, be it more than `most`."""
        return self._pop_bucket()[1].slots

    def oldest_bucket(self) -> int | None:
        """Return the first bucket in which something falls due, or may. O(1)."""
        return self._buckets.peekitem(0)[0] if self._buckets else None

    def slots_by_id(self) -> SlotArray:
        """Return all slots in use in order of their ids: one order for equal tables. O(n log n)."""
        slots = np.flatnonzero(self.state != FREE_SLOT)
        ids = self.ids(slots)
        return slots[sorted(range(len(ids)), key=ids.__getitem__)]

    def copy(self) -> JoinTable:
        """Return an independent table. O(n)."""
        self._forget(len(self._dropped))
        other = JoinTable(self.codes.shape[1])
        other._shards = [dict(shard) for shard in self._shards]
        other._ids = list(self._ids)
        for name in ("_id_bytes", "_left", "_left_before_sweep", "_swept_to"):
            setattr(other, name, getattr(self, name))
        other._free = self._free[:]
        for name in ("state", "score", "event_us", "due", "codes"):
            setattr(other, name, getattr(self, name).copy())
        for due, bucket in self._buckets.items():
            twin = other._buckets[due] = _Bucket()
            twin.slots = bucket.slots[:]
            other._bucket_bytes += twin.memory_bytes
        return other

    def _bucket(self, due: int) -> _Bucket:
        bucket = self._buckets.get(due)
        if bucket is None:
            bucket = self._buckets[due] = _Bucket()
            self._bucket_bytes += bucket.memory_bytes
        return bucket

    def _pop_bucket(self, at: int = 0) -> tuple[int, _Bucket]:
        """Take the bucket out that stands at a place in their order. O(log buckets)."""
        due, bucket = self._buckets.popitem(at)
        self._bucket_bytes -= bucket.memory_bytes
        return due, bucket

    def _list(self, due: int, slots: npt.NDArray[np.intc]) -> None:
        bucket = self._bucket(due)
        self._bucket_bytes -= bucket.memory_bytes
        bucket.slots.frombytes(slots.tobytes())
        self._bucket_bytes += bucket.memory_bytes

    def _relist(self, bucket: _Bucket, slots: SlotArray) -> None:
        self._bucket_bytes -= bucket.memory_bytes
        bucket.slots = array("i", slots.astype(np.intc).tobytes())
        bucket.descending = 0
        self._bucket_bytes += bucket.memory_bytes

    def _leave(self, slots: SlotArray) -> None:
        """Note that slots leave their buckets; sweep some when most entries are such."""
        self._left += int(np.count_nonzero(self.due[slots] != UNLISTED_BUCKET))
        if self._left > len(self) + _FIRST_CAPACITY:
            self._sweep(_SWEPT_FOR_EACH * slots.size)

    def _sweep(self, work: int) -> None:
        """Take slots that have left out of some buckets, going round them all in time."""
        while work > 0:
            at = self._buckets.bisect_left(self._swept_to)
            if self._swept_to == 0:
                self._left_before_sweep = self._left
            if at == len(self._buckets):
                self._swept_to = 0
                self._left -= self._left_before_sweep
                return
            due, bucket = self._buckets.peekitem(at)
            work -= _ROUNDS_UP + len(bucket.slots)
            slots = bucket.distinct()
            slots = slots[self.due[slots] == due]
            if slots.size:
                self._relist(bucket, slots)
            else:
                self._pop_bucket(at)
            self._swept_to = due + 1

    def _take_slots(self, count: int) -> SlotArray:
        if self._dropped:
            self._forget(_FORGOTTEN_FOR_EACH * count)
        again = min(count, len(self._free))
        cut = len(self._free) - again
        reused = np.array(self._free[cut:], dtype=np.int64)
        del self._free[cut:]
        fresh = np.arange(len(self._ids), len(self._ids) + count - again, dtype=np.int64)
        self._ids.extend(repeat(None, count - again))
        if len(self._ids) > self.state.size:
            # Sixteenths: a large column grows in place, by moving page tables only.
            self._grow(max(_FIRST_CAPACITY, len(self._ids) * 17 // 16))
        return np.concatenate((reused, fresh))

    def _grow(self, capacity: int) -> None:
        before = self.state.size
        for column in (self.state, self.score, self.event_us, self.due):
            column.resize(capacity, refcheck=False)
        self.codes.resize((capacity, self.codes.shape[1]), refcheck=False)
        self.state[before:] = FREE_SLOT
        self.due[before:] = UNLISTED_BUCKET

    def _check(self) -> None:
        """Assert everything that must hold. O(n)."""
        dropped = set(self._dropped)
        assert len(dropped) == len(self._dropped)
        kept = {slot for slot, id_ in enumerate(self._ids) if id_ is not None}
        assert dropped <= kept, dropped - kept
        used = kept - dropped
        assert len(used) == len(self)
        slots = {id_: slot for shard in self._shards for id_, slot in shard.items()}
        assert used <= set(slots.values()) <= kept, (used, slots)
        assert all(self._ids[slot] == id_ for id_, slot in slots.items())
        assert sorted([*self._free, *kept]) == list(range(len(self._ids)))
        assert ((self.state != FREE_SLOT).nonzero()[0] == sorted(used)).all()
        assert ((self.due != UNLISTED_BUCKET).nonzero()[0] == sorted(used)).all()
        assert self._id_bytes == _sizes([id_ for id_ in self._ids if id_ is not None])
        listed = {due: set(bucket.slots) for due, bucket in self._buckets.items()}
        for slot in used:
            assert slot in listed[int(self.due[slot])], (slot, self.due[slot])
        bucket_bytes = sum(bucket.memory_bytes for bucket in self._buckets.values())
        assert self._bucket_bytes == bucket_bytes, (self._bucket_bytes, bucket_bytes)
        entries = sum(len(bucket.slots) for bucket in self._buckets.values())
        assert entries <= len(used) + self._left, (entries, len(used), self._left)


def _once(ordered: IntegerArray) -> IntegerArray:
    """Return each of numbers that are in order once. O(n)."""
    first = np.ones(ordered.size, dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def _sizes(ids: Sequence[bytes]) -> int:
    """Return the memory that ids take, as the allocator rounds it."""
    # Few lengths occur: so many roundings, not one for each id.
    return sum(
        count * ((_EMPTY_BYTES + length + _ROUNDS_UP - 1) // _ROUNDS_UP * _ROUNDS_UP)
        for length, count in Counter(map(len, ids)).items()
    )
