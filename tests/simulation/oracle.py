"""A recount of the log with plain lists and dicts, row by row.

It shares nothing with the engine but the grid of panes. A stream is a Counter of
(kind, event time, score, slices), and a dict of the ids that are kept; the counts
of a slice or a pane are sums over the Counter.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from streameval.kernel import Grid
from streameval.v1 import ingest_pb2, pair_pb2, stream_pb2
from streameval_server._log.rows import STREAMED, Kind
from streameval_server._model.pair_settings import PairCreation
from streameval_server._model.stream_settings import DEFAULTS, settings_of, update_of

from .pair_oracle import PairOracle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval_server import Limits
    from streameval_server._log.rows import LogRow
    from streameval_server._model.stream_settings import StreamSettings

SECOND_US = 1_000_000
OTHER = "__other__"

WEIGHTED = "b/1"
"""The stream whose cases, labels and merges have weights."""

UNIT = 2**16
"""What a case weighs without a weight; weights are integers in the counts."""

CLUSTERED = "c"
"""The stream that declares clusters, if its operator created it; else it has rows without."""

CLUSTER_GROUPS = 8

MISSED_CLUSTER = b"missed"
"""The cluster of the misses of merges."""

Slices = tuple[str, ...]
"""The value of each key that was declared when the row was taken."""


class MergeContents(NamedTuple):
    """The contents of a merge, as the application made it."""

    source: str
    epoch: int
    at_us: int
    segments: tuple[tuple[str, str], ...]
    cases: tuple[tuple[float, bool, int], ...]
    """The score, the class and the units of each."""
    misses: int


class KeptId:
    """An id that waits for its other half, or may still be relabelled."""

    def __init__(self, state: str, event_us: int, score: float | None, slices: Slices) -> None:
        self.state = state
        self.event_us = event_us
        self.score = score
        self.slices = slices
        self.positive = False
        self.due = 0
        self.units = UNIT


class StreamOracle:
    """The state that one stream should have."""

    def __init__(self, settings: StreamSettings, limits: Limits) -> None:
        self.settings = settings
        self.limits = limits
        self.counts: Counter[tuple[str, int, float | None, Slices]] = Counter()
        self.ids: dict[str, KeptId] = {}
        self.values: list[list[str]] = [[] for _ in settings.segment_keys]
        self.sources: dict[str, int] = {}
        self.floor_us = 0
        self.held_us: int | None = None
        self.at_us = 0
        self.delays: Counter[tuple[int, float, bool | None, int]] = Counter()
        """By event time, score, class of the label (None: a prediction) and the label's delay."""

    # -- time

    @property
    def bucket_us(self) -> int:
        """The width of the buckets in which ids fall due."""
        shortest = min(self.settings.label_ttl_us, self.settings.relabel_ttl_us)
        return max(SECOND_US, shortest // 128)

    def bucket(self, time_us: int) -> int:
        """Return the bucket of a time."""
        return max(time_us // self.bucket_us, 0)

    def oldest_us(self, now_us: int) -> int:
        """Return the oldest time that a pane holds."""
        tiers = Grid.tiers_of(self.settings.pane_us, self.settings.retention_us)
        return max(self.floor_us, Grid.at(tiers, now_us).oldest_us)

    def pass_time(self, now_us: int) -> None:
        """Expire the ids that are due: in a held log, by the time of the hold."""
        due_us = now_us if self.held_us is None else self.held_us
        self.at_us = max(self.at_us, due_us)
        self.expire(self.bucket(due_us))

    def expire(self, before: int) -> None:
        """Expire the ids in buckets below `before`."""
        for each in [each for each, kept in self.ids.items() if kept.due < before]:
            kept = self.ids.pop(each)
            if kept.state == "pending":
                self.add("expired", kept)
                if self.settings.expired == "negative":
                    self.add("N", kept)
                    self.delay(kept, positive=False)
            elif kept.state == "early":
                self.add("orphans", kept)
                if self.settings.orphans == "miss":
                    self.add("missed P" if kept.positive else "missed N", kept)

    # -- counting

    def add(self, what: str, row: KeptId, count: int = 1) -> None:
        """Count an event of a row; of a case, also its units and their squares."""
        where = (row.event_us, row.score, row.slices)
        if what in {"P", "N"}:
            self.counts[f"{what} units", *where] += count * row.units
            self.counts[f"{what} squares", *where] += count * row.units**2
            count *= row.units > 0
        self.counts[what, *where] += count

    def predict(self, kept: KeptId, what: str, count: int = 1) -> None:
        """Count a prediction, or one that was taken back."""
        self.add(what, kept)
        self.delays[kept.event_us, kept.score, None, 0] += count

    def delay(self, kept: KeptId, *, positive: bool, count: int = 1) -> None:
        """Count a label by the time that it took."""
        delay_us = max(self.at_us - kept.event_us, 0)
        self.delays[kept.event_us, kept.score, positive, delay_us] += count

    def label(self, kept: KeptId, positive: bool, count: int = 1) -> None:
        """Count a label, or remove it with a negative count."""
        self.delay(kept, positive=positive, count=count)
        self.add("labelled", kept, count)
        self.add("P" if positive else "N", kept, count)

    def take(self, batch: ingest_pb2.Batch, now_us: int) -> None:
        """Count a batch."""
        self.at_us = max(self.at_us, now_us)
        kind = batch.WhichOneof("rows")
        rows = getattr(batch, kind)
        if kind == "cases":
            self.cases(rows, now_us)
        elif kind == "misses":
            slices = self.one_row(rows.segments)
            row = KeptId("", rows.event_time_us or now_us, None, slices)
            self.add("missed P", row, rows.positives)
            self.add("missed N", row, rows.negatives)
        else:
            getattr(self, kind)(rows, now_us)
            self.make_room()

    def cases(self, rows: ingest_pb2.Cases, now_us: int) -> None:
        """Count cases."""
        scores = list(rows.scores) or [
            each for (each,) in struct.iter_unpack("<d", rows.scores_f64le)
        ]
        size = len(scores)
        positives = list(rows.positives) or [
            bool(rows.positives_bits[place // 8] >> place % 8 & 1) for place in range(size)
        ]
        slices = self.columns(rows.segments, size)
        times = self.times(rows.event_times_us, size, now_us)
        counts, units = list(rows.counts) or [1] * size, units_of(rows, size)
        for score, positive, time_us, where, count, weight in zip(
            scores, positives, times, slices, counts, units, strict=True
        ):
            row = KeptId("", time_us, score + 0.0, where)
            row.units = weight
            self.add("P" if positive else "N", row, count)

    def times(self, given: Iterable[int], size: int, now_us: int) -> list[int]:
        """Return each row's time."""
        times = list(given) or [now_us]
        return times * size if len(times) == 1 else times

    def predictions(self, rows: ingest_pb2.Predictions, now_us: int) -> None:
        """Take predictions."""
        size = len(rows.ids)
        slices = self.columns(rows.segments, size)
        times = self.times(rows.event_times_us, size, now_us)
        for each, score, time_us, where in zip(rows.ids, rows.scores, times, slices, strict=True):
            kept = self.ids.get(each)
            if kept is None:
                kept = self.ids[each] = KeptId("pending", time_us, score + 0.0, where)
                kept.due = self.bucket(time_us + self.settings.label_ttl_us)
                self.predict(kept, "predictions")
            elif kept.state == "early":
                row = KeptId("", time_us, score + 0.0, where)
                row.units = kept.units
                self.complete(each, kept.positive, row, now_us)
            self.pass_time(now_us)

    def complete(self, each: str, positive: bool, row: KeptId, now_us: int) -> None:
        """Count a prediction and its label at once."""
        self.ids[each] = row
        row.state = "labelled"
        row.positive = positive
        row.due = self.bucket(now_us + self.settings.relabel_ttl_us)
        self.predict(row, "predictions")
        self.label(row, positive)

    def labels(self, rows: ingest_pb2.Labels, now_us: int) -> None:
        """Take labels."""
        size = len(rows.ids)
        times = self.times(rows.event_times_us, size, now_us)
        scores = list(rows.scores) or [None] * size
        nowhere = ("",) * len(self.settings.segment_keys)
        for each, positive, time_us, score, units in zip(
            rows.ids, rows.positives, times, scores, units_of(rows, size), strict=True
        ):
            kept = self.ids.get(each)
            if kept is not None and kept.state != "pending" and kept.units != units:
                pass  # The id keeps the weight of its label.
            elif score is not None and (kept is None or kept.state == "early"):
                row = KeptId("", time_us, score + 0.0, nowhere)
                row.units = units
                self.complete(each, positive, row, now_us)
            elif kept is None:
                kept = self.ids[each] = KeptId("early", time_us, None, nowhere)
                kept.positive, kept.units = positive, units
                kept.due = self.bucket(now_us + self.settings.label_ttl_us)
            elif kept.state == "early":
                kept.positive = positive
            elif kept.state == "pending" or kept.positive != positive:
                if kept.state == "labelled":
                    self.label(kept, kept.positive, -1)
                kept.units = units
                self.label(kept, positive)
                kept.state, kept.positive = "labelled", positive
                kept.due = self.bucket(now_us + self.settings.relabel_ttl_us)
            self.pass_time(now_us)

    @staticmethod
    def units(rows: ingest_pb2.Labels, size: int) -> list[int]:
        """Return each label's weight in units."""
        return units_of(rows, size)

    def retractions(self, rows: ingest_pb2.Retractions, _now_us: int) -> None:
        """Take predictions back."""
        for each in rows.ids:
            kept = self.ids.pop(each, None)
            if kept is not None and kept.state != "early":
                if kept.state == "labelled":
                    self.label(kept, kept.positive, -1)
                self.predict(kept, "retracted", -1)

    def make_room(self) -> None:
        """Expire the ids that are due first until `max_pending` are left."""
        while len(self.ids) > self.settings.max_pending:
            self.expire(min(kept.due for kept in self.ids.values()) + 1)

    def merge(self, merged: MergeContents) -> None:
        """Add the contents of a merge."""
        assert merged.epoch > self.sources.get(merged.source, 0), "merged twice"
        self.sources[merged.source] = merged.epoch
        slices = self.one_row(merged.segments)
        for score, positive, units in merged.cases:
            row = KeptId("", merged.at_us, score + 0.0, slices)
            row.units = units
            self.add("P" if positive else "N", row)
        self.add("missed P", KeptId("", merged.at_us, None, slices), merged.misses)

    # -- segments

    def columns(self, columns: Iterable[ingest_pb2.SegmentColumn], size: int) -> list[Slices]:
        """Return each row's values; new values are registered in the order of the column."""
        rows = [[""] * len(self.values) for _ in range(size)]
        for column in columns:
            key = self.settings.segment_keys.index(column.key)
            codes = codes_of(column, size)
            used = set(codes)
            shown = [
                self.numbered(key, value) if place in used else ""
                for place, value in enumerate(column.values)
            ]
            for row, code in zip(rows, codes, strict=True):
                row[key] = shown[code]
        return [tuple(row) for row in rows]

    def numbered(self, key: int, value: str) -> str:
        """Return a value, or `OTHER` for a value beyond the maximum number of values."""
        values = self.values[key]
        if value and value not in values:
            if len(values) == self.limits.max_segment_values:
                return OTHER
            values.append(value)
        return value

    def one_row(self, segments: Iterable) -> Slices:
        """Return the values of one row."""
        row = [""] * len(self.values)
        for segment in segments:
            name, value = segment if isinstance(segment, tuple) else (segment.key, segment.value)
            key = self.settings.segment_keys.index(name)
            row[key] = self.numbered(key, value)
        return tuple(row)

    # -- settings

    def update(self, request: stream_pb2.UpdateStreamRequest, now_us: int) -> None:
        """Change the settings."""
        self.floor_us = self.oldest_us(now_us if self.held_us is None else self.held_us)
        width_us = self.bucket_us
        self.settings = update_of(request).apply_to(self.settings)
        if self.bucket_us != width_us:
            for kept in self.ids.values():
                kept.due = self.bucket((kept.due + 1) * width_us - 1)
        while len(self.values) < len(self.settings.segment_keys):
            self.values.append([])


class Oracle:
    """The state that all streams should have after some rows of a log.

    Parameters
    ----------
    limits
        The server's.
    merges : dict of bytes to MergeContents
        The contents of each merge, by the payload of its row.
    """

    def __init__(self, limits: Limits, merges: dict[bytes, MergeContents]) -> None:
        self.revision = 0
        self.now_us = 0
        self.held_us: int | None = None
        self.streams: dict[str, StreamOracle] = {}
        self.pairs: dict[str, PairOracle] = {}
        self._limits = limits
        self._merges = merges

    def read(self, rows: Iterable[LogRow]) -> None:
        """Count the next rows."""
        for row in rows:
            self.revision += 1
            assert row.revision == self.revision
            assert row.received_us >= self.now_us, "the log's time runs backwards"
            if row.kind == Kind.HOLD:
                assert self.held_us is None
                assert row.received_us == self.now_us
                self.held_us = row.received_us
            elif row.kind == Kind.RELEASE:
                self.held_us = None
            self.now_us = row.received_us
            for stream in self.streams.values():
                stream.held_us = self.held_us
                stream.pass_time(row.received_us)
            for pair in self.pairs.values():
                pair.expire(pair.bucket(self.due_us))
            self._row(row)

    @property
    def due_us(self) -> int:
        """The time up to which things fell due."""
        return self.now_us if self.held_us is None else self.held_us

    def _row(self, row: LogRow) -> None:
        name = row.stream
        if row.kind == Kind.BATCH:
            batch = batch_of(row)
            if counts_something(batch):
                stream = self._made(name)
                stream.take(batch, row.received_us)
                stream.pass_time(row.received_us)
                for pair in self.pairs.values():
                    if name in pair.names:
                        pair.take(name, batch, stream, row.received_us, self.due_us)
        elif row.kind == Kind.MERGE:
            self._made(name).merge(self._merges[row.payload])
        elif row.kind == Kind.CREATE_STREAM:
            assert name not in self.streams
            request = stream_pb2.CreateStreamRequest.FromString(row.payload)
            self.streams[name] = StreamOracle(settings_of(request.stream.settings), self._limits)
            self.streams[name].held_us = self.held_us
        elif row.kind == Kind.UPDATE_STREAM:
            request = stream_pb2.UpdateStreamRequest.FromString(row.payload)
            self.streams[name].update(request, row.received_us)
        elif row.kind == Kind.DELETE_STREAM:
            del self.streams[name]
        elif row.kind in {Kind.CREATE_PAIR, Kind.DELETE_PAIR}:
            self._pair(row)
        else:
            # Alarms, marks and verdicts are compared by replay: these kinds change no counts.
            assert row.kind in {
                Kind.REFUSED,
                Kind.TICK,
                Kind.OPEN,
                Kind.HOLD,
                Kind.RELEASE,
                Kind.CHANGE_ALARM,
                Kind.CHANGE_MARKS,
                Kind.CHANGE_VERDICT,
            }

    def _pair(self, row: LogRow) -> None:
        """Make or delete a pair."""
        if row.kind == Kind.CREATE_PAIR:
            made = PairCreation.of(pair_pb2.CreatePairRequest.FromString(row.payload))
            a, b = self.streams[made.a].settings, self.streams[made.b].settings
            assert made.name not in self.pairs
            assert {made.a, made.b} not in [{*pair.names} for pair in self.pairs.values()]
            self.pairs[made.name] = PairOracle((made.a, made.b), made.resolved(a, b))
        else:
            deleted = pair_pb2.DeletePairRequest.FromString(row.payload)
            assert row.stream == self.pairs.pop(deleted.name).names[0]

    def _made(self, name: str) -> StreamOracle:
        if name not in self.streams:
            self.streams[name] = StreamOracle(DEFAULTS, self._limits)
            self.streams[name].held_us = self.held_us
        return self.streams[name]


def batch_of(row: LogRow) -> ingest_pb2.Batch:
    """Return the batch of a row."""
    if row.format in STREAMED:
        return ingest_pb2.IngestRequest.FromString(row.payload).batch
    return ingest_pb2.IngestBatchRequest.FromString(row.payload).batch


def counts_something(batch: ingest_pb2.Batch) -> bool:
    """Return whether a batch has rows that count."""
    kind = batch.WhichOneof("rows")
    if kind == "cases":
        cases = batch.cases
        return bool(cases.scores or cases.scores_f64le) and (not cases.counts or any(cases.counts))
    if kind == "misses":
        return bool(batch.misses.positives or batch.misses.negatives)
    return kind is not None and bool(getattr(batch, kind).ids)


def units_of(rows: ingest_pb2.Cases | ingest_pb2.Labels, size: int) -> list[int]:
    """Return each row's weight over its label probability, in units."""
    weights = list(rows.weights) or [1.0] * size
    shares = list(rows.label_probabilities) or [1.0]
    shares = shares * size if len(shares) == 1 else shares
    return [round(weight / share * UNIT) for weight, share in zip(weights, shares, strict=True)]


def cluster_of(score: float) -> bytes:
    """Return the cluster of a row, which its score determines."""
    return b"user-%d" % (round(score * 4096) % 23) if math.isfinite(score) else b"none"


def group_of(cluster: bytes) -> int:
    """Return the group that a cluster is hashed into, by the documented hash."""
    mixed = zlib.crc32(cluster) + 0x9E3779B97F4A7C15
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> shift) * factor % 2**64
    return (mixed ^ mixed >> 31) % CLUSTER_GROUPS


def cluster_cell(score: float) -> float:
    """Return the lower edge of a score's cell of 8 bits, from the nearer end of [0, 1]."""
    if not 0.5 <= score < 1:
        return cell(score, 8)
    mantissa, exponent = math.frexp(1 - score)
    return 1 - math.ldexp(math.ceil(math.ldexp(mantissa, 8)), exponent - 8)


def cell(score: float, bits: int | None) -> float:
    """Return the lower edge of the cell of a score with `bits` significant bits."""
    if bits is None or not score:
        return score
    mantissa, exponent = math.frexp(score)
    return math.ldexp(math.floor(math.ldexp(mantissa, bits)), exponent - bits)


def codes_of(column: ingest_pb2.SegmentColumn, size: int) -> list[int]:
    """Return the code of each row; a column has numbers or bytes, one for all rows or one each."""
    packed = column.codes_u16le
    codes = list(column.codes) or [
        int.from_bytes(packed[at : at + 2], "little") for at in range(0, len(packed), 2)
    ]
    return codes * size if len(codes) == 1 else codes
