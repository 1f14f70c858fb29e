"""ListWindows: the time series of a stream, one row for each step of a span.

Rows are whole panes, one after the other without gaps or overlap: each begins
where the one before ends and is as wide as the step, or wider where panes are.
Steps without cases have a row too. A page's token is the time at which the next
row begins, so a page does not depend on what was counted meanwhile; panes that
coarsened between two pages may make the next row begin earlier, and it says so.

Cost: O(panes) to cut, and an answer for each row that was not asked for before.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common import quoted
from streameval._metric_registry import MONITORED_NAMES
from streameval.v1 import query_pb2
from streameval_server._model.errors import invalid
from streameval_server._queries.metrics import MetricSelection, select_metrics
from streameval_server._queries.resolved_selection import grid_of
from streameval_server._queries.selection import Between, Selected, micros, selected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval._time import Grid
    from streameval_server._queries.query_engine import Answers
    from streameval_server._queries.resolved_selection import ResolvedSelection

DEFAULT_ROWS = 500
MOST_ROWS = 1000

_TOKEN = struct.Struct(">BIq")
_TOKEN_VERSION = 1


@dataclass(frozen=True, slots=True)
class SeriesAsked:
    """A ListWindowsRequest that was checked. Equal ones ask for the same.

    Attributes
    ----------
    chosen : Selected
        Its span is a `Between`.
    step_us : int
        Width of a row, before it is widened.
    figures : MetricSelection
    most : int
        Rows of a page.
    next_us : int or None
        Where the page begins; None is the first page.
    """

    chosen: Selected
    step_us: int
    figures: MetricSelection
    most: int
    next_us: int | None


def series_asked(request: query_pb2.ListWindowsRequest) -> SeriesAsked:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    chosen = selected(request.selection)
    if not isinstance(chosen.span, Between):
        raise invalid("selection.between", "a time series needs its span: set selection.between")
    step_us = micros(request.step, "step")
    if step_us <= 0:
        raise invalid("step", f"step must be positive, got {step_us / 1e6:g} s")
    if request.page_size < 0:
        raise invalid("page_size", f"page_size must not be negative, got {request.page_size}")
    figures = select_metrics(request.metrics, level=request.level, default=MONITORED_NAMES)
    next_us = None
    if request.page_token:
        next_us = _read_token(request.page_token, _fingerprint(chosen, step_us))
    most = min(request.page_size or DEFAULT_ROWS, MOST_ROWS)
    return SeriesAsked(chosen, step_us, figures, most, next_us)


def series(answers: Answers, asked: SeriesAsked) -> query_pb2.ListWindowsResponse:
    """Return a page of rows, oldest first."""
    every = answers.applied(asked.chosen)
    response = query_pb2.ListWindowsResponse(revision=every.view.revision)
    starts = [pane.start_us for pane in every.panes]
    end_us = 0
    for start_us, end_us in spans(every, asked.step_us, asked.next_us):
        if len(response.snapshots) == asked.most:
            response.next_page_token = _token(start_us, _fingerprint(asked.chosen, asked.step_us))
            break
        row = part_of(every, starts, (start_us, end_us))
        response.snapshots.append(answers.snapshot(row, asked.figures, hull=False))
    return response


def part_of(
    every: ResolvedSelection, starts: list[int], span_us: tuple[int, int]
) -> ResolvedSelection:
    """Return one row of a span whose panes begin at `starts`. O(log(panes)) and its panes."""
    panes = every.panes[bisect_left(starts, span_us[0]) : bisect_left(starts, span_us[1])]
    return every.of_panes(panes, span_us)


def spans(
    every: ResolvedSelection, step_us: int, next_us: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield where rows begin and end; none begins after the clock's pane.

    Parameters
    ----------
    every
        What is cut.
    step_us
        Width of a row, before it is widened.
    next_us
        Where the first one begins; None for the beginning.
    """
    assert every.span_us is not None
    grid = grid_of(every.view)
    start_us, end_us = every.span_us
    end_us = min(end_us, grid.end_of(every.now_us))
    if next_us is not None:
        start_us = max(start_us, grid.start_of(next_us))
    while start_us < end_us:
        until_us = min(_boundary(grid, start_us + step_us), end_us)
        yield start_us, until_us
        start_us = until_us


def _boundary(grid: Grid, time_us: int) -> int:
    """Return the first boundary of panes that is not before a time."""
    start_us = grid.start_of(time_us)
    return time_us if start_us == time_us else grid.end_of(time_us)


def _fingerprint(chosen: Selected, step_us: int) -> int:
    """Return a number that tells requests apart whose rows are others."""
    return zlib.crc32(repr((chosen, step_us)).encode())


def _token(next_us: int, fingerprint: int) -> str:
    data = _TOKEN.pack(_TOKEN_VERSION, fingerprint, next_us)
    return base64.urlsafe_b64encode(data).decode()


def _read_token(token: str, fingerprint: int) -> int:
    try:
        version, of, next_us = _TOKEN.unpack(base64.urlsafe_b64decode(token))
    except (binascii.Error, struct.error, ValueError):
        version = of = next_us = 0
    if version != _TOKEN_VERSION:
        raise invalid("page_token", f"page_token is not one of this server's: {quoted(token)}")
    if of != fingerprint:
        raise invalid(
            "page_token", "page_token belongs to another selection or step: begin without one"
        )
    return int(next_us)
