"""RankSegments: slices ordered by their difference from the rest of the window, worst first.

Each slice is compared with the window without it, and the p-values are adjusted for multiple
comparisons (Holm 1979). Areas in precision-recall space are all at one prevalence, the greatest
of the ranked slices. Slices without references in the window are left out: they have no metrics
to compare.

Cost: for each slice two merges of its panes (the first for the prevalence; the second is cached
while it fits), a subtraction and a comparison, about 10 ms for a slice with full panes. Memory:
the windows of one slice at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import compare, holm
from streameval.kernel import state_of
from streameval.statistics import BY_NAME, common_prevalence
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import invalid
from streameval_server._queries.comparison import (
    checked_metric,
    compared_costs,
    compared_thresholds,
    declared_threshold,
    difference_message,
    side_message,
)
from streameval_server._queries.metrics import checked_level
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.resolved_selection import check_key
from streameval_server._queries.selection import Selection, parse_selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval import Window
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
    min_references: int = 0


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
        chosen,
        request.key,
        checked_metric(request.metric),
        checked_level(request.level),
        request.min_references,
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
    if BY_NAME[query.metric].is_at_threshold:
        declared_threshold(query.metric, whole)  # also where there are no slices yet
        compared_costs(query.metric, whole)
    chosen, num_left_out = _chosen(engine, query, whole)
    prevalence = None
    if chosen and BY_NAME[query.metric].is_rescaled:
        prevalence = common_prevalence(references for _, references in chosen)
    messages: list[query_pb2.RankedSegment] = []
    p_values: list[float] = []
    for of, _ in chosen:
        # The windows of one slice at a time: each rest is as large as the whole.
        message, p_value = _compared(engine, query, of, window, prevalence)
        messages.append(message)
        p_values.append(p_value)
    for message, p_value in zip(messages, holm(p_values).tolist(), strict=True):
        if not math.isnan(p_value):
            message.p_value = p_value
    coverage = engine.coverage(whole)
    warnings = engine.warnings(whole, window.resolution, coverage)
    text = window.interval("prevalence").weight_warning
    return query_pb2.RankSegmentsResponse(
        revision=whole.view.revision,
        segments=sorted(messages, key=_badness(query.metric)),
        window=range_message(whole),
        coverage=coverage,
        warnings=[*warnings, *([] if text is None else [text])],
        prevalence=prevalence,
        num_left_out=num_left_out,
    )


def _chosen(
    engine: QueryEngine, query: RankingRequest, whole: ResolvedSelection
) -> tuple[list[tuple[ResolvedSelection, tuple[int, int]]], int]:
    """Return the slices with references, P and N of each, and how many have too few."""
    chosen, num_left_out = [], 0
    for segment in _segments(whole.view, query.key):
        of = whole.of_segment(segment)
        part = engine.window(of)
        if min(part.num_positive_ref, part.num_negative_ref) < query.min_references:
            num_left_out += part.num_cases > 0
        elif part.num_cases:
            state = state_of(part)  # which has the weights
            chosen.append((of, (state.P, state.N)))
    return chosen, num_left_out


def _segments(view: StreamView, key: str) -> list[tuple[str, str]]:
    if key:
        check_key(key, view, "key")
    elif not view.info.settings.segment_keys:
        raise invalid("key", f"stream {view.info.name} declares no segment keys")
    keys = (key,) if key else view.info.settings.segment_keys
    return [(name, value) for name in keys for value in view.segments(name)]


def _compared(
    engine: QueryEngine,
    query: RankingRequest,
    of: ResolvedSelection,
    window: Window,
    prevalence: float | None,
) -> tuple[query_pb2.RankedSegment, float]:
    """Return a slice's message without its p-value, and that."""
    part = engine.window(of)
    rest = window.without(part)
    segment = of.selection.segment
    assert segment is not None
    found = compare(
        part,
        rest,
        metric=query.metric,
        level=query.level,
        prevalence="own" if prevalence is None else prevalence,
        threshold=compared_thresholds(query.metric, (of, part), (of, rest)),
        **compared_costs(query.metric, of),
    )
    message = query_pb2.RankedSegment(
        segment=types_pb2.Segment(key=segment[0], value=segment[1]),
        value=side_message(part, found.a, found),
        difference=difference_message(part, rest, found),
        num_positive_ref=part.num_positive_ref,
        num_negative_ref=part.num_negative_ref,
        coverage=engine.coverage(of),
    )
    return message, found.p_value


def _badness(metric: str) -> Callable[[query_pb2.RankedSegment], tuple[float, float, str, str]]:
    """Return the key that puts the worst first, by the limit that is nearer to the rest.

    Order by that limit of the difference, then the difference, then the name; slices
    without them come last.
    """
    better = BY_NAME[metric].better
    sign = -1 if better == "lower" else 1

    def key(message: query_pb2.RankedSegment) -> tuple[float, float, str, str]:
        difference, segment = message.difference, message.segment
        limits = difference.interval
        near = limits.lower if better == "lower" else limits.upper
        limit = sign * near if limits.HasField("upper") else math.inf
        value = sign * difference.value if difference.HasField("value") else math.inf
        return limit, value, segment.key, segment.value

    return key
