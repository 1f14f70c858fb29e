"""Answers from views: windows and snapshots, each computed once while its panes stay the same.

What the figures were computed from are immutable panes, so an answer holds until
one of them is another object, whatever the log's revision is by then; the
revision and what people are warned of are put in at the end.

Cost: an unchanged answer O(panes), below 0.3 ms for sixty; a new one a merge of
its panes and a pass for each figure, about 28 ms for sixty full ones, and 10 ms
where one pane goes on changing. Any thread may ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval import InvalidInputError
from streameval._time import PartsCache, Window, WindowCache, decayed_window
from streameval.v1 import types_pb2
from streameval_server._model.errors import Code, RequestError
from streameval_server._queries.convert import curve_message
from streameval_server._queries.metrics import metric_messages
from streameval_server._queries.resolved_selection import applied, empty_pane
from streameval_server._queries.warnings import warnings_of
from streameval_server._state.coverage import PaneCoverage

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from streameval_server._queries.metrics import MetricSelection
    from streameval_server._queries.resolved_selection import ResolvedSelection
    from streameval_server._queries.selection import Selected
    from streameval_server._state.views import StreamView

MAX_WINDOW_CELLS = 1 << 21
"""Distinct scores that the windows kept for the next question may hold, with what did not
change of them: 240 MB at most."""

MAX_SNAPSHOT_BYTES = 64 << 20
"""Memory of the snapshots that are kept for the next question: some 25,000 small ones."""

_ENTRY_BYTES = 1_024
_BYTES_A_BYTE = 6
"""What a snapshot takes beside its message, and its message for each byte that is encoded."""

MAX_COVERAGES = 4096
"""Coverages that are kept for the next question, at about 1 KB."""

DELAY_QUANTILES = (0.5, 0.9, 0.99)

TYPICAL_DELAY = 0.9
"""The quantile of label delays within which a window counts as young."""


class Answers:
    """Computes answers.

    Parameters
    ----------
    view
        Returns a stream's view now; raises RequestError when there is no such stream.
    clock_us
        Returns the server's clock, in microseconds since 1970.
    check
        Called before each window is computed; may raise, to stop.
    """

    def __init__(
        self,
        view: Callable[[str], StreamView],
        clock_us: Callable[[], int],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._view = view
        self._clock_us = clock_us
        self._check = check
        self._windows: WindowCache[Hashable] = WindowCache(MAX_WINDOW_CELLS)
        self._snapshots: PartsCache[Hashable, types_pb2.Snapshot] = PartsCache(
            MAX_SNAPSHOT_BYTES, _memory_bytes
        )
        self._coverages: PartsCache[Hashable, types_pb2.Coverage | None] = PartsCache(
            MAX_COVERAGES, lambda _: 1
        )
        self._typical_delays: PartsCache[Hashable, float] = PartsCache(MAX_COVERAGES, lambda _: 1)

    def view(self, stream: str) -> StreamView:
        """Return a stream's view now. Raises RequestError when there is no such stream."""
        return self._view(stream)

    def applied(
        self, chosen: Selected, path: str = "selection", view: StreamView | None = None
    ) -> ResolvedSelection:
        """Apply a selection to its stream, to the given view or as it is now.

        Raises
        ------
        RequestError
            NOT_FOUND for the stream, INVALID_ARGUMENT for the segment's key.
        """
        return applied(chosen, view or self._view(chosen.stream), self._clock_us(), path)

    def window(self, of: ResolvedSelection) -> Window:
        """Return the counts of what is selected. O(S log S), O(panes) while they stay the same.

        Where one pane goes on changing, O(cells) of it and of the window.
        """
        self._check()
        span_us, states = of.span_us, [pane.state for pane in of.states]
        if span_us is None:
            return Window(of.slice.all_time._view(), of.view.info.create_us, of.now_us)
        half_life_us = of.half_life_us
        if half_life_us is not None:
            return self._windows.get(
                of.key, states, lambda: _decayed(of, half_life_us, now_us=span_us[1])
            )
        if len(states) <= 1:
            # As it is: what was computed from a pane stays with it.
            return Window(states[0] if states else empty_pane(of.view)._view(), *span_us)
        return self._windows.sum(of.key, states, *span_us)

    def snapshot(
        self, of: ResolvedSelection, asked: MetricSelection, *, hull: bool = True
    ) -> types_pb2.Snapshot:
        """Return the figures of what is selected, as a message of its own."""
        known = self._snapshots.get(
            (of.key, asked, hull), of.parts, lambda: self._figures(of, asked, hull=hull)
        )
        message = types_pb2.Snapshot()
        message.CopyFrom(known)
        message.revision = of.view.revision
        resolution = message.resolution if message.HasField("resolution") else None
        message.warnings.extend(self.warnings(of, resolution, message.coverage))
        return message

    def _figures(
        self, of: ResolvedSelection, asked: MetricSelection, *, hull: bool
    ) -> types_pb2.Snapshot:
        window = self.window(of)
        counted = window.counted
        message = types_pb2.Snapshot(
            stream=of.view.info.name,
            num_positive_ref=counted.num_positive_ref,
            num_negative_ref=counted.num_negative_ref,
            num_misses=counted.num_misses,
            num_negative_misses=counted.num_negative_misses,
            metrics=metric_messages(window, asked),
            window=range_message(of),
            coverage=self.coverage(of),
            resolution=window.resolution,
        )
        if hull and window._view().P and window._view().N:
            message.hull.CopyFrom(curve_message(window.roc_hull()))
        if of.selected.segment is not None:
            message.segment.key, message.segment.value = of.selected.segment
        return message

    def coverage(self, of: ResolvedSelection) -> types_pb2.Coverage | None:
        """Return how much of the truth has been seen; None without any predictions by id."""
        parts = [of.slice.coverage]
        if of.span_us is not None:
            parts = [pane.coverage for pane in of.panes]
        return self._coverages.get(of.key, parts, lambda: _coverage_message(parts))

    def warnings(
        self, of: ResolvedSelection, resolution: int | None, coverage: types_pb2.Coverage | None
    ) -> list[str]:
        """Return what to know before trusting figures that were made of a resolution."""
        typical_us = None
        if coverage is not None and _many_wait(coverage):
            typical_us = self._typical_delays.get(
                (of.selected.stream, of.selected.segment),
                [of.slice.coverage],
                lambda: of.slice.coverage.delays.quantile_us(TYPICAL_DELAY) or 0.0,
            )
        return warnings_of(of, resolution, typical_us)


def _memory_bytes(snapshot: types_pb2.Snapshot) -> int:
    """Return what it takes in memory, about."""
    return _ENTRY_BYTES + _BYTES_A_BYTE * snapshot.ByteSize()


def _many_wait(coverage: types_pb2.Coverage) -> bool:
    """Whether more than a tenth of the predictions wait for their labels."""
    return 10 * coverage.pending > coverage.predictions - coverage.retracted


def _decayed(of: ResolvedSelection, half_life_us: int, *, now_us: int) -> Window:
    """Ages count from the window's end, so that they change once a pane."""
    try:
        return decayed_window(
            of.states, half_life_us, now_us=now_us, empty=empty_pane(of.view)._view()
        )
    except InvalidInputError as error:
        raise RequestError(
            Code.FAILED_PRECONDITION,
            f"stream {of.view.info.name} holds too many references to weight them by age: "
            "ask without half_life",
            reason="TOO_MANY_TO_DECAY",
        ) from error


def range_message(of: ResolvedSelection) -> types_pb2.TimeRange | None:
    """Return the time that is covered; None for all time."""
    if of.span_us is None:
        return None
    message = types_pb2.TimeRange()
    message.start_time.FromMicroseconds(of.span_us[0])
    message.end_time.FromMicroseconds(of.span_us[1])
    return message


def _coverage_message(parts: Sequence[PaneCoverage]) -> types_pb2.Coverage | None:
    """O(panes), and a few milliseconds for the quantiles of delays."""
    coverage = PaneCoverage.merged(parts)
    counts = coverage.counts
    if not (counts.predictions or counts.orphans):
        return None
    message = types_pb2.Coverage(
        predictions=counts.predictions,
        labelled=counts.labelled,
        pending=counts.pending,
        expired=counts.expired,
        orphans=counts.orphans,
        retracted=counts.retracted,
    )
    if counts.predictions > counts.retracted:
        message.labelled_share = counts.labelled_share
    for band in coverage.bands():
        message.bands.add(
            lower=band.lower,
            upper=band.upper,
            predictions=band.predictions,
            labelled=band.labelled,
        )
    sketch = coverage.delays.sketch()
    for quantile in DELAY_QUANTILES:
        delay_us = sketch.get_quantile_value(quantile)
        if delay_us is not None:
            delay = message.delays.add(quantile=quantile)
            delay.delay.FromMicroseconds(round(delay_us))
    return message
