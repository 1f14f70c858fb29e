"""``streameval query``, ``reliability``, ``sample``, ``report``: a server's answers of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._common.atomic_file import write_atomically
from streameval._common.spans import parse_span
from streameval.cli._connection import connect
from streameval.cli._options import parse_segment
from streameval.cli._output import out, print_json, print_reliability, print_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from streameval.cli._sample import SampleOptions

_REPORT_TIMEOUT_S = 60.0
"""A report is dozens of answers in one; on a busy machine they take more than a query's 10 s."""


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
    covers = _covered(window, segment)
    print_snapshot(snapshot, heading=f"{stream}{covers} at revision {snapshot.revision}")


def sample(address: str, stream: str, options: SampleOptions) -> None:
    """Print which predictions to label next; write their ids to a file."""
    selection, draw_ids = options.selection(stream), options.draw_ids
    with connect(address) as client:
        found = client.stream(stream).sample_for_labels(
            options.size,
            metric=options.metric,
            threshold=options.threshold,
            prevalence=options.prevalence,
            seed=options.seed,
            draw_ids=draw_ids,
            window=selection.window,
            segment=selection.segment,
        )
    options.write(stream, found)


def reliability(
    address: str,
    stream: str,
    *,
    bins: int,
    window: str | None,
    segment: str | None,
    as_json: bool,
) -> None:
    """Print the reliability table of a stream, or of a window or segment of it."""
    span = None if window is None else parse_span(window)
    with connect(address) as client:
        target = client.stream(stream)
        found = target.reliability(bins, window=span, segment=parse_segment(segment))
    if as_json:
        print_json(found.to_dict())
        return
    covers = _covered(window, segment)
    print_reliability(found, heading=f"{stream}{covers} at revision {found.revision}")


def report(
    address: str, stream: str, file: Path, *, window: str | None, segment: str | None
) -> None:
    """Write a printable report of a stream to a file, and print its name."""
    span = None if window is None else parse_span(window)
    with connect(address, timeout_s=_REPORT_TIMEOUT_S) as client:
        text = client.stream(stream).report(window=span, segment=parse_segment(segment))
    with write_atomically(file) as partial:
        partial.write_text(text, encoding="utf-8")
    out.print(str(file), soft_wrap=True, markup=False, highlight=False)


def _covered(window: str | None, segment: str | None) -> str:
    """Return the part of a heading that says which cases are covered."""
    covers = "" if window is None else f", the last {window}"
    return covers + ("" if segment is None else f", {segment}")
