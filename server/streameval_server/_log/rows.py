"""The rows of the log: their columns, the numbers in them, and their checksums.

Rows keep the request's own bytes, so a later version can replay fields that this one does
not know.
"""

from __future__ import annotations

import enum
import struct
import zlib
from typing import NamedTuple


class Kind(enum.IntEnum):
    """What an entry does. Numbers are never reused."""

    BATCH = 1
    """Counts a batch's rows, in a stream that is created if need be."""
    REFUSED = 2
    """Consumes the sequence of a refused batch."""
    CREATE_STREAM = 3
    DELETE_STREAM = 4
    UPDATE_STREAM = 5
    """Changes a stream's settings."""
    TICK = 6
    """Moves the log's time forward: what is due by then happens."""
    MERGE = 7
    """Adds counts that were aggregated elsewhere."""
    IMPORT_STREAM = 8
    """Creates a stream from an exported one."""
    HOLD = 9
    """The clock is in doubt: from here on nothing falls due (`log_time`)."""
    RELEASE = 10
    """The clock is trusted again: what is due by this entry's time happens."""
    OPEN = 11
    """Starts an epoch of a producer: lower epochs are fenced from here on."""
    CHANGE_ALARM = 12
    """Acknowledges an alarm, or takes it as delivered."""
    CREATE_PAIR = 13
    """Makes a pair of its stream, a, and another."""
    DELETE_PAIR = 14
    IMPORT_PAIR = 15
    """Makes a pair of its stream, a, and another from an exported one."""
    CHANGE_MARKS = 20
    """Makes an annotation of its stream's time, or deletes one."""
    CHANGE_VERDICT = 21
    """Accepts what its stream is now as normal, or takes a quality as told."""


REPEATABLE = frozenset(
    {
        Kind.CREATE_STREAM,
        Kind.UPDATE_STREAM,
        Kind.DELETE_STREAM,
        Kind.CREATE_PAIR,
        Kind.DELETE_PAIR,
    }
)
"""Requests that a request id protects: their epoch tells them apart and does not count up."""


PAIR_KINDS = frozenset({Kind.CREATE_PAIR, Kind.DELETE_PAIR, Kind.IMPORT_PAIR})
"""Entries that change a pair, and leave the counts of its streams as they are."""

IMPORTS = frozenset({Kind.IMPORT_STREAM, Kind.IMPORT_PAIR})


class Format(enum.IntEnum):
    """How a row's payload is written."""

    BY_KIND = 0
    """As the kind says: the request that `replay` reads for it, or nothing."""
    INGEST_REQUEST = 1
    """A streameval.v1.IngestRequest whose message is a batch."""
    INGEST_BATCH_REQUEST = 2
    """A streameval.v1.IngestBatchRequest."""
    MENDED_INGEST_REQUEST = 3
    """As INGEST_REQUEST, with times that `maintenance.repair` changed: its content is not compared
    with what the producer sends again."""
    MENDED_INGEST_BATCH_REQUEST = 4
    """As INGEST_BATCH_REQUEST, in the same way."""


STREAMED = frozenset({Format.INGEST_REQUEST, Format.MENDED_INGEST_REQUEST})
"""The formats of batches that are IngestRequests; the others are IngestBatchRequests."""

MENDED = {
    Format.INGEST_REQUEST: Format.MENDED_INGEST_REQUEST,
    Format.INGEST_BATCH_REQUEST: Format.MENDED_INGEST_BATCH_REQUEST,
}
"""The format of a batch whose times were changed, by that in which it arrived."""


class LogRow(NamedTuple):
    """A row of the log, in the order of its columns.

    Attributes
    ----------
    revision : int
        From 1, without gaps.
    received_us : int
        The engine's time (`_core.engine_clock`) in microseconds since 1970, never decreasing.
    kind, format : int
        A `Kind` and a `Format`.
    stream : str
        The stream's name; empty for an entry without one.
    producer : str
        Empty for a request that is not protected from duplication.
    epoch, sequence : int
        0 without a producer.
    crc32 : int
        `checksum` of all other columns and of the row before.
    payload : bytes
        The request's own bytes.
    """

    revision: int
    received_us: int
    kind: int
    format: int
    stream: str
    producer: str
    epoch: int
    sequence: int
    crc32: int
    payload: bytes


_HEAD = struct.Struct("<qqBBqqHI")


RowHead = tuple[int, int, int, int, str, str, int, int]
"""The first eight columns of a `LogRow`."""


_MAX_HELD_BYTES = 1 << 16
_PIECE_BYTES = 5 << 10


def crc32(data: bytes | memoryview, before: int = 0) -> int:
    """Return zlib's CRC-32 of data, of at most 64 KiB without releasing the interpreter's lock.

    zlib releases it above 5 KiB. A busy server's thread then waits for it longer than the
    checksum takes.
    """
    if not _PIECE_BYTES < len(data) <= _MAX_HELD_BYTES:
        return zlib.crc32(data, before)
    pieces = memoryview(data)
    for at in range(0, len(data), _PIECE_BYTES):
        before = zlib.crc32(pieces[at : at + _PIECE_BYTES], before)
    return before


def checksum(head: RowHead, payload: bytes, before: int) -> int:
    """Return a row's CRC-32, computed over all its columns, starting from the previous row's.

    So an intact row is detected when it stands behind another history, as in etcd's log.

    Parameters
    ----------
    head, payload
        The row's columns.
    before
        The checksum of the row before; 0 before the first row.
    """
    revision, received_us, kind, format_, stream, producer, epoch, sequence = head
    name = stream.encode()
    fixed = _HEAD.pack(
        revision, received_us, kind, format_, epoch, sequence, len(name), len(payload)
    )
    return crc32(payload, zlib.crc32(fixed + name + producer.encode(), before))
