"""The interface between the core and a disk, and two implementations in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from streameval_server._log.history import History
from streameval_server._log.rows import LogRow, checksum
from streameval_server._model.errors import CorruptLogError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_MAX_DROP_ROWS = 4
"""Log rows that one `drop` of a `MemoryStorage` deletes, few so that tests see several steps."""

PartKey = tuple[str, int]
"""A part's name, and the revision of the checkpoint that wrote it."""


class PartRow(NamedTuple):
    """A piece of a checkpoint's part, of at most 1 MiB.

    Attributes
    ----------
    part : str
        For instance ``stream/fraud/v3``.
    revision : int
        The revision of the checkpoint that wrote it.
    piece : int
        From 0, in order.
    data : bytes
    """

    part: str
    revision: int
    piece: int
    data: bytes


class Storage(Protocol):
    """A log and its checkpoints. Every method raises StorageError when the disk fails.

    Used by one thread at a time.
    """

    @property
    def can_restore(self) -> bool:
        """Whether what is written can be read again, so that checkpoints are of use."""

    def open(self) -> None:
        """Open, or open again after `close`; only durable content can be read afterwards."""

    def close(self) -> None:
        """Close; never raises, and has no effect when closed."""

    def last_revision(self) -> int:
        """Return the newest row's revision; 0 for an empty log."""

    def checksum_at(self, revision: int) -> int:
        """Return a row's checksum, which the next row continues; 0 for revision 0.

        Raises
        ------
        CorruptLogError
            When the row is missing.
        """

    def history(self) -> History:
        """Return the log's history."""

    def append(self, rows: Sequence[LogRow]) -> None:
        """Write rows durably, all or nothing.

        Raises
        ------
        StorageError
            These rows may or may not be durable: `close` and `open` before anything else.
        """

    def read(self, after: int) -> Iterator[LogRow]:
        """Yield the rows above a revision, oldest first.

        Raises
        ------
        CorruptLogError
            At a row that is missing or not what was written.
        """

    def write_parts(self, rows: Sequence[PartRow]) -> None:
        """Write pieces of a checkpoint that is not current yet, all or nothing."""

    def write_manifest(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Make a checkpoint current, and delete parts that it supersedes."""

    def manifest(self) -> bytes | None:
        """Return the current checkpoint's manifest; None when there is none."""

    def read_parts(self, keys: Sequence[PartKey]) -> list[bytes]:
        """Return parts, the stored pieces of each joined; b"" where there are none."""

    def prune(self, keep: Collection[PartKey]) -> None:
        """Delete all parts but these; an abandoned checkpoint may have left others."""

    def base(self) -> bytes | None:
        """Return the manifest of the log's base; None when the log is whole."""

    def write_base(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Make a checkpoint the log's base, and delete parts that only the old base needs."""

    def drop(self, before: int) -> int:
        """Delete some rows below a revision, oldest first; return how many, 0 if none are left."""


def verified(row: LogRow, expected: int, before: int) -> LogRow:
    """Return a row after checking its revision and its checksum.

    Parameters
    ----------
    row
        As stored.
    expected
        Its revision.
    before
        As in `checksum`.

    Raises
    ------
    CorruptLogError
        When it is not the expected row, or not what was written.
    """
    if row.revision != expected:
        raise CorruptLogError(f"log row {expected} is missing: row {row.revision} follows instead")
    if checksum(row[:8], row.payload, before) != row.crc32:
        raise CorruptLogError(f"log row {expected} is not what was written: its checksum differs")
    return row


class MemoryStorage:
    """`Storage` for tests and simulations; its content survives `close`."""

    can_restore = True

    def __init__(self) -> None:
        self.rows: list[LogRow] = []
        self.parts: dict[PartKey, dict[int, bytes]] = {}
        self._manifest: bytes | None = None
        self._base: bytes | None = None
        self._history = History.begin()

    def open(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def last_revision(self) -> int:
        """Return the newest row's revision."""
        return self.rows[-1].revision if self.rows else 0

    def checksum_at(self, revision: int) -> int:
        """Return a row's checksum."""
        if not revision:
            return 0
        place = revision - self.rows[0].revision if self.rows else -1
        if not 0 <= place < len(self.rows):
            raise CorruptLogError(f"log row {revision} is missing")
        return self.rows[place].crc32

    def history(self) -> History:
        """Return the same history for the life of this object."""
        return self._history

    def append(self, rows: Sequence[LogRow]) -> None:
        """Keep rows."""
        self.rows += rows

    def read(self, after: int) -> Iterator[LogRow]:
        """Yield the rows above a revision."""
        rows = [row for row in self.rows if row.revision > after]
        before = self.checksum_at(after) if rows else 0
        for expected, row in enumerate(rows, after + 1):
            yield verified(row, expected, before)
            before = row.crc32

    def write_parts(self, rows: Sequence[PartRow]) -> None:
        """Keep pieces."""
        for row in rows:
            self.parts.setdefault((row.part, row.revision), {})[row.piece] = row.data

    def write_manifest(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Make a checkpoint current."""
        self._manifest = manifest
        for key in superseded:
            self.parts.pop(key, None)

    def manifest(self) -> bytes | None:
        """Return the current manifest."""
        return self._manifest

    def read_parts(self, keys: Sequence[PartKey]) -> list[bytes]:
        """Return parts, each joined."""
        found = [self.parts.get(key, {}) for key in keys]
        return [b"".join(pieces[piece] for piece in sorted(pieces)) for pieces in found]

    def prune(self, keep: Collection[PartKey]) -> None:
        """Delete all parts but these."""
        for key in [key for key in self.parts if key not in keep]:
            del self.parts[key]

    def base(self) -> bytes | None:
        """Return the base's manifest."""
        return self._base

    def write_base(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Make a checkpoint the base."""
        self._base = manifest
        for key in superseded:
            self.parts.pop(key, None)

    def drop(self, before: int) -> int:
        """Delete a few of the oldest rows."""
        dropped = sum(row.revision < before for row in self.rows[:_MAX_DROP_ROWS])
        del self.rows[:dropped]
        return dropped


class NullStorage:
    """`Storage` that stores nothing: for a server whose state need not outlive it."""

    can_restore = False

    def __init__(self) -> None:
        self._last_revision = self._last_crc32 = 0
        self._history = History.begin()

    def open(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def last_revision(self) -> int:
        """Return the newest row's revision."""
        return self._last_revision

    def checksum_at(self, revision: int) -> int:
        """Return the last row's checksum; raise CorruptLogError for another row."""
        if revision != self._last_revision:
            raise CorruptLogError("nothing is kept of this log")
        return self._last_crc32

    def history(self) -> History:
        """Return this object's history: another process begins another one."""
        return self._history

    def append(self, rows: Sequence[LogRow]) -> None:
        """Remember the last revision and checksum."""
        self._last_revision, self._last_crc32 = rows[-1].revision, rows[-1].crc32

    def read(self, after: int) -> Iterator[LogRow]:
        """Yield nothing; raise CorruptLogError when there were rows."""
        if after < self._last_revision:
            raise CorruptLogError("nothing is kept of this log")
        return iter(())

    def write_parts(self, rows: Sequence[PartRow]) -> None:
        """Do nothing."""

    def write_manifest(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Do nothing."""

    def manifest(self) -> bytes | None:
        """Return None."""
        return None

    def read_parts(self, keys: Sequence[PartKey]) -> list[bytes]:
        """Raise CorruptLogError."""
        part, revision = keys[0]
        raise CorruptLogError(f"part {part} of revision {revision} was not kept")

    def prune(self, keep: Collection[PartKey]) -> None:
        """Do nothing."""

    def base(self) -> bytes | None:
        """Return None."""
        return None

    def write_base(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Do nothing."""

    def drop(self, before: int) -> int:  # noqa: ARG002 - there are no rows
        """Return 0."""
        return 0
