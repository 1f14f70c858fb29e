"""A draw of predictions to label, repeated as the server answered it at an earlier revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval_server._model.errors import Code, RequestError
from streameval_server._queries.label_sample import label_sample, parse_label_sample_request
from streameval_server._queries.query_engine import QueryEngine
from streameval_server.maintenance.history import replay_until

if TYPE_CHECKING:
    from pathlib import Path

    from streameval.v1 import query_pb2
    from streameval_server._model.limits import Limits


def sample_then(
    data_directory: Path,
    revision: int | None,
    request: query_pb2.SampleForLabelsRequest,
    *,
    limits: Limits | None = None,
) -> query_pb2.SampleForLabelsResponse:
    """Return what to label as of a revision. O(bytes of the log up to that revision).

    With the window, the seed and the other fields of a server's answer it is that answer. The
    clock is the log's: a window ``last`` ends at the time of that revision.

    Parameters
    ----------
    data_directory, revision, limits
        As `snapshot_then`.
    request
        Its `min_revision` is ignored.

    Raises
    ------
    RequestError
        As from the server; also for a stream that did not exist at that revision.
    StorageError, CorruptLogError
        As `replay_until`.
    """
    asked = parse_label_sample_request(request)
    engine = replay_until(data_directory, revision, limits=limits)
    name = request.selection.stream
    view, waiting = engine.view(name), None
    if view is not None:
        waiting = engine.waiting(name)
    if view is None or waiting is None:
        raise RequestError(
            Code.NOT_FOUND,
            f"there was no stream {name} at revision {engine.revision}",
            reason="NO_STREAM",
        )
    found = view, waiting
    answers = QueryEngine(lambda _: found[0], lambda: engine.received_us, waiting=lambda _: found)
    return label_sample(answers, asked)
