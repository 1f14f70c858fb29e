"""GetHistogram: how the scores of each class are distributed, in exact counts.

Cost: O(cells + bins log(cells)).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval.v1 import query_pb2
from streameval_server._model.errors import invalid
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.selection import Selection, parse_selection

if TYPE_CHECKING:
    from streameval._common import FloatArray, IntArray
    from streameval_server._queries.query_engine import QueryEngine

DEFAULT_BINS = 40
MAX_BINS = 500


@dataclass(frozen=True, slots=True)
class HistogramRequest:
    """A checked GetHistogramRequest. Equal requests have one answer.

    Attributes
    ----------
    selection : Selection
    bins : int
    lower, upper : float or None
        None means the lowest, the highest score.
    """

    selection: Selection
    bins: int
    lower: float | None
    upper: float | None


def parse_histogram_request(request: query_pb2.GetHistogramRequest) -> HistogramRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    if request.bins > MAX_BINS:
        raise invalid("bins", f"bins must be at most {MAX_BINS}, got {request.bins}")
    limits: dict[str, float | None] = {"lower": None, "upper": None}
    for name in limits:
        if request.HasField(name):  # type: ignore[arg-type]  # one of its fields
            limits[name] = value = getattr(request, name)
            if not math.isfinite(value):
                raise invalid(name, f"{name} must be finite, got {value}")
    lower, upper = limits["lower"], limits["upper"]
    if lower is not None and upper is not None and lower >= upper:
        raise invalid("upper", f"upper must be above lower, got {lower:g} and {upper:g}")
    return HistogramRequest(
        parse_selection(request.selection), request.bins or DEFAULT_BINS, lower, upper
    )


def histogram(engine: QueryEngine, request: HistogramRequest) -> query_pb2.GetHistogramResponse:
    """Return the counts of each bin."""
    resolved = engine.resolve(request.selection)
    window = engine.window(resolved)
    points, coverage = window.operating_points(), engine.coverage(resolved)
    # In order of rising scores, without the first point (0, 0) and the last one, of misses.
    scored = np.isfinite(points.thresholds)[::-1]
    scores = points.thresholds[::-1][scored]
    positives = np.diff(points.tp, prepend=0)[::-1][scored]
    negatives = np.diff(points.fp, prepend=0)[::-1][scored]
    response = query_pb2.GetHistogramResponse(
        revision=resolved.view.revision,
        num_misses=window.num_misses,
        num_negative_misses=window.num_negative_misses,
        window=range_message(resolved),
        coverage=coverage,
        resolution=window.resolution,
        warnings=engine.warnings(resolved, window.resolution, coverage),
    )
    edges = _edges(scores, request)
    if edges is not None:
        response.edges.extend(edges.tolist())
        _count(response, "positives", positives, scores, edges)
        _count(response, "negatives", negatives, scores, edges)
    return response


def _edges(scores: FloatArray, request: HistogramRequest) -> FloatArray | None:
    """Return the edges of the bins; None without scores and without both limits."""
    lower, upper = request.lower, request.upper
    if scores.size == 0 and (lower is None or upper is None):
        return None
    # A limit of the request may lie beyond all scores.
    first = lower if lower is not None else min(float(scores[0]), _below(upper))
    last = upper if upper is not None else max(float(scores[-1]), _above(lower))
    if first == last:
        first, last = _below(first), _above(last)
    # Halved first, because the difference of two finite numbers may be infinite.
    edges = 2 * np.linspace(first / 2, last / 2, request.bins + 1)
    edges[0], edges[-1] = first, last
    return edges


def _below(limit: float | None) -> float:
    """Return a number below a limit, by half a unit or by one float step; inf for None."""
    if limit is None:
        return math.inf
    return max(min(limit - 0.5, math.nextafter(limit, -math.inf)), -sys.float_info.max)


def _above(limit: float | None) -> float:
    return -math.inf if limit is None else -_below(-limit)


def _count(
    response: query_pb2.GetHistogramResponse,
    name: str,
    counts: IntArray,
    scores: FloatArray,
    edges: FloatArray,
) -> None:
    """Put a class's counts into the answer; all arithmetic is in integers."""
    before = np.concatenate(([0], np.cumsum(counts)))
    at = np.searchsorted(scores, edges)
    at[-1] = np.searchsorted(scores, edges[-1], side="right")
    getattr(response, name).extend(np.diff(before[at]).tolist())
    setattr(response, f"{name}_below", int(before[at[0]]))
    setattr(response, f"{name}_above", int(before[-1] - before[at[-1]]))
