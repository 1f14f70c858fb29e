"""RankSegments: slices ordered by their difference from the rest of the window, worst first.

Each slice is compared with the window without it, at the window's prevalence,
and the p-values are adjusted for multiple comparisons (Holm 1979). Slices without
references in the window are left out: they have no metrics to compare.

Cost: for each slice a merge of its panes, a subtraction and a comparison, about
10 ms for a slice with full panes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from streameval._metric_registry import BY_NAME
from streameval._uncertainty import compare, holm
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import invalid
from streameval_server._queries.comparison import (
    checked_metric,
    common_prevalence,
    difference_message,
    side_message,
)
from streameval_server._queries.metrics import checked_level
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.resolved_selection import check_key
from streameval_server._queries.selection import Selection, parse_selection

if TYPE_CHECKING:
    from streameval._time import Window
    from streameval._uncertainty import Comparison
    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.resolved_selection import ResolvedSelection
    from streameval_server._state.views import StreamView


@dataclass(frozen=True, slots=True)
class RankingRequest:
    """A checked RankSegmentsRequest; equal queries share one computation."""

    chosen: Selection
    key: str
    metric: str
    level: float


class _SliceComparison(NamedTuple):
    """One slice and the rest of its window."""

    of: ResolvedSelection
    window: Window
    rest: Window
    found: Comparison


def parse_ranking_request(request: query_pb2.RankSegmentsRequest) -> RankingRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    chosen = parse_selection(request.selection)
    if chosen.segment is not None:
        raise invalid("selection.segment", "slices are ranked within the whole: leave segment out")
    return RankingRequest(
        chosen, request.key, checked_metric(request.metric), checked_level(request.level)
    )


def ranking(engine: QueryEngine, query: RankingRequest) -> query_pb2.RankSegmentsResponse:
    """Return the slices, worst first.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT when the key is not declared.
    """
    whole = engine.resolve(query.chosen)
    window = engine.window(whole)
    prevalence = common_prevalence(window) if BY_NAME[query.metric].is_rescaled else None
    ranked = []
    for segment in _segments(whole.view, query.key):
        of = whole.of_segment(segment)
        part = engine.window(of)
        if part.num_positive_ref or part.num_negative_ref:
            rest = window.without(part)
            found = compare(
                part,
                rest,
                metric=query.metric,
                level=query.level,
                prevalence="own" if prevalence is None else prevalence,
            )
            ranked.append(_SliceComparison(of, part, rest, found))
    p_values = holm([each.found.p_value for each in ranked]).tolist()
    messages = [
        _message(each, p_value, engine.coverage(each.of))
        for each, p_value in zip(ranked, p_values, strict=True)
    ]
    coverage = engine.coverage(whole)
    return query_pb2.RankSegmentsResponse(
        revision=whole.view.revision,
        segments=sorted(messages, key=_worst_first),
        window=range_message(whole),
        coverage=coverage,
        warnings=engine.warnings(whole, window.resolution, coverage),
    )


def _segments(view: StreamView, key: str) -> list[tuple[str, str]]:
    if key:
        check_key(key, view, "key")
    elif not view.info.settings.segment_keys:
        raise invalid("key", f"stream {view.info.name} declares no segment keys")
    keys = (key,) if key else view.info.settings.segment_keys
    return [(name, value) for name in keys for value in view.segments(name)]


def _message(
    ranked: _SliceComparison, p_value: float, coverage: types_pb2.Coverage | None
) -> query_pb2.RankedSegment:
    segment = ranked.of.selection.segment
    assert segment is not None
    message = query_pb2.RankedSegment(
        segment=types_pb2.Segment(key=segment[0], value=segment[1]),
        value=side_message(ranked.window, ranked.found.a, ranked.found),
        difference=difference_message(ranked.window, ranked.rest, ranked.found),
        num_positive_ref=ranked.window.num_positive_ref,
        num_negative_ref=ranked.window.num_negative_ref,
        coverage=coverage,
    )
    if not math.isnan(p_value):
        message.p_value = p_value
    return message


def _worst_first(message: query_pb2.RankedSegment) -> tuple[float, float, str, str]:
    """Order by the upper limit of the difference, then the difference, then the name."""
    difference, segment = message.difference, message.segment
    upper = difference.interval.upper if difference.interval.HasField("upper") else math.inf
    value = difference.value if difference.HasField("value") else math.inf
    return upper, value, segment.key, segment.value
