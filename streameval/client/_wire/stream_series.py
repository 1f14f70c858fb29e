"""A stream's time series: the pages of `ListWindows`, and since when its figure is lower."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streameval._common.result import Result, Shown
from streameval._common.tables import Table
from streameval._metric_registry import title_of
from streameval._snapshot import Snapshot
from streameval.client._wire.decode import read_snapshot
from streameval.client._wire.reader import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from streameval.v1 import query_pb2


@dataclass(frozen=True, slots=True, eq=False)
class StreamFall(Result):
    """A figure of a stream that is lower since a time: one split of its series, at one look.

    Attributes
    ----------
    step : (datetime, datetime)
        The first step that is lower, most likely, in UTC.
    since : (datetime, datetime)
        The starts of the first and of the last step from which it may be lower, at the level
        of the series' intervals. A fall in the middle of a step counts from that step or the next.
    difference : float
        The mean since then minus the mean before, each weighted by cases; negative. It is
        of the best split, so it is too large on average where a fall is barely evident.
    p_value : float
        Two-sided, adjusted for the choice of the split; below 0.05.
    warnings : tuple of str
        What else looks like such a fall: a cycle that the series does not cover twice, or fewer
        positives where the figure may be the same at one prevalence.
    """

    step: tuple[datetime, datetime]
    since: tuple[datetime, datetime]
    difference: float
    p_value: float
    warnings: tuple[str, ...] = ()


class StreamSeries(list[Snapshot], Shown):
    """The snapshots of a series, oldest first, and whether its first figure fell.

    Attributes
    ----------
    fall : StreamFall or None
        Since when the first of the series' metrics is lower; None where chance explains its
        changes. See `streameval.find_fall`.

    Examples
    --------
    `print` shows a table; `to_frame` has a row for each snapshot.

    >>> series = StreamSeries([], fall=None)
    >>> print(series)
    0 steps
    """

    def __init__(self, snapshots: Iterable[Snapshot], *, fall: StreamFall | None) -> None:
        super().__init__(snapshots)
        self.fall = fall

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
    """Return the series of some pages, of which the last says whether it fell. O(rows)."""
    snapshots = [read_snapshot(each) for page in pages for each in page.snapshots]
    last = pages[-1]
    fall = read(last.fall, StreamFall) if last.HasField("fall") else None
    return StreamSeries(snapshots, fall=fall)
