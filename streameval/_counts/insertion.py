"""Insert a few values into a long column in one pass.

A small change inserts them into a sorted column of scores, and shifts the ranks of the scores
after each insertion by a step.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray

_MIN_PIECE_ROWS = 1_500
"""Pieces of a column are copied one by one if they are longer than this on average: a step of
the loop takes as long as that saves."""

Column = TypeVar("Column", "FloatArray", "IntArray")


def inserted(column: Column, at: IntArray, values: Column) -> Column:
    """Return a copy with values inserted before rows, as `np.insert` of ascending rows. O(n + d).

    Examples
    --------
    >>> inserted(np.array([1, 4]), np.array([1, 1, 2]), np.array([2, 3, 5]))
    array([1, 2, 3, 4, 5])
    """
    if column.size < _MIN_PIECE_ROWS * at.size:
        return np.insert(column, at, values)
    after = np.empty(column.size + at.size, dtype=column.dtype)
    edges = [0, *at.tolist(), column.size]
    for moved, (start, stop) in enumerate(pairwise(edges)):
        after[start + moved : stop + moved] = column[start:stop]
    after[at + np.arange(at.size)] = values
    return after


def stepped(
    column: IntArray, starts: IntArray, steps: IntArray, at: IntArray, values: IntArray
) -> IntArray:
    """Return `inserted` of a column in which the rows from each start on are higher by a step.

    Parameters
    ----------
    column : int64[n]
    starts, steps : int64[m]
        Rows, ascending, from 0 to n. Where rows have several steps, they add up.
    at, values : int64[d]
        As of `inserted`; the values have no steps.

    Examples
    --------
    >>> column, none = np.array([1, 2, 3]), np.array([], dtype=np.int64)
    >>> stepped(column, np.array([1, 2]), np.array([10, 100]), none, none)
    array([  1,  12, 113])
    >>> stepped(column, np.array([1]), np.array([10]), np.array([1]), np.array([5]))
    array([ 1,  5, 12, 13])
    """
    if not starts.size:
        return inserted(column, at, values)
    totals = np.append(0, np.cumsum(steps))
    if column.size < _MIN_PIECE_ROWS * (starts.size + at.size):
        higher = np.repeat(totals, np.diff(starts, prepend=0, append=column.size))
        higher += column
        return inserted(higher, at, values)
    after = np.empty(column.size + at.size, dtype=np.int64)
    edges = np.sort(np.concatenate(([0], starts, at, [column.size])))
    by = totals[np.searchsorted(starts, edges, side="right")].tolist()
    moved = np.searchsorted(at, edges, side="right").tolist()
    for (start, stop), step, down in zip(pairwise(edges.tolist()), by, moved):
        np.add(column[start:stop], step, out=after[start + down : stop + down])
    after[at + np.arange(at.size)] = values
    return after
