"""The rows of a decoded and checked batch or merge: the input of the engine.

An event time is one for all rows, one for each row, or None for the time at which
the server received the batch. Segments keep the codes of the batch; the stream
translates them to its own codes when it applies the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from streameval.kernel import WEIGHT_UNITS, ClusterCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from streameval.kernel import State
    from streameval.wire import SegmentCodes
    from streameval_server._model.arrays import ClusterChecksums, EventTimes, IntArray


@dataclass(slots=True, eq=False)
class CaseRows:
    """Scored references.

    Attributes
    ----------
    labels : bool[n]
    scores : float64[n]
        Finite.
    counts : int64[n] or None
        Identical cases that each row stands for; None where each is 1.
    size : int
        Rows.
    total : int
        References: the sum of the counts, at least 1.
    event_us : int, int64[n] or None
    segments : tuple of SegmentCodes
    units : int64[n] or None
        The weight of each case in units of 2**-16, divided by its label probability; 0 drops
        the row. None where each weight is 1.
    clusters : uint32[n] or None
        The checksum of each row's cluster key; set exactly where the stream declares clusters.
    """

    KIND: ClassVar = "cases"

    labels: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64] | None
    size: int
    total: int
    event_us: EventTimes = None
    segments: tuple[SegmentCodes, ...] = ()
    units: npt.NDArray[np.int64] | None = None
    clusters: ClusterChecksums | None = None


@dataclass(slots=True, eq=False)
class PredictionRows:
    """Scores by id.

    Attributes
    ----------
    ids : list of bytes
    scores : float64[n]
    size, total : int
        Rows; each may become a reference.
    event_us, segments, clusters
        As in `CaseRows`.
    source_us : int or None
        The time of their source's log, by which ids expire; None for the server's time.
    """

    KIND: ClassVar = "predictions"

    ids: list[bytes]
    scores: npt.NDArray[np.float64]
    size: int
    total: int
    event_us: EventTimes = None
    segments: tuple[SegmentCodes, ...] = ()
    clusters: ClusterChecksums | None = None
    source_us: int | None = None


@dataclass(slots=True, eq=False)
class LabelRows:
    """The truth by id.

    Attributes
    ----------
    ids : list of bytes
    labels : bool[n]
    size, total : int
        Rows; each may become a reference.
    event_us : int, int64[n] or None
        Event time of the predictions, if the producer sent it.
    scores : float64[n] or None
        Scores of the predictions, if the producer sent them.
    units : int64[n] or None
        As in `CaseRows`.
    at_us : int, int64[n] or None
        When each became known; None for the time at which the server received the batch.
    source_us : int or None
        As in `PredictionRows`.
    """

    KIND: ClassVar = "labels"

    ids: list[bytes]
    labels: npt.NDArray[np.bool_]
    size: int
    total: int
    event_us: EventTimes = None
    scores: npt.NDArray[np.float64] | None = None
    units: npt.NDArray[np.int64] | None = None
    at_us: EventTimes = None
    source_us: int | None = None


@dataclass(slots=True, eq=False)
class RetractionRows:
    """Ids that should no longer count.

    Attributes
    ----------
    ids : list of bytes
    size : int
    total : int
        0: nothing is added.
    """

    KIND: ClassVar = "retractions"

    ids: list[bytes]
    size: int
    total: int = 0


@dataclass(slots=True)
class MissRows:
    """References that were never scored.

    Attributes
    ----------
    positives, negatives : int
    size : int
        1: the cost of one row.
    total : int
        Their sum, at least 1.
    event_us : int or None
    segments : tuple of (key, value)
    """

    KIND: ClassVar = "misses"

    positives: int
    negatives: int
    size: int
    total: int
    event_us: int | None = None
    segments: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class MergedState:
    """Counts of one pane of some slices, aggregated outside the server.

    Attributes
    ----------
    event_us : int
        A time in the pane; 0 counts in the all-time counts only.
    segments : tuple of (key, value)
    state : State
        The counts.
    """

    event_us: int
    segments: tuple[tuple[str, str], ...]
    state: State


@dataclass(slots=True)
class MergeRows:
    """States that were aggregated outside the server.

    Attributes
    ----------
    source : str
    epoch : int
    states : list of MergedState
    size : int
        The cost of applying it, in rows.
    total : int
        References.
    units : int or None
        What they weigh together, in units; None where each weighs 1.
    memory_bytes : int
        Memory, an upper bound.
    """

    KIND: ClassVar = "merge"

    source: str
    epoch: int
    states: list[MergedState]
    size: int
    total: int
    # Each merge is asked for both three times on its way.
    units: int | None = field(init=False)
    memory_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        states = [each.state for each in self.states]
        self.units = _units_of_states(states)
        self.memory_bytes = _ROWS_BYTES + sum(map(_memory_of_state, states))


Rows = CaseRows | PredictionRows | LabelRows | RetractionRows | MissRows | MergeRows
BY_ID = (PredictionRows, LabelRows, RetractionRows)
"""The rows that are joined by id."""


def event_column(event_us: EventTimes, size: int, received_us: int) -> IntArray:
    """Return the event time of each of `size` rows; by default they happened on arrival."""
    if event_us is None or isinstance(event_us, int):
        column = np.empty(size, dtype=np.int64)
        column.fill(received_us if event_us is None else event_us)
        return column
    return event_us


def is_by_id(rows: Rows | None) -> bool:
    """Return whether rows are joined by id: predictions, labels, retractions. O(1)."""
    return isinstance(rows, BY_ID)


def is_plain(rows: Rows | None) -> bool:
    """Return whether rows have neither weights nor clusters. O(1)."""
    if isinstance(rows, CaseRows):
        return rows.units is None and rows.clusters is None
    if isinstance(rows, PredictionRows):
        return rows.clusters is None
    return not isinstance(rows, LabelRows) or rows.units is None


BATCH_KINDS = tuple(
    rows.KIND for rows in (CaseRows, PredictionRows, LabelRows, RetractionRows, MissRows)
)
"""The kinds of rows that a batch may have."""


def weighed_after(weighed: int | None, total: int, rows: Rows) -> int | None:
    """Return what references weigh together after rows, in units of 2**-16.

    None while each weighs 1. O(rows).

    Parameters
    ----------
    weighed, total
        What there was before: the weight, None for 1 each, and the number of references.
    """
    units = _units_of(rows)
    if units is None:
        return None if weighed is None else weighed + rows.total * WEIGHT_UNITS
    return units + (total * WEIGHT_UNITS if weighed is None else weighed)


def _units_of(rows: Rows) -> int | None:
    """Return what rows weigh together in units; None where each weighs 1."""
    if isinstance(rows, CaseRows | LabelRows) and rows.units is not None:
        counts = rows.counts if isinstance(rows, CaseRows) else None
        return int((rows.units if counts is None else rows.units * counts).sum())
    return rows.units if isinstance(rows, MergeRows) else None


def _units_of_states(states: Sequence[State]) -> int | None:
    """Return what merged states weigh together in units; None where each case weighs 1."""
    if all(state.weighted is None for state in states):
        return None
    return sum(state.total * WEIGHT_UNITS // state.unit for state in states)


_ROWS_BYTES = 1_024
"""Memory of rows besides their columns, ids and states."""

_ID_BYTES = 48
"""Memory of an id besides its text."""

_CELL_BYTES, _WEIGHTED_CELL_BYTES = 16, 40
"""Memory of a distinct score of a class with its count, or with sums of weights."""

_MERGED_STATE_BYTES = 1_024
"""Memory of a merged state besides its columns."""


def _memory_of_state(state: State) -> int:
    """Return the memory of a merged state, an upper bound. O(1)."""
    cell_bytes = _CELL_BYTES if state.weighted is None else _WEIGHTED_CELL_BYTES
    by_cluster = ClusterCounts.ROW_BYTES * state.clusters.counts.size
    return _MERGED_STATE_BYTES + cell_bytes * len(state.counts) + by_cluster


def memory_of(rows: Rows | None) -> int:
    """Return the memory of decoded rows, an upper bound. O(columns), ids sampled."""
    if rows is None:
        return 0
    if isinstance(rows, CaseRows):
        total = _ROWS_BYTES + rows.labels.nbytes + rows.scores.nbytes
        for column in (rows.counts, rows.units, rows.clusters):
            if column is not None:
                total += column.nbytes
        if isinstance(rows.event_us, np.ndarray):
            total += rows.event_us.nbytes
        return total + sum(segment.codes.nbytes for segment in rows.segments)
    if isinstance(rows, MergeRows):
        return rows.memory_bytes
    if isinstance(rows, MissRows):
        return _ROWS_BYTES
    # Ids of one batch have about the same length.
    total = _ROWS_BYTES + len(rows.ids) * (_ID_BYTES + (len(rows.ids[0]) if rows.ids else 0))
    if isinstance(rows, RetractionRows):
        return total
    columns: list[object] = [rows.scores, rows.event_us]
    if isinstance(rows, LabelRows):
        columns += [rows.labels, rows.units, rows.at_us]
    else:
        columns.append(rows.clusters)
        columns += [segment.codes for segment in rows.segments]
    return total + sum(each.nbytes for each in columns if isinstance(each, np.ndarray))
