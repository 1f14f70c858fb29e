"""The share of a change that one segment explains: its cases are replaced by its base's."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.exact import MAX_TOTAL
from streameval._counts.groups import Groups
from streameval._counts.resolution import quantise
from streameval._metrics.gradients import cells_of
from streameval._metrics.pr_areas import auc_pr_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.resolution import Scale
    from streameval._counts.state import State


def explained_share(
    base: State, now: State, segment_base: State, segment_now: State, *, prevalence: float
) -> float | None:
    """Return the share of a change of AUC-PR that a segment explains, to the nearest 0.1. O(cells).

    It is the part of the difference that goes away when the segment's cases of now are replaced
    by its cases of the base, in today's number. All other cases stay, so a segment counts by what
    it does to the whole: one whose negatives rise above all others' explains what the others lose.

    Parameters
    ----------
    base, now : State
        All cases.
    segment_base, segment_now : State
        The part of each that is in the segment.
    prevalence : float
        At which all values are.

    Returns
    -------
    float or None
        From 0 to 1: a segment that makes up for others explains 0, and one that they make up for
        1. None where AUC-PR has not changed, or is undefined, or the segment is empty on one side.

    Notes
    -----
    Counts stay integers: all others are multiplied by the denominator of the ratio of the
    segment's numbers, which is exact while the counts are below 2**62. The shares of segments
    that overlap, or that act together, need not add up to 1.
    """
    of_base, of_now = segment_base.P + segment_base.N, segment_now.P + segment_now.N
    if not of_base or not of_now:
        return None
    unit = now.unit // segment_now.unit
    ratio = Fraction(of_now * unit, of_base)
    ratio = ratio.limit_denominator(max(1, MAX_TOTAL // (2 * (now.P + now.N))))
    scale = ratio.denominator
    others = (now, scale), (segment_now, -unit * scale), (segment_base, ratio.numerator)
    states = base, now, segment_base, segment_now
    cuts = [(each.resolution, each.scale) for each in states if each.resolution is not None]
    before, after, without = (
        auc_pr_value(_sum(parts, min(cuts, default=None)), prevalence=prevalence)
        for parts in (((base, 1),), ((now, 1),), others)
    )
    moved = before - after
    if not moved or math.isnan(moved) or math.isnan(without):
        return None
    return min(max(round(10 * (without - after) / moved) / 10, 0.0), 1.0)


def _sum(parts: Sequence[tuple[State, int]], cut: tuple[int, Scale] | None) -> Groups:
    """Return the groups of all states, each counted a number of times, at one resolution."""
    columns = [(cells_of(state), times) for state, times in parts]
    scores = np.concatenate([cells.scores for cells, _ in columns])
    if cut is not None:
        is_scored = np.isfinite(scores)
        scores[is_scored] = quantise(scores[is_scored], *cut)
    found, place = np.unique(-scores, return_inverse=True)
    p, n = np.zeros((2, found.size), dtype=np.int64)
    np.add.at(p, place, np.concatenate([times * cells.p for cells, times in columns]))
    np.add.at(n, place, np.concatenate([times * cells.n for cells, times in columns]))
    cells, chosen = Groups.of_cells(-found, p, n), p > 0
    return replace(
        cells,
        scores=cells.scores[chosen],
        p=p[chosen],
        n=n[chosen],
        tp=cells.tp[chosen],
        fp=cells.fp[chosen],
    )
