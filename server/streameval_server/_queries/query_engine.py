"""Windows and snapshots from views, each computed once while its panes stay the same.

Metrics are computed from immutable panes, so a cached answer is valid until one of its panes
is replaced by another object, whatever the log's revision is by then. The revision and the
warnings are added to each answer at the end.

Cost: an unchanged answer takes O(panes), below 0.3 ms for sixty; a new one takes a merge of
its panes and a pass for each metric, about 15 ms for sixty full ones, and 10 ms where only
one pane changes. Any thread may call it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import InvalidInputError, Window
from streameval.kernel import PartsCache, WindowCache, decayed_window, state_of
from streameval.statistics import Place
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.alarm_settings import time_range
from streameval_server._model.errors import Code, RequestError, invalid
from streameval_server._queries.convert import curve_message
from streameval_server._queries.coverage_answers import coverage_message
from streameval_server._queries.derived_answers import DerivedAnswers
from streameval_server._queries.metrics import (
    MetricSelection,
    dependence_warning_of,
    metric_messages,
    operating_point,
    select_metrics,
    weights_message,
)
from streameval_server._queries.projections import (
    AGE_STEP_US,
    LabelSource,
    check_projection,
    projection_message,
)
from streameval_server._queries.resolved_selection import empty_pane, resolve
from streameval_server._queries.selection import AllTime, Selection, parse_selection
from streameval_server._queries.stream_verdicts import Verdicts
from streameval_server._queries.warnings import warnings_of
from streameval_server._state.counting.coverage import EMPTY_COVERAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    from streameval_server._model.arrays import FloatArray, IntArray
    from streameval_server._queries.resolved_selection import ResolvedSelection
    from streameval_server._queries.warnings import Warned
    from streameval_server._state.views import StreamView, WaitingPredictions

MAX_CACHE_BYTES = 224 << 20
"""Memory of all caches: of windows and their unchanged parts two eighths, of what states keep of
answers two eighths, of answers four."""

_EIGHTHS = 8

TYPICAL_DELAY = 0.9
"""The quantile of label delays below which the age of a window counts as young."""


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A checked request for the metrics of a selection. Equal requests have one answer."""

    selection: Selection
    metrics: MetricSelection
    projection: bool = False


def parse_snapshot_request(
    request: query_pb2.GetSnapshotRequest | query_pb2.WatchSnapshotRequest,
) -> SnapshotRequest:
    """Check a request for the metrics of a selection.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    selection = parse_selection(request.selection)
    if request.anytime and not isinstance(selection.span, AllTime):
        raise invalid(
            "anytime",
            "anytime intervals hold only for counts since the stream was created: ask for all "
            "time, without a window",
        )
    metrics = select_metrics(request.metrics, level=request.level, anytime=request.anytime)
    projection = isinstance(request, query_pb2.GetSnapshotRequest) and request.projection
    if projection:
        check_projection(selection)
    return SnapshotRequest(selection, metrics, projection)


def snapshot(engine: QueryEngine, request: SnapshotRequest) -> types_pb2.Snapshot:
    """Return the metrics."""
    resolved = engine.resolve(request.selection)
    message = engine.snapshot(resolved, request.metrics)
    if request.projection:
        source = engine.labels(resolved)
        message.projection.CopyFrom(engine.projection(source, resolved, request.metrics.level))
    return message


class QueryEngine:
    """Computes answers.

    Parameters
    ----------
    view
        Returns a stream's view now; raises RequestError when there is no such stream.
    clock_us
        Returns the server's clock, in microseconds since 1970.
    check
        Called before each window is computed, with the distinct scores that it reads; raises
        to stop the computation.
    server_warnings
        Returns warnings about the server, which every answer has.
    waiting
        Returns a stream's view and its predictions that wait for their label, of one
        revision; only `waiting` needs it.
    max_cache_bytes
        The most that all caches may take, about.
    knows_panes
        Whether intervals say what the panes show of dependence between cases.
    verdicts
        The verdicts, which engines of one server share.
    """

    def __init__(
        self,
        view: Callable[[str], StreamView],
        clock_us: Callable[[], int],
        check: Callable[[int], None] = lambda _cells: None,
        *,
        server_warnings: Callable[[], list[str]] = list,
        waiting: Callable[[str], tuple[StreamView, WaitingPredictions]] | None = None,
        max_cache_bytes: int = MAX_CACHE_BYTES,
        knows_panes: bool = True,
        verdicts: Verdicts | None = None,
    ) -> None:
        self.verdicts = verdicts or Verdicts(clock_us)
        self._view = view
        self._clock_us = clock_us
        self._check = check
        self.server_warnings = server_warnings
        self._waiting = waiting
        share = max(max_cache_bytes // _EIGHTHS, 1)
        self._windows: WindowCache[Hashable] = WindowCache(share, knows_panes=knows_panes)
        self._derived = DerivedAnswers(2 * share)
        self._answers: PartsCache[Hashable, Any] = PartsCache(4 * share, _size)

    def view(self, stream: str) -> StreamView:
        """Return a stream's view now. Raises RequestError when there is no such stream."""
        return self._view(stream)

    def resolve(
        self, selection: Selection, path: str = "selection", view: StreamView | None = None
    ) -> ResolvedSelection:
        """Resolve a selection against the given view of its stream, or against its view now.

        Raises
        ------
        RequestError
            NOT_FOUND for the stream, INVALID_ARGUMENT for the segment's key.
        """
        return resolve(selection, view or self._view(selection.stream), self._clock_us(), path)

    def waiting(
        self, selection: Selection
    ) -> tuple[ResolvedSelection, Callable[[IntArray], list[bytes]], FloatArray]:
        """Return a resolved selection, and ids and scores of its waiting predictions. O(ids).

        Raises
        ------
        RequestError
            As `resolve`, and as the source of the predictions.
        """
        assert self._waiting is not None
        view, waiting = self._waiting(selection.stream)
        resolved = self.resolve(selection, view=view)
        return resolved, *waiting.select(resolved.span_us, selection.segment)

    @property
    def memory_bytes(self) -> int:
        """Memory of all caches, an upper bound. O(1), from any thread."""
        return (
            self._windows.memory_bytes
            + self._windows.partial_sums.memory_bytes
            + self._derived.memory_bytes
            + self._answers.memory_bytes
        )

    def window(self, resolved: ResolvedSelection) -> Window:
        """Return the counts of a selection. O(S log S), O(panes) while the panes stay the same.

        When only one pane changes, O(cells) of it and of the window.

        Raises
        ------
        RequestError
            RESOURCE_EXHAUSTED when the query exceeds its limits.
        """
        self._check(resolved.num_cells)
        least = resolved.view.info.settings.min_label_probability
        window = self._window(resolved).declaring(least)
        self._derived.use(state_of(window))
        whole = resolved.whole
        return window if whole is None else window.part_of(self.window(whole))

    def end(self) -> None:
        """Note that this thread has answered: what states keep of the answer is bounded now."""
        self._derived.end()

    def _window(self, resolved: ResolvedSelection) -> Window:
        span_us, states = resolved.span_us, [pane.state for pane in resolved.states]
        if span_us is None:
            return Window(
                resolved.slice.counts.state, resolved.view.info.create_us, resolved.now_us
            )
        half_life_us = resolved.half_life_us
        if half_life_us is not None:
            return self._windows.get(
                resolved.key, states, lambda: _decayed(resolved, half_life_us, now_us=span_us[1])
            )
        if len(states) <= 1:
            # The pane's own state, which caches what was computed from it.
            return Window(states[0] if states else state_of(empty_pane(resolved.view)), *span_us)
        return self._windows.sum(resolved.key, states, *span_us)

    def snapshot(
        self, resolved: ResolvedSelection, metrics: MetricSelection, *, hull: bool = True
    ) -> types_pb2.Snapshot:
        """Return the metrics of a selection, in a message that the caller may change."""
        chosen = metrics.at(resolved.view.info.settings)
        known = self._answers.get(
            ("snapshot", resolved.key, chosen, hull),
            resolved.parts,
            lambda: self._compute(resolved, chosen, hull=hull).SerializeToString(),
        )
        message = types_pb2.Snapshot.FromString(known)
        message.revision = resolved.view.revision
        if resolved.view.alarms is not None:
            message.open_alarms = resolved.view.alarms.num_open
        resolution = message.resolution if message.HasField("resolution") else None
        for kind, text in self.warned(resolved, resolution, message.coverage):
            message.warnings.append(text)
            message.warning_kinds.append(kind)
        return message

    def _compute(
        self, resolved: ResolvedSelection, metrics: MetricSelection, *, hull: bool
    ) -> types_pb2.Snapshot:
        message = self.figures(resolved, metrics, self.coverage(resolved))
        # A pane may keep coarse cells, by which panes are compared.
        for pane in resolved.states:
            self._derived.use(pane.state)
        text = dependence_warning_of(message.metrics)
        if text is not None:
            message.warnings.append(text)
            message.warning_kinds.append(types_pb2.WARNING_KIND_DEPENDENT_CASES)
        window = self.window(resolved)
        text = window.interval("prevalence").weight_warning
        if text is not None:
            message.warnings.append(text)
            message.warning_kinds.append(types_pb2.WARNING_KIND_WEIGHTS_WITHOUT_BOUND)
        if hull and state_of(window).P and state_of(window).N:
            message.hull.CopyFrom(curve_message(window.roc_hull()))
        return message

    def figures(
        self,
        resolved: ResolvedSelection,
        metrics: MetricSelection,
        coverage: types_pb2.Coverage | None,
    ) -> types_pb2.Snapshot:
        """Return the metrics and counts of a selection alone, with what a stream has declared.

        Not cached.
        """
        window = self.window(resolved)
        counted = window.counted
        message = types_pb2.Snapshot(
            revision=resolved.view.revision,
            stream=resolved.view.info.name,
            num_positive_ref=counted.num_positive_ref,
            num_negative_ref=counted.num_negative_ref,
            num_cases=counted.num_cases,
            num_scored=counted.num_scored,
            num_misses=counted.num_misses,
            num_negative_misses=counted.num_negative_misses,
            metrics=metric_messages(window, metrics),
            window=range_message(resolved),
            coverage=coverage,
            resolution=window.resolution,
            weights=weights_message(window),
        )
        if metrics.threshold is not None:
            point = operating_point(window, metrics.threshold, metrics.costs)
            message.operating_point.CopyFrom(point)
        if resolved.selection.segment is not None:
            message.segment.key, message.segment.value = resolved.selection.segment
        return message

    def labels(self, resolved: ResolvedSelection) -> LabelSource:
        """Return the labels by id of a selection's stream, for `projection`. O(1)."""
        return LabelSource(resolved.view, resolved.now_us, self._check)

    def projection(
        self,
        source: LabelSource,
        resolved: ResolvedSelection,
        level: float,
        names: tuple[str, ...] = Place.PROJECTION.names(),
    ) -> types_pb2.Projection:
        """Return what a selection will read once its labels are in.

        Cached while the panes, the delays and the minute stay the same.
        """
        age = source.now_us // AGE_STEP_US
        parts = [*resolved.parts, source.delays]

        def compute() -> bytes:
            window = self.window(resolved)
            found = projection_message(source, resolved, window, level=level, names=names)
            return found.SerializeToString()

        key = ("projection", resolved.key, level, names, age)
        return types_pb2.Projection.FromString(self._answers.get(key, parts, compute))

    def coverage(self, resolved: ResolvedSelection) -> types_pb2.Coverage | None:
        """Return how many predictions have their label; None without predictions by id."""
        parts = [resolved.slice.coverage]
        if resolved.span_us is not None:
            parts = [pane.coverage for pane in resolved.panes]
        empty = EMPTY_COVERAGE[resolved.view.info.settings.scale]
        parts = [part for part in parts if part is not empty]
        if not parts:
            return None

        def compute() -> bytes:
            message = coverage_message(parts)
            return b"" if message is None else message.SerializeToString()

        known = self._answers.get(("coverage", resolved.key), parts, compute)
        return types_pb2.Coverage.FromString(known) if known else None

    def warnings(
        self,
        resolved: ResolvedSelection,
        resolution: int | None,
        coverage: types_pb2.Coverage | None,
    ) -> list[str]:
        """Return the warnings about metrics that were computed at a resolution."""
        return [text for _, text in self.warned(resolved, resolution, coverage)]

    def warned(
        self,
        resolved: ResolvedSelection,
        resolution: int | None,
        coverage: types_pb2.Coverage | None,
    ) -> list[Warned]:
        """Return them with what each is about."""
        typical_us = None
        if coverage is not None and _many_pending(coverage):
            typical_us = self._answers.get(
                ("typical delay", resolved.selection.stream, resolved.selection.segment),
                [resolved.slice.coverage],
                lambda: next(iter(resolved.slice.coverage.delays.quantiles_us([TYPICAL_DELAY])), 0),
            )
        of_server = [(types_pb2.WARNING_KIND_SERVER, text) for text in self.server_warnings()]
        return of_server + warnings_of(resolved, resolution, typical_us)


def _size(answer: bytes | float) -> int:
    """Return the memory of an answer."""
    return len(answer) if isinstance(answer, bytes) else 0


def _many_pending(coverage: types_pb2.Coverage) -> bool:
    """Whether more than a tenth of the predictions have no label yet."""
    return 10 * coverage.pending > coverage.predictions - coverage.retracted


def _decayed(resolved: ResolvedSelection, half_life_us: int, *, now_us: int) -> Window:
    """Ages are measured from the window's end, so they change once per pane."""
    try:
        return decayed_window(
            resolved.states,
            half_life_us,
            now_us=now_us,
            empty=state_of(empty_pane(resolved.view)),
            # A slice is compared with the rest of the whole, so both have one form.
            has_weights=any(pane.state.weighted is not None for pane in resolved.view.whole.panes),
        )
    except InvalidInputError as error:
        raise RequestError(
            Code.FAILED_PRECONDITION,
            f"stream {resolved.view.info.name} holds too many references to weight them by age: "
            "ask without half_life",
            reason="TOO_MANY_TO_DECAY",
        ) from error


def range_message(resolved: ResolvedSelection) -> types_pb2.TimeRange | None:
    """Return the covered time; None for all time."""
    return None if resolved.span_us is None else time_range(resolved.span_us)


def newest_pane(view: StreamView) -> types_pb2.TimeRange | None:
    """Return the newest pane with any count; None when no pane is kept."""
    panes = view.whole.panes
    return time_range((panes[-1].start_us, panes[-1].end_us)) if panes else None
