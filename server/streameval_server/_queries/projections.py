"""What a window will read once its labels are in, as the library's joiner projects it.

A projection is of predictions and labels by id. It is refused, with the reason, where the stream
has not counted all of the window's predictions by how late their labels come, or where the
window has other cases too: its limits would not hold.

Cost: 0.3 to 2 s for a window whose labels come over many panes; nothing while the panes, the
delays and the minute stay the same.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from streameval import ProjectedFigure, Projection, RefusalReason, Window
from streameval.kernel import merge_states, state_of
from streameval.statistics import BY_NAME, LabelHistory, Place
from streameval.v1 import types_pb2
from streameval_server._model.errors import Code, RequestError, invalid
from streameval_server._queries.metrics import interval_message
from streameval_server._queries.resolved_selection import resolve
from streameval_server._queries.selection import AllTime, Between, HalfLife, Selection
from streameval_server._state.ids.join_table import join_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval import BacktestedWindow, Interval
    from streameval_server._queries.resolved_selection import ResolvedSelection
    from streameval_server._state.views import StreamView

_Refusal = types_pb2.ProjectionRefusal

AGE_STEP_US = 60_000_000
"""Step of the clock after which an unchanged window is projected again."""


def check_projection(selection: Selection) -> None:
    """Refuse a selection that cannot be projected, whatever its stream.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT with the field at fault.
    """
    if isinstance(selection.span, AllTime | HalfLife):
        kind = "half_life" if isinstance(selection.span, HalfLife) else "all time"
        raise invalid(
            "projection",
            f"a projection is of a window, got {kind}: ask for last, between or last_cases",
        )
    if selection.segment is not None:
        raise invalid("projection", "a projection is of the whole stream: ask without segment")


class LabelSource:
    """A stream's labels at one revision and time, for all windows of one request.

    Parameters
    ----------
    view : StreamView
    now_us : int
        The server's clock.
    check : callable
        Called with the number of cells before they are read; raises to stop the computation.

    Raises
    ------
    RequestError
        FAILED_PRECONDITION for a stream without predictions by id.
    """

    def __init__(self, view: StreamView, now_us: int, check: Callable[[int], None]) -> None:
        delays = view.counts.delays
        if delays is None:
            _refuse_stream(view.info.name)
        self.delays = delays
        self.now_us = now_us
        self._view = view
        self._check = check

    @cached_property
    def history(self) -> LabelHistory:
        """The labels of all panes. O(rows log rows) the first time."""
        settings = self._view.info.settings
        joins = join_settings(settings)
        panes = self.delays.panes
        self._check(sum(len(part.counts) for pane in panes for part in pane.parts))
        history = LabelHistory.of_rows(
            [(pane.start_us, pane.end_us) for pane in panes],
            [pane.rows for pane in panes],
            self.now_us,
            settle_us=joins.ttl_us + joins.bucket_us,
            scale=settings.scale,
        )
        self._check(history.table.predictions.size)
        return history

    def refusal(self, window: Window, span_us: tuple[int, int]) -> RefusalReason | None:
        """Return why a window's labels are not the counted ones; None if they are. O(rows)."""
        state = state_of(window)
        if state.clusters.num_groups or window.weights is not None:
            return RefusalReason.WEIGHTS_OR_CLUSTERS
        table = self.history.table
        known = table.labels_at(self.history.between(*span_us), table.now_us).sum(axis=(1, 2))
        scored = (state.N - state.missed_negatives, state.P - state.missed_positives)
        return None if np.array_equal(np.rint(known), scored) else RefusalReason.OTHER_CASES


def projected_since(view: StreamView, start_us: int, now_us: int) -> Interval | None:
    """Return AUC-PR since a time, at its own prevalence, once its labels are in.

    None where it is refused, as without predictions by id since then.
    O(panes cells) for each window of its backtest, as of a query for the same time.
    """
    selection = Selection(view.info.name, Between(start_us, max(now_us, view.now_us) + 1))
    resolved = resolve(selection, view, now_us)
    if view.counts.delays is None or not resolved.panes:
        return None
    assert resolved.span_us is not None
    source = LabelSource(view, resolved.now_us, lambda _cells: None)
    state = merge_states([each.state for each in resolved.states], revision=0)
    window = Window(state, *resolved.span_us)
    if source.refusal(window, resolved.span_us) is not None:
        return None
    return Projection(source.history, window, resolved.span_us).interval()


def projection_message(
    source: LabelSource,
    resolved: ResolvedSelection,
    window: Window,
    *,
    level: float,
    names: tuple[str, ...] = Place.PROJECTION.names(),
) -> types_pb2.Projection:
    """Return the projection of a window. O(panes cells) for each window of its backtest.

    Parameters
    ----------
    source : LabelSource
        The labels of the window's stream.
    resolved, window
        The selection, and its counts.
    level : float
        Nominal coverage of the intervals.
    names : tuple of str
        The metrics to project, among `Place.PROJECTION.names()`.
    """
    message = types_pb2.Projection()
    assert resolved.span_us is not None
    refused = source.refusal(window, resolved.span_us)
    if refused is not None:
        for name in names:
            now = BY_NAME[name].value(window)
            figure = ProjectedFigure(name, None, now, None, None, refused, ())
            message.assumption = figure.assumption
            message.metrics.append(_metric(figure))
        return message
    projection = Projection(source.history, window, resolved.span_us)
    message.assumption = projection.assumption
    for name in ("labelled_share", "prevalence", "fit"):
        value = getattr(projection, name)
        if not math.isnan(value):
            setattr(message, name, value)
    message.metrics.extend(map(_metric, projection.headline(level, metrics=names)))
    return message


def _metric(figure: ProjectedFigure) -> types_pb2.ProjectedMetric:
    message = types_pb2.ProjectedMetric(
        name=figure.metric, prevalence=figure.prevalence, value=_real(figure.now)
    )
    if figure.limits is not None:
        message.limits.lower, message.limits.upper = figure.limits
    if figure.interval is None:
        assert figure.reason is not None
        message.refusal = _Refusal.Value(f"PROJECTION_REFUSAL_{figure.reason.name}")
        message.reason = figure.reason.value
        return message
    if not math.isnan(figure.projected):
        message.projected = figure.projected
        message.interval.CopyFrom(interval_message(figure.interval))
    message.widening = figure.widening
    message.backtest.extend(map(_backtested, figure.backtest))
    return message


def _backtested(found: BacktestedWindow) -> types_pb2.BacktestedWindow:
    message = types_pb2.BacktestedWindow(
        projected=found.projected, final_value=found.final, z=found.z
    )
    message.window.start_time.FromDatetime(found.start)
    message.window.end_time.FromDatetime(found.end)
    message.made_time.FromDatetime(found.made_at)
    return message


def _real(value: float) -> float | None:
    """Return a number, or None for nan: the field is absent."""
    return None if math.isnan(value) else value


def _refuse_stream(name: str) -> NoReturn:
    message = (
        f"stream {name} has no predictions by id: a projection needs labels that come by id "
        "after their predictions"
    )
    raise RequestError(
        Code.FAILED_PRECONDITION,
        message,
        reason="NO_LABELS_BY_ID",
        violations=(("projection", message),),
    )
