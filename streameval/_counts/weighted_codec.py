"""States of weighted cases as bytes: format 3 of an evaluator.

Layout, little-endian: a header as in format 1; then for the positives and for the
negatives the ascending distinct scores, their cases unless each has one, the sums of their
units of 2**-16, and the sums of squared units unless each score has one case, whose square
is known. Last the CRC-32. Equal states have equal bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.frame import Frame, raise_corrupt
from streameval._counts.codec import (
    FRAME as UNWEIGHTED_FRAME,
)
from streameval._counts.codec import (
    check_settings,
    flags_of,
    is_ascending,
    packed_counts,
    packed_scores,
    settings_of,
)
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.multiset import ScoreCounts
from streameval._counts.state import LABELS, State
from streameval._counts.weights import (
    MAX_WEIGHT,
    MAX_WEIGHTED_CASES,
    WEIGHT_UNITS,
    WeightedCounts,
    WeightedRun,
)

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._common.frame import Reader

FRAME = Frame(UNWEIGHTED_FRAME.magic, 3, UNWEIGHTED_FRAME.name)
# flags, resolution, max_cells (0: none), missed positives and negatives.
_HEADER = struct.Struct("<Bbqqq")
# distinct scores, bytes a score, a number of cases (0: all 1), a sum, the high part of a square.
_SHAPE = struct.Struct("<qBBBB")
_MAX_SUM_ERROR = 1e-9


def encode_weighted(state: State, weighted: WeightedCounts) -> bytes:
    """Return the content of a state with weights as bytes. O(n)."""
    header = _HEADER.pack(
        flags_of(state),
        state.resolution or 0,
        state.max_cells or 0,
        state.missed_positives // state.unit,
        state.missed_negatives // state.unit,
    )
    parts = [header]
    for run in (weighted.positives, weighted.negatives):
        parts += _packed(run)
    return FRAME.sealed(*parts)


def decode_weighted(data: bytes | bytearray | memoryview) -> State:
    """Return the state that `encode_weighted` wrote, at revision 0. O(n).

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    reader = FRAME.reader(data)
    flags, bits, max_cells, missed_positives, missed_negatives = reader.fields(_HEADER)
    check_settings(flags, bits, max_cells)
    weighted = WeightedCounts(*(_unpacked(reader) for _ in LABELS))
    reader.end()
    if not 0 <= missed_positives < MAX_WEIGHTED_CASES > missed_negatives >= 0:
        raise_corrupt("the evaluator has counts out of range")
    state = State(
        counts=ScoreCounts(weighted.positives.unit_run(), weighted.negatives.unit_run()),
        missed_positives=missed_positives * WEIGHT_UNITS,
        missed_negatives=missed_negatives * WEIGHT_UNITS,
        weighted=weighted,
        **settings_of(flags, bits, max_cells),
    )
    if not state.is_consistent():
        raise_corrupt("the evaluator's counts contradict its settings")
    return state


def _packed(run: WeightedRun) -> list[bytes]:
    """Return the shape and the columns of one class."""
    lone = bool((run.cases == 1).all())
    score_width, scores = packed_scores(run.scores)
    cases_width, cases = packed_counts(None if lone else run.cases)
    units_width, units = packed_counts(run.units)
    high_width, high = packed_counts(None if lone else run.high)
    low = b"" if lone else run.low.astype("<i8").tobytes()
    shape = _SHAPE.pack(len(run), score_width, cases_width, units_width, high_width)
    return [shape, scores, cases, units, high, low]


def _unpacked(reader: Reader) -> WeightedRun:
    """Return the next class, or refuse it."""
    size, score_width, cases_width, units_width, high_width = reader.fields(_SHAPE)
    is_lone = not cases_width
    known = {0, 1, 2, 4, 8}
    if score_width not in {4, 8} or units_width not in known - {0}:
        raise_corrupt(f"the evaluator has columns of unknown widths {score_width}, {units_width}")
    if {cases_width, high_width} - known or is_lone == bool(high_width):
        raise_corrupt(f"the evaluator has columns of unknown widths {cases_width}, {high_width}")
    with np.errstate(invalid="ignore"):  # a signalling NaN, which is refused below
        scores = reader.column(f"<f{score_width}", size).astype(np.float64)
    if not is_ascending(scores):
        raise_corrupt("the evaluator's scores are not finite and ascending")
    cases = np.ones(size, dtype=np.int64) if is_lone else _counts(reader, cases_width, size)
    units = _counts(reader, units_width, size)
    if not is_lone:
        return _with_squares(reader, scores, cases, units, high_width)
    if (units > MAX_WEIGHT * WEIGHT_UNITS).any():
        raise_corrupt("the evaluator has weights out of range")
    return WeightedRun.of(scores, units)


def _counts(reader: Reader, width: int, size: int) -> IntArray:
    """Return the next column of numbers of at least 1, or refuse it."""
    column: IntArray = reader.column(f"<u{width}", size).astype(np.int64)
    # A float sum is accurate enough: int64 holds twice MAX_TOTAL.
    if (column < 1).any() or column.sum(dtype=np.float64) >= MAX_TOTAL:
        raise_corrupt("the evaluator has counts out of range")
    return column


def _with_squares(
    reader: Reader, scores: FloatArray, cases: IntArray, units: IntArray, high_width: int
) -> WeightedRun:
    """Return a class with the sums of squares that come next, or refuse these."""
    high = reader.column(f"<u{high_width}", scores.size).astype(np.int64)
    low = reader.column("<i8", scores.size).astype(np.int64)
    for column in (scores, cases, units, high, low):
        column.flags.writeable = False
    run = WeightedRun(scores, cases, units, high, low)
    if (high < 0).any() or (low < 0).any() or (low >= 1 << 48).any() or not _are_possible(run):
        raise_corrupt("the evaluator's sums of weights contradict each other")
    return run


def _are_possible(run: WeightedRun) -> bool:
    """Return whether there are cases with these sums, up to the rounding of floats."""
    squares = run.squares() * (1 + _MAX_SUM_ERROR)
    units = run.units.astype(np.float64)
    return bool((run.cases <= run.units).all() and (units * units <= run.cases * squares).all())
