"""The rows of a batch, read and checked column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.columns import (
    check_columns,
    check_count,
    check_labels,
    check_length,
    check_scores,
)
from streameval._row_codec.clusters import decode_clusters
from streameval._row_codec.segments import check_distinct, decode_segments
from streameval._row_codec.weights import decode_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.cluster_keys import ClusterChecksums
    from streameval._row_codec.encode import EventTimes
    from streameval._row_codec.segments import SegmentPairs, Segments
    from streameval.v1 import ingest_pb2

_FLOAT64LE = np.dtype("<f8")


class RowReader:
    """Reads the rows of a batch.

    Every method checks what it returns, and raises `InvalidInputError` with the path inside the
    message of the kind as its `field`. Those for columns that a kind lacks are not to be called.

    Parameters
    ----------
    batch : Batch

    Attributes
    ----------
    kind : str or None
        ``"cases"``, ``"predictions"``, ``"labels"``, ``"retractions"`` or ``"misses"``.
    size : int
        How many rows it has, known without reading them; misses are one.
    """

    def __init__(self, batch: ingest_pb2.Batch) -> None:
        self.kind = batch.WhichOneof("rows")
        self._rows: Any = getattr(batch, self.kind) if self.kind else None
        self._like = "scores" if self.kind == "cases" else "ids"
        self.size = _row_count(self.kind, self._rows)

    def cases(self) -> tuple[BoolArray, FloatArray, IntArray | None, int] | None:
        """Return labels, scores, counts and their sum; None when that is 0. O(rows)."""
        cases = self._rows
        try:
            scores = _scores(cases)
            labels, scores, counts = check_columns(
                labels=_labels(cases, scores.size),
                scores=scores,
                counts=np.array(cases.counts, dtype=np.uint64) if cases.counts else None,
            )
        except InvalidInputError as error:
            field = error.field
            if field == "labels":
                field = "positives_bits" if cases.positives_bits else "positives"
            elif field == "scores" and cases.scores_f64le:
                field = "scores_f64le"
            raise InvalidInputError(str(error), field=field, index=error.index) from None
        total = scores.size if counts is None else int(counts.sum())
        return (labels, scores, counts, total) if total else None

    def ids(self) -> list[bytes]:
        """Return the ids of predictions, labels or retractions. O(rows)."""
        return list(map(str.encode, self._rows.ids))

    def labels(self) -> BoolArray:
        """Return which labels are positive. O(rows)."""
        positives = check_labels(np.array(self._rows.positives, dtype=np.bool_))
        check_length("positives", positives.size, like="ids", length=self.size)
        return positives

    def scores(self) -> FloatArray:
        """Return the scores of predictions or labels. O(rows)."""
        scores = check_scores(np.array(self._rows.scores, dtype=np.float64))
        check_length("scores", scores.size, like="ids", length=self.size)
        return scores

    def label_scores(self) -> FloatArray | None:
        """Return the scores that came with labels; None without them. O(rows)."""
        return self.scores() if self._rows.scores else None

    def times(self, name: str = "event_times_us") -> EventTimes:
        """Return times in microseconds since 1970. O(times)."""
        times: Sequence[int] = getattr(self._rows, name)
        given, size = len(times), self.size
        if given not in ((0, 1, size) if size else (0,)):
            raise InvalidInputError(
                f"{name} must have one row, or one for each of {self._like}, "
                f"got {given} rows and {size}",
                field=name,
            )
        if given == 0:
            return None
        return times[0] if given == 1 else np.array(times, dtype=np.int64)

    def segments(self) -> Segments:
        """Return segment columns, each with a code for every row. O(rows) for each key."""
        columns = self._rows.segments
        return decode_segments(columns, self.size, like=self._like) if columns else ()

    def units(self, counts: IntArray | None = None) -> IntArray | None:
        """Return weights in units, divided by the label probabilities; None without. O(rows)."""
        return decode_units(self._rows, self.size, counts, like=self._like)

    def clusters(self) -> ClusterChecksums | None:
        """Return the checksum of each row's cluster; None without clusters. O(rows)."""
        return decode_clusters(self._rows, self.size, like=self._like)

    def misses(self) -> tuple[int, int, int | None, SegmentPairs] | None:
        """Return positives, negatives, the time and the segments; None without misses. O(keys)."""
        misses = self._rows
        positives, negatives = misses.positives, misses.negatives
        try:
            check_count(positives + negatives)
        except InvalidInputError as error:
            field = "negatives" if negatives > positives else "positives"
            raise InvalidInputError(str(error), field=field) from None
        if not positives and not negatives:
            return None
        segments = tuple((each.key, each.value) for each in misses.segments)
        check_distinct([key for key, _ in segments])
        return positives, negatives, misses.event_time_us or None, segments


def _row_count(kind: str | None, rows: Any) -> int:
    if kind == "cases":
        return len(rows.scores) or len(rows.scores_f64le) // 8
    return len(rows.ids) if kind in ("predictions", "labels", "retractions") else 1


def _scores(cases: ingest_pb2.Cases) -> FloatArray:
    packed = cases.scores_f64le
    if not packed:
        return np.array(cases.scores, dtype=np.float64)
    if cases.scores:
        raise InvalidInputError(
            "scores and scores_f64le must not both be given", field="scores_f64le"
        )
    if len(packed) % 8:
        raise InvalidInputError(
            f"scores_f64le must have 8 bytes for each score, got {len(packed)} bytes",
            field="scores_f64le",
        )
    return np.frombuffer(packed, _FLOAT64LE).astype(np.float64, copy=False)


def _labels(cases: ingest_pb2.Cases, size: int) -> BoolArray:
    packed = cases.positives_bits
    if not packed:
        return np.array(cases.positives, dtype=np.bool_)
    if cases.positives:
        raise InvalidInputError(
            "positives and positives_bits must not both be given", field="positives_bits"
        )
    if len(packed) != (size + 7) // 8:
        raise InvalidInputError(
            f"positives_bits must have one bit for each of scores, "
            f"got {len(packed)} bytes and {size} rows",
            field="positives_bits",
        )
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")
    if bits[size:].any():
        raise InvalidInputError(
            "positives_bits must have zeros after the last row", field="positives_bits"
        )
    return bits[:size].view(np.bool_)
