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

from streameval._metrics.chains import Corners, PointColumns

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.groups import Groups
    from streameval._counts.view import View
    from streameval._metrics.chains import Chain

# Object arrays hold Python integers where int64 products would overflow.
_Exact = npt.NDArray[np.int64] | npt.NDArray[np.object_]

_Chords = tuple["IntArray", "IntArray", "IntArray", "IntArray"]
"""The start of each chord, and its extent, in x and y each."""

_MAX_INT64_TOTAL = 1 << 31  # below this total, every product of two differences fits int64
_MAX_SCAN_POINTS = 96  # up to this many points the plain scan is faster
_SAMPLE_STRIDE = 32  # the sample takes every 32nd corner
_MIN_FILTERED_POINTS = 1 << 17  # from here on whole blocks are excluded before their points
_BLOCK_PARTS = 4  # of a block that is left, the parts are excluded next
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
    G = groups.p.size
    corners = Corners(groups)
    rows = _hull_rows(corners, wide=max(groups.N, groups.P) >= _MAX_INT64_TOTAL)
    thresholds = np.full(rows.size, np.inf)
    inner = (rows > 0) & (rows <= G)
    thresholds[inner] = groups.scores[rows[inner] - 1]
    if rows[-1] > G:
        thresholds[-1] = -np.inf
    fp, tp = corners.at(rows)
    return Vertices(thresholds=thresholds, fp=fp, tp=tp)


def cached_hull(view: View) -> Vertices:
    """Return the hull of an evaluator's curve, computed once a revision."""
    return view.cached("hull", lambda: hull_vertices(view.groups.with_misses()))


def upper_hull(x: IntArray, y: IntArray) -> IntArray:
    """Return the rows of the upper hull's vertices, first and last row included.

    Parameters
    ----------
    x, y : int64[n]
        A monotone chain: neither column ever decreases, and no two rows are equal.
        Values from 0 to 2^62. The hull is the least concave curve that is nowhere below
        the chain; its vertices include the first and the last row.

    Returns
    -------
    int64[k]
        Ascending row numbers; of points on one line only the ends.
    """
    wide = x.size > 0 and max(int(x[-1]), int(y[-1])) >= _MAX_INT64_TOTAL
    return _hull_rows(PointColumns(x, y), wide=wide)


def _hull_rows(chain: Chain, *, wide: bool) -> IntArray:
    if chain.size <= _MAX_SCAN_POINTS:
        x, y = chain.columns()
        return _scan(x.tolist(), y.tolist())
    rows = _above_sample(chain, wide=wide)
    x, y = chain.at(rows)
    while rows.size > _MAX_SCAN_POINTS:
        px, py = _exact(x, wide=wide), _exact(y, wide=wide)
        dx, dy = np.diff(px), np.diff(py)
        # A vertex: the slope before it is greater than the slope after it.
        convex = dy[:-1] * dx[1:] > dy[1:] * dx[:-1]
        dropped = convex.size - int(np.count_nonzero(convex))
        if dropped == 0:
            return rows
        kept = np.concatenate(([True], convex, [True]))
        rows, x, y = rows[kept], x[kept], y[kept]
        if dropped * _MAX_POINTS_PER_DROP < convex.size:
            break
    return rows[_scan(x.tolist(), y.tolist())]


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


def _above_sample(chain: Chain, *, wide: bool) -> IntArray:
    """Return the rows that may be vertices: the vertices of a sample's hull, and all above it."""
    blocks = (chain.size - 1) // _SAMPLE_STRIDE
    sample = np.append(np.arange(blocks) * _SAMPLE_STRIDE, chain.size - 1)
    sampled = PointColumns(*chain.at(sample))
    vertices = _hull_rows(sampled, wide=wide)
    x, y = sampled.at(vertices)
    # The chord above each block of rows; the last block also includes the remainder.
    chord = np.repeat(np.arange(vertices.size - 1), np.diff(vertices))
    chords = x[chord], y[chord], np.diff(x)[chord], np.diff(y)[chord]
    body = blocks * _SAMPLE_STRIDE
    keep = np.zeros(chain.size, dtype=bool)
    if chain.size < _MIN_FILTERED_POINTS:
        x, y = (column[:body].reshape(-1, _SAMPLE_STRIDE) for column in chain.columns())
        keep[:body] = _are_above(x, y, _in_rows(chords), wide=wide).ravel()
    else:
        # The chain is monotone, so a block is right of its first x and below the y of the next.
        # Where that corner is not above the chord, no point of the block is.
        near = np.flatnonzero(_are_above(sampled.x[:-1], sampled.y[1:], chords, wide=wide))
        # The same for the parts of each block that is left, then for the points of these.
        width = max(_SAMPLE_STRIDE // _BLOCK_PARTS, 1)
        of_near = _at(chords, near)
        bounds, x, y = _read(chain, sample[near], np.arange(0, _SAMPLE_STRIDE + 1, width))
        near, part = np.nonzero(_are_above(x[:, :-1], y[:, 1:], _in_rows(of_near), wide=wide))
        of_near = _at(of_near, near)
        points, x, y = _read(chain, bounds[near, part], np.arange(width))
        keep[points] = _are_above(x, y, _in_rows(of_near), wide=wide)
    # The remainder, under the last chord.
    x, y = chain.at(np.arange(body, chain.size))
    keep[body:] = _are_above(x, y, _at(chords, -1), wide=wide)
    keep[sample[vertices]] = True
    return np.flatnonzero(keep)


def _read(chain: Chain, starts: IntArray, offsets: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the rows at these offsets from each start, and their x and y, in a row a start."""
    rows = starts[:, None] + offsets
    x, y = chain.at(rows.ravel())
    return rows, x.reshape(rows.shape), y.reshape(rows.shape)


def _at(chords: _Chords, blocks: IntArray | int) -> _Chords:
    """Return the chords of some blocks."""
    ax, ay, dx, dy = chords
    return ax[blocks], ay[blocks], dx[blocks], dy[blocks]


def _in_rows(chords: _Chords) -> _Chords:
    """Return chords that are each compared with a row of points."""
    ax, ay, dx, dy = chords
    return ax[:, None], ay[:, None], dx[:, None], dy[:, None]


def _are_above(x: IntArray, y: IntArray, chord: _Chords, *, wide: bool) -> BoolArray:
    """Return whether points are above their chord (if wide, true also within rounding)."""
    ax, ay, dx, dy = chord
    if wide:
        # Floats are accurate enough to exclude points that are clearly below.
        rise = (y - ay).astype(np.float64) * dx
        run = (x - ax).astype(np.float64) * dy
        near: BoolArray = rise >= run * (1 - _ROUNDING)
        return near
    # y dx > x dy + (ay dx - ax dy); both sides are below 2^63.
    above: BoolArray = y * dx > x * dy + (ay * dx - ax * dy)
    return above
