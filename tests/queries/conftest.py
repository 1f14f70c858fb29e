"""Views made from a list of events, and the expected counts of events: the oracle."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from streameval import Evaluator
from streameval._counts.stored_counts import pack
from streameval.kernel import Grid, LazyCounts
from streameval.v1 import stream_pb2
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._queries.query_engine import QueryEngine
from streameval_server._state.counting.coverage import PaneCoverage
from streameval_server._state.views import PaneView

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW = 20_000 * DAY + 12 * HOUR + 30 * SECOND
SETTINGS = StreamSettings(segment_keys=("country", "device"))


class Event(NamedTuple):
    """One case."""

    positive: bool
    score: float
    at_us: int
    country: str = "US"
    device: str = "ios"

    def is_in(self, segment: tuple[str, str] | None) -> bool:
        return segment is None or getattr(self, segment[0]) == segment[1]


@dataclass(frozen=True)
class Slice:
    """Stands in for a SliceView."""

    counts: LazyCounts
    panes: tuple[PaneView, ...]
    coverage: PaneCoverage = field(default_factory=PaneCoverage)

    @property
    def all_time(self) -> Evaluator:
        return Evaluator._of(self.counts.state)


@dataclass(eq=False)
class Info:
    """Stands in for a StreamInfo."""

    name: str
    create_us: int
    create_revision: int
    settings: StreamSettings


class View:
    """Stands in for a StreamView: everything is counted from a list of events."""

    def __init__(self, events, *, stream="s", now_us=NOW, settings=SETTINGS, revision=7):
        self.events = list(events)
        self.revision = revision
        self.now_us = now_us
        self.alarms = None
        self.evidence = None
        self.marks = ()
        self.counters = stream_pb2.StreamCounters()
        self.info = Info(stream, now_us - 40 * DAY, 1, settings)
        self.grid = Grid.at(Grid.tiers_of(settings.pane_us, settings.retention_us), now_us)
        named = {None, *(("country", e.country) for e in events)}
        named |= {("device", e.device) for e in events}
        self._slices = {segment: self._made(segment) for segment in named}

    def _made(self, segment) -> Slice:
        mine = [event for event in self.events if event.is_in(segment)]
        by_pane = defaultdict(list)
        for event in mine:
            if event.at_us >= self.grid.oldest_us:
                by_pane[self.grid.start_of(event.at_us)].append(event)
        panes = []
        for start, events in sorted(by_pane.items()):
            counts = lazy(counted(events, self.info.settings))
            if start // MINUTE % 2:  # as panes are that no row has changed for a while
                pack(counts.state)
            panes.append(PaneView(start, self.grid.width_at(start), counts, PaneCoverage()))
        # Slices are bounded from the start, as panes are; the whole is exact.
        return Slice(lazy(counted(mine, segment and self.info.settings)), tuple(panes))

    @property
    def whole(self) -> Slice:
        return self._slices[None]

    def slice(self, segment):
        return self._slices.get(segment)

    def segments(self, key: str) -> list[str]:
        return sorted(segment[1] for segment in self._slices if segment and segment[0] == key)

    def between(self, start_us: int, end_us: int, segment=None) -> list[Event]:
        """Return the events of a window."""
        return [e for e in self.events if e.is_in(segment) and start_us <= e.at_us < end_us]


def counted(events, settings=None) -> Evaluator:
    """Return the events in a plain evaluator: exact, or bounded as in a pane."""
    evaluator = Evaluator(max_cells=262_144)
    if settings is not None:
        evaluator = Evaluator(
            resolution=settings.resolution, scale=settings.scale, max_cells=16_384
        )
    if events:
        evaluator.add_cases(
            labels=[event.positive for event in events], scores=[event.score for event in events]
        )
    return evaluator


def lazy(evaluator: Evaluator) -> LazyCounts:
    """Return an evaluator's counts, as a view has them."""
    return LazyCounts(evaluator, Evaluator._view)


def answers_of(*views: View, clock_us: int | None = None) -> QueryEngine:
    """Return a query engine over some views."""
    named = {view.info.name: view for view in views}
    return QueryEngine(named.__getitem__, lambda: views[0].now_us if clock_us is None else clock_us)


def refused(call) -> RequestError:
    """Return the error that a call raises."""
    with pytest.raises(RequestError) as caught:
        call()
    return caught.value


def invalid_field(call) -> tuple[str, str]:
    """Return the field at fault, and the message."""
    error = refused(call)
    assert (error.code, error.reason) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    ((field_name, text),) = error.violations
    assert text == error.message
    return field_name, text
