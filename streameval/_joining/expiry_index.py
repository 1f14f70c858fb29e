"""Slots by due time: an index that expires ids in O(ids that are due).

Due times are cut into numbered buckets. `due` holds the bucket of each slot and is
authoritative; a bucket lists the slots that were scheduled into it. A slot that is
rescheduled or dropped stays listed in its old bucket, as a *stale* entry, so that
leaving a bucket is O(1). Stale entries are recognised because `due` disagrees, and
are swept a few at a time, so that they never exceed the live ones by much.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from array import array
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sortedcontainers import SortedDict

SlotArray = npt.NDArray[np.int64]
BucketArray = npt.NDArray[np.uint32]
IntegerArray = npt.NDArray[np.signedinteger[Any]]

_SLOT_BITS = 32
_MIN_STALE_ENTRIES = 1_024
"""Buckets are swept once stale entries outnumber the slots in use by more than this."""
_MAX_SWEPT_ENTRIES_PER_SLOT = 8
"""Bucket entries that are swept for each slot that leaves a bucket."""
_SWEPT_ENTRIES_PER_BUCKET = 16
"""What a sweep of a bucket costs besides its entries, as a number of entries."""
_BUCKET_BYTES = 160
"""Memory of a bucket besides its array: object, number and place in the index; measured."""


class _Bucket:
    """Slots that fall due together, stale ones included.

    While `descending` equals their number, slots are in descending order and each is
    listed once: the rest of a bucket that was taken in part.
    """

    __slots__ = ("descending", "slots")

    def __init__(self) -> None:
        self.slots = array("i")
        self.descending = 0

    def distinct(self) -> SlotArray:
        return _distinct(np.sort(np.frombuffer(self.slots, dtype=np.intc))).astype(np.int64)

    @property
    def memory_bytes(self) -> int:
        return _BUCKET_BYTES + sys.getsizeof(self.slots)


class ExpiryIndex(ABC):
    """Buckets of slots, in order of due time; the base of `JoinTable`.

    Attributes
    ----------
    due : uint32[capacity]
        The bucket in which each slot falls due, or `UNLISTED_BUCKET`. Change it with
        `schedule`.
    """

    LAST_BUCKET: ClassVar = 2**32 - 2
    """The highest bucket; later due times are clipped to it."""
    UNLISTED_BUCKET: ClassVar = LAST_BUCKET + 1
    """The `due` of a slot that is not scheduled."""

    def __init__(self) -> None:
        self.due: BucketArray = np.empty(0, dtype=np.uint32)
        self._buckets: SortedDict[int, _Bucket] = SortedDict()
        # The first bucket: each batch asks for it several times.
        self._oldest: int | None = None
        # Memory of all buckets, updated with every change: there may be one for each id.
        self._bucket_bytes = 0
        # Upper bound on the stale entries of all buckets.
        self._stale = 0
        self._stale_before_sweep = 0
        self._swept_to = 0

    @abstractmethod
    def __len__(self) -> int:
        """How many slots are in use."""

    def schedule(self, slots: SlotArray, due: BucketArray | int) -> None:
        """Move distinct slots from their buckets to these, or to one. O(n log n)."""
        if not slots.size:
            return
        self._leave(slots)
        self.due[slots] = due
        compact = slots.astype(np.intc)
        if isinstance(due, int):
            self._list(due, compact)
            return
        order = np.argsort(due, kind="stable")
        ordered = due[order]
        cuts = np.flatnonzero(np.diff(ordered)) + 1
        firsts = ordered[np.concatenate(([0], cuts))].tolist()
        for bucket, part in zip(firsts, np.split(compact[order], cuts), strict=True):
            self._list(bucket, part)

    def schedule_one(self, slot: int, due: int) -> None:
        """Put one slot into a bucket, out of the one that it is in. O(log buckets)."""
        if self.due[slot] != self.UNLISTED_BUCKET:
            self._stale += 1
        self.due[slot] = due
        bucket = self._bucket(due)
        self._bucket_bytes -= bucket.memory_bytes
        bucket.slots.append(slot)
        self._bucket_bytes += bucket.memory_bytes
        if self._stale > len(self) + _MIN_STALE_ENTRIES:
            self._sweep(_MAX_SWEPT_ENTRIES_PER_SLOT)

    def oldest_bucket(self) -> int | None:
        """Return the first bucket, whose slots may all be stale; None without any. O(1)."""
        return self._oldest

    def pop_due(self, before: int, max_slots: int = sys.maxsize) -> SlotArray:
        """Unschedule and return the slots in buckets below `before`, oldest bucket first.

        Slots are ascending within a bucket, each once. Whole buckets are taken, until
        they have `max_slots` slots or more. The caller drops the slots. O(n log n), in
        a few numpy calls for all buckets together.
        """
        parts = [np.empty(0, dtype=np.int64)]
        while max_slots > 0 and self._buckets and self._buckets.peekitem(0)[0] < before:
            parts.append(self._pop_listed(before, max_slots))
            max_slots -= parts[-1].size
        return np.concatenate(parts)

    def _pop_listed(self, before: int, max_slots: int) -> SlotArray:
        """Take buckets until they list `max_slots` entries; return the slots that are due.

        It never takes a bucket too many: at most as many slots are due as are listed.
        """
        listed, dues, sizes = array("i"), array("q"), array("q")
        while len(listed) < max_slots and self._buckets:
            due = self._buckets.peekitem(0)[0]
            if due >= before:
                break
            slots = self._take_listed(max_slots - len(listed))
            listed.extend(slots)
            dues.append(due)
            sizes.append(len(slots))
        at = np.array(listed, dtype=np.int64)
        if len(dues) == len(listed) == 1:
            # The case of ids that expire one by one: ten times as fast as what follows.
            popped = at if self.due[listed[0]] == dues[0] else at[:0]
            self.due[popped] = self.UNLISTED_BUCKET
            return popped
        counts = np.array(sizes, dtype=np.int64)
        is_live = self.due[at] == np.repeat(np.array(dues, dtype=np.int64), counts)
        # One sort by bucket, then slot: both are packed into one integer.
        keys = np.repeat(np.arange(len(dues)) << _SLOT_BITS, counts) | at
        popped = _distinct(np.sort(keys[is_live])) & ((1 << _SLOT_BITS) - 1)
        self.due[popped] = self.UNLISTED_BUCKET
        return popped

    def _take_listed(self, _max_slots: int) -> array[int]:
        """Take entries of the first bucket: all of them here; a subclass may take fewer."""
        return self._pop_bucket()[1].slots

    def _bucket(self, due: int) -> _Bucket:
        bucket = self._buckets.get(due)
        if bucket is None:
            bucket = self._buckets[due] = _Bucket()
            self._bucket_bytes += bucket.memory_bytes
            if self._oldest is None or due < self._oldest:
                self._oldest = due
        return bucket

    def _pop_bucket(self, at: int = 0) -> tuple[int, _Bucket]:
        """Remove the bucket at an index in their order, and return it. O(log buckets)."""
        due, bucket = self._buckets.popitem(at)
        self._oldest = self._buckets.peekitem(0)[0] if self._buckets else None
        self._bucket_bytes -= bucket.memory_bytes
        return due, bucket

    def _list(self, due: int, slots: npt.NDArray[np.intc]) -> None:
        """Append slots to a bucket."""
        bucket = self._bucket(due)
        self._bucket_bytes -= bucket.memory_bytes
        bucket.slots.frombytes(slots.tobytes())
        self._bucket_bytes += bucket.memory_bytes

    def _relist(self, bucket: _Bucket, slots: SlotArray) -> None:
        """Replace the slots of a bucket."""
        self._bucket_bytes -= bucket.memory_bytes
        bucket.slots = array("i", slots.astype(np.intc).tobytes())
        bucket.descending = 0
        self._bucket_bytes += bucket.memory_bytes

    def _leave(self, slots: SlotArray) -> None:
        """Unschedule slots, whose entries are stale; sweep some buckets when most entries are."""
        self._stale += int(np.count_nonzero(self.due[slots] != self.UNLISTED_BUCKET))
        # Before a sweep, which removes what it counted.
        self.due[slots] = self.UNLISTED_BUCKET
        if self._stale > len(self) + _MIN_STALE_ENTRIES:
            self._sweep(_MAX_SWEPT_ENTRIES_PER_SLOT * slots.size)

    def _sweep(self, work: int) -> None:
        """Remove stale entries from the next buckets, up to `work` entries.

        Sweeps go on where the last one ended, from the first bucket to the last, so
        that calls share the work of one round.
        """
        while work > 0:
            at = self._buckets.bisect_left(self._swept_to)
            if self._swept_to == 0:
                self._stale_before_sweep = self._stale
            if at == len(self._buckets):
                self._swept_to = 0
                self._stale -= self._stale_before_sweep
                return
            due, bucket = self._buckets.peekitem(at)
            work -= _SWEPT_ENTRIES_PER_BUCKET + len(bucket.slots)
            slots = bucket.distinct()
            slots = slots[self.due[slots] == due]
            if slots.size:
                self._relist(bucket, slots)
            else:
                self._pop_bucket(at)
            self._swept_to = due + 1

    def _copy_buckets_to(self, other: ExpiryIndex) -> None:
        """Give a new index the same schedule. O(n)."""
        other.due = self.due.copy()
        other._stale = self._stale
        other._stale_before_sweep = self._stale_before_sweep
        other._swept_to = self._swept_to
        other._oldest = self._oldest
        for due, bucket in self._buckets.items():
            twin = other._buckets[due] = _Bucket()
            twin.slots = bucket.slots[:]
            other._bucket_bytes += twin.memory_bytes

    def _check_buckets(self, used: set[int]) -> None:
        """Assert all invariants, for these slots in use. O(n)."""
        assert ((self.due != self.UNLISTED_BUCKET).nonzero()[0] == sorted(used)).all()
        listed = {due: set(bucket.slots) for due, bucket in self._buckets.items()}
        for slot in used:
            assert slot in listed[int(self.due[slot])], (slot, self.due[slot])
        assert self._oldest == min(self._buckets, default=None)
        bucket_bytes = sum(bucket.memory_bytes for bucket in self._buckets.values())
        assert self._bucket_bytes == bucket_bytes, (self._bucket_bytes, bucket_bytes)
        entries = sum(len(bucket.slots) for bucket in self._buckets.values())
        assert entries <= len(used) + self._stale, (entries, len(used), self._stale)


def _distinct(ordered: IntegerArray) -> IntegerArray:
    """Return the distinct values of a sorted array. O(n)."""
    first = np.ones(ordered.size, dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
