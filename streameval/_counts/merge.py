"""Sums and differences of states: many merged at once, a part subtracted from a whole.

The result has the lowest of the states' resolutions. Their scales must agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streameval._common.errors import InvalidInputError
from streameval._counts.cell_sums import sum_cells
from streameval._counts.cluster_counts import NO_CLUSTERS, merge_clusters
from streameval._counts.exact import MAX_TOTAL, too_many
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import NegativeCountError, Run, merge_runs
from streameval._counts.state import (
    State,
    at_resolution,
    fit_to_cap,
    is_probability,
    settled,
    shared_declared,
)
from streameval._counts.stored_counts import StoredCounts, cells_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.resolution import Scale

_MIN_TABLE_STATES = 3
"""Fewer states than this are opened and merged without a table."""

_MAX_SORTED_CELLS = 2_048
"""Distinct scores of states without packed counts that are sorted, which is faster than a table
whose rows are looked up for each state."""


def merge_states(states: Sequence[State], *, revision: int) -> State:
    """Return the sum of several states.

    The result has the lowest resolution of all (exact counts as the highest) and
    the smallest cap on cells. It is the same to the bit in any order of the states.

    Parameters
    ----------
    states : sequence of State
    revision : int
        The result's.

    Raises
    ------
    InvalidInputError
        When bounded states of different scales meet, or one on the probability
        scale and an exact one with scores outside [0, 1], or states with different
        numbers of groups of clusters.

    Notes
    -----
    O(S log S) for S distinct scores in all, in one pass for any number of states.
    """
    bits = [state.resolution for state in states if state.resolution is not None]
    caps = [state.max_cells for state in states if state.max_cells is not None]
    leasts = [each.min_label_probability for each in states if each.min_label_probability]
    resolution = min(bits, default=None)
    scale = check_mergeable(states)
    has_weights = any(state.counts.has_weights for state in states)
    whole = State(
        missed_positives=sum(state.missed_positives // state.unit for state in states),
        missed_negatives=sum(state.missed_negatives // state.unit for state in states),
        resolution=resolution,
        declared=shared_declared(scale, min(caps, default=None), min(leasts, default=None)),
        revision=revision,
        clusters=merge_clusters([state.clusters for state in states]),
    )
    is_wide = len(states) >= _MIN_TABLE_STATES and not _is_sorted_faster(states)
    if is_wide and not has_weights and resolution is not None and resolution >= 1:
        cells = _sum_in_table(states, resolution, whole)
        if cells is not None:
            return cells
    if len(states) == 2 and all(state.resolution == resolution for state in states):
        merged = states[0].counts.merged(states[1].counts)
    else:
        merged = ScoreCounts(
            _merged(states, True, resolution, scale), _merged(states, False, resolution, scale)
        )
    return fit_to_cap(settled(whole, merged, unit=1))


def check_mergeable(states: Sequence[State]) -> Scale:
    """Return the scale of the sum of states; refuse unweighted ones that cannot be merged.

    Raises
    ------
    InvalidInputError
        As `merge_states`.

    Notes
    -----
    O(1) for each state.
    """
    scale = _common_scale(states)
    _check_cluster_groups(states)
    if scale == "probability":
        _check_probabilities(states)
    if (
        not any(state.counts.has_weights for state in states)
        and sum(state.total for state in states) >= MAX_TOTAL
    ):
        raise too_many()
    return scale


def subtract_states(whole: State, part: State) -> State:
    """Return a state less the counts of one of its parts.

    The result has the lower resolution of the two. A part without groups of clusters leaves a
    rest without any.

    Raises
    ------
    InvalidInputError
        When the part has cases or misses that the whole lacks.

    Notes
    -----
    O(n).
    """
    bits = [state.resolution for state in (whole, part) if state.resolution is not None]
    resolution, scale = min(bits, default=None), _common_scale((whole, part))
    if not part.clusters.num_groups:
        whole = replace(whole, clusters=NO_CLUSTERS)
    _check_cluster_groups((whole, part))
    rest = replace(
        whole,
        missed_positives=whole.missed_positives // whole.unit - part.missed_positives // part.unit,
        missed_negatives=whole.missed_negatives // whole.unit - part.missed_negatives // part.unit,
        resolution=resolution,
        declared=whole.declared._replace(scale=scale),
    )
    if min(rest.missed_positives, rest.missed_negatives) < 0:
        raise InvalidInputError("the part has misses that the whole lacks", field="part")
    try:
        taken = _at(part, resolution, scale).negated()
        rest = settled(rest, _at(whole, resolution, scale).merged(taken), unit=1)
    except NegativeCountError as error:
        message = f"the part has cases that the whole lacks, the first at score {error.score}"
        raise InvalidInputError(message, field="part") from None
    try:
        return replace(rest, clusters=merge_clusters([whole.clusters, part.clusters.negated()]))
    except NegativeCountError:
        message = "the part has cases of clusters that the whole lacks"
        raise InvalidInputError(message, field="part") from None


def _at(state: State, resolution: int | None, scale: Scale) -> ScoreCounts:
    """Return the counts at a resolution no higher than the state's."""
    if state.resolution == resolution:
        return state.counts
    return ScoreCounts(
        at_resolution(state.counts.positives, resolution, scale),
        at_resolution(state.counts.negatives, resolution, scale),
    )


def _common_scale(states: Sequence[State]) -> Scale:
    """Return the scale of all bounded states, or refuse states of different scales."""
    scales = {state.scale for state in states if state.is_bounded}
    if len(scales) > 1:
        message = "evaluators on the plain and on the probability scale have no cells in common"
        raise InvalidInputError(message, field="scale")
    return next(iter(scales), "plain")


def _check_cluster_groups(states: Sequence[State]) -> None:
    """Refuse states whose clusters are in different numbers of groups."""
    numbers = {each.clusters.num_groups for each in states}
    if len(numbers) > 1:
        shown = " and ".join(sorted(str(each or "none") for each in numbers))
        message = f"evaluators must have the same cluster_groups to merge, got {shown}"
        raise InvalidInputError(message, field="cluster_groups")


def _is_sorted_faster(states: Sequence[State]) -> bool:
    """Return whether states have few scores, none of them in packed bytes. O(1) for each."""
    if any(cells_of(state) is not None for state in states):
        return False
    return sum(state.num_scores for state in states) <= _MAX_SORTED_CELLS


def _sum_in_table(states: Sequence[State], resolution: int, whole: State) -> State | None:
    """Return `whole` with the sum of states, within its cap; None if a table would not do.

    O(S + W) for S cells in all and a table of W rows. Packed states are not opened.
    """
    parts: list[tuple[StoredCounts | ScoreCounts, int]] = []
    for state in states:
        # Read once: another thread may pack the state meanwhile.
        packed = cells_of(state)
        if packed is not None:
            parts.append((packed, packed.bits))
        elif state.resolution is None:
            parts.append((_at(state, resolution, whole.scale), resolution))
        else:
            parts.append((state.counts, state.resolution))
    sums = sum_cells(parts, resolution, whole.scale)
    if sums is not None and whole.max_cells is not None:
        sums = sums.fitted(whole.max_cells)
    if sums is None:
        return None
    return replace(whole, counts=sums.counts(whole.scale), resolution=sums.bits)


def _merged(states: Sequence[State], label: bool, resolution: int | None, scale: Scale) -> Run:
    """Return one class's sum at a common resolution."""
    return merge_runs(
        [
            state.run(label)
            if state.resolution == resolution
            else at_resolution(state.run(label), resolution, scale)
            for state in states
        ]
    )


def _check_probabilities(states: Sequence[State]) -> None:
    # Those of states on the probability scale were checked when they were added.
    for state in (each for each in states if each.scale != "probability"):
        for run in state.counts.runs:
            if not is_probability(run):
                score = run.scores[0] if run.scores[0] < 0.0 else run.scores[-1]
                message = (
                    f"an evaluator on the probability scale takes scores between 0 and 1, "
                    f"the other has {score}"
                )
                raise InvalidInputError(message, field="scores")
