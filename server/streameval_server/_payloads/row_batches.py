"""Rows of payloads as batches, the form in which they are logged."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from streameval.v1 import ingest_pb2
from streameval.wire import SegmentCodes, cluster_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streameval.payloads import PayloadRow


class PayloadKind(enum.Enum):
    """The kinds of rows that payloads give."""

    PREDICTIONS = "predictions"
    LABELS = "labels"


def batch_of_rows(
    stream: str, kind: PayloadKind, rows: Sequence[PayloadRow], now_us: int
) -> ingest_pb2.Batch:
    """Return a batch of rows for one stream. O(rows x keys).

    Parameters
    ----------
    stream : str
    kind : PayloadKind
        Which of the rows' values it has. A row with a score and a label is in one of each.
    rows : sequence of PayloadRow
    now_us : int
        The time of the predictions and of the labels that have none.
    """
    _, ids, scores, row_labels, times, segments, weights, clusters, known = zip(*rows, strict=True)
    if kind is PayloadKind.LABELS:
        labels = ingest_pb2.Labels(ids=ids, positives=[label is True for label in row_labels])
        if any(weight is not None for weight in weights):
            labels.weights.extend(1.0 if weight is None else weight for weight in weights)
        if known.count(None) < len(known):
            labels.label_times_us.extend(now_us if time is None else time for time in known)
        return ingest_pb2.Batch(stream=stream, labels=labels)
    predictions = ingest_pb2.Predictions(ids=ids, scores=scores, segments=_columns(segments))
    # Where some have none the server refuses the batch, and its halves with them.
    if None not in clusters:
        predictions.clusters_u32le = cluster_column(list(clusters))
    if times.count(None) < len(times):
        predictions.event_times_us.extend(now_us if time is None else time for time in times)
    return ingest_pb2.Batch(stream=stream, predictions=predictions)


def _columns(segments: Sequence[Mapping[str, str]]) -> list[ingest_pb2.SegmentColumn]:
    keys = dict.fromkeys(key for each in segments if each for key in each)
    return [
        SegmentCodes.of(key, [each.get(key, "") for each in segments]).to_message() for key in keys
    ]
