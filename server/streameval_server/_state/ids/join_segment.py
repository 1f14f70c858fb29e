"""Join segments: ids that were removed, and rows of ids that were added or changed, as bytes.

Segments with a label of a weight other than 1 have a flag, and a column of weights in units of
2**-16 at their end.

Cost: O(rows) to encode and to decode.
"""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from streameval import CorruptStateError
from streameval.kernel import WEIGHT_UNITS, Frame, Joiner, JoinTable
from streameval_server._state.segments import ABSENT

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval.kernel import Reader
    from streameval_server._model.arrays import IntArray

HAS_WEIGHTS = 1
"""The flag of segments with a column of weights."""
FRAME = Frame(b"SVES", 1, "a join segment", flags=HAS_WEIGHTS)
_HEADER = struct.Struct("<qqH")


def encode_segment(table: JoinTable, slots: IntArray, removed: list[bytes]) -> bytes:
    """Return a join segment. O(rows)."""
    units = table.held_units(slots)
    weights = [] if units is None else [units.astype("<i8").tobytes()]
    return FRAME.sealed(
        _HEADER.pack(len(removed), slots.size, table.codes.shape[1]),
        *ids_to_bytes(removed),
        *table.encoded_ids(slots),
        table.state[slots].tobytes(),
        table.score[slots].astype("<f8").tobytes(),
        table.event_us[slots].astype("<i8").tobytes(),
        table.due[slots].astype("<u4").tobytes(),
        table.codes[slots].astype("<u2").tobytes(),
        *weights,
        flags=HAS_WEIGHTS if weights else 0,
    )


def decode_segment(table: JoinTable, data: bytes) -> int:
    """Apply a segment to a table; return how many rows it lists. O(rows).

    Raises
    ------
    CorruptStateError
        When the bytes are not what `encode_segment` wrote.
    """
    reader = FRAME.reader(data)
    num_removed: int
    rows: int
    num_removed, rows, keys = reader.fields(_HEADER)
    removed = read_ids(reader, num_removed)
    ids = read_ids(reader, rows)
    states = reader.column("u1", rows)
    scores = reader.column("<f8", rows)
    event_us = reader.column("<i8", rows)
    due = reader.column("<u4", rows).astype(np.uint32)
    codes = reader.column("<u2", rows * keys).reshape(rows, keys)
    units: IntArray = np.full(rows, WEIGHT_UNITS, dtype=np.int64)
    if reader.flags & HAS_WEIGHTS:
        units = reader.column("<i8", rows).astype(np.int64)
    reader.end()
    Joiner.check_stored(states, units)
    if keys > table.codes.shape[1]:
        raise CorruptStateError("the join segment has ids of unknown keys")
    slots = table.find(removed)
    if (slots < 0).any():
        raise CorruptStateError("the join segment removes ids that no earlier segment has")
    table.drop(slots)
    slots = table.find(ids)
    new = np.flatnonzero(slots < 0)
    if new.size:
        slots[new] = table.add([ids[row] for row in new.tolist()])
    table.state[slots] = states
    table.score[slots] = scores
    table.event_us[slots] = event_us
    table.codes[slots] = ABSENT
    table.codes[slots, :keys] = codes
    table.set_units(slots, units)
    table.schedule(slots, due)
    return num_removed + rows


def ids_to_bytes(ids: list[bytes]) -> tuple[bytes, bytes]:
    """Return ids as their lengths and their joined bytes. O(ids)."""
    return bytes(map(len, ids)), b"".join(ids)


def read_ids(reader: Reader, count: int) -> list[bytes]:
    """Return ids that `ids_to_bytes` wrote. Raises CorruptStateError. O(ids)."""
    lengths: npt.NDArray[np.uint8] = reader.column("u1", count)
    joined = reader.blob(int(lengths.sum(dtype=np.int64))).tobytes()
    ends = accumulate(lengths.tolist(), initial=0)
    ids = [joined[start:end] for start, end in pairwise(ends)]
    if len(set(ids)) != count or (count and not lengths.min()):
        raise CorruptStateError("the join segment has an id twice, or one without bytes")
    return ids
