"""GetDecision: what a threshold does, and which threshold reaches a target.

Cost: O(log(cells)) after the operating points or the hull, which are cached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval import InvalidInputError
from streameval.kernel import state_of
from streameval.statistics import ErrorCosts, Place
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import invalid
from streameval_server._queries.metrics import (
    checked_level,
    known_arguments,
    point_message,
    point_metric,
    reason_value,
    requested_costs,
)
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.selection import Selection, parse_selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval import Confusion, Window
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._queries.query_engine import QueryEngine

_FIELDS = {
    "cost_fp": "costs.false_positive",
    "cost_fn": "costs.false_negative",
}
"""The message's field for a parameter of the library, where the names differ."""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A checked GetDecisionRequest. Equal requests have one answer.

    Attributes
    ----------
    selection : Selection
    kind : str
        ``threshold``, ``costs``, ``precision``, ``recall``, ``fpr`` or ``flagged_share``.
    values : tuple of float
        One, or the two costs.
    level : float
        Nominal coverage of the intervals.
    costs : ErrorCosts or None
        Costs of errors, for the answer's expected cost; None takes the costs that the stream
        declares.
    """

    selection: Selection
    kind: str
    values: tuple[float, ...]
    level: float
    costs: ErrorCosts | None = None


def parse_decision_request(request: query_pb2.GetDecisionRequest) -> DecisionRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    kind = request.WhichOneof("wanted")
    if kind is None:
        raise invalid(
            "threshold", "set one of threshold, costs, precision, recall, fpr and flagged_share"
        )
    if kind == "costs":
        values: tuple[float, ...] = (request.costs.false_positive, request.costs.false_negative)
    else:
        values = (getattr(request, kind),)
    level, costs = checked_level(request.level), requested_costs(request)
    return DecisionRequest(parse_selection(request.selection), kind, values, level, costs)


def decision(engine: QueryEngine, request: DecisionRequest) -> query_pb2.GetDecisionResponse:
    """Return the threshold and what it does.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for an invalid threshold, rate or cost.
    """
    resolved = engine.resolve(request.selection)
    window, coverage = engine.window(resolved), engine.coverage(resolved)
    response = query_pb2.GetDecisionResponse(
        revision=resolved.view.revision,
        window=range_message(resolved),
        coverage=coverage,
        resolution=window.resolution,
        warnings=engine.warnings(resolved, window.resolution, coverage),
    )
    try:
        threshold = _threshold(window, request)
        if math.isnan(threshold):
            response.undefined_reason = _reason(window, request.kind)
        else:
            costs = _costs(request, resolved.view.info.settings)
            _add_counts(response, window, threshold, costs)
            response.metrics.extend(_metrics(window, request, threshold, costs))
    except InvalidInputError as error:
        field = error.field or request.kind
        raise invalid(_FIELDS.get(field, field), str(error)) from error
    return response


def _costs(request: DecisionRequest, declared: StreamSettings) -> ErrorCosts | None:
    """Return what errors cost in the answer; None where nothing says it."""
    if request.costs is None and request.kind == "costs":
        return ErrorCosts(*request.values)
    return declared.costs if request.costs is None else request.costs


def _threshold(window: Window, request: DecisionRequest) -> float:
    """Return the requested threshold; nan when there is none."""
    (first, *rest) = request.values
    match request.kind:
        case "threshold":
            return window.confusion_at(first).threshold
        case "costs":
            return window.best_threshold(cost_fp=first, cost_fn=rest[0])
        case "precision":
            return window.threshold_for(precision=first)
        case "recall":
            return window.threshold_for(recall=first)
        case "fpr":
            return window.threshold_for(fpr=first)
        case _:
            return window.threshold_for(flagged_share=first)


def _reason(window: Window, kind: str) -> types_pb2.UndefinedReason.ValueType:
    """Return why there is no threshold; unspecified when none reaches the target."""
    positives, negatives = window.num_positive_ref, window.num_negative_ref
    needed = {
        "costs": (positives, negatives),
        "fpr": (negatives,),
        "flagged_share": (positives + negatives,),
    }.get(kind, (positives,))
    if all(needed):
        return types_pb2.UndefinedReason.UNDEFINED_REASON_UNSPECIFIED
    return reason_value(window)


def _numbers_of_cases(window: Window, found: Confusion) -> tuple[int, int, int, int]:
    """Return TP, FP, FN and TN, each case counted once whatever it weighs. O(n)."""
    weighted = state_of(window).weighted
    if weighted is None:
        return int(found.tp), int(found.fp), int(found.fn), int(found.tn)
    counts = []
    for label, missed in ((True, window.num_misses), (False, window.num_negative_misses)):
        run = weighted.run(label)
        called = int(run.cases[run.scores >= found.threshold].sum())
        # The lowest threshold calls the misses positive too.
        called += missed if found.threshold == -math.inf else 0
        counts.append((called, int(run.cases.sum()) + missed - called))
    (tp, fn), (fp, tn) = counts
    return tp, fp, fn, tn


def _add_counts(
    response: query_pb2.GetDecisionResponse,
    window: Window,
    threshold: float,
    costs: ErrorCosts | None,
) -> None:
    """Put the threshold and its counts into the response."""
    found = window.confusion_at(threshold)
    response.threshold = found.threshold
    tp, fp, fn, tn = _numbers_of_cases(window, found)
    response.tp, response.fp, response.fn, response.tn = tp, fp, fn, tn
    if state_of(window).weighted is not None:
        response.weighted.CopyFrom(point_message(window, found.threshold, found.threshold, costs))


def _metrics(
    window: Window, request: DecisionRequest, threshold: float, costs: ErrorCosts | None
) -> Iterator[types_pb2.Metric]:
    """Yield the rates, and the cost where costs are known, with their intervals.

    A threshold that was chosen on these cases has values without intervals.
    """
    for name in Place.DECISION.names(known_arguments(costs)):
        message = point_metric(window, name, threshold, costs, level=request.level)
        if request.kind != "threshold" and message.HasField("interval"):
            message.interval.ClearField("lower")
            message.interval.ClearField("upper")
            message.interval.undefined_reason = (
                types_pb2.UndefinedReason.UNDEFINED_REASON_CHOSEN_ON_SAME_CASES
            )
        yield message
