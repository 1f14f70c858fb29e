"""One stream: its counts, its segment values, and the ids that wait for their labels.

Rows are taken in the order of the log. Panes and expiry follow the log's time: the engine
must call `pass_time` before it takes a row at or after `due_us`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from streameval.kernel import UnsortedCases, unless_one
from streameval.v1 import stream_pb2
from streameval_server._model.mark import MarkChange
from streameval_server._model.row_kinds import (
    BY_ID,
    CaseRows,
    LabelRows,
    MergeRows,
    MissRows,
    PredictionRows,
    RetractionRows,
    event_column,
    weighed_after,
)
from streameval_server._model.verdict_change import VerdictChange
from streameval_server._state.alarms.stream_alarms import StreamAlarms
from streameval_server._state.counting.collected_rows import TimedCases
from streameval_server._state.counting.counts import StreamCounts
from streameval_server._state.ids.join_table import Joins
from streameval_server._state.memory import StreamUsage
from streameval_server._state.observer import Merged, Misses
from streameval_server._state.segments import Segments, cluster_groups, prediction_codes
from streameval_server._state.stream_marks import StreamMarks
from streameval_server._state.verdict.stream_evidence import StreamEvidence
from streameval_server._state.views import StreamView, WaitingPredictions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval_server._model.alarm_change import AlarmChange
    from streameval_server._model.limits import Limits
    from streameval_server._model.row_kinds import Rows
    from streameval_server._model.stream_info import StreamInfo
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.observer import Observer, Taken
    from streameval_server._state.segments import SegmentColumns
    from streameval_server._state.views import FrozenStream

NEVER = 1 << 62
"""Later than any time."""

_STREAM_BYTES = 8_192
"""Memory of a stream besides its counts and ids, with the committer's facts about it; measured."""

_SOURCE_BYTES = 400
"""Memory of a source that was merged, with its name."""


class StreamState:
    """A stream. `take` collects rows; they are counted later, in bulk.

    Parameters
    ----------
    info, limits
        The stream's, the server's.
    due_us
        The time up to which things fell due: where its panes begin to coarsen.

    Attributes
    ----------
    info : StreamInfo
    last_view : StreamView or None
        The newest view; None from the moment at which the stream begins to change.
    revision : int
        Log revision of its last change.
    total : int
        Number of accepted references, misses included.
    weighed : int or None
        What they weigh together, in units of 2**-16; None while each weighs 1.
    sources : dict of str to int
        The last merged epoch of each source.
    joins : Joins or None
        The ids; None before the first rows by id.
    alarms : StreamAlarms or None
        The detector; None where no alarms are declared.
    marks : StreamMarks
        The annotations.
    evidence : StreamEvidence
        What verdicts rest on.
    observers : tuple of Observer
        What follows the stream, in the order in which rows and the time reach it.
    """

    __slots__ = (
        "__weakref__",
        "_names",
        "_usage",
        "alarms",
        "counts",
        "evidence",
        "info",
        "joins",
        "last_view",
        "marks",
        "observers",
        "revision",
        "segments",
        "sources",
        "total",
        "weighed",
    )

    def __init__(self, info: StreamInfo, limits: Limits, due_us: int) -> None:
        self.info = info
        self.last_view: StreamView | None = None
        self.revision = info.create_revision
        self.total = 0
        self.weighed: int | None = None
        self.sources: dict[str, int] = {}
        self.segments = Segments(info.settings.segment_keys, limits.max_segment_values)
        self._usage = StreamUsage(self.revision)
        self.counts = StreamCounts(info.settings, limits, self._usage)
        self.counts.advance(due_us)
        self.joins: Joins | None = None
        self.alarms: StreamAlarms | None = None
        if info.settings.alarms is not None:
            self.alarms = StreamAlarms(info.settings, info.create_us, self._usage)
        self.marks = StreamMarks()
        self.evidence = StreamEvidence(info.settings, self._usage)
        self.observers: tuple[Observer, ...]
        self._set_observers()
        self._names: Mapping[tuple[str, str], int] = self.segments.names()

    def _set_observers(self) -> None:
        """Set the order in which rows and the time reach what follows the stream.

        Ids come first: what expires is counted before panes coarsen. The counts come before
        the detector, which reads cases as they are counted and freezes panes; the evidence,
        which reads panes and takes over the detector's reference, is after both.
        """
        self.evidence.alarms = self.alarms
        counts = self.counts
        order = (self.joins, counts, counts.delays, self.alarms, self.marks, self.evidence)
        self.observers = tuple(each for each in order if each is not None)

    # -- changing

    def keep_ids(self) -> Joins:
        """Return the ids; the first call begins to keep them, and the delays of labels."""
        if self.joins is None:
            self.joins = Joins(self.info.settings)
            self.counts.keep_delays(self.info.settings)
            self._usage.has_ids = True
            self._set_observers()
        return self.joins

    def take(self, rows: Rows, revision: int, received_us: int, due_us: int | None = None) -> None:
        """Take the rows of one entry.

        Parameters
        ----------
        rows, revision, received_us
            The entry's.
        due_us
            The time up to which ids fall due: earlier than `received_us`, which is the
            default, while the log is held.
        """
        self.last_view = None
        self.revision = self._usage.revision = revision
        self.weighed = weighed_after(self.weighed, self.total, rows)
        self.total += rows.total
        if isinstance(rows, CaseRows):
            watching = self.alarms if self.alarms and self.alarms.is_watching else None
            self.counts.on_cases = None if watching is None else watching.observe_cases
            self._hand_out(self._timed(rows, received_us), received_us)
        elif isinstance(rows, MissRows):
            codes = self.segments.row_codes(rows.segments)
            event_us = rows.event_us or received_us
            self._hand_out(Misses(rows.positives, rows.negatives, event_us, codes), received_us)
        elif isinstance(rows, MergeRows):
            self.sources[rows.source] = rows.epoch
            for merged in rows.states:
                codes = self.segments.row_codes(merged.segments)
                self._hand_out(Merged(merged.state, merged.event_us, codes), received_us)
        else:
            self._join(rows, received_us, received_us if due_us is None else due_us)

    def _timed(self, rows: CaseRows, received_us: int) -> TimedCases:
        """Return cases with their times and segments. O(values), O(n) with clusters."""
        columns = self._read_segments(rows)
        groups = cluster_groups(rows, self.info.settings.cluster_groups)
        units = unless_one(rows.units)
        return TimedCases(
            UnsortedCases(rows.labels, rows.scores, rows.counts, units, groups),
            received_us if rows.event_us is None else rows.event_us,
            () if columns is None else (columns,),
        )

    def _read_segments(self, rows: CaseRows | PredictionRows) -> SegmentColumns | None:
        """Return the segment columns of a batch; number new values. O(values)."""
        columns = self.segments.read(rows.segments, rows.size)
        self._usage.num_slices = self.segments.num_values
        return columns

    def _join(self, rows: Rows, received_us: int, due_us: int) -> None:
        joins = self.keep_ids()
        assert isinstance(rows, BY_ID)
        now_us = received_us
        source_us = None if isinstance(rows, RetractionRows) else rows.source_us
        if source_us is not None:
            lag_us = max(received_us - source_us, 0)
            joins.lag_us = min(lag_us, self.info.settings.retention_us)
            now_us = received_us - joins.lag_us
        joiner = joins.at(now_us, due_us)
        if isinstance(rows, PredictionRows):
            columns = self._read_segments(rows)
            effects = joiner.predict(
                rows.ids,
                scores=rows.scores,
                event_us=event_column(rows.event_us, rows.size, received_us),
                now_us=now_us,
                codes=prediction_codes(rows, columns, self.info.settings.cluster_groups),
                knows_labels_times=source_us is not None,
            )
        elif isinstance(rows, LabelRows):
            at_us = rows.at_us
            if at_us is not None:
                at_us = event_column(at_us, rows.size, received_us).clip(0, received_us)
            event_us = at_us if rows.event_us is None else rows.event_us
            effects = joiner.label(
                rows.ids,
                positives=rows.labels,
                now_us=now_us,
                event_us=event_column(event_us, rows.size, received_us),
                scores=rows.scores,
                units=unless_one(rows.units),
                at_us=at_us,
            )
        else:
            # What was observed stays: a retraction is in the counts alone.
            self.counts.add_effects(joiner.retract(rows.ids, now_us=now_us))
            return
        self._hand_out(effects, received_us)

    def _hand_out(self, taken: Taken, received_us: int) -> None:
        for each in self.observers:
            each.take(taken, received_us)
        self.counts.count_full()

    def update(self, settings: StreamSettings, revision: int, received_us: int) -> None:
        """Take new settings. O(panes) when retention changes."""
        self.last_view = None
        self._usage.revision = revision
        # The detector's rows were collected under the old settings.
        self.counts.count()
        self._declare_alarms(settings, received_us)
        self.counts.reconfigure(settings)
        self.evidence.reconfigure(settings)
        self.revision = revision
        self.info = replace(self.info, settings=settings)
        self.segments.declare(settings.segment_keys)
        if self.joins is not None:
            self.joins.reconfigure(settings)

    def _declare_alarms(self, settings: StreamSettings, received_us: int) -> None:
        """Begin with a new reference if the detector's settings are others."""
        if settings.alarms is None:
            self.alarms = None
        elif self.alarms is None or self.alarms.differs(settings):
            number = 0 if self.alarms is None else self.alarms.num_alarms
            self.alarms = StreamAlarms(settings, received_us, self._usage, number, proposes=True)
        else:
            self.alarms.reconfigure(settings)
        self._set_observers()

    def change(
        self,
        change: AlarmChange | MarkChange | VerdictChange,
        revision: int,
        received_us: int,
        due_us: int,
    ) -> None:
        """Take a change of an alarm, a mark or the verdict; of what is not there nothing changes.

        `due_us`: as for `take`.
        """
        self.last_view = None
        self.set_revision(revision)
        if isinstance(change, MarkChange):
            self.marks.change(change, received_us)
            self.marks.revision = revision
        elif isinstance(change, VerdictChange):
            self.evidence.change(change, due_us)
        elif self.alarms is not None:
            self.counts.count()  # which the detector observes
            self.alarms.change(change, due_us)

    def set_revision(self, revision: int) -> None:
        """Set the revision of the last change."""
        self.revision = self._usage.revision = revision

    def adopt(self, name: str, revision: int) -> None:
        """Take another name and creation revision; the creation time stays."""
        self.set_revision(revision)
        self.info = replace(self.info, name=name, create_revision=revision)

    # -- time

    @property
    def due_us(self) -> int:
        """When `pass_time` is needed next: ids fall due, or panes coarsen. O(1)."""
        soonest = NEVER
        for each in self.observers:
            due_us = each.due_us
            if due_us is not None and due_us < soonest:
                soonest = due_us
        return soonest

    @property
    def lag_us(self) -> int:
        """How far the source of its ids was behind the log; see `Joins`."""
        return 0 if self.joins is None else self.joins.lag_us

    def pass_time(self, now_us: int, revision: int, budget: int) -> int:
        """Expire ids or coarsen panes that are due; return how much of the budget that took.

        The caller repeats it until `due_us` lies in the future.
        """
        self.last_view = None
        self._usage.revision = revision
        joins = self.joins
        if joins is not None and joins.is_due(now_us):
            ids = len(joins)
            self._hand_out(joins.expire(now_us, budget), now_us)
            spent = ids - len(joins)
        else:
            # Collected rows may be in no pane: only counting them tells.
            self.counts.settle(now_us)
            first = next((each for each in self.observers if each.is_due(now_us)), None)
            spent = 0 if first is None else first.pass_time(now_us, self._frozen)
        # Checking a time at which nothing falls due is no change of the stream.
        if spent:
            self.revision = revision
        return spent + 1

    def on_time(self, now_us: int) -> None:
        """Advance to the time of an entry; the caller has handled everything due by then."""
        # Without panes `due_us` does not call for `pass_time`, so the time may be behind.
        if now_us >= self.counts.store.due_us:
            self.last_view = None
            self.counts.advance(now_us)

    # -- reading

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(keys)."""
        small = _STREAM_BYTES + self.segments.memory_bytes + _SOURCE_BYTES * len(self.sources)
        return small + sum(each.memory_bytes for each in self.observers)

    @property
    def ids(self) -> Joins | None:
        """The ids that are kept."""
        return self.joins

    @property
    def kept_ids(self) -> int:
        """Number of ids that are kept."""
        return 0 if self.joins is None else len(self.joins)

    def view(self, revision: int, now_us: int) -> StreamView:
        """Return its counts at this revision and time. O(panes) when it has changed."""
        view = self.last_view
        if view is None:
            counts = self._frozen()
            alarms = None if self.alarms is None else self.alarms.view()
            counters, marks = self._counters(), self.marks.marks
            evidence = self.evidence.view()
            view = StreamView(
                self.info, revision, now_us, counts, counters, alarms, marks, evidence
            )
            self.last_view = view
        return view.at(revision, now_us)

    def waiting(self) -> WaitingPredictions:
        """Return the predictions that wait for their label. O(ids), some 15 ms a million."""
        joins = self.joins or Joins(self.info.settings)
        table, slots = joins.table, joins.joiner.waiting()
        return WaitingPredictions(
            table.id_column(slots),
            table.score[slots],
            table.event_us[slots],
            table.codes[slots],
            dict(zip(self.segments.keys, map(list, self.segments.values), strict=True)),
        )

    def _frozen(self) -> FrozenStream:
        if len(self._names) != sum(map(len, self.segments.values)):
            self._names = self.segments.names()
        return self.counts.frozen(self._names)

    def _counters(self) -> stream_pb2.StreamCounters:
        self.counts.flush()
        joined = {}
        if self.joins is not None:
            joined = asdict(self.joins.joiner.counts)
            del joined["beyond_retention"]
        return stream_pb2.StreamCounters(
            **joined,
            other_values=self.segments.overflowed,
            beyond_retention=self.counts.beyond_retention,
            kept_ids=self.kept_ids,
            panes=self.counts.store.num_panes,
            state_bytes=self.memory_bytes,
        )
