"""Rows by id: predictions, labels and retractions, and the order that they keep.

Predicting, labelling and retracting *one* id must arrive in the order of the calls.
Rows of different ids are independent, so they may change places, and alternating calls
still make large batches: within a *phase* all predictions go first, then the labels,
then the retractions. A phase ends where an id would overtake itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._row_codec.encode import (
    MAX_ID_OVERHEAD_BYTES,
    encode_labels,
    encode_predictions,
)
from streameval.client._buffer.columns import Columns, join, stamps_to_times
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.cluster_keys import ClusterChecksums
    from streameval._row_codec.segments import Segments
    from streameval.client._buffer.columns import Times

PREDICTION, CLUSTERED_PREDICTION, LABEL, RETRACTION = 0, 1, 2, 10
"""Ranks in a phase. Labels have the eight ranks 2 to 9: with or without times, scores, weights."""


class IdRows(Columns):
    """Rows with an id each."""

    LIKE = "ids"
    ids: list[str]

    def _count_bytes(self) -> int:
        text = "".join(self.ids)
        text_bytes = len(text) if text.isascii() else len(text.encode())
        return super()._count_bytes() + self.size * MAX_ID_OVERHEAD_BYTES + text_bytes


@dataclass(frozen=True, eq=False)
class BufferedPredictions(IdRows):
    """Scores by id; the labels come later.

    Attributes
    ----------
    stream : str
    ids : list of str
    scores : float64[n]
        Finite.
    times : int, int64[n] or None
    segments : tuple of SegmentCodes
    clusters : uint32[n] or None
        The checksum of each row's cluster key.
    """

    ids: list[str]
    scores: FloatArray
    times: Times = None
    segments: Segments = ()
    clusters: ClusterChecksums | None = None

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return the rows as a batch, with stamps converted to times. O(n)."""
        times = stamps_to_times(self.times, offset_us)
        predictions = encode_predictions(
            self.ids, self.scores, times, self.segments, clusters=self.clusters
        )
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, predictions=predictions)


@dataclass(frozen=True, eq=False)
class BufferedLabels(IdRows):
    """Labels by id.

    Attributes
    ----------
    stream : str
    ids : list of str
    positives : bool[n]
    times : int, int64[n] or None
        Event times of the predictions, if the caller gave them.
    scores : float64[n] or None
        Scores of the predictions, if the caller gave them.
    units : int64[n] or None
        The weight of each label in units of 2**-16; None means 1 each.
    """

    ids: list[str]
    positives: BoolArray
    times: Times = None
    scores: FloatArray | None = None
    units: IntArray | None = None

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return the rows as a batch, with stamps converted to times. O(n)."""
        times = stamps_to_times(self.times, offset_us)
        labels = encode_labels(self.ids, self.positives, times, self.scores, units=self.units)
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, labels=labels)


@dataclass(frozen=True, eq=False)
class BufferedRetractions(IdRows):
    """Ids that should no longer count.

    Attributes
    ----------
    stream : str
    ids : list of str
    """

    ids: list[str]

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:  # noqa: ARG002 - a protocol's signature
        """Return the rows as a batch. O(n)."""
        retractions = ingest_pb2.Retractions(ids=self.ids)
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, retractions=retractions)


def label_rank(*, timed: bool, scored: bool, weighted: bool = False) -> int:
    """Return the rank of labels with or without times, scores and weights.

    Examples
    --------
    >>> label_rank(timed=False, scored=False), label_rank(timed=True, scored=True)
    (2, 5)
    """
    return LABEL + timed + 2 * scored + 4 * weighted


def rank_of(rows: IdRows) -> int:
    """Return the rank of rows in a phase; rows of equal rank can be joined."""
    if isinstance(rows, BufferedPredictions):
        return PREDICTION if rows.clusters is None else CLUSTERED_PREDICTION
    if isinstance(rows, BufferedLabels):
        return label_rank(
            timed=rows.times is not None,
            scored=rows.scores is not None,
            weighted=rows.units is not None,
        )
    return RETRACTION


def phases(ids: Sequence[str], ranks: Sequence[int]) -> list[int]:
    """Return the rows at which phases begin, and the end. O(rows).

    Examples
    --------
    >>> phases(["a", "b", "a", "b"], [0, 0, 2, 2])  # the labels of two predictions
    [0, 4]
    >>> phases(["a", "a", "a"], [0, 10, 0])  # predicted again after its retraction
    [0, 2, 3]
    """
    edges = [0]
    if len(set(ids)) < len(ids):
        highest: dict[str, int] = {}
        for row, (id_, rank) in enumerate(zip(ids, ranks, strict=True)):
            if highest.get(id_, 0) > rank:
                edges.append(row)
                highest.clear()
            highest[id_] = rank
    edges.append(len(ids))
    return edges


def coalesce_id_rows(pieces: Sequence[IdRows]) -> Sequence[IdRows]:
    """Return pieces as few pieces, in an order with the same meaning.

    O(rows), and a set of the ids where kinds alternate.
    """
    if len(pieces) < 2:
        return pieces
    result: list[IdRows] = []
    phase: dict[int, list[IdRows]] = {}
    ids: dict[int, set[str]] = {}
    for piece in pieces:
        rank = rank_of(piece)
        if any(rank < other and not ids[other].isdisjoint(piece.ids) for other in phase):
            result += _join_phase(phase)
            phase, ids = {}, {}
        phase.setdefault(rank, []).append(piece)
        ids.setdefault(rank, set())
        if rank != PREDICTION:  # no rank is lower, so its ids are never looked up
            ids[rank].update(piece.ids)
    return result + _join_phase(phase)


def _join_phase(phase: dict[int, list[IdRows]]) -> list[IdRows]:
    return [join(phase[rank]) for rank in sorted(phase)]
