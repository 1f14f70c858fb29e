"""A selection applied to a view of its stream: which panes, and what to call them.

What is chosen is named by its [start, end) in whole panes:

- ``last`` ends with the pane that the server's clock is in;
- ``between`` begins no earlier than what is kept;
- ``last_cases`` takes the newest panes that hold so many labelled cases of the
  slice together, the oldest of them whole;
- ``half_life`` takes all that is kept;
- ``mature_after`` leaves out what ends later than that before the clock.

A segment key must be declared. A value that was never seen is no error: nobody
knows which values there will be, so the answer is empty and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from streameval import Evaluator
from streameval._common import quoted
from streameval._time import Grid, PaneState, newest_panes, tiers_of
from streameval_server._model.errors import invalid
from streameval_server._queries.selection import (
    AllTime,
    Between,
    HalfLife,
    Last,
    LastCases,
    Selection,
)
from streameval_server._state.views import LazyCounts, SliceView

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from streameval_server._state.views import PaneView, StreamView

MAX_PANE_CELLS = 16_384
"""Distinct scores that an empty window may hold, as panes do."""


@dataclass(frozen=True)
class ResolvedSelection:
    """A selection of one revision of its stream. Immutable.

    Attributes
    ----------
    selection : Selection
    view : StreamView
        The stream; its revision is the answer's.
    now_us : int
        The server's clock, not before the log's time.
    slice : SliceView
        The slice, or the whole; empty for a value that was never seen.
    panes : tuple of PaneView
        Those that are selection, oldest first; none for all time.
    span_us : (start, end) or None
        What is covered, in whole panes; None is all time.
    oldest_us : int
        Since when cases are kept.
    is_clipped : bool
        Whether what was asked for begins before that.
    """

    selection: Selection
    view: StreamView
    now_us: int
    slice: SliceView
    panes: tuple[PaneView, ...] = ()
    span_us: tuple[int, int] | None = None
    oldest_us: int = 0
    is_clipped: bool = False

    @cached_property
    def states(self) -> tuple[PaneState, ...]:
        """The counts of the panes."""
        return tuple(
            PaneState(pane.start_us, pane.end_us, pane.evaluator._view()) for pane in self.panes
        )

    @cached_property
    def parts(self) -> tuple[object, ...]:
        """Immutable parts that the answer is made of, and of nothing else."""
        if self.span_us is None:
            return (self.slice.all_time._view(), self.slice.coverage)
        if not self.panes:  # it goes with the stream
            return (self.view.info,)
        return (*(each.state for each in self.states), *(pane.coverage for pane in self.panes))

    @property
    def half_life_us(self) -> int | None:
        """The half-life; None where all cases count the same."""
        span = self.selection.span
        return span.half_life_us if isinstance(span, HalfLife) else None

    @property
    def key(self) -> Hashable:
        """Names what is covered, whoever asks for it and how."""
        selection = self.selection
        return (
            selection.stream,
            self.view.info.create_revision,
            selection.segment,
            self.half_life_us,
            self.span_us,
        )

    def of_segment(self, segment: tuple[str, str]) -> ResolvedSelection:
        """Return a slice of the same window of the whole. O(panes)."""
        part = self.view.slice(segment) or empty_slice(self.view)
        panes: tuple[PaneView, ...] = ()
        if self.span_us is not None:
            span_us = self.span_us
            panes = tuple(pane for pane in part.panes if _is_within(pane, span_us))
        return replace(
            self, selection=replace(self.selection, segment=segment), slice=part, panes=panes
        )

    def of_panes(self, panes: tuple[PaneView, ...], span_us: tuple[int, int]) -> ResolvedSelection:
        """Return the same for some of the panes, which are all that lie in [start, end)."""
        return replace(self, panes=panes, span_us=span_us, is_clipped=False)


def grid_of(view: StreamView) -> Grid:
    """Return where a stream's panes begin and end at its revision. O(1)."""
    settings = view.info.settings
    return Grid.at(tiers_of(settings.pane_us, settings.retention_us), view.now_us)


def empty_slice(view: StreamView) -> SliceView:
    """Return a slice without cases, with the stream's settings: slices count as panes do."""
    return SliceView(LazyCounts(empty_pane(view)._view))


def empty_pane(view: StreamView) -> Evaluator:
    """Return what a window without panes holds."""
    settings = view.info.settings
    return Evaluator(resolution=settings.resolution, scale=settings.scale, max_cells=MAX_PANE_CELLS)


def resolve(
    selection: Selection, view: StreamView, clock_us: int, path: str = "selection"
) -> ResolvedSelection:
    """Apply a selection to its stream. O(panes).

    Parameters
    ----------
    selection, view
        The selection, and its stream.
    clock_us
        The server's clock.
    path
        The selection's name in the request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when the segment key is not declared.
    """
    if selection.segment is not None:
        check_key(selection.segment[0], view, f"{path}.segment.key")
    part = view.slice(selection.segment) or empty_slice(view)
    now_us = max(clock_us, view.now_us)
    if isinstance(selection.span, AllTime):
        return ResolvedSelection(selection, view, now_us, part)
    grid = grid_of(view)
    # Everything up to the clock's pane; rows may be dated a little ahead of it.
    latest_us = max([grid.end_of(now_us), *(pane.end_us for pane in part.panes[-1:])])
    if selection.mature_after_us is not None:
        latest_us = grid.start_of(max(0, now_us - selection.mature_after_us))
    is_clipped = False
    match selection.span:
        case Last(span_us):
            start_us, end_us = grid.snapped(max(0, now_us - span_us), now_us + 1)
        case Between(start_us, end_us):
            start_us, end_us = grid.snapped(start_us, end_us)
        case LastCases(count):
            start_us, end_us = _of_newest(part.panes, count, latest_us)
        case HalfLife():
            start_us, end_us = grid.oldest_us, latest_us
    if selection.mature_after_us is not None:
        end_us = max(start_us, min(end_us, latest_us))
    if start_us < grid.oldest_us:
        is_clipped = True
        # Where nothing is kept of all of it, it keeps its name.
        start_us = grid.oldest_us if grid.oldest_us < end_us else start_us
    panes = tuple(
        pane for pane in part.panes if start_us <= pane.start_us and pane.end_us <= end_us
    )
    return ResolvedSelection(
        selection, view, now_us, part, panes, (start_us, end_us), grid.oldest_us, is_clipped
    )


def _is_within(pane: PaneView, span_us: tuple[int, int]) -> bool:
    return span_us[0] <= pane.start_us and pane.end_us <= span_us[1]


def _of_newest(panes: Iterable[PaneView], count: int, latest_us: int) -> tuple[int, int]:
    """Return the span of the newest panes that hold so many cases."""
    kept = [
        PaneState(pane.start_us, pane.end_us, pane.evaluator._view())
        for pane in panes
        if pane.end_us <= latest_us
    ]
    newest = newest_panes(kept, count)
    return (newest[0].start_us if newest else latest_us), latest_us


def check_key(key: str, view: StreamView, field: str) -> None:
    """Refuse a segment key that the stream does not declare."""
    declared = view.info.settings.segment_keys
    if key not in declared:
        known = f"it declares {', '.join(declared)}" if declared else "it declares none"
        raise invalid(field, f"stream {view.info.name} has no segment key {quoted(key)}: {known}")
