"""The server's report on itself: sizes, times, and warnings for its operator."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp

import streameval
from streameval.v1 import admin_pb2
from streameval_server._core.committer import State
from streameval_server._log.data_directory import LOG_NAME
from streameval_server._log.schema import connect_read_only
from streameval_server._log.sqlite import SqliteStorage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streameval_server._model.limits import Limits
    from streameval_server._runtime.runtime import Runtime

_WARN_SHARE = 0.9
"""Share of a limit from which on a warning names it."""

_MIN_FREE_SHARE = 0.1
"""Share of the file system that should be free; with less there is a warning."""

_MAX_COMMIT_S = 0.1
"""Seconds that one commit in a hundred may take before there is a warning."""


def server_status(
    runtime: Runtime, limits: Limits, *, address: str, start_us: int, now_us: int
) -> admin_pb2.GetServerStatusResponse:
    """Return the server's status. For query threads, because it reads from the disk."""
    committer, applier, engine = runtime.core.committer, runtime.core.applier, runtime.core.engine
    storage = runtime.core.storage
    serving = committer.state is State.SERVING
    status = admin_pb2.GetServerStatusResponse(
        version=streameval.__version__,
        start_time=_timestamp(start_us),
        time=_timestamp(now_us),
        serving=serving,
        problem="" if serving else str(committer.error),
        durable_revision=committer.revision,
        applied_revision=engine.revision,
        checkpoint_revision=committer.checkpoint_revision,
        log_start_revision=committer.log_start,
        lag_rows=applier.lag_rows,
        queued_bytes=committer.queued_bytes,
        open_calls=len(runtime.calls),
        streams=len(committer.catalog),
        pending=engine.kept_ids,
        state_bytes=engine.memory_bytes,
        max_state_bytes=limits.max_state_bytes,
        grpc_address=address,
        batch_rows=admin_pb2.RowCounts(**committer.batch_rows),
        refused_batches=committer.refused_batches,
    )
    if runtime.directory is not None:
        status.disk.CopyFrom(_disk(runtime.directory))
    if isinstance(storage, SqliteStorage):
        times = storage.commit_times()
        if times is not None:
            status.commits.CopyFrom(
                admin_pb2.CommitTimes(
                    count=times.count, p50_s=times.p50_s, p99_s=times.p99_s, max_s=times.max_s
                )
            )
        if storage.checkpoint_s is not None:
            status.checkpoint_time.CopyFrom(_timestamp(int(storage.checkpoint_s * 1e6)))
    status.warnings.extend(_warnings(status, runtime, limits))
    return status


def _disk(directory: Path) -> admin_pb2.Disk:
    """Return the log's disk usage. Never opens its files: closing them drops SQLite's locks."""
    path = directory / LOG_NAME
    usage = shutil.disk_usage(directory)
    try:
        with closing(connect_read_only(path)) as connection:
            (reusable,) = connection.execute(
                "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
            ).fetchone()
    except sqlite3.Error:
        reusable = 0  # the disk fails; `problem` reports that
    files = (path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm"))
    return admin_pb2.Disk(
        directory=str(directory),
        used_bytes=sum(file.stat().st_size for file in files if file.exists()),
        reusable_bytes=reusable,
        free_bytes=usage.free,
        total_bytes=usage.total,
    )


def _warnings(
    status: admin_pb2.GetServerStatusResponse, runtime: Runtime, limits: Limits
) -> Iterator[str]:
    if not status.serving:
        yield f"commits fail, nothing is acknowledged: {status.problem}"
    disk = status.disk
    if status.HasField("disk") and disk.free_bytes < _MIN_FREE_SHARE * disk.total_bytes:
        yield (
            f"the disk has {disk.free_bytes / disk.total_bytes:.0%} left: make room, or shorten "
            "the log with 'streameval admin compact'"
        )
    if not status.HasField("disk"):
        yield "nothing is kept on disk: all data is lost when the process ends (--memory)"
    for name, value, limit, setting in (
        ("state", status.state_bytes, limits.max_state_bytes, "max_state_bytes"),
        ("waiting ids", status.pending, limits.max_pending_total, "max_pending_total"),
        ("streams", status.streams, limits.max_streams, "max_streams"),
        ("producers", len(runtime.core.committer.marks), limits.max_producers, "max_producers"),
        ("queue", status.queued_bytes, limits.max_queue_bytes, "max_queue_bytes"),
        ("lag", status.lag_rows, limits.max_lag_rows, "max_lag_rows"),
    ):
        if limit and value >= _WARN_SHARE * limit:
            yield f"{name}: {value:,} of at most {limit:,} (limits.{setting})"
    if status.commits.p99_s > _MAX_COMMIT_S:
        yield f"the disk is slow: 1 of 100 commits takes over {status.commits.p99_s * 1e3:.0f} ms"
    error = runtime.core.recovery.checkpoint_error
    if error is not None:
        yield f"at the start the checkpoint could not be used: {error}; the log replaced it"


def _timestamp(time_us: int) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMicroseconds(time_us)
    return stamp
