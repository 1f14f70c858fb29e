"""Copies SQLite's write-ahead log into the database beside the commits, not within them.

Left to itself, SQLite does so in the commit that finds the log 1,000 pages long:
that commit, and every ack behind it, waits until a thousand pages are written and
synced. Here a thread does it on a connection of its own, each time that so much was
written; commits go on meanwhile. What came during a copy is left for the next, so
under load the log would never be empty and never begin anew: that is left to a
commit that finds it much longer, and then has little to copy. Nothing depends on a
copy for its safety: what is in the write-ahead log is synced, and read from there.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

from streameval_server._model.threads import Doorbell

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)

_COPY_BYTES = 1 << 20
"""A copy is due after about this many bytes: with more, its sync holds up those of commits."""

_MOST_PAGES = 1_024
"""A commit that finds so many pages (8 MiB in a new file) copies what is left, to begin
anew: pages that are written again need no room from the file system, which makes syncs quick."""


class WalCopier:
    """Copies when much was written. All methods belong to the thread that commits.

    Parameters
    ----------
    path
        The database, which is in WAL mode.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bell = Doorbell()
        self._closing = False
        self._written = 0
        self._thread: threading.Thread | None = None

    def take_over(self, connection: sqlite3.Connection) -> None:
        """Let the connection that commits copy only when the log has become long."""
        connection.execute(f"PRAGMA wal_autocheckpoint = {_MOST_PAGES}")

    def wrote(self, nbytes: int) -> None:
        """Note that so much was committed; start a copy when it is due. O(1)."""
        self._written += nbytes
        if self._written < _COPY_BYTES:
            return
        self._written = 0
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="wal copier", daemon=True)
            self._thread.start()
        self._bell.ring()

    def close(self) -> None:
        """Finish the copy in progress, if there is one, and close its connection."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._closing = True
            self._bell.ring()
            thread.join()
            self._closing = False

    def _work(self) -> None:
        is_commits_turn = False
        while True:
            self._bell.wait()
            if self._closing:
                return
            if is_commits_turn:
                # Beside a copy it could do nothing, and the log would grow without end.
                is_commits_turn = False
                continue
            try:
                is_commits_turn = self._copy() >= _MOST_PAGES
            except sqlite3.Error as error:
                # A disk that cannot take this soon fails a commit, which is where it matters.
                _log.warning("cannot copy the write-ahead log into %s: %s", self._path, error)

    def _copy(self) -> int:
        """Copy what is there, and return the log's length in pages."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return int(pages)
