"""How cases that are not merged yet are merged into a state.

Many cases in cells are counted in one table together with the state; few, exact and weighted
ones are sorted, once for all that are pending.

Cost: 15 ns a case in cells; one sort in exact counts, and where cases have weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from streameval._counts.cell_sums import CellSums
from streameval._counts.cluster_counts import NO_CLUSTERS, ClusterCounts, merge_clusters
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import merge_runs
from streameval._counts.unsorted_cases import UnsortedCases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.state import State

Addition: TypeAlias = "ScoreCounts | UnsortedCases"
"""Added cases: sorted already, or as they arrived."""

_MIN_INSERT_RATIO = 4
"""Changes that are at least this many times smaller than the state are inserted into it."""

_MAX_SORTED_CASES = 512
"""Cases up to which sorting is faster than a table of cells."""

_MAX_SORTED_RUNS = 16_384
"""Scores up to which sorted runs are merged faster than by a table of cells, most of it empty."""

_MAX_PIECES = 8
"""Additions that a table counts one by one; more, which are small, are joined first."""


def sorted_cases(addition: Addition) -> ScoreCounts:
    """Return an addition as sorted runs. O(n log n) if it is not sorted."""
    return addition.sorted() if isinstance(addition, UnsortedCases) else addition


def merge_pending(state: State, pending: Sequence[Addition]) -> State:
    """Return a state with pending changes added. O(n log n), in cells mostly O(n)."""
    if not pending:
        return state
    has_weights = any(each.has_weights for each in (state.counts, *pending))
    merged = None if has_weights else _counted_in_table(state, pending)
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
    """Return the sum of changes at a state's resolution. O(n log n)."""
    cases = [each for each in pending if isinstance(each, UnsortedCases)]
    parts = [each for each in pending if isinstance(each, ScoreCounts)]
    if cases:
        parts.append(UnsortedCases.concat(cases).sorted())
    quantised = [_quantised(each, state) for each in parts]
    return ScoreCounts(
        merge_runs([each.positives for each in quantised]),
        merge_runs([each.negatives for each in quantised]),
    )
