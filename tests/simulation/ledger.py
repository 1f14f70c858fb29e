"""Records what was sent, acknowledged and durable, and checks that they agree."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from streameval_server._log.rows import Kind

from .oracle import batch_of

if TYPE_CHECKING:
    from streameval.v1 import ingest_pb2
    from streameval_server._log.rows import LogRow

    from .disk import Disk
    from .oracle import MergeContents

Key = tuple[str, int, int]
"""Producer, epoch, sequence."""


class SentBatch(NamedTuple):
    """A batch as the client sent it."""

    frame: bytes
    rows: int


class Ledger:
    """The records of one run.

    Attributes
    ----------
    put : dict of str to Counter
        The rows that each producer's application added to its clients.
    sent : dict of Key to SentBatch
    merges : dict of bytes to MergeContents
        The contents of each merge, by the payload of its log row.
    transmissions : Counter of bytes
        How often each batch without a producer was sent.
    promised : int
        The highest revision that any answer had.
    durable : list of LogRow
        All durable rows; it only grows.
    """

    def __init__(self, disk: Disk) -> None:
        self.put: dict[str, Counter[tuple]] = defaultdict(Counter)
        self.sent: dict[Key, SentBatch] = {}
        self.merges: dict[bytes, MergeContents] = {}
        self.transmissions: Counter[bytes] = Counter()
        self.promised = 0
        self.durable: list[LogRow] = []
        self.revision_of: dict[Key, int] = {}
        self.counted_rows: Counter[tuple[str, int]] = Counter()
        self.refused_rows: Counter[tuple[str, int]] = Counter()
        self._disk = disk
        self._last: dict[str, tuple[int, int]] = {}
        self._counted: dict[str, Counter[tuple]] = defaultdict(Counter)
        self._times = Counter[bytes]()

    def sends(self, key: Key, frame: bytes, rows: int) -> None:
        """Record a batch that is sent; a sequence number always has the same batch."""
        before = self.sent.setdefault(key, SentBatch(frame, rows))
        assert before.frame == frame, f"{key} is sent again with other content"

    def promises(self, revision: int) -> None:
        """Check that a revision in an answer is durable, and record it."""
        self.read()
        assert revision <= len(self.durable), (
            f"revision {revision} is acknowledged, but only {len(self.durable)} is durable"
        )
        self.promised = max(self.promised, revision)

    def acks(self, producer: str, epoch: int, sequence: int, revision: int) -> None:
        """Check that all batches of an ack are durable."""
        self.promises(revision)
        if sequence:
            at = self.revision_of.get((producer, epoch, sequence))
            assert at is not None, f"{producer} {epoch}: {sequence} is acked and not durable"
            assert revision >= at, f"the ack of {sequence} at {at} names revision {revision}"

    def opens(self, producer: str, epoch: int) -> None:
        """Check that an epoch whose Open is answered is durable: it fences lower ones from then on.

        `read` refuses a later row of a lower epoch.
        """
        self.read()
        newest = self.last_of(producer)[0]
        assert newest >= epoch, f"{producer} {epoch} is open, and {newest} is durable: not fenced"

    def refuses(self, producer: str, epoch: int, sequence: int) -> None:
        """Check that a batch which is answered as refused is logged as refused."""
        self.read()
        row = self.durable[self.revision_of[producer, epoch, sequence] - 1]
        assert row.kind == Kind.REFUSED, f"{producer} {epoch} {sequence} counts, not refused"

    def read(self) -> None:
        """Check the rows that have become durable since the last call."""
        for row in self._disk.durable_rows(len(self.durable)):
            assert row.revision == len(self.durable) + 1
            if self.durable:
                assert row.received_us >= self.durable[-1].received_us, "time runs backwards"
            self.durable.append(row)
            if row.producer:
                self._read_named(row)
            elif row.kind == Kind.BATCH:
                self._times[row.payload] += 1
                assert self._times[row.payload] <= self.transmissions[row.payload]
            elif row.kind == Kind.MERGE:
                assert row.payload in self.merges, "a merge that no client sent"

    def _read_named(self, row: LogRow) -> None:
        key = (row.producer, row.epoch, row.sequence)
        epoch, last = self._last.get(row.producer, (0, 0))
        self._last[row.producer] = (row.epoch, row.sequence)
        if row.kind == Kind.OPEN:
            assert row.epoch > epoch, f"the start of {key[:2]} comes after epoch {epoch}"
            return
        # A single call starts an epoch with its first batch.
        assert row.epoch >= epoch, f"{key} comes after epoch {epoch}"
        expected = last + 1 if row.epoch == epoch else 1
        assert row.sequence == expected, f"{key} comes after sequence {last} of {epoch}"
        self.revision_of[key] = row.revision
        sent = self.sent[key]
        if row.kind == Kind.REFUSED:
            self.refused_rows[key[:2]] += sent.rows
            return
        assert row.payload == sent.frame, f"{key} is not what was sent"
        self.counted_rows[key[:2]] += sent.rows
        counted, put = self._counted[row.producer], self.put[row.producer]
        for token, count in tokens(batch_of(row)).items():
            counted[token] += count
            assert counted[token] <= put[token], f"{token} of {row.producer} is counted twice"

    def last_of(self, producer: str) -> tuple[int, int]:
        """Return the newest durable epoch and sequence of a producer."""
        return self._last.get(producer, (0, 0))

    def lost(self, producer: str) -> int:
        """Return how many added rows are not counted, for a producer without refused rows."""
        return sum((self.put[producer] - self._counted[producer]).values())


def tokens(batch: ingest_pb2.Batch) -> Counter[tuple]:
    """Return a batch's rows as keys that identify them among all rows."""
    kind = batch.WhichOneof("rows")
    found: Counter[tuple] = Counter()
    if kind is None:
        return found
    rows = getattr(batch, kind)
    if kind == "misses":
        found["misses", batch.stream] = rows.positives + rows.negatives
    elif kind == "cases":
        scores = list(rows.scores) or [
            score for (score,) in struct.iter_unpack("<d", rows.scores_f64le)
        ]
        counts = list(rows.counts) or [1] * len(scores)
        for score, count in zip(scores, counts, strict=True):
            found["cases", batch.stream, score] += count
    else:
        scores = list(getattr(rows, "scores", ())) or [None] * len(rows.ids)
        for each, score in zip(rows.ids, scores, strict=True):
            found[kind, batch.stream, each, score] += 1
    return found
