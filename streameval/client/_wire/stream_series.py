"""A stream's time series: the pages of `ListWindows`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from streameval._common.result import Shown
from streameval._common.tables import Table
from streameval._metric_registry import title_of
from streameval._snapshot import Snapshot
from streameval.client._wire.decode import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval.v1 import query_pb2


class StreamSeries(list[Snapshot], Shown):
    """The snapshots of a series, oldest first.

    Examples
    --------
    `print` shows a table; `to_frame` has a row for each snapshot.

    >>> series = StreamSeries()
    >>> print(series)
    0 steps
    """

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for each snapshot: `Snapshot.to_row`. O(rows)."""
        return [each.to_row() for each in self]

    def __str__(self) -> str:
        return self._as_table().as_text()

    def _as_table(self) -> Table:
        names = list(dict.fromkeys(name for each in self for name in each.figures))
        rows = [
            [
                f"{each.window[0]:%Y-%m-%d %H:%M}" if each.window else "",
                f"{each.num_cases:,}",
                f"{each.num_positive_ref:,}",
                *(_cell(each, name) for name in names),
            ]
            for each in self
        ]
        header = ["from (UTC)", "cases", "positives", *map(title_of, names)]
        return Table(f"{len(self)} steps", header if rows else (), rows)


def _cell(snapshot: Snapshot, name: str) -> str:
    """Return a figure with its limits; empty where it is not known."""
    value = snapshot.figures.get(name, math.nan)
    limits = snapshot.intervals.get(name)
    if math.isnan(value):
        return ""
    return f"{value:.4f}" if limits is None or limits.reason else f"{limits:.4f}"


def read_series(pages: Sequence[query_pb2.ListWindowsResponse]) -> StreamSeries:
    """Return the series of some pages. O(rows)."""
    return StreamSeries(read_snapshot(each) for page in pages for each in page.snapshots)
