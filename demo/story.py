"""What the server says of the demo's streams, as lines to print."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from streams import ALL, PAIR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval import Snapshot
    from streameval.client import Client

WINDOW = timedelta(days=7)


def told(client: Client) -> Iterator[str]:
    """Yield a line for each stream, with its alarms and marks, and a line for the pair."""
    names = [model.stream for traffic in ALL for model in traffic.models]
    width = max(map(len, names))
    for name in names:
        snapshot = client.stream(name).snapshot(window=WINDOW, metrics=["auc_pr"])
        yield f"{name:<{width}}  {_figure(snapshot)}"
        for mark in client.list_marks(name):
            yield f"{'':<{width}}  {mark.time:%b %d, %H:%M}: {mark.text}"
        status = client.stream_alarms(name)
        for alarm in status.alarms if status else ():
            yield f"{'':<{width}}  {str(alarm).splitlines()[0].removeprefix(f'{name}: ')}"
    yield ""
    yield f"{PAIR}: {str(client.compare_pair(PAIR)).splitlines()[0]}"


def _figure(snapshot: Snapshot) -> str:
    """Return the headline of a window in words."""
    found = snapshot.intervals.get("auc_pr")
    value = "no AUC-PR"
    if found is not None:
        value = f"AUC-PR {found.estimate:.3f} ({found.lower:.3f} to {found.upper:.3f})"
    parts = [f"{value} in the last 7 days, {snapshot.num_cases:,} cases"]
    coverage = snapshot.coverage
    if coverage is not None and coverage.predictions:
        parts.append(f"{coverage.labelled_share:.0%} of {coverage.predictions:,} labelled")
    return ", ".join(parts)
