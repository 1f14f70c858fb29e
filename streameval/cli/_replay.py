"""``streameval admin replay``: what was known then, from a server's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError
from streameval.cli._output import print_json, print_snapshot
from streameval.cli._spans import parse_segment, parse_span

if TYPE_CHECKING:
    from pathlib import Path


def replay(
    stream: str,
    *,
    until: int | None,
    data: Path | None,
    config: Path | None,
    window: str | None,
    segment: str | None,
    as_json: bool,
) -> None:
    """Print a stream's figures as a revision of the log had them."""
    try:
        from streameval.cli._offline import server_settings  # noqa: PLC0415
        from streameval.client._wire.decode import read_snapshot  # noqa: PLC0415 - extras may be absent
        from streameval.client._wire.selection import Selection  # noqa: PLC0415
        from streameval.v1 import query_pb2  # noqa: PLC0415
        from streameval_server import snapshot_then  # noqa: PLC0415
    except ModuleNotFoundError as error:
        message = f"{error.name} is missing; pip install 'streameval[client,server]'"
        raise StreamEvalError(message) from error
    chosen = Selection(
        stream=stream,
        window=None if window is None else parse_span(window),
        segment=parse_segment(segment),
    )
    request = query_pb2.GetSnapshotRequest(selection=chosen.to_message(0))
    directory, limits = server_settings(data, config)
    snapshot = read_snapshot(snapshot_then(directory, until, request, limits=limits))
    if as_json:
        print_json(snapshot.to_dict())
    else:
        print_snapshot(snapshot, heading=f"{stream} as it was at revision {snapshot.revision}")
