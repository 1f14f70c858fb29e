"""A selection resolved against a pair: the panes that it covers, and their sums.

As `resolved_selection` does for streams; `last_cases` counts labelled shared ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from streameval.checks import quoted
from streameval.kernel import Grid
from streameval.statistics import PairCounts
from streameval_server._model.errors import invalid
from streameval_server._queries.selection import AllTime, Between, Last, LastCases
from streameval_server._state.pairs.pair_panes import NONE_SEEN, added

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval_server._queries.selection import Selection
    from streameval_server._state.pairs.pair_panes import PairPane, PairPanes, Seen
    from streameval_server._state.pairs.pair_view import PairView

_NO_SLICE = -1
"""Stands for a value without ids."""


@dataclass(frozen=True, slots=True)
class PairWindow:
    """A selection of one revision of a pair.

    Attributes
    ----------
    view : PairView
    counts : PairPanes
        Those of the view.
    segment : (str, str) or None
    span_us : (start, end) or None
        The covered time, in whole panes; None for all time.
    panes : tuple of (int, PairPane)
        The covered panes with their start, oldest first; empty for all time.
    is_clipped : bool
        Whether the requested time begins before the oldest pane that is kept.
    """

    view: PairView
    counts: PairPanes
    segment: tuple[str, str] | None
    span_us: tuple[int, int] | None = None
    panes: tuple[tuple[int, PairPane], ...] = ()
    is_clipped: bool = False

    @property
    def number(self) -> int:
        """The number of the slice."""
        number = self.view.slice_number(self.segment)
        return _NO_SLICE if number is None else number

    def cases(self) -> PairCounts:
        """Return the labelled shared ids. O(entries log entries)."""
        if self.span_us is None:
            found = self.counts.totals.get(self.number)
            return found or PairCounts.empty(self.counts.total_shape)
        parts = [pane.counts[self.number] for _, pane in self.panes if self.number in pane.counts]
        empty = PairCounts.empty(self.counts.total_shape)
        return empty.merged(parts, self.counts.thresholds)

    def seen(self) -> Seen:
        """Return how many ids each stream has predicted, and both. O(panes)."""
        if self.span_us is None:
            return self.counts.total_seen.get(self.number, NONE_SEEN)
        return reduce(added, (p.seen.get(self.number, NONE_SEEN) for _, p in self.panes), NONE_SEEN)

    def of_segment(self, segment: tuple[str, str]) -> PairWindow:
        """Return the same time of one slice."""
        return PairWindow(
            self.view, self.counts, segment, self.span_us, self.panes, self.is_clipped
        )

    def steps(self, step_us: int, *, cumulative: bool) -> list[PairWindow]:
        """Return the steps of a span, oldest first. O(panes)."""
        assert self.span_us is not None
        grid = grid_of(self.view)
        start_us, end_us = self.span_us
        begin_us, found = start_us, []
        while start_us < end_us:
            next_us = min(end_us, grid.end_of(start_us + step_us - 1))
            first_us = begin_us if cumulative else start_us
            panes = tuple(pane for pane in self.panes if first_us <= pane[0] < next_us)
            span_us = (first_us, next_us)
            found.append(PairWindow(self.view, self.counts, self.segment, span_us, panes))
            start_us = next_us
        return found


def grid_of(view: PairView) -> Grid:
    """Return the grid of a pair's panes at its revision. O(1)."""
    settings = view.info.settings
    return Grid.at(Grid.tiers_of(settings.pane_us, settings.retention_us), view.now_us)


def resolve_pair(selection: Selection, view: PairView, clock_us: int) -> PairWindow:
    """Resolve a selection. O(panes).

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when the pair has no such segment key.
    """
    if selection.segment is not None:
        check_pair_key(selection.segment[0], view, "selection.segment.key")
    counts = view.counts()
    if isinstance(selection.span, AllTime):
        return PairWindow(view, counts, selection.segment)
    now_us, grid = max(clock_us, view.now_us), grid_of(view)
    kept = [(pane.start_us, pane.content) for pane in counts.panes]
    latest_us = max([grid.end_of(now_us), *(grid.end_of(start) for start, _ in kept[-1:])])
    if selection.mature_after_us is not None:
        latest_us = grid.start_of(max(0, now_us - selection.mature_after_us))
    start_us, end_us = 0, latest_us
    match selection.span:
        case Last(span_us):
            start_us, end_us = grid.snapped(max(0, now_us - span_us), now_us + 1)
        case Between(start_us, end_us):
            start_us, end_us = grid.snapped(start_us, end_us)
        case LastCases(count):
            number = view.slice_number(selection.segment)
            start_us = _newest(kept, _NO_SLICE if number is None else number, count, latest_us)
    if selection.mature_after_us is not None:
        end_us = max(start_us, min(end_us, latest_us))
    is_clipped = start_us < grid.oldest_us
    if is_clipped and grid.oldest_us < end_us:
        start_us = grid.oldest_us
    panes = tuple(pane for pane in kept if start_us <= pane[0] < end_us)
    return PairWindow(view, counts, selection.segment, (start_us, end_us), panes, is_clipped)


def _newest(kept: Sequence[tuple[int, PairPane]], number: int, count: int, latest_us: int) -> int:
    """Return the start of the newest panes that together hold `count` labelled ids."""
    found, start_us = 0, latest_us
    for start, pane in reversed(kept):
        if start < latest_us and number in pane.counts:
            start_us = start
            found += pane.counts[number].num_cases
            if found >= count:
                break
    return start_us


def check_pair_key(key: str, view: PairView, field: str) -> None:
    """Refuse a segment key that the pair does not have."""
    declared = view.info.settings.segment_keys
    if key not in declared:
        known = ", ".join(declared) or "none"
        raise invalid(
            field,
            f"the pair has no segment key {quoted(key)}; both streams declared {known} when it "
            "was made",
        )
