"""Rows by id on their way: predictions, labels and retractions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval.client._buffer.columns import Columns, segment_fields, times_field
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray
    from streameval.client._buffer.clock import Times
    from streameval.client._buffer.segments import Segments

_SCORE_BYTES = 8
# An id's tag and length, where it is at most 128 bytes long.
_ID_BYTES = 3


class IdRows(Columns):
    """Rows with an id each."""

    LIKE = "ids"
    ids: list[str]

    def _id_bytes(self) -> int:
        text = "".join(self.ids)
        return self.size * _ID_BYTES + (len(text) if text.isascii() else len(text.encode()))


@dataclass(frozen=True, eq=False)
class PredictionRows(IdRows):
    """Scores by id; the truth comes later.

    Attributes
    ----------
    stream : str
    ids : list of str
    scores : float64[n]
        Finite.
    times : int, int64[n] or None
    segments : tuple of SegmentCodes
    """

    ids: list[str]
    scores: FloatArray
    times: Times = None
    segments: Segments = ()

    def _column_bytes(self) -> int:
        return self._id_bytes() + self.size * _SCORE_BYTES

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return them as a batch. O(n)."""
        predictions = ingest_pb2.Predictions(
            ids=self.ids,
            scores=self.scores.tolist(),
            event_times_us=times_field(self.times, offset_us),
            segments=segment_fields(self.segments),
        )
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, predictions=predictions)


@dataclass(frozen=True, eq=False)
class LabelRows(IdRows):
    """The truth by id.

    Attributes
    ----------
    stream : str
    ids : list of str
    positives : bool[n]
    times : int, int64[n] or None
        Of the predictions, where the caller knows them.
    scores : float64[n] or None
        Of the predictions, where the caller knows them.
    """

    ids: list[str]
    positives: BoolArray
    times: Times = None
    scores: FloatArray | None = None

    def _column_bytes(self) -> int:
        return self._id_bytes() + self.size * (1 + _SCORE_BYTES)

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:
        """Return them as a batch. O(n)."""
        labels = ingest_pb2.Labels(
            ids=self.ids,
            positives=self.positives.tolist(),
            event_times_us=times_field(self.times, offset_us),
            scores=None if self.scores is None else self.scores.tolist(),
        )
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, labels=labels)


@dataclass(frozen=True, eq=False)
class RetractionRows(IdRows):
    """Ids that should no longer count.

    Attributes
    ----------
    stream : str
    ids : list of str
    """

    ids: list[str]

    def _column_bytes(self) -> int:
        return self._id_bytes()

    def batch(self, sequence: int, offset_us: int = 0) -> ingest_pb2.Batch:  # noqa: ARG002 - a protocol's signature
        """Return them as a batch. O(n)."""
        retractions = ingest_pb2.Retractions(ids=self.ids)
        return ingest_pb2.Batch(sequence=sequence, stream=self.stream, retractions=retractions)
