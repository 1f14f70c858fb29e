"""Merging many runs of cells at once: a scatter into a table over the cells' numbers.

Cells of one resolution are numbered in order (the leading bits of a double's key
are such numbers), and scores that are measured with one model fill a narrow range
of them. So the sum of sixty runs needs no sort: each adds its counts to a table.

Cost: O(S + W) for S scores in all and W numbers between the least and the
greatest; 5 ns a score. Where W is out of proportion `merge_runs` sorts instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.multiset import Run, merge_runs
from streameval._counts.resolution import MAX_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.groups import FloatArray, IntArray
    from streameval._counts.resolution import Scale

_FEW = 3
"""Fewer runs than this are merged one into the other."""

_WIDE = 1 << 16
"""A table up to this long is cheap whatever goes into it."""

_SPARSE = 4
"""Longer tables may have this many entries for each score."""

_MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)


def merge_cells(runs: Sequence[Run], bits: int, scale: Scale) -> Run:
    """Return the sum of many runs of lower edges at one resolution.

    Parameters
    ----------
    runs : sequence of Run
        Counts may be signed as long as no sum is negative.
    bits : int
        Significant bits that all of them keep.
    scale : {"plain", "probability"}
        What the bits are counted of.

    Examples
    --------
    >>> panes = [Run.of(np.array([0.5, 0.75])), Run.of(np.array([0.5])), Run.of(np.array([-1.0]))]
    >>> merged = merge_cells(panes, 2, "plain")
    >>> merged.scores, merged.counts
    (array([-1.  ,  0.5 ,  0.75]), array([1, 2, 1]))
    """
    runs = [run for run in runs if len(run)]
    # Below one bit the exponent's bits are dropped too, and few cells are left to sort.
    if len(runs) < _FEW or bits < 1:
        return merge_runs(runs)
    dropped = MAX_BITS - bits
    tables = [
        _table([_half(run, upper=upper, scale=scale) for run in runs], dropped)
        for upper in (False, True)
    ]
    if tables[0] is None or tables[1] is None:
        return merge_runs(runs)
    scores = np.concatenate((tables[0][0], tables[1][0]))
    counts = np.concatenate((tables[0][1], tables[1][1]))
    order = np.argsort(scores)
    return Run.of_ordered(scores[order], counts[order])


def _half(run: Run, *, upper: bool, scale: Scale) -> tuple[FloatArray, FloatArray, IntArray | int]:
    """Return the part of a run on one side: magnitudes to number, scores and counts.

    On the plain scale the sides are those of 0; on the probability scale those
    of 1/2, and the upper one is numbered by its distance from 1.
    """
    is_plain = scale == "plain"
    cut = int(np.searchsorted(run.scores, 0.0 if is_plain else 0.5))
    part = slice(cut, None) if upper else slice(cut)
    scores = run.scores[part]
    magnitudes = 1.0 - scores if upper and not is_plain else scores
    return magnitudes, scores, 1 if run.counts is None else run.counts[part]


def _table(
    parts: list[tuple[FloatArray, FloatArray, IntArray | int]], dropped: int
) -> tuple[FloatArray, IntArray] | None:
    """Return the distinct scores of one side and their counts; None if too sparse."""
    parts = [part for part in parts if part[1].size]
    if not parts:
        return np.empty(0), np.empty(0, dtype=np.int64)
    # Scores of a run ascend, so its numbers lie between those of its ends.
    ends = np.concatenate([_numbers(magnitudes[[0, -1]], dropped) for magnitudes, _, _ in parts])
    least, width = ends.min(), int(np.ptp(ends)) + 1
    if width > max(_WIDE, _SPARSE * sum(scores.size for _, scores, _ in parts)):
        return None
    sums, edges = np.zeros(width, dtype=np.int64), np.empty(width)
    for magnitudes, scores, counts in parts:
        # A run's scores are distinct, so no number occurs twice.
        numbers = _numbers(magnitudes, dropped)
        numbers -= least
        sums[numbers] += counts
        edges[numbers] = scores
    used = np.flatnonzero(sums)
    return edges[used], sums[used]


def _numbers(magnitudes: FloatArray, dropped: int) -> IntArray:
    """Return the cells' numbers: different for different edges of one side.

    Edges are multiples of 2**dropped as keys, except the lowest double, which
    stands for one that would be infinite: rounding up gives it that one's number.
    """
    numbers = magnitudes.view(np.int64) & _MAGNITUDE
    numbers += np.int64((1 << dropped) - 1)
    numbers >>= np.int64(dropped)
    return numbers
