"""Ids by slot and slots by id, for tables of up to many millions: a column and a hash table of it.

The hash table is extendible. A *segment* has 256 groups of 8 cells; an id is in one of two
groups of its segment, first in its home. A cell has 32 bits of the id's hash and the slot;
candidates of a whole batch are found by array operations, and each is compared with its id.
The leading bits of the hash choose the segment, by a directory. A segment that is two
thirds full is split by the next bit: its cells say to which half they belong, and keep
their places in it. So no call does more than its rows and the segments that they fill, and
a removed id leaves an empty cell and nothing else.

Ids are hashed as Python's dicts hash them, with a key for each process: a sender of ids cannot
choose where they go. An id that finds no place in either of its groups goes to its segment's
dict, so the table is right, if slower, with any hashes.

Cost: 17 B a slot with ids of up to 16 bytes, and some 16 B for its cell; an id is found in
some 0.2 us in a batch, in 1.5 us alone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._joining.id_column import IdColumn, IdTexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, IntArray
    from streameval._joining.expiry_index import SlotArray

    WordArray = npt.NDArray[np.uint64]

_GROUP_CELLS = 8
_GROUPS = 256
_SEGMENT_CELLS = _GROUPS * _GROUP_CELLS
_MAX_USED_CELLS = _SEGMENT_CELLS * 11 // 16
"""A segment with more cells in use is split. Until then hardly any id finds no place."""
_MAX_DEPTH = 22
"""The most leading bits that choose a segment; the others choose groups."""

_HASH_BITS = 32
_SLOT_BITS = 31
_SLOT_LIMIT = np.uint64(1 << _SLOT_BITS)
"""The bit of a cell that says that it is in use, so that it is not 0; the slot is below it."""
_SLOT_MASK = np.uint64((1 << _SLOT_BITS) - 1)

_MAX_FIND_ROWS = 2_048
"""Rows that are looked for at once: their cells stay in the processor's cache."""
_MAX_PLACE_ROWS = 1_024
"""Rows that are placed before full segments are split: fewer than a segment has room for."""
_MAX_SCALAR_ROWS = 8
_MAX_FOUND_SCALAR_ROWS = 24
"""Batches of at most this many rows go row by row: cheaper than numpy's calls."""
_ENTRY_BYTES = 184
"""Memory of an entry of a segment's dict besides the bytes of its id."""

_FIRST_FREE = np.array([8 - int(free).bit_length() for free in range(256)], dtype=np.int64)
"""The first bit that is set in a byte, from the highest; 8 without one."""

_hash = hash


def _regions() -> WordArray:
    """Return the six leading bits of each value of a hash's low 12.

    Their shares differ by up to a factor of two, so that segments are not all split at one
    time: the load of all is always the same.
    """
    shares = 2.0 ** (np.arange(64) / 64)
    ends = np.round(np.cumsum(shares) / shares.sum() * 4_096).astype(np.int64)
    return np.repeat(np.arange(64), np.diff(ends, prepend=0)).astype(np.uint64)


_REGION_BITS = 6
_LOW_BITS = 12
_TAIL_BITS = _HASH_BITS - _REGION_BITS
_REGIONS = _regions() << np.uint64(_TAIL_BITS)
_REGION_LIST = _REGIONS.tolist()


class _Places(NamedTuple):
    """Where ids belong: the keys of their cells, and their segments and groups."""

    keys: WordArray
    segments: IntArray
    homes: IntArray
    others: IntArray


class IdCells:
    """Ids by slot, and a hash table of their slots.

    Attributes
    ----------
    column : IdColumn
        The ids by slot.
    """

    def __init__(self) -> None:
        self.column = IdColumn()
        self._len = 0
        # uint64[groups, 8]: the hash's 32 bits, a bit that is set, and the slot; 0 is empty.
        self._cells: WordArray = np.zeros((_GROUPS, _GROUP_CELLS), dtype=np.uint64)
        self._used: IntArray = np.zeros(1, dtype=np.int64)
        self._depths: IntArray = np.zeros(1, dtype=np.int64)
        self._num_segments = 1
        self._directory: IntArray = np.zeros(1, dtype=np.int64)
        self._depth = 0
        # By segment, the ids that found no place; their home groups are marked, and stay so
        # until the segment is split.
        self._spilled: dict[int, dict[bytes, int]] = {}
        self._has_spilled: BoolArray = np.zeros(_GROUPS, dtype=np.bool_)
        self._spilled_bytes = 0

    def __len__(self) -> int:
        """How many ids can be found. O(1)."""
        return self._len

    @property
    def memory_bytes(self) -> int:
        """Memory of ids and cells. O(1)."""
        arrays = (self._cells, self._used, self._depths, self._has_spilled, self._directory)
        return (
            self.column.memory_bytes
            + sum(array.nbytes for array in arrays)
            + sys.getsizeof(self._spilled)
            + self._spilled_bytes
        )

    @property
    def text_bytes(self) -> int:
        """The lengths of all ids together. O(1)."""
        return self.column.text_bytes

    def grow(self, capacity: int) -> None:
        """Have room for this many slots. O(slots that are new)."""
        self.column.grow(capacity)

    # -- finding

    def find(self, ids: Sequence[bytes]) -> SlotArray:
        """Return each id's slot, -1 for unknown ids. O(n)."""
        if len(ids) <= _MAX_FOUND_SCALAR_ROWS:
            return np.array([self.find_one(id_) for id_ in ids], dtype=np.int64)
        if len(ids) <= _MAX_FIND_ROWS:
            return self._find(ids)
        starts = range(0, len(ids), _MAX_FIND_ROWS)
        return np.concatenate([self._find(ids[at : at + _MAX_FIND_ROWS]) for at in starts])

    def find_one(self, id_: bytes) -> int:
        """Return an id's slot, -1 if it is unknown. O(1)."""
        key, segment, home, other = self._place_of(id_)
        limit, mask = 1 << _SLOT_BITS, (1 << _SLOT_BITS) - 1
        for group in (home, other):
            for cell in self._cells[group].tolist():
                if cell ^ key < limit and self.column.has_one(cell & mask, id_):
                    return int(cell & mask)
        return self._spilled.get(segment, {}).get(id_, -1)

    def _find(self, ids: Sequence[bytes]) -> SlotArray:
        places, batch = self._places(ids), IdTexts.of(ids)
        found = np.full(len(ids), -1, dtype=np.int64)
        rows = np.arange(len(ids))
        for groups in (places.homes, places.others):
            at, slots = self._matches(groups[rows], places.keys[rows])
            at = rows[at]
            same = self.column.equal(slots, batch, at)
            found[at[same]] = slots[same]
            rows = np.flatnonzero(found < 0)
            if not rows.size:
                return found
        for row in self._rows_spilled(places, rows):
            found[row] = self._spilled.get(int(places.segments[row]), {}).get(ids[row], -1)
        return found

    def _matches(self, groups: IntArray, keys: WordArray) -> tuple[IntArray, SlotArray]:
        """Return the rows whose group has a cell of their key, and its slot; a row may repeat."""
        cells = self._cells.take(groups, axis=0, mode="clip")
        slots = cells ^ keys[:, None]
        at = np.flatnonzero(slots < _SLOT_LIMIT)
        return at >> 3, slots.ravel()[at].astype(np.int64)

    def _rows_spilled(self, places: _Places, rows: IntArray) -> list[int]:
        """Return the rows whose home group is, or was, the home of an id without a place."""
        if not self._spilled:
            return []
        spilled: list[int] = rows[self._has_spilled[places.homes[rows]]].tolist()
        return spilled

    # -- hashes and places

    def _places(self, ids: Sequence[bytes]) -> _Places:
        """Return where ids belong. O(n)."""
        full = np.fromiter(map(_hash, ids), np.int64, len(ids))
        hashes = _REGIONS[full & ((1 << _LOW_BITS) - 1)]
        hashes |= ((full >> _LOW_BITS) & ((1 << _TAIL_BITS) - 1)).astype(np.uint64)
        leading = (hashes >> np.uint64(_HASH_BITS - self._depth)).astype(np.int64)
        segments = self._directory[leading]
        bits = hashes.astype(np.int64)
        first, home = segments * _GROUPS, bits & (_GROUPS - 1)
        other = (home + 1 + ((bits >> 8) & (_GROUPS // 2 - 1))) & (_GROUPS - 1)
        keys = (hashes << np.uint64(_HASH_BITS)) | _SLOT_LIMIT
        return _Places(keys, segments, first + home, first + other)

    def _place_of(self, id_: bytes) -> tuple[int, int, int, int]:
        """Return the key, segment and groups of one id: as `_places`, without arrays."""
        full = _hash(id_)
        bits = _REGION_LIST[full & ((1 << _LOW_BITS) - 1)]
        bits |= (full >> _LOW_BITS) & ((1 << _TAIL_BITS) - 1)
        segment = int(self._directory[bits >> (_HASH_BITS - self._depth)])
        home = bits & (_GROUPS - 1)
        other = (home + 1 + ((bits >> 8) & (_GROUPS // 2 - 1))) & (_GROUPS - 1)
        first = segment * _GROUPS
        return bits << _HASH_BITS | 1 << _SLOT_BITS, segment, first + home, first + other

    # -- adding

    def add(self, ids: Sequence[bytes], slots: SlotArray) -> None:
        """Put distinct ids, of which none can be found, into slots that have none. O(n)."""
        self._len += len(ids)
        if len(ids) <= _MAX_SCALAR_ROWS:
            for id_, slot in zip(ids, slots.tolist(), strict=True):
                self.column.put_one(slot, id_)
                self._split_full(self._enter_one(id_, slot))
            return
        self.column.put(slots, IdTexts.of(ids))
        for start in range(0, len(ids), _MAX_PLACE_ROWS):
            part = slice(start, start + _MAX_PLACE_ROWS)
            self._enter(ids[part], slots[part])

    def _enter(self, ids: Sequence[bytes], slots: SlotArray) -> None:
        """Put slots into cells of their ids; split the segments that get full."""
        places = self._places(ids)
        left = self._fill(places, slots)
        for row in left.tolist():
            self._spill(
                int(places.segments[row]), int(places.homes[row]), ids[row], int(slots[row])
            )
        full = places.segments[self._used[places.segments] > _MAX_USED_CELLS]
        for segment in set(full.tolist()):
            self._split_full(segment)

    def _enter_one(self, id_: bytes, slot: int) -> int:
        """Put a slot into a cell of its id, without arrays; return the segment, unsplit."""
        key, segment, home, other = self._place_of(id_)
        for group in (home, other):
            cells = self._cells[group].tolist()
            if 0 in cells:
                self._cells[group, cells.index(0)] = key | slot
                self._used[segment] += 1
                return segment
        self._spill(segment, home, id_, slot)
        return segment

    def _fill(self, places: _Places, slots: SlotArray) -> IntArray:
        """Put slots into free cells of their groups; return the rows without one."""
        cells = self._cells.ravel()
        values = places.keys | slots.astype(np.uint64)
        rows = np.arange(slots.size)
        for groups in (places.homes, places.others):
            without = []
            while rows.size:
                group = groups[rows]
                is_free = self._cells.take(group, axis=0, mode="clip") == 0
                first = _FIRST_FREE[np.packbits(is_free)]
                has_room = first < _GROUP_CELLS
                if not has_room.all():
                    without.append(rows[~has_room])
                    rows, group, first = rows[has_room], group[has_room], first[has_room]
                at = group * _GROUP_CELLS + first
                # Where several rows take one cell one of them gets it; the others try again.
                cells[at] = values[rows]
                rows = rows[cells[at] != values[rows]]
            rows = np.concatenate(without) if without else rows
        placed = places.segments if not rows.size else np.delete(places.segments, rows)
        np.add.at(self._used, placed, 1)
        return rows

    def _spill(self, segment: int, home: int, id_: bytes, slot: int) -> None:
        self._spilled.setdefault(segment, {})[id_] = slot
        self._has_spilled[home] = True
        self._spilled_bytes += _ENTRY_BYTES + len(id_)

    def _unspill(self, segment: int, id_: bytes) -> None:
        spilled = self._spilled[segment]
        del spilled[id_]
        self._spilled_bytes -= _ENTRY_BYTES + len(id_)
        if not spilled:
            del self._spilled[segment]

    # -- splitting

    def _split_full(self, segment: int) -> None:
        """Split a segment until no part is full, or until hashes have no more bits for it."""
        waiting = [segment]
        while waiting:
            segment = waiting.pop()
            if self._used[segment] > _MAX_USED_CELLS and self._depths[segment] < _MAX_DEPTH:
                waiting += [segment, self._split(segment)]

    def _split(self, segment: int) -> int:
        """Split a segment by the next bit of its hashes; return the new one."""
        depth = int(self._depths[segment])
        if depth == self._depth:
            self._directory = np.repeat(self._directory, 2)
            self._depth += 1
        new = self._new_segment()
        both = np.flatnonzero(self._directory == segment)
        self._directory[both[both.size // 2 :]] = new
        self._depths[segment] = self._depths[new] = depth + 1
        cells = self._cells[segment * _GROUPS : (segment + 1) * _GROUPS]
        moves = (cells >> np.uint64(63 - depth)) & np.uint64(1) == 1
        num_moved = int(np.count_nonzero(moves))
        self._cells[new * _GROUPS : (new + 1) * _GROUPS] = np.where(moves, cells, np.uint64(0))
        cells[moves] = 0
        self._used[segment] -= num_moved
        self._used[new] = num_moved
        self._has_spilled[segment * _GROUPS : (segment + 1) * _GROUPS] = False
        for id_, slot in list(self._spilled.get(segment, {}).items()):
            self._unspill(segment, id_)
            self._enter_one(id_, slot)
        return new

    def _new_segment(self) -> int:
        new = self._num_segments
        if (new + 1) * _GROUPS > len(self._cells):
            # By a sixteenth: a large array grows in place, by moving page tables only.
            capacity = max(new + 1, new * 17 // 16)
            self._cells.resize((capacity * _GROUPS, _GROUP_CELLS), refcheck=False)
            self._has_spilled.resize(capacity * _GROUPS, refcheck=False)
            for array in (self._used, self._depths):
                array.resize(capacity, refcheck=False)
        self._num_segments += 1
        return new

    # -- removing

    def forget(self, ids: Sequence[bytes]) -> None:
        """Let ids be found no more; their slots keep them. O(n)."""
        slots = self.find(ids)
        rows = np.flatnonzero(slots >= 0)
        if rows.size:
            self._leave([ids[row] for row in rows.tolist()], slots[rows])

    def remove(self, slots: SlotArray) -> None:
        """Clear distinct slots that have ids; these are found no more. O(n)."""
        ids = self.at(slots)
        if len(ids) <= _MAX_SCALAR_ROWS:
            for id_, slot in zip(ids, slots.tolist(), strict=True):
                self._leave_one(id_, slot)
        else:
            for start in range(0, len(ids), _MAX_FIND_ROWS):
                part = slice(start, start + _MAX_FIND_ROWS)
                self._leave(ids[part], slots[part])
        self.column.clear(slots, ids)

    def _leave(self, ids: Sequence[bytes], slots: SlotArray) -> None:
        """Empty the cells of slots; some may have been left before."""
        places = self._places(ids)
        values = places.keys | slots.astype(np.uint64)
        cells = self._cells.ravel()
        rows = np.arange(slots.size)
        for groups in (places.homes, places.others):
            group = groups[rows]
            is_mine = self._cells.take(group, axis=0, mode="clip") == values[rows][:, None]
            at = np.flatnonzero(is_mine)
            cells[group[at >> 3] * _GROUP_CELLS + (at & 7)] = 0
            np.subtract.at(self._used, places.segments[rows[at >> 3]], 1)
            self._len -= at.size
            rows = np.delete(rows, at >> 3)
            if not rows.size:
                return
        for row in self._rows_spilled(places, rows):
            segment = int(places.segments[row])
            if self._spilled.get(segment, {}).get(ids[row]) == slots[row]:
                self._unspill(segment, ids[row])
                self._len -= 1

    def _leave_one(self, id_: bytes, slot: int) -> None:
        """As `_leave`, without arrays."""
        key, segment, home, other = self._place_of(id_)
        for group in (home, other):
            cells = self._cells[group].tolist()
            if key | slot in cells:
                self._cells[group, cells.index(key | slot)] = 0
                self._used[segment] -= 1
                self._len -= 1
                return
        if self._spilled.get(segment, {}).get(id_) == slot:
            self._unspill(segment, id_)
            self._len -= 1

    # -- all ids

    def at(self, slots: SlotArray) -> list[bytes]:
        """Return the ids of slots that have one. O(n)."""
        return self.column.at(slots)

    def encoded(self, slots: SlotArray) -> tuple[bytes, bytes]:
        """Return the lengths of the ids at slots, a byte each, and the ids joined. O(n)."""
        return self.column.encoded(slots)

    def order(self, slots: SlotArray) -> SlotArray:
        """Return the order of slots by their ids. O(n log n)."""
        return self.column.order(slots)

    def taken(self, slots: SlotArray) -> IdColumn:
        """Return the ids of slots that have one, as a column of their own. O(n)."""
        return self.column.taken(slots)

    def used(self) -> SlotArray:
        """Return the slots that have an id, in ascending order. O(slots)."""
        return self.column.used()

    def copy(self) -> IdCells:
        """Return an independent copy. O(slots)."""
        other = IdCells()
        other.column, other._len = self.column.copy(), self._len
        for name in ("_cells", "_used", "_depths", "_has_spilled", "_directory"):
            setattr(other, name, getattr(self, name).copy())
        other._num_segments, other._depth = self._num_segments, self._depth
        other._spilled = {each: dict(ids) for each, ids in self._spilled.items()}
        other._spilled_bytes = self._spilled_bytes
        return other

    def _check(self) -> None:
        """Assert all invariants. O(slots + segments)."""
        self.column._check()
        segments, cells = self._num_segments, self._cells.reshape(-1, _SEGMENT_CELLS)
        assert (np.count_nonzero(cells, axis=1)[:segments] == self._used[:segments]).all()
        assert not cells[segments:].any()
        assert self._directory.size == 1 << self._depth
        parts = 1 << (self._depth - self._depths[:segments])
        assert (np.bincount(self._directory, minlength=segments) == parts).all()
        of_cells = self._cells[self._cells != 0] & _SLOT_MASK
        spilled = {id_: slot for ids in self._spilled.values() for id_, slot in ids.items()}
        slots = np.array([*of_cells.tolist(), *spilled.values()], dtype=np.int64)
        assert slots.size == self._len == np.unique(slots).size, (slots.size, self._len)
        ids = self.at(slots)
        assert all(ids), ids
        assert ids[of_cells.size :] == list(spilled)
        assert (self.find(ids) == slots).all()
        assert [self.find_one(id_) for id_ in ids] == slots.tolist()
        for segment, of_segment in self._spilled.items():
            places = [self._place_of(id_) for id_ in of_segment]
            assert {place[1] for place in places} == {segment}
            assert all(self._has_spilled[place[2]] for place in places)
        assert {} not in self._spilled.values()
        taken = sum(_ENTRY_BYTES + len(id_) for id_ in spilled)
        assert self._spilled_bytes == taken, (self._spilled_bytes, taken)
