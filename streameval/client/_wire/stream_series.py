"""A stream's time series: the pages of `ListWindows`, and since when its figure is lower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common.result import Result
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


def read_series(pages: Sequence[query_pb2.ListWindowsResponse]) -> StreamSeries:
    """Return the series of some pages, of which the last says whether it fell. O(rows)."""
    snapshots = [read_snapshot(each) for page in pages for each in page.snapshots]
    last = pages[-1]
    fall = read(last.fall, StreamFall) if last.HasField("fall") else None
    return StreamSeries(snapshots, fall=fall)
