"""The server's report on itself: sizes, times, and warnings for its operator."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

import streameval
from streameval.v1 import admin_pb2, types_pb2
from streameval_server._core.committer import CommitterState
from streameval_server._core.engine_clock import in_days
from streameval_server._log.commit_times import BUCKETS_S
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

_MAX_ACK_WAIT_S = 5.0
"""Seconds that a batch may wait for its acknowledgement before there is a warning."""

_ACK_WAITS = {
    "disk": "the disk does not take what is written",
    "lag": "durable rows are not visible yet, and the most of these wait",
    "memory": "there is no memory for more rows (limits.max_state_bytes)",
    "queue": "earlier batches are being committed",
}
"""What each reason of `Committer.ack_wait` means to an operator."""

_MAX_COMMIT_S = 0.1
"""Seconds that one commit in a hundred may take before there is a warning."""


def server_status(
    runtime: Runtime, limits: Limits, *, address: str, start_us: int, now_us: int
) -> admin_pb2.GetServerStatusResponse:
    """Return the server's status. For query threads, because it reads from the disk."""
    reading = runtime.now()
    committer, applier, engine = runtime.core.committer, runtime.core.applier, runtime.core.engine
    storage = runtime.core.storage
    serving = committer.state is CommitterState.SERVING
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
        state_bytes=committer.memory_bytes,
        max_state_bytes=limits.max_state_bytes,
        grpc_address=address,
        batch_rows=admin_pb2.RowCounts(**committer.batch_rows),
        refused_batches=committer.refused_batches,
        engine_time=_timestamp(max(reading.time_us, committer.received_us)),
        clock_in_doubt=reading.disputed_us is not None,
        expired_early=sum(engine.expired_early.copy().values()),
    )
    if runtime.directory is not None:
        status.disk.CopyFrom(_disk(runtime.directory))
    if isinstance(storage, SqliteStorage):
        times = storage.durations.last()
        if times is not None:
            every = storage.durations.histogram()
            status.commits.CopyFrom(
                admin_pb2.CommitTimes(
                    count=times.count,
                    p50=_duration(times.p50_s),
                    p99=_duration(times.p99_s),
                    max=_duration(times.max_s),
                    histogram=types_pb2.DurationHistogram(
                        upper_bounds_s=BUCKETS_S,
                        counts=every.counts,
                        total=every.total,
                        sum_s=every.sum_s,
                    ),
                )
            )
        if storage.checkpoint_s is not None:
            status.checkpoint_time.CopyFrom(_timestamp(int(storage.checkpoint_s * 1e6)))
    waiting = committer.ack_wait()
    if waiting is not None:
        status.ack_wait.reason = waiting[0]
        status.ack_wait.age.CopyFrom(_duration(waiting[1]))
    if runtime.state_checks is not None:
        status.state_checks = runtime.state_checks.checked
        status.state_problems = len(runtime.state_checks.problems)
    for loss in runtime.core.recovery.history.losses:
        status.losses.append(
            admin_pb2.LogLoss(
                kept_revision=loss.kept_revision,
                acked_revision=loss.acked_revision,
                cause=loss.cause,
                accept_time=_timestamp(loss.accepted_us),
            )
        )
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
    suffixes = ("", "-wal", "-shm", "-acked", "-summaries")
    files = (path.with_name(path.name + suffix) for suffix in suffixes)
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
    waited_s = status.ack_wait.age.ToNanoseconds() / 1e9
    if status.serving and waited_s > _MAX_ACK_WAIT_S:
        yield f"acknowledgements have waited {waited_s:.0f} s: {_ACK_WAITS[status.ack_wait.reason]}"
    yield from _loss_warnings(runtime)
    yield from runtime.early_expiry.warnings()
    clock_warnings = runtime.clock_warnings()
    ahead_us = status.engine_time.ToMicroseconds() - status.time.ToMicroseconds()
    yield from clock_warnings
    if not clock_warnings and ahead_us > limits.max_clock_step_us:
        yield (
            f"the log is {in_days(ahead_us)} ahead of the clock, and nothing expires until then: "
            "stop the server, and mend the log with 'streameval admin repair'"
        )
    disk = status.disk
    if status.HasField("disk") and disk.free_bytes < _MIN_FREE_SHARE * disk.total_bytes:
        yield (
            f"the disk has {disk.free_bytes / disk.total_bytes:.0%} left: make room, or shorten "
            "the log with 'streameval admin compact'"
        )
    if not status.HasField("disk"):
        yield "nothing is kept on disk: all data is lost when the process ends (--memory)"
    marks = runtime.core.committer.marks
    for name, value, limit, what in (
        ("state", status.state_bytes, limits.max_state_bytes, " (limits.max_state_bytes)"),
        ("waiting ids", status.pending, limits.max_pending_total, " (limits.max_pending_total)"),
        ("streams", status.streams, limits.max_streams, " (limits.max_streams)"),
        ("producers", len(marks), limits.max_producers, " (limits.max_producers)"),
        ("queue", status.queued_bytes, limits.max_queue_bytes, ": the disk does not keep up"),
        ("lag", status.lag_rows, limits.max_lag_rows, ": the processor does not keep up"),
    ):
        if limit and value >= _WARN_SHARE * limit:
            yield f"{name}: {value:,} of at most {limit:,}{what}"
    p99_ms = status.commits.p99.ToNanoseconds() / 1e6
    if p99_ms > _MAX_COMMIT_S * 1e3:
        yield f"the disk is slow: 1 of 100 commits takes over {p99_ms:.0f} ms"
    error = runtime.core.recovery.checkpoint_error
    if error is not None:
        yield f"at the start the checkpoint could not be used: {error}; the log replaced it"


def _loss_warnings(runtime: Runtime) -> Iterator[str]:
    for loss in runtime.core.recovery.history.losses:
        yield f"acknowledged rows were lost: {loss}"
    if runtime.accept_loss:
        yield "accept_loss is set: unset it, or the next loss is accepted unseen"
    checks = runtime.state_checks
    for name, problem in {} if checks is None else dict(checks.problems).items():
        yield f"stream {name}: {problem}: back up the log, and start the server again"
    storage = runtime.core.storage
    if isinstance(storage, SqliteStorage) and storage.acked_problem:
        yield f"a loss of the newest rows would not be noticed: {storage.acked_problem}"


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration


def _timestamp(time_us: int) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMicroseconds(time_us)
    return stamp
