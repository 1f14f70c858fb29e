"""GetHistogram: how the scores of each class are distributed, in exact counts.

Cost: O(cells + bins log(cells)); with waiting predictions also O(ids).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval.kernel import state_of
from streameval.v1 import query_pb2
from streameval_server._model.errors import invalid
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.selection import HalfLife, Selection, parse_selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval import Window
    from streameval_server._model.arrays import FloatArray, IntArray
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
    waiting : bool
        Whether to count predictions that wait for their label.
    """

    selection: Selection
    bins: int
    lower: float | None
    upper: float | None
    waiting: bool


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
    selection = parse_selection(request.selection)
    if request.waiting and isinstance(selection.span, HalfLife):
        raise invalid(
            "selection.half_life", "waiting predictions have no weight: leave out half_life"
        )
    return HistogramRequest(selection, request.bins or DEFAULT_BINS, lower, upper, request.waiting)


def histogram(engine: QueryEngine, request: HistogramRequest) -> query_pb2.GetHistogramResponse:
    """Return the counts of each bin."""
    if request.waiting:
        resolved, _, waiting = engine.waiting(request.selection)
    else:
        resolved, waiting = engine.resolve(request.selection), None
    window = engine.window(resolved)
    coverage = engine.coverage(resolved)
    columns = list(_columns(window))
    if waiting is not None:
        columns.append(_ScoreColumn("waiting", np.sort(waiting), np.ones(waiting.size, np.int64)))
    ends = [column.scores[[0, -1]] for column in columns if column.scores.size]
    scores = np.sort(np.concatenate(ends)) if ends else np.empty(0)
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
        for column in columns:
            _count(response, column, edges)
    return response


class _ScoreColumn(NamedTuple):
    """What scores count, in a field of the answer and two more for what lies beyond the bins."""

    field: str
    scores: FloatArray
    counts: IntArray
    unit: int = 1
    """What the counts are multiples of: sums of weights are in units of 2**-16."""


def _columns(window: Window) -> Iterator[_ScoreColumn]:
    """Yield each class's scores, rising, with their cases, and with their weights if any."""
    view = state_of(window)
    for field, label in (("positives", True), ("negatives", False)):
        run = view.run(label)
        yield _ScoreColumn(field, run.scores, run.cases)
        if run.sums is not None:
            yield _ScoreColumn(f"weighted_{field}", run.scores, run.multiplicities(), view.unit)


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
    response: query_pb2.GetHistogramResponse, column: _ScoreColumn, edges: FloatArray
) -> None:
    """Put a class's counts into the answer; all sums are of integers."""
    name, scores, counts, unit = column
    before = np.concatenate(([0], np.cumsum(counts)))
    at = np.searchsorted(scores, edges)
    at[-1] = np.searchsorted(scores, edges[-1], side="right")
    found = [before[at[0]], *np.diff(before[at]), before[-1] - before[at[-1]]]
    below, *bins, above = (each / unit if unit > 1 else int(each) for each in found)
    getattr(response, name).extend(bins)
    setattr(response, f"{name}_below", below)
    setattr(response, f"{name}_above", above)
