"""What queries read: a stream at one revision, whole and by slice. Immutable.

The view of a changed stream is taken under the engine's lock, in O(panes), and read without
it. Until the stream changes again, all readers get that view without the lock. Pending counts
are merged by the first reader that needs them. Parts that did not change are the same objects
as in the view before, with the metrics that they have cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from streameval.kernel import LazyCounts, State, evaluator_of
from streameval_server._state.counting.coverage import PaneCoverage
from streameval_server._state.segments import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streameval import Alarm, Evaluator
    from streameval.kernel import IdColumn
    from streameval.v1 import stream_pb2
    from streameval_server._model.arrays import CodeArray, FloatArray, IntArray
    from streameval_server._model.mark import Mark
    from streameval_server._model.stream_info import StreamInfo
    from streameval_server._state.delays.frozen_delays import FrozenDelays


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPredictions:
    """A stream's predictions that wait for their label, at one revision. Immutable.

    Attributes
    ----------
    ids : IdColumn
    scores : float64[n]
    event_us : int64[n]
    codes : uint16[n, keys]
        Segment codes.
    values : dict of str to list of str
        By declared key, the value of each code.
    """

    ids: IdColumn
    scores: FloatArray
    event_us: IntArray
    codes: CodeArray
    values: Mapping[str, list[str]]

    def select(
        self, span_us: tuple[int, int] | None, segment: tuple[str, str] | None
    ) -> tuple[Callable[[IntArray], list[bytes]], FloatArray]:
        """Choose those made in [start, end), of one segment. O(n).

        Returns
        -------
        ids_of : callable
            Takes some of the chosen rows and returns their ids: all would take much memory.
        scores : float64[chosen]
        """
        chosen = np.ones(self.scores.size, dtype=np.bool_)
        if span_us is not None:
            chosen &= (self.event_us >= span_us[0]) & (self.event_us < span_us[1])
        if segment is not None:
            values = self.values[segment[0]]
            code = values.index(segment[1]) if segment[1] in values else -1
            chosen &= self.codes[:, list(self.values).index(segment[0])] == code
        slots = np.flatnonzero(chosen)
        scores = self.scores if slots.size == self.scores.size else self.scores[slots]
        return lambda rows: self.ids.at(slots[rows]), scores


class PaneView:
    """One pane of one slice, [start_us, end_us).

    Parameters
    ----------
    start_us, width_us : int
        The views of all panes of a width share its number.
    counts : LazyCounts or State
        The counts; a state if nothing is pending.

    Attributes
    ----------
    start_us, end_us : int
    evaluator : Evaluator
        The counts. Never mutate it.
    coverage : PaneCoverage
        Coverage of the predictions whose event time lies in the pane.
    """

    __slots__ = ("_counts", "_width_us", "coverage", "start_us")

    def __init__(
        self, start_us: int, width_us: int, counts: LazyCounts | State, coverage: PaneCoverage
    ) -> None:
        self.start_us = start_us
        self.coverage = coverage
        self._width_us = width_us
        self._counts = counts

    @property
    def end_us(self) -> int:
        """The end, not included."""
        return self.start_us + self._width_us

    @property
    def evaluator(self) -> Evaluator:
        """The counts as an evaluator. Never mutate it. O(cells) the first time."""
        return evaluator_of(self.state)

    @property
    def state(self) -> State:
        """The counts, always the same object. O(cells) the first time."""
        counts = self._counts
        return counts if isinstance(counts, State) else counts.state

    def __repr__(self) -> str:
        return f"<PaneView {self.start_us} to {self.end_us}>"


PaneSlices: TypeAlias = "PaneView | Mapping[int, PaneView]"
"""A pane's slices by number; the view of the whole where a pane at rest has no other."""


def slice_of(pane: PaneSlices, number: int) -> PaneView | None:
    """Return the view of one slice of a pane, None without it. O(1)."""
    if isinstance(pane, PaneView):
        return pane if number == WHOLE else None
    return pane.get(number)


@dataclass(frozen=True, slots=True)
class SliceView:
    """The whole of a stream, or one value of one key.

    Attributes
    ----------
    counts : LazyCounts
        Everything since the stream was created; the same object until it changes.
    coverage : PaneCoverage
        Coverage of all predictions since then.
    panes : tuple of PaneView
        Oldest first, without empty panes.
    """

    counts: LazyCounts
    coverage: PaneCoverage = field(default_factory=PaneCoverage)
    panes: tuple[PaneView, ...] = ()

    @property
    def all_time(self) -> Evaluator:
        """All counts as an evaluator. Never mutate it. O(cells) the first time."""
        return evaluator_of(self.counts.state)


@dataclass(frozen=True, slots=True, eq=False)
class FrozenStream:
    """A stream's counts between two changes. Immutable.

    Attributes
    ----------
    all_time : mapping of int to (LazyCounts, PaneCoverage)
        By the number of the slice; 0 is the whole.
    panes : tuple of PaneSlices
        The slices of each pane; oldest pane first.
    names : mapping of (key, value) to int
        The numbers of slices; a value without rows has no entry in `all_time`.
    delays : FrozenDelays or None
        How late labels come; None where it is not kept.
    """

    all_time: Mapping[int, tuple[LazyCounts, PaneCoverage]]
    panes: tuple[PaneSlices, ...]
    names: Mapping[tuple[str, str], int]
    delays: FrozenDelays | None = None
    _slices: dict[int, SliceView] = field(default_factory=dict)

    def slice(self, number: int) -> SliceView:
        """Return a slice that exists. O(panes) the first time."""
        found = self._slices.get(number)
        if found is None:
            counts, coverage = self.all_time[number]
            views = (slice_of(pane, number) for pane in self.panes)
            panes = tuple(view for view in views if view is not None)
            found = self._slices[number] = SliceView(counts, coverage, panes)
        return found


@dataclass(frozen=True, slots=True)
class AlarmsView:
    """A detector at one revision. Immutable.

    Attributes
    ----------
    waits_for : str
        Why it does not watch yet; empty once it does.
    reference_us : (int, int)
        The time that is compared with.
    since_us : int or None
        When it began to watch.
    evidence : dict of str to float
        By watch, as a share of what raises an alarm.
    alarms : tuple of Alarm
    delivered : frozenset of int
        Numbers of the alarms that a webhook has taken.
    left_out : int
        Rows with a weight.
    warnings : tuple of str
        What was seen in its reference.
    """

    waits_for: str
    reference_us: tuple[int, int]
    since_us: int | None
    evidence: Mapping[str, float]
    alarms: tuple[Alarm, ...]
    delivered: frozenset[int]
    left_out: int
    warnings: tuple[str, ...] = ()

    @property
    def num_open(self) -> int:
        """How many alarms are open."""
        return sum(each.is_open for each in self.alarms)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class EvidenceView:
    """A stream's evidence between two changes. Immutable.

    Attributes
    ----------
    data : bytes
        The evidence; empty without a base.
    reason : str
        Why there is no base; empty where there is one.
    again_us : int
        When a base is looked for again; 0 for not before the next row.
    called : bytes
        What the stream was called: `called_of` reads it.
    """

    data: bytes
    reason: str
    again_us: int
    called: bytes = b""


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream's counts at one revision.

    Attributes
    ----------
    info : StreamInfo
        The stream's description, with its settings.
    revision : int
        Log revision that the view includes: the engine's, even if the stream changed earlier.
    now_us : int
        The log's time, in microseconds since 1970.
    counts : FrozenStream
    counters : StreamCounters message
        What the stream keeps, and which rows had no effect.
    alarms : AlarmsView or None
        The stream's detector; None where no alarms are declared.
    marks : tuple of Mark
        Its annotations, in order of their numbers.
    evidence : EvidenceView or None
        What verdicts rest on.
    """

    info: StreamInfo
    revision: int
    now_us: int
    counts: FrozenStream
    counters: stream_pb2.StreamCounters
    alarms: AlarmsView | None = None
    marks: tuple[Mark, ...] = ()
    evidence: EvidenceView | None = None

    def at(self, revision: int, now_us: int) -> StreamView:
        """Return the view at a later revision, up to which the stream has not changed."""
        return replace(self, revision=revision, now_us=now_us)

    @property
    def whole(self) -> SliceView:
        """The whole stream."""
        return self.counts.slice(0)

    @property
    def evaluator(self) -> Evaluator:
        """All-time counts of the whole. Never mutate it."""
        return self.whole.all_time

    def slice(self, segment: tuple[str, str] | None) -> SliceView | None:
        """Return the slice of a (key, value), or the whole; None when there is no such slice."""
        if segment is None:
            return self.whole
        number = self.counts.names.get(segment)
        if number is None or number not in self.counts.all_time:
            return None
        return self.counts.slice(number)

    def segments(self, key: str) -> list[str]:
        """Return a key's values that have a slice, `OTHER_VALUE` and "" included. O(slices)."""
        slices = self.counts.all_time
        return sorted(
            value
            for (name, value), number in self.counts.names.items()
            if name == key and number in slices
        )
