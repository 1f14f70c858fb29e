"""``streameval push`` and ``streameval query``: the commands that talk to a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.cli._connect import connect
from streameval.cli._output import out, print_json, print_snapshot, progress_bar
from streameval.cli._rows import Layout, read_rows

if TYPE_CHECKING:
    from pathlib import Path


def push(file: Path, *, to: str, stream: str, score: str, label: str, positive: str | None) -> None:
    """Check a file from end to end, then push it; returns when it is durable."""
    layout = Layout(score=score, label=label, positive=positive)
    rows = 0
    with progress_bar(f"checking {file.name}", show=True) as progress:
        for chunk in read_rows(file, layout):
            rows += len(chunk.scores)
            progress(chunk.progress)
    with connect(to, when_full="block") as client:
        target = client.stream(stream)
        with progress_bar(f"pushing {file.name}", show=True) as progress:
            for chunk in read_rows(file, layout):
                target.add_cases(labels=chunk.labels, scores=chunk.scores)
                progress(chunk.progress)
            revision = target.flush()
    out.print(
        f"{rows:,} cases of {file} are durable in {stream} at revision {revision}", soft_wrap=True
    )


def query(address: str, stream: str, *, as_json: bool) -> None:
    """Print the snapshot of a stream."""
    with connect(address) as client:
        snapshot = client.stream(stream).snapshot()
    if as_json:
        print_json(snapshot.to_dict())
    else:
        print_snapshot(snapshot, title=f"{stream} at revision {snapshot.revision}")
