"""Ids by slot and slots by id, for tables of a few thousand ids: a list and a dict.

As long as its memory stays in the processor's caches, a dict finds an id in less time than
`IdCells`, and takes fewer bytes of a table with few ids.
"""

from __future__ import annotations

import sys
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from streameval._joining.id_column import IdColumn, memory_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._joining.expiry_index import SlotArray

_INT_BYTES = 32


class IdDict:
    """A dict from ids to slots, and the ids by slot.

    Attributes
    ----------
    text_bytes : int
        The lengths of all ids together.
    """

    def __init__(self) -> None:
        self.text_bytes = 0
        self._slots: dict[bytes, int] = {}
        self._ids: list[bytes | None] = []
        self._id_bytes = 0

    def __len__(self) -> int:
        """How many ids can be found. O(1)."""
        return len(self._slots)

    @property
    def memory_bytes(self) -> int:
        """Memory of ids and slots. O(1)."""
        return (
            sys.getsizeof(self._slots)
            + sys.getsizeof(self._ids)
            + self._id_bytes
            + _INT_BYTES * len(self._slots)
        )

    def grow(self, capacity: int) -> None:
        """Have room for this many slots. O(slots that are new)."""
        self._ids.extend(repeat(None, capacity - len(self._ids)))

    def find(self, ids: Sequence[bytes]) -> SlotArray:
        """Return each id's slot, -1 for unknown ids. O(n)."""
        return np.fromiter(map(self._slots.get, ids, repeat(-1)), np.int64, len(ids))

    def find_one(self, id_: bytes) -> int:
        """Return an id's slot, -1 if it is unknown. O(1)."""
        return self._slots.get(id_, -1)

    def add(self, ids: Sequence[bytes], slots: SlotArray) -> None:
        """Put distinct ids, of which none can be found, into slots that have none. O(n)."""
        kept = self._ids
        for slot, id_ in zip(slots.tolist(), ids, strict=True):
            kept[slot] = id_
            self._slots[id_] = slot
        self._count(ids, 1)

    def forget(self, ids: Sequence[bytes]) -> None:
        """Let ids be found no more; their slots keep them. O(n)."""
        for id_ in ids:
            self._slots.pop(id_, None)

    def remove(self, slots: SlotArray) -> None:
        """Clear distinct slots that have ids; these are found no more. O(n)."""
        ids = self.at(slots)
        for slot, id_ in zip(slots.tolist(), ids, strict=True):
            # An id that was forgotten may have been added again, in another slot.
            if self._slots.get(id_) == slot:
                del self._slots[id_]
            self._ids[slot] = None
        self._count(ids, -1)

    def at(self, slots: SlotArray) -> list[bytes]:
        """Return the ids of slots that have one. O(n)."""
        return [self._ids[slot] or b"" for slot in slots.tolist()]

    def encoded(self, slots: SlotArray) -> tuple[bytes, bytes]:
        """Return the lengths of the ids at slots, a byte each, and the ids joined. O(n)."""
        ids = self.at(slots)
        return bytes(map(len, ids)), b"".join(ids)

    def order(self, slots: SlotArray) -> SlotArray:
        """Return the order of slots by their ids. O(n log n)."""
        ids = self.at(slots)
        return np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)

    def taken(self, slots: SlotArray) -> IdColumn:
        """Return the ids of slots that have one, as a column of their own. O(n)."""
        return IdColumn.of(self.at(slots))

    def used(self) -> SlotArray:
        """Return the slots that have an id, in ascending order. O(slots)."""
        used = [slot for slot, id_ in enumerate(self._ids) if id_ is not None]
        return np.array(used, dtype=np.int64)

    def copy(self) -> IdDict:
        """Return an independent copy. O(slots)."""
        other = IdDict()
        other.text_bytes, other._id_bytes = self.text_bytes, self._id_bytes
        other._slots, other._ids = dict(self._slots), self._ids[:]
        return other

    def _count(self, ids: Sequence[bytes], sign: int) -> None:
        self.text_bytes += sign * sum(map(len, ids))
        self._id_bytes += sign * memory_of(ids)

    def _check(self) -> None:
        """Assert all invariants. O(slots)."""
        kept = [id_ for id_ in self._ids if id_ is not None]
        assert all(self._ids[slot] == id_ for id_, slot in self._slots.items())
        assert self._id_bytes == memory_of(kept), (self._id_bytes, memory_of(kept))
        assert self.text_bytes == sum(map(len, kept)), self.text_bytes
