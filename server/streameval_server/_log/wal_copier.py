"""Copies SQLite's write-ahead log into the database between commits, in a thread of its own.

By default SQLite copies within the commit that finds 1,000 pages in the write-ahead log:
that commit, and every ack behind it, waits until all of them are written and synced.
Here a thread copies them on its own connection, after each `WAL_COPY_BYTES` of rows,
while commits continue.

Pages that are committed during a copy are left for the next one, so under load the
write-ahead log would never be empty, never restart at its beginning, and grow without
bound. When it has `MAX_WAL_PAGES`, the next commit copies the few remaining pages itself
and restarts it. Durability does not depend on a copy: the write-ahead log is synced at
each commit and SQLite reads from it.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from streameval_server._model.threads import BackgroundThread

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)

WAL_COPY_BYTES = 1 << 20
"""Bytes of rows after which a copy is due; syncing a larger copy would delay the commits' syncs."""

MAX_WAL_PAGES = 1_024
"""Pages of the write-ahead log (8 MiB in a new file) from which a commit copies the rest and
restarts it. Pages that are overwritten need no new blocks from the file system, which makes
their syncs fast."""


class WalCopier:
    """The copying thread. All methods are for the thread that commits.

    Parameters
    ----------
    path
        The database, which is in WAL mode.
    max_wal_pages
        As `MAX_WAL_PAGES`.
    """

    def __init__(self, path: Path, max_wal_pages: int = MAX_WAL_PAGES) -> None:
        self._path = path
        self._max_wal_pages = max_wal_pages
        self._thread = BackgroundThread("wal copier", self._work)

    def request(self) -> None:
        """Make the thread copy; start it at the first request. O(1)."""
        self._thread.ring()

    def close(self) -> None:
        """Wait for the copy in progress, if there is one, and end the thread."""
        self._thread.close()

    def _work(self) -> None:
        skip_next = False
        while True:
            self._thread.bell.wait()
            if self._thread.closing:
                return
            if skip_next:
                # A commit cannot restart the log while a copy runs: leave it one turn.
                skip_next = False
                continue
            try:
                skip_next = self._copy() >= self._max_wal_pages
            except (sqlite3.Error, MemoryError) as error:
                # If the disk is broken, a commit will fail soon and be handled there; if
                # memory is short, there may be enough for the next copy.
                _log.warning("cannot copy the write-ahead log into %s: %s", self._path, error)

    def _copy(self) -> int:
        """Copy what no reader needs in the write-ahead log; return its length in pages."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return int(pages)
