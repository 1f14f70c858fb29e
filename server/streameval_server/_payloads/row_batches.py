"""Rows of payloads as batches, the form in which they are logged."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts import cluster_checksums
from streameval._row_codec import SegmentCodes, encode_clusters, encode_segment
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval.payloads import PayloadRow


class RowKind(enum.Enum):
    """The kinds of rows that payloads give."""

    PREDICTIONS = "predictions"
    LABELS = "labels"


def batch_of_rows(
    stream: str, kind: RowKind, rows: Sequence[PayloadRow], now_us: int
) -> ingest_pb2.Batch:
    """Return a batch of rows for one stream. O(rows x keys).

    Parameters
    ----------
    stream : str
    kind : RowKind
        Which of the rows' values it has. A row with a score and a label is in one of each.
    rows : sequence of PayloadRow
    now_us : int
        The time of the predictions that have none.
    """
    if kind is RowKind.LABELS:
        labels = ingest_pb2.Labels(
            ids=[row.id for row in rows], positives=[row.label is True for row in rows]
        )
        if any(row.weight is not None for row in rows):
            labels.weights.extend(1.0 if row.weight is None else row.weight for row in rows)
        return ingest_pb2.Batch(stream=stream, labels=labels)
    times = [row.time_us for row in rows]
    predictions = ingest_pb2.Predictions(
        ids=[row.id for row in rows],
        scores=[row.score for row in rows if row.score is not None],
        segments=_segments(rows),
    )
    clusters = [row.cluster for row in rows if row.cluster is not None]
    # Where some have none the server refuses the batch, and its halves with them.
    if len(clusters) == len(rows):
        predictions.clusters_u32le = encode_clusters(cluster_checksums(clusters))
    if any(time is not None for time in times):
        predictions.event_times_us.extend(now_us if time is None else time for time in times)
    return ingest_pb2.Batch(stream=stream, predictions=predictions)


def _segments(rows: Sequence[PayloadRow]) -> list[ingest_pb2.SegmentColumn]:
    keys = dict.fromkeys(key for row in rows for key in row.segments)
    columns = []
    for key in keys:
        places: dict[str, int] = {}
        codes = [places.setdefault(row.segments.get(key, ""), len(places)) for row in rows]
        column = SegmentCodes(key, tuple(places), np.array(codes, dtype=np.uint32))
        columns.append(encode_segment(column))
    return columns
