"""Whether many states' bytes are valid, in a few passes of numpy over all of them.

To decode one small state takes some 60 calls of numpy, 0.1 ms, and a server that starts reads a
hundred thousand of them. So the headers become one table, and the columns of one width become
one column. Only the checksum is computed state by state.

Cost: some 3 us a state, and 30 ns a distinct score.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streameval._counts.cell_layout import cell_edges, cell_keys
from streameval._counts.resolution import MAX_BITS, Scale
from streameval._counts.state_head import CHECKSUM_BYTES, HAS_RESOLUTION, IS_PROBABILITY, STEPS
from streameval._counts.steps import ENDS_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray

    ByteArray = npt.NDArray[np.uint8]

_CLASS = [
    ("size", "<i4"),
    ("total", "<i4"),
    ("scores", "u1"),
    ("cases", "u1"),
    ("units", "u1"),
    ("high", "u1"),
]
_HEAD = np.dtype(
    [
        ("prefix", "S6"),
        ("flags", "u1"),
        ("bits", "i1"),
        ("max_cells", "<i4"),
        ("missed", "<i4", 2),
        ("classes", _CLASS, 2),
    ]
)
"""The frame's prefix and a narrow header."""

_WIDTHS = (1, 2, 4, 8)
_SCALES: tuple[Scale, Scale] = ("plain", "probability")
_MIN_BYTES = _HEAD.itemsize + CHECKSUM_BYTES


class _Columns(NamedTuple):
    """Columns of many classes, in the bytes of all states: where each begins, and its rows."""

    data: ByteArray
    starts: IntArray
    sizes: IntArray

    def values(self, kind: str) -> npt.NDArray[Any]:
        """Return all values, one column after the other. O(n)."""
        nbytes = self.sizes * np.dtype(kind).itemsize
        shifts = self.starts - (np.cumsum(nbytes) - nbytes)
        places = np.arange(int(nbytes.sum())) + np.repeat(shifts, nbytes)
        found: npt.NDArray[Any] = self.data[places].view(kind)
        return found


def are_valid(states: Sequence[bytes]) -> bool:
    """Return whether all these are surely states, without weights or clusters. O(their bytes).

    All begin as `begins_plainly` wants. If the answer is no, one may be none, or have settings or
    numbers that are rare: then decoding tells.
    """
    sizes = np.fromiter(map(len, states), np.int64, len(states))
    if not states or sizes.min() < _MIN_BYTES:
        return not states
    data = np.frombuffer(b"".join(states), np.uint8)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    heads = data[starts[:, None] + np.arange(_HEAD.itemsize)].view(_HEAD)[:, 0]
    classes = _Classes.of(data, heads, starts)
    return (
        np.array_equal(classes.ends(), ends - CHECKSUM_BYTES)
        and _have_checksums(states, data, ends)
        and _have_valid_settings(heads)
        and classes.are_valid()
    )


def _have_checksums(states: Sequence[bytes], data: ByteArray, ends: IntArray) -> bool:
    """Return whether all states end with the CRC-32 of everything before it. O(bytes)."""
    stored = data[ends[:, None] + np.arange(-CHECKSUM_BYTES, 0)].view("<u4")[:, 0]
    checksums = (zlib.crc32(memoryview(each)[:-CHECKSUM_BYTES]) for each in states)
    return np.array_equal(np.fromiter(checksums, np.uint32, len(states)), stored)


def _have_valid_settings(heads: npt.NDArray[np.void]) -> bool:
    """Return whether settings and misses are in their ranges, and caps hold. O(states)."""
    settings = (heads[name].astype(np.int64) for name in ("flags", "bits", "max_cells"))
    flags, bits, max_cells = settings
    is_bounded = flags & HAS_RESOLUTION != 0
    size = heads["classes"]["size"].astype(np.int64)
    return bool(
        (heads["prefix"] == heads["prefix"][0]).all()
        and (flags & ~(HAS_RESOLUTION | IS_PROBABILITY) == 0).all()
        and np.where(is_bounded, (bits >= 1) & (bits <= MAX_BITS), (bits == 0) & (flags == 0)).all()
        and ((max_cells == 0) | (size.sum(axis=1) <= max_cells)).all()
        and (heads["missed"] >= 0).all()
    )


class _Classes(NamedTuple):
    """Both classes of each state, positives first: what the headers say, as arrays.

    Attributes
    ----------
    data : uint8[bytes]
        The bytes of all states.
    at : int64[2 states]
        Where the columns of a class begin.
    size, total, width, cases : int64[2 states]
        Distinct scores, cases, and the bytes of a score or step and of a number of cases.
    are_steps, has_others : bool[2 states]
        Whether scores are steps, and whether there are columns of weights.
    kind : int64[2 states]
        Twice the resolution, plus 1 on the probability scale; 0 of exact scores.
    """

    data: ByteArray
    at: IntArray
    size: IntArray
    total: IntArray
    width: IntArray
    cases: IntArray
    are_steps: BoolArray
    has_others: BoolArray
    kind: IntArray

    @classmethod
    def of(cls, data: ByteArray, heads: npt.NDArray[np.void], starts: IntArray) -> _Classes:
        """Return the classes of states that begin there. O(states)."""
        found = heads["classes"].reshape(-1)
        names = ("size", "total", "scores", "cases")
        size, total, scores, cases = (found[name].astype(np.int64) for name in names)
        kind = 2 * heads["bits"].astype(np.int64) + (heads["flags"] & IS_PROBABILITY != 0)
        are_steps = scores > STEPS
        classes = cls(
            data,
            np.repeat(starts + _HEAD.itemsize, 2),
            size,
            total,
            np.where(are_steps, scores - STEPS, scores),
            cases,
            are_steps,
            (found["units"] | found["high"]) != 0,
            np.repeat(kind, 2),
        )
        classes.at[1::2] += (classes.score_bytes() + size * cases)[::2]
        return classes

    def score_bytes(self) -> IntArray:
        """Return the bytes of each class's scores. O(states)."""
        ends = np.where(self.are_steps & (self.size > 0), ENDS_BYTES - self.width, 0)
        found: IntArray = self.size * self.width + ends
        return found

    def ends(self) -> IntArray:
        """Return where the columns of each state end. O(states)."""
        return (self.at + self.score_bytes() + self.size * self.cases)[1::2]

    def are_valid(self) -> bool:
        """Return whether all columns are as a state has them. O(n)."""
        is_empty = self.size == 0
        if (
            self.has_others.any()
            or (self.size < 0).any()
            or (is_empty & ((self.total != 0) | (self.cases != 0))).any()
            or ((self.cases == 0) & (self.total != self.size)).any()
            or (self.are_steps != (self.kind > 0)).any()
            or not (np.isin(self.width, _WIDTHS).all() and np.isin(self.cases, (0, *_WIDTHS)).all())
        ):
            return False
        return all(self._have_counts(each) and self._have_scores(each) for each in _WIDTHS)

    def _have_counts(self, width: int) -> bool:
        """Return whether the counts of one width have their totals. O(n)."""
        own = self.cases == width
        if not own.any():
            return True
        at = (self.at + self.score_bytes())[own]
        counts = _Columns(self.data, at, self.size[own]).values(f"<u{width}")
        return _are_counts(counts, self.size[own], self.total[own])

    def _have_scores(self, width: int) -> bool:
        """Return whether the scores of one width ascend and are what their settings say. O(n)."""
        own = (self.width == width) & (self.size > 0)
        floats, steps = own & ~self.are_steps, own & self.are_steps
        columns = _Columns(self.data, self.at[floats], self.size[floats])
        if floats.any() and not (width >= 4 and _are_scores(columns.values(f"<f{width}"), columns)):
            return False
        if not steps.any():
            return True
        numbers = _numbers(_Columns(self.data, self.at[steps], self.size[steps]), width)
        if numbers is None:
            return False
        kinds = np.repeat(self.kind[steps], self.size[steps])
        return all(_are_cells(numbers[kinds == each], each) for each in np.unique(kinds).tolist())


def _are_counts(counts: npt.NDArray[Any], sizes: IntArray, totals: IntArray) -> bool:
    """Return whether counts are at least 1 and have these totals. O(n)."""
    starts = np.cumsum(sizes) - sizes
    # A total of 4 bytes, and each count at most that: no sum exceeds int64.
    if counts.min() < 1 or counts.max() > totals.max():
        return False
    return np.array_equal(np.add.reduceat(counts.astype(np.int64), starts), totals)


def _are_scores(floats: npt.NDArray[Any], columns: _Columns) -> bool:
    """Return whether floats of each class ascend, are finite, and none is -0.0. O(n)."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        scores: FloatArray = floats.astype(np.float64)
    rises = scores[1:] > scores[:-1]
    rises[np.cumsum(columns.sizes)[:-1] - 1] = True
    is_finite = np.isfinite(scores).all() and rises.all()
    return bool(is_finite and not np.signbit(scores[scores == 0.0]).any())


def _numbers(columns: _Columns, width: int) -> IntArray | None:
    """Return the ascending numbers of steps of one width; None if their ends are others. O(n)."""
    data, at, sizes = columns
    ends = data[at[:, None] + np.arange(ENDS_BYTES)].view("<i4").astype(np.int64)
    first, last, before, after, jump_at = ends.T
    starts = np.cumsum(sizes) - sizes
    is_start: BoolArray = np.zeros(int(sizes.sum()), dtype=np.bool_)
    is_start[starts] = True
    moves = np.zeros(is_start.size, dtype=np.int64)
    moves[~is_start] = _Columns(data, at + ENDS_BYTES, sizes - 1).values(f"<u{width}")
    has_jump = sizes > 1
    if (
        ends[~has_jump, 2:].any()
        or not (jump_at >= 0).all()
        or (jump_at > sizes - 2)[has_jump].any()
    ):
        return None
    jumps = (starts + jump_at + 1)[has_jump]
    if moves[jumps].any():
        return None
    moves[jumps] = (after - before)[has_jump]
    numbers = np.cumsum(moves)
    numbers += np.repeat(first - numbers[starts], sizes)
    agrees = (
        np.array_equal(numbers[starts + sizes - 1], last)
        and np.array_equal(numbers[jumps], after[has_jump])
        and (moves[~is_start] >= 1).all()
    )
    return numbers if agrees else None


def _are_cells(numbers: IntArray, kind: int) -> bool:
    """Return whether numbers are of cells of a resolution and scale. O(n)."""
    bits, scale = kind >> 1, _SCALES[kind & 1]
    with np.errstate(invalid="ignore", over="ignore"):
        edges = cell_edges(numbers, bits, scale)
        again = cell_keys(edges, scale) >> np.int64(MAX_BITS - bits)
    return bool(np.isfinite(edges).all()) and np.array_equal(again, numbers)
