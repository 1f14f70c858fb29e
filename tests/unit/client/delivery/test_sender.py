"""The sender step by step, in states that random tests rarely reach."""

from __future__ import annotations

import numpy as np
import pytest

from streameval.client import ClientError, FencedError
from streameval.client._buffer.columns import BufferedCases
from streameval.client._delivery.sender import MAX_REFUSALS, Phase, ProtocolError, Sender
from streameval.client._errors import error_for
from streameval.client._wire.rpc_errors import CONNECTION_CUT
from streameval.v1 import ingest_pb2, status_pb2


def rows(size: int, first: float = 0.0) -> BufferedCases:
    """Return cases."""
    return BufferedCases("s", np.ones(size, bool), np.arange(size) + first)


def resume(last: int = 0, **limits: int) -> ingest_pb2.IngestResponse:
    """Return a server's first answer."""
    return ingest_pb2.IngestResponse(resume=ingest_pb2.Resume(last_sequence=last, **limits))


def ack(last: int, revision: int = 0) -> ingest_pb2.IngestResponse:
    """Return an ack."""
    return ingest_pb2.IngestResponse(ack=ingest_pb2.Ack(last_sequence=last, revision=revision))


def refused(sequence: int, code: int = 3, revision: int = 0) -> ingest_pb2.IngestResponse:
    """Return a refusal."""
    refusal = status_pb2.Refusal(
        code=code,
        message="no",
        violations=[status_pb2.FieldViolation(field="f", description="d")],
    )
    return ingest_pb2.IngestResponse(
        refused=ingest_pb2.BatchRefused(sequence=sequence, refusal=refusal, revision=revision)
    )


def sender() -> Sender:
    """Return a sender without jitter."""
    return Sender("p", 7, random=lambda: 1.0)


def connected(*pieces: BufferedCases, **limits: int) -> Sender:
    """Return a sender with rows, and a connection that is ready."""
    made = sender()
    made.put(pieces)
    opening = made.open()
    assert (opening.open.producer, opening.open.epoch) == ("p", 7)
    made.receive(resume(**limits))
    assert made.phase is Phase.READY
    return made


def sent(from_: Sender) -> list[int]:
    """Take all batches that may be sent now; return their sequences."""
    sequences = []
    while (message := from_.next_message()) is not None:
        sequences.append(message.batch.sequence)
    return sequences


def test_nothing_is_sent_before_resume() -> None:
    """Batches wait for the server's limits."""
    made = sender()
    made.put([rows(1)])
    assert made.next_message() is None
    made.open()
    assert made.next_message() is None
    assert not made.starved


def test_the_window_is_bounded_in_bytes() -> None:
    """Unacknowledged batches stay within the server's limit; an ack makes room."""
    made = connected(rows(10), max_batch_rows=1, max_inflight_bytes=1500)
    assert sent(made) == [1, 2, 3]
    assert not made.starved
    made.receive(ack(2, revision=5))
    assert sent(made) == [4, 5]
    assert (made.acked_rows, made.revision) == (2, 5)
    made.receive(ack(5))
    assert made.revision == 5
    assert sent(made) == [6, 7, 8]


def test_a_large_piece_is_cut_at_once() -> None:
    """Rows of many batches are sent in order and completely."""
    made = connected(rows(1003), max_batch_rows=10, max_inflight_bytes=1 << 30)
    scores: list[float] = []
    while (message := made.next_message()) is not None:
        scores += np.frombuffer(message.batch.cases.scores_f64le).tolist()
    assert scores == list(range(1003))
    assert made.sent_rows == made.put_rows == 1003


def test_a_batch_larger_than_the_window_goes_alone() -> None:
    """A window smaller than a batch does not stop the sender."""
    made = connected(rows(100), rows(100), max_inflight_bytes=10)
    assert sent(made) == [1]
    made.receive(ack(1))
    assert sent(made) == [2]


def test_a_refusal_whose_answer_was_lost_is_learnt_from_resume() -> None:
    """A refusal that became durable before the connection broke arrives with Resume."""
    sender = connected(rows(2), rows(3), rows(4))
    assert sent(sender) == [1, 2, 3]
    sender.disconnected(error_for("UNAVAILABLE", "broken"), 0.0)
    sender.open()
    response = resume(2)
    for sequence in (1, 2, 3, 99):  # neither the third batch nor the unsent ones are durable
        response.resume.refused.append(refused(sequence).refused)
    del response.resume.refused[1]
    sender.receive(response)
    assert (sender.refused_rows, sender.refused_batches, sender.acked_rows) == (2, 1, 3)
    assert [(each.stream, each.rows) for each in sender.refusals] == [("s", 2)]
    sender.disconnected(error_for("UNAVAILABLE", "broken"), 0.0)
    sender.open()
    sender.receive(response)  # a repetition
    assert (sender.refused_rows, sender.refused_batches) == (2, 1)
    assert sent(sender) == [3]
    sender.receive(ack(3))
    assert (sender.refused_rows, sender.acked_rows) == (2, 7)


def test_refusals_stay_readable_up_to_a_number() -> None:
    """The last refusals are kept, all are counted, and each settles the batches before it."""
    made = connected(*(rows(2) for _ in range(MAX_REFUSALS + 20)))
    last = len(sent(made))
    for sequence in range(2, last + 1):
        made.receive(refused(sequence, code=5 if sequence % 2 else 99, revision=sequence))
    assert not made.pending
    assert made.acked_rows == 2
    assert made.refused_rows == 2 * (last - 1)
    assert made.refused_batches == last - 1
    assert len(made.refusals) == MAX_REFUSALS
    assert {refusal.code for refusal in made.refusals} == {"NOT_FOUND", "UNKNOWN"}
    assert made.refusals[-1].violations[0].field == "f"
    assert made.revision == last


@pytest.mark.parametrize("message", [ack(2), refused(2), resume(), ingest_pb2.IngestResponse()])
def test_what_makes_no_sense_is_an_error(message: ingest_pb2.IngestResponse) -> None:
    """A server cannot acknowledge or refuse an unsent batch, nor resume twice."""
    made = connected(rows(1))
    assert sent(made) == [1]
    with pytest.raises(ProtocolError):
        made.receive(message)


def test_smaller_limits_after_a_restart_cut_again() -> None:
    """Batches too large for a restarted server are cut again, under a new epoch."""
    made = connected(rows(10), rows(10, 10.0), max_batch_rows=10)
    assert sent(made) == [1, 2]
    made.disconnected(error_for("UNAVAILABLE", "gone"), 0.0)
    made.open()
    made.receive(resume(1, max_batch_rows=4))
    assert made.phase is Phase.DISCONNECTED
    assert made.acked_rows == 10
    made.disconnected(None, 0.0)
    opening = made.open().open
    assert (opening.epoch, opening.after_epoch, opening.after_sequence) == (8, 7, 1)
    made.receive(resume(0, max_batch_rows=4))
    scores = []
    while (message := made.next_message()) is not None:
        scores += np.frombuffer(message.batch.cases.scores_f64le).tolist()
    assert scores == list(range(10, 20))


def test_a_batch_keeps_the_time_that_it_was_numbered_with() -> None:
    """A batch that is sent again keeps its times, although the server's clock has moved."""
    made = sender()
    stamp = -1 - 5_000_000
    stamped = BufferedCases("s", np.ones(1, bool), np.ones(1), None, stamp)
    made.put([stamped, stamped])
    made.open()
    # The server's clock shows 1,000 s when the clock of the stamps shows 7 s.
    resumed = resume(max_inflight_bytes=1, time_us=1_000_000_000)
    made.receive(resumed, 7_000_000)
    first = made.next_message()
    assert list(first.batch.cases.event_times_us) == [998_000_000]
    assert made.next_message() is None
    made.disconnected(error_for("UNAVAILABLE", "gone"), 0.0)
    made.open()
    made.receive(resume(max_inflight_bytes=1 << 20, time_us=3_000_000_000), 8_000_000)
    assert made.next_message() == first
    later = made.next_message()
    assert list(later.batch.cases.event_times_us) == [2_997_000_000]


def test_another_user_of_the_same_epoch_fences() -> None:
    """A server with more batches than this sender numbered got them from another process."""
    made = sender()
    made.put([rows(3)])
    made.open()
    made.receive(resume(1))
    assert made.phase is Phase.FENCED
    assert isinstance(made.error, FencedError)
    assert "another process uses the same producer" in str(made.error)
    made.put([rows(2)])
    made.disconnected(error_for("UNAVAILABLE", "gone"), 0.0)
    assert (made.dropped_rows, made.pending) == (5, False)


def test_a_fenced_sender_counts_what_it_drops() -> None:
    """Rows that are not acknowledged are dropped, whether they were sent or not."""
    made = connected(rows(4), max_batch_rows=2)
    assert sent(made) == [1, 2]
    made.put([rows(3)])
    made.receive(ack(1))
    made.disconnected(error_for("FAILED_PRECONDITION", "taken", reason="EPOCH_FENCED"), 0.0)
    assert made.phase is Phase.FENCED
    assert (made.acked_rows, made.dropped_rows, made.settled_rows) == (2, 5, made.put_rows)


def test_a_batch_that_breaks_every_connection_is_given_up() -> None:
    """After three failures the batch is refused; the batches around it arrive."""
    made = connected(rows(1), rows(1, 1.0), rows(1, 2.0))
    arrived: list[float] = []
    mark = {7: 0}
    for _ in range(20):
        while (message := made.next_message()) is not None:
            (score,) = np.frombuffer(message.batch.cases.scores_f64le)
            if score == 1.0:
                made.disconnected(ClientError("cannot parse", code="INTERNAL"), 0.0)
            elif message.batch.sequence > mark[made.epoch]:
                arrived.append(score)
                mark[made.epoch] = message.batch.sequence
                made.receive(ack(message.batch.sequence))
        if not made.pending:
            break
        if made.phase is not Phase.READY:
            epoch = made.open().open.epoch
            made.receive(resume(mark.setdefault(epoch, 0)))
            if made.phase is Phase.DISCONNECTED:
                made.disconnected(made.error, 0.0)
    assert arrived == [0.0, 2.0]
    (refusal,) = made.refusals
    assert refusal.message == "given up after 3 attempts: cannot parse"
    assert refusal.code == "INTERNAL"
    assert (made.acked_rows, made.refused_rows) == (2, 1)


CUT = error_for("UNAVAILABLE", "cut", reason=CONNECTION_CUT)
TOO_LARGE = error_for("RESOURCE_EXHAUSTED", "message larger than max")


@pytest.mark.parametrize("error", [CUT, TOO_LARGE])
def test_a_batch_that_is_too_large_for_a_proxy_arrives_in_pieces(error: ClientError) -> None:
    """Batches of more than 100,000 bytes end their connection; nothing says so."""
    made = sender()
    made.put([rows(40_000), rows(1, -1.0)])
    arrived: list[float] = []
    mark: dict[int, int] = {}
    for _ in range(60):
        epoch = made.open().open.epoch
        made.receive(resume(mark.setdefault(epoch, 0)))
        while (message := made.next_message()) is not None:
            assert message.ByteSize() <= 1 << 19
            if message.ByteSize() > 100_000:
                made.disconnected(error, 0.0)
                break
            arrived += np.frombuffer(message.batch.cases.scores_f64le).tolist()
            mark[epoch] = message.batch.sequence
            made.receive(ack(message.batch.sequence))
        if not made.pending:
            break
        if made.phase is Phase.DISCONNECTED:
            made.disconnected(made.error, 0.0)
    assert arrived == [*range(40_000), -1.0]
    assert made.acked_rows == 40_001
    assert not made.refusals


def test_a_cut_connection_costs_no_rows() -> None:
    """A batch that cannot become smaller is sent until it arrives: a proxy may be away."""
    made = connected(rows(1))
    for _ in range(20):
        assert len(sent(made)) == 1
        made.disconnected(CUT, 0.0)
        made.open()
        made.receive(resume())
    assert (made.refused_rows, made.pending, made.epoch) == (0, True, 7)


def test_a_batch_that_became_durable_after_all_is_not_sent_twice() -> None:
    """The server starts no epoch after a place that is not the producer's any more."""
    made = connected(rows(2_000), rows(2_000, 5e3), max_batch_rows=2_000)
    for _ in range(2):
        assert sent(made)[0] == 1
        made.disconnected(CUT, 0.0)
        made.open()
        made.receive(resume())
    made.disconnected(made.error, 0.0)
    assert made.open().open.after_epoch == 7
    moved = error_for("FAILED_PRECONDITION", "it is elsewhere", reason="EPOCH_MOVED")
    made.disconnected(moved, 0.0)
    assert made.phase is Phase.DISCONNECTED
    opening = made.open().open
    assert (opening.epoch, opening.after_epoch) == (7, 0)
    made.receive(resume(1))  # the first batch is durable, the second is too large now
    assert (made.phase, made.acked_rows) == (Phase.DISCONNECTED, 2_000)
    assert made.open().open.after_sequence == 1
    made.receive(resume())
    assert len(sent(made)) > 1
    assert made.epoch == 8


def test_no_batch_is_larger_than_the_caller_says() -> None:
    """`batch_rows` is a limit, and half a MiB another."""
    made = Sender("p", 7, random=lambda: 1.0, batch_rows=1_000)
    made.put([rows(10_500)])
    made.open()
    made.receive(resume(max_inflight_bytes=1 << 30))
    sizes = []
    while (message := made.next_message()) is not None:
        sizes.append(len(message.batch.cases.scores_f64le) // 8)
    assert sizes == [*[1_000] * 10, 500]


def test_an_overloaded_server_is_given_time() -> None:
    """The delay grows with failures up to a limit and is never below the server's own."""
    made = connected(rows(1))
    assert sent(made) == [1]
    delays = []
    for _ in range(12):
        made.disconnected(error_for("UNAVAILABLE", "gone"), 100.0)
        delays.append(made.retry_at - 100.0)
        made.open()
        made.receive(resume())
        assert sent(made) == [1]
    assert delays[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert delays[-1] == 5.0
    full = error_for("RESOURCE_EXHAUSTED", "full", retry_after_s=20.0)
    for _ in range(5):
        made.disconnected(full, 0.0)
        assert made.retry_at == 30.0
        made.open()
        made.receive(resume())
        assert sent(made) == [1]
    made.receive(ack(1))
    made.disconnected(None, 0.0)
    assert made.retry_at == pytest.approx(0.1)
    assert not made.refusals
