"""What a stream has counted: for all time and by pane, whole and by slice.

What only adds is collected and counted in one go, when there is much of it, or
when somebody looks. What takes away is counted at once, after everything before
it: so the counts, and the resolution that the caps on cells leave them, are the
same however the log is cut into calls, and whoever looks at what time. The
whole's all-time counts are exact until they meet their cap; slices and panes
are bounded from the start.

Cost: see `_binning` and `_cells`; about 30 ns a case without segments.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from streameval._changes import changes_by_group, rows_by_group
from streameval._coverage import CoverageCell
from streameval._effects import Effect, Effects
from streameval._multiset import ScoreCounts
from streameval._panes import Panes, tiers_of
from streameval._state import empty_state
from streameval_server._binning import Binned, Columns, binned, counted, rounded
from streameval_server._cells import OVERHEAD_BYTES, Cells
from streameval_server._coverage import PaneCoverage
from streameval_server._delays import Delays, delays_by_group
from streameval_server._pane_content import PaneContent, Part
from streameval_server._segments import ABSENT, WHOLE, key_of, slice_id
from streameval_server._views import FrozenStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from streameval._changes import Cases, Change
    from streameval._groups import IntArray
    from streameval._state import State
    from streameval_server._limits import Limits
    from streameval_server._stream_settings import StreamSettings

_TAKES_AWAY = np.isin(np.arange(256), (Effect.UNLABELLED_NEGATIVE, Effect.UNLABELLED_POSITIVE))
_NUMBER_BITS = 32

_LEAST_WAITING, _MOST_WAITING = 8_192, 65_536
"""So many rows are collected before they are counted unasked: more in large streams."""

_ROW_BYTES = 32
"""Memory of a row that was collected."""


class StreamCounts:
    """Counts of one stream.

    Parameters
    ----------
    settings, limits
        The stream's and the server's.
    revision : callable
        Returns the log revision that is being applied.

    Attributes
    ----------
    all_time : dict of int to Part
        By the number of the slice; the whole is always there.
    panes : Panes of PaneContent
    floor_us : int
        What happened before this is in no pane, whatever is kept.
    beyond_retention : int
        Rows that came into no pane.
    key_revisions : dict of int to int
        The revision at which a key's all-time slices changed last.
    memory_bytes : int
        Memory that it takes, at most about.
    """

    def __init__(
        self, settings: StreamSettings, limits: Limits, revision: Callable[[], int]
    ) -> None:
        self.bits = settings.resolution
        self.scale = settings.scale
        self.floor_us = 0
        self.beyond_retention = 0
        self.key_revisions: dict[int, int] = {}
        self._revision = revision
        self._keys = len(settings.segment_keys)
        self._whole = empty_state(resolution=None, scale=self.scale, max_cells=limits.max_cells)
        self._bounded = empty_state(
            resolution=self.bits, scale=self.scale, max_cells=limits.pane_cells
        )
        self.all_time = {WHOLE: Part(Cells(self._whole, None), self._no_coverage())}
        self.panes = self._panes_for(settings)
        self.memory_bytes = OVERHEAD_BYTES
        self._cases: list[Columns] = []
        self._waiting = 0
        self._effects: list[Effects] = []
        self._frozen: FrozenStream | None = None

    def _no_coverage(self) -> PaneCoverage:
        return PaneCoverage(CoverageCell(self.scale))

    def _new_part(self) -> Part:
        return Part(Cells(self._bounded, self.bits), self._no_coverage())

    def _panes_for(self, settings: StreamSettings) -> Panes[PaneContent]:
        tiers = tiers_of(settings.pane_us, settings.retention_us)
        return Panes(tiers, partial(PaneContent, self._new_part, self._revision))

    # -- counting

    def add_cases(self, columns: Columns) -> None:
        """Collect cases; count them when there are many. O(1), amortised O(log n) a case."""
        self._cases.append(columns)
        self._collected(columns.scores.size)

    def add_effects(self, effects: Effects) -> None:
        """Collect what the joiner did; where it takes away, count it at once."""
        if not len(effects):
            return
        if _TAKES_AWAY[effects.kinds].any():
            self.flush()
            self._count_effects(effects)
        else:
            self._effects.append(effects)
            self._collected(len(effects))

    def _collected(self, rows: int) -> None:
        self._frozen = None
        self._waiting += rows
        self.memory_bytes += _ROW_BYTES * rows
        # With more keys a row is more work, and whoever looks waits for it.
        most = min(self.all_time[WHOLE].cells.size, _MOST_WAITING)
        if self._waiting >= max(most, _LEAST_WAITING):
            self.flush()

    def flush(self) -> None:
        """Count what was collected; nothing that can be seen changes by it. O(rows log rows)."""
        cases, effects = self._cases, self._effects
        self._cases, self._effects = [], []
        self.memory_bytes -= _ROW_BYTES * self._waiting
        self._waiting = 0
        if cases:
            self._count_cases(Columns.concat(cases))
        if effects:
            self._count_effects(Effects.concat(effects))

    def miss(self, positives: int, negatives: int, event_us: int, codes: Sequence[int]) -> None:
        """Count references that were never scored."""
        for part in self._parts_at(event_us, codes):
            part.cells.miss(positives, negatives)

    def merge(self, state: State, event_us: int, codes: Sequence[int]) -> None:
        """Add what somebody else counted; at 0 in all time only. O(cells)."""
        for part in self._parts_at(event_us, codes):
            self.memory_bytes += part.cells.merge([state])

    def _parts_at(self, event_us: int, codes: Sequence[int]) -> list[Part]:
        """Return what one reference at one time counts in."""
        self._frozen = None
        numbers = [WHOLE, *(slice_id(key, code) for key, code in enumerate(codes))]
        parts = [self._all_time(number) for number in numbers]
        if event_us >= self.oldest_us:
            content = self._pane(self.panes.grid.start_of(event_us))
            parts += [self._part(content, number) for number in numbers]
        elif event_us:
            self.beyond_retention += 1
        return parts

    def _count_cases(self, columns: Columns) -> None:
        self._frozen = None
        every = binned(columns, self.bits, self.scale)
        self._add(self.all_time[WHOLE], every.exact)
        for number, change in every.slices:
            self._add(self._all_time(number), change)
        start = self._one_start(columns.event_us)
        if start is not None:
            self._add_to_pane(start, every)
            return
        times = np.broadcast_to(np.asarray(columns.event_us), columns.scores.shape)
        kept = np.flatnonzero(times >= self.oldest_us)
        self.beyond_retention += times.size - kept.size
        starts = self.panes.grid.starts_of(times[kept])
        for start, rows in rows_by_group(starts):
            self._add_to_pane(start, binned(columns.at(kept[rows]), self.bits, self.scale))

    def _one_start(self, event_us: int | IntArray) -> int | None:
        """Return the pane's start when all rows are in one pane that is kept."""
        if isinstance(event_us, int):
            first = last = event_us
        else:
            first, last = int(event_us.min()), int(event_us.max())
        if first < self.oldest_us:
            return None
        start = self.panes.grid.start_of(first)
        return start if self.panes.grid.start_of(last) == start else None

    def _add_to_pane(self, start: int, rows: Binned) -> None:
        content = self._pane(start)
        self._add(self._part(content, WHOLE), rows.cells)
        for number, change in rows.slices:
            self._add(self._part(content, number), change)

    def _count_effects(self, effects: Effects) -> None:
        self._frozen = None
        kept = effects.event_us >= self.oldest_us
        self.beyond_retention += effects.event_us.size - int(np.count_nonzero(kept))
        starts = self.panes.grid.starts_of(effects.event_us)
        alone = bool(kept.all()) and int(starts.min()) == int(starts.max())
        only = self._pane(int(starts[0])) if alone else None
        for numbers, rows in _numbered(effects):
            some = effects if rows is None else effects[rows]
            for number, change, delays in self._changes(some, numbers):
                exact, rounded = self._runs(change, exact=number == WHOLE)
                self._take(self._all_time(number), exact, change, delays)
                if only is not None:
                    self._take(self._part(only, number), rounded, change, delays)
            if only is not None:
                continue
            there = kept if rows is None else kept[rows]
            at = starts if rows is None else starts[rows]
            found, index = np.unique(at[there], return_inverse=True)
            groups = index.astype(np.int64) << _NUMBER_BITS | numbers[there]
            for group, change, delays in self._changes(some[there], groups):
                content = self._pane(int(found[group >> _NUMBER_BITS]))
                part = self._part(content, group & ((1 << _NUMBER_BITS) - 1))
                self._take(part, self._runs(change, exact=False)[1], change, delays)

    def _changes(self, effects: Effects, groups: IntArray) -> Iterator[tuple[int, Change, Delays]]:
        delays = delays_by_group(effects, groups)
        for group, change in changes_by_group(effects, groups, scale=self.scale):
            yield group, change, delays.get(group) or Delays()

    def _runs(self, change: Change, *, exact: bool) -> tuple[_Signed, _Signed]:
        """Return a change's cases as runs: as they are if asked to, and rounded."""
        added, removed = _run(change.added), _run(change.removed)
        cells = (
            rounded(added, self.bits, self.scale),
            rounded(removed, self.bits, self.scale),
        )
        return ((added, removed) if exact else cells), cells

    def _take(self, part: Part, runs: _Signed, change: Change, delays: Delays) -> None:
        added, removed = runs
        if len(added):
            self.memory_bytes += part.cells.add(added)
        if len(removed):
            self.memory_bytes += part.cells.remove(removed)
        if change.missed_positives or change.missed_negatives:
            part.cells.miss(change.missed_positives, change.missed_negatives)
        part.cover(PaneCoverage(change.coverage, delays))

    def _add(self, part: Part, change: ScoreCounts) -> None:
        self.memory_bytes += part.cells.add(change)

    def _all_time(self, number: int) -> Part:
        if number:
            self.key_revisions[key_of(number)] = self._revision()
        part = self.all_time.get(number)
        if part is None:
            part = self.all_time[number] = self._new_part()
            self.memory_bytes += OVERHEAD_BYTES
        return part

    def _pane(self, start: int) -> PaneContent:
        content = self.panes.at(start)
        content.touch()
        return content

    def _part(self, content: PaneContent, number: int) -> Part:
        if number not in content.parts:
            self.memory_bytes += OVERHEAD_BYTES
        return content.part(number)

    # -- time

    @property
    def oldest_us(self) -> int:
        """Since when there are panes. O(1)."""
        return max(self.floor_us, self.panes.grid.oldest_us)

    @property
    def has_panes(self) -> bool:
        """Whether there are panes, or will be when what was collected is counted."""
        return bool(len(self.panes) or self._cases or self._effects)

    @property
    def due_us(self) -> int:
        """When panes coarsen or go next. O(tiers)."""
        tiers, now_us = self.panes.tiers, self.panes.now_us
        dues = []
        for tier, coarser in zip(tiers, (*tiers[1:], tiers[-1]), strict=True):
            edge = (now_us - tier.until_us) // coarser.width_us * coarser.width_us
            dues.append(edge + coarser.width_us + tier.until_us)
        return min(dues)

    def advance(self, now_us: int) -> None:
        """Let panes coarsen and go. O(panes that change)."""
        self.flush()
        if self.panes.advance(now_us):
            self._panes_changed()

    def reconfigure(self, settings: StreamSettings) -> None:
        """Go on under other settings; what is gone is gone. O(panes) when retention changes."""
        # What was collected has the keys and the panes of before.
        self.flush()
        self._keys = len(settings.segment_keys)
        before, after = self.panes, self._panes_for(settings)
        if before.tiers == after.tiers:
            return
        self.floor_us = self.oldest_us
        self.panes = after
        after.advance(before.now_us)
        for pane in before:
            if pane.start_us >= after.grid.oldest_us:
                after.at(after.grid.start_of(pane.start_us)).merge(pane.content)
            else:
                self.floor_us = max(self.floor_us, pane.end_us)
        self._panes_changed()

    def _panes_changed(self) -> None:
        self._frozen = None
        self.measure()

    def measure(self) -> None:
        """Find out anew what memory it takes. O(panes)."""
        parts = list(self.all_time.values())
        self.memory_bytes = sum(part.cells.memory_bytes for part in parts)
        self.memory_bytes += sum(pane.content.memory_bytes for pane in self.panes)

    # -- reading

    @property
    def num_panes(self) -> int:
        """Panes of all slices. O(panes)."""
        return sum(len(pane.content.parts) for pane in self.panes)

    def frozen(self, names: Mapping[tuple[str, str], int]) -> FrozenStream:
        """Return the counts as they are now; the same object until they change. O(panes)."""
        self.flush()
        if self._frozen is None:
            self._frozen = FrozenStream(
                {
                    number: (part.cells.frozen(), part.coverage)
                    for number, part in self.all_time.items()
                },
                tuple(pane.content.frozen(pane.start_us, pane.end_us) for pane in self.panes),
                names,
            )
        return self._frozen


_Signed = tuple[ScoreCounts, ScoreCounts]
"""Cases to add, and cases to take away."""


def _run(cases: Cases | None) -> ScoreCounts:
    return ScoreCounts() if cases is None else counted(*cases)


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
