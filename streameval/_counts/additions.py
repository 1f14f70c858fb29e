"""How cases that are not merged yet are merged into a state.

Many cases in cells are counted in one table together with the state; few, exact and weighted
ones are sorted, once for all that are pending.

Cost: 15 ns a case in cells; one sort in exact counts, and where cases have weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from streameval._counts.cell_sums import CellSums
from streameval._counts.cluster_counts import NO_CLUSTERS, ClusterCounts, merge_clusters
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import merge_runs
from streameval._counts.unsorted_cases import UnsortedCases
from streameval._counts.weights import WeightedCounts, WeightedRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.state import State

Addition: TypeAlias = "ScoreCounts | UnsortedCases | WeightedCounts"
"""Added cases: sorted already, which all weigh 1; as they arrived; or as sums of weights."""

_MIN_INSERT_RATIO = 4
"""Changes that are at least this many times smaller than the state are inserted into it."""

_MAX_SORTED_CASES = 512
"""Cases up to which sorting is faster than a table of cells."""

_MAX_SORTED_RUNS = 16_384
"""Scores up to which sorted runs are merged faster than by a table of cells, most of it empty."""

_MAX_PIECES = 8
"""Additions that a table counts one by one; more, which are small, are joined first."""


def has_weights(addition: Addition) -> bool:
    """Return whether an addition has weights. O(1)."""
    if isinstance(addition, UnsortedCases):
        return addition.units is not None
    return isinstance(addition, WeightedCounts)


def has_clusters(addition: Addition) -> bool:
    """Return whether the rows of an addition have clusters. O(1)."""
    return isinstance(addition, UnsortedCases) and addition.clusters is not None


def sorted_cases(addition: ScoreCounts | UnsortedCases) -> ScoreCounts:
    """Return an addition, all of weight 1, as sorted runs. O(n log n) if it is not sorted."""
    return addition.sorted() if isinstance(addition, UnsortedCases) else addition


def merge_weighted(state: State, pending: Sequence[Addition]) -> State:
    """Return a state, of which cases may have weights, with changes added. O(n log n)."""
    plain = [each for each in pending if not has_weights(each)]
    sums = [each for each in pending if isinstance(each, WeightedCounts)]
    loose = [each for each in pending if isinstance(each, UnsortedCases) and has_weights(each)]
    if loose:
        sums.append(weighted_sums(UnsortedCases.concat(loose)))
    weighted = None
    if sums:
        first, *rest = (each.at_resolution(state.resolution, state.scale) for each in sums)
        weighted = first.merged(*rest)
    return state.changed(_sorted_sum(plain, state), weighted=weighted, revision=0)


def weighted_sums(cases: UnsortedCases) -> WeightedCounts:
    """Return the sums of the weights of cases, by score and class. O(n log n)."""
    return weighted_counts(cases.labels, cases.scores, cases.unit_column(), cases.counts)


def merge_pending(state: State, pending: Sequence[Addition]) -> State:
    """Return a state with pending changes added. O(n log n), in cells mostly O(n)."""
    if not pending:
        return state
    if state.weighted is not None or any(has_weights(each) for each in pending):
        return merge_weighted(state, pending)
    merged = _counted_in_table(state, pending)
    if merged is None:
        merged = state.changed(_sorted_sum(pending, state), revision=0)
    added = by_cluster(pending, state.clusters.num_groups)
    return replace(merged, clusters=merge_clusters([state.clusters, added]))


def by_cluster(additions: Sequence[Addition], num_groups: int) -> ClusterCounts:
    """Return additions by groups of clusters. O(n) once for each addition."""
    if not num_groups:
        return NO_CLUSTERS
    cases = [each for each in additions if isinstance(each, UnsortedCases)]
    assert len(cases) == len(additions), "what is added to groups of clusters comes unsorted"
    return UnsortedCases.concat(cases).by_cluster(num_groups)


def _counted_in_table(state: State, pending: Sequence[Addition]) -> State | None:
    """Return a state with changes counted in a table; None where sorting does better. O(n)."""
    bits = state.resolution
    runs = [each for each in pending if isinstance(each, ScoreCounts)]
    cases = [each for each in pending if isinstance(each, UnsortedCases) and len(each)]
    size = sum(map(len, pending))
    is_small = sum(map(len, cases)) <= _MAX_SORTED_CASES and size <= _MAX_SORTED_RUNS
    if bits is None or bits < 1 or is_small or size * _MIN_INSERT_RATIO <= len(state.counts):
        return None
    if len(cases) > _MAX_PIECES:
        cases = [UnsortedCases.concat(cases)]
    quantised = [_quantised(each, state) for each in runs]
    sums = CellSums.of([state.counts, *quantised], bits, state.scale, cases)
    if sums is not None and state.max_cells is not None:
        sums = sums.fitted(state.max_cells)
    if sums is None:
        return None
    return replace(state, counts=sums.counts(state.scale), resolution=sums.bits)


def _quantised(counts: ScoreCounts, state: State) -> ScoreCounts:
    return ScoreCounts(state.quantised(counts.positives), state.quantised(counts.negatives))


def _sorted_sum(pending: Sequence[Addition], state: State) -> ScoreCounts:
    """Return the sum of changes, all of weight 1, at a state's resolution. O(n log n)."""
    cases = [each for each in pending if isinstance(each, UnsortedCases)]
    parts = [each for each in pending if isinstance(each, ScoreCounts)]
    if cases:
        parts.append(UnsortedCases.concat(cases).sorted())
    quantised = [_quantised(each, state) for each in parts]
    return ScoreCounts(
        merge_runs([each.positives for each in quantised]),
        merge_runs([each.negatives for each in quantised]),
    )


def weighted_counts(
    labels: BoolArray, scores: FloatArray, units: IntArray, counts: IntArray | None = None
) -> WeightedCounts:
    """Return the sums of checked columns. O(n log n)."""

    def run(rows: IntArray) -> WeightedRun:
        return WeightedRun.of(scores[rows], units[rows], None if counts is None else counts[rows])

    return WeightedCounts(run(np.flatnonzero(labels)), run(np.flatnonzero(~labels)))
