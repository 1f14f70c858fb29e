"""The log and its checkpoints in SQLite: one file, one transaction per group commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streameval_server._entries import LogRow
    from streameval_server._storage import PartRow


class SqliteStorage:
    """`Storage` in a file: WAL, ``synchronous=FULL``.

    May be opened in one thread and used in another, by one at a time.

    Parameters
    ----------
    path
        The database file; made when it does not exist, in a directory that does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self) -> None:
        """Open the file, and make durable whatever of it is visible."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file."""
        raise NotImplementedError

    def last_revision(self) -> int:
        """Return the newest row's revision; 0 for an empty log."""
        raise NotImplementedError

    def append(self, rows: Sequence[LogRow]) -> None:
        """Write rows in one transaction."""
        raise NotImplementedError

    def read(self, after: int) -> Iterator[LogRow]:
        """Yield the rows above a revision, oldest first, each one verified."""
        raise NotImplementedError

    def write_parts(self, rows: Sequence[PartRow]) -> None:
        """Write pieces of a checkpoint."""
        raise NotImplementedError

    def write_manifest(self, manifest: bytes) -> None:
        """Make a checkpoint current."""
        raise NotImplementedError

    def manifest(self) -> bytes | None:
        """Return the current manifest."""
        raise NotImplementedError

    def read_part(self, part: str, revision: int) -> bytes:
        """Return a part, joined."""
        raise NotImplementedError
