"""Ids that wait for their other half: rows of flat columns, with an index of their ids.

An id maps to a slot; its fields are in columns at that slot, and free slots are
reused. The index is a dict of a few thousand ids, and above that `IdCells`, which
grows in small steps: a growing dict copies all its entries at once, which at 10 M
entries would stop everything for a second. The base class lists slots by due time,
so expiry visits only what is due.

Cost: some 60 B an entry with ids of up to 16 bytes (`bench/join.py`), 150 B with ids of
36; of a table with few ids 170 B. Everything is vectorised.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from streameval._common.frame import raise_corrupt
from streameval._counts.weights import MAX_WEIGHT, WEIGHT_UNITS, unless_one
from streameval._joining.expiry_index import ExpiryIndex
from streameval._joining.id_cells import IdCells
from streameval._joining.id_dict import IdDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._joining.expiry_index import SlotArray
    from streameval._joining.id_column import IdColumn
    from streameval._time.effects import CodeArray, KindArray

_MIN_CAPACITY_SLOTS = 64
_MAX_DOUBLED_SLOTS = 1_024
"""Up to this many slots columns double when they grow."""
_MAX_DICT_IDS = 8_192
"""With more ids the index is `IdCells`."""
_MAX_PURGED_IDS_PER_DROP = 2_048
"""Dropped ids that a drop removes from the index."""
_MAX_PURGED_IDS_PER_NEW_ID = 4
"""Dropped ids that are removed from the index for each id that is added."""


class JoinTable(ExpiryIndex):
    """Rows of columns, by id, with an index by due time.

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
    units : int64[capacity], or empty
        The weight of each label in units of 2**-16, and weight 1 until there is a label; 0 at
        slots that no id uses. Empty before the first weight other than 1.
    total_units : int
        The sum of `units`.
    """

    FREE_SLOT: ClassVar = 255
    """The state of a slot that no id uses; the joiner defines the other states."""
    MAX_UNITS: ClassVar = int(MAX_WEIGHT) * WEIGHT_UNITS
    """The largest weight of a label, in units of 2**-16."""

    def __init__(self, keys: int = 0) -> None:
        super().__init__()
        self._ids: IdDict | IdCells = IdDict()
        # Slots that were ever in use; the index has room for as many as the columns.
        self._num_slots = 0
        self._free = array("i")
        # Slots that were dropped, and whose ids have yet to be removed from the index.
        self._dropped = array("i")
        self.state: KindArray = np.full(0, self.FREE_SLOT, dtype=np.uint8)
        self.score: FloatArray = np.empty(0)
        self.event_us: IntArray = np.empty(0, dtype=np.int64)
        self.codes: CodeArray = np.empty((0, keys), dtype=np.uint16)
        self.units: IntArray = np.empty(0, dtype=np.int64)
        self.total_units = 0

    def __len__(self) -> int:
        return self._num_slots - len(self._free) - len(self._dropped)

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, to within a few percent. O(1)."""
        return (
            self.state.nbytes
            + self.score.nbytes
            + self.event_us.nbytes
            + self.due.nbytes
            + self.codes.nbytes
            + self.units.nbytes
            + sys.getsizeof(self._free)
            + self._ids.memory_bytes
            + self._bucket_bytes
        )

    @property
    def id_bytes(self) -> int:
        """The lengths of all ids together, of those yet to be removed too. O(1)."""
        return self._ids.text_bytes

    def find(self, ids: Sequence[bytes]) -> SlotArray:
        """Return each id's slot, -1 for ids that the table does not have. O(n)."""
        slots = self._ids.find(ids)
        if self._dropped:
            slots[(slots >= 0) & (self.state[slots] == self.FREE_SLOT)] = -1
        return slots

    def find_one(self, id_: bytes) -> int:
        """Return an id's slot, -1 if the table does not have it. O(1)."""
        slot = self._ids.find_one(id_)
        return -1 if slot >= 0 and self.state[slot] == self.FREE_SLOT else slot

    def ids(self, slots: SlotArray) -> list[bytes]:
        """Return the ids at slots that are in use. O(n)."""
        return self._ids.at(slots)

    def encoded_ids(self, slots: SlotArray) -> tuple[bytes, bytes]:
        """Return the lengths of ids at slots in use, a byte each, and the ids joined. O(n)."""
        return self._ids.encoded(slots)

    def id_column(self, slots: SlotArray) -> IdColumn:
        """Return the ids at slots that are in use, independent of the table. O(n)."""
        return self._ids.taken(slots)

    def add(self, ids: Sequence[bytes]) -> SlotArray:
        """Add distinct ids that are not in the table; return their slots. O(n) amortised.

        The caller fills their columns and schedules them.
        """
        slots = self._take_slots(len(ids))
        if self._dropped:
            # Those among them that were dropped would be found in their old slots.
            self._ids.forget(ids)
        self._ids.add(ids, slots)
        if isinstance(self._ids, IdDict) and len(self._ids) > _MAX_DICT_IDS:
            self._ids = self._as_cells()
        self._weigh(slots, WEIGHT_UNITS)
        return slots

    def _as_cells(self) -> IdCells:
        """Return the ids in the other index. O(n)."""
        self._purge(len(self._dropped))
        cells = IdCells()
        cells.grow(self.state.size)
        slots = self._ids.used()
        cells.add(self._ids.at(slots), slots)
        return cells

    @property
    def has_weights(self) -> bool:
        """Whether a label has had a weight other than 1. O(1)."""
        return self.units.size > 0

    def units_at(self, slots: SlotArray) -> IntArray:
        """Return the weights of slots in units of 2**-16. O(n)."""
        if self.has_weights:
            return self.units[slots]
        return np.full(slots.size, WEIGHT_UNITS, dtype=np.int64)

    def unit_at(self, slot: int) -> int:
        """Return the weight of one slot in units of 2**-16. O(1)."""
        return int(self.units[slot]) if self.has_weights else WEIGHT_UNITS

    def set_units(self, slots: SlotArray, units: IntArray) -> None:
        """Set the weights of labels at distinct slots. O(n), O(capacity) for the first but 1."""
        if not self.has_weights and (units != WEIGHT_UNITS).any():
            self.units = np.zeros(self.state.size, dtype=np.int64)
            self.units[: self._num_slots] = WEIGHT_UNITS
            # Their states do not tell: the caller may have added ids whose states it sets later.
            self.units[np.array(self._free + self._dropped, dtype=np.int64)] = 0
            self.total_units = WEIGHT_UNITS * len(self)
        self._weigh(slots, units)

    def _weigh(self, slots: SlotArray, units: IntArray | int) -> None:
        """Set the weights of slots, one or each its own, if weights are kept. O(n)."""
        if self.has_weights:
            self.total_units -= int(self.units[slots].sum())
            self.units[slots] = units
            self.total_units += int(self.units[slots].sum())

    def held_units(self, slots: SlotArray) -> IntArray | None:
        """Return the weights of slots in units of 2**-16; None where each is 1. O(n)."""
        return unless_one(self.units[slots]) if self.has_weights else None

    @classmethod
    def check_units(cls, units: IntArray, is_labelled: BoolArray) -> None:
        """Refuse stored weights that are out of range, or other than 1 without a label. O(n).

        Raises
        ------
        CorruptStateError
        """
        if (units < 0).any() or (units > cls.MAX_UNITS).any():
            raise_corrupt("the joiner has weights out of range")
        if (units[~is_labelled] != WEIGHT_UNITS).any():
            raise_corrupt("the joiner has the weight of a label that is not there")

    def drop(self, slots: SlotArray) -> None:
        """Drop the ids at distinct slots. O(n log n).

        The columns are cleared at once. The index loses the ids a few at a time, in
        this and later calls: when many ids fall due together, that is most of the work.
        """
        if not slots.size:
            return
        self._leave(slots)
        self._weigh(slots, 0)
        self.state[slots] = self.FREE_SLOT
        self._dropped.frombytes(slots.astype(np.intc).tobytes())
        self._purge(_MAX_PURGED_IDS_PER_DROP)

    def slots_by_id(self) -> SlotArray:
        """Return the slots in use, in order of their ids: the same for equal tables. O(n log n)."""
        slots = np.flatnonzero(self.state != self.FREE_SLOT)
        return slots[self._ids.order(slots)]

    def copy(self) -> JoinTable:
        """Return an independent table. O(n)."""
        self._purge(len(self._dropped))
        other = JoinTable(self.codes.shape[1])
        other._ids = self._ids.copy()
        other._num_slots = self._num_slots
        other._free = self._free[:]
        for name in ("state", "score", "event_us", "codes", "units"):
            setattr(other, name, getattr(self, name).copy())
        other.total_units = self.total_units
        self._copy_buckets_to(other)
        return other

    def _purge(self, count: int) -> None:
        """Remove up to `count` dropped ids from the index, newest first. O(count)."""
        if not self._dropped:
            return
        cut = max(0, len(self._dropped) - count)
        slots = self._dropped[cut:]
        del self._dropped[cut:]
        self._ids.remove(np.array(slots, dtype=np.int64))
        self._free.extend(slots)

    def _take_slots(self, count: int) -> SlotArray:
        if self._dropped:
            self._purge(_MAX_PURGED_IDS_PER_NEW_ID * count)
        again = min(count, len(self._free))
        fresh = np.arange(self._num_slots, self._num_slots + count - again, dtype=np.int64)
        self._num_slots += count - again
        if self._num_slots > self.state.size:
            self._grow(_capacity_for(self._num_slots))
        if not again:
            return fresh
        cut = len(self._free) - again
        reused = np.array(self._free[cut:], dtype=np.int64)
        del self._free[cut:]
        return np.concatenate((reused, fresh))

    def _grow(self, capacity: int) -> None:
        before = self.state.size
        self._ids.grow(capacity)
        for column in (self.state, self.score, self.event_us, self.due):
            column.resize(capacity, refcheck=False)
        self.codes.resize((capacity, self.codes.shape[1]), refcheck=False)
        if self.units.size:
            self.units.resize(capacity, refcheck=False)
        self.state[before:] = self.FREE_SLOT
        self.due[before:] = self.UNLISTED_BUCKET

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
        self._ids._check()
        dropped = set(self._dropped)
        assert len(dropped) == len(self._dropped)
        kept = set(self._ids.used().tolist())
        assert dropped <= kept, dropped - kept
        used = kept - dropped
        assert len(used) == len(self)
        slots = np.array(sorted(used), dtype=np.int64)
        assert (self._ids.find(self._ids.at(slots)) == slots).all()
        assert len(used) <= len(self._ids) <= len(kept), (len(used), len(self._ids), len(kept))
        assert sorted([*self._free, *kept]) == list(range(self._num_slots))
        assert ((self.state != self.FREE_SLOT).nonzero()[0] == sorted(used)).all()
        assert self.total_units == self.units[: self._num_slots].sum(), self.total_units
        self._check_buckets(used)


def _capacity_for(slots: int) -> int:
    """Return for how many slots columns are allocated when this many are needed."""
    # By a sixteenth: a large column grows in place, by moving page tables only.
    return max(_MIN_CAPACITY_SLOTS, min(2 * slots, _MAX_DOUBLED_SLOTS), slots * 17 // 16)
