"""An evaluator's counts: one immutable state, and buffered changes.

A mutation is checked and buffered. Buffered changes are sorted and merged into the
state at the next query, or when they have grown to half of the state. So a merge
costs O(log n) a case amortised, and the buffers take less memory than the state,
or 0.8 MB.

Thread safety: one thread may write while any number read. Each reader gets the
state of one moment, which includes a prefix of the writer's mutations. A mutation
that raises changes nothing, also when it raises for want of memory. The times at
which readers query change no answer.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.cluster_counts import ClusterCounts, ClusterRows, counts_of_rows
from streameval._counts.cluster_keys import HashedClusters
from streameval._counts.exact import MAX_TOTAL, too_many
from streameval._counts.missing_cases import first_missing_case, first_missing_weight
from streameval._counts.multiset import ScoreCounts
from streameval._counts.pending_weights import PendingWeights, weighted_counts
from streameval._counts.run import NegativeCountError, Run, merge_runs
from streameval._counts.weights import (
    MAX_WEIGHTED_CASES,
    WEIGHT_UNITS,
    too_many_weighted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.state import State

    _Pending = tuple[
        tuple[list[FloatArray], list[FloatArray]],
        tuple[list[Run], list[Run]],
        dict[tuple[bool, float], int],
        list[int],
        PendingWeights,
        list[ClusterRows],
    ]
    """Columns and runs by class, removals, cases of all by class, weighted cases, and groups."""

T = TypeVar("T")

_NO_SCORES: FloatArray = np.empty(0)
_NO_RUN = Run.of(_NO_SCORES)

MAX_BUFFERED_SCORES = 8_192
"""Scores that the writer may append to the lists before it calls `renew_permits`."""

_MIN_MERGE_ROWS = 65_536
"""Fewer buffered rows and removals than this are merged only by a query."""


class CountsAccumulator:
    """The state, and the changes that are not merged into it yet.

    Attributes
    ----------
    state : State
        The result of the last merge.
    positives, negatives : list of float
        Checked scores that are not merged yet. The writer appends to these lists
        without the lock: `list.append` is atomic, so no reader sees half a score.
        A thread that holds the lock removes a prefix, never what was appended
        meanwhile. The writer has permits for at most `MAX_BUFFERED_SCORES`
        appends; then it must call `renew_permits`.

    Notes
    -----
    A row moves from the lists to the pending columns, and from there into the
    state. It is published to its next container before it leaves the previous one.
    """

    _pending_cases: list[int]
    _pending_mutations: int
    _pending_rows: int

    def __init__(self, state: State) -> None:
        self.positives: list[float] = []
        self.negatives: list[float] = []
        self._lock = Lock()
        self._clear_pending(_no_changes())
        self._set(state)

    def view(self) -> State:
        """Return the state with all changes merged. O(1) if none is pending."""
        # Lock-free fast path: a row is published to its next container before it
        # leaves the previous one, so a reader that finds all containers empty has
        # the complete state.
        if self._has_additions() or self._pending_removals:
            with self._lock:
                self._merge()
        return self.state

    def totals(self) -> tuple[int, int, int]:
        """Return the revision and the numbers of scored positives and negatives. O(1)."""
        with self._lock:
            positives, negatives = self._lengths()
            scored = self.state.num_scored
            return (
                self.state.revision + self._pending_mutations + positives + negatives,
                scored[True] + self._pending_cases[True] + positives,
                scored[False] + self._pending_cases[False] + negatives,
            )

    def renew_permits(self, max_permits: int) -> int:
        """Return how many more scores the writer may append, at most `max_permits`.

        The buffered scores move from the lists to arrays, which take a quarter of
        their memory, and are merged if they are due. The permits also keep all
        counts together below `MAX_TOTAL`.

        Raises
        ------
        InvalidInputError
            When one more case would exceed `MAX_TOTAL`.
        """
        with self._lock:
            self._flush_scores()
            self._merge_if_due()
            self._check_total(1)
            return min(max_permits, self._room())

    def add_columns(
        self,
        labels: BoolArray,
        scores: FloatArray,
        counts: IntArray | None,
        clusters: HashedClusters | None = None,
    ) -> None:
        """Add checked columns as one mutation, or refuse them if the total grows too large."""
        rows = [np.flatnonzero(~labels), np.flatnonzero(labels)]  # by class, False first
        columns = [scores[each] for each in rows]
        runs = (
            None
            if counts is None
            else [Run.of(*pair) for pair in zip(columns, (counts[each] for each in rows))]
        )
        added = [column.size for column in columns] if runs is None else [run.total for run in runs]
        if not sum(added):
            return
        # Copies: the columns may be the caller's own memory.
        by_group = (
            []
            if clusters is None
            else [ClusterRows.of(labels, scores.copy(), counts, clusters.groups)]
        )
        with self._lock:
            self._check_total(sum(added))
            cases = [sum(pair) for pair in zip(self._pending_cases, added)]
            mutations, rows_after = self._pending_mutations + 1, self._pending_rows + labels.size
            before = len(self._pending_clusters)
            self._pending_clusters += by_group
            try:
                if runs is None:
                    _append_both(self._pending_columns, columns, _NO_SCORES)
                else:
                    _append_both(self._pending_runs, runs, _NO_RUN)
            except MemoryError:
                del self._pending_clusters[before:]
                raise
            self._pending_cases = cases
            self._pending_mutations, self._pending_rows = mutations, rows_after
            self._merge_if_due()

    def add_weighted_case(self, label: bool, score: float, units: int) -> None:
        """Add one checked case of a weight in units of 2**-16; of weight 0, change nothing."""
        if not units:
            return
        with self._lock:
            self._check_weighted_total(1, units)
            cases = self._pending_cases[label] + 1
            mutations, rows = self._pending_mutations + 1, self._pending_rows + 1
            self._pending_weights.add_case(label, score, units)
            self._pending_cases[label] = cases
            self._pending_mutations, self._pending_rows = mutations, rows
            self._merge_if_due()

    def add_weighted_columns(
        self, labels: BoolArray, scores: FloatArray, units: IntArray, counts: IntArray | None
    ) -> None:
        """Add checked columns of weighted cases as one mutation, or refuse too large a total."""
        change = weighted_counts(labels, scores, units, counts)
        added = [change.num_cases(label) for label in (False, True)]
        if not sum(added):
            return
        total = sum(int(run.units.sum()) for run in (change.positives, change.negatives))
        with self._lock:
            self._check_weighted_total(sum(added), total)
            cases = [sum(pair) for pair in zip(self._pending_cases, added)]
            mutations, rows_after = self._pending_mutations + 1, self._pending_rows + labels.size
            self._pending_weights.add_columns(change, cases=sum(added), units=total)
            self._pending_cases = cases
            self._pending_mutations, self._pending_rows = mutations, rows_after
            self._merge_if_due()

    def remove(self, label: bool, score: float) -> bool:
        """Remove one case of weight 1; return whether it was counted. O(log n) amortised.

        O(n) where cases have weights.
        """
        with self._lock:
            if self._pending_weights or self.state.weighted is not None:
                self._merge()
            if self.state.weighted is not None:
                return self._remove_weighted(
                    np.array([label]), np.array([score]), np.array([WEIGHT_UNITS]), None
                )
            # With a cap on cells, additions are merged first. Otherwise the bits that
            # the cap drops would depend on the time of the last query.
            if self.state.max_cells is not None and self._has_additions():
                self._merge()
            # Fast path: most removals are of cases that are merged already.
            if self._record_removal(label, score):
                self._merge_if_due()
                return True
            self._merge()
            return self._record_removal(label, score)

    def remove_columns(
        self,
        labels: BoolArray,
        scores: FloatArray,
        counts: IntArray | None,
        *,
        units: IntArray | None = None,
        clusters: HashedClusters | None = None,
    ) -> None:
        """Remove checked columns as one mutation, or refuse the first row that is not counted."""
        if counts is None:
            counts = np.ones(scores.size, dtype=np.int64)
        with self._lock:
            self._merge()
            state = self.state
            if units is not None or state.weighted is not None:
                if units is None:
                    units = np.full(scores.size, WEIGHT_UNITS)
                if not self._remove_weighted(labels, scores, units, counts):
                    raise first_missing_weight(state, labels, scores, counts, units)
                return
            positives, negatives = (
                state.quantised(Run.of(scores[rows], counts[rows])) for rows in (labels, ~labels)
            )
            if not positives.total + negatives.total:
                return
            change = ScoreCounts(positives.negated(), negatives.negated())
            by_group = [each.negated() for each in self._by_group(labels, scores, counts, clusters)]
            try:
                after = state.changed(change, revision=state.revision + 1, clusters=by_group)
            except NegativeCountError:
                raise first_missing_case(state, labels, scores, counts) from None
            self._set(after)

    def add_misses(
        self, *, positives: int = 0, negatives: int = 0, clusters: HashedClusters | None = None
    ) -> None:
        """Add misses of either class, or remove them if negative, all of one cluster."""
        if not positives and not negatives:
            return
        with self._lock:
            self._merge()
            state = self.state
            self._check_total(positives + negatives)
            for counted, change in (
                (state.missed_positives // state.unit, positives),
                (state.missed_negatives // state.unit, negatives),
            ):
                if counted + change < 0:
                    message = (
                        f"count must be at most {counted}, the number of misses, got {-change}"
                    )
                    raise InvalidInputError(message, field="count")
            missed = np.array([negatives, positives])
            by_group = self._by_group(
                np.array([False, True]), np.full(2, -np.inf), missed, _twice(clusters)
            )
            try:
                after = state.changed(
                    ScoreCounts(),
                    missed_positives=positives,
                    missed_negatives=negatives,
                    revision=state.revision + 1,
                    clusters=by_group,
                )
            except NegativeCountError:
                message = "count must be at most the misses of the cluster's group"
                raise InvalidInputError(message, field="count") from None
            self._set(after)

    def replace(self, state: State) -> None:
        """Replace the state that the last `view` returned."""
        with self._lock:
            self._set(state)

    def _by_group(
        self,
        labels: BoolArray,
        scores: FloatArray,
        counts: IntArray | None,
        clusters: HashedClusters | None,
    ) -> list[ClusterCounts]:
        """Return the rows by groups of clusters; none where no clusters are declared."""
        declared = self.state.clusters
        if declared is None or clusters is None:
            return []
        rows = ClusterRows.of(labels, scores, counts, clusters.groups)
        return [counts_of_rows(declared.num_groups, [rows])]

    # The methods below require the lock.

    def _set(self, state: State, pending: _Pending | None = None) -> None:
        # A merge is a pass over the state, so a larger state is merged less often.
        threshold = max(_MIN_MERGE_ROWS, state.counts.max_len // 2)
        # From here on nothing is allocated, so nothing can fail half way.
        self._merge_threshold = threshold
        self.state = state
        if pending is not None:
            self._clear_pending(pending)

    def _clear_pending(self, pending: _Pending) -> None:
        """Reset all buffers except the lists of scores."""
        # Indexed by class: negatives first.
        self._pending_columns, self._pending_runs, self._pending_removals = pending[:3]
        self._pending_cases = pending[3]  # cases in all of these, less the removals
        self._pending_weights, self._pending_clusters = pending[4:]
        self._pending_mutations = 0
        self._pending_rows = 0

    def _has_additions(self) -> bool:
        return bool(self.positives or self.negatives or self._pending_rows)

    def _lengths(self) -> tuple[int, int]:
        """Return the lengths of both lists as they were at one moment.

        The writer may be appending. If the positives have the same length before
        and after the negatives are counted, both lengths were true at once.
        """
        while True:
            positives, negatives = len(self.positives), len(self.negatives)
            if len(self.positives) == positives:
                return positives, negatives

    def _check_total(self, added: int) -> None:
        """Refuse cases that would take the total beyond the range of int64 arithmetic."""
        if added > self._room():
            weighted = self._pending_weights or self.state.weighted is not None
            raise too_many_weighted() if weighted else too_many()

    def _room(self) -> int:
        """Return how many more cases of weight 1 can be counted."""
        if self._pending_weights or self.state.weighted is not None:
            cases, units = self._weighted_totals()
            room = (MAX_TOTAL - 1 - units) // WEIGHT_UNITS
            return min(room, MAX_WEIGHTED_CASES - 1 - cases)
        waiting = sum(self._pending_cases) + len(self.positives) + len(self.negatives)
        return MAX_TOTAL - 1 - self.state.total - waiting

    def _check_weighted_total(self, added: int, added_units: int) -> None:
        """Refuse cases that would make the sums of weights or of their squares too large."""
        cases, units = self._weighted_totals()
        if cases + added >= MAX_WEIGHTED_CASES or units + added_units >= MAX_TOTAL:
            raise too_many_weighted()

    def _weighted_totals(self) -> tuple[int, int]:
        """Return the numbers of all cases, and of all units if every case is weighted."""
        state, pending = self.state, self._pending_weights
        plain = sum(self._pending_cases) - pending.cases
        plain += len(self.positives) + len(self.negatives)
        units = state.total * (WEIGHT_UNITS // state.unit) + plain * WEIGHT_UNITS + pending.units
        return sum(state.num_scored) + plain + pending.cases, units

    def _merge_if_due(self) -> None:
        try:
            if self._pending_rows + len(self._pending_removals) >= self._merge_threshold:
                self._merge()
        except MemoryError:
            # The mutation has happened. The next one, or a query, merges.
            return

    def _flush_scores(self) -> None:
        for label, buffer, length in zip(
            (True, False), (self.positives, self.negatives), self._lengths()
        ):
            if length:
                self._flush_class(label, buffer, length)

    def _flush_class(self, label: bool, buffer: list[float], length: int) -> None:
        """Move a prefix of one class's scores to its pending columns, or change nothing."""
        columns = self._pending_columns[label]
        cases = self._pending_cases[label]
        before = self._pending_mutations, self._pending_rows
        cases_after = cases + length
        mutations, rows = before[0] + length, before[1] + length
        columns.append(np.fromiter(buffer, np.float64, length))
        # Published before the buffer is emptied: see `view`.
        self._pending_cases[label] = cases_after
        self._pending_mutations, self._pending_rows = mutations, rows
        try:
            del buffer[:length]
        except MemoryError:
            columns[-1] = _NO_SCORES  # `pop` may allocate
            self._pending_cases[label] = cases
            self._pending_mutations, self._pending_rows = before
            raise

    def _merge(self) -> None:
        self._flush_scores()
        if not self._pending_mutations:
            return
        state = self.state
        change = ScoreCounts(self._change(True), self._change(False))
        weighted, clusters = None, []
        if self._pending_weights:
            weighted = self._pending_weights.merged().at_resolution(state.resolution, state.scale)
        if self._pending_clusters and state.clusters is not None:
            clusters = [counts_of_rows(state.clusters.num_groups, self._pending_clusters)]
        revision = state.revision + self._pending_mutations
        after = state.changed(change, weighted=weighted, revision=revision, clusters=clusters)
        self._set(after, _no_changes())

    def _change(self, label: bool) -> Run:
        """Return one class's pending changes as a signed run at the state's resolution."""
        columns = self._pending_columns[label]
        runs = self._pending_runs[label]
        if columns:
            runs = [*runs, Run.of(columns[0] if len(columns) == 1 else np.concatenate(columns))]
        change = self.state.quantised(merge_runs(runs))
        removed = {s: -n for (each, s), n in self._pending_removals.items() if each is label}
        if not removed:
            return change
        scores = np.fromiter(removed.keys(), dtype=np.float64, count=len(removed))
        counts = np.fromiter(removed.values(), dtype=np.int64, count=len(removed))
        return merge_runs([change, Run.of(scores, counts)])

    def _remove_weighted(
        self, labels: BoolArray, scores: FloatArray, units: IntArray, counts: IntArray | None
    ) -> bool:
        """Remove cases with weights from the merged state; return whether all were counted."""
        state = self.state
        removed = weighted_counts(labels, scores, units, counts)
        if not len(removed):
            return True
        change = removed.at_resolution(state.resolution, state.scale).negated()
        try:
            after = state.changed(ScoreCounts(), weighted=change, revision=state.revision + 1)
        except NegativeCountError:
            return False
        self._set(after)
        return True

    def _record_removal(self, label: bool, score: float) -> bool:
        """Record the removal of one merged case; return whether the state has such a case."""
        edge = self.state.edge(score)
        noted = self._pending_removals.get((label, edge), 0)
        if self.state.run(label).count_of(edge) <= noted:
            return False
        cases, mutations = self._pending_cases[label] - 1, self._pending_mutations + 1
        self._pending_removals[label, edge] = noted + 1
        self._pending_cases[label] = cases
        self._pending_mutations = mutations
        return True


def _no_changes() -> _Pending:
    return ([], []), ([], []), {}, [0, 0], PendingWeights(), []


def _twice(clusters: HashedClusters | None) -> HashedClusters | None:
    """Return one cluster as a column of two rows."""
    return None if clusters is None else HashedClusters(np.repeat(clusters.groups, 2))


def _append_both(lists: tuple[list[T], list[T]], items: Sequence[T], empty: T) -> None:
    """Append an item to each list, or nothing that counts: at most an `empty` item."""
    first, second = lists
    item, other = items
    first.append(item)
    try:
        second.append(other)
    except MemoryError:
        first[-1] = empty  # `pop` may allocate
        raise
