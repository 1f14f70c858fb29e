"""What ``streameval serve`` does, and ``streameval admin`` without a server.

The command line declares the names, the options and the help, imports this module when one of
these commands is called, and prints what the functions return. Each takes the settings as a
server does, from the variables STREAMEVAL_... and from the file ``config``, and from ``data`` in
place of their data directory; `SettingsError` and `StreamEvalError` say what is wrong.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import streameval_server
from streameval import StreamEvalError
from streameval_server import configure, create_token

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from streameval.v1 import query_pb2, types_pb2
    from streameval_server import Limits
    from streameval_server.maintenance import Backup, CompactedLog, RepairedLog, Verification

__all__ = [
    "backup",
    "compact",
    "create_token",
    "log_path",
    "repair",
    "replay",
    "restore",
    "sample",
    "serve",
    "state_hash",
    "verify",
]


def serve(flags: Mapping[str, object], config: Path | None, *, only_print: bool) -> None:
    """Run a server until it is stopped, or print its settings with their sources."""
    configuration = configure(flags, config=config)
    if only_print:
        print(configuration.to_text(sys.stdout.encoding))
    else:
        streameval_server.run(configuration.settings)


def state_hash(data: Path | None, config: Path | None, until: int | None) -> tuple[int, str]:
    """Return the revision and the hash of a directory's state."""
    directory, limits = _directory(data, config)
    return streameval_server.maintenance.state_hash(directory, until, limits)


def log_path(file: Path | None, data: Path | None, config: Path | None) -> Path:
    """Return the log to verify: a backup, or the log in the data directory."""
    if file is None:
        return _directory(data, config)[0] / streameval_server.maintenance.LOG_NAME
    if data is not None:
        raise StreamEvalError("give a FILE or --data, not both")
    return file


def verify(log: Path, config: Path | None, progress: Callable[[float], None]) -> Verification:
    """Check every row of a log, and its checkpoint against a replay."""
    limits = _configured(None, config)[1]
    return streameval_server.maintenance.verify(log, limits, progress=progress)


def backup(file: Path, data: Path | None, config: Path | None) -> Backup:
    """Copy a directory's log to a file."""
    return streameval_server.maintenance.backup(_directory(data, config)[0], file)


def restore(
    file: Path, data: Path, config: Path | None, progress: Callable[[float], None]
) -> Verification:
    """Verify a backup, and make a data directory from it."""
    limits = _configured(None, config)[1]
    return streameval_server.maintenance.restore(file, data, limits, progress=progress)


def compact(data: Path | None, config: Path | None) -> CompactedLog:
    """Take a checkpoint, drop the log before it, and shrink the file."""
    return streameval_server.maintenance.compact(*_directory(data, config))


def repair(
    data: Path, to: Path, first: int | None, last: int | None, config: Path | None
) -> RepairedLog:
    """Write a mended copy of a log whose rows were received ahead of this machine's clock."""
    limits = _configured(None, config)[1]
    now_us = time.time_ns() // 1000
    return streameval_server.maintenance.repair(
        data, to, limits, now_us=now_us, first=first, last=last
    )


def replay(
    request: query_pb2.GetSnapshotRequest,
    until: int | None,
    data: Path | None,
    config: Path | None,
) -> types_pb2.Snapshot:
    """Return a stream's snapshot at a revision of the log; None is its last."""
    directory, limits = _directory(data, config)
    return streameval_server.snapshot_then(directory, until, request, limits=limits)


def sample(
    request: query_pb2.SampleForLabelsRequest,
    until: int | None,
    data: Path | None,
    config: Path | None,
) -> query_pb2.SampleForLabelsResponse:
    """Return which predictions were to be labelled at a revision of the log."""
    directory, limits = _directory(data, config)
    return streameval_server.sample_then(directory, until, request, limits=limits)


def _directory(data: Path | None, config: Path | None) -> tuple[Path, Limits]:
    """Return the data directory and the limits that a server with these settings would use."""
    directory, limits = _configured(data, config)
    if directory is None:
        raise StreamEvalError("the settings keep nothing on disk (memory)")
    return directory, limits


def _configured(data: Path | None, config: Path | None) -> tuple[Path | None, Limits]:
    """Return the same; the directory is None for a server in memory."""
    settings = configure({"data": data}, config=config).settings
    return settings.directory(), settings.limits
