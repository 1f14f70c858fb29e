"""Everything that a report says, computed at one revision and one time.

Cost: as GetSnapshot with a projection, GetCurve, GetHistogram, GetReliability, RankSegments and
ListWindows with at most 41 rows, of one window, and the last for each of the first segments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streameval.statistics import HEADLINE
from streameval.v1 import alarm_pb2, query_pb2, stream_pb2, types_pb2
from streameval_server._ingest.unary_call import info_message
from streameval_server._model.errors import RequestError
from streameval_server._queries.alarms import status_message
from streameval_server._queries.curves import CurveRequest, curve
from streameval_server._queries.falls import fall_message
from streameval_server._queries.histogram import HistogramRequest, histogram
from streameval_server._queries.metrics import MetricSelection
from streameval_server._queries.ranking import RankingRequest, ranking
from streameval_server._queries.reliability import ReliabilityRequest, reliability
from streameval_server._queries.selection import AllTime, Between, HalfLife, Selection
from streameval_server._queries.series import merged, part_of, spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.resolved_selection import ResolvedSelection

MAX_POINTS = 2_048
BINS = 40
RELIABILITY_BINS = 10
STEPS_S = (
    *(60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800),
)
TARGET_ROWS = 40
MAX_FALL_SEGMENTS = 6
MIN_FALL_POSITIVES = 20
"""Segments that are said to be lower since a time, and positives of a step: as on the page."""
MIN_POSITIVE_SHARE = 0.05
"""Below this share of positives the bins of calibration have equal counts, not equal widths."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The answers in a report, each as its call returned it.

    Attributes
    ----------
    stream : Stream
        With its settings.
    now : TimeRange
        Whose end is when the report was made.
    snapshot : Snapshot
        With the rates at a declared threshold.
    rows : tuple of Snapshot
        Steps of time, oldest first, from the first one with cases; empty with a half-life.
    curve, histogram
    reliability : GetReliabilityResponse or None
        None unless scores are on the probability scale.
    ranking : RankSegmentsResponse or None
    falls : tuple of Fall or None
        Since when each of the first segments of the ranking is lower. Ranking and falls are None
        for streams without segment keys.
    alarms : AlarmStatus or None
        None unless the stream declares alarms.
    projection : Projection or None
        None unless the window is of the whole stream and labels are still to come.
    """

    stream: stream_pb2.Stream
    now: types_pb2.TimeRange
    snapshot: types_pb2.Snapshot
    rows: tuple[types_pb2.Snapshot, ...]
    curve: query_pb2.GetCurveResponse
    histogram: query_pb2.GetHistogramResponse
    reliability: query_pb2.GetReliabilityResponse | None
    ranking: query_pb2.RankSegmentsResponse | None
    falls: tuple[query_pb2.Fall | None, ...]
    alarms: alarm_pb2.AlarmStatus | None
    projection: types_pb2.Projection | None

    @property
    def has_both_classes(self) -> bool:
        """Whether there are curves to draw."""
        return self.snapshot.num_positive_ref > 0 and self.snapshot.num_negative_ref > 0


def contents(engine: QueryEngine, selection: Selection, level: float) -> Contents:
    """Compute a report's answers.

    Raises
    ------
    RequestError
        As the calls.
    """
    engine = engine.pinned(selection.stream)
    resolved = engine.resolve(selection)
    view = resolved.view
    kinds = query_pb2.CurveKind
    snapshot = engine.snapshot(resolved, MetricSelection(level=level, is_default=True))
    now = types_pb2.TimeRange()
    now.end_time.FromMicroseconds(resolved.now_us)
    ranked = _ranking(engine, resolved, level)
    return Contents(
        stream=info_message(view.info),
        now=now,
        snapshot=snapshot,
        rows=tuple(_rows(engine, selection, resolved, level)),
        curve=curve(engine, CurveRequest(selection, kinds.CURVE_KIND_OPERATING_POINTS, MAX_POINTS)),
        histogram=histogram(engine, HistogramRequest(selection, BINS, None, None)),
        reliability=_reliability(engine, selection, snapshot, level),
        ranking=ranked,
        falls=tuple(_falls(engine, selection, ranked, level)),
        alarms=None if view.alarms is None else status_message(view.info, view.alarms),
        projection=_projection(engine, resolved, snapshot, level),
    )


def _projection(
    engine: QueryEngine, resolved: ResolvedSelection, snapshot: types_pb2.Snapshot, level: float
) -> types_pb2.Projection | None:
    selection = resolved.selection
    if isinstance(selection.span, AllTime | HalfLife) or selection.segment is not None:
        return None
    if not snapshot.coverage.pending:
        return None
    return engine.projection(engine.labels(resolved), resolved, level)


def _rows(
    engine: QueryEngine,
    selection: Selection,
    resolved: ResolvedSelection,
    level: float,
    min_positives: int = 0,
) -> Iterator[types_pb2.Snapshot]:
    """Yield the steps of the window; of all time, of the panes that are kept."""
    if isinstance(selection.span, HalfLife):
        return
    covered = resolved
    if resolved.span_us is None:
        whole = Between(0, resolved.now_us + 1)
        covered = engine.resolve(replace(selection, span=whole, mature_after_us=None))
    full = [pane for pane in covered.states if pane.state.P or pane.state.N]
    if not full:
        return
    assert covered.span_us is not None
    start_us, end_us = full[0].start_us, covered.span_us[1]
    target_s = (end_us - start_us) / 1e6 / TARGET_ROWS
    step_s = next((each for each in STEPS_S if each >= target_s), STEPS_S[-1])
    metrics = MetricSelection(names=(HEADLINE,), level=level)
    starts = [pane.start_us for pane in covered.panes]
    steps = spans(covered, step_s * 1_000_000, start_us)
    if min_positives:
        steps = merged(steps, covered, starts, min_positives)
    for span_us in steps:
        yield engine.snapshot(part_of(covered, starts, span_us), metrics, hull=False)


def _reliability(
    engine: QueryEngine, selection: Selection, snapshot: types_pb2.Snapshot, level: float
) -> query_pb2.GetReliabilityResponse | None:
    settings = engine.view(selection.stream).info.settings
    cases = snapshot.num_positive_ref + snapshot.num_negative_ref
    if settings.scale != "probability" or not cases:
        return None
    is_rare = snapshot.num_positive_ref < MIN_POSITIVE_SHARE * cases
    request = ReliabilityRequest(selection, RELIABILITY_BINS, "mass" if is_rare else "width", level)
    try:
        return reliability(engine, request)
    except RequestError:  # scores outside [0, 1] say nothing of calibration
        return None


def _ranking(
    engine: QueryEngine, resolved: ResolvedSelection, level: float
) -> query_pb2.RankSegmentsResponse | None:
    if not resolved.view.info.settings.segment_keys:
        return None
    whole = replace(resolved.selection, segment=None)
    return ranking(engine, RankingRequest(whole, "", HEADLINE, level))


def _falls(
    engine: QueryEngine,
    selection: Selection,
    ranked: query_pb2.RankSegmentsResponse | None,
    level: float,
) -> Iterator[query_pb2.Fall | None]:
    """Yield since when each of the first segments is lower, in steps of at least 20 positives."""
    for each in ranked.segments[:MAX_FALL_SEGMENTS] if ranked is not None else ():
        part = replace(selection, segment=(each.segment.key, each.segment.value))
        rows = list(_rows(engine, part, engine.resolve(part), level, MIN_FALL_POSITIVES))
        yield fall_message(rows, HEADLINE, level)
