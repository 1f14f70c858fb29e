"""Counts a stream's rows and join effects: collects them, then counts them in bulk.

Additions are collected and counted together, once there are enough of them or when the
counts are read. Removals are counted at once, after everything before them. So the counts,
and the resolution that the caps on cells leave them, depend neither on how the log is cut
into calls nor on when the counts are read. The whole's all-time counts are exact until they
reach their cap; slices and panes are bounded from the start.

Cost: about 20 ns a case without segments; for the rest see `slice_sort`, `Tally` and
`pane_store`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from streameval.kernel import (
    Change,
    Effects,
    UnsortedCases,
    distinct_values,
    rows_by_group,
)
from streameval_server._state.counting.collected_rows import CollectedRows, TimedCases
from streameval_server._state.counting.coverage import PaneCoverage
from streameval_server._state.counting.deferred_rows import (
    NONE_DEFERRED,
    REMOVES,
    CodedCases,
    DeferredRows,
)
from streameval_server._state.counting.delays import NO_DELAYS, delays_by_group
from streameval_server._state.counting.pane_content import PartsEncoder, parts_from_bytes
from streameval_server._state.counting.pane_store import PaneStore
from streameval_server._state.counting.slice_sort import (
    slices_of,
    slices_of_weighted,
    sort_by_cell,
)
from streameval_server._state.counting.slice_table import MIN_TABLE_ROWS, SliceTable
from streameval_server._state.delays.label_delays import StreamDelays
from streameval_server._state.observer import CheckpointPart, Merged, Misses, Observer
from streameval_server._state.segments import WHOLE, key_of, segment_codes, slices_by_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from streameval.kernel import LazyCounts, ScoreCounts, State, Tally
    from streameval_server._model.arrays import BoolArray, CodeArray, IntArray
    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.counting.delays import Delays
    from streameval_server._state.counting.pane_content import PaneContent, Part
    from streameval_server._state.memory import StreamUsage
    from streameval_server._state.observer import Restoring, Taken
    from streameval_server._state.views import FrozenStream


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

_MAX_VIEWED_ROWS = 256
"""Collected rows that a view counts in one piece: some 50 ms with eight keys."""

_PANE_COST = 64
"""Budget for a pane that coarsens or expires, in ids that expire."""

SLICE_PART, PANE_PART = "slice", "pane"

_NO_PANE = -(1 << 62)
"""Stands for the start of a pane that is no longer kept; before all real starts."""


class StreamCounts(Observer):
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
    delays : StreamDelays or None
        How late labels come; None until `keep_delays`.
    on_cases : callable or None
        Is given cases as they are counted, all that were collected in their order, and their
        segment codes; it changes neither.
    """

    __slots__ = (
        "__weakref__",
        "_all_time",
        "_cases",
        "_collected",
        "_collected_rows",
        "_deferred",
        "_effects",
        "_frozen",
        "_pane_cells",
        "_table",
        "_table_pane",
        "_unmerged",
        "_usage",
        "beyond_retention",
        "delays",
        "on_cases",
        "store",
    )
    KINDS = (SLICE_PART, PANE_PART)

    def __init__(self, settings: StreamSettings, limits: Limits, usage: StreamUsage) -> None:
        self.store = PaneStore(settings, limits, usage)
        self._usage = usage
        self.beyond_retention = 0
        self.delays: StreamDelays | None = None
        self.on_cases: Callable[[UnsortedCases, CodeArray | None], None] | None = None
        self._cases: list[TimedCases] = []
        self._effects: list[Effects] = []
        self._collected = CollectedRows()
        self._collected_rows = 0
        # Closed panes with rows that are not in the panes' slices yet.
        self._deferred: dict[PaneContent, None] = {}
        # Effects that are not in the slices' all-time counts yet.
        self._all_time = NONE_DEFERRED
        self._pane_cells = limits.pane_cells
        # Rows of slices in one open pane that are not in the slices' own counts yet.
        self._table: SliceTable | None = None
        self._table_pane: PaneContent | None = None
        self._frozen: FrozenStream | None = None
        self._unmerged: dict[Tally, None] = {}

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(keys + panes)."""
        table = 0 if self._table is None else self._table.nbytes
        deferred = self._all_time.memory_bytes
        collected = self._collected.memory_bytes(self.store)
        return self._usage.memory_bytes + collected + deferred + table

    # -- collecting

    def take(self, taken: Taken, _received_us: int) -> None:
        """Collect rows, or count removals, merged counts and misses at once."""
        if isinstance(taken, TimedCases):
            self.add_cases(taken)
        elif isinstance(taken, Misses):
            self.miss(*taken)
        elif isinstance(taken, Merged):
            self.merge(*taken)
        else:
            self.add_effects(taken)

    def add_cases(self, timed: TimedCases) -> None:
        """Collect cases, for `count_full`. O(1), amortised O(log n) a case."""
        self._cases.append(timed)
        keys = len(timed.segments[0].columns) if timed.segments else 0
        self._collected.add(
            _memory_rows(len(timed.cases), has_weights=timed.cases.has_weights),
            keys,
            timed.event_us,
            timed.nbytes,
            has_effects=False,
        )
        self._grow(timed.cases.labels.size)

    def add_effects(self, effects: Effects) -> None:
        """Collect what the joiner did; if it removes cases, count everything at once."""
        if not len(effects):
            return
        if np.count_nonzero(REMOVES[effects.kinds]):
            self.count()
            self._empty_table()
            self._count_effects(effects)
        else:
            self._effects.append(effects)
            self._collected.add(
                _memory_rows(len(effects), has_weights=effects.units is not None),
                effects.codes.shape[1],
                effects.event_us,
                effects.nbytes,
                has_effects=True,
            )
            # Effects cost more than cases, and again for each key.
            self._grow(_EFFECT_COST * len(effects) * (1 + effects.codes.shape[1]))

    def _grow(self, rows: int) -> None:
        self._frozen = None
        self._collected_rows += rows

    def count_full(self) -> None:
        """Count what was collected if that is much; to be called after each entry."""
        limit = min(self.store.whole.counts.size, _MAX_COLLECTED_ROWS)
        if self._collected_rows >= max(limit, _MIN_COLLECTED_ROWS):
            self.count()

    @property
    def has_collected(self) -> bool:
        """Whether there is enough to count, or to pack, in idle time. O(1)."""
        return (
            self._collected_rows >= MIN_IDLE_COUNT_ROWS
            or bool(self._deferred)
            or self.store.has_unpacked
        )

    @property
    def has_uncounted(self) -> bool:
        """Whether memory has what rows may take at most, as they are not counted. O(1)."""
        return bool(self._collected_rows or self._deferred or self._all_time.size)

    def flush(self) -> None:
        """Count everything that was collected, without a visible effect. O(rows log rows)."""
        self.count()
        self._empty_table()
        self._settle_all_time()
        for content in list(self._deferred):
            self._settle(content)

    @property
    def num_pieces(self) -> int:
        """How many calls of `count_piece` leave little to count, if no rows arrive. O(1).

        Collected rows may be of many panes: there may be more after the first call.
        """
        panes = -(-len(self._deferred) // _MIN_SETTLED_PANES)
        return max(panes, int(self._collected_rows > _MAX_VIEWED_ROWS))

    def count_piece(self) -> None:
        """Count collected rows, and deferred ones of some panes, without a visible effect."""
        self.count()
        self._settle_all_time()
        settled = list(self._deferred)[:_MIN_SETTLED_PANES]
        for content in settled:
            self._settle(content)
        # Frozen here, and not all at once when the view is taken.
        self.store.freeze(settled)

    def count_idle(self) -> None:
        """Count a part of what was collected, or pack a pane, in idle time, invisibly."""
        if self._collected_rows >= MIN_IDLE_COUNT_ROWS:
            self.count()
        self._settle_all_time()
        for content in list(self._deferred)[:_MIN_SETTLED_PANES]:
            self._settle(content)
        if not self._deferred:
            self.store.pack_pane()

    def _settle(self, content: PaneContent) -> None:
        """Count a pane's deferred rows in its slices. O(rows + slices)."""
        del self._deferred[content]
        parts_of = partial(self.store.in_pane, content)
        for rows in content.pop_deferred(self._pane_cells):
            if isinstance(rows, Effects):
                self._add_effects_to_slices(parts_of, rows)
            else:
                for number, change in self._slices(rows.cases, rows.codes):
                    self._add(parts_of(number), change)

    def _settle_removals(self, content: PaneContent | None) -> None:
        """Count deferred rows that remove cases, before other rows change their slices.

        Those of the all-time counts, and of a pane.
        """
        if self._all_time.has_removals:
            self._settle_all_time()
        if content is not None and content.deferred.has_removals:
            self._settle(content)

    def _settle_all_time(self) -> None:
        """Count deferred effects in the slices' all-time counts. O(rows + slices)."""
        if self._all_time is NONE_DEFERRED:
            return
        slices = self.store.slices
        counts = (part.counts for number, part in slices.items() if number != WHOLE)
        for rows in self._all_time.pop(counts, self._pane_cells):
            assert isinstance(rows, Effects)
            self._add_effects_to_slices(partial(self.store.parts, None), rows)

    def _close_panes(self) -> None:
        """Close all panes."""
        if self.store.has_open_panes:
            self._settle_removals(None)
            self.store.close_panes()

    def _slices(
        self, cases: UnsortedCases, codes: CodeArray
    ) -> Iterable[tuple[int, ScoreCounts | UnsortedCases]]:
        """Return what each slice of each key counts."""
        if cases.has_weights:
            return slices_of_weighted(cases, codes)
        return slices_of(sort_by_cell(cases, codes, self.store.bits, self.store.scale))

    def count(self) -> None:
        """Count what was collected, slices possibly in their table, without a visible effect."""
        cases, effects = self._cases, self._effects
        first_us, last_us = self._collected.span_us
        self._cases, self._effects = [], []
        self._collected_rows = 0
        self._collected = CollectedRows()
        if cases:
            is_one_pane = self.store.pane_of_span(first_us, last_us) is not None
            timed = TimedCases.concat(cases, first_us if is_one_pane else None)
            codes = segment_codes(timed.segments) if timed.segments else None
            self._count_cases(timed, codes)
            if self.on_cases is not None:
                self.on_cases(timed.cases, codes)
        if effects:
            self._count_effects(Effects.concat(effects))

    def settle(self, now_us: int) -> None:
        """Count what was collected, unless all of it is in panes that are kept at a time.

        Panes may coarsen before or after rows are counted in them: the counts are the same.
        What stays is joined, so that small batches take no more than their rows.
        """
        oldest_us = max(self.store.floor_us, self.store.panes.grid_at(now_us).oldest_us)
        if self.on_cases is not None or self._collected.span_us[0] < oldest_us:
            self.count()
            return
        if len(self._cases) > 1:
            self._cases = [TimedCases.concat(self._cases, None)]
        if len(self._effects) > 1:
            self._effects = [Effects.concat(self._effects)]

    def take_due(self) -> list[LazyCounts]:
        """Return counts that the caller must merge before more is added; each once."""
        due, self._unmerged = self._unmerged, {}
        return [tally.frozen() for tally in due]

    # -- counting

    def keep_delays(self, settings: StreamSettings) -> StreamDelays:
        """Keep the delays of labels; return them, empty. O(1)."""
        self.delays = StreamDelays(settings, self._usage)
        self.delays.advance(self.store.panes.now_us)
        self._frozen = None
        return self.delays

    def miss(self, positives: int, negatives: int, event_us: int, codes: Sequence[int]) -> None:
        """Count references that were never scored."""
        for part in self._parts_at(event_us, codes):
            with self._usage.measuring(part):
                part.counts.miss(positives, negatives)

    def merge(self, state: State, event_us: int, codes: Sequence[int]) -> None:
        """Add counts made elsewhere; with event time 0 to all time only. Amortised O(cells)."""
        for part in self._parts_at(event_us, codes):
            with self._usage.measuring(part):
                part.counts.add_state(state)
            self._note_due(part)

    def _note_due(self, part: Part) -> None:
        if part.counts.is_due:
            self._unmerged[part.counts] = None

    def _parts_at(self, event_us: int, codes: Sequence[int]) -> list[Part]:
        """Return the parts that count a reference of this time and these segments."""
        self._frozen = None
        self.beyond_retention += 0 < event_us < self.store.oldest_us
        panes = self.store.panes
        is_kept = event_us >= self.store.oldest_us
        self._settle_removals(panes.get(panes.grid.start_of(event_us)) if is_kept else None)
        return self.store.parts_at(event_us, codes)

    def _count_cases(self, timed: TimedCases, codes: CodeArray | None) -> None:
        self._frozen = None
        store = self.store
        if codes is not None or store.has_open_panes:
            self._settle_removals(None)
        start = store.common_pane(timed.event_us)
        if start is not None:
            content = store.pane(start)
            self._add((store.whole, content.part(WHOLE)), timed.cases)
            if codes is not None:
                self._add_to_open_slices(content, timed.cases, codes)
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
            self._add_to_slices(None, self._slices(timed.cases, codes))
        for start, places in groups:
            cases, pane = timed.cases.take(places), panes.get(start)
            if pane is None:
                self.beyond_retention += places.size
            self._add(store.in_pane(pane, WHOLE), cases)
            if codes is None or (pane is None and all_closed):
                continue
            own_codes = codes[:, places]
            if all_closed and pane is not None:
                self._defer(pane, CodedCases(cases, own_codes))
            else:
                self._settle_removals(pane)
                self._add_to_slices(pane, self._slices(cases, own_codes))

    def _defer(self, content: PaneContent, rows: CodedCases | Effects) -> None:
        """Leave rows of a closed pane's slices, counted for all time, to be counted later."""
        content.defer(rows)
        self._deferred[content] = None
        if content.deferred.size > _MAX_DEFERRED_ROWS:
            self._settle(content)

    def _defer_all_time(self, effects: Effects) -> None:
        """Leave effects in the slices' all-time counts to be counted later."""
        if self._all_time is NONE_DEFERRED:
            self._all_time = DeferredRows()
        slices, existing = self._usage.num_slices, len(self.store.slices) - 1
        self._all_time.add(effects, slices=slices, existing=existing)
        if self._all_time.size > _MAX_DEFERRED_ROWS:
            self._settle_all_time()

    def _add_to_open_slices(
        self, content: PaneContent, cases: UnsortedCases, codes: CodeArray
    ) -> None:
        """Add rows of one pane to its slices, by the slice table if it takes them."""
        self._settle_removals(content)
        if cases.has_weights or not self._add_to_table(content, cases, codes):
            self._add_to_slices(content, self._slices(cases, codes))

    def _add_to_table(self, content: PaneContent, cases: UnsortedCases, codes: CodeArray) -> bool:
        """Add rows to the slice table of an open pane; return whether the table took them."""
        if content is not self._table_pane:
            self._empty_table()
        if not content.is_open:
            return False
        table = self._table or SliceTable(self.store.bits, self.store.scale)
        if not table.add(cases, codes):
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

    def _add_to_slices(
        self, content: PaneContent | None, slices: Iterable[tuple[int, ScoreCounts | UnsortedCases]]
    ) -> None:
        for number, change in slices:
            self._add(self.store.parts(content, number), change)

    def _add(self, parts: Iterable[Part], added: ScoreCounts | UnsortedCases) -> None:
        for part in parts:
            with self._usage.measuring(part):
                part.counts.add(added)
            self._note_due(part)

    def _count_effects(self, effects: Effects) -> None:
        self._frozen = None
        store = self.store
        kept = effects.event_us >= store.oldest_us
        self.beyond_retention += effects.event_us.size - int(np.count_nonzero(kept))
        starts = np.where(kept, store.panes.grid.starts_of(effects.event_us), np.int64(_NO_PANE))
        found = distinct_values(starts)[0].tolist()
        kept_starts = [start for start in found if start != _NO_PANE]
        self._count_delays(effects, kept)
        if store.has_open_panes:
            self._settle_removals(None)
        panes = dict(zip(kept_starts, store.panes_at(kept_starts), strict=True))
        if REMOVES[effects.kinds].any():
            # Also the panes that these rows have created: a case that they remove may be among
            # the deferred ones, which only rows of closed panes come after.
            self._close_panes()
        all_closed = not any(pane.is_open for pane in panes.values())
        nothing = np.zeros(len(effects), dtype=np.int64)
        for _, change, delays in self._changes(effects, nothing):
            self._apply_change((store.whole,), change, delays)
        for start, change, delays in self._changes(effects, starts):
            self._apply_change(store.in_pane(panes.get(start), WHOLE), change, delays)
        if not effects.codes.shape[1]:
            return
        if all_closed:
            self._defer_all_time(effects)
        for start, rows in rows_by_group(starts):
            pane = panes.get(start)
            if all_closed and pane is not None:
                self._defer(pane, effects[rows])
            elif not all_closed:
                self._settle_removals(pane)
                self._add_effects_to_slices(partial(store.parts, pane), effects[rows])

    def _count_delays(self, effects: Effects, kept: BoolArray) -> None:
        if self.delays is not None:
            self.delays.count(effects if kept.all() else effects[kept])

    def _add_effects_to_slices(
        self, parts_of: Callable[[int], list[Part]], effects: Effects
    ) -> None:
        """Count effects in the slices of each key. O(rows log rows + slices)."""
        for numbers, rows in slices_by_key(effects.codes):
            mine = effects if rows is None else effects[rows]
            for number, change, delays in self._changes(mine, numbers):
                self._apply_change(parts_of(number), change, delays)

    def _changes(self, effects: Effects, groups: IntArray) -> Iterator[tuple[int, Change, Delays]]:
        delays = delays_by_group(effects, groups)
        for group, change in Change.by_group(effects, groups, scale=self.store.scale):
            yield group, change, delays.get(group, NO_DELAYS)

    def _apply_change(self, parts: Iterable[Part], change: Change, delays: Delays) -> None:
        """Add one group's changes to the parts that count it."""
        # Copies, because a pending view would keep the columns of all groups in memory.
        added = None if change.added is None else change.added.copy()
        removed: ScoreCounts | UnsortedCases | None = None
        if change.removed is not None:
            cases = change.removed
            # Sorted once for all parts, unless some sum weights or count clusters.
            removed = cases if cases.clusters is not None else cases.sorted()
        coverage = PaneCoverage(change.coverage, delays)
        for part in parts:
            with self._usage.measuring(part):
                if added is not None and removed is not None:
                    part.counts.exchange(added, removed)
                elif added is not None:
                    part.counts.add(added)
                elif removed is not None:
                    part.counts.remove(removed)
                if change.missed_positives or change.missed_negatives:
                    part.counts.miss(change.missed_positives, change.missed_negatives)
                part.cover(coverage)
            self._note_due(part)

    # -- time

    def pass_time(self, now_us: int, _frozen: Callable[[], FrozenStream]) -> int:
        """Advance the time, as `advance`."""
        panes = len(self.store.panes)
        self.advance(now_us)
        return 1 + _PANE_COST * (panes - len(self.store.panes))

    @property
    def due_us(self) -> int | None:
        """When panes coarsen or expire next; None without panes. O(1)."""
        # Collected rows will be in panes once they are counted.
        if len(self.store.panes) or self._collected_rows:
            return self.store.due_us
        return None

    def advance(self, now_us: int) -> None:
        """Advance the time: panes coarsen and expire. O(panes that change)."""
        self.settle(now_us)
        self._empty_table()
        for content in (None, *self._deferred):
            self._settle_removals(content)
        if self.store.advance(now_us):
            # Deferred rows went with their panes.
            panes = (pane.content for pane in self.store.panes)
            self._deferred = {content: None for content in panes if content.deferred.size}
            self._frozen = None
        if self.delays is not None:
            self.delays.advance(now_us)

    def reconfigure(self, settings: StreamSettings) -> None:
        """Take new settings. O(panes) when retention changes; expired panes stay lost."""
        # Collected rows belong to the old keys and panes.
        self.flush()
        if self.store.reconfigure(settings):
            self._frozen = None
        if self.delays is not None:
            self.delays.reconfigure(settings)

    # -- reading

    def to_parts(self) -> Iterable[CheckpointPart]:
        """Yield a part for the all-time slices of each key, and for each pane. O(panes)."""
        store = self.store
        for key, revision in sorted(store.key_revisions.items()):
            yield CheckpointPart(f"{SLICE_PART}/{key}", revision, partial(self._slices_of, key))
        for pane in store.panes:
            encoder = partial(_encoder, pane.content)
            yield CheckpointPart(f"{PANE_PART}/{pane.start_us}", pane.content.revision, encoder)

    def _slices_of(self, key: int) -> PartsEncoder:
        store = self.store
        numbers = [number for number in store.slice_numbers() if number and key_of(number) == key]
        return PartsEncoder([(number, *store.all_time(number)) for number in sorted(numbers)])

    def from_part(self, kind: str, number: int, data: bytes, origin: Restoring) -> None:
        """Put the slices of a key, or a pane. O(cells), or O(bytes) if they stay so."""
        store, (revision, _, unverified) = self.store, origin
        if kind == SLICE_PART:
            store.slices.update(parts_from_bytes(data, store.scale, unverified))
            store.key_revisions[number] = revision
        else:
            content = store.new_pane()
            content.restore(data, revision, store.scale, unverified)
            store.panes.put(number, content)

    def frozen(self, names: Mapping[tuple[str, str], int]) -> FrozenStream:
        """Return the counts as they are now; the same object until they change. O(panes)."""
        self.flush()
        if self._frozen is None:
            delays = None if self.delays is None else self.delays.frozen()
            self._frozen = replace(self.store.frozen(names), delays=delays)
        return self._frozen


def _encoder(content: PaneContent) -> PartsEncoder:
    return PartsEncoder(content.frozen_parts())


def _memory_rows(rows: int, *, has_weights: bool) -> int:
    """Return the rows without weights that take as much memory: sums of weights take 40 B."""
    return 2 * rows if has_weights else rows
