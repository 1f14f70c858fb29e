"""GetCurve and GetState: the counts themselves, of any selection.

With a half-life the counts are weighted: each pane counts 2^16 2^(-age/half-life) times, in
the points and in the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval.kernel import state_of
from streameval.v1 import query_pb2
from streameval_server._batch.chunks import MAX_CHUNK_BYTES
from streameval_server._model.errors import invalid
from streameval_server._queries.convert import curve_message, points_message
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.selection import Selection, parse_selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.v1 import types_pb2
    from streameval_server._queries.query_engine import QueryEngine

_Kind = query_pb2.CurveKind


@dataclass(frozen=True, slots=True)
class CurveRequest:
    """A checked GetCurveRequest. Equal requests have one answer."""

    selection: Selection
    kind: query_pb2.CurveKind.ValueType
    max_points: int


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """A state, before it is cut into pieces."""

    revision: int
    data: bytes
    window: types_pb2.TimeRange | None
    coverage: types_pb2.Coverage | None

    def pieces(self) -> Iterator[query_pb2.GetStateResponse]:
        """Yield it in pieces, at least one."""
        for start in range(0, len(self.data), MAX_CHUNK_BYTES):
            yield query_pb2.GetStateResponse(
                revision=self.revision,
                total_bytes=len(self.data),
                data=self.data[start : start + MAX_CHUNK_BYTES],
                window=self.window,
                coverage=self.coverage,
            )


def parse_curve_request(request: query_pb2.GetCurveRequest) -> CurveRequest:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    if request.kind not in {_Kind.CURVE_KIND_OPERATING_POINTS, _Kind.CURVE_KIND_HULL}:
        raise invalid(
            "kind",
            f"kind must be CURVE_KIND_OPERATING_POINTS or CURVE_KIND_HULL, got {request.kind}",
        )
    return CurveRequest(parse_selection(request.selection), request.kind, request.max_points)


def curve(engine: QueryEngine, request: CurveRequest) -> query_pb2.GetCurveResponse:
    """Return the points, thinned to what a plot shows."""
    resolved = engine.resolve(request.selection)
    window = engine.window(resolved)
    if request.kind == _Kind.CURVE_KIND_HULL:
        points = curve_message(window.roc_hull())
    else:
        points = points_message(window, request.max_points)
    view, coverage = state_of(window), engine.coverage(resolved)
    return query_pb2.GetCurveResponse(
        revision=resolved.view.revision,
        num_positive_ref=view.P if view.weighted is None else window.num_positive_ref,
        num_negative_ref=view.N if view.weighted is None else window.num_negative_ref,
        curve=points,
        window=range_message(resolved),
        coverage=coverage,
        warnings=engine.warnings(resolved, window.resolution, coverage),
    )


def state(engine: QueryEngine, selection: Selection) -> StateAnswer:
    """Return the bytes that `Evaluator.from_bytes` reads."""
    resolved = engine.resolve(selection)
    data = engine.window(resolved).evaluator().to_bytes()
    return StateAnswer(
        resolved.view.revision, data, range_message(resolved), engine.coverage(resolved)
    )
