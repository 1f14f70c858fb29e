"""Counts a stream's rows and join effects: collects them, then counts them in bulk.

Additions are collected and counted together, once there are enough of them or when the
counts are read. Removals are counted at once, after everything before them. So the counts,
and the resolution that the caps on cells leave them, depend neither on how the log is cut
into calls nor on when the counts are read. The whole's all-time counts are exact until they
reach their cap; slices and panes are bounded from the start.

Cost: about 20 ns a case without segments; for the rest see `slice_sort`, `accumulator`,
`cell_table` and `pane_store`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._time import Effect, Effects, changes_by_group, rows_by_group
from streameval_server._state.accumulator import CellTableLru
from streameval_server._state.coverage import PaneCoverage
from streameval_server._state.delays import NO_DELAYS, delays_by_group
from streameval_server._state.pane_store import PaneStore
from streameval_server._state.pending_cases import TimedCases, UnsortedCases
from streameval_server._state.segments import WHOLE, segment_codes, slices_by_key
from streameval_server._state.slice_sort import slices_of, sort_by_cell
from streameval_server._state.slice_table import MIN_TABLE_ROWS, SliceTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from streameval._common import IntArray
    from streameval._counts import State
    from streameval._time import Change, CodeArray
    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.accumulator import Accumulator, StreamUsage
    from streameval_server._state.delays import Delays
    from streameval_server._state.pane_content import PaneContent, Part
    from streameval_server._state.pending_cases import Addition
    from streameval_server._state.slice_sort import RowsByCell
    from streameval_server._state.views import FrozenStream, LazyCounts

_REMOVES = np.isin(np.arange(256), (Effect.UNLABELLED_NEGATIVE, Effect.UNLABELLED_POSITIVE))
_NUMBER_BITS = 32

_MIN_COLLECTED_ROWS, _MAX_COLLECTED_ROWS = 8_192, 65_536
"""Collected rows at which they are counted without a read: more in larger streams."""

MIN_IDLE_COUNT_ROWS = MIN_TABLE_ROWS
"""Fewer collected rows are not counted in idle time: small batches take the slower sort path."""

_EFFECT_COST = 2
"""An effect costs as much as this many cases, and again for each segment key."""

_MAX_DEFERRED_ROWS = 8_192
"""Rows of a closed pane at which its slices are counted without a read."""

_MIN_SETTLED_PANES = 4
"""Panes whose slices are counted in one piece of idle time: some 50 ms with 800 slices."""

_NO_PANE = -(1 << 62)
"""Stands for the start of a pane that is no longer kept; before all real starts."""


class StreamCounts:
    """Counts of one stream.

    Parameters
    ----------
    settings, limits
        The stream's and the server's.
    usage : StreamUsage
        The stream's.

    Attributes
    ----------
    store : PaneStore
        What has been counted; `flush` adds what was collected.
    beyond_retention : int
        Rows that are in no pane, because theirs was no longer kept.
    """

    def __init__(self, settings: StreamSettings, limits: Limits, usage: StreamUsage) -> None:
        self.store = PaneStore(settings, limits, usage)
        self._usage = usage
        self.beyond_retention = 0
        self._cases: list[TimedCases] = []
        self._effects: list[Effects] = []
        self._collected_rows = self._collected_bytes = 0
        # Closed panes with rows that are not in the panes' slices yet.
        self._deferred: dict[PaneContent, None] = {}
        # Rows of slices in one open pane that are not in the slices' own counts yet.
        self._table: SliceTable | None = None
        self._table_pane: PaneContent | None = None
        self._frozen: FrozenStream | None = None
        self._unmerged: dict[Accumulator, None] = {}
        self._tables = CellTableLru()
        self._evicted: list[Accumulator] = []

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(keys)."""
        table = 0 if self._table is None else self._table.nbytes
        return self._usage.memory_bytes + self._collected_bytes + table

    # -- collecting

    def add_cases(self, timed: TimedCases) -> None:
        """Collect cases; count them when there are many. O(1), amortised O(log n) a case."""
        self._cases.append(timed)
        self._collected_bytes += timed.nbytes
        self._grow(timed.cases.labels.size)

    def add_effects(self, effects: Effects) -> None:
        """Collect what the joiner did; if it removes cases, count everything at once."""
        if not len(effects):
            return
        if _REMOVES[effects.kinds].any():
            self.flush()
            self.store.close_panes()
            self._count_effects(effects)
        else:
            self._effects.append(effects)
            self._collected_bytes += effects.nbytes
            # Effects cost more than cases, and again for each key.
            self._grow(_EFFECT_COST * len(effects) * (1 + effects.codes.shape[1]))

    def _grow(self, rows: int) -> None:
        self._frozen = None
        self._collected_rows += rows
        limit = min(self.store.whole.counts.size, _MAX_COLLECTED_ROWS)
        if self._collected_rows >= max(limit, _MIN_COLLECTED_ROWS):
            self.count()

    @property
    def has_collected(self) -> bool:
        """Whether enough is collected to count it in idle time. O(1)."""
        return self._collected_rows >= MIN_IDLE_COUNT_ROWS or bool(self._deferred)

    def flush(self) -> None:
        """Count everything that was collected, without a visible effect. O(rows log rows)."""
        self.count()
        self._empty_table()
        self._settle(len(self._deferred))

    def count_idle(self) -> None:
        """Count a part of what was collected, in idle time, without a visible effect."""
        if self._collected_rows >= MIN_IDLE_COUNT_ROWS:
            self.count()
        self._settle(_MIN_SETTLED_PANES)

    def _settle(self, panes: int) -> None:
        """Count the deferred rows of some panes in their slices. O(rows + slices)."""
        for content in list(self._deferred)[:panes]:
            del self._deferred[content]
            self._usage.memory_bytes -= content.deferred_bytes
            cases, codes = content.pop_deferred()
            rows = sort_by_cell(cases, codes, self.store.bits, self.store.scale)
            for number, change in slices_of(rows):
                self._add(self.store.in_pane(content, number), change)

    def count(self) -> None:
        """Count what was collected, slices possibly in their table, without a visible effect."""
        cases, effects = self._cases, self._effects
        self._cases, self._effects = [], []
        self._collected_rows = self._collected_bytes = 0
        if cases:
            self._count_cases(cases[0] if len(cases) == 1 else TimedCases.concat(cases))
        if effects:
            self._count_effects(Effects.concat(effects))

    def take_due(self) -> list[LazyCounts]:
        """Return counts that the caller must merge before more is added; each once."""
        # The caller has merged these after the last call, so dropping their tables is cheap.
        self._drop_tables(self._evicted)
        self._evicted = self._tables.pop_evicted()
        due = dict.fromkeys([*self._unmerged, *self._evicted])
        self._unmerged = {}
        return [accumulator.frozen() for accumulator in due]

    # -- counting

    def miss(self, positives: int, negatives: int, event_us: int, codes: Sequence[int]) -> None:
        """Count references that were never scored."""
        for part in self._parts_at(event_us, codes):
            self._usage.memory_bytes += part.counts.miss(positives, negatives)

    def merge(self, state: State, event_us: int, codes: Sequence[int]) -> None:
        """Add counts made elsewhere; with event time 0 to all time only. O(cells)."""
        for part in self._parts_at(event_us, codes):
            self._usage.memory_bytes += part.counts.merge([state])

    def _parts_at(self, event_us: int, codes: Sequence[int]) -> list[Part]:
        """Return the parts that count a reference of this time and these segments."""
        self._frozen = None
        self.beyond_retention += 0 < event_us < self.store.oldest_us
        return self.store.parts_at(event_us, codes)

    def _count_cases(self, timed: TimedCases) -> None:
        self._frozen = None
        store = self.store
        codes = segment_codes(timed.segments) if timed.segments else None
        start = store.common_pane(timed.event_us)
        if start is not None:
            content = store.pane(start)
            self._add((store.whole, content.part(WHOLE)), timed.cases)
            if codes is not None:
                rows = sort_by_cell(timed.cases, codes, store.bits, store.scale)
                if not self._add_to_table(content, rows):
                    self._add_to_slices(content, rows)
            return
        self._add((store.whole,), timed.cases)
        times = np.broadcast_to(np.asarray(timed.event_us), len(timed.cases))
        # Rows whose pane is no longer kept form one group, which comes first.
        starts = np.where(
            times >= store.oldest_us, store.panes.grid.starts_of(times), np.int64(_NO_PANE)
        )
        groups = list(rows_by_group(starts))
        kept = [start for start, _ in groups if start != _NO_PANE]
        panes = dict(zip(kept, store.panes_at(kept), strict=True))
        all_closed = not any(pane.is_open for pane in panes.values())
        if codes is not None and all_closed:
            # Add to the slices' all-time counts in one go.
            self._add_to_slices(None, sort_by_cell(timed.cases, codes, store.bits, store.scale))
        for start, places in groups:
            cases, pane = timed.cases.take(places), panes.get(start)
            if pane is None:
                self.beyond_retention += places.size
            self._add(store.in_pane(pane, WHOLE), cases)
            if codes is None or (pane is None and all_closed):
                continue
            own_codes = codes[:, places]
            if all_closed and pane is not None:
                self._defer(pane, cases, own_codes)
            else:
                self._add_to_slices(pane, sort_by_cell(cases, own_codes, store.bits, store.scale))

    def _defer(self, content: PaneContent, cases: UnsortedCases, codes: CodeArray) -> None:
        """Leave rows of a closed pane's slices, counted for all time, to be counted later."""
        self._usage.memory_bytes += content.defer(cases, codes, len(self.store.slices))
        self._deferred[content] = None
        if content.deferred_rows > _MAX_DEFERRED_ROWS:
            # To the front, which is settled first.
            self._deferred = {content: None} | self._deferred
            self._settle(1)

    def _add_to_table(self, content: PaneContent, rows: RowsByCell) -> bool:
        """Add rows to the slice table of an open pane; return whether the table took them."""
        if content is not self._table_pane:
            self._empty_table()
        if not content.is_open:
            return False
        table = self._table or SliceTable()
        if not table.add(rows):
            return False
        self._table, self._table_pane = table, content
        return True

    def _empty_table(self) -> None:
        """Move the slice table's counts to the slices."""
        table, content = self._table, self._table_pane
        self._table = self._table_pane = None
        if table is not None and content is not None:
            content.touch()
            for number, change in table.slices():
                self._add(self.store.parts(content, number), change)

    def _add_to_slices(self, content: PaneContent | None, rows: RowsByCell) -> None:
        for number, change in slices_of(rows):
            self._add(self.store.parts(content, number), change)

    def _add(self, parts: Iterable[Part], added: Addition) -> None:
        for part in parts:
            accumulator = part.counts
            may_have_table = self._tables.admits(accumulator)
            self._usage.memory_bytes += accumulator.add(added, may_have_table=may_have_table)
            if accumulator.has_table:
                self._tables.record(accumulator)
            if accumulator.is_due:
                self._unmerged[accumulator] = None

    def _drop_tables(self, accumulators: Iterable[Accumulator]) -> None:
        for accumulator in accumulators:
            self._usage.memory_bytes += accumulator.drop_table()

    def _count_effects(self, effects: Effects) -> None:
        self._frozen = None
        store = self.store
        kept = effects.event_us >= store.oldest_us
        self.beyond_retention += effects.event_us.size - int(np.count_nonzero(kept))
        starts = np.where(kept, store.panes.grid.starts_of(effects.event_us), np.int64(_NO_PANE))
        found, places = np.unique(starts, return_inverse=True)
        kept_panes = store.panes_at([start for start in found.tolist() if start != _NO_PANE])
        all_at_once = not any(pane.is_open for pane in kept_panes)
        # Rows without a pane come first.
        panes = [*([None] * (found.size - len(kept_panes))), *kept_panes]
        nothing = np.zeros(len(effects), dtype=np.int64)
        for _, change, delays in self._changes(effects, nothing):
            self._apply_change((store.whole,), change, delays)
        for numbers, rows in slices_by_key(effects.codes):
            mine, at = (effects, places) if rows is None else (effects[rows], places[rows])
            if all_at_once and numbers[0] != WHOLE:
                for number, change, delays in self._changes(mine, numbers):
                    self._apply_change(store.parts(None, number), change, delays)
            groups = at.astype(np.int64) << _NUMBER_BITS | numbers
            for group, change, delays in self._changes(mine, groups):
                content = panes[group >> _NUMBER_BITS]
                number = group & ((1 << _NUMBER_BITS) - 1)
                in_all = number != WHOLE and not all_at_once
                parts = (store.parts if in_all else store.in_pane)(content, number)
                self._apply_change(parts, change, delays)

    def _changes(self, effects: Effects, groups: IntArray) -> Iterator[tuple[int, Change, Delays]]:
        delays = delays_by_group(effects, groups)
        for group, change in changes_by_group(effects, groups, scale=self.store.scale):
            yield group, change, delays.get(group, NO_DELAYS)

    def _apply_change(self, parts: Iterable[Part], change: Change, delays: Delays) -> None:
        """Add one group's changes to the parts that count it."""
        # Copies, because a pending view would keep the columns of all groups in memory.
        added = None if change.added is None else UnsortedCases(*change.added).copy()
        removed = None if change.removed is None else UnsortedCases(*change.removed).sorted()
        coverage = PaneCoverage(change.coverage, delays)
        for part in parts:
            if added is not None:
                self._add((part,), added)
            if removed is not None:
                self._usage.memory_bytes += part.counts.remove(removed)
            if change.missed_positives or change.missed_negatives:
                self._usage.memory_bytes += part.counts.miss(
                    change.missed_positives, change.missed_negatives
                )
            self._usage.memory_bytes += part.cover(coverage)

    # -- time

    @property
    def due_us(self) -> int | None:
        """When panes coarsen or expire next; None without panes. O(1)."""
        # Collected rows will be in panes once they are counted.
        if len(self.store.panes) or self._collected_rows:
            return self.store.due_us
        return None

    def advance(self, now_us: int) -> None:
        """Advance the time: panes coarsen and expire. O(panes that change)."""
        self.flush()
        self._drop_tables(self._tables.clear(keep=self.store.whole.counts))
        if self.store.advance(now_us):
            self._frozen = None

    def reconfigure(self, settings: StreamSettings) -> None:
        """Take new settings. O(panes) when retention changes; expired panes stay lost."""
        # Collected rows belong to the old keys and panes.
        self.flush()
        self._drop_tables(self._tables.clear(keep=self.store.whole.counts))
        if self.store.reconfigure(settings):
            self._frozen = None

    # -- reading

    def frozen(self, names: Mapping[tuple[str, str], int]) -> FrozenStream:
        """Return the counts as they are now; the same object until they change. O(panes)."""
        self.flush()
        if self._frozen is None:
            self._frozen = self.store.frozen(names)
        return self._frozen
