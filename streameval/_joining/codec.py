"""Joiners as bytes: the ids that are kept, in the order of their bytes.

Layout, little-endian: settings, now, number of segment keys, number of ids, counters;
then columns: lengths of ids (u1), ids without separators, states (u1), scores (f8),
event times (i8), due buckets (u4), segment codes (u2). Rows are in order of their
ids, so equal joiners have equal bytes whatever slots their ids are in. Where a label has a
weight other than 1, a flag says that the weights in units of 2**-16 (i8) come behind these. With
clusters, which have a flag too, each row has one more code before the segments': its group.
"""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.frame import Frame, raise_corrupt
from streameval._common.names import MAX_ID_BYTES
from streameval._joining.joiner import Joiner
from streameval._joining.rules import (
    EARLY_NEGATIVE,
    JoinSettings,
)
from streameval._time.times import MAX_TIME_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.frame import Reader
    from streameval._joining.expiry_index import SlotArray
    from streameval._joining.table import JoinTable

HAS_WEIGHTS, HAS_CLUSTERS = 1, 2
FRAME = Frame(b"SVEJ", 1, "a joiner", flags=HAS_WEIGHTS | HAS_CLUSTERS)
_HEADER = struct.Struct(f"<qqqBBqHq{len(Joiner.COUNTERS)}q")


def encode_joiner(joiner: Joiner) -> bytes:
    """Return the joiner's content as bytes. O(n log n)."""
    settings = joiner.settings
    header = _HEADER.pack(
        settings.ttl_us,
        settings.relabel_ttl_us,
        settings.max_pending,
        settings.orphans == "miss",
        settings.expired == "negative",
        joiner.now_us,
        joiner.keys,
        len(joiner),
        *joiner.tally[: len(Joiner.COUNTERS)].tolist(),
    )
    slots = joiner.table.slots_by_id()
    columns = _columns(joiner.table, slots)
    units = joiner.table.held_units(slots)
    flags = HAS_CLUSTERS if joiner.has_clusters else 0
    if units is not None:
        flags |= HAS_WEIGHTS
        columns.append(units.astype("<i8").tobytes())
    return FRAME.sealed(header, *columns, flags=flags)


def decode_joiner(data: bytes | bytearray | memoryview, keys: int = 0) -> Joiner:
    """Return the joiner that `encode_joiner` wrote. O(n).

    Parameters
    ----------
    data
        The bytes.
    keys
        The expected number of segment keys. Each takes memory for the table's whole
        capacity, so another number is refused before there is a table.

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    reader = FRAME.reader(data)
    has_units, has_clusters = bool(reader.flags & HAS_WEIGHTS), bool(reader.flags & HAS_CLUSTERS)
    ttl_us, relabel_us, most, misses, negatives, now_us, stored_keys, count, *tally = reader.fields(
        _HEADER
    )
    if not {misses, negatives} <= {0, 1} or min(tally) < 0 or not 0 <= now_us <= MAX_TIME_US:
        raise_corrupt("the joiner has unknown settings")
    try:
        settings = JoinSettings(
            ttl_us,
            relabel_us,
            most,
            orphans="miss" if misses else "drop",
            expired="negative" if negatives else "drop",
        )
    except InvalidInputError as error:
        raise_corrupt(f"the joiner has unknown settings: {error}")
    if stored_keys != keys:
        raise_corrupt(f"the joiner has {stored_keys} segment keys, not {keys}")
    if not 0 <= count <= most:
        raise_corrupt(f"the joiner announces {count} ids of at most {most}")
    if has_clusters and (misses or has_units):
        raise_corrupt("the joiner has clusters, and weights or labels that have none")
    joiner = Joiner(settings, keys, has_clusters=has_clusters)
    joiner.now_us = now_us
    joiner.tally[: len(Joiner.COUNTERS)] = tally
    if count:
        _read_rows(joiner, reader, count)
    if has_units:
        slots = joiner.table.slots_by_id()
        units = reader.column("<i8", count).astype(np.int64)
        joiner.check_stored(joiner.table.state[slots], units)
        joiner.table.set_units(slots, units)
        if joiner.table.held_units(slots) is None:
            raise_corrupt("the joiner has the flag of weights, and none")
    reader.end()
    return joiner


def _columns(table: JoinTable, slots: SlotArray) -> list[bytes]:
    return [
        *table.encoded_ids(slots),
        table.state[slots].tobytes(),
        table.score[slots].astype("<f8").tobytes(),
        table.event_us[slots].astype("<i8").tobytes(),
        table.due[slots].astype("<u4").tobytes(),
        table.codes[slots].astype("<u2").tobytes(),
    ]


def _read_rows(joiner: Joiner, reader: Reader, count: int) -> None:
    lengths = reader.column("u1", count)
    ids = _split(reader.blob(int(lengths.sum(dtype=np.int64))).tobytes(), lengths.tolist())
    states = reader.column("u1", count)
    scores = reader.column("<f8", count)
    event_us = reader.column("<i8", count)
    due = reader.column("<u4", count)
    width = joiner.table.codes.shape[1]
    codes = reader.column("<u2", count * width).reshape(count, width)
    if lengths.min() < 1 or lengths.max() > MAX_ID_BYTES or any(a >= b for a, b in pairwise(ids)):
        raise_corrupt("the joiner's ids are not ascending, or of unknown length")
    early = states >= EARLY_NEGATIVE
    joiner.check_stored(states)
    if not np.array_equal(early, np.isnan(scores)):
        raise_corrupt("the joiner has ids in unknown states")
    if np.isinf(scores).any() or event_us.min() < 0 or event_us.max() > MAX_TIME_US:
        raise_corrupt("the joiner has scores or times out of range")
    if (
        due.max() > joiner.table.LAST_BUCKET
        or due.min() < joiner.now_us // joiner.settings.bucket_us
    ):
        raise_corrupt("the joiner has ids that were due before")
    table = joiner.table
    slots = table.add(ids)
    table.state[slots] = states
    table.score[slots] = scores
    table.event_us[slots] = event_us
    table.codes[slots] = codes
    table.schedule(slots, due.astype(np.uint32))


def _split(joined: bytes, lengths: Sequence[int]) -> list[bytes]:
    ends = accumulate(lengths, initial=0)
    return [joined[start:end] for start, end in pairwise(ends)]
