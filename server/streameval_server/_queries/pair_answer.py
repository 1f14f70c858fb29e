"""Comparisons of pairs as messages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval import InvalidInputError
from streameval.statistics import ComparedPair
from streameval.v1 import pair_pb2, types_pb2
from streameval_server._model.alarm_settings import time_range
from streameval_server._model.errors import invalid
from streameval_server._queries.metrics import interval_message
from streameval_server._queries.pair_window import check_pair_key, resolve_pair
from streameval_server._queries.selection import Last, LastCases, iso
from streameval_server._state.pairs.pair_state import compare_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval import Comparison, Interval
    from streameval.statistics import PairCounts
    from streameval_server._queries.pair_request import PairQuestion
    from streameval_server._queries.pair_window import PairWindow
    from streameval_server._state.pairs.pair_view import PairView

MAX_SEGMENTS = 100
MAX_STEPS = 500

_LEVEL_OF_EVIDENCE = 0.95
_MAX_GROWTH = 100.0
"""Beyond this many times as many labels a difference says nothing of how many it takes."""
_MIN_SHARED_SHARE = 0.5
"""Below this share of ids with both predictions an answer warns."""

_REFUSALS = {
    "TOO_FEW": pair_pb2.PAIR_REFUSAL_TOO_FEW_LABELS,
    "TOO_FEW_CLUSTERS": pair_pb2.PAIR_REFUSAL_TOO_FEW_CLUSTERS,
    "TOO_FEW_EFFECTIVE": pair_pb2.PAIR_REFUSAL_TOO_FEW_EFFECTIVE,
    "GRID_TOO_COARSE": pair_pb2.PAIR_REFUSAL_GRID_TOO_COARSE,
}
_NO_LIMITS = {
    "TOO_FEW_CLUSTERS": types_pb2.UNDEFINED_REASON_TOO_FEW_CLUSTERS,
    "TOO_FEW_EFFECTIVE": types_pb2.UNDEFINED_REASON_TOO_FEW_EFFECTIVE,
    "GRID_TOO_COARSE": types_pb2.UNDEFINED_REASON_TOO_COARSE,
}
_NO_LABELS = "no answer: no id that both have scored has a label yet: wait, or label some"


def pair_comparison(
    view: PairView, question: PairQuestion, clock_us: int
) -> pair_pb2.GetPairComparisonResponse:
    """Answer a request for one comparison. O(entries log entries), for each segment too."""
    window = resolve_pair(question.selection, view, clock_us)
    response = pair_pb2.GetPairComparisonResponse(comparison=_message(window, question))
    if question.by_segment:
        check_pair_key(question.by_segment, view, "by_segment")
        names = [segment for segment in view.names if segment[0] == question.by_segment]
        parts = [window.of_segment(segment) for segment in names]
        parts = sorted((part for part in parts if any(part.seen())), key=lambda p: -p.seen()[2])
        response.segments.extend(_message(part, question) for part in parts[:MAX_SEGMENTS])
        if len(parts) > MAX_SEGMENTS:
            response.comparison.compared.warnings.append(
                f"{MAX_SEGMENTS} of {len(parts):,} values of {question.by_segment} are compared, "
                "the ones with the most shared ids: ask for another one by selection.segment "
                f"(--segment {question.by_segment}=VALUE)"
            )
    return response


def pair_series(
    view: PairView, question: PairQuestion, clock_us: int
) -> pair_pb2.ListPairComparisonsResponse:
    """Answer a request for a series. O(entries log entries) a step.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for too many steps.
    """
    window = resolve_pair(question.selection, view, clock_us)
    assert window.span_us is not None
    if (window.span_us[1] - window.span_us[0]) // question.step_us > MAX_STEPS:
        raise invalid("step", f"the span has more than {MAX_STEPS} steps: choose a longer step")
    steps = window.steps(question.step_us, cumulative=question.cumulative)
    return pair_pb2.ListPairComparisonsResponse(
        comparisons=[_message(step, question) for step in steps], revision=view.revision
    )


def _message(window: PairWindow, question: PairQuestion) -> pair_pb2.PairComparison:
    view, cases = window.view, window.cases()
    info = view.info
    prevalence = question.prevalence_in(info.settings)
    message = pair_pb2.PairComparison(a=info.a, b=info.b, coverage=_coverage(window, cases))
    found = message.compared
    found.revision = view.revision
    if prevalence is not None:
        found.prevalence = prevalence
    if window.span_us is not None:
        for span in (found.window_a, found.window_b):
            span.CopyFrom(time_range(window.span_us))
    if window.segment is not None:
        message.segment.key, message.segment.value = window.segment
    message.in_cells = cases.grid.cuts is not None
    found.warnings.extend(_warnings(window, message.coverage, question))
    thresholds = window.counts.thresholds
    if thresholds[0] is not None and thresholds[1] is not None:
        at = (thresholds[0], thresholds[1])
        message.disagreement.CopyFrom(_disagreement(cases, at))
    try:
        least = info.settings.min_label_probability
        compared = compare_counts(cases, question.metric, prevalence, least)
    except InvalidInputError as error:
        raise invalid(error.field or "metric", str(error)) from None
    _fill(message, compared, question.level, cases.num_cases)
    if window.span_us is None and window.segment is None:
        _fill_decision(message, view, question, prevalence)
    return message


def _fill(
    message: pair_pb2.PairComparison, compared: ComparedPair, level: float, cases: int
) -> None:
    """Set figures, evidence, verdict and refusal."""
    fixed = compared.comparison(level, anytime=False)
    always = compared.comparison(level, anytime=True)
    found = message.compared
    found.warnings.extend(
        f"{each}, on both streams before the pair is made" for each in fixed.warnings
    )
    found.a.CopyFrom(_figure(fixed.a, fixed.metric))
    found.b.CopyFrom(_figure(fixed.b, fixed.metric))
    found.difference.CopyFrom(_difference(fixed, compared.difference.design_effect))
    message.anytime.CopyFrom(_limits(always, compared.difference.design_effect))
    if not math.isnan(fixed.p_value):
        found.p_value = fixed.p_value
    decision = compared.comparison(_LEVEL_OF_EVIDENCE, anytime=True)
    growth = compared.growth_to_decide()
    names = (message.a, message.b)
    message.sentence = compared.verdict(decision, cases, names, noun="shared ids")
    if fixed.reason is not None:
        message.refusal = _REFUSALS[fixed.reason]
        if not cases:
            message.refusal, message.sentence = pair_pb2.PAIR_REFUSAL_NO_LABELS, _NO_LABELS
        message.reason = message.sentence.removeprefix("no answer: ")
        return
    e_value = decision.e_value
    if e_value is None or math.isnan(e_value):
        message.verdict = pair_pb2.PAIR_VERDICT_TOO_EARLY
        return
    message.e_value = e_value
    if e_value >= ComparedPair.DECIDING_E_VALUE:
        a_is_better = decision.difference > 0
        message.verdict = (
            pair_pb2.PAIR_VERDICT_A_BETTER if a_is_better else pair_pb2.PAIR_VERDICT_B_BETTER
        )
        return
    message.verdict = pair_pb2.PAIR_VERDICT_NOT_DECIDED
    if growth <= _MAX_GROWTH:
        message.labels_needed = math.ceil((growth - 1) * cases)


def _fill_decision(
    message: pair_pb2.PairComparison,
    view: PairView,
    question: PairQuestion,
    prevalence: float | None,
) -> None:
    """Set since when it is decided, if that is what was looked at."""
    evidence = view.evidence.get(question.metric)
    is_decided = message.verdict in {
        pair_pb2.PAIR_VERDICT_A_BETTER,
        pair_pb2.PAIR_VERDICT_B_BETTER,
    }
    is_usual = prevalence == question.usual_prevalence(view.info.settings)
    if not is_decided or evidence is None or not is_usual:
        return
    if evidence.a_is_better == (message.verdict == pair_pb2.PAIR_VERDICT_A_BETTER):
        message.decided_since.FromMicroseconds(evidence.since_us)
        message.sentence += f"; the evidence has been sufficient since {iso(evidence.since_us)}"


def _figure(interval: Interval, metric: str) -> types_pb2.Metric:
    message = types_pb2.Metric(name=metric)
    if math.isnan(interval.estimate):
        message.undefined_reason = types_pb2.UNDEFINED_REASON_TOO_FEW
        message.interval.undefined_reason = types_pb2.UNDEFINED_REASON_TOO_FEW
        message.interval.level = interval.level
        return message
    message.value = interval.estimate
    message.interval.CopyFrom(interval_message(interval))
    return message


def _difference(found: Comparison, design_effect: float) -> types_pb2.Metric:
    message = types_pb2.Metric(name=found.metric)
    if math.isnan(found.difference):
        message.undefined_reason = types_pb2.UNDEFINED_REASON_TOO_FEW
    else:
        message.value = found.difference
    message.interval.CopyFrom(_limits(found, design_effect))
    return message


def _limits(found: Comparison, design_effect: float) -> types_pb2.Interval:
    message = types_pb2.Interval(level=found.level, anytime=found.anytime)
    if math.isnan(found.lower):
        message.undefined_reason = _NO_LIMITS.get(
            found.reason or "", types_pb2.UNDEFINED_REASON_TOO_FEW
        )
        return message
    message.lower, message.upper = found.lower, found.upper
    if design_effect > 1:
        message.design_effect = design_effect
    return message


def _coverage(window: PairWindow, cases: PairCounts) -> pair_pb2.PairCoverage:
    a, b, both = window.seen()
    message = pair_pb2.PairCoverage(
        predictions_a=a,
        predictions_b=b,
        shared=both,
        labelled=cases.num_cases,
        positives=cases.num_positives,
        negatives=cases.num_negatives,
    )
    if a + b - both:
        message.shared_share = both / (a + b - both)
    return message


def _disagreement(cases: PairCounts, at: tuple[float, float]) -> pair_pb2.Disagreement:
    flags = cases.grid.counted().flags(at)
    both, only_a, only_b, neither = flags.positives
    both_not, only_a_not, only_b_not, neither_not = flags.negatives
    total = sum(flags.positives) + sum(flags.negatives)
    a_right, b_right = only_a + only_b_not, only_b + only_a_not
    message = pair_pb2.Disagreement(
        threshold_a=at[0],
        threshold_b=at[1],
        both_flag_positives=both,
        both_flag_negatives=both_not,
        only_a_positives=only_a,
        only_a_negatives=only_a_not,
        only_b_positives=only_b,
        only_b_negatives=only_b_not,
        neither_positives=neither,
        neither_negatives=neither_not,
        a_right=a_right,
        b_right=b_right,
        is_approximate=flags.is_approximate,
    )
    if total:
        message.share = (a_right + b_right) / total
    return message


def _warnings(
    window: PairWindow, coverage: pair_pb2.PairCoverage, question: PairQuestion
) -> Iterator[str]:
    if window.is_clipped and window.span_us is not None:
        yield f"nothing is kept from before {iso(window.span_us[0])}: retention has passed"
    if coverage.HasField("shared_share") and coverage.shared_share < _MIN_SHARED_SHARE:
        yield (
            f"only {100 * coverage.shared_share:.1f} % of the ids have both predictions: the "
            "figures are of these ids alone"
        )
    left_out = window.view.counters.weighted_labels
    if left_out:
        yield (
            f"{left_out:,} labels with a weight or a label probability are left out: "
            "they weigh over 2**45 together"
        )
    if isinstance(question.selection.span, Last | LastCases):
        yield (
            "the evidence at all looks holds for all time and for a window with a fixed start; "
            "this window moves"
        )
    if window.view.info.settings.expired_negative:
        yield "ids without a label count as negative when they expire"
