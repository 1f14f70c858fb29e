"""Evaluators as bytes: one versioned, checksummed format, the same on every machine.

Layout, little-endian: a header; then for the positives and for the negatives the
ascending distinct scores and, unless all are 1, their counts; last the CRC-32 of
everything before it. Scores are written as float32 where that loses nothing
(bounded states, models that score in float32), counts in the fewest of 1, 2, 4
or 8 bytes: equal states have equal bytes. `evaluator_codec` has the other formats.

Guarantee: truncated or altered bytes never give a wrong evaluator. CRC-32 detects
every change within four adjacent bytes, and the decoded counts are checked again.
Lengths are compared with the data before anything is allocated.
"""

from __future__ import annotations

import struct
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.frame import Frame, raise_corrupt
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.multiset import ScoreCounts
from streameval._counts.resolution import MAX_BITS, MIN_BITS
from streameval._counts.run import EMPTY_RUN, Run
from streameval._counts.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray

FRAME = Frame(b"SEVL", 1, "an evaluator", newest=3)  # 2: `cluster_codec`, 3: `weighted_codec`

# flags, resolution, max_cells (0: none), missed positives and negatives; then
# for each class its distinct scores, bytes a score, bytes a count.
HEADER = struct.Struct("<BbqqqqBBqBB")
"""What a body begins with."""
HAS_RESOLUTION = 1
IS_PROBABILITY = 2
"""Flags."""

_SCORE_TYPES = {width: np.dtype(f"<f{width}") for width in (4, 8)}
_COUNT_TYPES = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_MAX_SUMMED_BYTES = 4
"""Bytes of a count up to which as many as memory holds have a sum within int64."""


def encode_state(state: State) -> bytes:
    """Return the counts of a state without weights as bytes, clusters left out. O(n)."""
    shapes: list[int] = []
    columns: list[bytes] = []
    for run in (state.counts.positives, state.counts.negatives):
        score_width, scores = packed_scores(run.scores)
        count_width, counts = packed_counts(run.counts)
        shapes += [len(run), score_width, count_width]
        columns += [scores, counts]
    header = HEADER.pack(
        flags_of(state),
        state.resolution or 0,
        state.max_cells or 0,
        state.missed_positives,
        state.missed_negatives,
        *shapes,
    )
    return FRAME.sealed(header, *columns)


def decode_state(data: bytes | bytearray | memoryview) -> State:
    """Return the state that `encode_state` wrote, at revision 0. O(n).

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    body = FRAME.body(data, HEADER.size)
    flags, bits, max_cells, missed_p, missed_n, *shapes = HEADER.unpack_from(body)
    sizes, score_widths, count_widths = shapes[::3], shapes[1::3], shapes[2::3]
    length = HEADER.size
    for size, score_width, count_width in zip(sizes, score_widths, count_widths):
        length += size * (score_width + count_width)
    FRAME.check_length(body, length if min(sizes) >= 0 else -1)
    FRAME.check_checksum(data)
    check_settings(flags, bits, max_cells)
    if not {*score_widths} <= {4, 8} or not {*count_widths} <= {0, 1, 2, 4, 8}:
        raise_corrupt(
            f"the evaluator has columns of unknown widths {score_widths} and {count_widths}"
        )
    positives, negatives = (_unpacked(*each) for each in read_columns(body, shapes))
    state = State(
        counts=ScoreCounts(positives, negatives),
        missed_positives=missed_p,
        missed_negatives=missed_n,
        **settings_of(flags, bits, max_cells),
    )
    if not state.is_consistent():
        raise_corrupt("the evaluator's counts contradict its settings")
    return state


def read_columns(
    body: bytes | memoryview, shapes: Sequence[int]
) -> list[tuple[FloatArray, IntArray | None]]:
    """Return the scores of each class as they are, and the counts as they are stored. O(n).

    Parameters
    ----------
    body : bytes or memoryview
        From the header on; its length was checked.
    shapes : sequence of int
        The header's: for each class its distinct scores, bytes a score, bytes a count.
    """
    offset = HEADER.size
    columns: list[tuple[FloatArray, IntArray | None]] = []
    with np.errstate(invalid="ignore"):  # a signalling NaN, which the reader refuses
        for at in (0, 3):
            size, score_width, count_width = shapes[at : at + 3]
            stored = np.frombuffer(body, _SCORE_TYPES[score_width], size, offset)
            offset += size * score_width
            counts = None
            if count_width:
                counts = np.frombuffer(body, _COUNT_TYPES[count_width], size, offset)
                offset += size * count_width
            columns.append((stored.astype(np.float64), counts))
    return columns


def flags_of(state: State) -> int:
    """Return the header's flags."""
    flags = 0 if state.resolution is None else HAS_RESOLUTION
    return flags | IS_PROBABILITY if state.scale == "probability" else flags


def check_settings(flags: int, bits: int, max_cells: int) -> None:
    """Refuse settings that no writer of these formats produces, although the checksum matches."""
    if flags & ~(HAS_RESOLUTION | IS_PROBABILITY) or (bits and not flags & HAS_RESOLUTION):
        raise_corrupt(f"the evaluator has unknown flags {flags}")
    if not MIN_BITS <= bits <= MAX_BITS or not 0 <= max_cells < MAX_TOTAL:
        raise_corrupt(f"the evaluator has unknown settings {bits} and {max_cells}")


def settings_of(flags: int, bits: int, max_cells: int) -> dict[str, Any]:
    """Return a state's settings as arguments of `State`."""
    return {
        "resolution": bits if flags & HAS_RESOLUTION else None,
        "scale": "probability" if flags & IS_PROBABILITY else "plain",
        "max_cells": max_cells or None,
    }


def packed_scores(scores: FloatArray) -> tuple[int, bytes]:
    """Return the width and bytes of the narrowest floats that hold all scores exactly."""
    with np.errstate(over="ignore"):
        narrow = scores.astype("<f4")
    if np.array_equal(narrow, scores):
        return 4, narrow.tobytes()
    return 8, scores.astype("<f8", copy=False).tobytes()


def packed_counts(counts: IntArray | None) -> tuple[int, bytes]:
    """Return the width and bytes of the narrowest integers that hold all counts."""
    if counts is None:
        return 0, b""
    largest = int(counts.max(initial=0))
    width = next(w for w in (1, 2, 4, 8) if largest < 1 << (8 * w))
    return width, counts.astype(f"<u{width}").tobytes()


def _unpacked(scores: FloatArray, counts: IntArray | None) -> Run:
    """Return the run of decoded columns, or refuse them."""
    if not is_ascending(scores):
        raise_corrupt("the evaluator's scores are not finite and ascending")
    if counts is None:
        return Run.of_totalled(scores, None, scores.size) if scores.size else EMPTY_RUN
    if not counts.size or counts.min() < 1 or (largest := counts.max()) >= MAX_TOTAL:
        raise_corrupt("the evaluator has counts out of range")
    if counts.itemsize > _MAX_SUMMED_BYTES and counts.sum(dtype=np.float64) >= MAX_TOTAL:
        # A float sum is accurate enough: int64 holds twice MAX_TOTAL.
        raise_corrupt("the evaluator's counts together are out of range")
    total = int(counts.sum(dtype=np.int64))
    return Run.of_totalled(scores, None if largest == 1 else counts.astype(np.int64), total)


def is_ascending(scores: FloatArray) -> bool:
    """Return whether decoded scores are finite, distinct and ascending, without -0.0. O(n)."""
    if not scores.size:
        return True
    # Between finite ends ascending scores are finite: NaN is not above anything, nor below.
    first, last = float(scores[0]), float(scores[-1])
    if not (isfinite(first) and isfinite(last) and (scores[1:] > scores[:-1]).all()):
        return False
    if first > 0.0 or last < 0.0:
        return True
    zero = scores[np.searchsorted(scores, 0.0)]
    return bool(zero != 0.0 or not np.signbit(zero))
