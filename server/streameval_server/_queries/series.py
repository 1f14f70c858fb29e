"""ListWindows: the time series of a stream, one row for each step of a span.

Rows consist of whole panes and neither leave gaps nor overlap: each begins where the one
before ends and is as wide as the step, or wider where panes are wider. Steps without cases
have a row too. With a least number of positives neighbouring steps are one row until it has
them; the newest row may have fewer, and steps without cases before a row are one of their own.

A page token holds the time at which the next row begins, so pages do not depend on what is
counted meanwhile. If panes coarsen between two pages, the next row may begin earlier; its
window tells.

Cost: O(panes), and for each row one answer that is not cached yet.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streameval.checks import quoted
from streameval.statistics import Place
from streameval.v1 import query_pb2
from streameval_server._model.errors import invalid
from streameval_server._queries.metrics import (
    MetricSelection,
    requested_costs,
    select_metrics,
)
from streameval_server._queries.projections import check_projection
from streameval_server._queries.resolved_selection import grid_of
from streameval_server._queries.selection import Between, Selection, micros, parse_selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.kernel import Grid
    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.resolved_selection import ResolvedSelection

DEFAULT_ROWS = 500
MAX_ROWS = 1000
MAX_PROJECTED_ROWS = 50
"""Rows of a page with projections: each takes as long as hundreds without."""

_TOKEN = struct.Struct(">BIq")
_TOKEN_VERSION = 1


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """A checked ListWindowsRequest. Equal requests have one answer.

    Attributes
    ----------
    selection : Selection
        Its span is a `Between`.
    step_us : int
        Width of a row, before it is widened to whole panes.
    metrics : MetricSelection
    page_size : int
        Rows of a page, at most.
    next_us : int or None
        Start of the page's first row; None for the first page.
    min_positives : int
        Neighbouring steps are one row until it has this many.
    projection : bool
        Whether each row has what it will read once its labels are in.
    """

    selection: Selection
    step_us: int
    metrics: MetricSelection
    page_size: int
    next_us: int | None
    min_positives: int = 0
    projection: bool = False

    @property
    def fingerprint(self) -> int:
        """A number that identifies the series; a token is valid for equal ones only."""
        cut = (self.selection, self.step_us)
        return zlib.crc32(repr((*cut, self.min_positives) if self.min_positives else cut).encode())


def parse_series_request(request: query_pb2.ListWindowsRequest) -> SeriesRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    selection = parse_selection(request.selection)
    if not isinstance(selection.span, Between):
        raise invalid("selection.between", "a time series needs its span: set selection.between")
    step_us = micros(request.step, "step")
    if step_us <= 0:
        raise invalid("step", f"step must be positive, got {step_us / 1e6:g} s")
    if request.page_size < 0:
        raise invalid("page_size", f"page_size must not be negative, got {request.page_size}")
    metrics = select_metrics(
        request.metrics,
        level=request.level,
        default=Place.MONITOR.names(),
        threshold=request.threshold if request.HasField("threshold") else None,
        costs=requested_costs(request),
    )
    most = MAX_ROWS
    if request.projection:
        check_projection(selection)
        most = MAX_PROJECTED_ROWS
    page_size = min(request.page_size or DEFAULT_ROWS, most)
    least = request.min_positives
    cut = SeriesRequest(selection, step_us, metrics, page_size, None, least, request.projection)
    if not request.page_token:
        return cut
    return replace(cut, next_us=_read_token(request.page_token, cut.fingerprint))


def series(engine: QueryEngine, request: SeriesRequest) -> query_pb2.ListWindowsResponse:
    """Return a page of rows, oldest first."""
    resolved = engine.resolve(request.selection)
    response = query_pb2.ListWindowsResponse(revision=resolved.view.revision)
    source = engine.labels(resolved) if request.projection else None
    names = tuple(name for name in Place.PROJECTION.names() if name in request.metrics.names)
    starts = [pane.start_us for pane in resolved.panes]
    for start_us, end_us in _rows(resolved, starts, request, request.next_us):
        if len(response.snapshots) == request.page_size:
            response.next_page_token = _token(start_us, request.fingerprint)
            break
        row = part_of(resolved, starts, (start_us, end_us))
        message = engine.snapshot(row, request.metrics, hull=False)
        if source is not None:
            projected = engine.projection(source, row, request.metrics.level, names)
            message.projection.CopyFrom(projected)
        response.snapshots.append(message)
    return response


def _rows(
    resolved: ResolvedSelection, starts: list[int], request: SeriesRequest, next_us: int | None
) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each row from a time on; None for the first row."""
    cut = spans(resolved, request.step_us, next_us)
    if not request.min_positives:
        return cut
    return merged(cut, resolved, starts, request.min_positives)


def part_of(
    resolved: ResolvedSelection, starts: list[int], span_us: tuple[int, int]
) -> ResolvedSelection:
    """Return one row of a span whose panes begin at `starts`. O(log(panes) + its panes)."""
    panes = resolved.panes[bisect_left(starts, span_us[0]) : bisect_left(starts, span_us[1])]
    return resolved.of_panes(panes, span_us)


def spans(
    resolved: ResolvedSelection, step_us: int, next_us: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each row; none begins after the clock's pane.

    Parameters
    ----------
    resolved
        The selection to cut into rows.
    step_us
        Width of a row, before it is widened to whole panes.
    next_us
        Start of the first row; None for the selection's start.
    """
    assert resolved.span_us is not None
    grid = grid_of(resolved.view)
    start_us, end_us = resolved.span_us
    end_us = min(end_us, grid.end_of(resolved.now_us))
    if next_us is not None:
        start_us = max(start_us, grid.start_of(next_us))
    while start_us < end_us:
        until_us = min(_boundary(grid, start_us + step_us), end_us)
        yield start_us, until_us
        start_us = until_us


def _boundary(grid: Grid, time_us: int) -> int:
    """Return the first pane boundary at or after a time."""
    start_us = grid.start_of(time_us)
    return time_us if start_us == time_us else grid.end_of(time_us)


def merged(
    steps: Iterator[tuple[int, int]], resolved: ResolvedSelection, starts: list[int], least: int
) -> Iterator[tuple[int, int]]:
    """Yield the shortest runs of steps with `least` positives; the last may have fewer.

    Steps without cases before a run are a row of their own.
    """
    begin_us, until_us, positives, cases = None, 0, 0, 0
    for start_us, end_us in steps:
        counts = [pane.evaluator for pane in part_of(resolved, starts, (start_us, end_us)).panes]
        here = sum(each.num_cases for each in counts)
        if begin_us is not None and here and not cases:
            yield begin_us, until_us
            begin_us = None
        begin_us = start_us if begin_us is None else begin_us
        positives += sum(each.num_positive_ref for each in counts)
        cases, until_us = cases + here, end_us
        if positives >= least:
            yield begin_us, until_us
            begin_us, positives, cases = None, 0, 0
    if begin_us is not None:
        yield begin_us, until_us


def _token(next_us: int, fingerprint: int) -> str:
    data = _TOKEN.pack(_TOKEN_VERSION, fingerprint, next_us)
    return base64.urlsafe_b64encode(data).decode()


def _read_token(token: str, fingerprint: int) -> int:
    try:
        version, found, next_us = _TOKEN.unpack(base64.urlsafe_b64decode(token))
    except (binascii.Error, struct.error, ValueError):
        version = found = next_us = 0
    if version != _TOKEN_VERSION:
        raise invalid("page_token", f"page_token is not one of this server's: {quoted(token)}")
    if found != fingerprint:
        raise invalid(
            "page_token",
            "page_token belongs to another selection, step or number of positives: "
            "begin without one",
        )
    return int(next_us)
