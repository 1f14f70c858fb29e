"""An evaluator's counts: one immutable state, and a tally of what came since.

A mutation is checked and added to the tally. The tally is merged into the state at the next
query, or when it has grown to half of the state. So a merge costs O(log n) a case amortised,
and a tally takes less memory than its state, or 0.8 MB.

Thread safety: one thread may write while any number read. Each reader gets the
state of one moment, which includes a prefix of the writer's mutations. A mutation
that raises changes nothing, also when it raises for want of memory. The times at
which readers query change no answer.
"""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.additions import by_cluster
from streameval._counts.exact import MAX_TOTAL, too_many
from streameval._counts.missing_cases import first_missing_case, first_missing_weight
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import NegativeCountError, Run
from streameval._counts.tally import Tally
from streameval._counts.unsorted_cases import UnsortedCases
from streameval._counts.weights import (
    MAX_WEIGHTED_CASES,
    WEIGHT_UNITS,
    too_many_weighted,
)

if TYPE_CHECKING:
    from streameval._counts.additions import Addition
    from streameval._counts.cluster_keys import GroupArray
    from streameval._counts.state import State

MAX_BUFFERED_SCORES = 8_192
"""Scores that the writer may append to the lists before it calls `renew_permits`."""

_MIN_MERGE_ROWS = 65_536
"""Fewer pending rows and removals than this are merged only by a query."""

_MAX_PIECES = 64
"""Additions that may wait; more are joined, because each takes memory besides its rows."""


class _Waiting(NamedTuple):
    """How much is pending. It is replaced as one, so it always agrees with itself.

    Attributes
    ----------
    negatives, positives : int
        Cases, less the removals.
    mutations, rows : int
    weighted, units : int
        Cases that were added with weights, and the sum of these.
    """

    negatives: int = 0
    positives: int = 0
    mutations: int = 0
    rows: int = 0
    weighted: int = 0
    units: int = 0

    def plus(
        self,
        negatives: int,
        positives: int,
        *,
        mutations: int = 1,
        rows: int = 0,
        weighted: int = 0,
        units: int = 0,
    ) -> _Waiting:
        """Return the sums with these."""
        return _Waiting(
            self.negatives + negatives,
            self.positives + positives,
            self.mutations + mutations,
            self.rows + rows,
            self.weighted + weighted,
            self.units + units,
        )


_NOTHING = _Waiting()


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
    A row moves from the lists to the tally, and from there into the state. It is
    published to its next container before it leaves the previous one.
    """

    def __init__(self, state: State) -> None:
        self.positives: list[float] = []
        self.negatives: list[float] = []
        self._lock = Lock()
        self._waiting = _NOTHING
        self._set(state)

    def view(self) -> State:
        """Return the state with all changes merged. O(1) if none is pending."""
        # Lock-free fast path: a row is published to its next container before it
        # leaves the previous one, so a reader that finds all containers empty has
        # the complete state.
        if self._has_additions() or self._waiting.mutations:
            with self._lock:
                self._merge()
        return self.state

    def totals(self) -> tuple[int, int, int]:
        """Return the revision and the numbers of scored positives and negatives. O(1)."""
        with self._lock:
            positives, negatives = self._lengths()
            scored, waiting = self.state.num_scored, self._waiting
            return (
                self.state.revision + waiting.mutations + positives + negatives,
                scored[True] + waiting.positives + positives,
                scored[False] + waiting.negatives + negatives,
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

    def add_rows(self, cases: UnsortedCases) -> None:
        """Add checked cases as one mutation, or refuse them if the total grows too large.

        Rows of weight 0 are left out. The columns are copied: they may be the caller's own memory.
        """
        change = cases.copy()
        negatives, positives = change.num_cases()
        added = negatives + positives
        if not added:
            return
        weighted, total = (added, change.num_units()) if change.has_weights else (0, 0)
        with self._lock:
            self._check_total(added, total)
            after = self._waiting.plus(
                negatives, positives, rows=len(change), weighted=weighted, units=total
            )
            self._add(change, after)

    def add_weighted_case(self, label: bool, score: float, units: int) -> None:
        """Add one checked case of a weight in units of 2**-16; of weight 0, change nothing."""
        if not units:
            return
        with self._lock:
            self._check_total(1, units)
            waiting = self._waiting.plus(not label, label, rows=1, weighted=1, units=units)
            self._weighted_rows.append((label, score, units))
            self._waiting = waiting
            self._merge_if_due()

    def remove(self, label: bool, score: float) -> bool:
        """Remove one case of weight 1; return whether it was counted. O(log n) amortised.

        O(n) where cases have weights.
        """
        with self._lock:
            # With a cap on cells, additions are merged first. Otherwise the bits that
            # the cap drops would depend on the time of the last query.
            is_capped = self.state.max_cells is not None and self._has_additions()
            if is_capped or self._has_weights:
                self._merge()
            if self._has_weights:
                return self._remove_merged(
                    UnsortedCases(np.array([label]), np.array([score]), None)
                )
            # Fast path: most removals are of cases that are merged already.
            if self._record_removal(label, score):
                self._merge_if_due()
                return True
            self._merge()
            return self._record_removal(label, score)

    def remove_rows(self, change: UnsortedCases) -> None:
        """Remove checked cases as one mutation, or refuse the first row that is not counted."""
        if not any(change.num_cases()):
            return
        with self._lock:
            self._merge()
            if self._remove_merged(change):
                return
            is_weighted = change.has_weights or self._has_weights
            first_missing = first_missing_weight if is_weighted else first_missing_case
            raise first_missing(self.state, change)

    def add_misses(self, label: bool, count: int, clusters: GroupArray | None = None) -> None:
        """Add misses of a class and of one cluster, or remove them if the count is negative."""
        if not count:
            return
        missed = UnsortedCases(
            np.array([label]), np.array([-np.inf]), np.array([count]), clusters=clusters
        )
        with self._lock:
            self._merge()
            state = self.state
            self._check_total(count)
            counted = (state.missed_positives if label else state.missed_negatives) // state.unit
            if counted + count < 0:
                message = f"count must be at most {counted}, the number of misses, got {-count}"
                raise InvalidInputError(message, field="count")
            try:
                after = state.changed(
                    ScoreCounts(),
                    missed_positives=count * label,
                    missed_negatives=count * (not label),
                    revision=state.revision + 1,
                    clusters=[by_cluster([missed], state.clusters.num_groups)],
                )
            except NegativeCountError:
                message = "count must be at most the misses of the cluster's group"
                raise InvalidInputError(message, field="count") from None
            self._set(after)

    def replace(self, state: State) -> None:
        """Replace the state that the last `view` returned."""
        with self._lock:
            self._set(state)

    # The methods below require the lock.

    def _set(self, state: State) -> None:
        """Take a state that has all changes."""
        # A merge is a pass over the state, so a larger state is merged less often.
        threshold = max(_MIN_MERGE_ROWS, state.counts.max_len // 2)
        tally = Tally(state)
        removals: dict[tuple[bool, float], int] = {}
        rows: list[tuple[bool, float, int]] = []
        # From here on nothing is allocated, so nothing can fail half way.
        self._merge_threshold = threshold
        self.state = state
        self._tally = tally
        self._removals = removals
        self._weighted_rows = rows
        self._waiting = _NOTHING

    def _add(self, change: Addition, waiting: _Waiting) -> None:
        """Add a change, after which this much is pending; or change nothing."""
        self._tally.add(change)
        self._waiting = waiting
        self._merge_if_due()

    def _has_additions(self) -> bool:
        return bool(self.positives or self.negatives or self._waiting.rows)

    def _lengths(self) -> tuple[int, int]:
        """Return the lengths of both lists as they were at one moment.

        The writer may be appending. If the positives have the same length before
        and after the negatives are counted, both lengths were true at once.
        """
        while True:
            positives, negatives = len(self.positives), len(self.negatives)
            if len(self.positives) == positives:
                return positives, negatives

    @property
    def _has_weights(self) -> bool:
        """Whether cases of the state, or pending ones, have weights."""
        return bool(self._waiting.weighted) or self.state.counts.has_weights

    def _check_total(self, added: int, units: int = 0) -> None:
        """Refuse cases that would take the total beyond the range of int64 arithmetic.

        `units` is the sum of their weights, 0 where each weighs 1.
        """
        if not (units or self._has_weights):
            if added > self._room():
                raise too_many()
            return
        cases, total = self._weighted_totals()
        total += units or added * WEIGHT_UNITS
        if cases + added >= MAX_WEIGHTED_CASES or total >= MAX_TOTAL:
            raise too_many_weighted()

    def _room(self) -> int:
        """Return how many more cases of weight 1 can be counted."""
        if self._has_weights:
            cases, units = self._weighted_totals()
            room = (MAX_TOTAL - 1 - units) // WEIGHT_UNITS
            return min(room, MAX_WEIGHTED_CASES - 1 - cases)
        return MAX_TOTAL - 1 - self.state.total - self._num_waiting()

    def _num_waiting(self) -> int:
        """Return how many cases are pending, less the removals."""
        waiting = self._waiting
        listed = len(self.positives) + len(self.negatives)
        return waiting.positives + waiting.negatives + listed

    def _weighted_totals(self) -> tuple[int, int]:
        """Return the numbers of all cases, and of all units if every case is weighted."""
        state, waiting = self.state, self._num_waiting()
        units = state.total * (WEIGHT_UNITS // state.unit)
        units += (waiting - self._waiting.weighted) * WEIGHT_UNITS + self._waiting.units
        return sum(state.num_scored) + waiting, units

    def _merge_if_due(self) -> None:
        try:
            if self._waiting.rows + len(self._removals) >= self._merge_threshold:
                self._merge()
            elif self._tally.num_pieces > _MAX_PIECES:
                self._tally.join()
        except MemoryError:
            # The mutation has happened. The next one, or a query, merges.
            return

    def _flush_scores(self) -> None:
        """Move what the writer has listed to the tally; each list wholly, or not at all."""
        if self._weighted_rows:
            labels, scores, units = zip(*self._weighted_rows, strict=True)
            rows: list[tuple[bool, float, int]] = []
            columns = np.array(labels), np.array(scores, dtype=np.float64), None
            self._tally.add(UnsortedCases(*columns, np.array(units, dtype=np.int64)))
            self._weighted_rows = rows
        for label, buffer, length in zip(
            (True, False), (self.positives, self.negatives), self._lengths()
        ):
            if length:
                self._flush_class(label, buffer, length)

    def _flush_class(self, label: bool, buffer: list[float], length: int) -> None:
        """Move a prefix of one class's scores to the tally, or change nothing."""
        labels = np.full(length, label)
        change = UnsortedCases(labels, np.fromiter(buffer, np.float64, length), None)
        before = self._waiting
        numbers = (0, length) if label else (length, 0)
        after = before.plus(*numbers, mutations=length, rows=length)
        self._tally.add(change)
        # Published before the buffer is emptied: see `view`.
        self._waiting = after
        try:
            del buffer[:length]
        except MemoryError:
            self._tally.take_back()
            self._waiting = before
            raise

    def _merge(self) -> None:
        self._flush_scores()
        waiting = self._waiting
        if not waiting.mutations:
            return
        removed = [self._removed()] if self._removals else []
        merged = self._tally.merged(*removed)
        self._set(replace(merged, revision=self.state.revision + waiting.mutations))

    def _removed(self) -> ScoreCounts:
        """Return the recorded removals as signed counts."""

        def run(label: bool) -> Run:
            removed = {s: -n for (each, s), n in self._removals.items() if each is label}
            scores = np.fromiter(removed.keys(), dtype=np.float64, count=len(removed))
            return Run.of(scores, np.fromiter(removed.values(), np.int64, len(removed)))

        return ScoreCounts(run(True), run(False))

    def _remove_merged(self, change: UnsortedCases) -> bool:
        """Remove cases from the merged state; return whether all were counted."""
        state = self.state
        after = Tally(state)
        try:
            after.remove(change)
        except NegativeCountError:
            return False
        self._set(replace(after.merged(), revision=state.revision + 1))
        return True

    def _record_removal(self, label: bool, score: float) -> bool:
        """Record the removal of one merged case; return whether the state has such a case."""
        edge = self.state.edge(score)
        noted = self._removals.get((label, edge), 0)
        if self.state.counts.count_of(label, edge) <= noted:
            return False
        waiting = self._waiting.plus(label - 1, -label)
        self._removals[label, edge] = noted + 1
        self._waiting = waiting
        return True
