"""What an evaluator has counted: one immutable state, and the changes that wait.

A change is checked, noted and done; sorting and merging come when somebody asks,
or when what waits has grown to half of the state. So the merge costs O(log n) a
case amortised, and what waits takes less memory than the state, or 0.8 MB.

Guarantee: one thread may write while any number read. Each reader gets the state
of one moment: what it includes is a prefix of the writer's mutations. What is
refused has changed nothing, and when somebody asks never changes an answer.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.exact import MAX_TOTAL, too_many
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import NotThereError, Run, merge_runs

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.state import State

PERMITS = 8_192
"""How many scalars may be appended before the writer calls `spill`."""

_ROOM = 65_536
"""The fewest rows, and removals, that wait before they are merged unasked."""


class CountsAccumulator:
    """The state and what waits to be merged into it.

    Attributes
    ----------
    state : State
        What was merged last.
    positives, negatives : list of float
        Checked scores that wait. The writer only appends to them; whoever
        merges takes away a prefix.
    """

    def __init__(self, state: State) -> None:
        self.positives: list[float] = []
        self.negatives: list[float] = []
        self._lock = Lock()
        self._forget()
        self._set(state)

    def view(self) -> State:
        """Return the state that includes everything up to now. O(1) if nothing waits."""
        # Lock-free fast path: a row is published to its next container before it leaves
        # the previous one, so a reader that finds all containers empty has the complete
        # state.
        if self._adds_wait() or self._removed:
            with self._lock:
                self._merge()
        return self.state

    def tally(self) -> tuple[int, int, int]:
        """Return the revision and how many positives and negatives are scored. O(1)."""
        with self._lock:
            positives, negatives = self._lengths()
            counts = self.state.counts
            return (
                self.state.revision + self._mutations + positives + negatives,
                counts.positives.total + self._waiting[True] + positives,
                counts.negatives.total + self._waiting[False] + negatives,
            )

    def make_room(self, most: int) -> int:
        """Move the scalars that wait to where columns wait, in a quarter of their memory.

        Returns how many more, up to `most`, all counts together have room for.

        Raises
        ------
        InvalidInputError
            When there is none.
        """
        with self._lock:
            self._spill()
            self._merge_if_much_waits()
            self._check_room(1)
            return min(most, MAX_TOTAL - 1 - self.state.total - sum(self._waiting))

    def add_columns(self, labels: BoolArray, scores: FloatArray, counts: IntArray | None) -> None:
        """Add checked columns as one mutation, or refuse what would be too many."""
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
        with self._lock:
            self._check_room(sum(added))
            for label in (False, True):
                if runs is None:
                    self._columns[label].append(columns[label])
                else:
                    self._runs[label].append(runs[label])
                self._waiting[label] += added[label]
            self._mutations += 1
            self._rows += labels.size
            self._merge_if_much_waits()

    def remove(self, label: bool, score: float) -> bool:
        """Take one case away; tell whether there was one. O(log n) amortised."""
        with self._lock:
            # With a cap on cells additions are merged first: else the bits that
            # they cost would depend on when somebody asked.
            if self.state.max_cells is not None and self._adds_wait():
                self._merge()
            # Most removals are of what was merged long ago.
            if self._note_removal(label, score):
                self._merge_if_much_waits()
                return True
            self._merge()
            return self._note_removal(label, score)

    def remove_columns(
        self, labels: BoolArray, scores: FloatArray, counts: IntArray | None
    ) -> None:
        """Take checked columns away as one mutation, or refuse the first row that is not there."""
        if counts is None:
            counts = np.ones(scores.size, dtype=np.int64)
        with self._lock:
            self._merge()
            state = self.state
            positives, negatives = (
                state.quantised(Run.of(scores[rows], counts[rows])) for rows in (labels, ~labels)
            )
            if not positives.total + negatives.total:
                return
            change = ScoreCounts(positives.negated(), negatives.negated())
            try:
                after = state.changed(change, revision=state.revision + 1)
            except NotThereError:
                raise _first_missing(state, labels, scores, counts) from None
            self._set(after)

    def miss(self, *, positives: int = 0, negatives: int = 0) -> None:
        """Add misses of either class, or take them away if negative."""
        if not positives and not negatives:
            return
        with self._lock:
            self._merge()
            state = self.state
            self._check_room(positives + negatives)
            for there, change in (
                (state.missed_positives, positives),
                (state.missed_negatives, negatives),
            ):
                if there + change < 0:
                    message = f"count must be at most {there}, the misses there are, got {-change}"
                    raise InvalidInputError(message, field="count")
            after = state.changed(
                ScoreCounts(),
                missed_positives=positives,
                missed_negatives=negatives,
                revision=state.revision + 1,
            )
            self._set(after)

    def replace(self, state: State) -> None:
        """Put another state in the place of the one that `view` gave."""
        with self._lock:
            self._set(state)

    # What follows is called with the lock held.

    def _set(self, state: State) -> None:
        self.state = state
        # A merge is a pass over the state: the larger that is, the rarer.
        self._room = max(_ROOM, len(state.counts) // 2)

    def _forget(self) -> None:
        """Begin anew with nothing that waits, scalars apart."""
        # By class, negatives first.
        self._columns: tuple[list[FloatArray], list[FloatArray]] = ([], [])
        self._runs: tuple[list[Run], list[Run]] = ([], [])
        self._removed: dict[tuple[bool, float], int] = {}
        self._waiting = [0, 0]  # cases among these
        self._mutations = 0
        self._rows = 0

    def _adds_wait(self) -> bool:
        return bool(self.positives or self.negatives or self._rows)

    def _lengths(self) -> tuple[int, int]:
        """Return how many scalars of each class waited at one moment.

        The writer may be appending. When there were as many positives before
        and after the negatives were counted, both counts held at once.
        """
        while True:
            positives, negatives = len(self.positives), len(self.negatives)
            if len(self.positives) == positives:
                return positives, negatives

    def _check_room(self, added: int) -> None:
        """Refuse what takes all counts together beyond what int64 arithmetic bears."""
        waiting = sum(self._waiting) + len(self.positives) + len(self.negatives)
        if self.state.total + waiting + added >= MAX_TOTAL:
            raise too_many()

    def _merge_if_much_waits(self) -> None:
        if self._rows + len(self._removed) >= self._room:
            self._merge()

    def _spill(self) -> None:
        lengths = self._lengths()
        if lengths == (0, 0):
            return
        self._mutations += sum(lengths)
        self._rows += sum(lengths)  # before the buffers are emptied: see `view`
        for label, buffer, length in zip((True, False), (self.positives, self.negatives), lengths):
            self._columns[label].append(np.fromiter(buffer, np.float64, length))
            self._waiting[label] += length
            del buffer[:length]

    def _merge(self) -> None:
        self._spill()
        if not self._mutations:
            return
        change = ScoreCounts(self._change(True), self._change(False))
        self._set(self.state.changed(change, revision=self.state.revision + self._mutations))
        self._forget()

    def _change(self, label: bool) -> Run:
        """Return what waits for one class as a signed run at the state's resolution."""
        columns = self._columns[label]
        runs = self._runs[label]
        if columns:
            runs = [*runs, Run.of(columns[0] if len(columns) == 1 else np.concatenate(columns))]
        change = self.state.quantised(merge_runs(runs))
        removed = {s: -n for (each, s), n in self._removed.items() if each is label}
        if not removed:
            return change
        scores = np.fromiter(removed.keys(), dtype=np.float64, count=len(removed))
        counts = np.fromiter(removed.values(), dtype=np.int64, count=len(removed))
        return merge_runs([change, Run.of(scores, counts)])

    def _note_removal(self, label: bool, score: float) -> bool:
        """Note that a case which is merged already goes; tell whether there is one."""
        edge = self.state.edge(score)
        noted = self._removed.get((label, edge), 0)
        if self.state.run(label).count_of(edge) <= noted:
            return False
        self._removed[label, edge] = noted + 1
        self._waiting[label] -= 1
        self._mutations += 1
        return True


def not_there(
    label: bool, score: float, *, field: str, index: int | None = None
) -> InvalidInputError:
    """Return the refusal to remove a case that is not there."""
    kind = "positive" if label else "negative"
    at = "" if index is None else f" at index {index}"
    message = f"no {kind} case of score {score} is there to remove{at}"
    return InvalidInputError(message, field=field, index=index)


def _first_missing(
    state: State, labels: BoolArray, scores: FloatArray, counts: IntArray
) -> InvalidInputError:
    """Return the refusal of the first row that asks for more cases than are left."""
    left: dict[tuple[bool, float], int] = {}
    rows = zip(labels.tolist(), scores.tolist(), counts.tolist())
    for index, (label, score, count) in enumerate(rows):
        edge = state.edge(score)
        there = left.get((label, edge))
        left[label, edge] = (state.run(label).count_of(edge) if there is None else there) - count
        if left[label, edge] < 0:
            return not_there(label, score, field="scores", index=index)
    message = "a removal was refused although every case is there"
    raise AssertionError(message)
