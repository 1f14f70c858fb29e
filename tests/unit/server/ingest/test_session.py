"""The Ingest protocol: resume, acks, repeats, gaps, fencing, refusals."""

from __future__ import annotations

import math

import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.rows import Kind
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import Code, RequestError

from ..sessions import NOW, batch, commit, counted, frame, opened


def acks(session: IngestSession) -> list[tuple[int, int]]:
    return [(reply.ack.last_sequence, reply.ack.revision) for reply in session.replies()]


@pytest.fixture
def core() -> ServerCore:
    return open_core(MemoryStorage(), Limits())


def test_resume_tells_the_limits():
    """Resume has the last durable sequence, the limits and the server's time."""
    limits = Limits(max_batch_rows=7, max_batch_bytes=8, max_inflight_bytes=9)
    core = open_core(MemoryStorage(), limits)
    session = IngestSession(core.committer, limits)
    session.feed(pb.IngestRequest(open=pb.Open(producer="p", epoch=1)).SerializeToString(), NOW)
    commit(core)
    assert core.recovery.history.number > 0
    expected = pb.Resume(
        last_sequence=0,
        max_batch_rows=7,
        max_batch_bytes=8,
        max_inflight_bytes=9,
        revision=1,
        time_us=NOW,
        history=core.recovery.history.number,
    )
    assert session.replies() == [pb.IngestResponse(resume=expected)]


def test_acks_are_cumulative_and_carry_the_revision(core):
    """One ack covers all batches of a commit."""
    woken = []
    session, _ = opened(core, wake=lambda: woken.append(1))
    for sequence in (1, 2, 3):
        session.feed(frame(sequence), NOW)
    assert not session.idle
    assert session.replies() == []
    woken.clear()
    commit(core)
    assert woken
    assert acks(session) == [(3, 4)]
    assert session.idle
    assert session.replies() == []
    assert counted(core) == 6


def test_an_ack_means_durable_and_not_visible(core):
    """The ack follows the commit; the engine applies the rows afterwards."""
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    core.committer.step(NOW).deliver()
    assert acks(session) == [(1, 2)]
    assert core.engine.revision == 1
    core.applier.finish()
    assert core.engine.revision == 2


def test_repeats_are_acked_and_change_nothing(core):
    """A repeat is acked in the same stream and in a new one."""
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    session.feed(frame(1), NOW)  # in flight: the first copy's ack covers it
    commit(core)
    assert acks(session) == [(1, 2)]
    session.feed(frame(1), NOW)
    assert acks(session) == [(1, 2)]
    session, last = opened(core)
    assert last == 1
    session.feed(frame(1), NOW)
    session.feed(frame(2), NOW)
    commit(core)
    assert acks(session) == [(2, 3)]
    assert counted(core) == 4


def test_an_older_streams_batches_still_in_the_queue_count_once(core):
    """The committer detects the repeat at commit, when the new stream could not."""
    older, _ = opened(core)
    older.feed(frame(1), NOW)
    older.feed(frame(2), NOW)
    newer, last = opened(core)
    assert last == 0
    for sequence in (1, 2, 3):
        newer.feed(frame(sequence), NOW)
    commit(core)
    assert acks(newer) == [(3, 4)]
    assert acks(older) == [(2, 3)]
    assert counted(core) == 6


@pytest.mark.parametrize("sequence", [0, 3, 2**63, 2**64 - 1])
def test_a_gap_ends_the_stream_and_names_what_was_expected(core, sequence):
    """A gap is OUT_OF_RANGE; earlier batches still count."""
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    with pytest.raises(RequestError) as caught:
        session.feed(frame(sequence), NOW)
    error = caught.value
    assert error.code == Code.OUT_OF_RANGE
    assert error.message == f"sequence {sequence} leaves a gap: expected 2"
    assert error.reason == "SEQUENCE_GAP"
    assert error.metadata == {"expected_sequence": "2"}
    commit(core)
    assert counted(core) == 2


def test_a_lower_epoch_is_fenced_when_it_opens(core):
    """The process with the higher epoch owns the producer's name."""
    session, _ = opened(core, epoch=5)
    session.feed(frame(1), NOW)
    commit(core)
    with pytest.raises(RequestError) as caught:
        opened(core, epoch=4)
    assert caught.value.code == Code.FAILED_PRECONDITION
    assert caught.value.reason == "EPOCH_FENCED"
    assert caught.value.message == "producer p has epoch 5 by now: epoch 4 cannot send any more"
    assert caught.value.metadata == {"current_epoch": "5"}


def test_a_lower_epoch_is_fenced_while_it_sends(core):
    """An open stream ends, and counts nothing more, once its successor has started."""
    older, _ = opened(core, epoch=5)
    newer, last = opened(core, epoch=6)
    assert last == 0
    newer.feed(frame(1), NOW)
    older.feed(frame(1), NOW)
    commit(core)
    assert acks(newer) == [(1, 3)]
    assert older.replies() == []
    assert older.error.code == Code.FAILED_PRECONDITION
    with pytest.raises(RequestError):
        older.feed(frame(2), NOW)
    assert counted(core) == 2


def test_a_higher_epoch_fences_before_it_sends(core):
    """Its start is durable before it is answered, so the fence holds after a crash too."""
    older, _ = opened(core, epoch=5)
    older.feed(frame(1), NOW)
    commit(core)
    opened(core, epoch=6)
    older.feed(frame(2), NOW)
    commit(core)
    assert older.error.reason == "EPOCH_FENCED"
    for again in (core, open_core(core.storage, core.limits)):
        with pytest.raises(RequestError, match="has epoch 6 by now: epoch 5 cannot send"):
            opened(again, epoch=5)
    assert counted(core) == 2


def test_two_starts_of_an_epoch_are_one(core):
    """A client that connects again before its first start is durable."""
    sessions = [IngestSession(core.committer, core.limits) for _ in range(2)]
    for session in sessions:
        session.feed(pb.IngestRequest(open=pb.Open(producer="p", epoch=6)).SerializeToString(), NOW)
    sessions[0].feed(frame(1), NOW)
    commit(core)
    first, second = (session.replies() for session in sessions)
    assert [reply.WhichOneof("message") for reply in first] == ["resume", "ack"]
    assert [reply.resume.last_sequence for reply in second] == [1]
    assert [row.kind for row in core.storage.rows] == [Kind.OPEN, Kind.BATCH]


def test_a_start_after_a_higher_one_in_the_queue_is_fenced(core):
    """Both are new to the server when they arrive."""
    sessions = [IngestSession(core.committer, core.limits) for _ in range(2)]
    for session, epoch in zip(sessions, (6, 5), strict=True):
        opening = pb.Open(producer="p", epoch=epoch)
        session.feed(pb.IngestRequest(open=opening).SerializeToString(), NOW)
    commit(core)
    assert sessions[0].replies()[0].resume.revision == 1
    assert sessions[1].error.reason == "EPOCH_FENCED"


OTHER = {"scores": (0.8, 0.2)}


def test_a_sequence_with_other_content_ends_the_stream(core):
    """While the first copy is in flight, once it is acknowledged, on another connection."""
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    session.feed(frame(1, **OTHER), NOW)
    commit(core)
    assert session.error.code == Code.FAILED_PRECONDITION
    assert session.error.reason == "SEQUENCE_REUSED"
    assert "producer p has sent sequence 1 of epoch 1 with another content" in str(session.error)

    session, last = opened(core)
    assert last == 1
    session.feed(frame(1), NOW)
    assert acks(session) == [(1, 2)]
    with pytest.raises(RequestError, match="with another content"):
        session.feed(frame(1, **OTHER), NOW)

    older, _ = opened(core)
    newer, _ = opened(core)
    older.feed(frame(2), NOW)
    newer.feed(frame(2, **OTHER), NOW)
    commit(core)
    assert acks(older) == [(2, 3)]
    assert newer.error.reason == "SEQUENCE_REUSED"
    assert counted(core) == 4


@pytest.mark.parametrize("checkpoint", [False, True])
def test_content_is_compared_after_a_restart(core, checkpoint):
    """By single calls too, from the log alone and from a checkpoint: the same state."""

    def send(core: ServerCore, content: pb.Batch) -> UnaryCall:
        call = UnaryCall(core.committer, core.limits)
        request = pb.IngestBatchRequest(producer="p", epoch=1, batch=content)
        call.ingest_batch(request.SerializeToString(), NOW)
        commit(core)
        return call

    send(core, batch(1)).response()
    if checkpoint:
        core.drain(NOW)
    again = open_core(core.storage, core.limits)
    assert (again.recovery.checkpoint_revision > 0) == checkpoint
    assert again.engine.state_hash() == core.engine.state_hash()
    assert send(again, batch(1)).response().duplicate
    with pytest.raises(RequestError, match="with another content"):
        send(again, batch(1, **OTHER)).response()
    # The same batch on a stream: its request differs, its content does not.
    session, last = opened(again)
    assert last == 1
    session.feed(frame(1), NOW)
    assert acks(session) == [(1, 1)]
    assert counted(again) == 2


def test_a_repetition_that_would_be_refused_by_now_is_a_duplicate(core):
    """A valid batch has become too old; it is durable all the same."""
    cases = pb.Cases(scores=(0.9, 0.1), positives=(True, False), event_times_us=(NOW,))
    sent = pb.Batch(sequence=1, stream="s", cases=cases)
    request = pb.IngestBatchRequest(producer="p", epoch=1, batch=sent).SerializeToString()
    for now in (NOW, NOW + 10 * 366 * 86_400_000_000):
        call = UnaryCall(core.committer, core.limits)
        call.ingest_batch(request, now)
        core.committer.step(now).deliver()
        assert call.response().duplicate == (now > NOW)


def test_a_repeat_of_a_refused_batch_is_refused_whatever_it_holds(core):
    """Its sequence is consumed; the log does not have its content."""
    session, _ = opened(core)
    session.feed(frame(1, scores=[0.5, math.nan]), NOW)
    commit(core)
    first, _ = session.replies()
    session.feed(frame(1), NOW)
    again, _ = session.replies()
    assert again == first
    assert counted(core) == 0


def test_a_higher_epoch_starts_at_one(core):
    """A restarted producer does not need to know what it sent before."""
    session, _ = opened(core, epoch=5)
    session.feed(frame(1), NOW)
    commit(core)
    session, last = opened(core, epoch=6)
    assert last == 0
    session.feed(frame(1), NOW)
    commit(core)
    assert counted(core) == 4


def test_producers_do_not_share_sequences(core):
    """Each producer has its own sequences, across streams."""
    a, _ = opened(core, "a")
    b, _ = opened(core, "b")
    a.feed(frame(1, stream="x"), NOW)
    b.feed(frame(1, stream="x"), NOW)
    a.feed(frame(2, stream="y"), NOW)
    commit(core)
    assert (counted(core, "x"), counted(core, "y")) == (4, 2)


def test_a_refused_batch_consumes_its_sequence_durably(core):
    """The stream continues; a restarted server repeats its refusals in Resume."""
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    session.feed(frame(2, scores=[0.5, math.nan]), NOW)
    session.feed(frame(3), NOW)
    commit(core)
    refused, ack = session.replies()
    assert refused.refused.sequence == 2
    assert refused.refused.revision == 3
    assert refused.refused.refusal.code == Code.INVALID_ARGUMENT
    assert refused.refused.refusal.message == "score must be finite, got nan at index 1"
    assert refused.refused.refusal.violations[0].field == "cases.scores[1]"
    assert ack.ack == pb.Ack(last_sequence=3, revision=4)
    assert counted(core) == 4
    core = open_core(core.storage, core.limits)
    session = IngestSession(core.committer, core.limits)
    session.feed(pb.IngestRequest(open=pb.Open(producer="p", epoch=1)).SerializeToString(), NOW)
    (reply,) = session.replies()
    assert reply.resume.last_sequence == 3
    assert list(reply.resume.refused) == [refused.refused]
    for sequence in (1, 2):
        session.feed(frame(sequence), NOW)
    again, ack = session.replies()
    assert again == refused
    assert ack.ack == pb.Ack(last_sequence=3, revision=4)
    assert counted(core) == 4
    assert opened(core, epoch=2)[1] == 0


def test_a_repeat_of_what_is_refused_in_the_same_commit_is_refused(core):
    """A newer connection repeats a batch that an older one still has in the queue."""
    older, _ = opened(core)
    older.feed(frame(1, scores=[0.5, math.nan]), NOW)
    newer, last = opened(core)
    assert last == 0
    newer.feed(frame(1, scores=[0.5, math.nan]), NOW)
    newer.feed(frame(2), NOW)
    commit(core)
    refused, ack = newer.replies()
    assert (refused.refused.sequence, refused.refused.revision) == (1, 2)
    assert refused.refused.refusal.message == "score must be finite, got nan at index 1"
    assert ack.ack == pb.Ack(last_sequence=2, revision=3)
    assert counted(core) == 2


def test_a_repeat_is_not_acked_before_the_refusals_ahead_of_it(core):
    """The repeat is durable, but refusals of earlier batches are not delivered yet."""
    session, _ = opened(core)
    session.feed(frame(1, scores=[0.5, math.nan]), NOW)
    session.feed(frame(2), NOW)
    result = core.committer.step(NOW)
    session.feed(frame(2), NOW)
    assert session.replies() == []
    result.deliver()
    refused, ack = session.replies()
    assert refused.refused.sequence == 1
    assert ack.ack == pb.Ack(last_sequence=2, revision=3)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (b"\xff\xff", "MALFORMED_MESSAGE"),
        (b"", "BATCH_EXPECTED"),
        (
            pb.IngestRequest(open=pb.Open(producer="p", epoch=1)).SerializeToString(),
            "BATCH_EXPECTED",
        ),
    ],
)
def test_nonsense_ends_the_stream(core, request_, reason):
    """A message that is not a batch has no sequence, so it ends the stream."""
    session, _ = opened(core)
    with pytest.raises(RequestError) as caught:
        session.feed(request_, NOW)
    assert (caught.value.code, caught.value.reason) == (Code.INVALID_ARGUMENT, reason)


@pytest.mark.parametrize(
    ("open_", "reason", "field"),
    [
        (None, "OPEN_EXPECTED", None),
        (pb.Open(epoch=1), "INVALID_PRODUCER", "open.producer"),
        (pb.Open(producer="é" * 65, epoch=1), "INVALID_PRODUCER", "open.producer"),
        (pb.Open(producer="p", epoch=2**63), "INVALID_PRODUCER", "open.epoch"),
    ],
)
def test_a_stream_must_open_properly(core, open_, reason, field):
    """The INVALID_ARGUMENT error names the field."""
    session = IngestSession(core.committer, core.limits)
    first = frame(1) if open_ is None else pb.IngestRequest(open=open_).SerializeToString()
    with pytest.raises(RequestError) as caught:
        session.feed(first, NOW)
    assert (caught.value.code, caught.value.reason) == (Code.INVALID_ARGUMENT, reason)
    assert [violation[0] for violation in caught.value.violations] == ([field] if field else [])


def test_too_much_in_flight_stops_the_reading():
    """Bytes count as in flight until they are acked."""
    size = len(frame(1))
    core = open_core(MemoryStorage(), Limits(max_inflight_bytes=2 * size))
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    assert not session.full
    session.feed(frame(2), NOW)
    assert session.full
    commit(core)
    assert not session.full


# -- unary calls


def unary(core: ServerCore, **fields) -> UnaryCall:
    call = UnaryCall(core.committer, core.limits)
    call.ingest_batch(pb.IngestBatchRequest(**fields).SerializeToString(), NOW)
    assert not call.done
    commit(core)
    assert call.done
    return call


def test_a_single_batch_without_producer_is_counted_each_time(core):
    """Without a producer, repeats are not detected."""
    assert unary(core, batch=batch()).response() == pb.IngestBatchResponse(revision=1)
    assert unary(core, batch=batch()).response() == pb.IngestBatchResponse(revision=2)
    assert counted(core) == 4


def test_a_single_batch_with_producer_is_counted_once(core):
    """A repeat succeeds, and the response marks it as a duplicate."""
    for duplicate in (False, True):
        response = unary(core, producer="p", epoch=1, batch=batch(1)).response()
        assert response == pb.IngestBatchResponse(revision=1, duplicate=duplicate)
    assert counted(core) == 2
    call = unary(core, producer="p", epoch=1, batch=batch(3))
    with pytest.raises(RequestError, match="sequence 3 leaves a gap: expected 2"):
        call.response()


def test_a_single_refused_batch_consumes_its_sequence(core):
    """The error has the refusal's fields, for the call and for its repeat."""
    for _ in range(2):
        call = unary(core, producer="p", epoch=1, batch=batch(1, scores=[math.inf, 0]))
        with pytest.raises(RequestError) as caught:
            call.response()
        assert caught.value.code == Code.INVALID_ARGUMENT
        assert caught.value.violations == (
            ("cases.scores[0]", "score must be finite, got inf at index 0"),
        )
    assert opened(core)[1] == 1


def test_a_single_refused_batch_without_producer_leaves_no_trace(core):
    """No sequence is consumed, and nothing is logged."""
    call = UnaryCall(core.committer, core.limits)
    request = pb.IngestBatchRequest(batch=batch(scores=[math.inf, 0]))
    with pytest.raises(RequestError) as caught:
        call.ingest_batch(request.SerializeToString(), NOW)
    assert caught.value.code == Code.INVALID_ARGUMENT
    assert core.committer.queued_bytes == 0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"batch": batch(1)}, "producer"),
        ({"epoch": 1, "batch": batch(0)}, "producer"),
        ({"producer": "p", "batch": batch(0)}, "batch.sequence"),
        ({"producer": "p", "batch": batch(2**63)}, "batch.sequence"),
        ({"producer": "p", "epoch": 2**63, "batch": batch(1)}, "epoch"),
        ({"producer": "p" * 129, "batch": batch(1)}, "producer"),
    ],
)
def test_single_batches_say_which_field_is_wrong(core, fields, field):
    """The INVALID_ARGUMENT error is raised before anything is queued."""
    call = UnaryCall(core.committer, core.limits)
    with pytest.raises(RequestError) as caught:
        call.ingest_batch(pb.IngestBatchRequest(**fields).SerializeToString(), NOW)
    assert caught.value.code == Code.INVALID_ARGUMENT
    assert [violation[0] for violation in caught.value.violations] == [field]


def create(core: ServerCore, name: str) -> UnaryCall:
    call = UnaryCall(core.committer, core.limits)
    request = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
    call.create_stream(request.SerializeToString())
    commit(core)
    return call


def delete(core: ServerCore, name: str) -> UnaryCall:
    call = UnaryCall(core.committer, core.limits)
    call.delete_stream(stream_pb2.DeleteStreamRequest(name=name).SerializeToString())
    commit(core)
    return call


def test_streams_are_made_and_deleted(core):
    """Creating and deleting is durable and has a revision; a repetition is an error."""
    response = create(core, "a/b").response()
    assert response.revision == response.stream.create_revision == 1
    assert response.stream.create_time.ToMicroseconds() == NOW
    assert core.engine.stream("a/b").create_us == NOW
    with pytest.raises(RequestError) as caught:
        create(core, "a/b").response()
    assert caught.value.code == Code.ALREADY_EXISTS
    assert delete(core, "a/b").response().revision == 2
    assert core.engine.stream("a/b") is None
    with pytest.raises(RequestError) as caught:
        delete(core, "a/b").response()
    assert caught.value.code == Code.NOT_FOUND


def test_a_deleted_streams_counts_are_gone(core):
    """A later batch creates a new stream of that name."""
    unary(core, batch=batch())
    delete(core, "s")
    assert counted(core) == 0
    unary(core, batch=batch())
    assert counted(core) == 2
    assert core.engine.stream("s").create_revision == 3


@pytest.mark.parametrize("name", ["", "a b", "a//b", "/a", "a/", "é", "a" * 129, "a\n"])
def test_names_of_streams_are_checked(core, name):
    """An invalid name is refused before anything is queued."""
    call = UnaryCall(core.committer, core.limits)
    request = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
    with pytest.raises(RequestError) as caught:
        call.create_stream(request.SerializeToString())
    assert caught.value.code == Code.INVALID_ARGUMENT
    assert caught.value.violations[0][0] == "stream.name"
