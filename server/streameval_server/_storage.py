"""What the core needs from a disk, and a twin that is only memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval_server._entries import LogRow


class PartRow(NamedTuple):
    """A piece of a checkpoint's part, of at most 1 MiB.

    Attributes
    ----------
    part : str
        For instance ``stream/fraud/v3``.
    revision : int
        Of the checkpoint that wrote it.
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

    def open(self) -> None:
        """Open, or open again after `close`: only what is durable is seen afterwards."""

    def close(self) -> None:
        """Close; never raises, and is harmless when closed."""

    def last_revision(self) -> int:
        """Return the newest row's revision; 0 for an empty log."""

    def append(self, rows: Sequence[LogRow]) -> None:
        """Write rows durably, all or nothing.

        Raises
        ------
        StorageError
            The fate of these rows is unknown: `close` and `open` before anything else.
        """

    def read(self, after: int) -> Iterator[LogRow]:
        """Yield the rows above a revision, oldest first.

        Raises
        ------
        CorruptLogError
            At a row that is not what was written, or that is missing.
        """

    def write_parts(self, rows: Sequence[PartRow]) -> None:
        """Write pieces of a checkpoint, all or nothing; not current yet."""

    def write_manifest(self, manifest: bytes) -> None:
        """Make a checkpoint current, and drop the pieces that it does not name."""

    def manifest(self) -> bytes | None:
        """Return the current checkpoint's manifest; None when there is none."""

    def read_part(self, part: str, revision: int) -> bytes:
        """Return a part, joined. CorruptLogError when it is missing."""
