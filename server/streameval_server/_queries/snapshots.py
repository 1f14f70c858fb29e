"""GetSnapshot and Watch: what they ask for, checked, and their answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._model.errors import invalid
from streameval_server._queries.metrics import MetricSelection, select_metrics
from streameval_server._queries.selection import AllTime, Selected, selected

if TYPE_CHECKING:
    from streameval.v1 import query_pb2, types_pb2
    from streameval_server._queries.query_engine import Answers


@dataclass(frozen=True, slots=True)
class SnapshotAsked:
    """A request for figures that was checked. Equal ones ask for the same."""

    chosen: Selected
    figures: MetricSelection


def snapshot_asked(request: query_pb2.GetSnapshotRequest | query_pb2.WatchRequest) -> SnapshotAsked:
    """Check a request.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    chosen = selected(request.selection)
    if request.anytime and not isinstance(chosen.span, AllTime):
        raise invalid(
            "anytime",
            "anytime intervals hold for figures that grow from one start: ask for all time, "
            "without a window",
        )
    figures = select_metrics(request.metrics, level=request.level, anytime=request.anytime)
    return SnapshotAsked(chosen, figures)


def snapshot(answers: Answers, asked: SnapshotAsked) -> types_pb2.Snapshot:
    """Return the figures."""
    return answers.snapshot(answers.applied(asked.chosen), asked.figures)
