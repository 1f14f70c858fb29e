"""Links from an id's slot in its stream to its slot in the pair, so that it is looked up once.

When a pair takes a batch, its stream has already found the slots of the batch's ids. A
prediction links the id's two slots, so the pair finds the slot of the label without a look-up. A
link is valid while both tables keep the id: a stream clears the link of a slot that it gives to
another id, and each id of a pair has a serial number that no other id ever gets.

Links are derived data: a checkpoint has none, and an id without a link is looked up. 12 B a slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval_server._model.arrays import IntArray
    from streameval_server._state.ids.join_table import TrackedTable
    from streameval_server._state.pairs.pair_table import PairTable


class StreamSlots(NamedTuple):
    """A batch's ids in the table of their stream.

    Attributes
    ----------
    ids : sequence of bytes
        The batch's own: slots of a copy are not known.
    slots : int64[n]
        -1 where the stream has no slot of the id.
    links : SlotLinks
        The links from this stream's slots to the pair's.
    """

    ids: Sequence[bytes]
    slots: IntArray
    links: SlotLinks


class SlotLinks:
    """The pair's slots of a stream's ids.

    Attributes
    ----------
    table : TrackedTable or None
        The stream's, which clears the links of slots that it gives to new ids.
    """

    def __init__(self) -> None:
        self.table: TrackedTable | None = None
        self._slots, self._serials = _no_links()

    def found(self, table: TrackedTable) -> StreamSlots | None:
        """Return what the stream found last; None at first, and where ids had no column. O(1)."""
        if table is not self.table:
            self.detach()
            self.table = table
            table.links.append(self)
            return None
        return None if table.last_found is None else StreamSlots(*table.last_found, self)

    def detach(self) -> None:
        """Forget all links, and the stream's table. O(1)."""
        if self.table is not None:
            self.table.links.remove(self)
        self.table = None
        self._slots, self._serials = _no_links()

    def forget(self, slots: IntArray) -> None:
        """Clear the links of slots that are given to new ids. O(n)."""
        if self._serials.size:
            self._serials[slots[slots < self._serials.size]] = 0

    def pair_slots(self, slots: IntArray, pair: PairTable) -> IntArray:
        """Return the pair's slots; -1 where there is no link. O(n)."""
        if not self._serials.size:
            return np.full(slots.size, -1, dtype=np.int64)
        known = (slots >= 0) & (slots < self._serials.size)
        at = np.where(known, slots, 0)
        linked = self._slots[at].astype(np.int64)
        holds = known & (self._serials[at] > 0)
        holds &= pair.serial[linked] == self._serials[at]
        return np.where(holds, linked, -1)

    def put(self, slots: IntArray, linked: IntArray, pair: PairTable) -> None:
        """Link each stream's slot to the pair's slot of the same id, unless one is -1. O(n)."""
        assert self.table is not None
        capacity = self.table.state.size
        if capacity > self._serials.size:
            self._slots.resize(capacity, refcheck=False)
            self._serials.resize(capacity, refcheck=False)
        kept = (slots >= 0) & (linked >= 0)
        if not kept.all():
            slots, linked = slots[kept], linked[kept]
        self._slots[slots] = linked
        self._serials[slots] = pair.serial[linked]

    @property
    def memory_bytes(self) -> int:
        """Memory of the links. O(1)."""
        return self._slots.nbytes + self._serials.nbytes

    def _check(self, pair: PairTable) -> None:
        """Assert that links are between slots of one id. O(n)."""
        if self.table is None:
            return
        assert any(each is self for each in self.table.links)
        slots = self.table.used()
        linked = self.pair_slots(slots, pair)
        slots, linked = slots[linked >= 0], linked[linked >= 0]
        assert self.table.ids(slots) == pair.ids(linked)


def _no_links() -> tuple[npt.NDArray[np.int32], IntArray]:
    return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
