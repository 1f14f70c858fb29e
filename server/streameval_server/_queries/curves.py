"""GetCurve and GetState: the counts themselves, of any selection.

With a half-life they are weighted: each pane counts 2^16 2^(-age/half-life)
times, and so do the points and the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval.v1 import query_pb2
from streameval_server._batch.chunks import MAX_CHUNK_BYTES
from streameval_server._model.errors import invalid
from streameval_server._queries.convert import curve_message, points_message
from streameval_server._queries.query_engine import range_message
from streameval_server._queries.selection import Selected, selected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.v1 import types_pb2
    from streameval_server._queries.query_engine import Answers

_Kind = query_pb2.CurveKind


@dataclass(frozen=True, slots=True)
class CurveAsked:
    """A GetCurveRequest that was checked. Equal ones ask for the same."""

    chosen: Selected
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
        """Yield it in pieces; there is always one."""
        for start in range(0, len(self.data), MAX_CHUNK_BYTES):
            yield query_pb2.GetStateResponse(
                revision=self.revision,
                total_bytes=len(self.data),
                data=self.data[start : start + MAX_CHUNK_BYTES],
                window=self.window,
                coverage=self.coverage,
            )


def curve_asked(request: query_pb2.GetCurveRequest) -> CurveAsked:
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
    return CurveAsked(selected(request.selection), request.kind, request.max_points)


def curve(answers: Answers, asked: CurveAsked) -> query_pb2.GetCurveResponse:
    """Return the points, reduced to what a plot needs."""
    of = answers.applied(asked.chosen)
    window = answers.window(of)
    if asked.kind == _Kind.CURVE_KIND_HULL:
        points = curve_message(window.roc_hull())
    else:
        points = points_message(window, asked.max_points)
    view, coverage = window._view(), answers.coverage(of)
    return query_pb2.GetCurveResponse(
        revision=of.view.revision,
        num_positive_ref=view.P,
        num_negative_ref=view.N,
        curve=points,
        window=range_message(of),
        coverage=coverage,
        warnings=answers.warnings(of, window.resolution, coverage),
    )


def state(answers: Answers, chosen: Selected) -> StateAnswer:
    """Return the bytes that `Evaluator.from_bytes` reads."""
    of = answers.applied(chosen)
    data = answers.window(of).evaluator().to_bytes()
    return StateAnswer(of.view.revision, data, range_message(of), answers.coverage(of))
