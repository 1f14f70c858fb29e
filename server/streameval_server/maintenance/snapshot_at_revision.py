"""Answers of then: a snapshot of a stream as an earlier revision of its log had it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval_server._model.errors import Code, RequestError
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot
from streameval_server.maintenance.history import replay_until

if TYPE_CHECKING:
    from pathlib import Path

    from streameval.v1 import query_pb2, types_pb2
    from streameval_server._model.limits import Limits


def snapshot_then(
    data_directory: Path,
    revision: int | None,
    request: query_pb2.GetSnapshotRequest,
    *,
    limits: Limits | None = None,
) -> types_pb2.Snapshot:
    """Return what the server would have answered at a revision. O(bytes of the log up to there).

    The clock is the log's: ``last`` ends with the time of that revision.

    Parameters
    ----------
    data_directory
        The server's; a server may be running on it.
    revision
        As `replay_until`; None is the newest.
    request
        Its `min_revision` is not read.
    limits
        As `replay_until`.

    Raises
    ------
    RequestError
        As the server; also for a stream that was not there then.
    StorageError
        When there is no such log, or it has not come so far.
    """
    asked = parse_snapshot_request(request)
    engine = replay_until(data_directory, revision, limits=limits)
    name = request.selection.stream
    view = engine.view(name)
    if view is None:
        raise RequestError(
            Code.NOT_FOUND,
            f"there was no stream {name} at revision {engine.revision}",
            reason="NO_STREAM",
        )
    answers = QueryEngine(lambda _: view, lambda: view.now_us)
    return snapshot(answers, asked)
