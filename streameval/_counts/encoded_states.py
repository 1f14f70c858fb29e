"""Which of many evaluators' bytes are valid, in a few passes of numpy over all of them.

The headers become columns of one table, so that no Python runs for a header's fields; then the
scores of all states are one column, and so are their counts. Only the checksum is computed
state by state.

Cost: some 1 us a state, and 30 ns a distinct score.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, cast

import numpy as np

from streameval._counts.codec import FRAME, HAS_RESOLUTION, IS_PROBABILITY
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.resolution import MAX_BITS, MIN_BITS, quantise

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.resolution import Scale

    ByteArray = npt.NDArray[np.uint8]

CHECKSUM_BYTES = 4

HEAD = np.dtype(
    [
        ("magic", "S4"),
        ("version", "<u2"),
        ("flags", "u1"),
        ("bits", "i1"),
        ("max_cells", "<i8"),
        ("missed_p", "<i8"),
        ("missed_n", "<i8"),
        ("num_p", "<i8"),
        ("score_p", "u1"),
        ("count_p", "u1"),
        ("num_n", "<i8"),
        ("score_n", "u1"),
        ("count_n", "u1"),
    ]
)
"""The frame's prefix and `codec.HEADER`."""

_MAX_MISSED = 1 << 60
"""With fewer misses and so few bytes, no total comes near the greatest that is allowed."""

_FLAGS = HAS_RESOLUTION | IS_PROBABILITY


def are_valid(states: Sequence[bytes]) -> BoolArray:
    """Return which bytes are surely an evaluator of format 1. O(their bytes).

    True where `decode_evaluator` accepts them. Where it is False they may be valid: of another
    format, with counts of more than two bytes or settings that are rare, or among others of which
    one has wrong scores or counts. Then only decoding tells.
    """
    sizes = np.fromiter(map(len, states), np.int64, len(states))
    starts = np.cumsum(sizes) - sizes
    can_have_head = sizes >= HEAD.itemsize + CHECKSUM_BYTES
    if not can_have_head.all():
        found = np.zeros(len(states), dtype=np.bool_)
        found[can_have_head] = are_valid([data for data in states if _has_head(data)])
        return found
    data = np.frombuffer(b"".join(states), np.uint8)
    heads = data[starts[:, None] + np.arange(HEAD.itemsize)].view(HEAD)[:, 0]
    found = _are_plain(heads, sizes) & _have_checksums(states, data, starts + sizes)
    columns = _Columns(data, heads[found], starts[found] + HEAD.itemsize)
    if not columns.are_valid():
        found[:] = False
    return found


def _has_head(data: bytes) -> bool:
    return len(data) >= HEAD.itemsize + CHECKSUM_BYTES


def _have_checksums(states: Sequence[bytes], data: ByteArray, ends: IntArray) -> BoolArray:
    """Return which states end with the CRC-32 of everything before it. O(bytes)."""
    last = np.arange(-CHECKSUM_BYTES, 0)
    stored = data[ends[:, None] + last].view("<u4")[:, 0]
    checksums = (zlib.crc32(memoryview(state)[:-CHECKSUM_BYTES]) for state in states)
    same: BoolArray = np.fromiter(checksums, np.uint32, len(states)) == stored
    return same


def _are_plain(heads: npt.NDArray[np.void], sizes: IntArray) -> BoolArray:
    """Return which headers are valid, of few misses and narrow counts. O(states)."""
    settings = (heads[name].astype(np.int64) for name in ("flags", "bits", "max_cells"))
    flags, bits, max_cells = settings
    plain: BoolArray = (heads["magic"] == FRAME.magic) & (heads["version"] == FRAME.version)
    length = np.full(sizes.size, HEAD.itemsize + CHECKSUM_BYTES)
    num_scores = np.zeros(sizes.size, dtype=np.int64)
    for label in "pn":
        num = heads[f"num_{label}"].astype(np.int64)
        score_width = heads[f"score_{label}"].astype(np.int64)
        count_width = heads[f"count_{label}"].astype(np.int64)
        missed = heads[f"missed_{label}"]
        plain &= (num >= 0) & (num <= sizes)
        plain &= (score_width == 4) | (score_width == 8)
        plain &= (count_width <= 2) & ((num > 0) | (count_width == 0))
        plain &= (missed >= 0) & (missed < _MAX_MISSED)
        num = np.where(plain, num, 0)
        num_scores += num
        length += num * (score_width + count_width)
    is_bounded = flags & HAS_RESOLUTION != 0
    plain &= length == sizes
    plain &= flags & ~_FLAGS == 0
    plain &= np.where(is_bounded, (bits >= MIN_BITS) & (bits <= MAX_BITS), bits == 0)
    plain &= np.where(
        max_cells != 0,
        (num_scores <= max_cells) & (max_cells < MAX_TOTAL),
        flags != IS_PROBABILITY,
    )
    return plain


class _Columns:
    """The columns of states whose headers are valid.

    Parameters
    ----------
    data
        The bytes of all states.
    heads
        Their headers.
    starts
        Where the columns of each begin.
    """

    def __init__(self, data: ByteArray, heads: npt.NDArray[np.void], starts: IntArray) -> None:
        self._data = data
        self._scores: list[FloatArray] = []
        self._sizes: list[IntArray] = []
        self._flags: list[IntArray] = []
        self._bits: list[IntArray] = []
        self._has_empty_counts = False
        flags, bits = heads["flags"].astype(np.int64), heads["bits"].astype(np.int64)
        at = starts
        for label in "pn":
            sizes = heads[f"num_{label}"].astype(np.int64)
            score_width = heads[f"score_{label}"].astype(np.int64)
            count_width = heads[f"count_{label}"].astype(np.int64)
            for width in (4, 8):
                mine = (score_width == width) & (sizes > 0)
                self._sizes.append(sizes[mine])
                self._flags.append(flags[mine])
                self._bits.append(bits[mine])
                with np.errstate(invalid="ignore"):  # a signalling NaN
                    scores = self._column(at[mine], sizes[mine], f"<f{width}").astype(np.float64)
                self._scores.append(scores)
            at = at + sizes * score_width
            for width in (1, 2):
                mine = count_width == width
                counts = self._column(at[mine], sizes[mine], f"<u{width}")
                self._has_empty_counts |= not counts.all()
            at = at + sizes * count_width

    def _column(self, starts: IntArray, sizes: IntArray, kind: str) -> npt.NDArray[np.generic]:
        """Return the values of a column of each of some states, one after the other. O(n)."""
        nbytes = sizes * np.dtype(kind).itemsize
        ends = np.cumsum(nbytes)
        places = np.arange(int(nbytes.sum())) + np.repeat(starts - (ends - nbytes), nbytes)
        column: npt.NDArray[np.generic] = self._data[places].view(kind)
        return column

    def are_valid(self) -> bool:
        """Return whether all scores ascend and are their own cells, and no count is 0. O(n)."""
        if self._has_empty_counts:
            return False
        scores, sizes = np.concatenate(self._scores), np.concatenate(self._sizes)
        if not scores.size:
            return True
        if not np.isfinite(scores).all() or np.signbit(scores[scores == 0.0]).any():
            return False
        ascends = scores[1:] > scores[:-1]
        ascends[np.cumsum(sizes)[:-1] - 1] = True
        return bool(ascends.all()) and self._are_edges(scores, sizes)

    def _are_edges(self, scores: FloatArray, sizes: IntArray) -> bool:
        """Return whether all scores are of their scale, and their own cells' lower edges. O(n)."""
        flags = np.repeat(np.concatenate(self._flags), sizes)
        bits = np.repeat(np.concatenate(self._bits), sizes)
        is_probability = flags & IS_PROBABILITY != 0
        probabilities = scores[is_probability]
        if probabilities.size and not (probabilities.min() >= 0.0 and probabilities.max() <= 1.0):
            return False
        is_bounded = flags & HAS_RESOLUTION != 0
        for each in np.unique(bits[is_bounded]).tolist():
            for scale, mine in (("plain", ~is_probability), ("probability", is_probability)):
                own = scores[is_bounded & mine & (bits == each)]
                if not np.array_equal(quantise(own, each, cast("Scale", scale)), own):
                    return False
        return True
