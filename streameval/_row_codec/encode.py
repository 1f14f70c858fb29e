"""Rows as messages, for each kind of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval._common.arrays import IntArray
from streameval._row_codec.clusters import encode_clusters
from streameval._row_codec.weights import encode_units
from streameval.v1 import ingest_pb2, types_pb2

if TYPE_CHECKING:
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
        segments=[column.to_message() for column in segments],
        weights=encode_units(units),
        clusters_u32le=encode_clusters(clusters),
    )


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
        segments=[column.to_message() for column in segments],
        clusters_u32le=encode_clusters(clusters),
    )


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


def encode_times(times: EventTimes) -> list[int]:
    """Return event times as a repeated field. O(times)."""
    if times is None:
        return []
    if isinstance(times, int):
        return [times]
    listed: list[int] = times.tolist()
    return listed
