"""The counts of a pair by pane and slice, and of all time.

Rows wait, and are counted in bulk. The grid's cells depend on which rows are counted together,
so rows are counted at moments that follow from the log alone: before an entry, once
`MAX_WAITING_ROWS` wait, and before panes coarsen. A view copies the counts that it touches and
adds the waiting rows to the copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval.kernel import Grid, Panes
from streameval.statistics import PairCounts, PairRows, PairShape
from streameval_server._model.pair_settings import TOTAL_CELLS
from streameval_server._state.pairs.pair_joiner import CountedRows, PredictedRows
from streameval_server._state.segments import WHOLE, slices_by_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval_server._model.arrays import CodeArray, IntArray
    from streameval_server._model.pair_settings import PairSettings
    from streameval_server._state.pairs.pair_joiner import PairEffects

    Seen = tuple[int, int, int]
    """Ids that a has predicted, that b has, and that both have."""

    Thresholds = tuple[float | None, float | None]

MAX_WAITING_ROWS = 65_536
"""Rows that wait to be counted, before an entry."""

_MAX_PREDICTED_ROWS = 16_384
"""The same of predictions, whose numbers depend on no order."""

NONE_SEEN: Seen = (0, 0, 0)

_PANE_BYTES, _SEEN_BYTES = 600, 280
"""Memory of a pane besides its counts; of the predictions of a slice of it."""


class PairPane:
    """One pane.

    Attributes
    ----------
    counts : dict of int to PairCounts
        By slice; `WHOLE` is the whole.
    seen : dict of int to (int, int, int)
    revision : int
        Log revision of its last change.
    """

    __slots__ = ("_thresholds", "counts", "revision", "seen", "shape")

    def __init__(self, shape: PairShape, thresholds: Thresholds, revision: int) -> None:
        self.shape = shape
        self.counts: dict[int, PairCounts] = {}
        self.seen: dict[int, Seen] = {}
        self.revision = revision
        self._thresholds = thresholds

    def merge(self, *others: PairPane) -> None:
        """Add the counts of others."""
        for number in sorted({number for each in others for number in each.counts}):
            parts = [each.counts[number] for each in others if number in each.counts]
            own = self.counts.get(number) or PairCounts.empty(self.shape)
            self.counts[number] = own.merged(parts, self._thresholds)
        for each in others:
            for number, seen in each.seen.items():
                self.seen[number] = added(self.seen.get(number, NONE_SEEN), seen)

    def copy(self) -> PairPane:
        """Return an independent pane. O(slices)."""
        other = PairPane(self.shape, self._thresholds, self.revision)
        other.counts, other.seen = dict(self.counts), dict(self.seen)
        return other

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(slices)."""
        counts = sum(each.nbytes for each in self.counts.values())
        return _PANE_BYTES + counts + _SEEN_BYTES * len(self.seen)


def added(first: Seen, second: Seen) -> Seen:
    """Return the sum."""
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


class PairPanes:
    """All counts of a pair.

    Attributes
    ----------
    panes : Panes of PairPane
    totals : dict of int to PairCounts
        All time, by slice.
    total_seen : dict of int to (int, int, int)
    revisions : dict of int to int
        The revision of each slice's last change of all time.
    waiting : list of CountedRows
        Rows that are not counted yet.
    beyond_retention : int
        Rows whose pane was gone.
    thresholds : (float or None, float or None)
        The thresholds that the streams declare now.
    revision : int
        Log revision that the next changes record.
    """

    def __init__(self, settings: PairSettings) -> None:
        self.shape = PairShape(settings.max_cells, settings.scale, settings.cluster_groups)
        self.total_shape = self.shape._replace(max_cells=max(TOTAL_CELLS, settings.max_cells))
        self._has_groups = settings.cluster_groups > 0
        self.thresholds: Thresholds = (None, None)
        self.revision = 0
        self.panes: Panes[PairPane] = Panes(
            Grid.tiers_of(settings.pane_us, settings.retention_us), self._new_pane
        )
        self.totals: dict[int, PairCounts] = {}
        self.total_seen: dict[int, Seen] = {}
        self.revisions: dict[int, int] = {}
        self.waiting: list[CountedRows] = []
        self.num_waiting = 0
        self.beyond_retention = 0
        self._predicted: list[PredictedRows] = []
        self._num_predicted = 0
        self._counts_bytes = 0
        self._seen_slices = 0  # of all panes

    def _new_pane(self) -> PairPane:
        return PairPane(self.shape, self.thresholds, self.revision)

    def shape_of(self, number: int) -> PairShape:
        """Return the shape of a slice's counts of all time."""
        return self.total_shape if number == WHOLE else self.shape

    def total_with_waiting(self) -> PairCounts:
        """Return the whole's counts of all time, the waiting rows among them. O(n log n)."""
        counts = self.totals.get(WHOLE) or PairCounts.empty(self.total_shape)
        if not self.waiting:
            return counts
        rows = self._pair_rows(CountedRows.joined(self.waiting).ordered())
        return counts.changed(rows, self.thresholds)

    def add(self, effects: PairEffects) -> None:
        """Take what joining did. O(rows) amortised."""
        for rows in effects.counted:
            self.waiting.append(rows)
            self.num_waiting += rows.signs.size
        for seen in effects.predicted:
            self._predicted.append(seen)
            self._num_predicted += seen.signs.size
        if self._num_predicted >= _MAX_PREDICTED_ROWS:
            self.count_predicted()

    def count_full(self) -> None:
        """Count the waiting rows if they are many; to be called before an entry."""
        if self.num_waiting >= MAX_WAITING_ROWS:
            self.count()

    def count(self) -> None:
        """Count the waiting rows."""
        waiting, self.waiting, self.num_waiting = self.waiting, [], 0
        if not waiting:
            return
        rows = CountedRows.joined(waiting).ordered()
        pair_rows = self._pair_rows(rows)
        oldest_us = self.panes.grid.oldest_us
        self.beyond_retention += int((rows.signs[rows.event_us < oldest_us] > 0).sum())
        for number, part in self._by_slice(rows, pair_rows):
            self._count_into(self.totals, number, self.shape_of(number), part)
            self.revisions[number] = self.revision
        for start, number, part in self._by_pane(rows, pair_rows):
            pane = self.panes.at(start)
            self._count_into(pane.counts, number, self.shape, part)
            pane.revision = self.revision

    def _count_into(
        self, table: dict[int, PairCounts], number: int, shape: PairShape, rows: PairRows
    ) -> None:
        before = table.get(number)
        after = (before or PairCounts.empty(shape)).changed(rows, self.thresholds)
        table[number] = after
        self._counts_bytes += after.nbytes - (0 if before is None else before.nbytes)

    def _by_slice(self, rows: CountedRows, all_rows: PairRows) -> Iterator[tuple[int, PairRows]]:
        """Yield the rows of the whole and of each slice."""
        yield WHOLE, all_rows
        for numbers, own in slices_by_key(self._segment_codes(rows)):
            assert own is None  # the keys of a pair are declared when it is made
            for number, at in _groups(numbers):
                yield number, all_rows.at(at)

    def _by_pane(
        self, rows: CountedRows, all_rows: PairRows
    ) -> Iterator[tuple[int, int, PairRows]]:
        """Yield the rows of each pane that is kept, by its start and slice."""
        kept = np.flatnonzero(rows.event_us >= self.panes.grid.oldest_us)
        if not kept.size:
            return
        starts = self.panes.grid.starts_of(rows.event_us[kept])
        for start, at in _groups(starts):
            of_pane = kept[at]
            yield start, WHOLE, all_rows.at(of_pane)
            for numbers, _ in slices_by_key(self._segment_codes(rows)[of_pane]):
                for number, within in _groups(numbers):
                    yield start, number, all_rows.at(of_pane[within])

    def _pair_rows(self, rows: CountedRows) -> PairRows:
        groups = rows.codes[:, 0] if self._has_groups else None
        by_b = np.argsort(rows.b)
        return PairRows(rows.positive, rows.a, rows.b, rows.signs, groups, rows.units, by_b)

    def _segment_codes(self, rows: CountedRows | PredictedRows) -> CodeArray:
        return rows.codes[:, 1:] if self._has_groups else rows.codes

    def count_predicted(self) -> None:
        """Count predictions. O(rows log rows)."""
        waiting, self._predicted, self._num_predicted = self._predicted, [], 0
        if not waiting:
            return
        rows = PredictedRows(*map(np.concatenate, zip(*waiting, strict=True)))
        signed = rows.by.astype(np.int64) * rows.signs[:, None]
        codes = self._segment_codes(rows)
        for number, at in _with_whole(codes, np.arange(rows.signs.size)):
            before = self.total_seen.get(number, NONE_SEEN)
            self.total_seen[number] = added(before, _sums(signed[at]))
            self.revisions[number] = self.revision
        kept = np.flatnonzero(rows.event_us >= self.panes.grid.oldest_us)
        if kept.size:
            starts = self.panes.grid.starts_of(rows.event_us[kept])
            for start, at in _groups(starts):
                pane = self.panes.at(start)
                pane.revision = self.revision
                slices_before = len(pane.seen)
                for number, within in _with_whole(codes, kept[at]):
                    after = added(pane.seen.get(number, NONE_SEEN), _sums(signed[within]))
                    if any(after):
                        pane.seen[number] = after
                    else:  # all were retracted, and a restored pane would not have it
                        pane.seen.pop(number, None)
                self._seen_slices += len(pane.seen) - slices_before

    def advance(self, now_us: int) -> None:
        """Let panes coarsen and expire; waiting rows are counted before."""
        if now_us >= self.panes.until_us:
            self.count_predicted()
            self.count()
            self.panes.advance(now_us)
            self.recount_memory()

    def copy(self) -> PairPanes:
        """Return independent counts; predictions must be counted. O(panes x slices)."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.totals, other.total_seen = dict(self.totals), dict(self.total_seen)
        other.revisions, other.waiting = dict(self.revisions), list(self.waiting)
        other.panes = Panes(self.panes.tiers, other._new_pane)
        other.panes.advance(self.panes.now_us)
        for pane in self.panes:
            other.panes.put(pane.start_us, pane.content.copy())
        return other

    @property
    def due_us(self) -> int | None:
        """When panes coarsen or expire next; None without anything in them."""
        is_empty = not len(self.panes) and not self.waiting and not self._predicted
        return None if is_empty else self.panes.until_us

    def recount_memory(self) -> None:
        """Measure the memory of all counts again. O(panes x slices)."""
        self._counts_bytes = sum(each.nbytes for each in self.totals.values())
        self._seen_slices = 0
        for pane in self.panes:
            self._seen_slices += len(pane.content.seen)
            self._counts_bytes += sum(each.nbytes for each in pane.content.counts.values())

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(1)."""
        row_bytes = 56 + 2 * 9
        seen = _SEEN_BYTES * (len(self.total_seen) + self._seen_slices)
        waiting = row_bytes * (self.num_waiting + self._num_predicted)
        return self._counts_bytes + _PANE_BYTES * len(self.panes) + seen + waiting

    def _check(self) -> None:
        """Assert all invariants. O(everything)."""
        self.panes._check()
        assert self.num_waiting == sum(each.signs.size for each in self.waiting)
        for number, total in self.totals.items():
            assert total.shape == self.shape_of(number)
            total._check()
        for pane in self.panes:
            for counts in pane.content.counts.values():
                counts._check()
        for slot in range(3):
            kept = sum(p.content.seen.get(WHOLE, NONE_SEEN)[slot] for p in self.panes)
            assert kept <= self.total_seen.get(WHOLE, NONE_SEEN)[slot]
        before = self._counts_bytes, self._seen_slices
        self.recount_memory()
        assert (self._counts_bytes, self._seen_slices) == before, before


def _groups(numbers: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield each number, and the rows that have it, in order. O(n log n)."""
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    for part in np.split(order, cuts):
        if part.size:
            yield int(numbers[part[0]]), part


def _with_whole(codes: CodeArray, rows: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield the whole and each slice with its rows, among some."""
    yield WHOLE, rows
    for numbers, _ in slices_by_key(codes[rows]):
        for number, at in _groups(numbers):
            yield number, rows[at]


def _sums(signed: IntArray) -> Seen:
    a, b, both = signed.sum(axis=0).tolist()
    return a, b, both
