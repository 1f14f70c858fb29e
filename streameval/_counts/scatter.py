"""Merging many runs of cells at once: a scatter into a table over the cells' numbers.

Cells of one resolution are numbered in order (the leading bits of a double's key
are such numbers), and scores that are measured with one model fill a narrow range
of them. So the sum of sixty runs needs no sort: all add their counts to a table.

Cost: O(S + W) for S scores in all and W numbers between the least and the
greatest; 5 ns a score. Where W is out of proportion `merge_runs` sorts instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.resolution import MAX_BITS
from streameval._counts.run import Run, merge_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.groups import FloatArray, IntArray
    from streameval._counts.resolution import Scale

_FEW = 3
"""Fewer runs than this are merged one into the other."""

_WIDE = 1 << 17
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
    scores = np.concatenate([run.scores for run in runs])
    places = _places(scores, MAX_BITS - bits, scale)
    if places is None:
        return merge_runs(runs)
    width = int(places.max()) + 1
    if all(run.counts is None for run in runs):
        sums = np.bincount(places, minlength=width)
    else:
        counts = [np.ones(len(run), np.int64) if run.counts is None else run.counts for run in runs]
        sums = np.zeros(width, dtype=np.int64)
        np.add.at(sums, places, np.concatenate(counts))
    # All that have one place are the same score.
    edges = np.empty(width)
    edges[places] = scores
    used = np.flatnonzero(sums)
    return Run.of_ordered(edges[used], sums[used])


def _places(scores: FloatArray, dropped: int, scale: Scale) -> IntArray | None:
    """Return each score's place in a table in which places ascend; None if it would be sparse.

    The table has two halves, which meet at 0 on the plain scale, and at 1/2 on
    the probability scale, where the upper one is numbered by the distance from 1.
    """
    if scale == "plain":
        is_upper = scores >= 0.0
        numbers = _numbers(scores, dropped)
    else:
        is_upper = scores >= 0.5
        numbers = _numbers(np.where(is_upper, 1.0 - scores, scores), dropped)
    numbers -= numbers.min()
    width = int(numbers.max()) + 1
    if 2 * width > max(_WIDE, _SPARSE * scores.size):
        return None
    if scale == "plain":
        return np.where(is_upper, width + numbers, width - 1 - numbers)
    return np.where(is_upper, 2 * width - 1 - numbers, numbers)


def _numbers(magnitudes: FloatArray, dropped: int) -> IntArray:
    """Return the cells' numbers: different for different edges of one side.

    Edges are multiples of 2**dropped as keys, except the lowest double, which
    stands for one that would be infinite: rounding up gives it that one's number.
    """
    numbers = magnitudes.view(np.int64) & _MAGNITUDE
    numbers += np.int64((1 << dropped) - 1)
    numbers >>= np.int64(dropped)
    return numbers
