"""Hostile values in valid messages: refused by field, or counted as by the library."""

from __future__ import annotations

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from streameval import Evaluator, InvalidInputError
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import query_pb2, stream_pb2, types_pb2

INGEST = "/streameval.v1.IngestService/Ingest"
BATCH = "/streameval.v1.IngestService/IngestBatch"
STATE = "/streameval.v1.QueryService/GetState"
STREAM = "/streameval.v1.StreamService/"

COUNTS = (0, 1, 1, 1, 2, 3, 100, 2**31, 2**53 + 1, 2**60, 2**62 - 1, 2**62, 2**63, 2**64 - 1)


def state(target, stream: str) -> Evaluator:
    """Return a stream's counts with all acked rows; empty for an unknown stream."""
    nothing = pb.IngestBatchRequest(batch=pb.Batch(stream=stream, cases=pb.Cases()))
    acked = target.call(BATCH, [nothing.SerializeToString()])
    revision = pb.IngestBatchResponse.FromString(acked.replies[0]).revision
    selection = types_pb2.Selection(stream=stream, min_revision=revision)
    request = query_pb2.GetStateRequest(selection=selection)
    answer = target.call(STATE, [request.SerializeToString()])
    target.check(STATE, answer)
    if answer.code is grpc.StatusCode.NOT_FOUND:
        return Evaluator()
    pieces = [query_pb2.GetStateResponse.FromString(reply).data for reply in answer.replies]
    return Evaluator.from_bytes(b"".join(pieces))


def content(evaluator: Evaluator) -> tuple[object, ...]:
    """Return all counts of an evaluator."""
    points = evaluator.operating_points()
    columns = (points.thresholds.tolist(), points.fp.tolist(), points.tp.tolist())
    return *columns, evaluator.num_misses, evaluator.num_negative_misses


def hostile_cases(hostile, floats) -> pb.Cases:
    """Return columns that are mostly valid, with an occasional error."""
    rng = hostile.rng
    size = rng.choice((0, 1, 1, 2, 3, 7, 8, 9, 40))
    scores = [rng.choice(floats) for _ in range(size)]
    labels = [rng.random() < 0.5 for _ in range(size)]
    cases = pb.Cases()
    if rng.random() < 0.5:
        cases.scores.extend(scores)
    else:
        cases.scores_f64le = np.array(scores, dtype="<f8").tobytes()
    if rng.random() < 0.5:
        cases.positives.extend(labels)
    else:
        cases.positives_bits = np.packbits(np.array(labels, np.bool_), bitorder="little").tobytes()
    if rng.random() < 0.4:
        cases.counts.extend(rng.choice(COUNTS[: rng.choice((6, 9, 14))]) for _ in range(size))
    wrong = rng.random()
    if wrong < 0.05:
        cases.scores.append(0.5)
    elif wrong < 0.1:
        cases.counts.append(1)
    elif wrong < 0.15:
        cases.positives_bits += b"\x80"
    elif wrong < 0.2:
        cases.scores_f64le += b"\0\0\0"
    elif wrong < 0.25:
        cases.event_times_us.append(rng.choice((2**63 - 1, -(2**63), 0, 4 * 10**15)))
    return cases


def columns_of(cases: pb.Cases) -> dict[str, object]:
    """Return the columns as arguments of the library."""
    scores = list(np.frombuffer(cases.scores_f64le, "<f8")) or list(cases.scores)
    bits = np.unpackbits(np.frombuffer(cases.positives_bits, np.uint8), bitorder="little")
    labels = [bool(bit) for bit in bits[: len(scores)]] or list(cases.positives)
    return {"labels": labels, "scores": scores, "counts": list(cases.counts) or None}


@pytest.mark.parametrize("seed", range(3))
def test_what_is_accepted_is_counted_as_the_library_counts_it(target, hostile, floats, seed):
    """Checked after every batch; a refused batch changes nothing and names its field."""
    stream, local = f"values/{seed}", Evaluator()
    accepted = refused = 0
    for _ in range(60):
        cases = hostile_cases(hostile, floats)
        request = pb.IngestBatchRequest(batch=pb.Batch(stream=stream, cases=cases))
        answer = target.call(BATCH, [request.SerializeToString()])
        target.check(BATCH, answer)
        if answer.code is grpc.StatusCode.OK:
            local.add_cases(**columns_of(cases))
            accepted += 1
        else:
            assert answer.code in {
                grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.RESOURCE_EXHAUSTED,
            }
            assert answer.details >= 2, "a refusal names its field"
            refused += 1
            plain = not (cases.event_times_us or (cases.scores and cases.scores_f64le))
            if plain and answer.code is grpc.StatusCode.INVALID_ARGUMENT:
                assert_the_library_refuses_it_too(cases, answer.message)
        assert content(state(target, stream)) == content(local)
    assert accepted > 10
    assert refused > 5


def assert_the_library_refuses_it_too(cases: pb.Cases, message: str) -> None:
    bits = len(cases.positives_bits)
    size = len(cases.scores) or len(cases.scores_f64le) // 8
    if bits and (cases.positives or bits != (size + 7) // 8):
        return  # an error that only a bits column can have
    if len(cases.scores_f64le) % 8 or "zeros after the last row" in message:
        return
    with pytest.raises(InvalidInputError) as refused:
        Evaluator().add_cases(**columns_of(cases))
    assert message == str(refused.value)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_messages_keeps_the_count_of_sequences(target, hostile, seed):
    """Repeated opens, batches before them and sequences out of order follow a model."""
    rng = hostile.rng
    stream = f"order/{seed}"
    producers = (f"p{seed}", f"é\0\N{RIGHT-TO-LEFT OVERRIDE}{seed}", f"{seed}" * 128)
    # A high epoch fences a producer for good, so there are several.
    producers += tuple(f"p{seed}.{number}" for number in range(5))
    marks: dict[str, tuple[int, int]] = {}
    cases = pb.Cases(scores=[0.5], positives=[True])
    counted = 0
    for _ in range(80):
        producer, epoch = rng.choice(producers), rng.choice((0,) * 40 + (1,) * 9 + (2, 2**63 - 1))
        frames = [pb.IngestRequest(open=pb.Open(producer=producer, epoch=epoch))]
        known, last = marks.get(producer, (epoch, 0))
        fenced = known > epoch
        last = last if known == epoch else 0
        ok = not fenced
        if not fenced:
            marks[producer] = epoch, last  # opening fences older epochs at once
        for _ in range(rng.choice((0, 1, 3, 6))):
            if rng.random() < 0.06:
                frames.append(rng.choice((frames[0], pb.IngestRequest())))
                ok = False
                continue
            offset = rng.choice((1, 1, 1, 1, 0, -1, 2, 2**63 - 1))
            sequence = max(last + offset, 0) % 2**64
            frames.append(
                pb.IngestRequest(batch=pb.Batch(sequence=sequence, stream=stream, cases=cases))
            )
            if not ok:
                continue
            if sequence == last + 1:
                last, counted = sequence, counted + 1
                marks[producer] = epoch, last
            ok = 1 <= sequence <= last
        answer = target.call(INGEST, [frame.SerializeToString() for frame in frames])
        target.check(INGEST, answer)
        assert (answer.code is grpc.StatusCode.OK) == ok, answer
        if fenced:
            assert answer.code is grpc.StatusCode.FAILED_PRECONDITION
        else:
            resume = pb.IngestResponse.FromString(answer.replies[0])
            assert resume.HasField("resume")
    assert state(target, stream).num_cases == counted > 10


@pytest.mark.parametrize("epoch", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("sequence", [0, 1, 2, 2**63 - 1, 2**63, 2**64 - 1])
def test_epochs_and_sequences_at_their_ends(target, epoch, sequence):
    """Only sequence 1 of an epoch that the log can store is accepted first."""
    producer = f"ends-{epoch}-{sequence}"
    cases = pb.Cases(scores=[0.5], positives=[True])
    batch = pb.Batch(sequence=sequence, stream="ends", cases=cases)
    request = pb.IngestBatchRequest(producer=producer, epoch=epoch, batch=batch)
    before = state(target, "ends").num_cases
    answer = target.call(BATCH, [request.SerializeToString()])
    target.check(BATCH, answer)
    good = sequence == 1 and epoch < 2**63
    assert (answer.code is grpc.StatusCode.OK) == good
    assert state(target, "ends").num_cases == before + good


def test_any_text_names_a_stream_or_is_refused(target, texts):
    """A created stream is listed by its exact name; two names are two streams."""
    made = set()
    for text in texts:
        request = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=text))
        answer = target.call(STREAM + "CreateStream", [request.SerializeToString()])
        target.check(STREAM, answer)
        if answer.code is grpc.StatusCode.OK:
            made.add(text)
        else:
            refusals = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS
            assert answer.code in refusals
    assert made
    assert all(name.isascii() and name.isprintable() for name in made)
    for prefix in texts:
        request = stream_pb2.ListStreamsRequest(prefix=prefix, page_size=1000)
        answer = target.call(STREAM + "ListStreams", [request.SerializeToString()])
        target.check(STREAM, answer)
        listed = stream_pb2.ListStreamsResponse.FromString(answer.replies[0]).streams
        names = {stream.name for stream in listed}
        assert {name for name in made if name.startswith(prefix)} <= names
        assert all(name.startswith(prefix) for name in names)
    for name in made:
        request = stream_pb2.DeleteStreamRequest(name=name)
        answer = target.call(STREAM + "DeleteStream", [request.SerializeToString()])
        assert answer.code is grpc.StatusCode.OK


def test_any_text_is_a_producer_of_its_own(target, texts):
    """No two producers are confused by case, normal form or a zero byte."""
    cases = pb.Cases(scores=[0.5], positives=[True])
    batch = pb.Batch(sequence=1, stream="producers", cases=cases)
    expected = 0
    for text in texts:
        request = pb.IngestBatchRequest(producer=text, epoch=1, batch=batch)
        answer = target.call(BATCH, [request.SerializeToString()])
        target.check(BATCH, answer)
        good = 0 < len(text.encode()) <= 128
        assert (answer.code is grpc.StatusCode.OK) == good
        expected += good
        if good:
            assert not pb.IngestBatchResponse.FromString(answer.replies[0]).duplicate
    assert state(target, "producers").num_cases == expected > 20


def long_texts(texts) -> tuple[str, ...]:
    """Return the texts, and some of a megabyte."""
    return (*texts, "x" * (1 << 20), "\N{PILE OF POO}" * (1 << 18))


def send(target, batch: pb.Batch) -> grpc.StatusCode:
    """Send one batch; return its status code."""
    request = pb.IngestBatchRequest(batch=batch)
    answer = target.call(BATCH, [request.SerializeToString()])
    target.check(BATCH, answer)
    return answer.code


def test_any_text_is_an_id_of_its_own(target, texts):
    """An id joins its own label only; empty and long ids are refused with their row."""
    good = [text for text in texts if 0 < len(text.encode()) <= 128]
    for text in long_texts(texts):
        for rows in (
            {"predictions": pb.Predictions(ids=["a", text], scores=[0.1, 0.2])},
            {"labels": pb.Labels(ids=["a", text], positives=[True, False])},
            {"retractions": pb.Retractions(ids=["a", text])},
        ):
            request = pb.IngestBatchRequest(batch=pb.Batch(stream="texts", **rows))
            answer = target.call(BATCH, [request.SerializeToString()])
            target.check(BATCH, answer)
            assert (answer.code is grpc.StatusCode.OK) == (text in good)
            assert answer.code is grpc.StatusCode.OK or "index 1" in answer.message
    scores = [row / 64 for row in range(len(good))]
    predictions = pb.Predictions(ids=good, scores=scores)
    assert send(target, pb.Batch(stream="ids", predictions=predictions)) is grpc.StatusCode.OK
    labels = pb.Labels(ids=good[::-1], positives=[row % 2 == 0 for row in range(len(good))][::-1])
    assert send(target, pb.Batch(stream="ids", labels=labels)) is grpc.StatusCode.OK
    expected = Evaluator()
    expected.add_cases(labels=[row % 2 == 0 for row in range(len(good))], scores=scores)
    assert content(state(target, "ids")) == content(expected)


def test_any_text_is_a_segment_of_its_own(target, texts):
    """Cases of a value are found under exactly this value."""
    made = stream_pb2.Stream(name="segments")
    made.settings.segment_keys.append("k")
    request = stream_pb2.CreateStreamRequest(stream=made)
    target.call(STREAM + "CreateStream", [request.SerializeToString()])
    good = {}
    for row, text in enumerate(long_texts(texts)):
        column = pb.SegmentColumn(key="k", values=[text], codes=[0])
        cases = pb.Cases(scores=[row / 64], positives=[True], segments=[column])
        code = send(target, pb.Batch(stream="segments", cases=cases))
        assert (code is grpc.StatusCode.OK) == (
            len(text.encode()) <= 128 and text != "__other__"
        ), text
        if code is grpc.StatusCode.OK and text:  # an empty value is no value
            good[text] = row / 64
    assert len(good) > 20
    for text, score in good.items():
        chosen = types_pb2.Selection(
            stream="segments", segment=types_pb2.Segment(key="k", value=text)
        )
        request = query_pb2.GetStateRequest(selection=chosen)
        answer = target.call(STATE, [request.SerializeToString()])
        target.check(STATE, answer)
        pieces = [query_pb2.GetStateResponse.FromString(reply).data for reply in answer.replies]
        found = Evaluator.from_bytes(b"".join(pieces))
        assert found.operating_points().thresholds.tolist()[1:] == [score], text


def test_misses_at_their_ends(target, hostile):
    """The stream's total stays below 2**62, or the batch is refused and nothing changes."""
    stream, local = "misses", [0, 0]
    for _ in range(60):
        counts = [hostile.rng.choice(COUNTS) for _ in range(2)]
        misses = pb.Misses(positives=counts[0], negatives=counts[1])
        request = pb.IngestBatchRequest(batch=pb.Batch(stream=stream, misses=misses))
        answer = target.call(BATCH, [request.SerializeToString()])
        target.check(BATCH, answer)
        assert (answer.code is grpc.StatusCode.OK) == (sum(counts) + sum(local) < 2**62)
        if answer.code is grpc.StatusCode.OK:
            local = [before + count for before, count in zip(local, counts, strict=True)]
        there = state(target, stream)
        assert [there.num_misses, there.num_negative_misses] == local


QUERY = "/streameval.v1.QueryService/"
SPAN = Duration(seconds=3600)
TIMES = [
    (seconds, nanos)
    for seconds in (0, 1, -(2**63), 2**63 - 1, 10**12, -1)
    for nanos in (0, -1, 10**9, -(2**31), 2**31 - 1)
]


@pytest.mark.parametrize(("seconds", "nanos"), TIMES)
def test_times_and_durations_at_their_ends(target, seconds, nanos):
    """An invalid or out-of-range time or duration is refused by its field."""
    odd, point = (kind(seconds=seconds, nanos=nanos) for kind in (Duration, Timestamp))
    between = types_pb2.TimeRange(start_time=point, end_time=Timestamp(seconds=1_800_000_000))
    since = types_pb2.TimeRange(start_time=Timestamp(seconds=1), end_time=point)
    selections = [
        types_pb2.Selection(stream="s", last=odd),
        types_pb2.Selection(stream="s", half_life=odd),
        types_pb2.Selection(stream="s", last=SPAN, mature_after=odd),
        types_pb2.Selection(stream="s", between=between),
        types_pb2.Selection(stream="s", between=since),
    ]
    sound = types_pb2.TimeRange(start_time=Timestamp(), end_time=Timestamp(seconds=3600))
    asked = types_pb2.Selection(stream="s", between=sound)
    requests = [
        *((query_pb2.GetSnapshotRequest(selection=chosen), "GetSnapshot") for chosen in selections),
        (query_pb2.ListWindowsRequest(selection=asked, step=odd), "ListWindows"),
        (query_pb2.WatchSnapshotRequest(selection=asked, min_interval=odd), "WatchSnapshot"),
    ]
    for request, method in requests:
        answer = target.call(QUERY + method, [request.SerializeToString()])
        target.check(QUERY + method, answer)
        good = {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}
        assert answer.code in good, (request, answer)
        if abs(seconds) > 10**12 or abs(nanos) >= 10**9:
            assert answer.code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_stream_may_hold_too_much_to_be_weighted_by_age(target):
    """2**60 references cannot have weights of up to 2**16; other queries still answer."""
    misses = pb.Misses(positives=2**60)
    cases = pb.Cases(scores=[0.5, 0.6], positives=[True, False], counts=[2**60, 5])
    for rows in ({"misses": misses}, {"cases": cases}):
        request = pb.IngestBatchRequest(batch=pb.Batch(stream="large", **rows))
        answer = target.call(BATCH, [request.SerializeToString()])
        assert answer.code is grpc.StatusCode.OK
    for half_life in (True, False):
        chosen = types_pb2.Selection(stream="large")
        (chosen.half_life if half_life else chosen.last).CopyFrom(SPAN)
        request = query_pb2.GetSnapshotRequest(selection=chosen)
        answer = target.call(QUERY + "GetSnapshot", [request.SerializeToString()])
        target.check(QUERY, answer)
        refused = answer.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refused == half_life, answer
