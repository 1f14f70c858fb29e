"""The upper convex hull of the operating points, exactly, in O(G).

Slopes are compared as products of integers: in int64 while both totals are
below 2^31, in Python integers beyond. The vertices are minimal: no three lie on
a line. (0, 0) and (N, P) are always among them.

Only the end of a group that has positives can be a vertex: a step of negatives
alone has slope 0, and no later slope is smaller. The vertices are found among these
corners in three steps:

1. The hull of a sample excludes most corners: those on or under one of its chords. Of a long
   chain whole blocks of corners are excluded first, by the corner of their bounding box.
2. Vectorised passes drop every point on or under the segment between its two
   neighbours, all at once, as long as each pass drops at least an eighth. A vertex
   never lies on or under a segment between other points, so dropping neighbours
   together is safe. (Two equal points would delete each other, but corners differ in
   their true positives.)
3. Chains that shrink more slowly, and short ones, go to Andrew's scan (1979): a few
   tenths of a microsecond a point in plain Python, and O(n) for any input. The worst
   inputs, a million corners that are all vertices or that lose one a pass, take well
   under a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._counts.view import View

# Object arrays hold Python integers where int64 products would overflow.
_Exact = npt.NDArray[np.int64] | npt.NDArray[np.object_]

_Chords = tuple["IntArray", "IntArray", "IntArray", "IntArray"]
"""The start of each chord, and its extent, in x and y each."""

_MAX_INT64_TOTAL = 1 << 31  # below this total, every product of two differences fits int64
_MAX_SCAN_POINTS = 96  # up to this many points the plain scan is faster
_SAMPLE_STRIDE = 32  # the sample takes every 32nd corner
_MIN_FILTERED_POINTS = 1 << 17  # from here on whole blocks are excluded before their points
_MAX_POINTS_PER_DROP = 8  # a pass that drops fewer than 1 point in 8 is the last before the scan
# The relative error of float products of differences of counts below 2^62 is less than this.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class Vertices:
    """The hull's vertices from (0, 0) to (N, P), with the threshold of each."""

    thresholds: FloatArray
    fp: IntArray
    tp: IntArray


def hull_vertices(groups: Groups) -> Vertices:
    """Return the minimal vertices of the upper hull of the groups' curve.

    Parameters
    ----------
    groups : Groups
        With misses, so that the curve ends in (N, P): ``groups.with_misses()``.

    Returns
    -------
    Vertices
        From (0, 0) at +inf to (N, P). If the curve ends in negatives alone, the
        last threshold is -inf, which calls everything positive.

    Notes
    -----
    O(G): 3 ms for half a million groups, 0.3 s when the fallback scans a million.

    Examples
    --------
    >>> import numpy as np
    >>> from streameval._counts.groups import Groups
    >>> one = np.ones(2, dtype=np.int64)
    >>> groups = Groups(
    ...     scores=np.array([0.9, 0.4]), p=one, n=0 * one, tp=np.array([0, 1]),
    ...     fp=np.array([0, 1]), missed_positives=0, missed_negatives=0, P=2, N=3,
    ... )
    >>> hull = hull_vertices(groups)
    >>> hull.fp, hull.tp, hull.thresholds
    (array([0, 0, 1, 3]), array([0, 1, 2, 2]), array([ inf,  0.9,  0.4, -inf]))
    """
    P, N, G = groups.P, groups.N, groups.p.size
    x = np.zeros(G + 2, dtype=np.int64)
    y = np.zeros(G + 2, dtype=np.int64)
    np.add(groups.fp, groups.n, out=x[1:-1])
    np.add(groups.tp, groups.p, out=y[1:-1])
    x[-1], y[-1] = N, P
    if x[-2] == N and y[-2] == P:  # the last corner is (N, P) itself
        x, y = x[:-1], y[:-1]
    rows = upper_hull(x, y)
    thresholds = np.full(rows.size, np.inf)
    inner = (rows > 0) & (rows <= G)
    thresholds[inner] = groups.scores[rows[inner] - 1]
    if rows[-1] > G:
        thresholds[-1] = -np.inf
    return Vertices(thresholds=thresholds, fp=x[rows], tp=y[rows])


def cached_hull(view: View) -> Vertices:
    """Return the hull of an evaluator's curve, computed once a revision."""
    return view.cached("hull", lambda: hull_vertices(view.groups.with_misses()))


def upper_hull(x: IntArray, y: IntArray) -> IntArray:
    """Return the rows of the upper hull's vertices, first and last row included.

    Parameters
    ----------
    x, y : int64[n]
        A monotone chain: neither column ever decreases, and no two rows are equal.
        Values from 0 to 2^62. The vertices are those of the least concave curve that
        is nowhere below the chain, first and last row included.

    Returns
    -------
    int64[k]
        Ascending row numbers; of points on one line only the ends.
    """
    wide = x.size > 0 and max(int(x[-1]), int(y[-1])) >= _MAX_INT64_TOTAL
    return _hull_rows(x, y, wide=wide)


def _hull_rows(x: IntArray, y: IntArray, *, wide: bool) -> IntArray:
    if x.size <= _MAX_SCAN_POINTS:
        return _scan(x.tolist(), y.tolist())
    rows = _above_sample(x, y, wide=wide)
    while rows.size > _MAX_SCAN_POINTS:
        px, py = _exact(x[rows], wide=wide), _exact(y[rows], wide=wide)
        dx, dy = np.diff(px), np.diff(py)
        # A vertex: the slope before it is greater than the slope after it.
        convex = dy[:-1] * dx[1:] > dy[1:] * dx[:-1]
        dropped = convex.size - int(np.count_nonzero(convex))
        if dropped == 0:
            return rows
        rows = rows[np.concatenate(([True], convex, [True]))]
        if dropped * _MAX_POINTS_PER_DROP < convex.size:
            break
    return rows[_scan(x[rows].tolist(), y[rows].tolist())]


def _exact(column: IntArray, *, wide: bool) -> _Exact:
    return column.astype(object) if wide else column


def _scan(x: list[int], y: list[int]) -> IntArray:
    """Andrew's scan: keep a stack on which slopes fall. O(n) steps of Python."""
    stack: list[int] = []
    for row in range(len(x)):
        while len(stack) > 1:
            a, b = stack[-2], stack[-1]
            if (y[b] - y[a]) * (x[row] - x[b]) > (y[row] - y[b]) * (x[b] - x[a]):
                break
            stack.pop()
        stack.append(row)
    return np.array(stack, dtype=np.int64)


def _above_sample(x: IntArray, y: IntArray, *, wide: bool) -> IntArray:
    """Return the rows that may be vertices: the vertices of a sample's hull, and all above it."""
    blocks = (x.size - 1) // _SAMPLE_STRIDE
    sample = np.append(np.arange(blocks) * _SAMPLE_STRIDE, x.size - 1)
    corners = sample[_hull_rows(x[sample], y[sample], wide=wide)]
    # The chord above each block of rows; the last block also includes the remainder.
    chord = np.searchsorted(corners, sample[:-1], side="right") - 1
    ax, ay = x[corners[chord]], y[corners[chord]]
    dx, dy = x[corners[chord + 1]] - ax, y[corners[chord + 1]] - ay
    keep = np.zeros(x.size, dtype=bool)
    keep[corners] = True
    body = blocks * _SAMPLE_STRIDE
    in_blocks = (blocks, _SAMPLE_STRIDE)
    x_blocks, y_blocks = x[:body].reshape(in_blocks), y[:body].reshape(in_blocks)
    chords = ax[:, None], ay[:, None], dx[:, None], dy[:, None]
    kept = keep[:body].reshape(in_blocks)
    if x.size < _MIN_FILTERED_POINTS:
        _mark_above(x_blocks, y_blocks, chords, kept, wide=wide)
    else:
        # The chain is monotone, so a block is right of its first x and below its last y. Where
        # that corner is not above the chord, no point of the block is.
        may_be_above = np.zeros(blocks, dtype=bool)
        _mark_above(x_blocks[:, 0], y_blocks[:, -1], (ax, ay, dx, dy), may_be_above, wide=wide)
        some = np.flatnonzero(may_be_above)
        above = kept[some]
        _mark_above(x_blocks[some], y_blocks[some], _at(chords, some), above, wide=wide)
        kept[some] = above
    tail = slice(body, x.size)
    _mark_above(x[tail], y[tail], _at(chords, -1), keep[tail], wide=wide)
    return np.flatnonzero(keep)


def _at(chords: _Chords, blocks: IntArray | int) -> _Chords:
    """Return the chords of some blocks."""
    ax, ay, dx, dy = chords
    return ax[blocks], ay[blocks], dx[blocks], dy[blocks]


def _mark_above(
    x: IntArray,
    y: IntArray,
    chord: _Chords,
    keep: npt.NDArray[np.bool_],
    *,
    wide: bool,
) -> None:
    """Set `keep` for points above their chord (if wide, also for those within rounding)."""
    ax, ay, dx, dy = chord
    if wide:
        # Floats are accurate enough to exclude points that are clearly below.
        rise = (y - ay).astype(np.float64) * dx
        run = (x - ax).astype(np.float64) * dy
        keep |= rise >= run * (1 - _ROUNDING)
        return
    # y dx > x dy + (ay dx - ax dy); both sides are below 2^63.
    keep |= y * dx > x * dy + (ay * dx - ax * dy)
