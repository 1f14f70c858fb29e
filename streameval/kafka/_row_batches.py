"""Rows as batches: columns of one stream and one kind, that can be split when one is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streameval._row_codec.clusters import cluster_column
from streameval._row_codec.segments import SegmentCodes
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval.client._delivery.numbered_upload import UploadRefusal
    from streameval.payloads import PayloadRow

MAX_BATCH_ROWS = 16_384
MAX_BATCH_BYTES = 1 << 20

_TOO_LARGE = 8
"""gRPC's RESOURCE_EXHAUSTED: with no field at fault, the batch is too long."""

_ROW = re.compile(r"\.(ids|scores|positives|weights|event_times_us|clusters)\[(\d+)\]$")
"""The path of a row's value in a refusal."""


@dataclass(slots=True)
class RowBatch:
    """Predictions, or labels, for one stream: parallel columns.

    Attributes
    ----------
    stream : str
    is_labels : bool
    ids : list of str
    values : list of float or of bool
        Scores, or whether labels are positive.
    places : list of int
        For each row the place of its message in the piece.
    times : list of int
        In microseconds since 1970, of predictions, and when labels became known; empty when the
        server is to date them.
    segments : dict of str to list of str
    clusters : list of str
        Empty, or one for each row.
    weights : list of float or None
        Of labels; None is 1.
    source_us : int or None
        The time of the source's log: no message that is older is still to come, so the server
        lets ids expire by it. None without times.
    """

    stream: str
    is_labels: bool
    ids: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    segments: dict[str, list[str]] = field(default_factory=dict)
    clusters: list[str] = field(default_factory=list)
    weights: list[float | None] = field(default_factory=list)
    source_us: int | None = None
    _message: ingest_pb2.Batch | None = field(default=None, repr=False, compare=False)
    """Made by `bounded`, after which rows are not added any more."""

    def add(self, row: PayloadRow, place: int, time_us: int | None) -> None:
        """Append a row; `time_us` is the time of its message, for a row without one."""
        self.ids.append(row.id)
        self.places.append(place)
        if self.is_labels:
            self.values.append(row.label)
            self.weights.append(row.weight)
            time_us = time_us if row.label_time_us is None else row.label_time_us
            if time_us is not None:
                self.times.append(time_us)
            return
        self.values.append(row.score)
        time = time_us if row.time_us is None else row.time_us
        if time is not None:
            self.times.append(time)
        for key, value in row.segments.items():
            self.segments.setdefault(key, []).append(value)
        if row.cluster is not None:
            self.clusters.append(row.cluster)

    def extend(
        self, ids: Sequence[str], values: Sequence[Any], places: list[int], times: list[int]
    ) -> None:
        """Append rows without weights. O(rows)."""
        self.ids += ids
        self.values += values
        self.places += places
        self.times += times
        if self.is_labels:
            self.weights += [None] * len(ids)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> RowBatch:
        """Return a batch of some rows, by their places. O(rows)."""

        def column(values: list[Any]) -> list[Any]:
            return [values[row] for row in rows] if values else []

        return RowBatch(
            self.stream,
            self.is_labels,
            column(self.ids),
            column(self.values),
            column(self.places),
            column(self.times),
            {key: column(values) for key, values in self.segments.items()},
            column(self.clusters),
            column(self.weights),
            self.source_us,
        )

    def message(self, sequence: int) -> ingest_pb2.Batch:
        """Return it as it is sent, the same object once it is bounded. O(rows x keys)."""
        if self._message is not None:
            self._message.sequence = sequence
            self._message.ClearField("source_checksum")
            return self._message
        if self.is_labels:
            labels = ingest_pb2.Labels(
                ids=self.ids, positives=self.values, label_times_us=self.times
            )
            if any(each is not None for each in self.weights):
                labels.weights.extend(1.0 if each is None else each for each in self.weights)
            return ingest_pb2.Batch(
                sequence=sequence,
                stream=self.stream,
                labels=labels,
                source_time_us=self.source_us or 0,
            )
        predictions = ingest_pb2.Predictions(
            ids=self.ids,
            scores=self.values,
            event_times_us=self.times,
            segments=[
                SegmentCodes.of(key, values).to_message() for key, values in self.segments.items()
            ],
        )
        if self.clusters:
            predictions.clusters_u32le = cluster_column(self.clusters)
        return ingest_pb2.Batch(
            sequence=sequence,
            stream=self.stream,
            predictions=predictions,
            source_time_us=self.source_us or 0,
        )

    def bounded(self) -> Iterator[RowBatch]:
        """Yield it in batches of limited length, the same ones each time. O(rows)."""
        size = len(self)
        if size <= MAX_BATCH_ROWS:
            message = self.message(0)
            if message.ByteSize() <= MAX_BATCH_BYTES or size == 1:
                self._message = message
                yield self
                return
        middle = size // 2
        yield from self.take(range(middle)).bounded()
        yield from self.take(range(middle, size)).bounded()

    def split(self, refusal: UploadRefusal) -> tuple[list[RowBatch], RowBatch]:
        """Return what to send instead of this batch, and its rows that cannot be counted.

        The server takes all of a batch or nothing. A row at fault is left out; if the stream
        does not keep its time, rows with times further away are too. A batch that is too long
        is halved. Any other refusal is of every row.
        """
        size = len(self)
        found = _ROW.search(refusal.field)
        if found is not None and int(found[2]) < size:
            wrong = self._wrong_rows(found[1], int(found[2]), refusal.message)
            kept = [row for row in range(size) if row not in wrong]
            return [self.take(kept)] if kept else [], self.take(sorted(wrong))
        if refusal.code == _TOO_LARGE and not refusal.field and size > 1:
            middle = size // 2
            halves = [self.take(range(middle)), self.take(range(middle, size))]
            return halves, self.take([])
        return [], self

    def _wrong_rows(self, column: str, row: int, message: str) -> set[int]:
        if column != "event_times_us" or not self.times:
            return {row}
        limit = self.times[row]
        if "future" in message:
            return {place for place, time in enumerate(self.times) if time >= limit}
        return {place for place, time in enumerate(self.times) if time <= limit}
