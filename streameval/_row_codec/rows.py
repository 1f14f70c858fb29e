"""Rows as messages and back, for each kind of rows, and the columns of scores, labels, times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._common.arrays import IntArray
from streameval._common.errors import InvalidInputError
from streameval._counts.columns import (
    check_columns,
    check_count,
    check_labels,
    check_length,
    check_scores,
)
from streameval._row_codec.clusters import encode_clusters
from streameval._row_codec.segments import check_distinct, decode_segments, encode_segment
from streameval._row_codec.weights import encode_units
from streameval.v1 import ingest_pb2, types_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray
    from streameval._counts.cluster_keys import ClusterChecksums
    from streameval._row_codec.segments import SegmentPairs, Segments

EventTimes = int | IntArray | None
"""In microseconds since 1970: one for all rows, one for each, or none."""

MAX_ENVELOPE_BYTES = 512
"""Bytes of a batch besides its rows: stream name, sequence, tags and lengths."""

MAX_COUNT_BYTES = 10
"""Bytes of a count: the longest varint."""

MAX_TIME_BYTES = 8
"""Bytes of an event time."""

MAX_SCORE_BYTES = 8
"""Bytes of a score."""

MAX_ID_OVERHEAD_BYTES = 3
"""Bytes of the tag and the length of an id of at most 128 bytes."""

_FLOAT64LE = np.dtype("<f8")


def row_count(batch: ingest_pb2.Batch) -> int:
    """Return how many rows a batch has, without reading them. O(1)."""
    kind = batch.WhichOneof("rows")
    if kind == "cases":
        return len(batch.cases.scores) or len(batch.cases.scores_f64le) // 8
    if kind == "predictions":
        return len(batch.predictions.ids)
    if kind == "labels":
        return len(batch.labels.ids)
    return len(batch.retractions.ids) if kind == "retractions" else 1


# --- Kinds of rows ----------------------------------------------------------------------------


def encode_cases(
    positives: BoolArray,
    scores: FloatArray,
    counts: IntArray | None,
    times: EventTimes,
    segments: Segments,
    *,
    units: IntArray | None = None,
    clusters: ClusterChecksums | None = None,
) -> ingest_pb2.Cases:
    """Return cases as a message. O(rows)."""
    return ingest_pb2.Cases(
        scores_f64le=scores.astype(_FLOAT64LE, copy=False).tobytes(),
        positives_bits=np.packbits(positives, bitorder="little").tobytes(),
        counts=None if counts is None else counts.tolist(),
        event_times_us=encode_times(times),
        segments=[encode_segment(column) for column in segments],
        weights=encode_units(units),
        clusters_u32le=encode_clusters(clusters),
    )


def decode_cases(
    cases: ingest_pb2.Cases,
) -> tuple[BoolArray, FloatArray, IntArray | None, int, EventTimes, Segments] | None:
    """Return labels, scores, counts, the sum of the counts, times and segments. O(rows).

    None when the counts add up to nothing. Raises InvalidInputError.
    """
    try:
        scores = _decode_scores(cases)
        labels, scores, counts = check_columns(
            labels=_decode_labels(cases, scores.size),
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
    size = scores.size
    total = size if counts is None else int(counts.sum())
    if not total:
        return None
    times = decode_times(cases.event_times_us, size, like="scores")
    columns = cases.segments
    segments = decode_segments(columns, size, like="scores") if columns else ()
    return labels, scores, counts, total, times, segments


def encode_predictions(
    ids: list[str],
    scores: FloatArray,
    times: EventTimes,
    segments: Segments,
    *,
    clusters: ClusterChecksums | None = None,
) -> ingest_pb2.Predictions:
    """Return predictions as a message. O(rows)."""
    return ingest_pb2.Predictions(
        ids=ids,
        scores=scores.tolist(),
        event_times_us=encode_times(times),
        segments=[encode_segment(column) for column in segments],
        clusters_u32le=encode_clusters(clusters),
    )


def decode_predictions(
    predictions: ingest_pb2.Predictions,
) -> tuple[list[bytes], FloatArray, EventTimes, Segments] | None:
    """Return ids, scores, times and segments; None without rows. O(rows).

    Raises InvalidInputError.
    """
    ids = list(map(str.encode, predictions.ids))
    size = len(ids)
    scores = check_scores(np.array(predictions.scores, dtype=np.float64))
    check_length("scores", scores.size, like="ids", length=size)
    if not size:
        return None
    times = decode_times(predictions.event_times_us, size, like="ids")
    columns = predictions.segments
    segments = decode_segments(columns, size, like="ids") if columns else ()
    return ids, scores, times, segments


def encode_labels(
    ids: list[str],
    positives: BoolArray,
    times: EventTimes,
    scores: FloatArray | None,
    *,
    units: IntArray | None = None,
) -> ingest_pb2.Labels:
    """Return labels as a message. O(rows)."""
    return ingest_pb2.Labels(
        ids=ids,
        positives=positives.tolist(),
        event_times_us=encode_times(times),
        scores=None if scores is None else scores.tolist(),
        weights=encode_units(units),
    )


def decode_labels(
    labels: ingest_pb2.Labels,
) -> tuple[list[bytes], BoolArray, EventTimes, FloatArray | None] | None:
    """Return ids, labels, times and scores; None without rows. O(rows).

    Raises InvalidInputError.
    """
    ids = list(map(str.encode, labels.ids))
    size = len(ids)
    scores = None
    positives = check_labels(np.array(labels.positives, dtype=np.bool_))
    check_length("positives", positives.size, like="ids", length=size)
    if labels.scores:
        scores = check_scores(np.array(labels.scores, dtype=np.float64))
        check_length("scores", scores.size, like="ids", length=size)
    if not size:
        return None
    return ids, positives, decode_times(labels.event_times_us, size, like="ids"), scores


def encode_misses(
    positives: int, negatives: int, time_us: int | None, segments: SegmentPairs
) -> ingest_pb2.Misses:
    """Return misses as a message. O(keys)."""
    return ingest_pb2.Misses(
        positives=positives,
        negatives=negatives,
        event_time_us=time_us or 0,
        segments=[types_pb2.Segment(key=key, value=value) for key, value in segments],
    )


def decode_misses(misses: ingest_pb2.Misses) -> tuple[int, int, int | None, SegmentPairs] | None:
    """Return positives, negatives, the time and the segments; None without misses. O(keys).

    Raises InvalidInputError.
    """
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


# --- Columns ----------------------------------------------------------------------------------


def _decode_scores(cases: ingest_pb2.Cases) -> FloatArray:
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


def _decode_labels(cases: ingest_pb2.Cases, size: int) -> BoolArray:
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


def encode_times(times: EventTimes) -> list[int]:
    """Return event times as a repeated field. O(times)."""
    if times is None:
        return []
    if isinstance(times, int):
        return [times]
    listed: list[int] = times.tolist()
    return listed


def decode_times(
    times: Sequence[int], size: int, *, like: str, name: str = "event_times_us"
) -> EventTimes:
    """Return the times of rows; `like` is the column that has `size` rows.

    Raises InvalidInputError.
    """
    given = len(times)
    if given not in ((0, 1, size) if size else (0,)):
        raise InvalidInputError(
            f"{name} must have one row, or one for each of {like}, got {given} rows and {size}",
            field=name,
        )
    if given == 0:
        return None
    return times[0] if given == 1 else np.array(times, dtype=np.int64)
