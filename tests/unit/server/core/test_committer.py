"""The committer: group commits, limits at commit time, and what a failed commit means."""

from __future__ import annotations

import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import pair_pb2, status_pb2, stream_pb2
from streameval_server import Limits
from streameval_server._core.committer import CommitterState
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.rows import Kind
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import Code, RequestError, StorageError

from ..sessions import opened

NOW = 1_800_000_000_000_000


class FlakyStorage(MemoryStorage):
    """Fails as `fail` says: with the rows kept or lost, in a checkpoint, or when it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.fail: str | None = None
        self.closed = False
        self.appends = 0

    def open(self) -> None:
        if self.fail == "open":
            raise StorageError("no disk")
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def append(self, rows) -> None:
        assert not self.closed
        self.appends += 1
        if self.fail == "keep":
            super().append(rows)
        if self.fail is not None:
            raise StorageError("disk I/O error")
        super().append(rows)

    def write_parts(self, rows) -> None:
        if self.fail == "parts":
            raise StorageError("disk full")
        super().write_parts(rows)


def frame(sequence, rows=1, stream="s") -> bytes:
    cases = pb.Cases(scores=[0.5] * rows, positives=[True] * rows)
    batch = pb.Batch(sequence=sequence, stream=stream, cases=cases)
    return pb.IngestRequest(batch=batch).SerializeToString()


def counted(core: ServerCore, stream="s") -> int:
    core.applier.finish()
    view = core.engine.view(stream)
    return 0 if view is None else view.evaluator.num_cases


def test_one_step_is_one_transaction():
    """All queued batches are written by one append."""
    storage = FlakyStorage()
    core = open_core(storage, Limits())
    sessions = [opened(core, producer)[0] for producer in "abc"]
    for sequence in (1, 2):
        for session in sessions:
            session.feed(frame(sequence), NOW)
    storage.appends = 0
    result = core.committer.step(NOW)
    assert storage.appends == 1
    assert len(result.outcomes) == 6
    assert (result.pushed, result.more, result.blocked) == (True, False, False)
    assert core.committer.step(NOW) == type(result)()


def test_a_transaction_has_a_size():
    """A long queue is committed in several transactions, each with its own acks."""
    core = open_core(MemoryStorage(), Limits(max_commit_bytes=2 * len(frame(1))))
    session, _ = opened(core)
    for sequence in range(1, 6):
        session.feed(frame(sequence), NOW)
    sizes = []
    while core.committer.queued_bytes:
        result = core.committer.step(NOW)
        sizes.append((len(result.outcomes), result.more))
    assert sizes == [(2, True), (2, True), (1, False)]


def test_time_never_goes_back():
    """The log's time follows the clock, except when the clock is set back."""
    core = open_core(MemoryStorage(), Limits())
    session, _ = opened(core)
    for sequence, now in enumerate([NOW, NOW - 10, NOW + 5], 1):
        session.feed(frame(sequence), now)
        core.committer.step(now)
    assert [row.received_us for row in core.storage.rows[1:]] == [NOW, NOW, NOW + 5]
    core.applier.finish()
    again = open_core(core.storage, Limits())
    session, _ = opened(again)
    session.feed(frame(4), NOW)
    again.committer.step(NOW)
    assert core.storage.rows[-1].received_us == NOW + 5


def test_a_lagging_engine_blocks_the_queue():
    """Above the limit nothing is committed until the engine has caught up."""
    core = open_core(MemoryStorage(), Limits(max_lag_rows=4))
    session, _ = opened(core)
    session.feed(frame(1, rows=4), NOW)
    core.committer.step(NOW)
    session.feed(frame(2), NOW)
    result = core.committer.step(NOW)
    assert result.blocked
    assert not result.more
    assert core.committer.revision == 2
    core.applier.finish()
    assert not core.committer.step(NOW).blocked
    assert core.committer.revision == 3


@pytest.mark.parametrize("fate", ["keep", "lose"])
def test_after_a_failed_commit_the_log_says_what_is_true(fate):
    """Nothing is acked; rows that proved durable count; the producer resumes after them."""
    storage = FlakyStorage()
    core = open_core(storage, Limits())
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    core.committer.step(NOW).deliver()
    assert session.replies()[0].ack.last_sequence == 1
    storage.fail = fate
    session.feed(frame(2), NOW)
    session.feed(frame(3), NOW)
    core.committer.step(NOW).deliver()
    assert core.committer.state is CommitterState.FAILED
    assert str(core.committer.error) == "disk I/O error"
    assert storage.closed
    assert session.replies() == []
    assert session.error.code == Code.UNAVAILABLE
    assert session.error.retry_after_s > 0
    assert core.committer.queued_bytes == 0
    with pytest.raises(RequestError, match="disk failed"):
        opened(core)
    assert core.committer.step(NOW).outcomes == []  # serves nothing, changes nothing

    storage.fail = "open"
    core.committer.recover()
    assert core.committer.state is CommitterState.FAILED
    assert str(core.committer.error) == "no disk"

    storage.fail = None
    result = core.committer.recover()
    assert core.committer.state is CommitterState.SERVING
    assert core.committer.error is None
    assert result.pushed == (fate == "keep")
    session, last = opened(core)
    assert last == (3 if fate == "keep" else 1)
    for sequence in range(last + 1, 5):
        session.feed(frame(sequence), NOW)
    core.committer.step(NOW)
    assert counted(core) == 4
    assert open_core(storage, Limits()).engine.state_hash() == core.engine.state_hash()


@pytest.mark.parametrize("fate", ["keep", "lose"])
def test_rows_are_counted_by_kind_once_they_are_durable(fate):
    """Repeated batches count once; batches from before the start are not included."""
    batches = [
        pb.Batch(cases=pb.Cases(scores=[1, 2, 3], positives=[True] * 3, counts=[7, 8, 9])),
        pb.Batch(predictions=pb.Predictions(ids=["a", "b"], scores=[1, 2])),
        pb.Batch(labels=pb.Labels(ids=["a", "b", "c", "d"], positives=[True] * 4)),
        pb.Batch(retractions=pb.Retractions(ids=["a"])),
        pb.Batch(misses=pb.Misses(positives=5, negatives=6)),
        pb.Batch(cases=pb.Cases()),
        pb.Batch(cases=pb.Cases(scores=[float("nan")], positives=[True])),  # refused by the session
        pb.Batch(stream="t", misses=pb.Misses(positives=1)),  # refused at commit: stream too many
    ]
    storage = FlakyStorage()
    core = open_core(storage, Limits(max_streams=1))
    session, last = opened(core)
    for storage.fail in (None, fate):
        for sequence, batch in enumerate(batches, last + 1):
            batch.sequence = sequence
            batch.stream = batch.stream or "s"
            session.feed(pb.IngestRequest(batch=batch).SerializeToString(), NOW)
        core.committer.step(NOW)
        last = len(batches)
    committer = core.committer
    once = {"cases": 3, "predictions": 2, "labels": 4, "retractions": 1, "misses": 1}
    assert (committer.batch_rows, committer.refused_batches) == (once, 2)
    storage.fail = None
    committer.recover()
    session, last = opened(core)
    for sequence, batch in enumerate(batches, len(batches) + 1):
        batch.sequence = sequence
        if sequence > last:
            session.feed(pb.IngestRequest(batch=batch).SerializeToString(), NOW)
    committer.step(NOW)
    again, _ = opened(core)  # sends all batches again
    for sequence, batch in enumerate(batches * 2, 1):
        batch.sequence = sequence
        again.feed(pb.IngestRequest(batch=batch).SerializeToString(), NOW)
    committer.step(NOW)
    twice = {kind: 2 * rows for kind, rows in once.items()}
    assert (committer.batch_rows, committer.refused_batches) == (twice, 4)
    started_again = open_core(storage, Limits(max_streams=1)).committer
    assert set(started_again.batch_rows.values()) == {started_again.refused_batches} == {0}


def test_the_queue_behind_a_failed_commit_fails_too():
    """The queue is emptied: its producers reconnect and resume from the marks."""
    storage = FlakyStorage()
    core = open_core(storage, Limits(max_commit_bytes=1))
    sessions = [opened(core, producer)[0] for producer in "ab"]
    for session in sessions:
        session.feed(frame(1), NOW)
    storage.fail = "lose"
    core.committer.step(NOW).deliver()
    assert [session.error.code for session in sessions] == [Code.UNAVAILABLE] * 2
    with pytest.raises(RequestError) as caught:
        sessions[0].feed(frame(2), NOW)
    assert caught.value.code == Code.UNAVAILABLE


def test_a_log_that_lost_acked_entries_stops_the_server():
    """To continue would give wrong answers: BROKEN."""
    storage = FlakyStorage()
    core = open_core(storage, Limits())
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    core.committer.step(NOW)
    session.feed(frame(2), NOW)
    storage.fail = "lose"
    core.committer.step(NOW)
    storage.fail = None
    storage.rows.clear()
    core.committer.recover()
    assert core.committer.state is CommitterState.BROKEN
    assert str(core.committer.error) == "the log ends at revision 0, but 2 was acknowledged"


def test_a_failed_checkpoint_is_a_failed_write():
    """Acks stop until the storage was read back; the previous checkpoint stays current."""
    storage = FlakyStorage()
    core = open_core(storage, Limits())
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    core.drain(NOW)
    assert core.committer.checkpoint_revision == 2
    core = open_core(storage, Limits())
    session, _ = opened(core)
    session.feed(frame(2), NOW)
    core.committer.step(NOW)
    core.applier.request_checkpoint()
    core.applier.finish()
    storage.fail = "parts"
    core.committer.step(NOW)
    assert core.committer.state is CommitterState.FAILED
    storage.fail = None
    core.committer.recover()
    assert core.committer.checkpoint_revision == 2
    assert not core.applier.checkpoint_pending
    session, _ = opened(core)
    session.feed(frame(3), NOW)
    core.drain(NOW)
    assert core.committer.checkpoint_revision == 4
    assert open_core(storage, Limits()).engine.state_hash() == core.engine.state_hash()


@pytest.mark.parametrize("failing", ["lose", "parts"])
@pytest.mark.parametrize("damaged", ["part", "manifest"])
def test_a_damaged_checkpoint_is_not_used_after_a_failed_write(damaged, failing):
    """The start used the whole log instead; the next checkpoint writes every part."""
    storage = FlakyStorage()
    core = open_core(storage, Limits())
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    core.drain(NOW)
    if damaged == "part":
        storage.parts["stream/s", 2][0] += b"!"
    else:
        storage._manifest += b"!"
    core = open_core(storage, Limits())
    assert core.recovery.checkpoint_error is not None
    session, _ = opened(core)
    if failing == "parts":
        # A checkpoint at the same revision, so its manifest equals the damaged one.
        core.applier.request_checkpoint()
        core.applier.finish()
    else:
        session.feed(frame(2), NOW)
    storage.fail = failing
    core.committer.step(NOW).deliver()
    assert core.committer.state is CommitterState.FAILED
    storage.fail = None
    core.committer.recover()
    assert core.committer.state is CommitterState.SERVING
    assert core.committer.checkpoint_revision == 0
    session, _ = opened(core)
    session.feed(frame(2, stream="t"), NOW)
    core.drain(NOW)
    again = open_core(storage, Limits())
    assert again.recovery.checkpoint_error is None
    assert again.recovery.checkpoint_revision == 3
    assert (counted(again), counted(again, "t")) == (1, 1)


def test_unknown_streams_without_auto_create():
    """NOT_FOUND, durably; an empty batch does nothing and needs no stream."""
    core = open_core(MemoryStorage(), Limits(), auto_create=False)
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    session.feed(frame(2, rows=0), NOW)
    core.committer.step(NOW).deliver()
    refused, ack = session.replies()
    message = (
        "there is no stream s, and this server makes none on first use: make it with CreateStream "
        "(streameval streams create), and send the rows again"
    )
    assert refused.refused.refusal == status_pb2.Refusal(
        code=Code.NOT_FOUND,
        message=message,
        violations=[status_pb2.FieldViolation(field="stream", description=message)],
    )
    assert ack.ack.last_sequence == 2
    assert [row.kind for row in core.storage.rows] == [Kind.OPEN, Kind.REFUSED, Kind.BATCH]
    assert counted(core) == 0


def test_one_stream_too_many():
    """The commit enforces the limit, also between items of one transaction."""
    core = open_core(MemoryStorage(), Limits(max_streams=2))
    session, _ = opened(core)
    for sequence, stream in enumerate("abca", 1):
        session.feed(frame(sequence, stream=stream), NOW)
    core.committer.step(NOW).deliver()
    refused, _ = session.replies()
    assert refused.refused.sequence == 3
    assert refused.refused.refusal.code == Code.RESOURCE_EXHAUSTED
    assert refused.refused.refusal.message == "there are 2 streams, the most allowed: delete one"
    assert [counted(core, stream) for stream in "abc"] == [2, 1, 0]
    call = UnaryCall(core.committer, core.limits)
    call.create_stream(b"\n\x03\n\x01d")
    core.committer.step(NOW).deliver()
    with pytest.raises(RequestError) as caught:
        call.response()
    assert caught.value.code == Code.RESOURCE_EXHAUSTED


def test_counts_that_would_overflow_are_refused():
    """What validation accepts, apply can apply: totals stay below 2**62."""
    core = open_core(MemoryStorage(), Limits())
    half = pb.Batch(stream="s", misses=pb.Misses(positives=2**61))
    calls = []
    for batch in (half, half, pb.Batch(stream="s", misses=pb.Misses(positives=2**61 - 1))):
        call = UnaryCall(core.committer, core.limits)
        call.ingest_batch(pb.IngestBatchRequest(batch=batch).SerializeToString(), NOW)
        calls.append(call)
    core.committer.step(NOW).deliver()
    calls[0].response()
    with pytest.raises(RequestError, match=r"stream s would hold 4611686018427387904 references"):
        calls[1].response()
    calls[2].response()
    core.applier.finish()
    assert core.engine.view("s").evaluator.num_positive_ref == 2**62 - 1


def test_draining_commits_applies_and_checkpoints():
    """After a graceful stop nothing has to be replayed."""
    storage = FlakyStorage()
    core = open_core(storage, Limits(max_lag_rows=1, max_commit_bytes=1))
    session, _ = opened(core)
    for sequence in range(1, 6):
        session.feed(frame(sequence), NOW)
    core.drain(NOW)
    assert storage.closed
    assert session.replies()[0].ack.last_sequence == 5
    again = open_core(storage, Limits())
    assert (again.recovery.checkpoint_revision, again.recovery.replayed) == (6, 0)
    assert counted(again) == 5


def test_a_pair_is_deleted_only_as_the_caller_found_it():
    """Another one of its name, made since, stays; a repeated request is answered as before."""
    core = open_core(MemoryStorage(), Limits())

    def settled(submit):
        call = UnaryCall(core.committer, core.limits)
        submit(call)
        core.committer.step(1_000).deliver()
        core.applier.finish()
        return call.response()

    for name in ("a", "b", "c"):
        made = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
        settled(lambda call, made=made: call.create_stream(made.SerializeToString()))
    pair = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a="a", b="b"), pair_id="p")
    settled(lambda call: call.create_pair(pair.SerializeToString()))
    gone = pair_pb2.DeletePairRequest(name="p", request_id="gone").SerializeToString()
    for sides in (None, ("a", "c"), ("c", "b"), ("b", "a")):
        with pytest.raises(RequestError, match="there is no pair p") as caught:
            settled(lambda call, sides=sides: call.delete_pair(gone, sides))
        assert caught.value.reason == "NO_PAIR"
    info = core.engine.pairs.info("p")
    assert info is not None
    assert not settled(lambda call: call.delete_pair(gone, ("a", "b"))).duplicate
    assert settled(lambda call: call.delete_pair(gone, None)).duplicate
    assert core.engine.pair_view("p") is None
    settled(lambda call: call.create_pair(pair.SerializeToString()))
    assert core.engine.export_pair(info) is None
    assert core.committer.catalog == core.engine.catalog()
