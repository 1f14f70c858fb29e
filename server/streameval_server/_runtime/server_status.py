"""How a server is: what its parts say of themselves, and what to look into."""

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

_NEARLY = 0.9
"""Of a limit: so much is worth a word."""

_LEAST_FREE = 0.1
"""Of a file system: less is worth a word."""

_SLOW_S = 0.1
"""Commits that take longer hold up who waits for them."""


def server_status(
    runtime: Runtime, limits: Limits, *, address: str, start_us: int, now_us: int
) -> admin_pb2.GetServerStatusResponse:
    """Return how the server is. For query threads: looks at the disk."""
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
    """Return what the log takes. Never opens its files: that would end SQLite's locks on them."""
    path = directory / LOG_NAME
    usage = shutil.disk_usage(directory)
    try:
        with closing(connect_read_only(path)) as connection:
            (reusable,) = connection.execute(
                "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
            ).fetchone()
    except sqlite3.Error:
        reusable = 0  # the disk fails, which `problem` says
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
    if status.HasField("disk") and disk.free_bytes < _LEAST_FREE * disk.total_bytes:
        yield (
            f"the disk has {disk.free_bytes / disk.total_bytes:.0%} left: make room, or shorten "
            "the log with 'streameval admin compact'"
        )
    if not status.HasField("disk"):
        yield "nothing is kept on disk: everything goes with the process (--memory)"
    for name, value, most, follows in (
        ("state", status.state_bytes, limits.max_state_bytes, "max_state_bytes"),
        ("waiting ids", status.pending, limits.max_pending_total, "max_pending_total"),
        ("streams", status.streams, limits.max_streams, "max_streams"),
        ("producers", len(runtime.core.committer.marks), limits.max_producers, "max_producers"),
        ("queue", status.queued_bytes, limits.max_queue_bytes, "max_queue_bytes"),
        ("lag", status.lag_rows, limits.max_lag_rows, "max_lag_rows"),
    ):
        if most and value >= _NEARLY * most:
            yield f"{name}: {value:,} of at most {most:,} (limits.{follows})"
    if status.commits.p99_s > _SLOW_S:
        yield f"the disk is slow: 1 of 100 commits takes over {status.commits.p99_s * 1e3:.0f} ms"
    error = runtime.core.recovery.checkpoint_error
    if error is not None:
        yield f"at the start the checkpoint could not be used: {error}; the log replaced it"


def _timestamp(time_us: int) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMicroseconds(time_us)
    return stamp
