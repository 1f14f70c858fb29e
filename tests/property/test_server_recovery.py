"""Producers, crashes and failing disks in any order: acked rows are kept, no row counts twice.

The oracle has the contents of each (producer, epoch, sequence) that was ever sent, and
reads from the disk which of them are logged. From these it recounts each stream, case
by case and id by id.
"""

from __future__ import annotations

import shutil
import tempfile
import zlib
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streameval import Evaluator
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server import Limits
from streameval_server._batch.merge import MergeInbox, stored_merge
from streameval_server._core.catalog import settings_in
from streameval_server._core.committer import CommitterState
from streameval_server._core.recovery import open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.rows import Kind
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import RequestError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMITS = Limits(
    apply_rows=5,
    max_lag_rows=20,
    max_commit_bytes=300,
    max_queue_bytes=3000,
    checkpoint_bytes=600,
    marks_ttl_us=1 << 60,
)
PRODUCERS = ("p", "q")
STREAMS = ("a", "b/1")


class Contents(NamedTuple):
    """The contents of a batch: one kind of rows."""

    stream: str
    cases: Sequence[tuple[float, bool]] = ()
    misses: int = 0
    predictions: Sequence[tuple[str, float]] = ()
    labels: Sequence[tuple[str, bool]] = ()
    retractions: Sequence[str] = ()


class StreamRecount:
    """A recount of one stream."""

    def __init__(self) -> None:
        self.cases: list[tuple[float, bool]] = []
        self.misses = 0
        self.scores: dict[str, float] = {}
        self.labels: dict[str, bool] = {}
        self.epochs: dict[str, int] = {}

    def add(self, contents: Contents) -> None:
        self.cases += contents.cases
        self.misses += contents.misses
        for each, score in contents.predictions:
            self.scores.setdefault(each, score)
        self.labels |= dict(contents.labels)
        for each in contents.retractions:
            self.scores.pop(each, None)
            self.labels.pop(each, None)

    def rows(self) -> list[tuple[float, bool]]:
        """Return all cases, including those of ids with a prediction and a label."""
        joined = [
            (self.scores[each], self.labels[each]) for each in self.scores if each in self.labels
        ]
        return self.cases + joined


class FlakyMemory(MemoryStorage):
    """Fails the next write on request, after or without performing it."""

    fate: str | None = None

    def _write(self, write, *arguments) -> None:
        fate, self.fate = self.fate, None
        if fate != "lose":
            write(*arguments)
        if fate is not None:
            raise StorageError("disk I/O error")

    def append(self, rows) -> None:
        self._write(super().append, rows)

    def write_parts(self, rows) -> None:
        self._write(super().write_parts, rows)

    def write_manifest(self, manifest, superseded) -> None:
        self._write(super().write_manifest, manifest, superseded)


class Producer:
    """A client: resends unacked batches from the sequence that the server reports."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 1
        self.sent = 0
        self.acked = 0
        self.session: IngestSession | None = None


SCORES = st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0])
IDS = st.sampled_from(["x", "y", "z"])
cases = st.lists(st.tuples(SCORES, st.booleans()), max_size=4)
rows_of_ids = st.one_of(
    st.fixed_dictionaries({"cases": cases}),
    st.fixed_dictionaries({"misses": st.integers(0, 2)}),
    st.fixed_dictionaries({"predictions": st.lists(st.tuples(IDS, SCORES), max_size=3)}),
    st.fixed_dictionaries({"labels": st.lists(st.tuples(IDS, st.booleans()), max_size=3)}),
    st.fixed_dictionaries({"retractions": st.lists(IDS, max_size=2)}),
)


class Service(RuleBasedStateMachine):
    """One server on one disk, and two producers."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000_000_000
        self.storage = self.new_storage()
        self.core = open_core(self.storage, LIMITS)
        self.contents: dict[tuple[str, int, int], Contents | None] = {}
        self.merged: dict[bytes, Contents] = {}
        self.acked: set[tuple[str, int, int]] = set()
        self.unnamed: dict[bytes, Contents] = {}
        self.producers = {name: Producer(name) for name in PRODUCERS}

    def new_storage(self):
        return FlakyMemory()

    def crashed_storage(self):
        """Return the storage that a new process opens."""
        return self.storage

    # -- what producers do

    def session_of(self, name: str) -> IngestSession | None:
        producer = self.producers[name]
        if producer.session is not None and producer.session.error is not None:
            producer.session = None
        if producer.session is None:
            self.open(name)
        return producer.session

    @rule(name=st.sampled_from(PRODUCERS))
    def open(self, name: str) -> None:
        """Connect again; batches of the older connection may still be queued."""
        producer = self.producers[name]
        session = IngestSession(self.core.committer, LIMITS)
        request = pb.IngestRequest(open=pb.Open(producer=name, epoch=producer.epoch))
        try:
            session.feed(request.SerializeToString(), self.now)
        except RequestError:
            assert self.core.committer.state is not CommitterState.SERVING
            return
        while not (replies := session.replies()):
            if session.error is not None:
                return
            result = self.core.committer.step(self.now)
            result.deliver()
            if result.blocked:
                self.core.applier.step()
        (reply,) = replies
        assert reply.resume.last_sequence >= producer.acked
        assert reply.resume.last_sequence <= producer.sent
        producer.session = session
        for sequence in range(reply.resume.last_sequence + 1, producer.sent + 1):
            self.feed(producer, sequence)

    def feed(self, producer: Producer, sequence: int) -> None:
        contents = self.contents[producer.name, producer.epoch, sequence]
        assert producer.session is not None
        batch = message(sequence, contents)
        try:
            frame = pb.IngestRequest(batch=batch).SerializeToString()
            producer.session.feed(frame, self.now)
        except RequestError:
            producer.session = None

    @rule(
        name=st.sampled_from(PRODUCERS),
        stream=st.sampled_from(STREAMS),
        rows=rows_of_ids,
        good=st.integers(0, 5),
    )
    def send(self, name: str, stream: str, rows, good: int) -> None:
        """Send the next batch; one in six must be refused."""
        producer = self.producers[name]
        session = self.session_of(name)
        producer.sent += 1
        key = (name, producer.epoch, producer.sent)
        self.contents[key] = Contents(stream, **rows) if good else None
        if session is not None and producer.session is session:
            self.feed(producer, producer.sent)

    @rule(name=st.sampled_from(PRODUCERS), back=st.integers(1, 5))
    def repeat(self, name: str, back: int) -> None:
        """Send an old batch again."""
        producer = self.producers[name]
        sequence = producer.sent - back
        if self.session_of(name) is not None and sequence > 0 and producer.session is not None:
            self.feed(producer, sequence)

    @rule(name=st.sampled_from(PRODUCERS))
    def restart(self, name: str) -> None:
        """Restart with a higher epoch; the old connection stays."""
        producer = Producer(name)
        producer.epoch = self.producers[name].epoch + 1
        self.producers[name] = producer

    @rule(stream=st.sampled_from(STREAMS), rows=cases)
    def single(self, stream: str, rows) -> None:
        """Send a batch without a producer: it counts each time that it is logged."""
        contents = Contents(stream, cases=rows)
        frame = pb.IngestBatchRequest(batch=message(0, contents)).SerializeToString()
        self.unnamed[frame] = contents
        try:
            UnaryCall(self.core.committer, LIMITS).ingest_batch(frame, self.now)
        except RequestError:
            assert (
                self.core.committer.queued_bytes
                or self.core.committer.state is not CommitterState.SERVING
            )

    @rule(stream=st.sampled_from(STREAMS), rows=cases, epoch=st.integers(1, 4), source=IDS)
    def merge(self, stream: str, rows, epoch: int, source: str) -> None:
        """Merge a state; an epoch that is not new changes nothing."""
        evaluator = Evaluator()
        for score, label in rows:
            evaluator.add_case(label, score)
        state = pb.PaneState(event_time_us=self.now, evaluator=evaluator.to_bytes())
        data = pb.MergeStates(states=[state]).SerializeToString()
        inbox = MergeInbox(LIMITS)
        header = pb.MergeHeader(
            stream=stream,
            source=source,
            epoch=epoch,
            total_bytes=len(data),
            crc32=zlib.crc32(data),
        )
        inbox.feed(pb.MergeRequest(header=header))
        inbox.feed(pb.MergeRequest(data=data))
        committer = self.core.committer
        prepared = inbox.finish(self.now, settings_in(committer.catalog, inbox.header))
        self.merged[prepared[1]] = Contents(stream, cases=rows)
        try:
            UnaryCall(committer, LIMITS).merge(inbox, prepared)
        except RequestError:
            assert committer.queued_bytes or committer.state is not CommitterState.SERVING

    @rule(stream=st.sampled_from(STREAMS), seconds=st.sampled_from([600, 10**7]))
    def update(self, stream: str, seconds: int) -> None:
        """Change a setting that changes no count."""
        request = stream_pb2.UpdateStreamRequest(stream=stream_pb2.Stream(name=stream))
        request.stream.settings.retention.seconds = 86400 * 20 + seconds
        request.update_mask.paths.append("settings.retention")
        try:
            UnaryCall(self.core.committer, LIMITS).update_stream(request.SerializeToString())
        except RequestError:
            assert self.core.committer.state is not CommitterState.SERVING

    @rule(minutes=st.sampled_from([1, 5]))
    def wait(self, minutes: int) -> None:
        """Advance the time; panes may coarsen, and a tick may be logged."""
        self.now += minutes * 60_000_000

    @rule(stream=st.sampled_from(STREAMS), new=st.booleans())
    def administer(self, stream: str, new: bool) -> None:
        """Make or delete a stream."""
        call = UnaryCall(self.core.committer, LIMITS)
        try:
            if new:
                named = stream_pb2.Stream(name=stream)
                call.create_stream(stream_pb2.CreateStreamRequest(stream=named).SerializeToString())
            else:
                call.delete_stream(stream_pb2.DeleteStreamRequest(name=stream).SerializeToString())
        except RequestError:
            pass

    # -- what the server does

    @rule()
    def commit(self) -> None:
        """Run one step of the committer, and deliver its outcomes."""
        self.now += 1
        self.core.committer.step(self.now).deliver()
        for producer in self.producers.values():
            if producer.session is not None:
                self.listen(producer)

    def listen(self, producer: Producer) -> None:
        for reply in producer.session.replies():
            if reply.HasField("refused"):
                key = (producer.name, producer.epoch, reply.refused.sequence)
                assert self.contents[key] is None
            else:
                for sequence in range(producer.acked + 1, reply.ack.last_sequence + 1):
                    self.acked.add((producer.name, producer.epoch, sequence))
                producer.acked = max(producer.acked, reply.ack.last_sequence)
                assert reply.ack.revision <= self.core.committer.revision

    @rule()
    def apply(self) -> None:
        """Run one step of the applier."""
        self.core.applier.step()

    @rule()
    def checkpoint(self) -> None:
        """Ask for a checkpoint; later steps take and write it."""
        self.core.applier.request_checkpoint()

    @rule()
    def recover(self) -> None:
        """Open the disk again after a failure."""
        self.core.committer.recover()

    @rule()
    def crash(self) -> None:
        """Kill the server between two steps, and start it again."""
        self.storage = self.crashed_storage()
        self.core = open_core(self.storage, LIMITS)
        for producer in self.producers.values():
            producer.session = None

    @rule()
    def stop(self) -> None:
        """Stop the server gracefully, and start it again: all that was queued is durable."""
        self.core.drain(self.now)
        for producer in self.producers.values():
            if producer.session is not None:
                self.listen(producer)
                producer.session = None
        if self.core.committer.state is CommitterState.SERVING:
            assert self.core.committer.queued_bytes == 0
        self.core = open_core(self.storage, LIMITS)

    # -- invariants

    @invariant()
    def whatever_was_acked_is_durable_once(self) -> None:
        """Sequences on the disk have no gaps and no duplicates, and include the acked ones."""
        if self.core.committer.state is not CommitterState.SERVING:
            return
        durable = self.durable_keys()
        assert len(set(durable)) == len(durable)
        assert self.acked <= set(durable)
        last: dict[str, tuple[int, int]] = {}
        for name, epoch, sequence in durable:
            epoch_before, before = last.get(name, (0, 0))
            if sequence:
                assert (epoch, sequence) == (epoch_before, before + 1)
            else:  # the start of an epoch
                assert epoch > epoch_before
            last[name] = (epoch, sequence)

    @invariant()
    def what_is_visible_is_a_prefix_of_the_log(self) -> None:
        """Compare the counts at the applied revision with a recount of the log up to it."""
        engine = self.core.engine
        assert engine.revision <= max(self.core.committer.revision, 0)
        wanted = self.counted(engine.revision)
        assert [info.name for info in engine.streams()] == sorted(wanted)
        for name, counted in wanted.items():
            evaluator = engine.view(name).evaluator
            rows, misses = counted.rows(), counted.misses
            assert evaluator.num_scored == len(rows)
            assert evaluator.num_misses == misses
            panes = engine.view(name).whole.panes
            assert sum(pane.evaluator.num_scored for pane in panes) == len(rows)
            if any(label for _, label in rows) and not all(label for _, label in rows):
                assert evaluator.auc_roc() == pytest.approx(
                    float(wilcoxon(rows, misses)), abs=1e-12
                )

    def durable_keys(self) -> list[tuple[str, int, int]]:
        rows = self.storage.read(0)
        return [(row.producer, row.epoch, row.sequence) for row in rows if row.producer]

    def counted(self, until: int) -> dict[str, StreamRecount]:
        """Recount the log's first rows from the sent contents, not from the stored ones."""
        streams: dict[str, StreamRecount] = {}
        for row in self.storage.read(0):
            if row.revision > until:
                break
            if row.kind == Kind.CREATE_STREAM:
                streams[row.stream] = StreamRecount()
            elif row.kind == Kind.DELETE_STREAM:
                del streams[row.stream]
            elif row.kind == Kind.MERGE:
                stream = streams.setdefault(row.stream, StreamRecount())
                stream.add(self.merged[row.payload])
                header = stored_merge(row.payload)
                assert header.epoch > stream.epochs.get(header.source, 0)
                stream.epochs[header.source] = header.epoch
            elif row.kind in {Kind.BATCH, Kind.REFUSED}:
                key = (row.producer, row.epoch, row.sequence)
                contents = self.contents[key] if row.producer else self.unnamed[row.payload]
                assert (contents is None) == (row.kind == Kind.REFUSED)
                if contents is not None and any(contents[1:]):
                    streams.setdefault(contents.stream, StreamRecount()).add(contents)
        return streams

    def teardown(self) -> None:
        """Check at the end that a checkpoint and a replay of the whole log agree bit by bit."""
        if self.core.committer.state is CommitterState.FAILED:
            self.core.committer.recover()
        self.core.applier.finish()
        self.core.drain(self.now)
        wanted = self.core.engine.state_hash()
        assert self.core.committer.marks.to_bytes() == self.core.engine.marks.to_bytes()
        again = open_core(self.storage, LIMITS)
        assert again.engine.state_hash() == wanted
        replayed = MemoryStorage()
        replayed.append(list(self.storage.read(0)))
        assert open_core(replayed, LIMITS).engine.state_hash() == wanted
        self.storage.close()


class FlakyService(Service):
    """In memory, with a disk that fails."""

    @precondition(lambda self: self.core.committer.state is CommitterState.SERVING)
    @rule(fate=st.sampled_from(["keep", "lose"]))
    def disturb(self, fate: str) -> None:
        """Let the next write fail, after it was done or before."""
        self.storage.fate = fate

    def teardown(self) -> None:
        """Let the disk work again."""
        self.storage.fate = None
        super().teardown()


class SqliteService(Service):
    """On SQLite; a crash leaves the files as they are at that moment."""

    def new_storage(self):
        self.root = Path(tempfile.mkdtemp())
        self.lives = 0
        return SqliteStorage(self.root / "log.db")

    def crashed_storage(self):
        self.lives += 1
        directory = self.root / str(self.lives)
        directory.mkdir()
        for suffix in ("", "-wal"):
            source = Path(f"{self.storage._path}{suffix}")
            if source.exists():
                shutil.copy(source, directory / f"log.db{suffix}")
        self.storage.close()
        return SqliteStorage(directory / "log.db")

    def teardown(self) -> None:
        """Leave no files behind."""
        super().teardown()
        shutil.rmtree(self.root)


def message(sequence: int, contents: Contents | None) -> pb.Batch:
    if contents is None:
        bad = pb.Cases(scores=[float("nan")], positives=[True])
        return pb.Batch(sequence=sequence, stream="a", cases=bad)
    batch = pb.Batch(sequence=sequence, stream=contents.stream)
    if contents.misses:
        batch.misses.positives = contents.misses
    elif contents.predictions:
        ids, scores = zip(*contents.predictions, strict=True)
        batch.predictions.CopyFrom(pb.Predictions(ids=ids, scores=scores))
    elif contents.labels:
        ids, positives = zip(*contents.labels, strict=True)
        batch.labels.CopyFrom(pb.Labels(ids=ids, positives=positives))
    elif contents.retractions:
        batch.retractions.ids.extend(contents.retractions)
    else:
        scores, positives = [row[0] for row in contents.cases], [row[1] for row in contents.cases]
        batch.cases.CopyFrom(pb.Cases(scores=scores, positives=positives))
    return batch


def wilcoxon(rows: list[tuple[float, bool]], misses: int) -> Fraction:
    """Return the share of pairs in the right order, ties at half; misses rank last."""
    positives = [score for score, label in rows if label] + [float("-inf")] * misses
    negatives = [score for score, label in rows if not label]
    won = sum(Fraction(2 * (p > n) + (p == n), 2) for p in positives for n in negatives)
    return won / (len(positives) * len(negatives))


TestFlakyService = FlakyService.TestCase
TestFlakyService.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestSqliteService = SqliteService.TestCase
TestSqliteService.settings = settings(max_examples=10, stateful_step_count=40, deadline=None)
