"""Counts a joiner's effects: in an evaluator or its panes, and in the coverage.

An effect counts in the pane that now holds its prediction's event time. If that pane
is past retention, the effect counts in the overall coverage and as
`beyond_retention`, and in no window.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.frame import raise_corrupt
from streameval._counts.exact import MAX_TOTAL, too_many
from streameval._evaluator import Evaluator
from streameval._projection.delay_panes import DelayPanes
from streameval._time.changes import Change, apply_one
from streameval._time.coverage import CoverageCell
from streameval._time.evaluator_panes import Totals, num_references
from streameval._time.panes import Panes
from streameval._time.times import to_datetime
from streameval._time.windowed import WindowedEvaluator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._common.frame import Reader
    from streameval._joining.joiner import EffectRow
    from streameval._time.effects import Effects

_HEADER = struct.Struct("<Bqq")
_TIMED = struct.Struct("<qq")
_CELL = struct.Struct("<qq")


class EffectCounter:
    """Counts effects in a plain evaluator, with the coverage of its cases.

    Parameters
    ----------
    evaluator : Evaluator

    Attributes
    ----------
    evaluator : Evaluator or WindowedEvaluator
    overall : CoverageCell
        The coverage of all time.
    beyond_retention : int
        Effects whose pane was past retention.
    retention_us : int or None
        How long cases are kept; None is without end.
    delays : DelayPanes or None
        Delays of labels by pane, if they are kept.
    """

    retention_us: int | None = None
    delays: DelayPanes | None = None

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator: Evaluator | WindowedEvaluator = evaluator
        self.overall = CoverageCell(evaluator.scale)
        self.beyond_retention = 0
        self._plain = evaluator

    def check_room(self, added: int, units: int | None = None) -> None:
        """Raise InvalidInputError if `added` more references could exceed a limit.

        `units` is what they weigh together, None where each weighs 1. O(1), after the merge of
        the evaluator's changes where cases have weights.
        """
        if units is None:
            if num_references(self._plain) + added >= MAX_TOTAL:
                raise too_many()
            return
        excess = Totals.of(self._plain).with_weighted(added, units).excess()
        if excess is not None:
            raise excess

    def oldest_us(self, now_us: int) -> int:
        """Return the earliest time that is still kept at `now_us`. O(1)."""
        return min(now_us, 0)  # no retention: every time from 1970 on is kept

    def advance(self, now_us: int) -> None:
        """Advance the panes to a time."""

    def count(self, effects: Effects) -> None:
        """Count effects. O(n log n + panes touched)."""
        groups = np.zeros(len(effects), dtype=np.int64)
        for _, change in Change.by_group(effects, groups, scale=self.overall.scale):
            self.overall.merge(change.coverage)
            change.apply_to(self._plain)

    def count_rows(self, rows: Sequence[EffectRow], now_us: int) -> None:  # noqa: ARG002 - panes use it
        """Count a few effects of one moment, row by row. O(n log panes)."""
        for kind, _, score, group, units, _ in rows:
            self.overall.add_one(kind, score)
            apply_one(kind, score, lambda: self._plain, group, units)

    def between(self, start_us: int, end_us: int) -> CoverageCell:
        """Return the coverage of the panes that overlap [start, end). O(panes)."""
        span = f"{to_datetime(start_us).isoformat()} to {to_datetime(end_us).isoformat()}"
        message = f"a plain Evaluator has no panes, so there is no coverage of {span}"
        raise InvalidInputError(message, field="window")

    def copy(self) -> EffectCounter:
        """Return an independent counter, with an evaluator of its own. O(panes)."""
        other = EffectCounter(self._plain.copy())
        other.overall.merge(self.overall)
        return other

    def parts(self) -> Iterator[bytes]:
        """Yield the content as bytes; equal contents have equal bytes. O(cells)."""
        evaluator, overall = self.evaluator.to_bytes(), self.overall.to_bytes()
        yield _HEADER.pack(self.retention_us is not None, len(evaluator), len(overall))
        yield evaluator
        yield overall

    def _check(self) -> None:
        """Assert all invariants. O(cells)."""
        self.evaluator._check()
        self.overall._check()


class PaneEffectCounter(EffectCounter):
    """Counts effects in a windowed evaluator, with the coverage of each pane.

    Parameters
    ----------
    evaluator : WindowedEvaluator
    keep_delays : bool
        Whether delays of labels are kept.
    """

    def __init__(self, evaluator: WindowedEvaluator, *, keep_delays: bool = False) -> None:
        self.evaluator = evaluator
        self.overall = CoverageCell(evaluator.scale)
        self.beyond_retention = 0
        self._panes = evaluator._view()
        self.retention_us = self._panes.retention_us
        make = partial(CoverageCell, evaluator.scale)
        self._cells: Panes[CoverageCell] = Panes(self._panes.tiers, make)
        if keep_delays:
            self.delays = DelayPanes(self._panes.tiers, evaluator.scale)
            self.delays.advance(self._panes.now_us)

    def check_room(self, added: int, units: int | None = None) -> None:
        self._panes.check_room(added, units)

    def oldest_us(self, now_us: int) -> int:
        return self._panes.grid_at(max(now_us, self._panes.now_us)).oldest_us

    def advance(self, now_us: int) -> None:
        self._panes.advance(now_us)
        # The caller may have advanced the evaluator to a later time.
        self._cells.advance(self._panes.now_us)
        if self.delays is not None:
            self.delays.advance(self._panes.now_us)

    def count(self, effects: Effects) -> None:
        if not len(effects):
            return
        grid = self._panes.grid
        expired = effects.event_us < grid.oldest_us
        if expired.any():
            self.overall.add(effects.kinds[expired], effects.scores[expired])
            self.beyond_retention += int(expired.sum())
            effects = effects[~expired]
        if self.delays is not None:
            self.delays.count(effects)
        starts = grid.starts_of(effects.event_us)
        for start_us, change in Change.by_group(effects, starts, scale=self.overall.scale):
            self.overall.merge(change.coverage)
            self._cells.at(start_us).merge(change.coverage)
            if change.affects_counts:
                change.apply_to(self._panes.at(start_us))

    def count_rows(self, rows: Sequence[EffectRow], now_us: int) -> None:
        grid = self._panes.grid
        if self.delays is not None:
            kept = [row[:3] for row in rows if row.event_us >= grid.oldest_us]
            self.delays.count_rows(kept, now_us)
        for kind, event_us, score, group, units, _ in rows:
            self.overall.add_one(kind, score)
            if event_us < grid.oldest_us:
                self.beyond_retention += 1
                continue
            start_us = grid.start_of(event_us)
            self._cells.at(start_us).add_one(kind, score)
            apply_one(kind, score, partial(self._panes.at, start_us), group, units)

    def between(self, start_us: int, end_us: int) -> CoverageCell:
        self._cells.advance(self._panes.now_us)
        cell = CoverageCell(self.overall.scale)
        cell.merge(*(pane.content for pane in self._cells.between(start_us, end_us)))
        return cell

    def copy(self) -> PaneEffectCounter:
        assert isinstance(self.evaluator, WindowedEvaluator)
        other = PaneEffectCounter(self.evaluator.copy())
        other.overall.merge(self.overall)
        other.beyond_retention = self.beyond_retention
        other._cells.advance(self._cells.now_us)
        for pane in self._cells:
            other._cells.put(pane.start_us, pane.content.copy())
        if self.delays is not None:
            other.delays = self.delays.copy()
        return other

    def parts(self) -> Iterator[bytes]:
        yield from super().parts()
        self._cells.advance(self._panes.now_us)
        yield _TIMED.pack(self.beyond_retention, len(self._cells))
        for pane in self._cells:
            data = pane.content.to_bytes()
            yield _CELL.pack(pane.start_us, len(data))
            yield data
        if self.delays is not None:
            self.delays.advance(self._panes.now_us)
            yield from self.delays.parts()

    def read_cells(self, reader: Reader) -> None:
        """Read the panes' coverage that `parts` wrote; raise CorruptStateError if it is unsound."""
        self.beyond_retention, count = reader.fields(_TIMED)
        if min(self.beyond_retention, count) < 0:
            raise_corrupt("the label joiner announces negative numbers")
        self._cells.advance(self._panes.now_us)
        last_us = self._cells.grid.oldest_us - 1
        for _ in range(count):
            start_us, size = reader.fields(_CELL)
            cell = CoverageCell.from_bytes(reader.blob(size), self.overall.scale)
            placed = start_us > last_us and self._cells.grid.start_of(start_us) == start_us
            if not placed or not cell.effect_counts.any():
                raise_corrupt(f"the label joiner has the coverage of a pane at {start_us} us")
            last_us = start_us
            self._cells.put(start_us, cell)
        if self.delays is not None:
            self.delays.read(reader)

    def _check(self) -> None:
        super()._check()
        self._cells._check()
        total = CoverageCell(self.overall.scale)
        for pane in self._cells:
            pane.content._check()
            total.merge(pane.content)
        if self.delays is not None:
            self.delays._check()
        assert (total.effect_counts <= self.overall.effect_counts).all(), (total, self.overall)


def effect_counter_for(
    evaluator: Evaluator | WindowedEvaluator, *, keep_delays: bool = False
) -> EffectCounter:
    """Return a counter into an evaluator, with empty coverage; only panes keep delays."""
    if isinstance(evaluator, WindowedEvaluator):
        return PaneEffectCounter(evaluator, keep_delays=keep_delays)
    return EffectCounter(evaluator)


def read_effect_counter(reader: Reader, *, keep_delays: bool = False) -> EffectCounter:
    """Return the counter that `EffectCounter.parts` wrote. O(cells).

    Parameters
    ----------
    reader : Reader
    keep_delays : bool
        Whether delays of labels were kept, and follow.

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    timed, evaluator_size, overall_size = reader.fields(_HEADER)
    if timed > 1:
        raise_corrupt(f"the label joiner counts into an evaluator of unknown kind {timed}")
    if keep_delays and not timed:
        raise_corrupt("the label joiner keeps delays without panes")
    kind = WindowedEvaluator if timed else Evaluator
    counter = effect_counter_for(
        kind.from_bytes(reader.blob(evaluator_size)), keep_delays=keep_delays
    )
    counter.overall.merge(CoverageCell.from_bytes(reader.blob(overall_size), counter.overall.scale))
    if isinstance(counter, PaneEffectCounter):
        counter.read_cells(reader)
    return counter
