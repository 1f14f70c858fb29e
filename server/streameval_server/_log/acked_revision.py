"""How far the log was acknowledged, in a separate file next to the log.

A log that lost its end reads like a log that never had it. This file tells the difference: it
holds a revision that was durable, and the checksum of that row, which depends on all rows
before it.

The file may lag behind the log and must never be ahead of it. A revision is written after its
commit was synced, by a thread of its own, so it delays no commit: at most every 20 ms, synced at
most every second and when the log is closed. What a crash leaves is therefore an older revision
or none: less is claimed than was acknowledged, never more. Two slots are written in turn, so a
write that a power cut tears leaves the other slot as it was.
"""

from __future__ import annotations

import logging
import os
import struct
import time
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from streameval.checks import read_file
from streameval_server._model.errors import StorageError
from streameval_server._model.threads import BackgroundThread

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)

_MIN_WRITE_PAUSE_S = 0.02
_MIN_SYNC_PAUSE_S = 1.0
_SLOT_BYTES = 4_096
"""Each slot is in a block of its own."""
_SLOT = struct.Struct("<8sQqI")
_CRC = struct.Struct("<I")
_MAGIC = b"SeAcked1"


class AckedRevision(NamedTuple):
    """A row that was acknowledged: its revision and its checksum."""

    revision: int
    crc32: int


class AckedRevisionFile:
    """The file of one log. `record` is for the thread that commits.

    Parameters
    ----------
    database
        The log's path; the file's name is that name with ``-acked`` behind it.

    Attributes
    ----------
    problem : str
        Why the last write failed; empty when it did not.
    """

    def __init__(self, database: Path) -> None:
        self.problem = ""
        self._path = database.with_name(f"{database.name}-acked")
        self._thread = BackgroundThread("acked revision", self._work)
        self._latest: AckedRevision | None = None
        self._written: AckedRevision | None = None
        self._count = 0
        self._fd: int | None = None

    def read(self) -> AckedRevision | None:
        """Return what is written; None without a file, or without a whole slot in it. O(1).

        Raises
        ------
        StorageError
            When the file cannot be read.
        """
        try:
            data = read_file(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self._path}: {error.strerror}") from error
        slots = [_decoded(data[at : at + _SLOT_BYTES]) for at in (0, _SLOT_BYTES)]
        newest = max((slot for slot in slots if slot is not None), default=None)
        if newest is None:
            return None
        self._count = max(self._count, newest[0])
        return newest[1]

    def record(self, revision: int, crc32: int) -> None:
        """Have a row written that is durable. O(1)."""
        self._latest = AckedRevision(revision, crc32)
        self._thread.ring()

    def write(self, acked: AckedRevision) -> None:
        """Write a row and sync it, in the calling thread, while the other one does not run.

        Raises
        ------
        StorageError
            When it cannot be written.
        """
        try:
            self._put(acked)
            os.fsync(self._opened())
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Write and sync what was recorded last, and end the thread."""
        self._thread.close()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _work(self) -> None:
        last_sync_s = time.monotonic()
        is_synced = True
        while True:
            rang = self._thread.bell.wait(None if is_synced else _MIN_SYNC_PAUSE_S)
            closing = self._thread.closing
            now_s = time.monotonic()
            try:
                latest = self._latest
                if rang:
                    self._leave_removed()
                if rang and latest is not None and latest != self._written:
                    self._put(latest)
                    is_synced = False
                if not is_synced and (closing or now_s - last_sync_s >= _MIN_SYNC_PAUSE_S):
                    os.fsync(self._opened())
                    is_synced, last_sync_s = True, now_s
                self.problem = ""
            except OSError as error:
                self._report(error)
            if closing:
                return
            time.sleep(_MIN_WRITE_PAUSE_S)

    def _leave_removed(self) -> None:
        """Close a file that is no longer at its path, so that a new one is written. O(1)."""
        if self._fd is None:
            return
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._fd), self._path.stat()):
                return
        _log.warning("%s was removed or replaced: it is written again", self._path)
        os.close(self._fd)
        self._fd = self._written = None

    def _report(self, error: OSError) -> None:
        """Keep and log a failure: the rows are durable, so commits go on without this file."""
        problem = f"cannot write {self._path}: {error.strerror}"
        if problem != self.problem:
            _log.warning("%s: a loss of the newest rows would not be noticed", problem)
        self.problem = problem

    def _put(self, acked: AckedRevision) -> None:
        fd = self._opened()
        self._count += 1
        body = _SLOT.pack(_MAGIC, self._count, *acked)
        os.lseek(fd, self._count % 2 * _SLOT_BYTES, os.SEEK_SET)
        os.write(fd, body + _CRC.pack(zlib.crc32(body)))
        self._written = acked

    def _opened(self) -> int:
        if self._fd is None:
            self.read()  # sets `_count` to the file's, so that the next slot has a higher one
            self._fd = os.open(
                self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600
            )
        return self._fd


def _decoded(slot: bytes) -> tuple[int, AckedRevision] | None:
    """Return a slot's count and content; None when it is not whole."""
    body, crc32 = slot[: _SLOT.size], slot[_SLOT.size : _SLOT.size + _CRC.size]
    if len(crc32) < _CRC.size or _CRC.unpack(crc32)[0] != zlib.crc32(body):
        return None
    magic, count, revision, row_crc32 = _SLOT.unpack(body)
    return (count, AckedRevision(revision, row_crc32)) if magic == _MAGIC else None
