"""One pair of streams: its ids, its counts, and since when the evidence suffices.

It takes the rows by id of both streams in the order of the log. As for streams, the engine
calls `pass_time` before it gives rows at or after `due_us`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from streameval.kernel import unless_one
from streameval.statistics import (
    BY_NAME,
    ComparedPair,
    PairCounts,
    Place,
    RevisionQueries,
)
from streameval.v1 import pair_pb2
from streameval_server._model.row_kinds import (
    LabelRows,
    PredictionRows,
    RetractionRows,
    event_column,
)
from streameval_server._state.pairs.pair_joiner import PairJoiner, Predictions
from streameval_server._state.pairs.pair_links import SlotLinks
from streameval_server._state.pairs.pair_panes import PairPanes
from streameval_server._state.pairs.pair_table import BY_A, BY_B
from streameval_server._state.pairs.pair_view import Evidence, PairView
from streameval_server._state.segments import Segments, prediction_codes

if TYPE_CHECKING:
    from streameval_server._model.arrays import CodeArray
    from streameval_server._model.limits import Limits
    from streameval_server._model.pair_settings import PairInfo
    from streameval_server._model.row_kinds import Rows
    from streameval_server._state.ids.join_table import TrackedTable
    from streameval_server._state.pairs.pair_table import PairIds

_PAIR_BYTES = 8_192
"""Memory of a pair besides its counts and ids."""

_MIN_LOOK_US = 60_000_000
"""The evidence is not looked at more often than this, however narrow panes are."""

_PANE_COST = 64
"""Budget for a pane that coarsens, in ids that expire."""


class PairState:
    """A pair.

    Parameters
    ----------
    info, limits
        The pair's, the server's.
    now_us : int
        The time up to which things fell due.

    Attributes
    ----------
    info : PairInfo
    revision : int
        Log revision of its last change.
    joiner : PairJoiner
    links : dict of int to SlotLinks
        By side, `BY_A` or `BY_B`: from each stream's ids to the joiner's.
    counts : PairPanes
    segments : Segments
    evidence : dict of str to Evidence
        Since when the evidence suffices, by metric; of all time at the pair's prevalence.
    look_us : int or None
        When it is looked at next; None where nothing was counted since the last look.
    lag_us : int
        The longer lag of its two streams; see `StreamState`.
    last_view : PairView or None
    """

    def __init__(self, info: PairInfo, limits: Limits, now_us: int) -> None:
        self.info = info
        self.revision = info.create_revision
        self.joiner = PairJoiner(info.settings)
        self.links = {side: SlotLinks() for side in (BY_A, BY_B)}
        self.counts = PairPanes(info.settings)
        self.counts.revision = self.revision
        self.counts.advance(now_us)
        self.segments = Segments(info.settings.segment_keys, limits.max_segment_values)
        self.evidence: dict[str, Evidence] = {}
        self.look_us: int | None = None
        self.lag_us = 0
        self.last_view: PairView | None = None

    # -- changing

    def take(
        self,
        stream: str,
        rows: Rows,
        revision: int,
        received_us: int,
        due_us: int,
        *,
        ids: TrackedTable | None,
    ) -> None:
        """Take rows of one of the streams; those without an id do not concern a pair.

        `ids`: the stream's, which has taken the rows; None without them.
        """
        if not isinstance(rows, PredictionRows | LabelRows | RetractionRows):
            return
        self.last_view = None
        self.revision = self.counts.revision = revision
        self.counts.count_full()
        side = BY_A if stream == self.info.a else BY_B
        joiner = self.joiner
        due_us, now_us = due_us - self.lag_us, received_us - self.lag_us
        joiner.settle(due_us)
        found = None if ids is None else self.links[side].found(ids)
        if isinstance(rows, PredictionRows):
            event_us = event_column(rows.event_us, rows.size, received_us)
            predictions = Predictions(rows.ids, rows.scores, event_us, self._codes(rows))
            joiner.predict(side, predictions, now_us, found=found)
        elif isinstance(rows, LabelRows):
            if rows.scores is not None:
                event_us = event_column(rows.event_us, rows.size, received_us)
                codes = np.zeros((rows.size, joiner.ids.table.codes.shape[1]), dtype=np.uint16)
                predictions = Predictions(rows.ids, rows.scores, event_us, codes)
                joiner.predict(side, predictions, now_us, is_told_again=True)
            units = unless_one(rows.units)
            joiner.label(rows.ids, rows.labels, now_us, units, found=found)
        else:
            joiner.retract(rows.ids)
        joiner.settle(due_us)
        self._add_effects(received_us)

    def adopt(self, name: str, a: str, b: str, revision: int) -> None:
        """Take other names and a creation revision; the creation time stays."""
        self.revision = self.counts.revision = revision
        self.info = replace(self.info, name=name, a=a, b=b, create_revision=revision)

    def take_thresholds(self, a: float | None, b: float | None, revision: int) -> None:
        """Take what the streams declare after a change of one of them."""
        if self.counts.thresholds != (a, b):
            self.last_view = None
            self.revision = self.counts.revision = revision
            self.counts.thresholds = (a, b)

    def _codes(self, rows: PredictionRows) -> CodeArray:
        columns = self.segments.read(rows.segments, rows.size)
        return prediction_codes(rows, columns, self.info.settings.cluster_groups)

    def _add_effects(self, now_us: int) -> None:
        effects = self.joiner.take_effects()
        self.counts.add(effects)
        if effects.counted and self.look_us is None:
            width_us = max(self.info.settings.pane_us, _MIN_LOOK_US)
            self.look_us = now_us // width_us * width_us + width_us

    # -- time

    @property
    def due_us(self) -> int:
        """When `pass_time` is needed next. O(1)."""
        ids_us = self.joiner.due_us
        if ids_us is not None:
            ids_us += self.lag_us
        due = (ids_us, self.counts.due_us, self.look_us)
        return min((each for each in due if each is not None), default=1 << 62)

    def pass_time(self, now_us: int, revision: int, budget: int) -> int:
        """Do some of what is due; return how much of the budget that took, as of a stream."""
        self.last_view = None
        self.counts.revision = revision
        due_us = self.joiner.due_us
        if due_us is not None and due_us + self.lag_us <= now_us:
            spent = self.joiner.settle(now_us - self.lag_us, budget)
            self._add_effects(now_us)
            if spent:
                self.revision = revision
            return spent + 1
        if self.look_us is not None and self.look_us <= now_us:
            self._look(self.look_us)
            self.look_us = None
            self.revision = revision
            return _PANE_COST
        # Predictions that wait may be in no pane: only counting them tells.
        self.counts.count_predicted()
        if self.counts.due_us is None:
            return 1
        panes = len(self.counts.panes)
        self.counts.advance(now_us)
        self.revision = revision
        return _PANE_COST * max(0, panes - len(self.counts.panes)) + 1

    def on_time(self, now_us: int, revision: int) -> None:
        """Advance to the time of an entry; the caller has handled everything due by then."""
        if now_us >= self.counts.panes.until_us:
            self.last_view = None
            self.revision = self.counts.revision = revision
            self.counts.advance(now_us)

    def _look(self, now_us: int) -> None:
        """Note whether the evidence suffices. O(entries log entries)."""
        counts = self.counts.total_with_waiting()
        if min(counts.num_positives, counts.num_negatives) < ComparedPair.MIN_CASES:
            self.evidence.clear()
            return
        for metric in Place.COMPARISON.names():
            settings = self.info.settings
            compared = compare_counts(
                counts, metric, self.prevalence_of(metric), settings.min_label_probability
            )
            change = compared.difference
            e_value = change.e_value()
            if math.isnan(e_value) or e_value < ComparedPair.DECIDING_E_VALUE:
                self.evidence.pop(metric, None)
                continue
            a_is_better = change.estimate > 0
            known = self.evidence.get(metric)
            if known is None or known.a_is_better != a_is_better:
                self.evidence[metric] = Evidence(now_us, a_is_better)

    def prevalence_of(self, metric: str) -> float | None:
        """Return the pair's prevalence, for metrics that are rescaled."""
        return self.info.settings.prevalence if BY_NAME[metric].is_rescaled else None

    # -- reading

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound."""
        return (
            _PAIR_BYTES
            + self.segments.memory_bytes
            + self.counts.memory_bytes
            + self.joiner.ids.memory_bytes
            + sum(each.memory_bytes for each in self.links.values())
        )

    @property
    def ids(self) -> PairIds:
        """The ids that are kept."""
        return self.joiner.ids

    @property
    def kept_ids(self) -> int:
        """Number of ids that are kept."""
        return len(self.joiner.ids)

    def view(self, revision: int, now_us: int) -> PairView:
        """Return its counts at this revision and time. O(panes) when it has changed."""
        view = self.last_view
        if view is None:
            self.counts.count_predicted()
            view = self.last_view = PairView(
                self.info,
                revision,
                now_us,
                dict(self.evidence),
                self.segments.names(),
                self._counters(),
                self.counts.copy(),
            )
        return view.at(revision, now_us)

    def _counters(self) -> pair_pb2.PairCounters:
        tally = {**self.joiner.tally, "beyond_retention": self.counts.beyond_retention}
        return pair_pb2.PairCounters(
            **tally,
            kept_ids=self.kept_ids,
            panes=len(self.counts.panes),
            state_bytes=self.memory_bytes,
        )

    def _check(self) -> None:
        """Assert all invariants. O(everything)."""
        self.joiner.ids.table._check()
        for links in self.links.values():
            links._check(self.joiner.ids.table)
        assert len(self.joiner.ids) <= self.info.settings.max_pending
        assert not self.joiner.effects.counted
        assert not self.joiner.effects.predicted
        self.counts._check()


def compare_counts(
    counts: PairCounts,
    metric: str,
    prevalence: float | None,
    min_label_probability: float | None = None,
) -> ComparedPair:
    """Compare the models of a pair's counts. O(n log n)."""
    a, b = (RevisionQueries(each.declaring(min_label_probability)) for each in counts.models)
    models = a, b
    return ComparedPair.of(counts.grid.counted(), models, metric, prevalence)
