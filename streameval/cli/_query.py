"""``streameval query``: a stream's figures."""

from __future__ import annotations

from streameval.cli._connect import connect
from streameval.cli._options import parse_segment, parse_span
from streameval.cli._output import print_json, print_snapshot


def query(
    address: str,
    stream: str,
    *,
    window: str | None,
    segment: str | None,
    projection: bool,
    as_json: bool,
) -> None:
    """Print the snapshot of a stream, or of a window or segment of it."""
    span = None if window is None else parse_span(window)
    with connect(address) as client:
        target = client.stream(stream)
        snapshot = target.snapshot(
            window=span, segment=parse_segment(segment), projection=projection
        )
    if as_json:
        print_json(snapshot.to_dict())
        return
    covers = "" if window is None else f", the last {window}"
    covers += "" if segment is None else f", {segment}"
    print_snapshot(snapshot, heading=f"{stream}{covers} at revision {snapshot.revision}")
