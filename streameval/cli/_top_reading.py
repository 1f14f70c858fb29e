"""What ``streameval top`` reads of a server, and how it moved since the reading before."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from streameval._metric_registry import HEADLINE
from streameval.client._wire.calls import Call, list_streams
from streameval.client._wire.decode import read_snapshot
from streameval.client._wire.selection import duration
from streameval.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from streameval._snapshot import Snapshot
    from streameval.client._wire.transport import Transport

_STREAMS_AT_ONCE = 100
_TIMEOUT_S = 5.0

VISIBLE = 0.0005
"""A figure that moved by less looks the same, with three digits."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What to read.

    Attributes
    ----------
    metric : str
    window : timedelta or None
        The time up to now; None is all time.
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
        The figure and its interval; nan where there is none.
    reason : str
        Why there is no figure; empty where there is one.
    references, positives : int
        In the window.
    share : float or None
        Labelled predictions among those of the window; None without ids.
    newest : datetime or None
        The end of the newest pane; None without panes.
    arrived : int
        Cases and predictions since the stream was made.
    """

    name: str
    value: float
    lower: float
    upper: float
    reason: str
    references: int
    positives: int
    share: float | None
    newest: datetime | None
    arrived: int


@dataclass(frozen=True, slots=True)
class Reading:
    """All streams at one moment; `at_s` goes on, `at` is the clock."""

    asked: Asked
    rows: tuple[Row, ...]
    at_s: float
    at: datetime


def read(server: Transport, asked: Asked) -> Reading:
    """Ask a server. Raises ClientError."""
    names = _names(server, asked.prefix)
    arrived = dict(_arrived(server, names))
    rows = tuple(
        _row(message, asked.metric, arrived.get(message.snapshot.stream, 0))
        for message in _snapshots(server, names, asked.metric, asked.window)
    )
    return Reading(asked, rows, time.monotonic(), datetime.now(UTC))


def _names(server: Transport, prefix: str) -> list[str]:
    dialogue = list_streams(prefix)
    question = next(dialogue)
    while True:
        try:
            question = dialogue.send(server.ask(question, _TIMEOUT_S))
        except StopIteration as end:
            return [info.name for info in end.value]


def _snapshots(
    server: Transport, names: list[str], metric: str, window: timedelta | None
) -> Iterator[query_pb2.StreamSnapshot]:
    for start in range(0, len(names), _STREAMS_AT_ONCE):
        request = query_pb2.BatchGetSnapshotsRequest(
            streams=names[start : start + _STREAMS_AT_ONCE], metrics=[metric]
        )
        if window is not None:
            request.last.CopyFrom(duration(window, field="window"))
        question: Call[Any] = Call(
            "QueryService", "BatchGetSnapshots", request, lambda response: response.snapshots
        )
        yield from server.ask(question, _TIMEOUT_S)


def _arrived(server: Transport, names: list[str]) -> Iterator[tuple[str, int]]:
    """Yield how much arrived in each stream; a windowed answer forgets what left its window."""
    for message in _snapshots(server, names, "prevalence", None):
        snapshot = message.snapshot
        references = snapshot.num_positive_ref + snapshot.num_negative_ref
        # A prediction arrived once, whether its label has come or not.
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
        share=coverage.labelled_share if coverage.HasField("labelled_share") else None,
        newest=newest,
        arrived=arrived,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """A row and how it moved.

    Attributes
    ----------
    row : Row
    moved : float
        By how much the figure changed when it last did; 0 when it never did.
    just_now : bool
        Whether that was between the last two readings.
    rate : float
        Arrivals a second between the last two readings; nan before the second.
    """

    row: Row
    moved: float = 0.0
    just_now: bool = False
    rate: float = math.nan


@dataclass(slots=True)
class Board:
    """The last reading, compared with those before it."""

    lines: list[Line] = field(default_factory=list)
    reading: Reading | None = None

    def take(self, reading: Reading) -> None:
        """Take the next reading; one that asks for something else is compared with none."""
        before: dict[str, Line] = {}
        passed_s = math.nan
        if self.reading is not None and self.reading.asked == reading.asked:
            before = {line.row.name: line for line in self.lines}
            passed_s = reading.at_s - self.reading.at_s
        self.lines = [_compared(row, before.get(row.name), passed_s) for row in reading.rows]
        self.reading = reading


def _compared(row: Row, before: Line | None, passed_s: float) -> Line:
    if before is None:
        return Line(row)
    moved = row.value - before.row.value
    just_now = abs(moved) >= VISIBLE  # never where one of them is nan
    return Line(
        row,
        moved if just_now else before.moved,
        just_now,
        max(row.arrived - before.row.arrived, 0) / passed_s,
    )
