"""Bad input over gRPC: the library's messages, the right status, the field and the row."""

from __future__ import annotations

import math
import struct
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc import code_pb2, error_details_pb2

from streameval import Evaluator, InvalidInputError
from streameval.v1 import ingest_pb2, query_pb2, stream_pb2

from .conftest import Failure, Wire, failure, selection

if TYPE_CHECKING:
    from collections.abc import Callable

Code = grpc.StatusCode
Cases = ingest_pb2.Cases
NOW_US = time.time_ns() // 1000
YEAR_2100_US = 4_102_444_800_000_000


def packed(*scores: float) -> bytes:
    """Return scores as a bytes column."""
    return struct.pack(f"<{len(scores)}d", *scores)


def python_error(**columns: Any) -> str:
    """Return the library's error message for columns."""
    with pytest.raises(InvalidInputError) as caught:
        Evaluator().add_cases(**columns)
    return str(caught.value)


def two(**columns: Any) -> dict[str, Any]:
    """Return a batch of two good rows, except for what is given."""
    good: dict[str, Any] = {"scores": [0.5, 0.25], "positives": [True, False]}
    return {"cases": Cases(**(good | columns))}


# The batch, the status, the field, and the text (None: the library's message for the same
# columns).
BAD = {
    "NaN": (
        two(scores=[1, math.nan]),
        "INVALID_ARGUMENT",
        "cases.scores[1]",
        {"scores": [1, math.nan]},
    ),
    "infinity": (
        two(scores=[math.inf, 1]),
        "INVALID_ARGUMENT",
        "cases.scores[0]",
        {"scores": [math.inf, 1]},
    ),
    "NaN in bytes": (
        {"cases": Cases(scores_f64le=packed(1, 2, math.nan), positives_bits=b"\x05")},
        "INVALID_ARGUMENT",
        "cases.scores_f64le[2]",
        {"scores": [1, 2, math.nan], "labels": [1, 0, 1]},
    ),
    "unequal columns": (
        two(scores=[1, 2, 3]),
        "INVALID_ARGUMENT",
        "cases.scores",
        {"scores": [1, 2, 3]},
    ),
    "unequal counts": (two(counts=[1]), "INVALID_ARGUMENT", "cases.counts", {"counts": [1]}),
    "too many in all": (
        two(counts=[2**62, 1]),
        "INVALID_ARGUMENT",
        "cases.counts",
        {"counts": [2**62, 1]},
    ),
    "labels without scores": (
        {"cases": Cases(positives=[True])},
        "INVALID_ARGUMENT",
        "cases.scores",
        {"labels": [True], "scores": []},
    ),
    "both columns of scores": (
        two(scores_f64le=packed(1, 2)),
        "INVALID_ARGUMENT",
        "cases.scores_f64le",
        "scores and scores_f64le must not both be given",
    ),
    "half a score": (
        {"cases": Cases(scores_f64le=b"1234567", positives_bits=b"\x00")},
        "INVALID_ARGUMENT",
        "cases.scores_f64le",
        "scores_f64le must have 8 bytes for each score, got 7 bytes",
    ),
    "stray label bits": (
        {"cases": Cases(scores_f64le=packed(1, 2), positives_bits=b"\x07")},
        "INVALID_ARGUMENT",
        "cases.positives_bits",
        "positives_bits must have zeros after the last row",
    ),
    "too many misses": (
        {"misses": ingest_pb2.Misses(positives=2**62)},
        "INVALID_ARGUMENT",
        "misses.positives",
        "all counts together must stay below 2**62",
    ),
    "a row from the future": (
        two(event_times_us=[NOW_US, YEAR_2100_US]),
        "INVALID_ARGUMENT",
        "cases.event_times_us[1]",
        "event time must not lie in the future, got 2100-01-01T00:00:00+00:00 at index 1",
    ),
    "too many rows": (
        {"cases": Cases(scores=[0.5] * 65_537, positives=[True] * 65_537)},
        "RESOURCE_EXHAUSTED",
        None,
        "batch must have at most 65536 rows, got 65537: send smaller ones",
    ),
    "an empty id": (
        {"predictions": ingest_pb2.Predictions(ids=["a", ""], scores=[0.5, 0.5])},
        "INVALID_ARGUMENT",
        "predictions.ids[1]",
        "id must not be empty at index 1",
    ),
    "a long id": (
        {"retractions": ingest_pb2.Retractions(ids=["a" * 129])},
        "INVALID_ARGUMENT",
        "retractions.ids[0]",
        "id must be at most 128 bytes of UTF-8, got 129 at index 0",
    ),
    "an impossible segment key": (
        two(segments=[ingest_pb2.SegmentColumn(key="a key", values=["US"], codes=[0, 0])]),
        "INVALID_ARGUMENT",
        "cases.segments[0].key",
        "a segment key must be [A-Za-z0-9._-]+ and at most 64 characters, got 'a key'",
    ),
}


def expected(text: str | dict[str, Any]) -> str:
    """Return the expected text; for None, the library's message."""
    if isinstance(text, str):
        return text
    return python_error(**({"labels": [1, 0], "scores": [0.5, 0.25]} | text))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_batch_ends_a_unary_call(wire: Wire, fresh: str, name: str) -> None:
    """IngestBatch fails with a status that names the error, and counts nothing."""
    rows, code, field, text = BAD[name]
    found = failure(lambda: wire.one(ingest_pb2.Batch(stream=fresh, **rows)))
    message = expected(text)
    assert (found.code, found.message) == (Code[code], message)
    assert found.reason == "BATCH_REFUSED"
    if field is not None:
        assert found.fields == [(field, message)]
    nothing_there(wire, fresh)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_batch_does_not_end_a_stream(wire: Wire, fresh: str, name: str) -> None:
    """Ingest answers `refused`, acknowledges the sequence, and takes the next batch."""
    rows, code, field, text = BAD[name]
    bad = ingest_pb2.Batch(sequence=1, stream=fresh, **rows)
    good = ingest_pb2.Batch(sequence=2, stream=fresh, **two())
    answers = wire.sent(fresh, [bad, good])
    (refused,) = (answer.refused for answer in answers if answer.HasField("refused"))
    assert refused.sequence == 1
    assert refused.refusal.code == code_pb2.Code.Value(code)
    assert refused.refusal.message == expected(text)
    assert [violation.field for violation in refused.refusal.violations] == (
        [] if field is None else [field]
    )
    last = answers[-1].ack
    assert last.last_sequence == 2
    assert last.revision > refused.revision > 0
    snapshot = wire.query.GetSnapshot(
        query_pb2.GetSnapshotRequest(selection=selection(fresh, last.revision))
    ).snapshot
    assert (snapshot.num_positive_ref, snapshot.num_negative_ref) == (1, 1)
    # Sent again, it gets the same answer; none of it is counted.
    again = wire.sent(fresh, [bad, good])
    assert [answer.refused for answer in again if answer.HasField("refused")] == [refused]
    assert again[-1].ack.last_sequence == 2


def nothing_there(wire: Wire, stream: str) -> None:
    """Check that a stream was not created."""
    found = failure(lambda: wire.streams.GetStream(stream_pb2.GetStreamRequest(name=stream)))
    assert found.code == Code.NOT_FOUND
    assert found.message.startswith(f"there is no stream {stream}: ListStreams ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "stream name must not be empty"),
        ("a//b", "stream name must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got 'a//b'"),
        ("café", "stream name must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got 'café'"),
        ("a\n", "stream name must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got 'a\\n'"),
        ("a" * 129, "stream name must be at most 128 characters, got 129"),
        ("a/../b", "stream name must have no segment '.' or '..', got 'a/../b'"),
        ("./a", "stream name must have no segment '.' or '..', got './a'"),
        ("a/..", "stream name must have no segment '.' or '..', got 'a/..'"),
        (".", "stream name must have no segment '.' or '..', got '.'"),
    ],
)
def test_bad_stream_names(wire: Wire, name: str, text: str) -> None:
    """Batches and CreateStream refuse a name with the same message."""
    found = failure(lambda: wire.one(ingest_pb2.Batch(stream=name, **two())))
    assert (found.code, found.message) == (Code.INVALID_ARGUMENT, text)
    assert found.fields == [("stream", text)]
    request = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
    found = failure(lambda: wire.streams.CreateStream(request))
    assert (found.code, found.message) == (Code.INVALID_ARGUMENT, text)
    assert found.fields == [("stream.name", text)]


def test_a_batch_over_the_size_limit_is_refused(wire: Wire, fresh: str) -> None:
    """The server refuses it up to twice the limit, the transport above that."""
    name = "a" * (4 << 20)
    found = failure(lambda: wire.one(ingest_pb2.Batch(stream=name)))
    assert found.code == Code.RESOURCE_EXHAUSTED
    assert found.message.startswith("batch must be at most 4194304 bytes, got 41943")
    answers = wire.sent(fresh, [ingest_pb2.Batch(sequence=1, stream=name)])
    assert [answer.WhichOneof("message") for answer in answers] == ["refused", "ack"]
    assert answers[0].refused.refusal.code == code_pb2.RESOURCE_EXHAUSTED
    found = failure(lambda: wire.one(ingest_pb2.Batch(stream=name * 3)))
    assert found.code == Code.RESOURCE_EXHAUSTED


def test_an_empty_batch_does_nothing(wire: Wire, fresh: str) -> None:
    """It is accepted, on an Ingest stream and by a unary call, and creates no stream."""
    for rows in ({}, {"cases": Cases()}, {"misses": ingest_pb2.Misses()}, two(counts=[0, 0])):
        assert wire.one(ingest_pb2.Batch(stream=fresh, **rows)).revision > 0
    (answer,) = wire.sent(fresh, [ingest_pb2.Batch(sequence=1, stream=fresh)])
    assert answer.ack.last_sequence == 1
    nothing_there(wire, fresh)


def test_a_gap_names_the_expected_sequence(wire: Wire, fresh: str) -> None:
    """OUT_OF_RANGE, on a stream and in a unary call; batches before the gap count."""
    good = [ingest_pb2.Batch(sequence=i, stream=fresh, **two()) for i in (1, 3)]
    found = failure(lambda: wire.sent(fresh, good))
    assert (found.code, found.message) == (
        Code.OUT_OF_RANGE,
        "sequence 3 leaves a gap: expected 2",
    )
    assert found.reason == "SEQUENCE_GAP"
    info = found.detail(error_details_pb2.ErrorInfo)
    assert info.metadata["expected_sequence"] == "2"
    request = ingest_pb2.IngestBatchRequest(producer=fresh, epoch=1, batch=good[1])
    found = failure(lambda: wire.ingest.IngestBatch(request))
    assert (found.code, found.message) == (
        Code.OUT_OF_RANGE,
        "sequence 3 leaves a gap: expected 2",
    )
    request.batch.sequence = 1
    assert wire.ingest.IngestBatch(request).duplicate
    request.batch.sequence = 2
    assert not wire.ingest.IngestBatch(request).duplicate


def test_a_lower_epoch_is_fenced(wire: Wire, fresh: str) -> None:
    """FAILED_PRECONDITION for the old epoch; the new one starts at 1."""
    batch = ingest_pb2.Batch(sequence=1, stream=fresh, **two())
    wire.sent(fresh, [batch], epoch=7)
    text = f"producer {fresh} has epoch 7 by now: epoch 6 cannot send any more"
    for call in (
        lambda: wire.sent(fresh, [batch], epoch=6),
        lambda: wire.ingest.IngestBatch(
            ingest_pb2.IngestBatchRequest(producer=fresh, epoch=6, batch=batch)
        ),
    ):
        found = failure(call)
        assert (found.code, found.message) == (Code.FAILED_PRECONDITION, text)
        assert found.reason == "EPOCH_FENCED"
    (answer,) = wire.sent(fresh, [batch], epoch=8)
    assert answer.ack.last_sequence == 1


def test_a_repeated_sequence_counts_once(wire: Wire, fresh: str) -> None:
    """Resume has the last sequence; a repeated batch is acknowledged and changes nothing."""
    batches = [ingest_pb2.Batch(sequence=i, stream=fresh, **two()) for i in (1, 2, 3)]
    wire.sent(fresh, batches[:2])
    opened = ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer=fresh, epoch=1))
    (answer,) = wire.ingest.Ingest(iter([opened]))
    assert answer.resume.last_sequence == 2
    assert answer.resume.max_batch_rows == 65_536
    assert answer.resume.max_batch_bytes == 4 << 20
    assert answer.resume.max_inflight_bytes == 8 << 20
    acks = wire.sent(fresh, batches)
    assert acks[-1].ack.last_sequence == 3
    snapshot = wire.query.GetSnapshot(
        query_pb2.GetSnapshotRequest(selection=selection(fresh, acks[-1].ack.revision))
    ).snapshot
    assert snapshot.num_positive_ref == 3


def ends(wire: Wire, *frames: bytes) -> Failure:
    """Return the error of an Ingest stream of raw frames."""
    call = wire.channel.stream_stream("/streameval.v1.IngestService/Ingest")
    return failure(lambda: list(call(iter(frames), timeout=20)))


def test_streams_that_break_the_protocol(wire: Wire, fresh: str) -> None:
    """Each violation, in the first or a later message, has its own error."""
    opened = ingest_pb2.IngestRequest(
        open=ingest_pb2.Open(producer=fresh, epoch=1)
    ).SerializeToString()
    batch = ingest_pb2.IngestRequest(batch=ingest_pb2.Batch(sequence=1)).SerializeToString()
    nameless = ingest_pb2.IngestRequest(open=ingest_pb2.Open(epoch=1)).SerializeToString()
    for frames, text in (
        ((batch,), "the first message must be open"),
        ((b"",), "the first message must be open"),
        ((opened, opened), "every message after the first must be a batch"),
        ((b"\xff\xff",), "the request is not an encoded streameval.v1.IngestRequest"),
        ((opened, b"\x12\x7f"), "the request is not an encoded streameval.v1.IngestRequest"),
        ((nameless,), "producer must not be empty"),
    ):
        found = ends(wire, *frames)
        assert (found.code, found.message) == (Code.INVALID_ARGUMENT, text)
    assert found.fields == [("open.producer", "producer must not be empty")]


def asks(wire: Wire) -> list[Callable[[str, int], object]]:
    """Return every query of a stream at a revision."""
    query = wire.query

    def snapshot(stream: str, revision: int) -> object:
        request = query_pb2.GetSnapshotRequest(selection=selection(stream, revision))
        return query.GetSnapshot(request, timeout=20)

    def curve(stream: str, revision: int) -> object:
        request = query_pb2.GetCurveRequest(
            selection=selection(stream, revision), kind=query_pb2.CURVE_KIND_HULL
        )
        return query.GetCurve(request, timeout=20)

    def state(stream: str, revision: int) -> object:
        request = query_pb2.GetStateRequest(selection=selection(stream, revision))
        return list(query.GetState(request, timeout=20))

    return [snapshot, curve, state]


def test_unknown_streams_are_not_found(wire: Wire, fresh: str) -> None:
    """Every query of an unknown stream fails with the same error."""
    questions = [lambda ask=ask: ask(fresh, 0) for ask in asks(wire)]
    questions += [
        lambda: wire.streams.GetStream(stream_pb2.GetStreamRequest(name=fresh)),
        lambda: wire.streams.DeleteStream(stream_pb2.DeleteStreamRequest(name=fresh)),
    ]
    for question in questions:
        found = failure(question)
        assert (found.code, found.message) == (
            Code.NOT_FOUND,
            (
                f"there is no stream {fresh}: ListStreams (streameval streams list) has the names; "
                "a first batch or CreateStream (streameval streams create) makes it"
            ),
        )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "stream name must not be empty"),
        ("a//b", "stream name must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got 'a//b'"),
        ("a" * 129, "stream name must be at most 128 characters, got 129"),
    ],
)
def test_a_question_about_no_name_says_so(wire: Wire, name: str, text: str) -> None:
    """Queries refuse an invalid stream name with the same error as CreateStream."""
    stream = stream_pb2.Stream(name=name)
    questions: list[tuple[str, Callable[[], object]]] = [
        ("selection.stream", lambda ask=ask: ask(name, 0)) for ask in asks(wire)
    ]
    questions += [
        ("name", lambda: wire.streams.GetStream(stream_pb2.GetStreamRequest(name=name))),
        ("name", lambda: wire.streams.DeleteStream(stream_pb2.DeleteStreamRequest(name=name))),
        (
            "stream.name",
            lambda: wire.streams.CreateStream(stream_pb2.CreateStreamRequest(stream=stream)),
        ),
        (
            "a.stream",
            lambda: wire.query.CompareStreams(
                query_pb2.CompareStreamsRequest(a=selection(name, 0), b=selection("s", 0))
            ),
        ),
    ]
    for field, question in questions:
        found = failure(question)
        assert (found.code, found.message) == (Code.INVALID_ARGUMENT, text)
        assert found.fields == [(field, text)]


def test_a_revision_from_the_future_is_out_of_range(wire: Wire, fresh: str) -> None:
    """A query does not wait for a revision far beyond the log."""
    last = wire.one(ingest_pb2.Batch(stream=fresh, **two())).revision
    for ask in asks(wire):
        found = failure(lambda ask=ask: ask(fresh, last + 10**6))
        assert found.code == Code.OUT_OF_RANGE
        assert found.message == (
            f"min_revision must be at most the log's last revision {last}, got {last + 10**6}"
        )
        assert found.reason == "REVISION_IN_FUTURE"


def test_other_bad_requests(wire: Wire, fresh: str) -> None:
    """A curve without a kind, a page without a size, an invalid page token."""
    wire.one(ingest_pb2.Batch(stream=fresh, **two()))
    found = failure(
        lambda: wire.query.GetCurve(query_pb2.GetCurveRequest(selection=selection(fresh)))
    )
    assert (found.code, found.fields[0][0]) == (Code.INVALID_ARGUMENT, "kind")
    for request, field in (
        (stream_pb2.ListStreamsRequest(page_size=-1), "page_size"),
        (stream_pb2.ListStreamsRequest(page_token="not a token"), "page_token"),
        (stream_pb2.ListStreamsRequest(page_token="/w=="), "page_token"),
    ):
        found = failure(lambda request=request: wire.streams.ListStreams(request))
        assert (found.code, found.fields[0][0]) == (Code.INVALID_ARGUMENT, field)
