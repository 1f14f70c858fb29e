"""Reads the streams of a server for ``streameval top``, and compares successive readings."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from streameval._metric_registry import COST_NAMES, HEADLINE, POINT_NAMES
from streameval.client._wire.calls import Call, list_streams
from streameval.client._wire.decode import read_snapshot
from streameval.client._wire.selection import duration
from streameval.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import timedelta

    from streameval._snapshot import Snapshot
    from streameval.client._wire.transport import Transport

_AT_THRESHOLD = (*POINT_NAMES, *COST_NAMES)
_MAX_STREAMS_PER_CALL = 100
_TIMEOUT_S = 5.0

MIN_VISIBLE_CHANGE = 0.0005
"""A smaller change of a figure is invisible with three digits."""


@dataclass(frozen=True, slots=True)
class TopQuery:
    """What to read from the server.

    Attributes
    ----------
    metric : str
    window : timedelta or None
        The time before now; None for all time.
    prefix : str
        Only streams whose names begin with it.
    """

    metric: str = HEADLINE
    window: timedelta | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One stream.

    Attributes
    ----------
    name : str
    value, lower, upper : float
        The figure and its interval; nan when undefined.
    reason : str
        Why the figure is undefined; empty when it is defined.
    references, positives : int
        In the window.
    labelled_share : float or None
        The labelled share of the window's predictions; None without predictions.
    newest : datetime or None
        The end of the newest pane; None without panes.
    arrived : int
        Cases and predictions since the stream was created.
    rates : mapping of str to float
        Those at the threshold that the stream declares, and the cost at its costs, by name;
        nan where undefined, and empty where it declares no threshold.
    """

    name: str
    value: float
    lower: float
    upper: float
    reason: str
    references: int
    positives: int
    labelled_share: float | None
    newest: datetime | None
    arrived: int
    rates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """All streams at one moment; `at_s` is monotonic, `at` is the wall clock."""

    query: TopQuery
    rows: tuple[Row, ...]
    at_s: float
    at: datetime


def read(server: Transport, query: TopQuery) -> Reading:
    """Query a server. Raises ClientError."""
    names = _names(server, query.prefix)
    arrived = dict(_arrived(server, names))
    rows = tuple(
        _row(message, query.metric, arrived.get(message.snapshot.stream, 0))
        for message in _snapshots(server, names, (query.metric, *_AT_THRESHOLD), query.window)
    )
    return Reading(query, rows, time.monotonic(), datetime.now(UTC))


def _names(server: Transport, prefix: str) -> list[str]:
    pages = list_streams(prefix)
    call = next(pages)
    while True:
        try:
            call = pages.send(server.ask(call, _TIMEOUT_S))
        except StopIteration as end:
            return [info.name for info in end.value]


def _snapshots(
    server: Transport, names: list[str], metrics: Iterable[str], window: timedelta | None
) -> Iterator[query_pb2.StreamSnapshot]:
    for start in range(0, len(names), _MAX_STREAMS_PER_CALL):
        request = query_pb2.BatchGetSnapshotsRequest(
            streams=names[start : start + _MAX_STREAMS_PER_CALL], metrics=metrics
        )
        if window is not None:
            request.last.CopyFrom(duration(window, field="window"))
        call: Call[Any] = Call(
            "QueryService", "BatchGetSnapshots", request, lambda response: response.snapshots
        )
        yield from server.ask(call, _TIMEOUT_S)


def _arrived(server: Transport, names: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the number of arrivals of each stream, of all time: a window's counts can fall."""
    for message in _snapshots(server, names, ["prevalence"], None):
        snapshot = message.snapshot
        references = snapshot.num_positive_ref + snapshot.num_negative_ref
        # A prediction counts once, labelled or not.
        by_id = snapshot.coverage
        yield snapshot.stream, references - by_id.labelled + by_id.predictions


def _row(message: query_pb2.StreamSnapshot, metric: str, arrived: int) -> Row:
    snapshot: Snapshot = read_snapshot(message.snapshot)
    interval = snapshot.intervals.get(metric)
    coverage = message.snapshot.coverage
    newest = None
    if message.HasField("newest_pane"):
        newest = message.newest_pane.end_time.ToDatetime(UTC)
    return Row(
        name=message.snapshot.stream,
        value=snapshot.figures.get(metric, math.nan),
        lower=math.nan if interval is None else interval.lower,
        upper=math.nan if interval is None else interval.upper,
        reason=snapshot.reasons.get(metric, ""),
        references=snapshot.num_positive_ref + snapshot.num_negative_ref,
        positives=snapshot.num_positive_ref,
        labelled_share=coverage.labelled_share if coverage.HasField("labelled_share") else None,
        newest=newest,
        arrived=arrived,
        rates={}
        if snapshot.operating_point is None
        else {name: snapshot.figures.get(name, math.nan) for name in _AT_THRESHOLD},
    )


@dataclass(frozen=True, slots=True)
class Line:
    """A row and its changes.

    Attributes
    ----------
    row : Row
    moved : float
        The last visible change of the figure; 0 when it never changed.
    just_now : bool
        Whether the change was between the last two readings.
    rate : float
        Arrivals per second between the last two readings; nan at the first one.
    """

    row: Row
    moved: float = 0.0
    just_now: bool = False
    rate: float = math.nan


@dataclass(slots=True)
class Board:
    """The last reading, compared with the one before."""

    lines: list[Line] = field(default_factory=list)
    reading: Reading | None = None

    def update(self, reading: Reading) -> None:
        """Store the next reading; one of another query has nothing to compare with."""
        before: dict[str, Line] = {}
        passed_s = math.nan
        if self.reading is not None and self.reading.query == reading.query:
            before = {line.row.name: line for line in self.lines}
            passed_s = reading.at_s - self.reading.at_s
        self.lines = [_line(row, before.get(row.name), passed_s) for row in reading.rows]
        self.reading = reading


def _line(row: Row, before: Line | None, passed_s: float) -> Line:
    if before is None:
        return Line(row)
    moved = row.value - before.row.value
    just_now = abs(moved) >= MIN_VISIBLE_CHANGE  # False when either is nan
    return Line(
        row,
        moved if just_now else before.moved,
        just_now,
        max(row.arrived - before.row.arrived, 0) / passed_s,
    )
