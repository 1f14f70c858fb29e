"""How a window of a stream differs from a time before it: its change in a list of streams.

A stream whose detector watches is compared with the detector's reference, as long as its panes
are kept; every other stream with the time before the window, as long as it. The two share no
pane: where the reference ends within the window, the window begins after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import compare
from streameval.statistics import HEADLINE
from streameval.v1 import overview_pb2
from streameval_server._queries.comparison import comparison_message
from streameval_server._queries.resolved_selection import grid_of, resolve
from streameval_server._queries.selection import AllTime, Between, Last, Selection

if TYPE_CHECKING:
    from streameval import Window
    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.resolved_selection import ResolvedSelection

_NEVER_US = 1 << 62

_REFERENCES = {
    overview_pb2.CHANGE_REFERENCE_ALARMS: "the reference of its alarms",
    overview_pb2.CHANGE_REFERENCE_WINDOW_BEFORE: "the time before the window",
}


@dataclass(frozen=True, slots=True)
class ComparedTimes:
    """The two times of a change.

    Attributes
    ----------
    kind : ChangeReference
    window, reference : ResolvedSelection
    """

    kind: overview_pb2.ChangeReference.ValueType
    window: ResolvedSelection
    reference: ResolvedSelection


def compared_times(resolved: ResolvedSelection) -> ComparedTimes | None:
    """Return what a window of a stream is compared with; None for all time. O(panes)."""
    span = resolved.selection.span
    if resolved.span_us is None or not isinstance(span, Last):
        return None
    start_us, end_us = resolved.span_us
    alarms = resolved.view.alarms
    if alarms is not None and alarms.since_us is not None:
        grid = grid_of(resolved.view)
        if alarms.reference_us[0] >= grid.oldest_us:
            reference_us = grid.snapped(*alarms.reference_us)
            if reference_us[1] < end_us:
                window = resolved
                if reference_us[1] > start_us:
                    window = _between(resolved, reference_us[1], end_us)
                reference = _between(resolved, *reference_us)
                return ComparedTimes(overview_pb2.CHANGE_REFERENCE_ALARMS, window, reference)
    before = _between(resolved, max(0, start_us - span.span_us), start_us)
    return ComparedTimes(overview_pb2.CHANGE_REFERENCE_WINDOW_BEFORE, resolved, before)


def _between(resolved: ResolvedSelection, start_us: int, end_us: int) -> ResolvedSelection:
    """Return another time of the same view; empty where it ends before it begins."""
    if end_us <= start_us:
        return resolved.of_panes((), (start_us, start_us))
    chosen = Selection(resolved.selection.stream, Between(start_us, end_us))
    return resolve(chosen, resolved.view, resolved.now_us)


def valid_until_us(resolved: ResolvedSelection, times: ComparedTimes | None) -> int:
    """Return until when the same panes are in a window, and in what it is compared with.

    That is for a stream that does not change: time alone moves the window's ends. O(panes).
    """
    span = resolved.selection.span
    if isinstance(span, AllTime) or resolved.span_us is None:
        return _NEVER_US
    assert isinstance(span, Last)
    # A pane leaves the window when the window begins after it.
    leave_us = [pane.end_us + span.span_us for pane in resolved.panes[:1]]
    if times is not None and times.kind == overview_pb2.CHANGE_REFERENCE_WINDOW_BEFORE:
        leave_us += [pane.end_us + 2 * span.span_us for pane in times.reference.panes[:1]]
    # Rows that are dated ahead of the clock enter it later.
    end_us = resolved.span_us[1]
    leave_us += [pane.start_us for pane in resolved.slice.panes if pane.start_us >= end_us]
    return min(leave_us, default=_NEVER_US)


def add_change(
    message: overview_pb2.StreamSummary, engine: QueryEngine, times: ComparedTimes, level: float
) -> None:
    """Add the change of `HEADLINE`, at one prevalence. O(cells)."""
    window, reference = engine.window(times.window), engine.window(times.reference)
    found = compare(window, reference, metric=HEADLINE, level=level)
    change = comparison_message((times.window, window), (times.reference, reference), found)
    message.change.CopyFrom(change)
    message.compared_with = times.kind
    if math.isnan(found.difference):
        message.no_change = _absence(window, "the window") or _absence(
            reference, _REFERENCES[times.kind]
        )


def _absence(window: Window, name: str) -> str:
    """Return in words what a time lacks for a comparison; empty if nothing."""
    positives, negatives = window.num_positive_ref, window.num_negative_ref
    if not positives and not negatives:
        return f"{name} has no labelled case"
    if not positives:
        return f"{name} has no positive case"
    return "" if negatives else f"{name} has no negative case"
