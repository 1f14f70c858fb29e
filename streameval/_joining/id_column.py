"""Ids by slot: a column of 16 bytes, and an array of objects for the ids that do not fit it.

The column has each id of up to 16 bytes that does not end with a zero byte, padded with zeros:
two such ids are equal if both of their words are. All other ids are kept as objects, and the
column has zeros at their slots, which no id has.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import repeat
from operator import eq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, IntArray
    from streameval._joining.expiry_index import SlotArray

MAX_TEXT_BYTES = 16
"""The longest id in the column."""
_TEXT = np.dtype(f"S{MAX_TEXT_BYTES}")
_ZERO = b"\0"
_WORD = np.dtype("<u8")
_EMPTY_ID_BYTES = sys.getsizeof(b"")
_ALLOCATION_BYTES = 16
"""The allocator rounds sizes up to multiples of this."""
_MAX_ENCODED_ROWS = 65_536
"""Rows that are encoded at once, so that memory of intermediate arrays is bounded."""


class IdTexts(NamedTuple):
    """Ids, and how the column has them.

    Attributes
    ----------
    ids : sequence of bytes
    texts : S16[n]
        Zeros where an id is an object.
    objects : int64[n]
        The rows of those.
    text_bytes : int
        The lengths of all ids together.
    """

    ids: Sequence[bytes]
    texts: npt.NDArray[np.bytes_]
    objects: SlotArray
    text_bytes: int

    @classmethod
    def of(cls, ids: Sequence[bytes]) -> IdTexts:
        """Return ids as the column has them. O(n)."""
        joined = b"".join(ids)
        texts = np.array(ids, dtype=_TEXT)
        has_zeros = _ZERO in joined
        if not ids or (max(map(len, ids)) <= MAX_TEXT_BYTES and not has_zeros):
            return cls(ids, texts, np.empty(0, dtype=np.int64), len(joined))
        is_object = np.fromiter(map(len, ids), np.int64, len(ids)) > MAX_TEXT_BYTES
        if has_zeros:
            ends = map(bytes.endswith, ids, repeat(_ZERO))
            is_object |= np.fromiter(ends, np.bool_, len(ids))
        texts[is_object] = b""
        objects = np.flatnonzero(is_object)
        return cls(ids, texts, objects, len(joined))


def is_text(id_: bytes) -> bool:
    """Return whether the column has the id, not an object."""
    return len(id_) <= MAX_TEXT_BYTES and id_[-1:] != _ZERO


class IdColumn:
    """Ids by slot.

    Attributes
    ----------
    text_bytes : int
        The lengths of all ids together.
    """

    def __init__(self) -> None:
        self.text_bytes = 0
        self._texts: npt.NDArray[np.bytes_] = np.empty(0, dtype=_TEXT)
        # By slot; None before the first one.
        self._objects: npt.NDArray[np.object_] | None = None
        self._object_bytes = 0

    @classmethod
    def of(cls, ids: Sequence[bytes]) -> IdColumn:
        """Return a column of these ids. O(n)."""
        column = cls()
        column.grow(len(ids))
        column.put(np.arange(len(ids)), IdTexts.of(ids))
        return column

    @property
    def memory_bytes(self) -> int:
        """Memory of the ids. O(1)."""
        objects = 0 if self._objects is None else self._objects.nbytes + self._object_bytes
        return self._texts.nbytes + objects

    def grow(self, capacity: int) -> None:
        """Have room for this many slots. O(slots that are new)."""
        before = self._texts.size
        self._texts.resize(capacity, refcheck=False)
        if self._objects is not None:
            self._objects.resize(capacity, refcheck=False)
            self._objects[before:] = None

    def put(self, slots: SlotArray, batch: IdTexts) -> None:
        """Put ids into slots that have none. O(n)."""
        self._texts[slots] = batch.texts
        self.text_bytes += batch.text_bytes
        if batch.objects.size:
            if self._objects is None:
                self._objects = np.full(self._texts.size, None, dtype=object)
            objects = [batch.ids[row] for row in batch.objects.tolist()]
            self._objects[slots[batch.objects]] = objects
            self._object_bytes += memory_of(objects)

    def put_one(self, slot: int, id_: bytes) -> None:
        """Put an id into a slot that has none. O(1)."""
        if is_text(id_):
            self._texts[slot] = id_
            self.text_bytes += len(id_)
        else:
            self.put(np.array([slot]), IdTexts.of([id_]))

    def clear(self, slots: SlotArray, ids: Sequence[bytes]) -> None:
        """Clear slots, which have these ids. O(n)."""
        self._texts[slots] = b""
        self.text_bytes -= sum(map(len, ids))
        if self._objects is not None:
            objects = [id_ for id_ in ids if not is_text(id_)]
            if objects:
                self._objects[slots] = None
                self._object_bytes -= memory_of(objects)

    def has_one(self, slot: int, id_: bytes) -> bool:
        """Return whether a slot has this id. O(1)."""
        return (self._texts.item(slot) if is_text(id_) else self._object(slot)) == id_

    def equal(self, slots: SlotArray, batch: IdTexts, rows: SlotArray) -> BoolArray:
        """Return whether slots have the ids of rows of a batch. O(n)."""
        mine, theirs = self._words(slots), _words(batch.texts.take(rows, mode="clip"))
        same: BoolArray = (mine[:, 0] == theirs[:, 0]) & (mine[:, 1] == theirs[:, 1])
        if batch.objects.size:
            both = np.flatnonzero(same & (theirs[:, 0] == 0) & (theirs[:, 1] == 0))
            kept = self._objects_at(slots[both])
            sought = [batch.ids[row] for row in rows[both].tolist()]
            same[both] = np.fromiter(map(eq, kept, sought), np.bool_, both.size)
        return same

    def at(self, slots: SlotArray) -> list[bytes]:
        """Return the ids of slots that have one. O(n)."""
        ids: list[bytes] = self._texts.take(slots, mode="clip").tolist() if slots.size else []
        if self._objects is not None:
            for row in [row for row, id_ in enumerate(ids) if not id_]:
                ids[row] = self._object(int(slots[row])) or b""
        return ids

    def encoded(self, slots: SlotArray) -> tuple[bytes, bytes]:
        """Return the lengths of the ids at slots, a byte each, and the ids joined. O(n)."""
        lengths, joined = [], []
        for start in range(0, slots.size, _MAX_ENCODED_ROWS):
            part = slots[start : start + _MAX_ENCODED_ROWS]
            if self._objects is not None and any(self._objects[part].tolist()):
                ids = self.at(part)
                lengths.append(bytes(map(len, ids)))
                joined.append(b"".join(ids))
                continue
            texts = _bytes(self._texts.take(part, mode="clip"))
            sizes = _sizes(texts)
            lengths.append(sizes.astype(np.uint8).tobytes())
            joined.append(texts[np.arange(MAX_TEXT_BYTES) < sizes[:, None]].tobytes())
        return b"".join(lengths), b"".join(joined)

    def order(self, slots: SlotArray) -> SlotArray:
        """Return the order of slots by their ids. O(n log n)."""
        if self._objects is None:
            # Texts are ordered as their bytes are, read from the most significant one on.
            words = self._words(slots).byteswap()
            return np.lexsort((words[:, 1], words[:, 0]))
        ids = self.at(slots)
        return np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)

    def taken(self, slots: SlotArray) -> IdColumn:
        """Return the ids of slots that have one, as a column of their own. O(n)."""
        other = IdColumn()
        other._texts = self._texts[slots]
        if self._objects is not None:
            other._objects = self._objects[slots]
        for start in range(0, slots.size, _MAX_ENCODED_ROWS):
            ids = other.at(np.arange(start, min(start + _MAX_ENCODED_ROWS, slots.size)))
            other.text_bytes += sum(map(len, ids))
            if self._objects is not None:
                other._object_bytes += memory_of([id_ for id_ in ids if not is_text(id_)])
        return other

    def used(self) -> SlotArray:
        """Return the slots that have an id, in ascending order. O(slots)."""
        has_id = self._texts != b""
        if self._objects is not None:
            has_id |= self._objects != None  # noqa: E711 - of each
        return np.flatnonzero(has_id)

    def copy(self) -> IdColumn:
        """Return an independent copy. O(slots)."""
        other = IdColumn()
        other.text_bytes, other._object_bytes = self.text_bytes, self._object_bytes
        other._texts = self._texts.copy()
        other._objects = None if self._objects is None else self._objects.copy()
        return other

    def _words(self, slots: SlotArray) -> npt.NDArray[np.uint64]:
        return _words(self._texts.take(slots, mode="clip"))

    def _object(self, slot: int) -> bytes | None:
        return None if self._objects is None else self._objects[slot]

    def _objects_at(self, slots: SlotArray) -> list[bytes | None]:
        if self._objects is None:
            return [None] * slots.size
        kept: list[bytes | None] = self._objects[slots].tolist()
        return kept

    def _check(self) -> None:
        """Assert all invariants. O(slots)."""
        ids = self.at(self.used())
        assert all(ids), ids
        assert self.text_bytes == sum(map(len, ids)), self.text_bytes
        objects = [] if self._objects is None else [each for each in self._objects if each]
        assert sorted(objects) == sorted(id_ for id_ in ids if not is_text(id_))
        assert self._object_bytes == memory_of(objects), self._object_bytes


def _words(texts: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint64]:
    """Return the two words of each text."""
    return texts.view(_WORD).reshape(-1, 2)


def _bytes(texts: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint8]:
    """Return the 16 bytes of each text."""
    return texts.view(np.uint8).reshape(-1, MAX_TEXT_BYTES)


def _sizes(texts: npt.NDArray[np.uint8]) -> IntArray:
    """Return the lengths of texts that are not empty: they may have zeros, but not end with one."""
    zeros: IntArray = (texts[:, ::-1] != 0).argmax(axis=1)
    return MAX_TEXT_BYTES - zeros


def memory_of(ids: Sequence[bytes]) -> int:
    """Return the memory that ids take, as the allocator rounds it. O(n)."""
    lengths = list(map(len, ids))
    if lengths and lengths.count(lengths[0]) == len(lengths):
        return len(lengths) * _allocated(lengths[0])
    # Ids have few distinct lengths, so rounding is done for each length, not each id.
    return sum(count * _allocated(length) for length, count in Counter(lengths).items())


def _allocated(length: int) -> int:
    return -(-(_EMPTY_ID_BYTES + length) // _ALLOCATION_BYTES) * _ALLOCATION_BYTES
