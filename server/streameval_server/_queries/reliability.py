"""GetReliability: whether the scores are probabilities, bin by bin and in all.

Cost: O(cells), cached in the state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from streameval import InvalidInputError
from streameval.statistics import Place, rate_limits
from streameval.v1 import query_pb2, types_pb2
from streameval_server._model.errors import Code, RequestError, invalid
from streameval_server._queries.metrics import checked_level, metric_messages, select_metrics
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.selection import Selection, parse_selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval import Window
    from streameval_server._queries.query_engine import QueryEngine

DEFAULT_BINS = 10
MAX_BINS = 100

_STRATEGIES: dict[int, Literal["width", "mass"]] = {
    query_pb2.RELIABILITY_BINS_UNSPECIFIED: "width",
    query_pb2.RELIABILITY_BINS_WIDTH: "width",
    query_pb2.RELIABILITY_BINS_MASS: "mass",
}


@dataclass(frozen=True, slots=True)
class ReliabilityRequest:
    """A checked GetReliabilityRequest. Equal requests have one answer."""

    selection: Selection
    bins: int
    strategy: Literal["width", "mass"]
    level: float


def parse_reliability_request(request: query_pb2.GetReliabilityRequest) -> ReliabilityRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    if request.bins > MAX_BINS:
        raise invalid("bins", f"bins must be at most {MAX_BINS}, got {request.bins}")
    strategy = _STRATEGIES.get(request.strategy)
    if strategy is None:
        raise invalid("strategy", f"strategy has the unknown value {request.strategy}")
    return ReliabilityRequest(
        parse_selection(request.selection),
        request.bins or DEFAULT_BINS,
        strategy,
        checked_level(request.level),
    )


def reliability(
    engine: QueryEngine, request: ReliabilityRequest
) -> query_pb2.GetReliabilityResponse:
    """Return the table, and the metrics of calibration.

    Raises
    ------
    RequestError
        FAILED_PRECONDITION where a score is outside [0, 1].
    """
    resolved = engine.resolve(request.selection)
    window, coverage = engine.window(resolved), engine.coverage(resolved)
    response = query_pb2.GetReliabilityResponse(
        revision=resolved.view.revision,
        window=range_message(resolved),
        coverage=coverage,
        resolution=window.resolution,
        warnings=engine.warnings(resolved, window.resolution, coverage),
    )
    try:
        response.bins.extend(_bins(window, request))
    except InvalidInputError as error:
        raise RequestError(
            Code.FAILED_PRECONDITION,
            f"scores of stream {resolved.view.info.name} are no probabilities: {error}",
            reason="NOT_PROBABILITIES",
        ) from error
    response.expected_positives = sum(each.cases * each.mean_score for each in response.bins)
    response.observed_positives = sum(each.positives for each in response.bins)
    chosen = select_metrics((*Place.CALIBRATION.names(), "brier_score"), level=request.level)
    response.metrics.extend(metric_messages(window, chosen))
    return response


def _bins(window: Window, request: ReliabilityRequest) -> Iterator[query_pb2.ReliabilityBin]:
    """Yield the bins that have cases, by score."""
    table = window.reliability(request.bins, strategy=request.strategy)
    for row, (lower, upper) in enumerate(rate_limits(window, table, request.level)):
        interval = types_pb2.Interval(level=request.level)
        if not math.isnan(lower):
            interval.lower, interval.upper = lower, upper
        yield query_pb2.ReliabilityBin(
            lower=table.lower[row],
            upper=table.upper[row],
            cases=table.counts[row],
            positives=table.positives[row],
            mean_score=table.mean_score[row],
            observed_rate=table.observed_rate[row],
            interval=interval,
        )
