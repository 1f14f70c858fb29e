"""A stream's snapshot as the server would have answered it at an earlier revision."""

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
    """Return a snapshot at a revision. O(bytes of the log up to that revision).

    The clock is the log's: a window ``last`` ends at the time of that revision.

    Parameters
    ----------
    data_directory
        The server's; a server may be running on it.
    revision
        As `replay_until`; None is the newest.
    request
        Its `min_revision` is ignored.
    limits
        As `replay_until`.

    Raises
    ------
    RequestError
        As from the server; also for a stream that did not exist at that revision.
    StorageError, CorruptLogError
        As `replay_until`.
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
    answers = QueryEngine(lambda _: view, lambda: engine.received_us)
    return snapshot(answers, asked)
