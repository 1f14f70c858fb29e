"""Ids that wait for their other half: a sharded dict over flat columns.

An id maps to a slot; what is known of it stands in columns at that slot, and
slots are used again. The dict is cut into shards, because a dict that grows
copies itself whole: at 10 M entries that would stop everything for a second.
Whatever falls due later stands in a bucket of slots by time, so expiry touches
only what is due.

Cost: about 130 B an entry with 12-byte ids (`bench/join.py`); finding, adding
and dropping an id is one dict operation, everything else is vectorised.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from sortedcontainers import SortedDict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._effects import CodeArray, KindArray
    from streameval._groups import FloatArray, IntArray

SlotArray = npt.NDArray[np.int64]
BucketArray = npt.NDArray[np.uint32]

FREE = 255
"""The state of a slot that no id uses; other states are the joiner's."""

_FIRST_CAPACITY = 1024
_SHARDS = 64


class JoinTable:
    """A dict from ids to rows of columns, with an index by due time.

    Parameters
    ----------
    keys : int
        How many segment codes each row has.

    Attributes
    ----------
    state : uint8[capacity]
        The joiner's state of each slot; `FREE` where no id stands.
    score : float64[capacity]
    event_us : int64[capacity]
    due : uint32[capacity]
        The bucket in which the slot falls due.
    codes : uint16[capacity, keys]
    """

    def __init__(self, keys: int = 0) -> None:
        self._shards: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        self._ids: list[bytes | None] = []
        self._free: list[int] = []
        self._buckets: SortedDict[int, list[npt.NDArray[np.int32]]] = SortedDict()
        self.state: KindArray = np.full(0, FREE, dtype=np.uint8)
        self.score: FloatArray = np.empty(0)
        self.event_us: IntArray = np.empty(0, dtype=np.int64)
        self.due: BucketArray = np.empty(0, dtype=np.uint32)
        self.codes: CodeArray = np.empty((0, keys), dtype=np.uint16)

    def __len__(self) -> int:
        return len(self._ids) - len(self._free)

    def find(self, ids: Sequence[bytes]) -> SlotArray:
        """Return each id's slot, -1 where it is not there. O(n)."""
        shards = self._shards
        found = [shards[hash(id_) % _SHARDS].get(id_, -1) for id_ in ids]
        return np.array(found, dtype=np.int64)

    def ids(self, slots: SlotArray) -> list[bytes]:
        """Return the ids that stand at slots in use. O(n)."""
        return [self._ids[slot] or b"" for slot in slots.tolist()]

    def add(
        self,
        ids: Sequence[bytes],
        *,
        state: KindArray | int,
        score: FloatArray | float,
        event_us: IntArray,
        due: BucketArray,
        codes: CodeArray,
    ) -> None:
        """Add ids that are not there yet and are distinct. O(n) amortised."""
        count = len(ids)
        slots = self._take_slots(count)
        listed = slots.tolist()
        shards = self._shards
        for slot, id_ in zip(listed, ids, strict=True):
            self._ids[slot] = id_
            shards[hash(id_) % _SHARDS][id_] = slot
        self.state[slots] = state
        self.score[slots] = score
        self.event_us[slots] = event_us
        self.codes[slots] = codes
        self.reschedule(slots, due)

    def reschedule(self, slots: SlotArray, due: BucketArray) -> None:
        """Let slots fall due in other buckets. O(n + buckets touched)."""
        self.due[slots] = due
        if not slots.size:
            return
        compact = slots.astype(np.int32)
        if due[0] == due[-1] and (due == due[0]).all():
            self._buckets.setdefault(int(due[0]), []).append(compact)
            return
        order = np.argsort(due, kind="stable")
        ordered = due[order]
        cuts = np.flatnonzero(np.diff(ordered)) + 1
        firsts = ordered[np.concatenate(([0], cuts))].tolist()
        for bucket, part in zip(firsts, np.split(compact[order], cuts), strict=True):
            self._buckets.setdefault(bucket, []).append(part)

    def drop(self, slots: SlotArray) -> None:
        """Forget the ids at distinct slots. O(n)."""
        listed = slots.tolist()
        for slot, id_ in zip(listed, self.ids(slots), strict=True):
            del self._shards[hash(id_) % _SHARDS][id_]
            self._ids[slot] = None
        self.state[slots] = FREE
        self._free.extend(listed)

    def pop_due(self, before: int) -> Iterator[SlotArray]:
        """Take what falls due in buckets below `before`, bucket by bucket, oldest first.

        Each slot comes once, ascending; slots that were dropped or rescheduled
        since do not come.
        """
        while self._buckets and self._buckets.peekitem(0)[0] < before:
            bucket, parts = self._buckets.popitem(0)
            slots = np.unique(np.concatenate(parts)).astype(np.int64)
            yield slots[(self.due[slots] == bucket) & (self.state[slots] != FREE)]

    def oldest_bucket(self) -> int | None:
        """Return the first bucket in which something may fall due. O(log buckets)."""
        return self._buckets.peekitem(0)[0] if self._buckets else None

    def slots_by_id(self) -> SlotArray:
        """Return all slots in use in order of their ids: one order for equal tables. O(n log n)."""
        return self.find(sorted(id_ for id_ in self._ids if id_ is not None))

    def _take_slots(self, count: int) -> SlotArray:
        again = min(count, len(self._free))
        reused = self._free[len(self._free) - again :]
        del self._free[len(self._free) - again :]
        fresh = range(len(self._ids), len(self._ids) + count - again)
        self._ids.extend(repeat(None, count - again))
        if len(self._ids) > self.state.size:
            self._grow(max(_FIRST_CAPACITY, len(self._ids) * 5 // 4))
        return np.concatenate((np.array(reused, dtype=np.int64), np.array(fresh, dtype=np.int64)))

    def _grow(self, capacity: int) -> None:
        before = self.state.size
        for column in (self.state, self.score, self.event_us, self.due):
            column.resize(capacity, refcheck=False)
        self.codes.resize((capacity, self.codes.shape[1]), refcheck=False)
        self.state[before:] = FREE

    def _check(self) -> None:
        """Assert everything that must hold. O(n)."""
        used = {slot for slot, id_ in enumerate(self._ids) if id_ is not None}
        slots = {id_: slot for shard in self._shards for id_, slot in shard.items()}
        assert used == set(slots.values()), (used, slots)
        assert all(self._ids[slot] == id_ for id_, slot in slots.items())
        assert sorted([*self._free, *used]) == list(range(len(self._ids)))
        assert ((self.state != FREE).nonzero()[0] == sorted(used)).all()
        listed: dict[int, set[int]] = {
            bucket: set(np.concatenate(parts).tolist()) for bucket, parts in self._buckets.items()
        }
        for slot in used:
            assert slot in listed.get(int(self.due[slot]), ()), (slot, self.due[slot])
