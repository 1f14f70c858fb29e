"""Cases that are not merged yet, and how they are merged into a state.

Cases stay as they arrived, unsorted and at full precision, until they are merged: one sort
then serves all that are pending. Cases that a `CellTable` counts are never sorted.

Cost: 15 ns a case in cells; one sort in exact counts, and where cases have weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from streameval._counts import (
    EMPTY_RUN,
    WEIGHT_UNITS,
    Run,
    ScoreCounts,
    Span,
    cell_keys,
    coarse_cells,
    concatenate_parts,
    count_cells,
    counts_of_cells,
    merge_runs,
    quantise,
    weighted_counts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common import BoolArray, FloatArray, IntArray
    from streameval._counts import ClusterCounts, Scale, State, WeightedCounts
    from streameval._time import Cases, CodeArray
    from streameval_server._state.segments import SegmentColumns

    CoarseCells: TypeAlias = tuple[FloatArray, npt.NDArray[np.int32]]
    """Lower edges of cells, ascending, and the cell of each case."""

    Addition: TypeAlias = "ScoreCounts | UnsortedCases"
    """Added cases: sorted already, which all weigh 1, or as they arrived."""


_MIN_INSERT_RATIO = 4
"""Changes that are at least this many times smaller than the state are inserted into it."""


_MAX_SORTED_CASES = 512
"""Cases up to which sorting is faster than a table of cells."""

_MAX_SORTED_RUNS = 16_384
"""Scores up to which sorted runs are merged faster than by a table of cells, most of it empty."""

_OVERHEAD_BYTES = 1_024
"""Memory of timed cases besides their columns."""

_COLUMN_BYTES = 256
"""Memory of a segment column besides its codes."""


class ClassScores(NamedTuple):
    """One class's cases: scores in any order, and the multiplicity of each, None for 1."""

    scores: FloatArray
    counts: IntArray | None


@dataclass(slots=True, eq=False)
class UnsortedCases:
    """Cases as they arrived, at full precision. Never mutated.

    Attributes
    ----------
    labels : bool[n]
    scores : float64[n]
    counts : int64[n] or None
        The multiplicity of each, None for 1.
    units : int64[n] or None
        The weight of each in units of 2**-16, None where each weighs 1.
    clusters : uint16[n] or None
        The group of each one's cluster; None where the stream declares no clusters.
    """

    labels: BoolArray
    scores: FloatArray
    counts: IntArray | None
    units: IntArray | None = None
    clusters: CodeArray | None = None
    _by_cluster: list[ClusterCounts] = field(default_factory=list, repr=False)
    _coarse_cells: list[tuple[FloatArray, npt.NDArray[np.int32]]] = field(
        default_factory=list, repr=False
    )
    _keys: dict[Scale, tuple[IntArray, Span]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, cases: Cases) -> UnsortedCases:
        """Return the cases of a change. O(1)."""
        return cls(cases.labels, cases.scores, cases.counts, cases.units, cases.clusters)

    @classmethod
    def concat(cls, parts: Sequence[UnsortedCases]) -> UnsortedCases:
        """Join cases; return the same object when there is one part, never zero. O(n)."""
        if len(parts) == 1:
            return parts[0]
        counts = None
        if any(part.counts is not None for part in parts):
            counts = np.concatenate([part.multiplicities() for part in parts])
        units = None
        if any(part.units is not None for part in parts):
            units = np.concatenate([part.unit_column() for part in parts])
        return cls(
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.scores for part in parts]),
            counts,
            units,
            _concatenated([part.clusters for part in parts]),
        )

    def take(self, rows: IntArray) -> UnsortedCases:
        """Return some of the rows. O(rows)."""
        return UnsortedCases(
            self.labels[rows],
            self.scores[rows],
            None if self.counts is None else self.counts[rows],
            None if self.units is None else self.units[rows],
            None if self.clusters is None else self.clusters[rows],
        )

    def copy(self) -> UnsortedCases:
        """Return a copy that is no view: a view keeps its whole base array in memory. O(n)."""
        return UnsortedCases(
            self.labels.copy(),
            self.scores.copy(),
            None if self.counts is None else self.counts.copy(),
            None if self.units is None else self.units.copy(),
            None if self.clusters is None else self.clusters.copy(),
        )

    def __len__(self) -> int:
        return self.scores.size

    @property
    def nbytes(self) -> int:
        """Memory of the rows. O(1)."""
        total = self.labels.nbytes + self.scores.nbytes
        for column in (self.counts, self.units, self.clusters):
            if column is not None:
                total += column.nbytes
        return total

    def multiplicities(self) -> IntArray:
        """Return how many cases each row stands for. O(n)."""
        return np.ones(len(self), dtype=np.int64) if self.counts is None else self.counts

    def unit_column(self) -> IntArray:
        """Return the weight of each row in units. O(n)."""
        return np.full(len(self), WEIGHT_UNITS) if self.units is None else self.units

    @property
    def positives(self) -> ClassScores:
        """The cases labelled positive. O(n)."""
        return self._of_class(self.labels)

    @property
    def negatives(self) -> ClassScores:
        """The cases labelled negative. O(n)."""
        return self._of_class(~self.labels)

    def _of_class(self, rows: BoolArray) -> ClassScores:
        return ClassScores(self.scores[rows], None if self.counts is None else self.counts[rows])

    def keys(self, scale: Scale) -> tuple[IntArray, Span]:
        """Return the scores' cell keys and their span. O(n) once; cached for several tables."""
        if scale not in self._keys:
            keys = cell_keys(self.scores, scale)
            self._keys[scale] = keys, Span.of(keys)
        return self._keys[scale]

    def cluster_codes(self) -> CodeArray:
        """Return twice the group of each case, plus 1 for positives. O(n)."""
        assert self.clusters is not None
        codes = self.clusters << np.uint16(1)
        codes |= self.labels
        return codes

    def coarse_cells(self) -> CoarseCells:
        """Return the cells in which groups of clusters count. O(n) once, as `by_cluster`."""
        if not self._coarse_cells:
            self._coarse_cells.append(coarse_cells(self.scores))
        return self._coarse_cells[0]

    def by_cluster(self, num_groups: int) -> ClusterCounts:
        """Return the counts by groups of clusters. O(n) once; the parts of a stream share them."""
        if not self._by_cluster:
            columns = (*self.coarse_cells(), self.cluster_codes(), self.counts)
            self._by_cluster.append(counts_of_cells(num_groups, *columns))
        return self._by_cluster[0]

    def sorted(self) -> ScoreCounts:
        """Return the cases, all of weight 1, as sorted runs. O(n log n)."""
        return ScoreCounts(Run.of(*self.positives), Run.of(*self.negatives))


def _concatenated(columns: Sequence[CodeArray | None]) -> CodeArray | None:
    """Return the columns of clusters as one: all parts of a stream have one, or none has."""
    found = [column for column in columns if column is not None]
    return np.concatenate(found) if found else None


@dataclass(frozen=True, slots=True, eq=False)
class TimedCases:
    """Cases to be counted, with their times and segments.

    Attributes
    ----------
    cases : UnsortedCases
    event_us : int or int64[n]
        One time for all rows, or the time of each.
    segments : tuple of SegmentColumns
        Their segments, batch after batch; empty when the stream has no segment keys.
    """

    cases: UnsortedCases
    event_us: int | IntArray
    segments: tuple[SegmentColumns, ...] = ()

    @property
    def nbytes(self) -> int:
        """Memory. O(batches and keys)."""
        total = _OVERHEAD_BYTES + self.cases.nbytes
        if not isinstance(self.event_us, int):
            total += self.event_us.nbytes
        for batch in self.segments:
            for column in batch.columns:
                if column is not None:
                    total += column[1].nbytes + _COLUMN_BYTES
        return total

    @classmethod
    def concat(cls, parts: Sequence[TimedCases], common_us: int | None = None) -> TimedCases:
        """Join cases, at least one part. O(n).

        `common_us`, if given, replaces all their times: a caller whose cases are in one pane may
        do so, because times within a pane count alike.
        """
        event_us = parts[0].event_us if common_us is None else common_us
        if common_us is None and any(part.event_us is not event_us for part in parts):
            event_us = _event_times(parts)
        return cls(
            UnsortedCases.concat([part.cases for part in parts]),
            event_us,
            tuple(chain.from_iterable(part.segments for part in parts)),
        )


def _event_times(parts: Sequence[TimedCases]) -> int | IntArray:
    """Return the times of all rows; most batches have one time for all of their rows."""
    sizes = [len(part.cases) for part in parts]
    if all(isinstance(part.event_us, int) for part in parts):
        return np.repeat(np.array([part.event_us for part in parts], dtype=np.int64), sizes)
    return np.concatenate(
        [np.broadcast_to(part.event_us, size) for part, size in zip(parts, sizes, strict=True)]
    )


def has_weights(addition: Addition) -> bool:
    """Return whether an addition has weights. O(1)."""
    return isinstance(addition, UnsortedCases) and addition.units is not None


def has_clusters(addition: Addition) -> bool:
    """Return whether the rows of an addition have clusters. O(1)."""
    return isinstance(addition, UnsortedCases) and addition.clusters is not None


def sorted_cases(addition: Addition) -> ScoreCounts:
    """Return an addition, all of weight 1, as sorted runs. O(n log n) if it is not sorted."""
    return addition.sorted() if isinstance(addition, UnsortedCases) else addition


def merge_weighted(state: State, pending: Sequence[Addition]) -> State:
    """Return a state, of which cases may have weights, with changes added. O(n log n)."""
    plain = [each for each in pending if not has_weights(each)]
    change = ScoreCounts()
    if plain:
        change = ScoreCounts(
            _sum([each.positives for each in plain], state),
            _sum([each.negatives for each in plain], state),
        )
    weighted = [each for each in pending if isinstance(each, UnsortedCases) and has_weights(each)]
    sums = None
    if weighted:
        every = UnsortedCases.concat(weighted)
        sums = weighted_sums(every).at_resolution(state.resolution, state.scale)
    return state.changed(change, weighted=sums, revision=0)


def weighted_sums(cases: UnsortedCases) -> WeightedCounts:
    """Return the sums of the weights of cases, by score and class. O(n log n)."""
    return weighted_counts(cases.labels, cases.scores, cases.unit_column(), cases.counts)


def merge_pending(state: State, pending: Sequence[Addition]) -> State:
    """Return a state with pending changes added. O(n log n), in cells mostly O(n)."""
    if not pending:
        return state
    if state.weighted is not None or any(has_weights(each) for each in pending):
        return merge_weighted(state, pending)
    only = pending[0]
    if len(pending) == 1 and isinstance(only, ScoreCounts):
        cells = ScoreCounts(state.quantised(only.positives), state.quantised(only.negatives))
        return state.changed(cells, revision=0)
    positives: list[Run | ClassScores] = [each.positives for each in pending]
    negatives: list[Run | ClassScores] = [each.negatives for each in pending]
    if state.resolution is not None and sum(map(len, pending)) * _MIN_INSERT_RATIO > len(
        state.counts
    ):
        # One table of everything is faster than inserting many cells.
        positives.append(state.counts.positives)
        negatives.append(state.counts.negatives)
        state = replace(state, counts=ScoreCounts())
    return state.changed(ScoreCounts(_sum(positives, state), _sum(negatives, state)), revision=0)


def _sum(parts: Sequence[Run | ClassScores], state: State) -> Run:
    """Return the sum of one class's cases at a state's resolution."""
    parts = [part for part in parts if part.scores.size]
    if not parts:
        return EMPTY_RUN
    runs = [state.quantised(part) for part in parts if isinstance(part, Run)]
    if len(runs) == len(parts) and sum(map(len, runs)) <= _MAX_SORTED_RUNS:
        return merge_runs(runs)
    scores, counts = concatenate_parts(parts)
    if state.resolution is not None:
        if scores.size > _MAX_SORTED_CASES:
            cells = count_cells(scores, counts, state.resolution, state.scale)
            if cells is not None:
                return cells
        scores = quantise(scores, state.resolution, state.scale)
    if counts is None:
        return Run.of(scores)
    ones = scores.size - counts.size
    return Run.of(scores[:ones]).merged(Run.of(scores[ones:], counts))
