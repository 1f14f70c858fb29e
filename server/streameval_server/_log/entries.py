"""Log entries, and the items and outcomes of the requests that they come from.

A `LogRow` is stored on disk; an `Entry` is the same, decoded, as the engine applies it; an
`Item` is a request on its way into the log, and an `Outcome` its result. Rows keep the
request's own bytes, so a later version can replay fields that this one does not know.
"""

from __future__ import annotations

import enum
import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from streameval_server._model.rows import memory_of

if TYPE_CHECKING:
    from streameval_server._model.alarm_change import AlarmChange
    from streameval_server._model.errors import Refused, RequestError
    from streameval_server._model.mark import MarkChange
    from streameval_server._model.pair_settings import PairCreation, PairDeletion
    from streameval_server._model.rows import Rows
    from streameval_server._model.stream_settings import SettingsUpdate, StreamSettings
    from streameval_server._state.pair_file import PairImport
    from streameval_server._state.stream_file import StreamFile

    PairChange = PairCreation | PairImport | PairDeletion
    """What makes a pair of streams, or deletes it."""

    StreamChange = (
        StreamSettings | SettingsUpdate | StreamFile | AlarmChange | MarkChange | PairChange
    )
    """What creates a stream, updates it, imports it, or changes its alarms, marks or pairs."""


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
    if len(data) > _MAX_HELD_BYTES:
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


@dataclass(slots=True)
class Entry:
    """A log row as the engine applies it.

    Attributes
    ----------
    rows : Rows or None
        The decoded columns of a batch, or states of a merge; None for other
        kinds and for a batch without rows.
    change : StreamChange or None
        The parsed request to create, update or import a stream, to change an alarm or a mark, or
        to make, import or delete a pair; None for other kinds.
    refused : Refused or None
        Why a batch was refused; None for other kinds.
    content : int
        `content_checksum` of a batch; 0 for other kinds.
    memory_bytes : int
        Memory of the rows, an upper bound.
    """

    revision: int
    received_us: int
    kind: int
    stream: str
    producer: str
    epoch: int
    sequence: int
    rows: Rows | None
    change: StreamChange | None = None
    refused: Refused | None = None
    content: int = 0
    memory_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.memory_bytes = memory_of(self.rows)


class Owner(Protocol):
    """The call or session that submitted an item and waits for its outcome."""

    def settle(self, outcome: Outcome) -> None:
        """Receive the outcome of one item; called in the order of submission."""


@dataclass(slots=True)
class Item:
    """A request on its way into the log, validated except for what depends on earlier items.

    Attributes
    ----------
    owner : Owner
        Receives the outcome.
    refused : Refused or None
        Why a batch consumes its sequence without being counted; None for other items.
    rows, change
        As in `Entry`.
    settings : StreamSettings or None
        The stream's settings with which the rows were validated.
    nbytes : int
        Length of the request, which the limit on the queue counts.
    content : int
        `content_checksum` of a batch whose payload is not what arrived, because it was refused
        at once; 0 for all others.
    memory_bytes : int
        Memory of the request and of its rows, an upper bound.
    submitted_s : float
        When it was submitted to the committer, by its monotonic clock.
    revision : int or None
        Its entry's, 0 if it became none; None until its outcome was delivered.
    """

    owner: Owner
    kind: int
    format: int
    stream: str
    producer: str
    epoch: int
    sequence: int
    payload: bytes
    rows: Rows | None = None
    refused: Refused | None = None
    nbytes: int = 0
    change: StreamChange | None = None
    settings: StreamSettings | None = None
    content: int = 0
    memory_bytes: int = field(init=False)
    submitted_s: float = 0.0
    revision: int | None = None

    def __post_init__(self) -> None:
        self.memory_bytes = self.nbytes + memory_of(self.rows)


class Status(enum.IntEnum):
    """The result of an item."""

    DURABLE = 1
    DUPLICATE = 2
    """An earlier item with its sequence is durable; nothing changed."""
    REFUSED = 3
    """Its sequence is durably consumed, by this item or by an earlier one that it repeats."""
    FAILED = 4
    """It ended with an error; after UNAVAILABLE it may or may not be durable."""


@dataclass(slots=True)
class Outcome:
    """The result of an item, with its details.

    Attributes
    ----------
    revision : int
        Log revision that includes it; 0 when it failed.
    received_us : int
        The committer's time of that entry; 0 when it failed or was a duplicate.
    refused : Refused or None
        Set when the status is REFUSED.
    error : RequestError or None
        Set when the status is FAILED.
    """

    item: Item
    status: Status
    revision: int = 0
    received_us: int = 0
    refused: Refused | None = None
    error: RequestError | None = None
