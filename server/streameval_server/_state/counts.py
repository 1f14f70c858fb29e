"""How a stream counts: rows and effects are collected, put together, and counted in bulk.

What only adds is collected and counted in one go, when there is much of it, or
when somebody looks. What takes away is counted at once, after everything before
it: so the counts, and the resolution that the caps on cells leave them, are the
same however the log is cut into calls, and whoever looks at what time. The
whole's all-time counts are exact until they meet their cap; slices and panes
are bounded from the start.

Cost: see `binning`, `cells`, `tally` and `store`; about 20 ns a case without segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._time import Effect, Effects, changes_by_group, rows_by_group
from streameval_server._state.cell_table_lru import CellTableLru
from streameval_server._state.coverage import PaneCoverage
from streameval_server._state.delays import Delays, delays_by_group
from streameval_server._state.pane_store import Store
from streameval_server._state.pending_cases import UnsortedCases
from streameval_server._state.segments import ABSENT, WHOLE, codes_of, slice_id
from streameval_server._state.slice_columns import Columns, ordered, slices_of
from streameval_server._state.slice_table import LEAST_ROWS, SliceTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from streameval._common import IntArray
    from streameval._counts import State
    from streameval._time import Change
    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.accumulator import Accumulator, LazyCounts
    from streameval_server._state.ledger import StreamUsage
    from streameval_server._state.pane_content import PaneContent, Part
    from streameval_server._state.pending_cases import Added
    from streameval_server._state.slice_columns import Ordered
    from streameval_server._state.views import FrozenStream

_TAKES_AWAY = np.isin(np.arange(256), (Effect.UNLABELLED_NEGATIVE, Effect.UNLABELLED_POSITIVE))
_NUMBER_BITS = 32

_LEAST_WAITING, _MOST_WAITING = 8_192, 65_536
"""So many rows are collected before they are counted unasked: more in large streams."""

_MUCH = LEAST_ROWS
"""So many are worth to be counted where there is time: fewer would count slices by sorting."""

_EFFECT_COST = 2
"""An effect is like so many cases, and again for each segment key."""

_ROW_BYTES = 32
"""Memory of a row that was collected."""


class StreamCounts:
    """Counts of one stream.

    Parameters
    ----------
    settings, limits
        The stream's and the server's.
    ledger : StreamUsage
        The stream's.

    Attributes
    ----------
    store : Store
        What has been counted; `flush` brings it up to date.
    beyond_retention : int
        Rows that came into no pane.
    """

    def __init__(self, settings: StreamSettings, limits: Limits, ledger: StreamUsage) -> None:
        self.store = Store(settings, limits, ledger)
        self._ledger = ledger
        self.beyond_retention = 0
        self._cases: list[Columns] = []
        self._effects: list[Effects] = []
        self._waiting = 0
        # What slices count in one pane that is open.
        self._table = SliceTable()
        self._table_pane: PaneContent | None = None
        self._frozen: FrozenStream | None = None
        self._due: dict[Accumulator, None] = {}
        self._tables = CellTableLru()
        self._leaving: list[Accumulator] = []

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, at most about."""
        return self._ledger.memory_bytes + _ROW_BYTES * self._waiting + self._table.nbytes

    # -- collecting

    def add_cases(self, columns: Columns) -> None:
        """Collect cases; count them when there are many. O(1), amortised O(log n) a case."""
        self._cases.append(columns)
        self._collected(len(columns.cases))

    def add_effects(self, effects: Effects) -> None:
        """Collect what the joiner did; where it takes away, count it at once."""
        if not len(effects):
            return
        if _TAKES_AWAY[effects.kinds].any():
            self.flush()
            self.store.settle()
            self._count_effects(effects)
        else:
            self._effects.append(effects)
            # More work than cases, for each key that they have.
            self._collected(_EFFECT_COST * len(effects) * (1 + effects.codes.shape[1]))

    def _collected(self, rows: int) -> None:
        self._frozen = None
        self._waiting += rows
        most = min(self.store.whole.cells.size, _MOST_WAITING)
        if self._waiting >= max(most, _LEAST_WAITING):
            self.count()

    @property
    def has_collected(self) -> bool:
        """Whether much waits to be counted. O(1)."""
        return self._waiting >= _MUCH

    def flush(self) -> None:
        """Count everything; nothing that can be seen changes by it. O(rows log rows)."""
        self.count()
        self._empty_table()

    def count(self) -> None:
        """Count what was collected, slices maybe in their table; nothing seen changes by it."""
        cases, effects = self._cases, self._effects
        self._cases, self._effects, self._waiting = [], [], 0
        if cases:
            self._count_cases(Columns.concat(cases))
        if effects:
            self._count_effects(Effects.concat(effects))

    def take_due(self) -> list[LazyCounts]:
        """Return what should be merged before more is added, once: ask for the evaluators."""
        # Merged since the last time, so that to let go of them is all that is left.
        self._release(self._leaving)
        self._leaving = self._tables.leaving()
        due = dict.fromkeys([*self._due, *self._leaving])
        self._due = {}
        return [cells.frozen() for cells in due]

    # -- counting

    def miss(self, positives: int, negatives: int, event_us: int, codes: Sequence[int]) -> None:
        """Count references that were never scored."""
        for part in self._parts_at(event_us, codes):
            self._ledger.memory_bytes += part.cells.miss(positives, negatives)

    def merge(self, state: State, event_us: int, codes: Sequence[int]) -> None:
        """Add what somebody else counted; at 0 in all time only. O(cells)."""
        for part in self._parts_at(event_us, codes):
            self._ledger.memory_bytes += part.cells.merge([state])

    def _parts_at(self, event_us: int, codes: Sequence[int]) -> list[Part]:
        """Return what one reference at one time counts in."""
        self._frozen = None
        store = self.store
        content: PaneContent | None = None
        parts = [store.whole]
        if event_us >= store.oldest_us:
            content = store.pane(store.panes.grid.start_of(event_us))
            parts.append(content.part(WHOLE))
        elif event_us:
            self.beyond_retention += 1
        for key, code in enumerate(codes):
            parts += store.parts(content, slice_id(key, code))
        return parts

    def _count_cases(self, columns: Columns) -> None:
        self._frozen = None
        store = self.store
        codes = codes_of(columns.coded) if columns.coded else None
        start = self._one_start(columns.event_us)
        if start is not None:
            content = store.pane(start)
            self._add((store.whole, content.part(WHOLE)), columns.cases)
            if codes is not None:
                rows = ordered(columns.cases, codes, store.bits, store.scale)
                if not self._tabled(content, rows):
                    self._add_to_slices(content, rows)
            return
        self._add((store.whole,), columns.cases)
        times = np.broadcast_to(np.asarray(columns.event_us), len(columns.cases))
        # Rows whose pane is gone come first, as if they had one pane: none.
        starts = np.where(
            times >= store.oldest_us, store.panes.grid.starts_of(times), np.int64(_GONE)
        )
        groups = list(rows_by_group(starts))
        kept = [start for start, _ in groups if start != _GONE]
        panes = dict(zip(kept, store.panes_at(kept), strict=True))
        parts_of = store.parts
        if codes is not None and not any(pane.is_open for pane in panes.values()):
            # What slices count for all time, of all panes at once.
            self._add_to_slices(None, ordered(columns.cases, codes, store.bits, store.scale))
            parts_of = store.in_pane
        for start, places in groups:
            some, pane = columns.cases.at(places), panes.get(start)
            if pane is None:
                self.beyond_retention += places.size
            self._add(store.in_pane(pane, WHOLE), some)
            if codes is not None:
                rows = ordered(some, codes[:, places], store.bits, store.scale)
                for number, change in slices_of(rows):
                    self._add(parts_of(pane, number), change)

    def _one_start(self, event_us: int | IntArray) -> int | None:
        """Return the pane's start when all rows are in one pane that is kept."""
        if isinstance(event_us, int):
            first = last = event_us
        else:
            first, last = int(event_us.min()), int(event_us.max())
        if first < self.store.oldest_us:
            return None
        grid = self.store.panes.grid
        start = grid.start_of(first)
        return start if grid.start_of(last) == start else None

    def _tabled(self, content: PaneContent, rows: Ordered) -> bool:
        """Add what slices count to the table of an open pane, if that is quicker."""
        if content is not self._table_pane:
            self._empty_table()
        if not content.is_open or not self._table.add(rows):
            return False
        self._table_pane = content
        return True

    def _empty_table(self) -> None:
        """Give each slice what the table counted of it."""
        content, self._table_pane = self._table_pane, None
        if content is not None:
            content.touch()
            for number, change in self._table.take():
                self._add(self.store.parts(content, number), change)

    def _add_to_slices(self, content: PaneContent | None, rows: Ordered) -> None:
        for number, change in slices_of(rows):
            self._add(self.store.parts(content, number), change)

    def _add(self, parts: Iterable[Part], added: Added) -> None:
        for part in parts:
            cells = part.cells
            may_have_table = self._tables.admits(cells)
            self._ledger.memory_bytes += cells.add(added, may_have_table=may_have_table)
            if cells.has_table:
                self._tables.note(cells)
            if cells.is_due:
                self._due[cells] = None

    def _release(self, cells: Iterable[Accumulator]) -> None:
        """Let cells do without a table."""
        for each in cells:
            self._ledger.memory_bytes += each.release()

    def _count_effects(self, effects: Effects) -> None:
        self._frozen = None
        store = self.store
        kept = effects.event_us >= store.oldest_us
        self.beyond_retention += effects.event_us.size - int(np.count_nonzero(kept))
        starts = np.where(kept, store.panes.grid.starts_of(effects.event_us), np.int64(_GONE))
        found, places = np.unique(starts, return_inverse=True)
        there = store.panes_at([start for start in found.tolist() if start != _GONE])
        all_at_once = not any(pane.is_open for pane in there)
        # What is in none comes first.
        panes = [*([None] * (found.size - len(there))), *there]
        nothing = np.zeros(len(effects), dtype=np.int64)
        for _, change, delays in self._changes(effects, nothing):
            self._take((store.whole,), change, delays)
        for numbers, rows in _numbered(effects):
            some, at = (effects, places) if rows is None else (effects[rows], places[rows])
            if all_at_once and numbers[0] != WHOLE:
                for number, change, delays in self._changes(some, numbers):
                    self._take(store.parts(None, number), change, delays)
            groups = at.astype(np.int64) << _NUMBER_BITS | numbers
            for group, change, delays in self._changes(some, groups):
                content = panes[group >> _NUMBER_BITS]
                number = group & ((1 << _NUMBER_BITS) - 1)
                in_all = number != WHOLE and not all_at_once
                parts = (store.parts if in_all else store.in_pane)(content, number)
                self._take(parts, change, delays)

    def _changes(self, effects: Effects, groups: IntArray) -> Iterator[tuple[int, Change, Delays]]:
        delays = delays_by_group(effects, groups)
        for group, change in changes_by_group(effects, groups, scale=self.store.scale):
            yield group, change, delays.get(group) or Delays()

    def _take(self, parts: Iterable[Part], change: Change, delays: Delays) -> None:
        """Count what happened to one group."""
        # Copies: a view would keep the columns of all groups in memory while it waits.
        added = None if change.added is None else UnsortedCases(*change.added).own()
        removed = None if change.removed is None else UnsortedCases(*change.removed).sorted()
        coverage = PaneCoverage(change.coverage, delays)
        for part in parts:
            if added is not None:
                self._add((part,), added)
            if removed is not None:
                self._ledger.memory_bytes += part.cells.remove(removed)
            if change.missed_positives or change.missed_negatives:
                self._ledger.memory_bytes += part.cells.miss(
                    change.missed_positives, change.missed_negatives
                )
            part.cover(coverage)

    # -- time

    @property
    def due_us(self) -> int | None:
        """When panes coarsen or go next; None without any. O(1)."""
        # What was collected will be in panes.
        if len(self.store.panes) or self._waiting:
            return self.store.due_us
        return None

    def advance(self, now_us: int) -> None:
        """Let panes coarsen and go. O(panes that change)."""
        self.flush()
        self._release(self._tables.take(but=self.store.whole.cells))
        if self.store.advance(now_us):
            self._frozen = None

    def reconfigure(self, settings: StreamSettings) -> None:
        """Go on under other settings; what is gone is gone. O(panes) when retention changes."""
        # What was collected has the keys and the panes of before.
        self.flush()
        self._release(self._tables.take(but=self.store.whole.cells))
        if self.store.keep(settings):
            self._frozen = None

    # -- reading

    def frozen(self, names: Mapping[tuple[str, str], int]) -> FrozenStream:
        """Return the counts as they are now; the same object until they change. O(panes)."""
        self.flush()
        if self._frozen is None:
            self._frozen = self.store.frozen(names)
        return self._frozen


_GONE = -(1 << 62)
"""Stands for the start of a pane that is no longer kept."""


def _numbered(effects: Effects) -> Iterator[tuple[IntArray, IntArray | None]]:
    """Yield the slice of each row: the whole, then for each key; with the rows that are in one."""
    yield np.full(len(effects), WHOLE, dtype=np.int64), None
    for key in range(effects.codes.shape[1]):
        codes = effects.codes[:, key]
        numbers = codes.astype(np.int64) | slice_id(key, 0)
        rows = None
        if (codes == ABSENT).any():
            rows = np.flatnonzero(codes != ABSENT)
            numbers = numbers[rows]
            if not rows.size:
                continue
        yield numbers, rows
