"""Mends a log whose rows were received with times ahead of the true ones.

A clock that was a year ahead expired every id and dropped every pane, and the log's time, which
never decreases, stood still from then on. The rows are all there. A mended row is received at
the latest of its own event times that can be right, or at the time of the row before it if it has
none. A time cannot be right that is later than the present, or than the first wrong time: it is
from the wrong clock, and becomes the mended time too. Applying the mended rows gives the state
without the accident.

The result is another directory: the log as it was stays as evidence, and as the way back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval.v1 import ingest_pb2
from streameval_server._core.recovery import open_core
from streameval_server._log.checkpoint import pieces, read_base
from streameval_server._log.data_directory import LOG_NAME, DirectoryLock, log_of
from streameval_server._log.rows import MENDED, STREAMED, Format, Kind, LogRow, checksum
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import StorageError
from streameval_server.maintenance.backups import check_empty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streameval_server._log.checkpoint import Manifest
    from streameval_server._log.storage import Storage
    from streameval_server._model.arrays import IntArray
    from streameval_server._model.limits import Limits

_ROWS_PER_COMMIT = 256

_COLUMNS = ("cases", "predictions", "labels")
"""The kinds of rows with a column of event times."""


@dataclass(frozen=True, slots=True)
class RepairedLog:
    """A log that was mended.

    Attributes
    ----------
    first, last : int
        The revisions of the first and the last mended row.
    moved_us : int
        By how much the row that was furthest ahead was moved back.
    revision : int
        The last revision of the log, as before.
    state_hash : str
        The hash of the state that the mended log gives.
    """

    first: int
    last: int
    moved_us: int
    revision: int
    state_hash: str


def repair(
    directory: Path,
    target: Path,
    limits: Limits,
    *,
    now_us: int,
    first: int | None = None,
    last: int | None = None,
) -> RepairedLog:
    """Write a mended copy of a directory's log to a new directory. O(bytes).

    Parameters
    ----------
    directory
        The data directory of a stopped server; its log is only read.
    target
        Created when it does not exist; must be empty when it does.
    limits
        The server's.
    now_us
        The present, by a clock that is right.
    first, last
        The revisions of the first and the last row with a wrong time. By default, the first
        row that was received later than the present, and the end of the log.

    Raises
    ------
    DataDirectoryInUseError
        While a server runs on the directory.
    StorageError
        When there is nothing to mend, the log was compacted since, or the target is not empty.
    CorruptLogError
        When the log is not what was written, or has lost acknowledged rows.
    """
    path = log_of(directory)
    check_empty(target)
    lock = DirectoryLock(directory)
    try:
        source = SqliteStorage(path, read_only=True)
        source.open()
        try:
            source.refuse_loss()
            return _repair(source, target, limits, now_us=now_us, first=first, last=last)
        finally:
            source.close()
    finally:
        lock.release()


def _repair(
    source: Storage,
    target: Path,
    limits: Limits,
    *,
    now_us: int,
    first: int | None,
    last: int | None,
) -> RepairedLog:
    mending = _Mending.plan(source, limits, now_us=now_us, first=first, last=last)
    lock = DirectoryLock(target)
    try:
        storage = SqliteStorage(target / LOG_NAME)
        storage.open()
        try:
            mending.copy_base(source, storage)
            chunk: list[LogRow] = []
            for row in mending.rows(source):
                chunk.append(row)
                if len(chunk) == _ROWS_PER_COMMIT:
                    storage.append(chunk)
                    chunk = []
            if chunk:
                storage.append(chunk)
        finally:
            storage.close()
        core = open_core(storage, limits)
        digest = core.engine.state_hash()
        core.drain(core.engine.received_us)
    finally:
        lock.release()
    return RepairedLog(
        mending.first, mending.last, mending.moved_us, core.recovery.revision, digest
    )


class _Mending:
    """Which rows are mended, and how.

    Attributes
    ----------
    first, last : int
        Revisions of the first and the last row with a wrong time.
    moved_us : int
        The largest distance by which a row was moved back so far.
    """

    def __init__(
        self, first: LogRow, last: int, hold: int, latest_us: int, base: Manifest | None
    ) -> None:
        self.first = first.revision
        self.last = last
        self.moved_us = 0
        # The entry that began a hold which lasts until `first`; 0 without one. The clock was in
        # doubt because of what is mended.
        self._hold = hold
        # The latest time that can be right.
        self._latest_us = latest_us
        self._base = base

    @classmethod
    def plan(
        cls, source: Storage, limits: Limits, *, now_us: int, first: int | None, last: int | None
    ) -> _Mending:
        """Find the rows with a wrong time."""
        base = read_base(source)
        start = 0 if base is None else base.revision
        step_us = limits.max_clock_step_us
        if base is not None and base.received_us > now_us + step_us:
            raise StorageError(
                f"the log was compacted at revision {start}, when its time was ahead already: "
                "what expired before cannot be had back. Use a backup from before"
            )
        end = source.last_revision()
        hold = 0
        for row in source.read(start):
            if row.revision == first or (first is None and row.received_us > now_us + step_us):
                # Rows are dated a little before they are received.
                latest_us = min(now_us, row.received_us - step_us)
                return cls(row, end if last is None else last, hold, latest_us, base)
            if row.kind == Kind.HOLD and not hold:
                hold = row.revision
            elif row.kind == Kind.RELEASE:
                hold = 0
        if first is not None:
            raise StorageError(f"the log has revisions {start + 1} to {end}, and no row {first}")
        raise StorageError(
            "no row of the log is later than the clock of this machine: if a clock was ahead that "
            "has passed since, name the first row with a wrong time by --first"
        )

    def copy_base(self, source: Storage, target: Storage) -> None:
        """Copy the checkpoint at which the log begins, if it was compacted."""
        base = self._base
        if base is None:
            return
        for part, data in base.read(source).items():
            for row in pieces(part, base.parts[part].revision, data):
                target.write_parts([row])
        target.write_base(base.to_bytes(), [])
        # Readers use only the revision and checksum of the row at the base's own revision: how far
        # the log has come, and the checksum that the next row's is computed on from.
        crc32 = source.checksum_at(base.revision)
        target.append(
            [
                LogRow(
                    base.revision,
                    base.received_us,
                    Kind.TICK,
                    Format.BY_KIND,
                    "",
                    "",
                    0,
                    0,
                    crc32,
                    b"",
                )
            ]
        )

    def rows(self, source: Storage) -> Iterator[LogRow]:
        """Yield all rows after the base, mended."""
        start, before_us = (
            (0, 0) if self._base is None else (self._base.revision, self._base.received_us)
        )
        crc32 = source.checksum_at(start)
        for row in source.read(start):
            is_wrong = self.first <= row.revision <= self.last
            mended = row
            if is_wrong:
                mended = self._mended(row, before_us)
                self.moved_us = max(self.moved_us, row.received_us - mended.received_us)
            if row.revision == self._hold or (is_wrong and row.kind in (Kind.HOLD, Kind.RELEASE)):
                mended = mended._replace(kind=int(Kind.TICK))
            before_us = mended.received_us
            crc32 = checksum(mended[:8], mended.payload, crc32)
            yield mended._replace(crc32=crc32)

    def _mended(self, row: LogRow, before_us: int) -> LogRow:
        """Return a row with the time at which it was received, as far as it tells."""
        if row.kind != Kind.BATCH:
            return row._replace(received_us=before_us)
        format_ = MENDED.get(Format(row.format), row.format)
        message: ingest_pb2.IngestRequest | ingest_pb2.IngestBatchRequest
        if format_ in STREAMED:
            message = ingest_pb2.IngestRequest.FromString(row.payload)
        else:
            message = ingest_pb2.IngestBatchRequest.FromString(row.payload)
        times = _times(message.batch)
        known = times[times <= self._latest_us]
        latest_us = int(known.max(initial=before_us))
        received_us = max(before_us, min(latest_us, row.received_us))
        if known.size == times.size:
            return row._replace(received_us=received_us)
        _set_times(message.batch, np.where(times > self._latest_us, received_us, times))
        payload = message.SerializeToString()
        return row._replace(received_us=received_us, format=int(format_), payload=payload)


def _times(batch: ingest_pb2.Batch) -> IntArray:
    """Return a batch's event times; none when it has none."""
    kind = batch.WhichOneof("rows")
    if kind in _COLUMNS:
        return np.array(getattr(batch, kind).event_times_us, dtype=np.int64)
    if kind == "misses" and batch.misses.event_time_us:
        return np.array([batch.misses.event_time_us], dtype=np.int64)
    return np.empty(0, dtype=np.int64)


def _set_times(batch: ingest_pb2.Batch, times: IntArray) -> None:
    kind = batch.WhichOneof("rows")
    if kind == "misses":
        batch.misses.event_time_us = int(times[0])
    else:
        getattr(batch, str(kind)).event_times_us[:] = times.tolist()
