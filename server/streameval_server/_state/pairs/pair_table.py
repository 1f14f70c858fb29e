"""The ids of a pair, and their segments of a checkpoint.

An id has a score of each stream that has predicted it, and its label. Its first prediction sets
its time, segments and cluster. An id takes 16 B more memory than in a stream.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from streameval import CorruptStateError
from streameval.kernel import WEIGHT_UNITS, Frame
from streameval_server._state.ids.join_segment import HAS_WEIGHTS, ids_to_bytes, read_ids
from streameval_server._state.ids.join_table import IdSegments, TrackedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval_server._model.arrays import CodeArray, IntArray
    from streameval_server._model.pair_settings import PairSettings

BY_A, BY_B, NEGATIVE, POSITIVE = 1, 2, 4, 8
"""Bits of an id's state: which streams have predicted it, and its label."""
BY_BOTH, LABELLED = BY_A | BY_B, NEGATIVE | POSITIVE


_FRAME = Frame(b"SVEP", 1, "a segment of a pair's ids", flags=HAS_WEIGHTS)
_HEADER = struct.Struct("<qqH")


class PairTable(TrackedTable):
    """A join table with a second score.

    Attributes
    ----------
    score_b : float64[capacity]
        b's; `score` is a's. nan where there is none.
    serial : int64[capacity]
        A number that each id has alone, as long as it is kept; 0 of a free slot.
    """

    def __init__(self, keys: int = 0) -> None:
        super().__init__(keys)
        self.score_b = np.empty(0)
        self.serial: IntArray = np.empty(0, dtype=np.int64)
        self._last_serial = 0

    @property
    def memory_bytes(self) -> int:
        """Memory, with the second score. O(1)."""
        return super().memory_bytes + self.score_b.nbytes + self.serial.nbytes

    def find_linked(self, ids: Sequence[bytes], linked: IntArray) -> IntArray:
        """Return each id's slot, where `linked` has it or else as `find`; mark them. O(n)."""
        missing = np.flatnonzero(linked < 0)
        if missing.size == linked.size:
            return self.find(ids)
        if missing.size:
            linked[missing] = self.find([ids[row] for row in missing.tolist()])
        self._changed[linked[linked >= 0]] = True
        return linked

    def add(self, ids: Sequence[bytes]) -> IntArray:
        """Add ids, each with a serial number."""
        slots = super().add(ids)
        self.serial[slots] = np.arange(1, slots.size + 1) + self._last_serial
        self._last_serial += slots.size
        return slots

    def drop(self, slots: IntArray) -> None:
        """Remove slots."""
        self.serial[slots] = 0
        super().drop(slots)

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        for column in (self.score_b, self.serial):
            column.resize(capacity, refcheck=False)

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
        super()._check()
        slots = self.used()
        states = self.state[slots]
        assert ((states & LABELLED) != LABELLED).all()
        assert (states != 0).all()
        assert (states < self.FREE_SLOT).all()
        assert len(set(self.serial[slots].tolist())) == slots.size
        assert ((self.serial == 0) == (self.state == self.FREE_SLOT)).all()
        for scores, bit in ((self.score, BY_A), (self.score_b, BY_B)):
            assert (np.isnan(scores[slots]) == ((states & bit) == 0)).all()


class PairIds(IdSegments):
    """The ids of a pair.

    Attributes
    ----------
    table : PairTable
    """

    PART = "pairids"
    table: PairTable

    def __init__(self, settings: PairSettings) -> None:
        super().__init__()
        self.table = PairTable(len(settings.segment_keys) + bool(settings.cluster_groups))

    @property
    def memory_bytes(self) -> int:
        """Memory of the ids, and of a checkpoint's segment of all of them. O(1)."""
        return self.table.memory_bytes + self.table.encoded_bytes + 2 * 8 * len(self.table)

    def encode(self, slots: IntArray, removed: list[bytes]) -> bytes:
        """Return a segment of slots and of removed ids. O(rows)."""
        table = self.table
        units = table.held_units(slots)
        return _FRAME.sealed(
            _HEADER.pack(len(removed), slots.size, table.codes.shape[1]),
            *ids_to_bytes(removed),
            *table.encoded_ids(slots),
            table.state[slots].tobytes(),
            table.score[slots].astype("<f8").tobytes(),
            table.score_b[slots].astype("<f8").tobytes(),
            table.event_us[slots].astype("<i8").tobytes(),
            table.due[slots].astype("<u4").tobytes(),
            table.codes[slots].astype("<u2").tobytes(),
            b"" if units is None else units.astype("<i8").tobytes(),
            flags=0 if units is None else HAS_WEIGHTS,
        )

    def decode(self, data: bytes) -> int:
        """Apply a segment to the table; return its rows. Raises CorruptStateError. O(rows)."""
        table = self.table
        reader = _FRAME.reader(data)
        num_removed, rows, keys = reader.fields(_HEADER)
        removed, ids = read_ids(reader, num_removed), read_ids(reader, rows)
        states = reader.column("u1", rows)
        scores, scores_b = reader.column("<f8", rows), reader.column("<f8", rows)
        event_us = reader.column("<i8", rows)
        due = reader.column("<u4", rows).astype(np.uint32)
        codes: CodeArray = reader.column("<u2", rows * keys).reshape(rows, keys)
        units: IntArray = np.full(rows, WEIGHT_UNITS, dtype=np.int64)
        if reader.flags & HAS_WEIGHTS:
            units = reader.column("<i8", rows).astype(np.int64)
        reader.end()
        table.check_units(units, (states & LABELLED) != 0)
        if keys != table.codes.shape[1] or (states >= 2 * POSITIVE).any():
            raise CorruptStateError(
                "the segment of a pair has ids in unknown states, or of unknown keys"
            )
        gone = table.find(removed)
        if (gone < 0).any():
            raise CorruptStateError("the segment of a pair removes ids that no earlier segment has")
        table.drop(gone)
        slots = table.find(ids)
        new = np.flatnonzero(slots < 0)
        if new.size:
            slots[new] = table.add([ids[row] for row in new.tolist()])
        table.state[slots] = states
        table.score[slots], table.score_b[slots] = scores, scores_b
        table.event_us[slots], table.codes[slots] = event_us, codes
        table.set_units(slots, units)
        table.schedule(slots, due)
        return int(num_removed) + int(rows)

    def to_bytes(self) -> bytes:
        """Return all ids in a canonical form, equal for equal tables. O(n log n)."""
        return self.encode(self.table.slots_by_id(), [])
