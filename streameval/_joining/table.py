"""Ids that wait for their other half: a sharded dict over flat columns.

An id maps to a slot; its fields are in columns at that slot, and free slots are
reused. The dict is cut into shards because a growing dict copies all its entries
at once: at 10 M entries that would stop everything for a second. Shards differ in
size by up to a fifth, so that they do not all grow at the same time. The base class
lists slots by due time, so expiry visits only what is due.

Cost: about 150 B an entry with 12-byte ids (`bench/join.py`); finding, adding
and dropping an id is one dict operation, everything else is vectorised.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.weights import WEIGHT_UNITS
from streameval._joining.expiry_index import UNLISTED_BUCKET, ExpiryIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._joining.expiry_index import SlotArray
    from streameval._time.effects import CodeArray, KindArray

FREE_SLOT = 255
"""The state of a slot that no id uses; the joiner defines the other states."""

_MIN_CAPACITY_SLOTS = 1_024
_NUM_SHARDS = 64
_MAX_PURGED_IDS_PER_DROP = 2_048
"""Dropped ids that a drop removes from the dict."""
_MAX_PURGED_IDS_PER_NEW_ID = 4
"""Dropped ids that are removed from the dict for each id that is added."""
_EMPTY_ID_BYTES = sys.getsizeof(b"")
_ALLOCATION_BYTES = 16
"""The allocator rounds sizes up to multiples of this."""


def _shard_of_hash() -> bytes:
    """Return the shard of each value of a hash's low bits."""
    shares = np.linspace(0.9, 1.1, _NUM_SHARDS)
    ends = np.round(np.cumsum(shares) / shares.sum() * (_HASH_MASK + 1)).astype(np.int64)
    return np.repeat(np.arange(_NUM_SHARDS), np.diff(ends, prepend=0)).astype(np.uint8).tobytes()


_HASH_MASK = 4_095
_SHARD_OF_HASH = _shard_of_hash()


class JoinTable(ExpiryIndex):
    """A dict from ids to rows of columns, with an index by due time.

    Parameters
    ----------
    keys : int
        How many segment codes each row has.

    Attributes
    ----------
    state : uint8[capacity]
        The joiner's state of each slot; `FREE_SLOT` where no id is.
    score : float64[capacity]
    event_us : int64[capacity]
    due : uint32[capacity]
        As of `ExpiryIndex`.
    codes : uint16[capacity, keys]
    units : int64[capacity] or None
        The weight of each label in units of 2**-16, that of 1 until there is a label; None
        before the first weight other than 1.
    total_units : int
        The sum of `units` over the slots in use; 0 while they are None.
    """

    def __init__(self, keys: int = 0) -> None:
        super().__init__()
        self._shards: list[dict[bytes, int]] = [{} for _ in range(_NUM_SHARDS)]
        self._ids: list[bytes | None] = []
        self._id_bytes = 0
        self._free = array("i")
        # Slots that were dropped, and whose ids have yet to be removed from the dict.
        self._dropped = array("i")
        self.state: KindArray = np.full(0, FREE_SLOT, dtype=np.uint8)
        self.score: FloatArray = np.empty(0)
        self.event_us: IntArray = np.empty(0, dtype=np.int64)
        self.codes: CodeArray = np.empty((0, keys), dtype=np.uint16)
        self.units: IntArray | None = None
        self.total_units = 0

    def __len__(self) -> int:
        return len(self._ids) - len(self._free) - len(self._dropped)

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, to within a few percent. O(1)."""
        int_bytes = 32
        columns = (self.state, self.score, self.event_us, self.due, self.codes)
        units_bytes = 0 if self.units is None else self.units.nbytes
        return (
            sum(column.nbytes for column in columns)
            + units_bytes
            + sum(map(sys.getsizeof, self._shards))
            + sys.getsizeof(self._ids)
            + sys.getsizeof(self._free)
            + self._id_bytes
            + int_bytes * (len(self) + len(self._dropped))
            + self._bucket_bytes
        )

    def find(self, ids: Sequence[bytes]) -> SlotArray:
        """Return each id's slot, -1 for ids that the table does not have. O(n)."""
        shards = self._shards
        # Local names: globals would be looked up for each id.
        shard_of, mask = _SHARD_OF_HASH, _HASH_MASK
        found = [shards[shard_of[hash(id_) & mask]].get(id_, -1) for id_ in ids]
        slots = np.array(found, dtype=np.int64)
        if self._dropped:
            slots[(slots >= 0) & (self.state[slots] == FREE_SLOT)] = -1
        return slots

    def find_one(self, id_: bytes) -> int:
        """Return an id's slot, -1 if the table does not have it. O(1)."""
        slot = self._shards[_SHARD_OF_HASH[hash(id_) & _HASH_MASK]].get(id_, -1)
        return -1 if slot >= 0 and self.state[slot] == FREE_SLOT else slot

    def ids(self, slots: SlotArray) -> list[bytes]:
        """Return the ids at slots that are in use. O(n)."""
        return [self._ids[slot] or b"" for slot in slots.tolist()]

    def ids_by_slot(self) -> list[bytes | None]:
        """Return the id of each slot; what is at slots that are not in use has no meaning. O(n)."""
        return self._ids[:]

    def add(self, ids: Sequence[bytes]) -> SlotArray:
        """Add distinct ids that are not in the table; return their slots. O(n) amortised.

        The caller fills their columns and schedules them.
        """
        slots = self._take_slots(len(ids))
        self._enter(ids, slots)
        self._id_bytes += _memory_of(ids)
        if self.units is not None:
            self.units[slots] = WEIGHT_UNITS
            self.total_units += WEIGHT_UNITS * slots.size
        return slots

    def _enter(self, ids: Sequence[bytes], slots: SlotArray) -> None:
        """Put ids into their slots, and into the dict. O(n)."""
        shards, shard_of, mask, kept = self._shards, _SHARD_OF_HASH, _HASH_MASK, self._ids
        for slot, id_ in zip(slots.tolist(), ids, strict=True):
            kept[slot] = id_
            shards[shard_of[hash(id_) & mask]][id_] = slot

    def keep_units(self) -> IntArray:
        """Return `units`, from now on a column. O(1), O(capacity) at first."""
        if self.units is None:
            self.units = np.full(self.state.size, WEIGHT_UNITS, dtype=np.int64)
            self.total_units = WEIGHT_UNITS * len(self)
        return self.units

    def set_units(self, slots: SlotArray, units: IntArray) -> None:
        """Set the weights of labels at distinct slots. O(n)."""
        held = self.keep_units()
        self.total_units += int(units.sum()) - int(held[slots].sum())
        held[slots] = units

    def drop(self, slots: SlotArray) -> None:
        """Drop the ids at distinct slots. O(n log n).

        The columns are cleared at once. The dict loses the ids a few at a time, in
        this and later calls: when many ids fall due together, that is most of the work.
        """
        if not slots.size:
            return
        self._leave(slots)
        if self.units is not None:
            self.total_units -= int(self.units[slots].sum())
        self.state[slots] = FREE_SLOT
        self._dropped.frombytes(slots.astype(np.intc).tobytes())
        self._purge(_MAX_PURGED_IDS_PER_DROP)

    def slots_by_id(self) -> SlotArray:
        """Return the slots in use, in order of their ids: the same for equal tables. O(n log n)."""
        slots = np.flatnonzero(self.state != FREE_SLOT)
        ids = self.ids(slots)
        return slots[sorted(range(len(ids)), key=ids.__getitem__)]

    def copy(self) -> JoinTable:
        """Return an independent table. O(n)."""
        self._purge(len(self._dropped))
        other = JoinTable(self.codes.shape[1])
        other._shards = [dict(shard) for shard in self._shards]
        other._ids = list(self._ids)
        other._id_bytes = self._id_bytes
        other._free = self._free[:]
        for name in ("state", "score", "event_us", "codes"):
            setattr(other, name, getattr(self, name).copy())
        if self.units is not None:
            other.units, other.total_units = self.units.copy(), self.total_units
        self._copy_buckets_to(other)
        return other

    def _purge(self, count: int) -> None:
        """Remove up to `count` dropped ids from the dict, newest first. O(count)."""
        cut = max(0, len(self._dropped) - count)
        slots = self._dropped[cut:]
        del self._dropped[cut:]
        ids = [self._ids[slot] or b"" for slot in slots]
        # Local names: globals and attributes would be looked up for each id.
        shards, shard_of, mask, kept = self._shards, _SHARD_OF_HASH, _HASH_MASK, self._ids
        for slot, id_ in zip(slots, ids, strict=True):
            shard = shards[shard_of[hash(id_) & mask]]
            # An id that was added again since then has another slot.
            if shard.get(id_) == slot:
                del shard[id_]
            kept[slot] = None
        self._id_bytes -= _memory_of(ids)
        self._free.extend(slots)

    def _take_slots(self, count: int) -> SlotArray:
        if self._dropped:
            self._purge(_MAX_PURGED_IDS_PER_NEW_ID * count)
        again = min(count, len(self._free))
        cut = len(self._free) - again
        reused = np.array(self._free[cut:], dtype=np.int64)
        del self._free[cut:]
        fresh = np.arange(len(self._ids), len(self._ids) + count - again, dtype=np.int64)
        self._ids.extend(repeat(None, count - again))
        if len(self._ids) > self.state.size:
            # By a sixteenth: a large column grows in place, by moving page tables only.
            self._grow(max(_MIN_CAPACITY_SLOTS, len(self._ids) * 17 // 16))
        return np.concatenate((reused, fresh))

    def _grow(self, capacity: int) -> None:
        before = self.state.size
        for column in (self.state, self.score, self.event_us, self.due):
            column.resize(capacity, refcheck=False)
        self.codes.resize((capacity, self.codes.shape[1]), refcheck=False)
        if self.units is not None:
            self.units.resize(capacity, refcheck=False)
        self.state[before:] = FREE_SLOT
        self.due[before:] = UNLISTED_BUCKET

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
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
        assert self._id_bytes == _memory_of([id_ for id_ in self._ids if id_ is not None])
        total = 0 if self.units is None else int(self.units[sorted(used)].sum())
        assert self.total_units == total, (self.total_units, total)
        self._check_buckets(used)


def _memory_of(ids: Sequence[bytes]) -> int:
    """Return the memory that ids take, as the allocator rounds it."""
    unit = _ALLOCATION_BYTES
    # Ids have few distinct lengths, so rounding is done for each length, not each id.
    return sum(
        count * ((_EMPTY_ID_BYTES + length + unit - 1) // unit * unit)
        for length, count in Counter(map(len, ids)).items()
    )
