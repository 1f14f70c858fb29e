"""A selection resolved against a view of its stream: the panes that it covers.

The covered time is [start, end), in whole panes:

- ``last`` ends with the pane that contains the server's clock;
- ``between`` begins no earlier than the oldest pane that is kept;
- ``last_cases`` takes the fewest newest panes that together hold that number of labelled
  cases of the slice, including the whole of the oldest one;
- ``half_life`` takes all panes that are kept;
- ``mature_after`` leaves out panes that end less than that time before the clock.

A segment key must be declared. A value without cases is no error, because values are not
declared: the answer is empty and carries a warning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from streameval import Evaluator
from streameval.checks import quoted
from streameval.kernel import Grid, LazyCounts, PaneState, newest_panes, state_of
from streameval_server._model.errors import invalid
from streameval_server._queries.selection import (
    AllTime,
    Between,
    HalfLife,
    Last,
    LastCases,
    Selection,
)
from streameval_server._state.views import SliceView

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from streameval_server._state.views import PaneView, StreamView

MAX_PANE_CELLS = 16_384
"""Maximum number of distinct scores of an empty window, and of a pane."""


@dataclass(frozen=True)
class ResolvedSelection:
    """A selection at one revision of its stream. Immutable.

    Attributes
    ----------
    selection : Selection
    view : StreamView
        The stream; its revision is the answer's.
    now_us : int
        The server's clock, or the log's time if that is later.
    slice : SliceView
        The slice, or the whole; an empty slice for a value without cases.
    panes : tuple of PaneView
        The covered panes, oldest first; empty for all time.
    span_us : (start, end) or None
        The covered time, in whole panes; None for all time.
    oldest_us : int
        Start of the oldest pane that is kept.
    is_clipped : bool
        Whether the requested time begins before `oldest_us`.
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
        return tuple(PaneState(pane.start_us, pane.end_us, pane.state) for pane in self.panes)

    @property
    def num_cells(self) -> int:
        """Distinct scores of the panes, or of all time, counted by class. O(panes)."""
        if self.span_us is None:
            return self.slice.counts.state.num_scores
        return sum(each.state.num_scores for each in self.states)

    @cached_property
    def parts(self) -> tuple[object, ...]:
        """The immutable objects that determine the answer; caches compare them by identity."""
        whole = () if self.whole is None else self.whole.parts
        if self.span_us is None:
            return (self.slice.counts.state, self.slice.coverage, *whole)
        if not self.panes:  # then the answer is valid as long as the stream
            return (self.view.info,)
        states = (each.state for each in self.states)
        return (*states, *(pane.coverage for pane in self.panes), *whole)

    @property
    def half_life_us(self) -> int | None:
        """The half-life; None when all cases have the same weight."""
        span = self.selection.span
        return span.half_life_us if isinstance(span, HalfLife) else None

    @property
    def key(self) -> Hashable:
        """Identifies the covered cases, however they were selected."""
        selection = self.selection
        return (
            selection.stream,
            self.view.info.create_revision,
            selection.segment,
            self.half_life_us,
            self.span_us,
            self.view.info.settings.min_label_probability,
        )

    @cached_property
    def whole(self) -> ResolvedSelection | None:
        """The same window of the whole, if the slice takes its design effects from there.

        Slices have no groups of clusters. Decayed ones have no design effect.
        """
        has_clusters = self.view.info.settings.cluster_groups > 0
        if not has_clusters or self.selection.segment is None or self.half_life_us is not None:
            return None
        part = self.view.whole
        panes: tuple[PaneView, ...] = ()
        if self.span_us is not None:
            panes = tuple(pane for pane in part.panes if _is_within(pane, self.span_us))
        chosen = replace(self.selection, segment=None)
        return replace(self, selection=chosen, slice=part, panes=panes)

    def of_segment(self, segment: tuple[str, str]) -> ResolvedSelection:
        """Return the same window of one slice. O(panes)."""
        part = self.view.slice(segment) or empty_slice(self.view)
        panes: tuple[PaneView, ...] = ()
        if self.span_us is not None:
            span_us = self.span_us
            panes = tuple(pane for pane in part.panes if _is_within(pane, span_us))
        return replace(
            self, selection=replace(self.selection, segment=segment), slice=part, panes=panes
        )

    def of_panes(self, panes: tuple[PaneView, ...], span_us: tuple[int, int]) -> ResolvedSelection:
        """Return the same for [start, end), given all of its panes."""
        return replace(self, panes=panes, span_us=span_us, is_clipped=False)


def grid_of(view: StreamView) -> Grid:
    """Return the grid of a stream's panes at its revision. O(1)."""
    settings = view.info.settings
    return Grid.at(Grid.tiers_of(settings.pane_us, settings.retention_us), view.now_us)


def empty_slice(view: StreamView) -> SliceView:
    """Return a slice without cases, with the settings that slices and panes have."""
    return SliceView(LazyCounts(view, lambda view: state_of(empty_pane(view))))


def empty_pane(view: StreamView) -> Evaluator:
    """Return the counts of a window without panes."""
    settings = view.info.settings
    return Evaluator(resolution=settings.resolution, scale=settings.scale, max_cells=MAX_PANE_CELLS)


def resolve(
    selection: Selection, view: StreamView, clock_us: int, path: str = "selection"
) -> ResolvedSelection:
    """Resolve a selection against its stream. O(panes).

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
    # The end of the clock's pane, or of a later one, for rows dated ahead of the clock.
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
        # A span of which nothing is kept stays as it was requested.
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
    """Return the span of the newest panes that together hold `count` cases."""
    kept = [
        PaneState(pane.start_us, pane.end_us, pane.state)
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
