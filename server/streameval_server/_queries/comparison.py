"""CompareStreams: the difference of two selections, with its interval and p-value.

The two sides must share no case. Their names alone decide which ones do:

==================  =====================================================
different streams   share none (one model against another on the same ids
                    is a pair: see `PairedEvaluator`)
same stream         by segment: the whole contains each slice; two values of
                    one key share none; slices of two keys may share any
                    by time: whole panes are the same, one within the other,
                    apart, or overlapping; all time contains every window
==================  =====================================================

Where b contains a by segment and by time, a is compared with b without a: counts
are subtracted, not metrics. All other overlaps are refused, with both names.
Windows with a half-life hold weighted cases: b contains a only with the same
half-life.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import compare
from streameval.checks import quoted
from streameval.statistics import BY_NAME, HEADLINE, Place
from streameval.v1 import types_pb2
from streameval_server._model.errors import Code, RequestError, invalid
from streameval_server._queries.metrics import (
    bounds_message,
    checked_level,
    interval_message,
    lowest_score,
    reason_value,
    undefined_reason,
)
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.selection import Selection, iso, parse_selection

if TYPE_CHECKING:
    from streameval import Comparison, Interval, Window
    from streameval.statistics import ErrorCosts
    from streameval.v1 import query_pb2
    from streameval_server._queries.query_engine import QueryEngine
    from streameval_server._queries.resolved_selection import ResolvedSelection


class _Relation(enum.Enum):
    """Where side a lies relative to side b, by segment or by time."""

    SAME = enum.auto()
    WITHIN = enum.auto()
    AROUND = enum.auto()
    APART = enum.auto()
    CROSSING = enum.auto()


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """A checked CompareStreamsRequest; equal queries share one computation."""

    a: Selection
    b: Selection
    metric: str
    level: float
    prevalence: float
    own_prevalence: bool


def parse_comparison_request(request: query_pb2.CompareStreamsRequest) -> ComparisonRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    metric = checked_metric(request.metric)
    prevalence = request.prevalence
    if prevalence and not BY_NAME[metric].is_rescaled:
        raise invalid("prevalence", f"{metric} does not depend on a prevalence")
    if prevalence and not 0 < prevalence < 1:
        raise invalid("prevalence", f"prevalence must be between 0 and 1, got {prevalence:g}")
    if prevalence and request.own_prevalence:
        raise invalid("own_prevalence", "give a prevalence or own_prevalence, not both")
    return ComparisonRequest(
        parse_selection(request.a, "a"),
        parse_selection(request.b, "b"),
        metric,
        checked_level(request.level),
        prevalence,
        request.own_prevalence,
    )


def checked_metric(metric: str) -> str:
    """Return a metric that can be compared, `HEADLINE` for none; refuse another."""
    known = Place.RANKING.names()
    if metric and metric not in known:
        raise invalid("metric", f"metric must be one of {', '.join(known)}, got {quoted(metric)}")
    return metric or HEADLINE


def compared_thresholds(
    metric: str, *sides: tuple[ResolvedSelection, Window]
) -> tuple[float, float] | None:
    """Return where the rates of two sides are compared; None for a metric without threshold.

    Each side is compared at the threshold that its stream declares, in cells of its own.

    Raises
    ------
    RequestError
        FAILED_PRECONDITION where the stream declares none.
    """
    if not BY_NAME[metric].is_at_threshold:
        return None
    a, b = (lowest_score(window, declared_threshold(metric, side)) for side, window in sides)
    return a, b


def declared_threshold(metric: str, side: ResolvedSelection) -> float:
    """Return the threshold that a side's stream declares.

    Raises
    ------
    RequestError
        FAILED_PRECONDITION where it declares none.
    """
    info = side.view.info
    if info.settings.threshold is None:
        raise RequestError(
            Code.FAILED_PRECONDITION,
            f"stream {info.name} declares no threshold, and {metric} is a rate at one: set it "
            "with UpdateStream, or compare another figure",
            reason="NO_THRESHOLD",
        )
    return info.settings.threshold


def compared_costs(metric: str, *sides: ResolvedSelection) -> dict[str, float]:
    """Return the costs that the sides' streams declare, as `compare` takes them.

    Empty for a metric that needs none.

    Raises
    ------
    RequestError
        FAILED_PRECONDITION where a stream declares none, or they declare different ones: the
        difference would then be one of prices as well.
    """
    if not BY_NAME[metric].is_cost:
        return {}
    found: dict[str, ErrorCosts] = {}
    for info in (side.view.info for side in sides):
        costs = info.settings.costs
        if costs is None:
            raise RequestError(
                Code.FAILED_PRECONDITION,
                f"stream {info.name} declares no costs, and {metric} needs what errors cost: set "
                "cost_fp and cost_fn with UpdateStream, or compare another figure",
                reason="NO_COSTS",
            )
        found[info.name] = costs
    if len(set(found.values())) > 1:
        named = ", ".join(f"{name} {fp:g} and {fn:g}" for name, (fp, fn) in found.items())
        raise RequestError(
            Code.FAILED_PRECONDITION,
            "the streams declare different costs of a false positive and of a false negative "
            f"({named}): declare the same ones, or compare another figure",
            reason="COSTS_DIFFER",
        )
    (costs,) = set(found.values())
    return costs._asdict()


def comparison(engine: QueryEngine, query: ComparisonRequest) -> types_pb2.Comparison:
    """Return the difference.

    Raises
    ------
    RequestError
        FAILED_PRECONDITION where the sides overlap and b does not contain a.
    """
    a = engine.resolve(query.a, "a")
    of_one = query.b.stream == query.a.stream
    b = engine.resolve(query.b, "b", view=a.view if of_one else None)
    is_complement = of_one and _is_within(a, b)
    window_a, window_b = engine.window(a), engine.window(b)
    resolutions = window_a.resolution, window_b.resolution
    if is_complement:
        window_b = window_b.without(window_a)
    thresholds = compared_thresholds(query.metric, (a, window_a), (b, window_b))
    found = compare(
        window_a,
        window_b,
        metric=query.metric,
        level=query.level,
        prevalence="own" if query.own_prevalence else query.prevalence or "common",
        threshold=thresholds,
        **compared_costs(query.metric, a, b),
    )
    message = comparison_message((a, window_a), (b, window_b), found)
    message.complement = is_complement
    for side, of, resolution in zip("ab", (a, b), resolutions, strict=True):
        coverage = engine.coverage(of)
        if coverage is not None:
            getattr(message, f"coverage_{side}").CopyFrom(coverage)
        for kind, text in engine.warned(of, resolution, coverage):
            message.warnings.append(f"{side}: {text}")
            message.warning_kinds.append(kind)
        of_weights = getattr(found, side).weight_warning
        if of_weights is not None:
            message.warnings.append(f"{side}: {of_weights}")
            message.warning_kinds.append(types_pb2.WARNING_KIND_WEIGHTS_WITHOUT_BOUND)
    return message


def comparison_message(
    a: tuple[ResolvedSelection, Window], b: tuple[ResolvedSelection, Window], found: Comparison
) -> types_pb2.Comparison:
    """Return the difference of two sides as a message, without coverage and warnings."""
    roc = None if found.auc_roc is None else comparison_message(a, b, found.auc_roc)
    message = types_pb2.Comparison(
        revision=min(a[0].view.revision, b[0].view.revision),
        a=side_message(a[1], found.a, found),
        b=side_message(b[1], found.b, found),
        difference=difference_message(a[1], b[1], found),
        prevalence=found.prevalence,
        window_a=range_message(a[0]),
        window_b=range_message(b[0]),
        auc_roc=roc,
    )
    if not math.isnan(found.p_value):
        message.p_value = found.p_value
    return message


def _is_within(a: ResolvedSelection, b: ResolvedSelection) -> bool:
    """Whether b contains a; False where they share no case. Refuses every other overlap."""
    by_segment = _by_segment(a.selection.segment, b.selection.segment)
    by_time = _by_time(a.span_us, b.span_us)
    if _Relation.APART in {by_segment, by_time}:
        return False
    if by_segment is _Relation.SAME and by_time is _Relation.SAME:
        if a.half_life_us == b.half_life_us:
            raise _overlap("a and b are the same cases")
        raise _overlap("a and b are the same cases, weighted differently")
    if by_segment is _Relation.CROSSING:
        raise _overlap(
            f"slices of two keys may share cases: {_named(a)} and {_named(b)}; compare two "
            "values of one key, or one with the whole"
        )
    if by_time is _Relation.CROSSING:
        raise _overlap(
            f"a and b share some of their time: a is {_spanned(a)}, b is {_spanned(b)}; "
            "choose windows apart, or one within the other"
        )
    inside = {_Relation.SAME, _Relation.WITHIN}
    if not (by_segment in inside and by_time in inside):
        swapped = {_Relation.SAME, _Relation.AROUND}
        if by_segment in swapped and by_time in swapped:
            raise _overlap("a contains b: swap them, so that a is compared with the rest of b")
        raise _overlap(
            f"a and b share cases, and neither contains the other: a is {_named(a)} {_spanned(a)}, "
            f"b is {_named(b)} {_spanned(b)}"
        )
    if a.half_life_us != b.half_life_us:
        raise _overlap(
            "a and b share cases that they weight differently: give both the same half_life, "
            "or none"
        )
    return True


def _by_segment(a: tuple[str, str] | None, b: tuple[str, str] | None) -> _Relation:
    if a == b:
        return _Relation.SAME
    if b is None:
        return _Relation.WITHIN
    if a is None:
        return _Relation.AROUND
    return _Relation.APART if a[0] == b[0] else _Relation.CROSSING


def _by_time(a: tuple[int, int] | None, b: tuple[int, int] | None) -> _Relation:
    if a == b:
        return _Relation.SAME
    # All time contains every window, and the panes that retention has dropped.
    from_a, to_a = a or (-math.inf, math.inf)
    from_b, to_b = b or (-math.inf, math.inf)
    if to_a <= from_b or to_b <= from_a:
        return _Relation.APART
    if from_b <= from_a and to_a <= to_b:
        return _Relation.WITHIN
    if from_a <= from_b and to_b <= to_a:
        return _Relation.AROUND
    return _Relation.CROSSING


def _overlap(message: str) -> RequestError:
    return RequestError(Code.FAILED_PRECONDITION, message, reason="SELECTIONS_OVERLAP")


def _named(of: ResolvedSelection) -> str:
    segment = of.selection.segment
    return "the whole" if segment is None else f"{segment[0]}={segment[1]}"


def _spanned(of: ResolvedSelection) -> str:
    if of.span_us is None:
        return "of all time"
    return f"from {iso(of.span_us[0])} to {iso(of.span_us[1])}"


def side_message(window: Window, interval: Interval, found: Comparison) -> types_pb2.Metric:
    """Return one side's metric at the prevalence of the comparison."""
    message = types_pb2.Metric(name=found.metric)
    if math.isnan(interval.estimate):
        return _undefined(message, window, found)
    message.value = interval.estimate
    message.interval.CopyFrom(interval_message(interval))
    bounds = bounds_message(window, found.metric, prevalence=found.prevalence)
    if bounds is not None:
        message.bounds.CopyFrom(bounds)
    return message


def difference_message(a: Window, b: Window, found: Comparison) -> types_pb2.Metric:
    """Return a minus b with its interval; undefined where a side is."""
    message = types_pb2.Metric(name=found.metric)
    if math.isnan(found.difference):
        return _undefined(message, a if math.isnan(found.a.estimate) else b, found)
    message.value = found.difference
    message.interval.level = found.level
    if found.reason is not None:
        message.interval.undefined_reason = undefined_reason(found.reason)
    else:
        message.interval.lower, message.interval.upper = found.lower, found.upper
    return message


def _undefined(message: types_pb2.Metric, window: Window, found: Comparison) -> types_pb2.Metric:
    """Return a metric without a value, and so without an interval."""
    reason = reason_value(window)
    if window.num_positive_ref and window.num_negative_ref:
        # There are cases of both classes, but none that counts for the rate.
        reason = types_pb2.UndefinedReason.UNDEFINED_REASON_TOO_FEW
    message.undefined_reason = message.interval.undefined_reason = reason
    message.interval.level = found.level
    return message
