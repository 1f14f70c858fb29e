"""Evaluators as bytes: one versioned, checksummed format, the same on every machine.

Layout, little-endian: a header; then for the positives and for the negatives a column of the
ascending distinct scores and the columns that go with it; then the table of clusters, if there
is one; last the CRC-32 of everything before it. Scores are floats, as float32 where that loses
nothing, or the numbers of cells as `steps`; other numbers take the fewest of 1, 2, 4 or 8
bytes. Columns that can be known without them are left out: multiplicities that are all 1,
weights where there are none. Equal states have equal bytes in each of the two forms.

Guarantee: truncated or altered bytes never give a wrong evaluator. CRC-32 detects
every change within four adjacent bytes, and the decoded counts are checked again.
Lengths are compared with the data before anything is allocated.
"""

from __future__ import annotations

from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.frame import Reader, raise_corrupt
from streameval._counts.cell_layout import cell_edges
from streameval._counts.cluster_counts import NO_CLUSTERS, ClusterCounts
from streameval._counts.cluster_keys import MAX_CLUSTER_GROUPS, MIN_CLUSTER_GROUPS
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.multiset import ScoreCounts
from streameval._counts.run import Run
from streameval._counts.state import LABELS, State
from streameval._counts.state_head import (
    CHECKSUM_BYTES,
    CLUSTERS,
    DESIGN,
    FRAME,
    HAS_CLUSTERS,
    HAS_DESIGN,
    HAS_RESOLUTION,
    HAS_WEIGHTS,
    IS_PROBABILITY,
    IS_WIDE,
    NARROW,
    STEPS,
    WIDE,
    WIDTHS,
    Head,
    Shape,
    read_head,
)
from streameval._counts.steps import StepRun, Steps, narrowed, numbers_of
from streameval._counts.weights import MAX_WEIGHT, MAX_WEIGHTED_CASES, WEIGHT_UNITS, columns_of

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray

_MAX_SUM_ERROR = 1e-9


def encode_evaluator(state: State, *, steps: bool = False) -> bytes:
    """Return the content of a state as bytes. O(n).

    Parameters
    ----------
    state : State
    steps : bool
        Write scores as steps where they are cells, which takes a third of the bytes. Otherwise
        they are floats, which any language can read and write.
    """
    packed = [_steps(state, label) if steps else None for label in LABELS]
    flags = _flags(state)
    shapes, columns = zip(*map(partial(_class_columns, state), LABELS, packed))
    fields = [
        state.max_cells or 0,
        state.missed_positives // state.unit,
        state.missed_negatives // state.unit,
    ]
    largest = [*fields, *(each for shape in shapes for each in shape[:2])]
    ends = [own.ends if own else () for own in packed]
    largest += [abs(each) for own in ends for each in own]
    if max(largest) >= 1 << 31:
        flags |= IS_WIDE
    header = WIDE if flags & IS_WIDE else NARROW
    parts = [header.pack(state.resolution or 0, *fields, *shapes[0], *shapes[1])]
    table = _cluster_parts(state.clusters)
    parts += table[:1]
    if state.min_label_probability is not None:
        parts.append(DESIGN.pack(state.min_label_probability))
    for own_ends, own_columns in zip(ends, columns):
        if own_ends:
            parts.append(StepRun.packed_ends(own_ends, is_wide=bool(flags & IS_WIDE)))
        parts += own_columns
    return FRAME.sealed(*parts, *table[1:], flags=flags)


def _flags(state: State) -> int:
    """Return which settings and columns a state has. O(1)."""
    has = {
        HAS_RESOLUTION: state.resolution is not None,
        IS_PROBABILITY: state.scale == "probability",
        HAS_WEIGHTS: state.counts.has_weights,
        HAS_CLUSTERS: state.clusters.num_groups > 0,
        HAS_DESIGN: state.min_label_probability is not None,
    }
    return sum(flag for flag, is_set in has.items() if is_set)


def _class_columns(state: State, label: bool, packed: Steps | None) -> tuple[Shape, list[bytes]]:
    """Return the shape of one class's columns, and the columns. O(n)."""
    run = state.run(label)
    if packed is None:
        score_width, scores = _packed_scores(run.scores)
    else:
        score_width, scores = STEPS + packed.width, packed.column
    numbers = _numbers(state, label)
    widths = [width for width, _ in numbers][:3]
    shape = Shape(len(run), state.counts.num_cases(label), score_width, *widths)
    return shape, [scores, *(column for _, column in numbers)]


def decode_evaluator(data: bytes | bytearray | memoryview) -> State:
    """Return the state that `encode_evaluator` wrote, at revision 0. O(n).

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    head = read_head(data)
    reader = Reader(memoryview(data).cast("B")[head.at : -CHECKSUM_BYTES], "evaluator")
    settings = head.settings
    has_weights = bool(head.flags & HAS_WEIGHTS)
    read = _weighted_run if has_weights else _run
    counts = ScoreCounts(*(read(reader, head, each) for each in head.shapes))
    if has_weights:
        for name in ("missed_positives", "missed_negatives"):
            if settings[name] >= MAX_WEIGHTED_CASES:
                raise_corrupt("the evaluator has counts out of range")
            settings[name] *= WEIGHT_UNITS
    clusters = _read_clusters(reader, head.clusters)
    state = State(counts, clusters=clusters, **settings)
    if not state.is_consistent():
        raise_corrupt("the evaluator's counts contradict each other, or its settings")
    return state


def _scores_of(column: memoryview, head: Head, shape: Shape) -> FloatArray:
    """Return a class's scores, unchecked. O(n)."""
    if not shape.size:
        return np.empty(0)
    # The caller refuses what is no number, or too large for one.
    with np.errstate(invalid="ignore", over="ignore"):
        if shape.scores < STEPS:
            return np.frombuffer(column, f"<f{shape.scores}").astype(np.float64)
        run = StepRun.of(
            column, shape.size, shape.total, shape.scores - STEPS, 0, is_wide=head.is_wide
        )
        return cell_edges(numbers_of([run]), head.bits, head.scale)


def _numbers_of(reader: Reader, width: int, size: int) -> IntArray | None:
    """Return the next column of whole numbers, unchecked; None if it is left out. O(1)."""
    return reader.column(f"<u{width}", size) if width else None


def read_columns(data: bytes, head: Head, label: bool) -> tuple[FloatArray, IntArray | None, int]:
    """Return the scores, the counts and the total of a class without weights, unchecked. O(n)."""
    at, shape = head.at, head.shapes[0]
    if not label:
        at, shape = at + shape.column_bytes(is_wide=head.is_wide), head.shapes[1]
    reader = Reader(memoryview(data)[at:], "evaluator")
    scores = _scores_of(reader.blob(shape.score_bytes(is_wide=head.is_wide)), head, shape)
    counts = _numbers_of(reader, shape.cases, shape.size)
    return scores, None if counts is None else counts.astype(np.int64), shape.total


def _steps(state: State, label: bool) -> Steps | None:
    """Return a class's scores as steps, None if they are no numbered cells. O(n)."""
    if state.resolution is None or state.resolution < 1:
        return None
    return Steps.of(state.run(label).scores, state.resolution, state.scale)


def _packed_scores(scores: FloatArray) -> tuple[int, bytes]:
    """Return the width and bytes of the narrowest floats that hold all scores exactly."""
    with np.errstate(over="ignore"):
        narrow = scores.astype("<f4")
    if np.array_equal(narrow, scores):
        return 4, narrow.tobytes()
    return 8, scores.astype("<f8", copy=False).tobytes()


def _numbers(state: State, label: bool) -> list[tuple[int, bytes]]:
    """Return the width and the bytes of each column after a class's scores. O(n)."""
    run = state.run(label)
    if run.sums is None:
        return [narrowed(run.counts), (0, b""), (0, b"")]
    units, cases, high, low = run.sums
    if (run.sums == columns_of(units, None)).all():
        return [(0, b""), narrowed(units), (0, b"")]
    return [narrowed(cases), narrowed(units), narrowed(high), (8, low.astype("<i8").tobytes())]


def _run(reader: Reader, head: Head, shape: Shape) -> Run:
    """Return the next class of a state without weights, or refuse it."""
    scores = _checked_scores(reader, head, shape)
    numbers = _numbers_of(reader, shape.cases, shape.size)
    if numbers is None:
        _check_total(shape, scores.size)
        return Run.of_totalled(scores, None, scores.size) if scores.size else Run.EMPTY
    counts = _checked_counts(numbers)
    _check_total(shape, int(counts.sum()))
    return Run.of_distinct(scores, counts)


def _weighted_run(reader: Reader, head: Head, shape: Shape) -> Run:
    """Return the next class of a state with weights, or refuse it."""
    scores = _checked_scores(reader, head, shape)
    numbers = _numbers_of(reader, shape.cases, shape.size)
    cases = np.ones(shape.size, dtype=np.int64) if numbers is None else _checked_counts(numbers)
    _check_total(shape, int(cases.sum()))
    units = _checked_counts(reader.column(f"<u{shape.units}", shape.size))
    if not shape.high:
        if (units > MAX_WEIGHT * WEIGHT_UNITS).any():
            raise_corrupt("the evaluator has weights out of range")
        return Run.of(scores, units=units)
    high = reader.column(f"<u{shape.high}", shape.size).astype(np.int64)
    low = reader.column("<i8", shape.size).astype(np.int64)
    run = Run.of_distinct(scores, np.stack((units, cases, high, low)))
    if (high < 0).any() or (low < 0).any() or (low >= 1 << 48).any() or not _are_possible(run):
        raise_corrupt("the evaluator's sums of weights contradict each other")
    return run


def _are_possible(run: Run) -> bool:
    """Return whether there are cases with these sums, up to the rounding of floats."""
    squares = run.squares() * (1 + _MAX_SUM_ERROR)
    cases, counts = run.cases, run.multiplicities()
    units = counts.astype(np.float64)
    return bool((cases <= counts).all() and (units * units <= cases * squares).all())


def _checked_scores(reader: Reader, head: Head, shape: Shape) -> FloatArray:
    column = reader.blob(shape.score_bytes(is_wide=head.is_wide))
    scores = _scores_of(column, head, shape)
    if not is_ascending(scores):
        raise_corrupt("the evaluator's scores are not finite and ascending")
    if shape.size and shape.scores > STEPS:
        own = Steps.of(scores, head.bits, head.scale)
        if (
            own is None
            or StepRun.packed_ends(own.ends, is_wide=head.is_wide) + own.column != column
        ):
            raise_corrupt("the evaluator's steps contradict their ends")
    return scores


def _checked_counts(column: IntArray) -> IntArray:
    """Return a stored column of numbers of at least 1, or refuse it."""
    # A float sum is accurate enough: int64 holds twice MAX_TOTAL.
    if column.size and (column.min() < 1 or column.sum(dtype=np.float64) >= MAX_TOTAL):
        raise_corrupt("the evaluator has counts out of range")
    return column.astype(np.int64)


def _check_total(shape: Shape, total: int) -> None:
    if total != shape.total:
        raise_corrupt(f"the evaluator announces {shape.total} cases of a class and has {total}")


def _cluster_parts(clusters: ClusterCounts) -> list[bytes]:
    """Return the header and the columns of a table of clusters; nothing without groups. O(n)."""
    if not clusters.num_groups:
        return []
    width, counts = narrowed(clusters.counts)
    return [
        CLUSTERS.pack(clusters.num_groups, clusters.counts.size, width),
        clusters.edges.astype("<f8", copy=False).tobytes(),
        clusters.codes.astype("<u2", copy=False).tobytes(),
        counts,
    ]


def _read_clusters(reader: Reader, header: tuple[int, int, int] | None) -> ClusterCounts:
    """Return the table of clusters, or refuse it."""
    if header is None:
        return NO_CLUSTERS
    num_groups, rows, width = header
    if width not in WIDTHS - {0} or not MIN_CLUSTER_GROUPS <= num_groups <= MAX_CLUSTER_GROUPS:
        raise_corrupt(f"the evaluator has {num_groups} groups of clusters, counts of {width} B")
    edges = reader.column("<f8", rows).astype(np.float64)
    codes = reader.column("<u2", rows).astype(np.uint16)
    counts = _checked_counts(reader.column(f"<u{width}", rows))
    return ClusterCounts(num_groups, edges, codes, counts)


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
