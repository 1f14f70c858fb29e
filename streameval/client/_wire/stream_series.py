"""A stream's time series: the pages of `ListWindows`, and since when its figure is lower."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common.result import Result
from streameval._metric_registry import Place
from streameval._snapshot import Snapshot
from streameval._uncertainty.fall import find_fall
from streameval.client._wire.decode import read_snapshot
from streameval.client._wire.reader import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from streameval.v1 import query_pb2


@dataclass(frozen=True, slots=True, eq=False)
class StreamFall(Result):
    """A figure of a stream that is lower since a time: one split of the steps of its series.

    Attributes
    ----------
    step : (datetime, datetime)
        The first step that is lower, most likely, in UTC.
    since : (datetime, datetime)
        The starts of the first and of the last step from which it may be lower, at the level
        of the series' intervals.
    difference : float
        The mean since then minus the mean before, each weighted by precision; negative. It is
        of the best split, so it is too large on average where a fall is barely evident.
    p_value : float
        Two-sided, adjusted for the number of splits; below 0.05.
    """

    step: tuple[datetime, datetime]
    since: tuple[datetime, datetime]
    difference: float
    p_value: float


class StreamSeries(list[Snapshot]):
    """The snapshots of a series, oldest first, and whether its first figure fell.

    Attributes
    ----------
    fall : StreamFall or None
        Since when the first of the series' metrics is lower; None where chance explains its
        changes. See `streameval.find_fall`.

    Examples
    --------
    >>> series = StreamSeries([], fall=None)
    >>> len(series), series.fall is None
    (0, True)
    """

    def __init__(self, snapshots: Iterable[Snapshot], *, fall: StreamFall | None) -> None:
        super().__init__(snapshots)
        self.fall = fall


def read_series(
    pages: Sequence[query_pb2.ListWindowsResponse], names: Sequence[str], level: float
) -> StreamSeries:
    """Return the series of some pages, whose first metric is the first of `names`. O(rows).

    The server's answer about a fall is of a page's rows: of several pages it is found here.
    """
    snapshots = [read_snapshot(each) for page in pages for each in page.snapshots]
    if len(pages) == 1:
        page = pages[0]
        fall = read(page.fall, StreamFall) if page.HasField("fall") else None
        return StreamSeries(snapshots, fall=fall)
    metric = names[0] if names else Place.MONITOR.names()[0]
    return StreamSeries(snapshots, fall=_find_fall(snapshots, metric, level))


def _find_fall(snapshots: Sequence[Snapshot], metric: str, level: float) -> StreamFall | None:
    estimates = [_estimate(each, metric) for each in snapshots]
    fall = find_fall(*zip(*estimates, strict=True), level=level)
    if fall is None:
        return None
    step, first, last = (snapshots[each].window for each in (fall.index, fall.first, fall.last))
    assert step is not None
    assert first is not None
    assert last is not None
    return StreamFall(step, (first[0], last[0]), fall.difference, fall.p_value)


def _estimate(snapshot: Snapshot, metric: str) -> tuple[float, float, float]:
    """Return a metric of a snapshot and its limits; nan where it has none."""
    interval = snapshot.intervals.get(metric)
    if metric not in snapshot.figures or interval is None or math.isnan(interval.upper):
        return math.nan, math.nan, math.nan
    return snapshot.figures[metric], interval.lower, interval.upper
